//! The adaptive radix tree (Leis et al., ICDE 2013) with one leaf per key: inner nodes of four
//! kinds, path compression, lazy expansion.
//!
//! `node/` has the layout and `tree/` the changes, which the [synchronizations](synchronization)
//! share: `olc/` is optimistic lock coupling, `rowex/` read-optimized write exclusion.
//!
//! The root is a node256 without a prefix, which is never replaced. A node stores the first six
//! bytes of its prefix. Readers skip the others and compare the whole key at the leaf; writers read
//! them from a leaf below. A key that ends where others continue has its leaf in a separate slot of
//! the header, so keys may be prefixes of others.
//!
//! # Differences from the published trees
//!
//! - Leaves are records of key and value; the published trees hold a tuple's identifier. The lowest
//!   bit of a slot marks a leaf; the published trees use the highest.
//! - Nodes begin on a cache line, so that a node4 is one line.
//! - A lock has 32 bits. A node48 or node256 whose keys are removed shrinks at the reference's
//!   thresholds; the slot for the key that ends does not count.

mod node;
mod olc;
mod rowex;
mod synchronization;
mod tree;

use super::index::Rival;
use olc::LockCoupling;
use rowex::Rowex;
use tree::ArtTree;

/// The adaptive radix tree with optimistic lock coupling (Leis et al., DaMoN 2016).
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix_rivals::Art;
///
/// let index = Art::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
pub type Art<F> = Rival<F, OlcTree<F>>;

/// The design of [`Art`].
pub type OlcTree<F> = ArtTree<F, LockCoupling>;

/// The adaptive radix tree with ROWEX, read-optimized write exclusion (Leis et al., DaMoN 2016):
/// readers neither lock, nor validate, nor restart.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix_rivals::ArtRowex;
///
/// let index = ArtRowex::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
pub type ArtRowex<F> = Rival<F, RowexTree<F>>;

/// The design of [`ArtRowex`].
pub type RowexTree<F> = ArtTree<F, Rowex>;
