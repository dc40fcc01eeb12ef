//! The rivals of DCART's paper: the trees that it compares with, as published, in this machine's
//! memory. Each executes a batch operation by operation, which the paper calls operation-centric.
//!
//! - [`Art`]: the adaptive radix tree with optimistic lock coupling.
//!
//! They have one leaf a key, keys of any bytes, and the guarantees of [`nearfield_core`]. They
//! share leaves (`leaf.rs`), the execution of batches (`index.rs`) and scans (`scan.rs`); a design
//! is a [`Design`]. Nodes and leaves come from the program's allocator and are freed by epochs.

pub mod art;
mod design;
mod entries;
mod index;
mod leaf;
mod scan;

pub use art::Art;
pub use design::Design;
pub use index::Rival;
pub use leaf::{Leaf, RivalForm};
