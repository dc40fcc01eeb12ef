//! The nodes of the tree. Every field of a node is atomic, so a reference to one is sound
//! regardless of other threads. The [lock](crate::lock) governs the consistency of reads.

pub mod bitmap;
mod header;
mod inner;
mod reference;
mod search;
mod small;
mod sorted;
mod wide;

pub use header::RadixNodeHeader;
pub use inner::{END, RadixInnerNode, Symbol};
pub use reference::{KINDS, NodeRefKind, Ref};
pub use search::equal_16;
pub use small::RadixSmallNode;
pub use sorted::{RadixNode4, RadixNode16, RadixNode48, RadixSortedNode};
pub use wide::{ChildByteRange, Dense, RadixNode256};
