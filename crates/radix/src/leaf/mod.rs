//! Leaves, and their differences between the two forms of a map.
//!
//! A leaf is a block of entries in ascending order. It covers as many neighbouring bytes of a node
//! as its room for their keys allows; [`write`](crate::write) contains its changes. Blocks of
//! [words](block) and of [byte strings](strings) are changed in place if they have room. Keys and
//! long values of byte strings never move, so that readers can use them in place.
//!
//! A lookup ends by comparing whole keys, which also checks the bytes that paths skip.

pub mod block;
mod bytes;
mod dense;
mod modify;
mod read;
mod reclaim;
mod report;
pub mod strings;
mod symbols;
mod word;

pub use bytes::{copy_block, units_of_block};
pub use dense::DenseNodes;
pub use modify::{
    Entries, InNode, LeafEntryRoom, LeafWalkContext, LockedChangePlace, ModifyLeaf, put_entry,
};
pub use read::{RadixLeafLookup, RadixScanRange, ReadLeaf};
pub use reclaim::Reclaim;
pub use report::ReportLeaf;
pub use symbols::Symbols;

/// The storage of an [`EntryForm`](nearfield_core::EntryForm) in the tree.
pub trait LeafForm: ReadLeaf + ModifyLeaf + DenseNodes + Reclaim + ReportLeaf {}

impl<F: ReadLeaf + ModifyLeaf + DenseNodes + Reclaim + ReportLeaf> LeafForm for F {}
