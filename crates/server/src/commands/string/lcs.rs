//! The command that finds the longest common subsequence of two strings.

use crate::command::{Answer, CommandCall, integer, is};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::steps;
use std::sync::atomic::Ordering::Relaxed;

/// The options for the reply.
#[derive(Clone, Copy, Debug, Default)]
struct LcsOptions {
    length_only: bool,
    positions: bool,
    with_lengths: bool,
    run_min: i64,
}

impl LcsOptions {
    fn parse(words: &[&[u8]]) -> Result<LcsOptions, CommandError> {
        let mut options = LcsOptions::default();
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

/// The largest table that Redis allows, in bytes: it has four bytes for each pair of prefixes. This
/// server's table has one bit instead.
const TABLE_BYTES_MAX: u64 = 512 << 20;

/// Refuses strings that would take too long to compare, as Redis does.
fn check_lengths(call: &CommandCall<'_>, lengths: [usize; 2]) -> Answer {
    let limit = call.server.config.hot.argument_bytes_max.load(Relaxed);
    let pairs = lengths
        .map(|length| length as u128 + 1)
        .iter()
        .product::<u128>();
    if pairs * 4 > u128::from(limit.min(TABLE_BYTES_MAX)) {
        return Err(CommandError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    Ok(())
}

/// A table of the positions at which the longest common subsequence grows. For each prefix of the
/// first string there is a row, and for each byte of the second string a column. A bit is 0 if the
/// subsequence of the two prefixes that end there grows at this byte. That suffices to find the
/// common bytes backwards.
///
/// A row is computed from the one before with a few operations on words of 64 columns (Hyyrö 2004).
struct LcsTable {
    rows: Vec<u64>,
    words: usize,
    length: usize,
}

impl LcsTable {
    fn fill(one: &[u8], two: &[u8], with_rows: bool) -> LcsTable {
        const NONE: usize = usize::MAX;
        let words = two.len().div_ceil(64);
        // For each byte of the first string, a mask of its positions in the second one.
        let mut masks: Vec<u64> = Vec::new();
        let mut starts = [NONE; 256];
        for &byte in one {
            if let Some(start) = starts
                .get_mut(byte as usize)
                .filter(|start| **start == NONE)
            {
                *start = masks.len();
                masks.resize(masks.len() + words, 0);
            }
        }
        for (column, &byte) in two.iter().enumerate() {
            let start = starts.get(byte as usize).copied().unwrap_or(NONE);
            // A byte that the first string lacks has no mask: its position is out of range.
            if let Some(word) = masks.get_mut(start.saturating_add(column / 64)) {
                *word |= 1 << (column % 64);
            }
        }
        let mut row = vec![u64::MAX; words];
        let mut rows = Vec::new();
        rows.reserve_exact(if with_rows { one.len() * words } else { 0 });
        for &byte in one {
            steps::count(words);
            let start = starts.get(byte as usize).copied().unwrap_or(NONE);
            let mask = masks.get(start..).unwrap_or_default();
            let mut carry = false;
            for (word, mask) in row.iter_mut().zip(mask) {
                // The carry links the words of a row, as if they were one long number.
                let (sum, over) = word.overflowing_add(*word & mask);
                let (sum, over_again) = sum.overflowing_add(u64::from(carry));
                carry = over | over_again;
                *word = sum | (*word & !mask);
            }
            if with_rows {
                rows.extend_from_slice(&row);
            }
        }
        // After the last column no bit is ever 0, because no byte is there.
        let length = row.iter().map(|word| word.count_zeros() as usize).sum();
        LcsTable {
            rows,
            words,
            length,
        }
    }

    fn goes_up(&self, row: usize, column: usize) -> bool {
        debug_assert!(
            row * self.words + column / 64 < self.rows.len(),
            "only a table with rows is walked"
        );
        let word = self.rows.get(row * self.words + column / 64);
        word.is_some_and(|word| word >> (column % 64) & 1 == 0)
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

/// Consecutive bytes that are common to both strings.
#[derive(Clone, Copy)]
struct RunOfBytes {
    one: usize,
    two: usize,
    length: usize,
}

pub(super) fn lcs(call: &mut CommandCall<'_>) -> Answer {
    let strings = |error| match error {
        CommandError::WrongType => {
            CommandError::text("ERR The specified keys must contain string values")
        }
        other => other,
    };
    let mut lengths = [0; 2];
    for (length, &key) in lengths.iter_mut().zip(call.rest(1)) {
        let read = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
        *length = call.keys.read_string(key, read).map_err(strings)?;
    }
    // As in Redis, the types of the keys are checked before the options.
    let options = LcsOptions::parse(call.rest(3))?;
    // The strings are copied only after this.
    check_lengths(call, lengths)?;
    let one = call.keys.string(call.args[1])?.unwrap_or_default();
    let two = call.keys.string(call.args[2])?.unwrap_or_default();
    let table = LcsTable::fill(&one, &two, !options.length_only);
    if options.length_only {
        call.reply.count(table.length);
        return Ok(());
    }
    if !options.positions {
        let mut common = Vec::with_capacity(table.length);
        table.walk_back(&one, &two, |row, _| common.extend(one.get(row)));
        debug_assert_eq!(common.len(), table.length);
        common.reverse();
        call.reply.bulk(&common);
        return Ok(());
    }
    let mut runs: Vec<RunOfBytes> = Vec::new();
    table.walk_back(&one, &two, |row, column| match runs.last_mut() {
        // The walk goes backwards, so a run grows at its beginning.
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
    call.reply.count(table.length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    /// Returns the positions of the common bytes, computed by the full table of lengths as in
    /// Redis.
    fn walked_plainly(one: &[u8], two: &[u8]) -> Vec<(usize, usize)> {
        let mut lengths = vec![vec![0; two.len() + 1]; one.len() + 1];
        for (i, a) in one.iter().enumerate() {
            for (j, b) in two.iter().enumerate() {
                lengths[i + 1][j + 1] = match a == b {
                    true => lengths[i][j] + 1,
                    false => lengths[i][j + 1].max(lengths[i + 1][j]),
                };
            }
        }
        let (mut i, mut j, mut walked) = (one.len(), two.len(), Vec::new());
        while i > 0 && j > 0 {
            if one[i - 1] == two[j - 1] {
                walked.push((i - 1, j - 1));
                (i, j) = (i - 1, j - 1);
            } else if lengths[i - 1][j] > lengths[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        walked
    }

    #[test]
    fn the_way_back_is_that_of_redis() {
        let random = &mut SmallRng::seed_from_u64(1);
        for round in 0..600 {
            let most = if round % 10 == 0 { 400 } else { 140 };
            let mut some = || -> Vec<u8> {
                let length = random.random_range(0..most);
                (0..length)
                    .map(|_| random.random_range(b'a'..b'e'))
                    .collect()
            };
            let (one, two) = (some(), some());
            let table = LcsTable::fill(&one, &two, true);
            let mut walked = Vec::new();
            table.walk_back(&one, &two, |row, column| walked.push((row, column)));
            assert_eq!(walked, walked_plainly(&one, &two), "{one:?} {two:?}");
            assert_eq!(table.length, walked.len());
        }
    }
}
