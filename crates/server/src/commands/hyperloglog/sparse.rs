//! The sparse form of registers: runs of equal ones, each in one or two bytes.
//!
//! | bits | run |
//! |---|---|
//! | `00llllll` | `l + 1` empty registers |
//! | `01llllll llllllll` | the same, of up to 16,384 registers |
//! | `1rrrrrll` | `l + 1` registers of rank `r + 1` |
//!
//! A change produces the same runs as in Redis, so that values are the same to the byte.

use super::Corrupt;
use super::registers::REGISTERS;

/// The longest runs of each kind: of empty registers in one byte and in two, and of a rank.
const SHORT_GAP_MAX: usize = 64;
const GAP_MAX: usize = REGISTERS;
const RANKED_MAX: usize = 4;
/// The highest rank that the form can hold.
const RANK_MAX: u8 = 32;
/// The number of runs that are checked after a change, to merge equal neighbors.
const MERGED_RUNS: usize = 5;

/// Consecutive registers of one rank; the rank of empty ones is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HyperLogLogRun {
    pub(super) rank: u8,
    pub(super) length: usize,
}

/// The effect of a change on a sparse form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HyperLogLogUpdate {
    /// No effect, because the register has that rank or a higher one.
    None,
    Done,
    /// No effect, because the value must become dense first.
    TooLarge,
}

impl HyperLogLogRun {
    /// Reads the run at the beginning of `bytes`, and the number of bytes that it takes.
    fn read(bytes: &[u8]) -> Option<(HyperLogLogRun, usize)> {
        match *bytes {
            [byte, ..] if byte & 0x80 != 0 => {
                let (rank, length) = (byte >> 2 & 31, usize::from(byte & 3));
                let run = HyperLogLogRun {
                    rank: rank + 1,
                    length: length + 1,
                };
                Some((run, 1))
            }
            [high, low, ..] if high & 0x40 != 0 => {
                let length = usize::from(high & 63) << 8 | usize::from(low);
                let run = HyperLogLogRun {
                    rank: 0,
                    length: length + 1,
                };
                Some((run, 2))
            }
            [byte, ..] if byte & 0x40 == 0 => {
                let run = HyperLogLogRun {
                    rank: 0,
                    length: usize::from(byte) + 1,
                };
                Some((run, 1))
            }
            _ => None,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        debug_assert!(self.rank <= RANK_MAX, "higher ranks need the dense form");
        debug_assert!(
            self.length <= GAP_MAX && (self.rank == 0 || self.length <= RANKED_MAX),
            "the run fits its bits"
        );
        // An empty part of a divided run is not written, so its wrapped length is not used.
        let length = self.length.wrapping_sub(1);
        match self {
            HyperLogLogRun { length: 0, .. } => {}
            HyperLogLogRun {
                rank: 0,
                length: SHORT_GAP_MAX..,
            } => match self.length {
                // The longest gap of one byte: its length less one still has six bits.
                SHORT_GAP_MAX => out.push(length as u8),
                _ => out.extend([0x40 | (length >> 8) as u8, length as u8]),
            },
            HyperLogLogRun { rank: 0, .. } => out.push(length as u8),
            HyperLogLogRun { rank, .. } => out.push(0x80 | (rank - 1) << 2 | length as u8),
        }
    }
}

/// Returns the form of registers that are all empty.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    let all = HyperLogLogRun {
        rank: 0,
        length: GAP_MAX,
    };
    all.write(&mut bytes);
    bytes
}

/// Returns the runs of a form, each with the index of its first register.
///
/// # Errors
/// The runs have more or fewer registers than a HyperLogLog.
pub(super) fn runs(bytes: &[u8]) -> Result<Vec<(usize, HyperLogLogRun)>, Corrupt> {
    let (mut runs, mut first, mut read) = (Vec::new(), 0, 0);
    for (run, length) in parse(bytes) {
        first += run.length;
        read += length;
        // Checked for each run, because a client may have stored any bytes.
        if first > REGISTERS {
            return Err(Corrupt);
        }
        runs.push((first - run.length, run));
    }
    match first {
        REGISTERS if read == bytes.len() => Ok(runs),
        _ => Err(Corrupt),
    }
}

/// Returns the runs of a form, each with the number of bytes that it takes. Their number is not
/// checked. Ends before bytes that are not a run.
pub(super) fn parse(mut bytes: &[u8]) -> impl Iterator<Item = (HyperLogLogRun, usize)> {
    std::iter::from_fn(move || {
        let (run, length) = HyperLogLogRun::read(bytes)?;
        debug_assert!(length <= bytes.len(), "a run ends within the form");
        bytes = bytes.get(length..).unwrap_or_default();
        Some((run, length))
    })
}

