//! Parsers of arguments that several families of commands share.

use super::integer;
use crate::error::CommandError;
use crate::number::parse_double;
use std::ops::Range;

/// Returns the existing positions from `start` to `stop`, both included, of `len` elements.
/// Negative positions count from the end.
pub fn positions(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_begin = |position: i64| match position {
        ..0 => position.saturating_add(len).max(-1),
        _ => position,
    };
    let start = from_begin(start).max(0).min(len);
    // A `stop` before `start` gives an empty range, which is no error in Redis.
    let end = from_begin(stop).saturating_add(1).clamp(start, len);
    start as usize..end as usize
}

/// Returns the position of one of `len` elements. A negative one counts from the end.
pub fn position(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// Parses a timeout in seconds, and returns it in milliseconds. 0 means no timeout.
///
/// # Errors
/// The argument is not a number, negative, or too large.
pub fn timeout_ms(argument: &[u8]) -> Result<u64, CommandError> {
    const NO_FLOAT: CommandError = CommandError::text("ERR timeout is not a float or out of range");
    const OUT_OF_RANGE: CommandError = CommandError::text("ERR timeout is out of range");
    /// The longest timeout, such that its end fits in 64 bits.
    const MS_MAX: f64 = (i64::MAX / 2) as f64;
    let ms = parse_double(argument).ok_or(NO_FLOAT)? * 1000.0;
    if ms > MS_MAX {
        return Err(OUT_OF_RANGE);
    }
    // Rounding upwards keeps a small timeout from becoming 0, which would mean none.
    if ms.ceil() < 0.0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    Ok(ms.ceil() as u64)
}

/// Arguments as they were sent.
pub type Words<'a> = &'a [&'a [u8]];

/// Splits `arguments`, of which the first is a number of keys, into these keys and the arguments
/// after them.
///
/// # Errors
/// `refused` if the number does not parse or is not positive; `Syntax` if there are fewer keys.
pub fn counted_keys<'a>(
    arguments: Words<'a>,
    refused: CommandError,
) -> Result<(Words<'a>, Words<'a>), CommandError> {
    let (count, rest) = arguments.split_first().ok_or(CommandError::Syntax)?;
    let count = integer(count).ok().filter(|&count| count > 0);
    let count = usize::try_from(count.ok_or(refused)?).unwrap_or(usize::MAX);
    rest.split_at_checked(count).ok_or(CommandError::Syntax)
}

/// Parses a number that must not be negative.
///
/// # Errors
/// `NotPositive`.
pub fn count(argument: &[u8]) -> Result<usize, CommandError> {
    let count = integer(argument).ok().map(usize::try_from);
    match count {
        Some(Ok(count)) => Ok(count),
        _ => Err(CommandError::NotPositive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_cut_at_both_ends() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-100, 1, 0..2),
            (3, 100, 3..5),
            (i64::MIN, i64::MAX, 0..5),
        ] {
            assert_eq!(positions(start, stop, 5), expected, "{start} {stop}");
        }
        for (start, stop) in [(3, 1), (5, 9), (0, -6), (0, i64::MIN), (i64::MAX, i64::MAX)] {
            assert!(positions(start, stop, 5).is_empty(), "{start} {stop}");
        }
        assert_eq!(position(-5, 5), Some(0));
        assert_eq!(
            [position(-6, 5), position(5, 5), position(i64::MIN, 5)],
            [None; 3]
        );
    }

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        assert_eq!(timeout_ms(b"0"), Ok(0));
        assert_eq!(timeout_ms(b"0.0001"), Ok(1));
        assert_eq!(timeout_ms(b"1.5"), Ok(1500));
        for refused in [&b"-1"[..], b"inf", b"1e300", b"nan", b"a", b""] {
            assert!(timeout_ms(refused).is_err());
        }
    }
}
