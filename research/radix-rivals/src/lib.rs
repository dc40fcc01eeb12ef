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
//! epochs. The version lock, the probes and the search of 16 bytes are those of
//! [`nearfield_radix`].

#[cfg(not(loom))]
mod art;
#[cfg(not(loom))]
mod design;
#[cfg(not(loom))]
mod entries;
#[cfg(not(loom))]
mod heart;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod leaf;
mod primitive;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod smart;
#[cfg(not(loom))]
mod swapping;

/// The local locks of SMART, which tests/loom explores.
#[cfg(loom)]
pub mod smart {
    pub mod lock;
}

#[cfg(not(loom))]
pub use art::{Art, ArtRowex, OlcTree, RowexTree};
#[cfg(not(loom))]
pub use design::RivalDesign;
#[cfg(not(loom))]
pub use heart::{Heart, HeartTree};
#[cfg(not(loom))]
pub use index::Rival;
#[cfg(not(loom))]
pub use leaf::{RivalForm, RivalLeaf};
#[cfg(not(loom))]
pub use smart::{Smart, SmartTree};
