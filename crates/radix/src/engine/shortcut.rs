//! *Shortcuts* in a batch: before the traversal, visits of keys in the table are executed at the
//! leaf directly. The others remain to be walked.

use super::combine::KeyVisit;
use super::trigger::Trigger;
use crate::counters::RadixProbe;
use crate::leaf::{LeafForm, RadixLeafLookup};
use crate::node::{NodeRefKind, Ref};
use crate::prefetch::prefetch;
use crate::shortcut::{Shortcut, Shortcuts};

/// Number of visits whose lines are in flight at once.
const WINDOW: usize = 128;

/// Writes of keys below one parent, which are executed under its lock.
#[derive(Debug)]
struct ParentWriteGroup {
    parent: Ref,
    visits: Vec<u32>,
}

impl<F: LeafForm, P: RadixProbe> Trigger<'_, '_, '_, F, P> {
    /// Executes the visits of keys with a valid shortcut. Neighbouring writes below the same parent
    /// are executed together if `together` is true. Returns the numbers of the other visits.
    pub fn take_shortcuts(&mut self, table: &Shortcuts, together: bool) -> Vec<u32> {
        let visits = self.plan.visits.len();
        let mut rest = Vec::new();
        let mut group = ParentWriteGroup {
            parent: Ref::NULL,
            visits: Vec::new(),
        };
        for start in (0..visits).step_by(WINDOW) {
            let window = start..visits.min(start + WINDOW);
            let found = self.look_up(table, window.clone());
            for (number, found) in window.zip(found) {
                let visit = self.plan.visits[number];
                match found {
                    Some(found) if visit.writes => {
                        if !together || found.parent != group.parent {
                            self.write_group(&mut group, &mut rest);
                            group.parent = found.parent;
                        }
                        group.visits.push(number as u32);
                    }
                    // The entry is a hint. A leaf without the key proves nothing, and the visit
                    // walks.
                    Some(found) if self.read_leaf(number, visit, found.leaf) => {}
                    _ => rest.push(number as u32),
                }
            }
        }
        self.write_group(&mut group, &mut rest);
        self.count(table, visits, visits - rest.len());
        // Groups of writes return their visits late.
        rest.sort_unstable();
        rest
    }

    /// Looks up the keys of a window of visits and prefetches the targets of shortcuts.
    fn look_up(
        &self,
        table: &Shortcuts,
        window: std::ops::Range<usize>,
    ) -> [Option<Shortcut>; WINDOW] {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(&self.keys[window.clone()]) {
            *hash = F::hash(*key);
            // All lines of the window are requested before the first is read.
            prefetch(table.address(*hash));
        }
        let mut found = [None; WINDOW];
        for (i, visit) in self.plan.visits[window].iter().enumerate() {
            found[i] = table.find(hashes[i]);
            if let Some(shortcut) = found[i] {
                prefetch(self.tree.memory.line(shortcut.leaf));
                if visit.writes {
                    prefetch(self.tree.memory.line(shortcut.parent));
                }
            }
        }
        found
    }

    /// Executes a visit that only reads, at a leaf. Returns false if the leaf is not the key's.
    fn read_leaf(&mut self, number: usize, visit: KeyVisit, leaf: Ref) -> bool {
        self.probe.leaf();
        let (memory, guard) = (&self.tree.memory, self.guard);
        match F::lookup_again(
            memory,
            leaf,
            self.keys[number],
            F::Prepared::default(),
            guard,
        ) {
            RadixLeafLookup::Found(value) => {
                self.answer(number, visit, Some(F::found(&value)));
                true
            }
            _ => false,
        }
    }

    /// Executes the writes of a group. Those whose keys are not below the parent join the rest.
    fn write_group(&mut self, group: &mut ParentWriteGroup, rest: &mut Vec<u32>) {
        if group.visits.is_empty() {
            return;
        }
        // The argument `true` (bytes may have been skipped) keeps visits of absent keys from being
        // executed here: by now the parent may belong to entirely different keys.
        self.run_inner(group.parent, true, group.visits.iter().copied());
        group.visits.clear();
        rest.append(&mut self.postponed);
    }

    fn count(&mut self, table: &Shortcuts, probes: usize, hits: usize) {
        table.judge(probes, hits);
        for i in 0..probes {
            self.probe.shortcut(i < hits);
        }
    }

    /// Offers the place of a visit's key to the table.
    #[inline]
    pub fn offer(&self, number: u32, leaf: Ref, parent: Ref) {
        let Some(table) = self.shortcuts else {
            return;
        };
        let hash = F::hash(self.keys[number as usize]);
        let shortcut = Shortcut { leaf, parent };
        let wanted = match table.find(hash) {
            Some(known) => known != shortcut,
            None => table.grows_hot(hash),
        };
        if wanted && leaf.kind() == NodeRefKind::Leaf && parent.is_inner() {
            table.insert(hash, shortcut);
        }
    }

    /// Offers the child of a parent to the table for a visit, if it is the leaf of its key.
    pub fn offer_if_found(&self, number: u32, leaf: Ref, parent: Ref) {
        if self.shortcuts.is_none() || leaf.kind() != NodeRefKind::Leaf {
            return;
        }
        let key = self.keys[number as usize];
        let found = F::lookup(
            &self.tree.memory,
            leaf,
            key,
            F::Prepared::default(),
            self.guard,
        );
        if found.is_some() {
            self.offer(number, leaf, parent);
        }
    }
}
