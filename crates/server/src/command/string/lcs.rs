//! The longest common subsequence of two strings.

use crate::command::{Answer, Call, integer, is};
use crate::error::CommandError;

/// What is answered.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    length_only: bool,
    positions: bool,
    with_lengths: bool,
    run_min: i64,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is(word, "len") {
                options.length_only = true;
            } else if is(word, "idx") {
                options.positions = true;
            } else if is(word, "withmatchlen") {
                options.with_lengths = true;
            } else if is(word, "minmatchlen") {
                let argument = words.next().ok_or(CommandError::Syntax)?;
                options.run_min = integer(argument)?.max(0);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if options.length_only && options.positions {
            return Err(CommandError::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// Bytes of memory that a comparison may take.
const TABLE_BYTES_MAX: usize = 512 << 20;

/// For each pair of prefixes whether the longest subsequence is that of the pair without the last
/// byte of the first string, rather than of the second: one bit suffices to find the way back.
struct Table {
    bits: Vec<u64>,
    columns: usize,
    length: u32,
}

impl Table {
    fn fill(one: &[u8], two: &[u8], with_bits: bool) -> Result<Table, CommandError> {
        let columns = two.len();
        let too_large = CommandError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        );
        let mut bits = Vec::new();
        if with_bits {
            let words = (one.len() as u128 * columns as u128).div_ceil(64);
            if words * 8 > TABLE_BYTES_MAX as u128 {
                return Err(too_large);
            }
            bits.resize(words as usize, 0);
        }
        if columns * size_of::<u32>() > TABLE_BYTES_MAX {
            return Err(too_large);
        }
        let mut row = vec![0_u32; columns];
        let mut place = 0;
        for &byte in one {
            // The lengths above and to the left, and of the prefixes without either byte.
            let (mut left, mut diagonal) = (0, 0);
            for (length, &other) in row.iter_mut().zip(two) {
                let above = *length;
                let here = if byte == other {
                    diagonal + 1
                } else {
                    if above > left
                        && let Some(word) = bits.get_mut(place / 64)
                    {
                        *word |= 1 << (place % 64);
                    }
                    above.max(left)
                };
                *length = here;
                (left, diagonal) = (here, above);
                place += 1;
            }
        }
        Ok(Table {
            bits,
            columns,
            length: row.last().copied().unwrap_or(0),
        })
    }

    fn goes_up(&self, row: usize, column: usize) -> bool {
        let place = row * self.columns + column;
        self.bits
            .get(place / 64)
            .is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Calls `visit` with the positions of each common byte, from the last to the first.
    fn walk_back(&self, one: &[u8], two: &[u8], mut visit: impl FnMut(usize, usize)) {
        let (mut rows, mut columns) = (one.len(), two.len());
        while rows > 0 && columns > 0 {
            let (row, column) = (rows - 1, columns - 1);
            if one.get(row) == two.get(column) {
                visit(row, column);
                (rows, columns) = (row, column);
            } else if self.goes_up(row, column) {
                rows = row;
            } else {
                columns = column;
            }
        }
    }
}

/// Bytes that follow each other in both strings.
#[derive(Clone, Copy)]
struct RunOfBytes {
    one: usize,
    two: usize,
    length: usize,
}

pub(super) fn lcs(call: &mut Call<'_>) -> Answer {
    let strings = |error| match error {
        CommandError::WrongType => {
            CommandError::text("ERR The specified keys must contain string values")
        }
        other => other,
    };
    let one = call.keys.string(call.args[1]).map_err(strings)?;
    let two = call.keys.string(call.args[2]).map_err(strings)?;
    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
    let options = Options::parse(call.rest(3))?;
    let table = Table::fill(&one, &two, !options.length_only)?;
    if options.length_only {
        call.reply.integer(i64::from(table.length));
        return Ok(());
    }
    if !options.positions {
        let mut common = Vec::with_capacity(table.length as usize);
        table.walk_back(&one, &two, |row, _| common.extend(one.get(row)));
        common.reverse();
        call.reply.bulk(&common);
        return Ok(());
    }
    let mut runs: Vec<RunOfBytes> = Vec::new();
    table.walk_back(&one, &two, |row, column| match runs.last_mut() {
        Some(run) if run.one == row + 1 && run.two == column + 1 => {
            *run = RunOfBytes {
                one: row,
                two: column,
                length: run.length + 1,
            };
        }
        _ => runs.push(RunOfBytes {
            one: row,
            two: column,
            length: 1,
        }),
    });
    runs.retain(|run| run.length as i64 >= options.run_min);
    call.reply.map(2);
    call.reply.bulk(b"matches");
    call.reply.array(runs.len());
    for run in runs {
        call.reply.array(2 + usize::from(options.with_lengths));
        for start in [run.one, run.two] {
            call.reply.array(2);
            call.reply.count(start);
            call.reply.count(start + run.length - 1);
        }
        if options.with_lengths {
            call.reply.count(run.length);
        }
    }
    call.reply.bulk(b"len");
    call.reply.integer(i64::from(table.length));
    Ok(())
}
