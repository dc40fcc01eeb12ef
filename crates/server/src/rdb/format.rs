//! The numbers of the format, and the values it holds.

use super::error::{RdbError, RdbResult};
use crate::object::stream::StreamParts;
use std::ops::RangeInclusive;

pub(super) const MAGIC: &[u8] = b"REDIS";
/// The first bytes of snapshots of Valkey from version 80 on.
pub(super) const VALKEY_MAGIC: &[u8] = b"VALKEY";

/// The versions that are read. Redis 7.4 and 8 write version 12, 7.2 and Valkey 8 write 11, 7.0
/// writes 10.
pub(super) const READ_VERSIONS: RangeInclusive<u32> = 1..=12;
/// The version that Valkey 9 writes, which is never one of Redis.
pub(super) const VALKEY_VERSION: u32 = 80;
pub(super) const READ_VALKEY_VERSIONS: RangeInclusive<u32> = VALKEY_VERSION..=VALKEY_VERSION;
/// The version of a payload with a feature that version 10 lacks.
pub(super) const TIMED_VERSION: u32 = 12;
/// The versions that can be written. The written data do not differ between them, so that the
/// oldest, which every Redis 7 reads, is the best choice.
pub(super) const WRITE_VERSIONS: RangeInclusive<u32> = 10..=12;
/// The latest time, in ms since 1970, that all forms hold: some are signed. No date reaches it.
pub(super) const TIME_MS_MAX: u64 = i64::MAX as u64;
/// The first version with a checksum. Files of earlier versions end with [`opcode::EOF`].
pub(super) const CHECKSUM_SINCE: u32 = 5;

/// The target server of hashes with fields that expire. All other values have one form that both
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis from 7.4 on.
    #[default]
    Redis,
    /// Valkey from 9 on.
    Valkey,
}

impl Dialect {
    /// Returns the type of hashes with fields that expire.
    pub(super) fn kind_of_timed_hash(self) -> u8 {
        match self {
            Dialect::Redis => kind::HASH_EXPIRING,
            Dialect::Valkey => kind::HASH_OF_VALKEY,
        }
    }
}

/// Refuses a version that is not within `accepted`.
pub(super) fn check_version(
    version: u32,
    accepted: RangeInclusive<u32>,
    offset: u64,
) -> RdbResult<u32> {
    if accepted.contains(&version) {
        return Ok(version);
    }
    Err(RdbError::UnknownVersion {
        version,
        oldest: *accepted.start(),
        newest: *accepted.end(),
        offset,
    })
}

/// The codes that may occur in place of the type of a value.
pub(super) mod opcode {
    /// The sizes of a cluster's slot, which are useful to its own server only.
    pub const SLOT: u8 = 244;
    pub const FUNCTION: u8 = 245;
    /// The functions as a release candidate of 7.0 wrote them, which no release reads.
    pub const FUNCTION_OF_CANDIDATE: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const RESIZE_DB: u8 = 251;
    pub const EXPIRES_MS: u8 = 252;
    pub const EXPIRES_S: u8 = 253;
    pub const SELECT_DB: u8 = 254;
    pub const EOF: u8 = 255;
}

/// The types of values, each of which combines a type and a form.
pub(super) mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    /// A sorted set whose scores are decimal text.
    pub const SORTED_SET_OF_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    /// The values of modules before they could be skipped.
    pub const MODULE_OPAQUE: u8 = 6;
    pub const MODULE: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_OF_ZIPLISTS: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_OF_LISTPACKS: u8 = 18;
    /// The form with the numbers of entries added and read.
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    /// The form with the times at which consumers were active.
    pub const STREAM_3: u8 = 21;
    /// The fields with times at which they expire, as Valkey 9 writes them; in files of Redis, as a
    /// release candidate of 7.4 wrote them.
    pub const HASH_OF_VALKEY: u8 = 22;
    pub const HASH_EXPIRING_OF_CANDIDATE: u8 = 22;
    pub const HASH_EXPIRING_LISTPACK_OF_CANDIDATE: u8 = 23;
    /// The fields with times at which they expire, each relative to the first.
    pub const HASH_EXPIRING: u8 = 24;
    pub const HASH_EXPIRING_LISTPACK: u8 = 25;

    /// Returns the name of a type that is known, but not supported in a file of a version.
    pub fn unsupported(type_byte: u8, version: u32) -> Option<&'static str> {
        match type_byte {
            MODULE_OPAQUE | MODULE => Some("value of a module"),
            // In files of Redis, the number has another meaning.
            HASH_OF_VALKEY if version >= super::VALKEY_VERSION => None,
            HASH_EXPIRING_OF_CANDIDATE | HASH_EXPIRING_LISTPACK_OF_CANDIDATE => {
                Some("hash with fields that expire in a candidate's form")
            }
            _ => None,
        }
    }
}

/// The forms of strings that are not plain bytes.
pub(super) mod string {
    pub const INT8: u8 = 0;
    pub const INT16: u8 = 1;
    pub const INT32: u8 = 2;
    pub const LZF: u8 = 3;
}

/// A field, its value, and the time at which it expires.
pub type TimedField = (Vec<u8>, Vec<u8>, Option<u64>);

/// The value of a key, independent of its form in the file.
#[derive(Clone, Debug, PartialEq)]
pub enum RdbValue {
    /// A byte string; integers are decimal text.
    String(Vec<u8>),
    /// The elements from the head to the tail.
    List(Vec<Vec<u8>>),
    /// The members, in no order.
    Set(Vec<Vec<u8>>),
    /// The fields and their values, in no order.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// The fields, their values, and the times at which they expire (in ms since 1970), in no
    /// order.
    TimedHash(Vec<TimedField>),
    /// The members and their scores, in no order. A score may be infinite, but is a number.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// A stream, whose parts fit together. It may be empty.
    Stream(Box<StreamParts<'static>>),
}

impl RdbValue {
    /// Returns true if it is a container without elements, which no key may have.
    pub(super) fn is_empty_container(&self) -> bool {
        match self {
            Self::String(_) | Self::Stream(_) => false,
            Self::List(elements) | Self::Set(elements) => elements.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::TimedHash(fields) => fields.is_empty(),
            Self::SortedSet(members) => members.is_empty(),
        }
    }
}
