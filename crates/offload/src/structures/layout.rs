//! Offsets of fields in nodes, in bytes, for code that walks nodes without programs.

/// An entry of an [`OffloadHashTable`](super::OffloadHashTable). A bucket is the first entry of its
/// chain.
pub mod chain {
    /// The address of the next entry, or zero.
    pub const NEXT: u64 = 0;
    /// The key.
    pub const KEY: u64 = 8;
    /// The value.
    pub const VALUE: u64 = 16;
    /// The mark of use: 1, or 0 in a bucket without an entry of its own.
    pub const USED: u64 = 24;
    /// The length of an entry.
    pub const BYTES: u64 = 32;
}

/// A node of a [`BPlusTree`](super::BPlusTree).
pub mod b_plus {
    use crate::structures::programs::ENTRIES_MAX;
    pub use crate::structures::wide_node::{CHILDREN, ENTRIES, NODE_BYTES as BYTES};

    /// The mark of leaves: not zero in a leaf.
    pub const IS_LEAF: u64 = 0;
    /// The number of keys.
    pub const COUNT: u64 = 8;
    /// The address of the next leaf, or zero.
    pub const NEXT: u64 = 240;
    /// The address of the leaf before, or zero.
    pub const PREVIOUS: u64 = 248;

    // The links of leaves follow the children, of which there is one more than entries.
    const _: () = assert!(CHILDREN + 8 * (ENTRIES_MAX as u64 + 1) <= NEXT);
    const _: () = assert!(PREVIOUS + 8 == BYTES);
}
