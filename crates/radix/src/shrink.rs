//! Replacement of nodes that have too few children left after removals, by smaller nodes or by
//! their only child.

use crate::build::{is_underfull, smaller};
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::lock::{VersionLockGuard, pause};
use crate::node::{NodeRefKind, Ref, Symbol};
use crate::tree::{Hint, RadixTree};
use crate::writer::PinnedWriter;

impl<F: LeafForm> RadixTree<F> {
    /// Replaces each node on the path of a key that has too few children left, with a smaller node
    /// or with its only child. Without memory for that, the node stays.
    pub fn tidy(&self, key: F::Key<'_>, guard: &PinnedWriter<'_, F>, probe: &mut impl RadixProbe) {
        let mut waits = 0;
        loop {
            match self.tidy_once(key, guard, probe) {
                Tidy::Clean => return,
                Tidy::Changed => {}
                Tidy::Raced => pause(&mut waits),
            }
        }
    }

    fn tidy_once(
        &self,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
    ) -> Tidy {
        let mut parent = self.root;
        let mut symbol = Self::first_symbol(key);
        loop {
            let child = self.child(self.memory.inner(parent), symbol);
            if matches!(child.kind(), NodeRefKind::Nothing | NodeRefKind::Leaf) {
                return Tidy::Clean;
            }
            // This is only a guess without the lock. `shrink` looks again.
            if is_underfull::<F>(&self.memory, child) {
                match self.shrink(key, [parent, child], symbol, guard, probe) {
                    // Without memory it stays. A node below it that has no entry left needs no
                    // memory to go.
                    Tidy::Clean => {}
                    tidy => return tidy,
                }
            }
            if child.kind() == NodeRefKind::Dense {
                return Tidy::Clean;
            }
            match F::symbol(key, self.memory.inner(child).header().depth()) {
                Some(next) => (parent, symbol) = (child, next),
                None => return Tidy::Clean,
            }
        }
    }

    /// Replaces `child` with a smaller node, or with its only child. The path of `key` leads to it.
    fn shrink(
        &self,
        key: F::Key<'_>,
        [parent, child]: [Ref; 2],
        symbol: Symbol,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
    ) -> Tidy {
        let above = self.memory.inner(parent);
        // Locks are taken downwards, so that this thread may wait for both.
        let Ok((held_above, waits)) = VersionLockGuard::lock(&above.header().lock) else {
            return Tidy::Raced;
        };
        probe.lock(waits);
        if F::child(above, symbol) != child {
            held_above.unlock_unchanged();
            return Tidy::Raced;
        }
        let lock = match child.kind() {
            NodeRefKind::Dense => &self.memory.dense(child).header().lock,
            _ => &self.memory.inner(child).header().lock,
        };
        let Ok((held, waits)) = VersionLockGuard::lock(lock) else {
            held_above.unlock_unchanged();
            return Tidy::Raced;
        };
        probe.lock(waits);
        // Another thread may have added children before the node was locked.
        if !is_underfull::<F>(&self.memory, child) {
            held.unlock_unchanged();
            held_above.unlock_unchanged();
            return Tidy::Raced;
        }
        match smaller::<F>(&self.memory, child) {
            Ok(smaller) => {
                let smaller = match smaller.is_null() {
                    true => smaller,
                    false => self.memory.edge(above.header().depth(), smaller),
                };
                self.relink(
                    above,
                    [child, smaller],
                    Hint::Path(key),
                    guard,
                    || match smaller.is_null() {
                        true => above.clear_covering(symbol as u8),
                        false => above.set_covering(symbol as u8, smaller),
                    },
                );
                // The node stays as it is. Readers that have reached it need not restart.
                held.unlock_obsolete();
                drop(held_above);
                guard.retire(child);
                Tidy::Changed
            }
            Err(_) => {
                held.unlock_unchanged();
                held_above.unlock_unchanged();
                Tidy::Clean
            }
        }
    }
}

/// The result of an attempt to tidy a path, or to shrink one node.
enum Tidy {
    /// Nothing was changed, and no change is possible.
    Clean,
    Changed,
    Raced,
}
