//! What holds of a tree whenever no writer is at work.

use crate::leaf::LeafForm;
use crate::node::{END, Kind, Ref, Symbol};
use crate::shrink::DENSE_MIN;
use crate::tree::Tree;
use crossbeam_epoch::Guard;

impl<F: LeafForm> Tree<F> {
    /// Checks every node of the tree.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check_invariants(&self) {
        let guard = crossbeam_epoch::pin();
        let mut entries = 0;
        let mut last: Option<F::OwnedKey> = None;
        self.scan(
            std::ops::Bound::Unbounded,
            nearfield_core::Direction::Ascending,
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
                std::ops::ControlFlow::Continue(())
            },
        );
        assert_eq!(entries, self.len(), "entries counted");
        let mut leaves = 0;
        let root = self.memory.inner(self.root);
        root.for_each(|symbol, child| leaves += self.check(0, symbol, symbol, child, &guard));
        assert_eq!(leaves, entries, "leaves reached");
    }

    /// Checks a subtree that hangs at `symbol` of a node of `depth`; answers its entries.
    fn check<'g>(
        &'g self,
        depth: usize,
        symbol: Symbol,
        first: Symbol,
        child: Ref,
        guard: &'g Guard,
    ) -> usize {
        let some = self
            .any_key(child, first, guard)
            .expect("subtree without an entry");
        assert_eq!(
            F::symbol(some, depth),
            Some(symbol),
            "{some:?} below the wrong symbol"
        );
        match child.kind() {
            Kind::Leaf => 1,
            Kind::Dense => {
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
                assert!(bits as usize > DENSE_MIN, "underfull dense node");
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
                    !node.is_underfull(),
                    "underfull node of {} children",
                    node.children()
                );
                let (mut entries, mut children) = (0, 0);
                let mut last = None;
                node.for_each(|symbol, child| {
                    assert!(
                        last == Some(END) || last < Some(symbol),
                        "order of children"
                    );
                    last = Some(symbol);
                    children += 1;
                    let other = self.any_key(child, first, guard).expect("empty subtree");
                    let common = F::difference(some, other).unwrap_or(below);
                    assert!(
                        common >= below,
                        "keys of a node differ at byte {common} < {below}"
                    );
                    entries += self.check(below, symbol, first, child, guard);
                });
                assert_eq!(children, node.children(), "count of a node");
                entries
            }
        }
    }
}
