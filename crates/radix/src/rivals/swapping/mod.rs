//! A radix tree whose nodes are never locked: [SMART](super::smart) and [Heart](super::heart) are
//! of this kind.
//!
//! A slot is a word with a byte of the key, the kind of the child and its address, so that one swap
//! changes all three. A new key takes a slot for its byte, or puts a node in the place of a leaf,
//! or above a node with a prefix. When a node has no slot for a byte, its slots are frozen, which
//! keeps swaps away, and copied. The copy takes the node's place in its parent, or, where slots lie
//! *apart* from the node, their place in the node. Writers that meet a frozen slot make the copy,
//! too, and the first swap counts. Nodes that have lost their entries stay.
//!
//! # Why it is linearizable
//!
//! - A byte has one slot of a node, and a slot its byte, until the slots are replaced: writers take
//!   the first unused one. A slot changes by swaps alone, and not after it was frozen.
//! - Frozen slots show the tree's state up to the instant when they are replaced; who reads them
//!   later came upon them before. A node covers the keys with its first bytes for ever, whatever is
//!   put above.
//! - A swap sets each value, with a new leaf. Or values that are words are written *in place*; then
//!   operations on one key must exclude each other.

mod change;
mod check;
mod node;
mod slot;
mod walk;

use super::entries::EntryCount;
use super::leaf::RivalForm;
use node::{Node, Size};
use std::marker::PhantomData;

/// See the [module](self).
#[derive(Debug)]
pub struct SwapTree<F: RivalForm, const APART: bool, const IN_PLACE: bool> {
    /// Has 256 slots, and stays.
    root: Node<'static, APART>,
    pub entries: EntryCount,
    form: PhantomData<F>,
}

// SAFETY: nodes consist of atomics and what never changes; those below the root belong to the tree.
// Leaves hold bytes alone.
unsafe impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Send
    for SwapTree<F, APART, IN_PLACE>
{
}
// SAFETY: as above.
unsafe impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Sync
    for SwapTree<F, APART, IN_PLACE>
{
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Default
    for SwapTree<F, APART, IN_PLACE>
{
    fn default() -> Self {
        SwapTree {
            root: Node::new(Size::S256, 0, &[]),
            entries: EntryCount::default(),
            form: PhantomData,
        }
    }
}
