//! Heart (Nie et al., ICCD 2023) in memory that threads share, as far as its published facts go.
//!
//! The tree is one of [swaps](super::swapping), with slots apart from their nodes.
//!
//! # The published facts, and the open questions
//!
//! The paper is for persistent memory, and its authors have published no program. Its facts are:
//!
//! - *One node shape for all capacities, with hashed children.* Here a node has 4 to 256 slots. A
//!   byte is its own hash, and its slot is searched from that position, over at most one cache
//!   line.
//! - *Decoupled node parts.* Here a node has a header with the prefix, which never changes and
//!   never moves, and slots in separate memory, which are replaced.
//! - *Basic operations and splits by compare-and-swap, without locks.* Here every change is the
//!   swap of one slot, and a new value has a new leaf, so that the value and its presence are one
//!   word.
//! - *A visible intermediate state while a node expands or shrinks.* Here slots are frozen: readers
//!   use them, and writers that encounter them create the new slots themselves.
//!
//! These are open: the sizes, the hash function, the conditions under which nodes expand and shrink
//! (here: if a byte finds no slot within a line; if less than a quarter of the slots lead to
//! something) and the fate of nodes without entries (here: they stay). Nothing is flushed to
//! persistent memory.

use super::index::Rival;
use super::swapping::SwapTree;

/// Heart, without persistence.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix_rivals::Heart;
///
/// let index = Heart::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
pub type Heart<F> = Rival<F, HeartTree<F>>;

/// The design of [`Heart`].
pub type HeartTree<F> = SwapTree<F, true, false>;

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};

    /// Values are not part of the word that is swapped if they are written in place.
    #[test]
    fn canary_values_that_are_not_swapped_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, SwapTree<Words, true, true>>::new();
            concurrent::run(&index, seed, &ConcurrentTestConfig::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
