//! The errors that an index can report.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};

/// The reason why an operation or a batch was refused. A refused operation changes nothing, with
/// two exceptions: after [`Unknown`](OperationError::Unknown) its effect is unknown, and after
/// [`Unreadable`](OperationError::Unreadable) it has taken effect unless it needs the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationError {
    /// A key is longer than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES).
    KeyTooLong {
        /// The first bytes of the key, shortened for display.
        start: String,
        /// Length of the key in bytes.
        length: usize,
        /// The greatest length in bytes.
        limit: usize,
    },
    /// A value is longer than [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES).
    ValueTooLong {
        /// The first bytes of the key, shortened for display.
        key: String,
        /// Length of the value in bytes.
        length: usize,
        /// The greatest length in bytes.
        limit: usize,
    },
    /// A batch holds more operations, or more bytes, than one call can take.
    BatchTooLarge {
        /// The given size.
        size: usize,
        /// `operations` or `bytes`.
        unit: &'static str,
        /// The greatest size.
        limit: usize,
    },
    /// Input that must be in strictly ascending order of keys is not.
    NotSorted {
        /// Position of the first key that is not greater than the one before it, from 0.
        position: usize,
        /// The first bytes of the key, shortened for display.
        key: String,
    },
    /// The memory for an entry could not be allocated.
    OutOfMemory {
        /// The entry that was to be stored, and the limit that it exceeds.
        what: String,
    },
    /// The machine that stores the entries cannot be reached.
    Unreachable {
        /// The fault of the connection.
        what: String,
    },
    /// The connection was lost while the operation changed the entries: it may have taken effect or
    /// not.
    Unknown {
        /// The fault of the connection.
        what: String,
    },
    /// The value of an entry cannot be read from where it is stored. A get, an ordered operation or
    /// one that compares with the value fails. An insert or a remove takes effect, so that it
    /// replaces the value; its outcome cannot hold that value.
    Unreadable {
        /// The first bytes of the key, shortened for display.
        key: String,
        /// The fault of the memory or the disk.
        what: String,
    },
}

impl Display for OperationError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            OperationError::KeyTooLong {
                start,
                length,
                limit,
            } => write!(
                f,
                "key starting with {start:?} has {length} bytes, the limit is {limit}"
            ),
            OperationError::ValueTooLong { key, length, limit } => {
                write!(
                    f,
                    "value of key {key:?} has {length} bytes, the limit is {limit}"
                )
            }
            OperationError::BatchTooLarge { size, unit, limit } => write!(
                f,
                "batch of {size} {unit} is too large, the limit is {limit}; split it"
            ),
            OperationError::NotSorted { position, key } => write!(
                f,
                "sorted input is out of order at position {position}: key {key:?}"
            ),
            OperationError::OutOfMemory { what } => write!(f, "out of memory: {what}"),
            OperationError::Unreachable { what } => {
                write!(f, "the entries cannot be reached: {what}")
            }
            OperationError::Unknown { what } => {
                write!(f, "the outcome of the operation is unknown: {what}")
            }
            OperationError::Unreadable { key, what } => {
                write!(f, "the value of key {key:?} cannot be read: {what}")
            }
        }
    }
}

impl std::error::Error for OperationError {}

/// Conversion for operations that cannot fail: it is never called.
impl From<Infallible> for OperationError {
    fn from(never: Infallible) -> OperationError {
        match never {}
    }
}

impl OperationError {
    /// Writes the first bytes of `key` as text, for messages.
    ///
    /// ```
    /// assert_eq!(nearfield_core::OperationError::shorten(b"caf\xff"), "caf\\xff");
    /// let text = nearfield_core::OperationError::shorten(&[b'a'; 100]);
    /// assert_eq!(text, format!("{}…", "a".repeat(32)));
    /// ```
    pub fn shorten(key: &[u8]) -> String {
        const SHOWN_BYTES: usize = 32;
        let shown = &key[..key.len().min(SHOWN_BYTES)];
        let ellipsis = if shown.len() < key.len() { "…" } else { "" };
        // Escaped, because a key may have any bytes, also those that control a terminal.
        format!("{}{ellipsis}", shown.escape_ascii())
    }
}
