//! Indexes in a pool of remote memory.
//!
//! Their core is CHIME (SOSP 2024): a B+ tree whose internal nodes are sorted, so that clients can
//! cache them. Its leaves are hopscotch hash tables, so that a client reads only the few entries
//! that may hold a key.
//!
//! - [`layout`] defines the bytes of nodes in remote memory: sizes, the bytes to read and to write,
//!   and the versions by which a reader detects concurrent writes.
//! - [`hopscotch`] finds, inserts and removes entries of a decoded leaf, and chooses the key at
//!   which to divide a full one.
//! - [`chime`] executes operations on them by verbs on a fabric: CHIME, the steps from Sherman to
//!   it, and our own variant.
//! - [`cache`] keeps internal nodes on a compute node, within a budget.
//! - [`store`] is a map of byte strings of any length, or words, over a tree.
//! - [`filtered`] has filters and aggregates of a range, and the program with which memory nodes
//!   apply them to their leaves.
//! - [`coordination`] lets the clients of a compute node share reads, writes and locks before they
//!   use the network.
//!
//! # Differences from the public implementation of CHIME
//!
//! - Keys are byte strings of any one length, compared as such; a key hashes by XXH3.
//! - Hop ranges wrap around the end of a leaf, where CHIME reads the whole leaf. They include a
//!   replica of the metadata only if they contain none. With the neighborhood, in which the key may
//!   already be, an insert reads 186 bytes on average; CHIME reads 211 without it.
//! - A separator is the least key that may be in the right half, not one more than the greatest of
//!   the left, and after a split there is always room for the key that caused it.
//! - Entries can be removed. The last group of a leaf may have fewer entries than the others.
//!
//! [`layout`] and [`hopscotch`] do no I/O, do not wait and use no clock. All sizes are chosen at
//! run time, in a [`Geometry`](layout::Geometry).

#![forbid(unsafe_code)]

#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;

pub mod cache;
pub mod chime;
pub mod coordination;
mod error;
mod executor;
pub mod filtered;
pub mod hopscotch;
mod index;
pub mod layout;
pub mod store;

pub use error::PoolError;
pub use index::{Entry, PoolIndexClient, check_bound, check_key, check_value};
