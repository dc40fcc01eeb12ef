//! The layout of nodes in remote memory.
//!
//! A node has two forms. Its *decoded* bytes are its objects, one after the other: in a leaf
//! replicas of its metadata and entries, in an internal node a header and entries. Each object
//! begins with a byte of versions. Its *wire* bytes, those in remote memory, have one more byte of
//! versions at the start of each line of 64 bytes except the first ([`versions`]). A word with the
//! lock follows the wire bytes.
//!
//! ```text
//! leaf     | replica, H entries | replica, H entries | ...  | lock word |
//! internal | header | entry | entry | ...                   | lock word |
//! wire     |0      63|v      |v      |v      ...
//! ```
//!
//! Integers are little-endian. Keys have one length, are compared as byte strings, and are never
//! all zeros: such a key marks an entry that is empty.

mod geometry;
pub mod internal;
pub mod leaf;
pub mod lock_word;
mod on_wire;
mod slots;
mod stamped_word;
pub mod versions;

use xxhash_rust::xxh3::xxh3_64;

pub use geometry::{
    Arrangement, Geometry, GeometryError, LeafMetadataPosition, PoolIndexShape, Validation,
};
pub use internal::{InternalLayout, InternalNode};
pub use leaf::{PoolLeaf, PoolLeafLayout};
pub use lock_word::{LockWord, LockWordLayout};
pub(crate) use on_wire::{OnWire, WORD};
pub use slots::LeafSlotRange;
pub use stamped_word::StampedLayout;
pub use versions::{NodeSegment, NodeSegments, TornNodeError, Versions};

/// Returns the slot that a key hashes to, in a leaf of `span` slots: XXH3 of its bytes, modulo the
/// span. Part of the format of leaves.
///
/// ```
/// assert_eq!(nearfield_pool::layout::home(b"nearfield", 64), 37);
/// ```
pub fn home(key: &[u8], span: usize) -> usize {
    (xxh3_64(key) % span as u64) as usize
}

/// Returns true if a key marks an empty entry.
pub fn is_empty_key(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte == 0)
}

/// Returns the number of bytes from the start of a node to the end of its memory, for a node of
/// `wire_bytes`: the lock word begins at the next multiple of 8, and 16 bytes are reserved for it.
pub const fn allocation_bytes(wire_bytes: usize) -> usize {
    wire_bytes + 16
}

/// Returns the offset of the lock word of a node of `wire_bytes`.
pub const fn lock_offset(wire_bytes: usize) -> usize {
    wire_bytes.next_multiple_of(8)
}
