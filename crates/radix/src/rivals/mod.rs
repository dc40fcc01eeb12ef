//! The rivals of DCART's paper: the trees that it compares with, as published, in this machine's
//! memory. Each executes a batch operation by operation, which the paper calls operation-centric.
//!
//! - [`Art`], [`ArtRowex`]: the adaptive radix tree with optimistic lock coupling, and with ROWEX.
//! - [`Smart`]: SMART, as ported to memory that threads share.
//! - [`Heart`]: Heart, without persistence.
//!
//! They have one leaf per key, keys of any bytes, and the guarantees of [`nearfield_core`]. They
//! share leaves (`leaf.rs`), the execution of batches (`index.rs`) and scans (`scan.rs`); a design
//! is a [`RivalDesign`]. Nodes and leaves come from the program's allocator and are freed by
//! epochs.

mod art;
mod design;
mod entries;
mod heart;
mod index;
mod leaf;
mod scan;
mod smart;
mod swapping;

pub use art::{Art, ArtRowex, OlcTree, RowexTree};
pub use design::RivalDesign;
pub use heart::{Heart, HeartTree};
pub use index::Rival;
pub use leaf::{RivalForm, RivalLeaf};
pub use smart::{Smart, SmartTree};
