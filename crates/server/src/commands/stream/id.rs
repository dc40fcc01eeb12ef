//! Identifiers of entries in the form in which clients write them.

use crate::error::CommandError;
use crate::object::StreamId;

const INVALID: CommandError =
    CommandError::text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::text("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::text("ERR invalid end ID for the interval");
/// The length above which identifiers are refused.
const LENGTH_MAX: usize = 127;

/// Parses a number as C's `strtoull` does, after Redis has refused those with a minus sign: spaces,
/// a sign and zeros may come first, and a negative number counts down from 2^64.
fn number(text: &[u8]) -> Option<u64> {
    let canonical = crate::number::parse_integer(text);
    // The usual form. A negative number in it is out of range.
    if let Some(number) = canonical {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_space(byte))?;
    let text = &text[start..];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// A written identifier: both numbers, or a time alone, or a time with `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamIdArgument {
    /// A whole identifier.
    Whole(StreamId),
    /// `ms`, without a second number.
    Time(u64),
    /// `ms-*`.
    Next(u64),
}

fn written(argument: &[u8]) -> Result<StreamIdArgument, CommandError> {
    if argument.len() > LENGTH_MAX {
        // Redis copies the argument to a buffer of 128 bytes.
        return Err(INVALID);
    }
    // Redis reads a text up to its first zero byte.
    let text = argument.split(|&byte| byte == 0).next().unwrap_or_default();
    match text.iter().position(|&byte| byte == b'-') {
        None => number(text).map(StreamIdArgument::Time).ok_or(INVALID),
        Some(at) => {
            let ms = number(&text[..at]).ok_or(INVALID)?;
            let seq = &text[at + 1..];
            if seq == b"*" {
                return Ok(StreamIdArgument::Next(ms));
            }
            let seq = number(seq).ok_or(INVALID)?;
            Ok(StreamIdArgument::Whole(StreamId { ms, seq }))
        }
    }
}

/// Parses the identifier of a new entry.
///
/// # Errors
/// The argument does not parse.
pub fn new_id(argument: &[u8]) -> Result<StreamIdArgument, CommandError> {
    written(argument)
}

/// Parses an identifier. Without a second number this is `seq`.
///
/// # Errors
/// The argument does not parse.
pub fn strict(argument: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    match written(argument)? {
        StreamIdArgument::Whole(id) => Ok(id),
        StreamIdArgument::Time(ms) => Ok(StreamId { ms, seq }),
        StreamIdArgument::Next(_) => Err(INVALID),
    }
}

/// Parses the same as [`strict`], and `-` and `+` as the least and the greatest identifier.
///
/// # Errors
/// The argument does not parse.
pub fn any(argument: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    match argument {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        argument => strict(argument, seq),
    }
}

/// Parses a bound of an interval: an identifier, which is excluded from it if it follows `(`.
fn bound(
    argument: &[u8],
    seq: u64,
    beside: fn(StreamId) -> Option<StreamId>,
    invalid: CommandError,
) -> Result<StreamId, CommandError> {
    match argument {
        // Nothing is beside the least or the greatest identifier, so the interval is invalid.
        [b'(', rest @ ..] if !rest.is_empty() => beside(strict(rest, seq)?).ok_or(invalid),
        argument => any(argument, seq),
    }
}

/// Parses the first identifier of an interval.
///
/// # Errors
/// The argument does not parse.
pub fn start(argument: &[u8]) -> Result<StreamId, CommandError> {
    bound(argument, 0, StreamId::next, INVALID_START)
}

/// Parses the last identifier of an interval.
///
/// # Errors
/// The argument does not parse.
pub fn end(argument: &[u8]) -> Result<StreamId, CommandError> {
    bound(argument, u64::MAX, StreamId::previous, INVALID_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_as_redis_reads_them() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        for (text, expected) in [
            (&b"5-3"[..], id(5, 3)),
            (b"5", id(5, 9)),
            (b"05-007", id(5, 7)),
            (b" 5-+3", id(5, 3)),
            (
                b"18446744073709551615-18446744073709551615",
                Some(StreamId::MAX),
            ),
            (b"1--05", id(1, u64::MAX - 4)),
            (b"5\0-3", id(5, 9)),
            (b"18446744073709551616", None),
            (b"1--5", None),
            (b"-", None),
            (b"+", None),
            (b"", None),
            (b"5-", None),
            (b"5-3 ", None),
            (b"5-*", None),
            (&[b'1'; 128], None),
        ] {
            assert_eq!(strict(text, 9).ok(), expected, "{}", text.escape_ascii());
        }
        assert_eq!(new_id(b"7-*"), Ok(StreamIdArgument::Next(7)));
        assert_eq!(start(b"(5-3").ok(), id(5, 4));
        assert_eq!(end(b"(5-0").ok(), id(4, u64::MAX));
        assert_eq!(end(b"(0-0"), Err(INVALID_END));
        assert_eq!([start(b"("), start(b"(-")], [Err(INVALID), Err(INVALID)]);
        assert_eq!(end(b"+"), Ok(StreamId::MAX));
    }
}
