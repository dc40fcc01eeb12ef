//! Balanced binary trees: `std::map`, `set`, `multimap` and `multiset`, which are red-black trees,
//! and Boost's AVL, splay and scapegoat trees. All share one lookup program, with two layouts of
//! the fields.

mod avl;
mod links;
mod red_black;
mod scapegoat;
mod splay;

use super::heap::{HeapError, NodeHeap};
use super::programs::tree_lower_bound;
use crate::program::TraversalProgram;
use crate::traversal::TraversalQuery;
use links::{KEY, Links, NODE_BYTES, TreeLinkLayout, VALUE};
use std::sync::Arc;

/// The balancing algorithm of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceAlgorithm {
    /// A red-black tree, balanced by colours.
    RedBlack,
    /// An AVL tree, balanced by heights.
    Avl,
    /// A splay tree, which moves changed nodes to the root.
    Splay,
    /// A scapegoat tree, which rebuilds subtrees.
    Scapegoat,
}

/// The rule for equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeyRule {
    /// No two entries with equal keys.
    Unique,
    /// Any number of entries with equal keys; they stay in the order of their insertion.
    Multiple,
}

/// A tree of words.
#[derive(Clone, Debug)]
pub struct SearchTree {
    balance: BalanceAlgorithm,
    keys: DuplicateKeyRule,
    lower_bound: Arc<TraversalProgram>,
    root: u64,
    count: u64,
    /// The largest count since a scapegoat tree was rebuilt.
    count_max: u64,
}

impl SearchTree {
    /// Creates a tree without entries.
    pub fn new(balance: BalanceAlgorithm, keys: DuplicateKeyRule) -> SearchTree {
        let TreeLinkLayout { left, right, .. } = balance.layout();
        let place = |field: u64| field as usize;
        SearchTree {
            balance,
            keys,
            lower_bound: tree_lower_bound(place(left), place(right), place(KEY), place(VALUE)),
            root: 0,
            count: 0,
            count_max: 0,
        }
    }

    /// Adds an entry. If keys are unique and the key is there, replaces its value and returns
    /// false.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn insert(
        &mut self,
        heap: &mut impl NodeHeap,
        key: u64,
        value: u64,
    ) -> Result<bool, HeapError> {
        let (balance, keys, count) = (self.balance, self.keys, self.count + 1);
        let mut links = self.links(heap);
        if keys == DuplicateKeyRule::Unique {
            let node = links.lower_bound(key)?;
            if node != 0 && links.key(node)? == key {
                links.heap.write(node + VALUE, value)?;
                return Ok(false);
            }
        }
        let node = links.insert_leaf(key, value)?;
        match balance {
            BalanceAlgorithm::RedBlack => red_black::inserted(&mut links, node)?,
            BalanceAlgorithm::Avl => avl::changed(&mut links, node)?,
            BalanceAlgorithm::Splay => splay::splay(&mut links, node)?,
            BalanceAlgorithm::Scapegoat => scapegoat::inserted(&mut links, node, count)?,
        }
        self.count = count;
        self.count_max = self.count_max.max(count);
        Ok(true)
    }

    /// Removes the first entry of a key. Returns false if there is none.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl NodeHeap, key: u64) -> Result<bool, HeapError> {
        let (balance, mut count_max) = (self.balance, self.count_max);
        let count = self.count.saturating_sub(1);
        let mut links = self.links(heap);
        let node = links.lower_bound(key)?;
        if node == 0 || links.key(node)? != key {
            return Ok(false);
        }
        let gap = links.unlink(node)?;
        match balance {
            BalanceAlgorithm::RedBlack => red_black::removed(&mut links, gap)?,
            BalanceAlgorithm::Avl => avl::changed(&mut links, gap.parent)?,
            BalanceAlgorithm::Splay if gap.parent != 0 => splay::splay(&mut links, gap.parent)?,
            BalanceAlgorithm::Splay => {}
            BalanceAlgorithm::Scapegoat => {
                count_max = scapegoat::removed(&mut links, count, count_max)?
            }
        }
        heap.free(node, NODE_BYTES);
        (self.count, self.count_max) = (count, count_max);
        debug_assert!(self.count <= self.count_max);
        Ok(true)
    }

    /// Returns the query for the first entry at or above a key; `None` for an empty tree. The key
    /// is in the tree if that entry has it.
    pub fn lower_bound(&self, key: u64) -> Option<TraversalQuery> {
        (self.root != 0).then(|| TraversalQuery::new(&self.lower_bound, self.root, &[key]))
    }

    fn links<'t, H: NodeHeap>(&'t mut self, heap: &'t mut H) -> Links<'t, H> {
        Links {
            heap,
            layout: self.balance.layout(),
            root: &mut self.root,
        }
    }
}

impl BalanceAlgorithm {
    fn layout(self) -> TreeLinkLayout {
        match self {
            BalanceAlgorithm::RedBlack => TreeLinkLayout::STANDARD,
            _ => TreeLinkLayout::INTRUSIVE,
        }
    }
}
