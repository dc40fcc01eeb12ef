//! Why bytes are not a code.

/// Bytes that are not a code of the type asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a code at byte {position}: {reason}")]
pub struct DecodeError {
    /// The byte at which decoding stopped, from 0.
    pub position: usize,
    /// What is wrong there.
    pub reason: DecodeReason,
}

/// What is wrong with the bytes at the position of a [`DecodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeReason {
    /// The code ends within a value.
    #[error("{missing} more bytes expected")]
    Truncated {
        /// How many bytes the value needs at least beyond the end.
        missing: usize,
    },
    /// The code goes on after the value.
    #[error("{count} bytes follow the value")]
    TrailingBytes {
        /// How many bytes follow.
        count: usize,
    },
    /// A `bool` or the tag of an `Option` is neither 0 nor 1.
    #[error("{byte:#04x} is neither 0 nor 1")]
    InvalidTag {
        /// The byte found, as it was before a [`Reverse`](std::cmp::Reverse) inverted it.
        byte: u8,
    },
    /// A zero byte of a string is followed by neither `FF` (a zero) nor `00` (the end).
    #[error("{byte:#04x} after a zero byte, neither an escaped zero nor the end of the string")]
    InvalidEscape {
        /// The byte found, as it was before a [`Reverse`](std::cmp::Reverse) inverted it.
        byte: u8,
    },
    /// The bytes of a `String` are not UTF-8. The position is that of the string's code.
    #[error("the string that starts here is not UTF-8 after its first {valid_bytes} bytes")]
    InvalidUtf8 {
        /// How many bytes of the string, unescaped, are valid.
        valid_bytes: usize,
    },
}