/// Raises a register to a rank, in the form that begins at `start`. All bytes together may be at
/// most `bytes_max`.
///
/// # Errors
/// The form has no such register.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    start: usize,
    (index, rank): (usize, u8),
    bytes_max: usize,
) -> Result<HyperLogLogUpdate, Corrupt> {
    debug_assert!(index < REGISTERS && rank > 0);
    // Redis converts the value then, too.
    if rank > RANK_MAX {
        return Ok(HyperLogLogUpdate::TooLarge);
    }
    let (mut first, mut at, mut before) = (0, start, start);
    let (run, length) = loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let (run, length) = HyperLogLogRun::read(rest).ok_or(Corrupt)?;
        if index < first + run.length {
            break (run, length);
        }
        // The run before may be merged with the changed one.
        before = at;
        at += length;
        first += run.length;
    };
    if run.rank >= rank {
        return Ok(HyperLogLogUpdate::None);
    }
    let mut divided = Vec::with_capacity(5);
    debug_assert!(
        (first..first + run.length).contains(&index),
        "the run has the register"
    );
    let behind = first + run.length - index - 1;
    for part in [
        HyperLogLogRun {
            length: index - first,
            ..run
        },
        HyperLogLogRun { rank, length: 1 },
        HyperLogLogRun {
            length: behind,
            ..run
        },
    ] {
        part.write(&mut divided);
    }
    let grows = divided.len() > length;
    // A value that is too long already may still change in place, as after a lower limit was set.
    if grows && bytes.len() + divided.len() - length > bytes_max {
        return Ok(HyperLogLogUpdate::TooLarge);
    }
    bytes.splice(at..at + length, divided);
    merge(bytes, before);
    Ok(HyperLogLogUpdate::Done)
}

/// Merges neighbors of equal rank among the next few runs.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_RUNS {
        let run = bytes.get(at..).and_then(HyperLogLogRun::read);
        let Some((run, length)) = run else { return };
        if run.rank > 0
            && let Some((next, _)) = bytes.get(at + 1..).and_then(HyperLogLogRun::read)
            && next.rank == run.rank
            && next.length + run.length <= RANKED_MAX
        {
            let mut merged = Vec::new();
            let length = next.length + run.length;
            HyperLogLogRun { length, ..run }.write(&mut merged);
            // Runs of a rank have one byte each.
            debug_assert_eq!(merged.len(), 1);
            bytes.splice(at..at + 2, merged);
        } else {
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn registers_are_raised_as_an_array_would_be() {
        let mut random = SmallRng::seed_from_u64(1);
        for _ in 0..50 {
            let (mut bytes, mut registers) = (empty(), vec![0; REGISTERS]);
            for _ in 0..400 {
                // Half of the registers are near each other.
                let index = match random.random_bool(0.5) {
                    true => random.random_range(0..REGISTERS),
                    false => random.random_range(0..60),
                };
                let rank = random.random_range(1..=4);
                let change = raise(&mut bytes, 0, (index, rank), usize::MAX).unwrap();
                let is_raised = registers[index] < rank;
                assert_eq!(change == HyperLogLogUpdate::Done, is_raised);
                registers[index] = registers[index].max(rank);
                let runs = runs(&bytes).unwrap().into_iter();
                let read: Vec<u8> = runs
                    .flat_map(|(_, run)| std::iter::repeat_n(run.rank, run.length))
                    .collect();
                assert_eq!(read, registers);
            }
        }
    }

    #[test]
    fn forms_of_other_numbers_of_registers_are_refused() {
        for bytes in [&[][..], &[0x7f], &[0x7f, 0xfe], &[0x7f, 0xff, 0], &[0x80]] {
            assert!(runs(bytes).is_err(), "{bytes:?}");
        }
        let mut short = vec![0x80];
        assert!(raise(&mut short, 0, (1, 1), usize::MAX).is_err());
        let change = raise(&mut empty(), 0, (1, RANK_MAX + 1), usize::MAX);
        assert_eq!(change, Ok(HyperLogLogUpdate::TooLarge));
        assert_eq!(
            raise(&mut empty(), 0, (1, 1), 3),
            Ok(HyperLogLogUpdate::TooLarge)
        );
    }
}
