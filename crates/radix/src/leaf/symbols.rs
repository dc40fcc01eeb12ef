//! How a tree reads keys.

use crate::node::Symbol;
use nearfield_core::Form;

/// Keys as sequences of symbols, which nodes decide on.
pub trait Symbols: Form {
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
    /// So many bytes of a key from a depth on, up to seven, big-endian: walks
    /// [jump](crate::jump) by them. `None` if the key ends before, or if walks of this form do
    /// not jump.
    #[inline]
    fn window(_key: Self::Key<'_>, _from: usize, _count: usize) -> Option<u64> {
        None
    }
    /// The first bytes of a key, for people.
    fn show(key: Self::Key<'_>) -> String;
}
