//! What is known of a key by its record alone.

use super::{Outside, Record};
use crate::object::Kind;

/// What is known of a key without opening its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The type.
    pub kind: Kind,
    /// Whether the string was changed in place.
    pub raw: bool,
    /// When the key expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// Where the object lies, or a string that does not lie in the index.
    pub outside: Option<Outside>,
}

impl Found {
    /// True if it is a string that does not lie in the index, or has been changed in place.
    pub fn is_raw(&self) -> bool {
        self.raw || matches!(self.outside, Some(Outside::Slot(_)))
    }
}

impl From<Record<'_>> for Found {
    fn from(record: Record<'_>) -> Found {
        Found {
            kind: record.kind,
            raw: record.raw,
            expires_at_ms: record.expires_at_ms,
            outside: record.outside(),
        }
    }
}
