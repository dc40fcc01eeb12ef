//! The interface by which a tree reads keys.

use crate::node::Symbol;
use nearfield_core::EntryForm;

/// Keys as sequences of symbols, on which nodes decide.
pub trait Symbols: EntryForm {
    /// Returns the symbol of a key at a depth, [`END`](crate::node::END) if it ends there. `None`
    /// if it ends before.
    fn symbol(key: Self::Key<'_>, depth: usize) -> Option<Symbol>;
    /// Returns the position of the first byte in which two keys differ, or the length of the
    /// shorter if it is the beginning of the other; `None` if they are equal.
    fn difference(a: Self::Key<'_>, b: Self::Key<'_>) -> Option<usize>;
    /// Returns eight bytes of a key at a depth, big-endian and padded with zeros.
    fn slice(key: Self::Key<'_>, depth: usize) -> u64;
    /// Returns a hash of the key.
    fn hash(key: Self::Key<'_>) -> u64;
    /// Returns `count` bytes (up to seven) of a key at a depth, big-endian: walks
    /// [jump](crate::jump) by them. Returns `None` if the key ends before, or if walks of this form
    /// do not jump.
    #[inline]
    fn window(_key: Self::Key<'_>, _from: usize, _count: usize) -> Option<u64> {
        None
    }
    /// Returns the first bytes of a key in readable form.
    fn show(key: Self::Key<'_>) -> String;
}
