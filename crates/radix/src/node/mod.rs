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

pub use header::Header;
pub use inner::{END, Inner, Symbol};
pub use reference::{KINDS, Kind, Ref};
pub use search::equal_16;
pub use small::Small;
pub use sorted::{Node4, Node16, Node48, Sorted};
pub use wide::{Dense, Node256, Range};
