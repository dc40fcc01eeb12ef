//! Insertion of runs: neighbours in ascending order that belong at one place of the tree, as with
//! timestamps, counters and sorted input.
//!
//! One walk, one lock and one replacement serve all entries of a run. They are merged with those of
//! the leaf at the place. The result is full leaves, with nodes above them if there are many:
//!
//! ```text
//!   node    │ 0 … 48 │ 49 … 255 │          node    │ 0 … 48 │ 49 │ 50 │ 51 … 255 │
//!              leaf     leaf         ─▶              leaf     │    │    leaf
//!                                                             ▼    ▼
//!                                                           nodes above full leaves
//! ```
//!
//! Some cases are left to the single insertion of the run's first entry: a path that must fork, a
//! node that becomes dense, a lack of memory.

use super::Attempt;
use crate::build::{Entry, Slice, discard_all, room};
use crate::change::RadixKeyChange;
use crate::counters::RadixProbe;
use crate::leaf::{Entries, InNode, LeafForm, LockedChangePlace};
use crate::lock::VersionLockGuard;
use crate::node::{END, NodeRefKind, Ref};
use crate::tree::{RadixTree, RadixWalkEnd};
use crate::writer::PinnedWriter;
use nearfield_core::EntryForm;
use std::cmp::Ordering;

/// The minimum number of entries in a run. Fewer are inserted one by one.
pub const RUN_MIN: usize = 4;

/// The result of inserting a run.
enum RunInsertResult {
    /// Nothing was inserted.
    Nothing,
    /// Number of entries inserted in the place.
    Entries(usize),
    /// Number of entries inserted in a larger node, which has replaced the node.
    InLarger(usize),
}

/// Receiver of the previous values: the number of the entry and its key's value, if it had one.
type Before<'b, F> = dyn FnMut(usize, Option<<F as EntryForm>::Value<'_>>) + 'b;

impl<F: LeafForm> RadixTree<F> {
    /// Inserts the first of `entries`, which are in strictly ascending order, as long as they
    /// belong at one place. Returns their number: 0 if there are too few, or if the place must be
    /// changed first. `before` receives the previous values. Ignore the values that it receives for
    /// other entries.
    pub fn insert_run(
        &self,
        entries: Slice<'_, '_, F>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        before: &mut Before<'_, F>,
    ) -> usize {
        let Some(&(first, _)) = entries.first() else {
            return 0;
        };
        let place = self.descend(F::shorten_key(first), usize::MAX, probe);
        let lock = match place.child.kind() {
            NodeRefKind::Dense
                if F::is_in_dense(&self.memory, place.child, F::shorten_key(first)) =>
            {
                &self.memory.dense(place.child).header().lock
            }
            NodeRefKind::Leaf | NodeRefKind::Nothing if place.symbol != END => {
                &self.memory.inner(place.node).header().lock
            }
            _ => return 0,
        };
        let Ok((held, waits)) = VersionLockGuard::lock(lock) else {
            return 0;
        };
        probe.lock(waits);
        let inserted = match place.child.kind() {
            NodeRefKind::Dense => self.insert_run_in_dense(place.child, entries, guard, before),
            _ => self.insert_run_in_node(&place, entries, guard, probe, before),
        };
        match inserted {
            RunInsertResult::Nothing => {
                held.unlock_unchanged();
                0
            }
            RunInsertResult::Entries(count) => count,
            RunInsertResult::InLarger(count) => {
                held.unlock_obsolete();
                guard.retire(place.node);
                count
            }
        }
    }

