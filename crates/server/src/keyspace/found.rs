//! The facts about a key that its record alone holds.

use super::{Outside, ValueRecord};
use crate::object::RedisType;

/// The facts about a key that are known without opening its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMetadata {
    /// The type.
    pub kind: RedisType,
    /// True if the string was changed in place.
    pub raw: bool,
    /// The time at which the key expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// The location of the object, or of a string that is not stored in the index.
    pub outside: Option<Outside>,
}

impl KeyMetadata {
    /// Returns true if it is a string that is not stored in the index, or was changed in place.
    pub fn is_raw(&self) -> bool {
        self.raw || matches!(self.outside, Some(Outside::Slot(_)))
    }
}

impl From<ValueRecord<'_>> for KeyMetadata {
    fn from(record: ValueRecord<'_>) -> KeyMetadata {
        KeyMetadata {
            kind: record.kind,
            raw: record.raw,
            expires_at_ms: record.expires_at_ms,
            outside: record.outside(),
        }
    }
}
