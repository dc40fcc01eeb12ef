//! Leaves: a whole key and its value. A leaf hangs at the depth where its key is unique, so that
//! a look-up ends by comparing the key, which also makes up for the bytes that paths skip.
//!
//! # Dead leaves
//!
//! A leaf is marked *dead* before it is unlinked or replaced, by the holder of its parent's
//! lock. A reader that finds the leaf of its key alive has found the key at that instant,
//! however it came to the leaf, through the tree or by a shortcut. A reader that finds it dead
//! looks again from the root.

mod bytes;
mod word;

use crate::memory::Memory;
use crate::node::{Ref, Symbol};
use crossbeam_epoch::Guard;
use nearfield_core::{Error, Form};

/// What a comparison of a leaf with a key has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The leaf is the key's, and was alive.
    Equal,
    /// The leaf was the key's, and is dead.
    Dead,
    /// The leaf is another key's.
    Different,
}

/// How a [`Form`] is stored in the tree.
///
/// Where a method takes a leaf and a guard, the leaf must have been read from the tree, or from
/// the shortcut table, under that guard, which keeps it from being freed.
pub trait LeafForm: Form {
    /// True if keys have eight bytes, the last of which a dense node may hold.
    const DENSE: bool;

    /// The symbol of a key at a depth, [`END`](crate::node::END) if it ends there. `None` if it
    /// ends before.
    fn symbol(key: Self::Key<'_>, depth: usize) -> Option<Symbol>;
    /// The position of the first byte in which two keys differ, or the length of the shorter if
    /// it is the beginning of the other; `None` if they are equal.
    fn difference(a: Self::Key<'_>, b: Self::Key<'_>) -> Option<usize>;
    /// Eight bytes of a key from a depth on, big-endian and padded with zeros.
    fn slice(key: Self::Key<'_>, depth: usize) -> u64;
    /// A hash of the key.
    fn hash(key: Self::Key<'_>) -> u64;
    /// A word key as a number, for dense nodes. Only where `DENSE`.
    fn word(key: Self::Key<'_>) -> u64;
    /// The inverse of `word`, for values and keys. Only where `DENSE`.
    fn from_words<'a>(key: u64, payload: u64) -> (Self::Key<'a>, Self::Value<'a>);
    /// A word value as a number. Only where `DENSE`.
    fn payload(value: Self::Value<'_>) -> u64;

    /// Creates a leaf that no other thread can reach yet.
    fn create(memory: &Memory, key: Self::Key<'_>, value: Self::Value<'_>) -> Result<Ref, Error>;
    /// Gives a leaf another value, under its parent's lock: in place, or by a new leaf that is
    /// to take its slot after the old one has been marked dead.
    fn change(
        memory: &Memory,
        leaf: Ref,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
        guard: &Guard,
    ) -> Result<Option<Ref>, Error>;
    /// Compares a leaf with a key.
    fn compare(memory: &Memory, leaf: Ref, key: Self::Key<'_>, guard: &Guard) -> Match;
    /// The key of a leaf whose first symbol the root has decided on, `None` if it is dead.
    fn key_of<'g>(
        memory: &'g Memory,
        leaf: Ref,
        first: Symbol,
        guard: &'g Guard,
    ) -> Option<Self::Key<'g>>;
    /// The value of a leaf.
    fn value_of<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> Self::Value<'g>;
    /// Marks a leaf as dead, under its parent's lock and before it is unlinked.
    fn mark_dead(memory: &Memory, leaf: Ref, guard: &Guard);
    /// The hash of the key of a leaf that is dead.
    fn hash_of_dead(memory: &Memory, leaf: Ref, guard: &Guard) -> u64;
    /// Frees a leaf that no thread can reach.
    ///
    /// # Safety
    /// No other thread may hold a reference to the leaf's key or value, and the leaf is freed
    /// only once.
    unsafe fn free(memory: &Memory, leaf: Ref);
}
