//! Inner nodes: their layout, and the operations that all synchronizations share.
//!
//! ```text
//!   header   lock: 4 │ level: 2 │ kind: 1 │ count: 1 │ prefix: 8 │ slot of the key that ends: 8
//!   node4    header: 24 │ keys: 4 │ unused: 4 │ slots: 4 × 8
//!   node16   header: 24 │ keys: 16 │ slots: 16 × 8
//!   node48   header: 24 │ index: 256 │ slots: 48 × 8
//!   node256  header: 24 │ slots: 256 × 8
//! ```
//!
//! *Level* is the number of bytes that all keys below the node share, including the prefix: the
//! node decides on the next one. The level never changes, but the prefix becomes longer or shorter
//! as nodes above are added and removed.
//!
//! Everything that changes while other threads read is an atomic.

mod handle;
mod kinds;
mod prefix;
mod slot;
mod small;

pub use handle::{ArtNode, ArtNodeView, ArtSearchResult};
pub use kinds::{ArtNodeKind, END};
pub use prefix::ArtPrefix;
pub use slot::ArtTaggedPointer;
