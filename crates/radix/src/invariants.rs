//! The invariants of a tree without concurrent writers.

use crate::build::is_underfull;
use crate::jump::FIRST;
use crate::leaf::LeafForm;
use crate::node::{END, NodeRefKind, RadixInnerNode, Ref, Symbol};
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use nearfield_core::ScanDirection;
use std::ops::{Bound, ControlFlow};

impl<F: LeafForm> RadixTree<F> {
    /// Checks every node of the tree.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check_invariants(&self) {
        let guard = crossbeam_epoch::pin();
        let mut entries = 0;
        let mut last: Option<F::OwnedKey> = None;
        self.scan(
            Bound::Unbounded,
            ScanDirection::Ascending,
            usize::MAX,
            &mut Default::default(),
            &guard,
            |key, _| {
                if let Some(last) = &last {
                    assert!(
                        F::key(last) < F::shorten_key(key),
                        "{last:?} before {key:?}"
                    );
                }
                last = Some(F::own_key(key));
                entries += 1;
                ControlFlow::Continue(())
            },
        );
        assert_eq!(entries, self.len(), "entries counted");
        let mut leaves = 0;
        let root = self.memory.inner(self.root);
        root.for_each(|symbol, child| leaves += self.check(root, symbol, child, &guard));
        assert_eq!(leaves, entries, "leaves reached");
        self.check_jumps(&guard);
    }

    /// Checks that jumps lead to the nodes to which their prefixes lead, and that stems have the
    /// depths of their first nodes.
    fn check_jumps(&self, guard: &Guard) {
        for (entry, node) in self.jumps.entries(guard) {
            let below = self.any_key(node, guard).expect("a key below a jump");
            let prefixes = self
                .jumps
                .prefixes(|from, count| F::window(below, from, count));
            let mut prefixes = prefixes.iter();
            let prefix = prefixes.find(|prefix| (prefix.table, prefix.number) == entry);
            let prefix = prefix.expect("a jump to a node whose keys have another prefix");
            let on_path = self.first_behind(below, prefix.end);
            assert!(node.same(on_path), "{prefix:x?} jumps to {node:?}");
        }
        for (stem, node) in self.jumps.stems() {
            let below = self.any_key(node, guard).expect("a key below a stem");
            let own = self.jumps.stem(|from, count| F::window(below, from, count));
            assert_eq!(own, Some(stem), "the stem of a key below it");
            assert!(node.same(self.first_behind(below, FIRST[0])), "{stem:x?}");
            let depth = self.memory.inner(node).header().depth();
            assert_eq!(depth, stem.depth, "the depth of {stem:x?}");
        }
    }

    /// Returns the first node on the path of a key that is deeper than `depth`.
    fn first_behind(&self, key: F::Key<'_>, depth: usize) -> Ref {
        let mut node = self.root;
        while self.memory.inner(node).header().depth() < depth {
            let inner = self.memory.inner(node);
            let symbol = F::symbol(key, inner.header().depth()).expect("a longer key");
            node = self.child(inner, symbol);
            assert!(node.is_inner(), "a key leads to {node:?}");
        }
        node
    }

    /// Checks a subtree below `symbol` of a node, which is the start of its range; returns its
    /// entries.
    fn check<'g>(
        &'g self,
        above: RadixInnerNode<'_>,
        symbol: Symbol,
        child: Ref,
        guard: &'g Guard,
    ) -> usize {
        let depth = above.header().depth();
        let some = self
            .any_key(child, guard)
            .expect("subtree without an entry");
        if child.kind() == NodeRefKind::Leaf {
            return self.check_leaf(above, symbol, child, guard);
        }
        assert_eq!(
            F::symbol(some, depth),
            Some(symbol),
            "{some:?} below the wrong symbol"
        );
        match child.kind() {
            NodeRefKind::Dense => {
                let dense = self.memory.dense(child);
                let bits: u32 = dense
                    .bitmap()
                    .load()
                    .iter()
                    .map(|word| word.count_ones())
                    .sum();
                assert_eq!(
                    dense.header().count(),
                    bits as usize,
                    "count of a dense node"
                );
                assert!(
                    !is_underfull::<F>(&self.memory, child),
                    "underfull dense node"
                );
                assert!(
                    !dense.header().lock.is_locked_or_obsolete(),
                    "lock of a dense node"
                );
                bits as usize
            }
            _ => {
                assert_ne!(symbol, END, "an inner node where a key ends");
                let node = self.memory.inner(child);
                let below = node.header().depth();
                assert!(below > depth, "depth {below} under {depth}");
                assert_eq!(self.memory.edge(depth, child), child, "kind in the slot");
                assert!(
                    !node.header().lock.is_locked_or_obsolete(),
                    "lock of a node"
                );
                assert!(
                    !is_underfull::<F>(&self.memory, child) || self.memory.was_short(),
                    "underfull node at depth {below}: {:?}",
                    ranges(node)
                );
                let mut entries = 0;
                let mut last = None;
                node.for_each(|symbol, child| {
                    assert!(
                        last == Some(END) || last < Some(symbol),
                        "order of children"
                    );
                    last = Some(symbol);
                    let other = self.any_key(child, guard).expect("empty subtree");
                    let common = F::difference(some, other).unwrap_or(below);
                    assert!(
                        common >= below,
                        "keys of a node differ at byte {common} < {below}"
                    );
                    entries += self.check(node, symbol, child, guard);
                });
                let mut ranges = usize::from(!node.header().end().is_null());
                node.for_each_range(|_, _| ranges += 1);
                assert_eq!(ranges, node.children(), "count of a node");
                entries
            }
        }
    }
    /// Checks that the entries of a leaf are below their symbols and in order; returns their
    /// number.
    fn check_leaf<'g>(
        &'g self,
        above: RadixInnerNode<'_>,
        start: Symbol,
        leaf: Ref,
        guard: &'g Guard,
    ) -> usize {
        let mut entries = 0;
        let (from, direction) = (Bound::Unbounded, ScanDirection::Ascending);
        let mut last = None;
        let _ = F::entries(&self.memory, leaf, from, direction, guard, |key, _| {
            let symbol = F::symbol(key, above.header().depth());
            let symbol = symbol.expect("a key that ends above its leaf");
            assert_eq!(F::child(above, symbol), leaf, "{key:?} covered by another");
            assert_eq!(above.start_of(symbol), start, "start of a range");
            assert!(last < Some(key), "order within a leaf");
            last = Some(key);
            entries += 1;
            ControlFlow::Continue(())
        });
        assert!(entries > 0, "empty leaf");
        entries
    }
}

/// Returns the ranges or symbols of a node with the kinds of their children, for messages.
fn ranges(node: RadixInnerNode<'_>) -> Vec<(u8, NodeRefKind)> {
    let mut ranges = Vec::new();
    node.for_each_range(|byte, child| ranges.push((byte, child.kind())));
    ranges
}
