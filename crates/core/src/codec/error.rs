//! The reasons why bytes are not a code.

use std::fmt::{self, Display, Formatter};

/// Bytes that are not a code of the type asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError {
    /// The byte at which decoding stopped, from 0.
    pub position: usize,
    /// The fault at this position.
    pub reason: DecodeReason,
}

/// The fault of the bytes at the position of a [`CodecError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeReason {
    /// The code ends within a value.
    Truncated {
        /// Least number of bytes that the value lacks.
        missing: usize,
    },
    /// The code continues after the value.
    TrailingBytes {
        /// Number of bytes that follow.
        count: usize,
    },
    /// A tag, of a `bool` or an `Option`, that is neither 0 nor 1.
    InvalidTag {
        /// The byte found, as it was before a [`Reverse`](std::cmp::Reverse) inverted it.
        byte: u8,
    },
    /// A zero byte of a string is followed by neither `FF` (a zero) nor `00` (the end).
    InvalidEscape {
        /// The byte found, as it was before a [`Reverse`](std::cmp::Reverse) inverted it.
        byte: u8,
    },
    /// The bytes of a `String` are not UTF-8. The position is that of the string's code.
    InvalidUtf8 {
        /// Number of bytes of the unescaped string that are valid UTF-8.
        valid_bytes: usize,
    },
}

impl Display for CodecError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let CodecError { position, reason } = self;
        write!(f, "not a code at byte {position}: {reason}")
    }
}

impl std::error::Error for CodecError {}

impl Display for DecodeReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DecodeReason::Truncated { missing } => write!(f, "{missing} more bytes expected"),
            DecodeReason::TrailingBytes { count } => write!(f, "{count} bytes follow the value"),
            DecodeReason::InvalidTag { byte } => write!(f, "{byte:#04x} is neither 0 nor 1"),
            DecodeReason::InvalidEscape { byte } => write!(
                f,
                "{byte:#04x} after a zero byte, neither an escaped zero nor the end of the string"
            ),
            DecodeReason::InvalidUtf8 { valid_bytes } => write!(
                f,
                "the string that starts here is not UTF-8 after its first {valid_bytes} bytes"
            ),
        }
    }
}

impl std::error::Error for DecodeReason {}
