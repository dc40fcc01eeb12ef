//! Ordered walks through a tree that other threads may change meanwhile.
//!
//! The walk keeps a list of the subtrees and leaves still to visit, the next one last. It takes the
//! next one and replaces it with its children, as they are at an instant. If a node is not what its
//! parent indicated, because it was replaced, or its prefix is now longer or shorter, the walk
//! restarts at the root, after the last leaf that it has delivered. It never retries the same node,
//! which may have been unlinked forever.

use super::leaf::{RivalForm, RivalLeaf};
use crossbeam_epoch::Guard;
use nearfield_core::ScanDirection;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::pause;
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// A byte of a key, or `None` for the end of the key, which comes first.
pub type Symbol = Option<u8>;

/// Returns the symbol of a key at a depth.
#[inline]
pub fn symbol(key: &[u8], depth: usize) -> Symbol {
    key.get(depth).copied()
}

/// Error that another thread intervened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

/// A child of a node.
pub enum RivalChild<'g, F: RivalForm, N> {
    /// An inner node.
    Node(N),
    /// A leaf.
    Leaf(RivalLeaf<'g, F>),
}

/// Children with their symbols.
pub type Children<'g, F, N> = Vec<(Symbol, RivalChild<'g, F, N>)>;

/// A tree that can be walked in order.
pub trait OrderedRivalTree<F: RivalForm> {
    /// An inner node.
    type Node<'g>: Copy
    where
        Self: 'g;

    /// Returns the root.
    fn root<'g>(&'g self, guard: &'g Guard) -> Self::Node<'g>;

    /// Adds the children of a node as they are at an instant, in ascending order, and returns the
    /// number of bytes that all keys below it share. The path to the node has `depth` bytes.
    fn expand<'g>(
        &'g self,
        node: Self::Node<'g>,
        depth: usize,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        children: &mut Children<'g, F, Self::Node<'g>>,
    ) -> Result<usize, Restart>;

    /// Returns the bytes that all keys below a node share after the first `depth`.
    fn path<'g>(
        &'g self,
        node: Self::Node<'g>,
        depth: usize,
        guard: &'g Guard,
    ) -> Result<&'g [u8], Restart>;
}

/// A subtree or leaf still to visit.
struct PendingScanChild<'g, F: RivalForm, N> {
    child: RivalChild<'g, F, N>,
    depth: usize,
    /// True if the path to it is the beginning of the bound.
    on_bound: bool,
}

/// Calls `visit` with the leaves in `direction`, starting at a bound, until it breaks.
pub fn scan<'g, F: RivalForm, T: OrderedRivalTree<F>>(
    tree: &'g T,
    from: Bound<&'g [u8]>,
    direction: ScanDirection,
    guard: &'g Guard,
    probe: &mut impl RadixProbe,
    mut visit: impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
) {
    let mut walk = RivalScanWalk {
        tree,
        from,
        direction,
        guard,
        coming: Vec::new(),
        children: Vec::new(),
    };
    let mut waits = 0;
    while walk.pass(probe, &mut visit).is_err() {
        probe.restart();
        pause(&mut waits);
    }
}

struct RivalScanWalk<'g, F: RivalForm, T: OrderedRivalTree<F> + 'g> {
    tree: &'g T,
    from: Bound<&'g [u8]>,
    direction: ScanDirection,
    guard: &'g Guard,
    coming: Vec<PendingScanChild<'g, F, T::Node<'g>>>,
    children: Children<'g, F, T::Node<'g>>,
}

impl<'g, F: RivalForm, T: OrderedRivalTree<F>> RivalScanWalk<'g, F, T> {
    fn pass(
        &mut self,
        probe: &mut impl RadixProbe,
        visit: &mut impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
    ) -> Result<(), Restart> {
        self.coming.clear();
        self.coming.push(PendingScanChild {
            child: RivalChild::Node(self.tree.root(self.guard)),
            depth: 0,
            on_bound: self.from != Bound::Unbounded,
        });
        while let Some(next) = self.coming.pop() {
            match next.child {
                RivalChild::Node(node) => self.expand(node, next.depth, next.on_bound, probe)?,
                RivalChild::Leaf(leaf) => {
                    probe.node(leaf.visit());
                    if next.on_bound && self.is_before(leaf.key()) {
                        continue;
                    }
                    if visit(leaf).is_break() {
                        return Ok(());
                    }
                    // A restart continues after this leaf. Its key stays as long as the guard.
                    self.from = Bound::Excluded(leaf.key());
                }
            }
        }
        Ok(())
    }

    /// Returns true if a key is before the bound.
    fn is_before(&self, key: &[u8]) -> bool {
        match self.from {
            Bound::Unbounded => false,
            Bound::Included(from) => self.order(key, from) == Ordering::Less,
            Bound::Excluded(from) => self.order(key, from) != Ordering::Greater,
        }
    }

    fn order<K: Ord>(&self, a: K, b: K) -> Ordering {
        match self.direction {
            ScanDirection::Ascending => a.cmp(&b),
            ScanDirection::Descending => b.cmp(&a),
        }
    }

    fn expand(
        &mut self,
        node: T::Node<'g>,
        depth: usize,
        on_bound: bool,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        self.children.clear();
        let level = self
            .tree
            .expand(node, depth, self.guard, probe, &mut self.children)?;
        let bound = match self.from {
            Bound::Included(from) | Bound::Excluded(from) if on_bound => Some(from),
            _ => None,
        };
        let mut on_bound = None;
        if let Some(bound) = bound {
            if level > depth {
                let path = self.tree.path(node, depth, self.guard)?;
                let bound = bound.get(depth..).unwrap_or_default();
                let part = &bound[..bound.len().min(path.len())];
                match self.order(path, part) {
                    Ordering::Less => return Ok(()),
                    Ordering::Greater => {}
                    Ordering::Equal => on_bound = Some(symbol(bound, level - depth)),
                }
            } else {
                on_bound = Some(symbol(bound, level));
            }
        }
        let direction = self.direction;
        let mut push = |(byte, child): (Symbol, RivalChild<'g, F, T::Node<'g>>)| {
            let order = match (on_bound, direction) {
                (None, _) => Ordering::Greater,
                (Some(bound), ScanDirection::Ascending) => byte.cmp(&bound),
                (Some(bound), ScanDirection::Descending) => bound.cmp(&byte),
            };
            if order != Ordering::Less {
                self.coming.push(PendingScanChild {
                    child,
                    depth: level + 1,
                    on_bound: order == Ordering::Equal,
                });
            }
        };
        // The next one is taken from the end.
        match direction {
            ScanDirection::Ascending => self.children.drain(..).rev().for_each(&mut push),
            ScanDirection::Descending => self.children.drain(..).for_each(&mut push),
        }
        Ok(())
    }
}