    /// Inserts a run like `insert_run`, under the lock of a dense node, in which the first entry
    /// belongs.
    fn insert_run_in_dense(
        &self,
        dense: Ref,
        entries: Slice<'_, '_, F>,
        guard: &PinnedWriter<'_, F>,
        before: &mut Before<'_, F>,
    ) -> RunInsertResult {
        for (number, &(key, value)) in entries.iter().enumerate() {
            let mut decide = |current: Option<F::Value<'_>>| {
                before(number, current);
                RadixKeyChange::Set(F::shorten_value(value))
            };
            let key = F::shorten_key(key);
            if self.modify_in_dense(dense, key, guard, &mut decide) == InNode::Postponed {
                return match number {
                    0 => RunInsertResult::Nothing,
                    count => RunInsertResult::Entries(count),
                };
            }
        }
        RunInsertResult::Entries(entries.len())
    }

    /// Inserts a run like `insert_run`, under the lock of the node above a leaf or nothing.
    fn insert_run_in_node(
        &self,
        place: &RadixWalkEnd,
        entries: Slice<'_, '_, F>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        before: &mut Before<'_, F>,
    ) -> RunInsertResult {
        let (memory, node, leaf) = (&self.memory, self.memory.inner(place.node), place.child);
        if F::child(node, place.symbol) != leaf {
            return RunInsertResult::Nothing;
        }
        let (depth, first) = (place.depth, F::shorten_key(entries[0].0));
        let range = node.range(place.symbol as u8);
        let belongs = |key| {
            let shared = F::difference(first, key).unwrap_or(usize::MAX);
            let symbol = F::symbol(key, depth);
            shared >= depth && symbol.is_some_and(|symbol| symbol <= u16::from(range.end))
        };
        let count = entries
            .iter()
            .take_while(|(key, _)| belongs(F::shorten_key(*key)))
            .count();
        if count < RUN_MIN {
            return RunInsertResult::Nothing;
        }
        let spot = LockedChangePlace {
            node,
            symbol: place.symbol,
            skipped: place.skipped,
        };
        let other = || match leaf.is_null() {
            true => self.any_key(node.first(), guard),
            false => F::any_key(memory, leaf, guard),
        };
        if Self::leaves_path(spot, first, other).is_some() {
            return RunInsertResult::Nothing;
        }
        let _latch = (!leaf.is_null()).then(|| self.latch(leaf, guard));
        let mut old = Entries::<F>::new();
        if !leaf.is_null() {
            F::gather(memory, leaf, guard, &mut old);
        }
        let (all, added) = merge::<F>(&old, &entries[..count], before);
        let Ok(pieces) = self.cover(node, &range, &all) else {
            return RunInsertResult::Nothing;
        };
        let kill = || {
            if !leaf.is_null() {
                F::kill(memory, leaf);
            }
        };
        let fits = pieces.len() <= room(node).saturating_add(usize::from(range.stored));
        if fits {
            // The leaf is marked before its replacement can be seen.
            kill();
            node.splice(range.start, range.end, &pieces);
            self.link_new(node, &pieces, guard);
        } else {
            let grown = self.grow_with(place, &range, &pieces, guard, probe, kill);
            // Nothing refers to the pieces, and `kill` has not been called.
            if !matches!(grown, Ok(Attempt::Done)) {
                discard_all::<F>(memory, &pieces);
                return RunInsertResult::Nothing;
            }
        }
        if !leaf.is_null() {
            guard.retire(leaf);
        }
        guard.count_entries(added as i64);
        match fits {
            true => RunInsertResult::Entries(count),
            false => RunInsertResult::InLarger(count),
        }
    }
}

/// Merges the entries of a leaf with new ones, which take precedence. Also returns the number of
/// new keys.
fn merge<'e, 'n: 'e, F: LeafForm>(
    old: Slice<'_, 'e, F>,
    new: Slice<'_, 'n, F>,
    before: &mut Before<'_, F>,
) -> (Vec<Entry<'e, F>>, usize) {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let (mut old, mut added) = (old.iter().peekable(), 0);
    for (number, &(key, value)) in new.iter().enumerate() {
        let (key, value) = (F::shorten_key(key), F::shorten_value(value));
        while let Some(entry) = old.next_if(|entry| entry.0 < key) {
            all.push(*entry);
        }
        let replaced = old.next_if(|entry| entry.0.cmp(&key) == Ordering::Equal);
        before(number, replaced.map(|entry| F::shorten_value(entry.1)));
        added += usize::from(replaced.is_none());
        all.push((key, value));
    }
    all.extend(old);
    debug_assert!(all.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
    (all, added)
}
