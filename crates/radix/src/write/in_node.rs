//! Changes under the lock of one node, whose leaves are blocks of several entries.
//!
//! The children of a node cover ranges of bytes. A leaf may cover several, an inner or dense node
//! covers one, and null covers those between. If a key ends at the node, its leaf is stored
//! separately:
//!
//! ```text
//!   node, deciding on byte d
//!   │ end │ 0 … 16 │ 17 … 80 │ 81 │ 82 … 255 │
//!     leaf   leaf     leaf     │     nothing
//!                              ▼
//!                         node, deciding on a later byte
//! ```
//!
//! A leaf that overflows is divided between two bytes of its range; if all of its keys have the
//! same byte, it is replaced by a node that decides on the first byte in which they differ. A leaf
//! that becomes small joins a small neighbour, and an empty leaf is removed: no leaf of a tree is
//! empty, so any key below a node shows the bytes that paths skip.
//!
//! A leaf is never divided in place. Its replacements are linked, and it is marked and never
//! changes again. A walk that has reached it sees the former state, which was the tree's state at
//! an instant after the walk began.

use super::{Decide, LockedAttemptResult};
use crate::build::{ChildEntries, Slice, build, discard_all, pack, room};
use crate::change::RadixKeyChange;
use crate::leaf::{Entries, InNode, LeafEntryRoom, LeafForm, LockedChangePlace, put_entry};
use crate::node::{ChildByteRange, END, NodeRefKind, RadixInnerNode, Ref, Symbol};
use crate::tree::{Hint, RadixTree};
use crate::writer::PinnedWriter;
use arrayvec::ArrayVec;
use nearfield_core::OperationError;

impl<F: LeafForm> RadixTree<F> {
    /// Makes a change under the lock of a node, unless it affects more than that node.
    #[inline]
    pub fn modify_in_node<'v>(
        &self,
        spot: LockedChangePlace<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> InNode {
        match self.modify_spot(spot, key, guard, decide) {
            Ok(LockedAttemptResult::Done(done)) => done,
            // Out of memory as well: the visit's own walk will report it.
            _ => InNode::Postponed,
        }
    }

    /// Makes a change under a node's lock, if the node covers the key and has room.
    #[inline]
    pub(super) fn modify_spot<'v>(
        &self,
        spot: LockedChangePlace<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<LockedAttemptResult, OperationError> {
        let LockedChangePlace { node, symbol, .. } = spot;
        let memory = &self.memory;
        let leaf = F::child(node, symbol);
        match leaf.kind() {
            NodeRefKind::Leaf => {}
            NodeRefKind::Nothing => return self.modify_gap(spot, key, guard, decide),
            _ => return Ok(LockedAttemptResult::Below(leaf)),
        }
        // Threads that change the leaf under its latch alone are excluded until the change is
        // complete.
        let _latch = self.latch(leaf, guard);
        if let Some((position, value)) = F::find(memory, leaf, key, guard) {
            return match decide(Some(value)) {
                RadixKeyChange::Keep => Ok(LockedAttemptResult::Done(InNode::Unchanged)),
                RadixKeyChange::Set(value) => match F::set(memory, leaf, position, value, guard)? {
                    LeafEntryRoom::InPlace => Ok(LockedAttemptResult::Done(InNode::Unchanged)),
                    // A shorter value may have made the leaf small.
                    LeafEntryRoom::Copy(new) => {
                        let done = self.exchange_leaf(node, symbol, leaf, new, guard);
                        Ok(LockedAttemptResult::Done(
                            match F::is_small(memory, new, guard) {
                                true => self.join_small(node, symbol, new, guard),
                                false => done,
                            },
                        ))
                    }
                    LeafEntryRoom::Full => self.overflow(node, symbol, leaf, (key, value), guard),
                },
                RadixKeyChange::Remove => {
                    let done = self.remove(node, symbol, leaf, position, guard);
                    Ok(LockedAttemptResult::Done(done))
                }
            };
        }
        if let Some(step) = Self::leaves_path(spot, key, || F::any_key(memory, leaf, guard)) {
            return Ok(step);
        }
        let RadixKeyChange::Set(value) = decide(None) else {
            return Ok(LockedAttemptResult::Done(InNode::Unchanged));
        };
        let depth = node.header().depth();
        let step = match F::make_room(memory, leaf, (key, value), depth, guard)? {
            LeafEntryRoom::InPlace => {
                F::insert(memory, leaf, (key, value), depth, guard);
                LockedAttemptResult::Done(InNode::Unchanged)
            }
            LeafEntryRoom::Copy(new) => {
                LockedAttemptResult::Done(self.exchange_leaf(node, symbol, leaf, new, guard))
            }
            LeafEntryRoom::Full => self.overflow(node, symbol, leaf, (key, value), guard)?,
        };
        if let LockedAttemptResult::Done(_) = step {
            guard.count_entries(1);
        }
        Ok(step)
    }

    /// Returns the end of a change if the key is not below the node, because it differs from
    /// `other`, some key there, in bytes that the path skips.
    #[inline]
    pub(super) fn leaves_path<'g>(
        spot: LockedChangePlace<'_>,
        key: F::Key<'_>,
        other: impl FnOnce() -> Option<F::Key<'g>>,
    ) -> Option<LockedAttemptResult> {
        if !spot.skipped {
            return None;
        }
        let Some(other) = other() else {
            return Some(LockedAttemptResult::Unknown);
        };
        let depth = F::difference(F::shorten_key(key), F::shorten_key(other))?;
        (depth < spot.node.header().depth()).then_some(LockedAttemptResult::Above(depth))
    }

    /// Makes a change like `modify_spot`, if the node has nothing for the key.
    #[cold]
    fn modify_gap<'v>(
        &self,
        spot: LockedChangePlace<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut Decide<'_, 'v, F>,
    ) -> Result<LockedAttemptResult, OperationError> {
        let LockedChangePlace { node, symbol, .. } = spot;
        let memory = &self.memory;
        if let Some(step) = Self::leaves_path(spot, key, || self.any_key(node.first(), guard)) {
            return Ok(step);
        }
        let RadixKeyChange::Set(value) = decide(None) else {
            return Ok(LockedAttemptResult::Done(InNode::Unchanged));
        };
        let entry =
            [(key, value)].map(|(key, value)| (F::shorten_key(key), F::shorten_value(value)));
        if symbol == END {
            node.header().set_end(F::create(memory, &entry)?);
            guard.count_entries(1);
            return Ok(LockedAttemptResult::Done(InNode::Changed));
        }
        let gap = node.range(symbol as u8);
        // A neighbour with room now covers the gap, too.
        let depth = node.header().depth();
        let left = gap.start.checked_sub(1).map(|byte| node.range(byte));
        let right = gap.end.checked_add(1).map(|byte| node.range(byte));
        for neighbour in [left, right].into_iter().flatten() {
            if neighbour.child.kind() != NodeRefKind::Leaf {
                continue;
            }
            let _latch = self.latch(neighbour.child, guard);
            let (start, end) = (neighbour.start.min(gap.start), neighbour.end.max(gap.end));
            match F::make_room(memory, neighbour.child, (key, value), depth, guard)? {
                LeafEntryRoom::Full => continue,
                LeafEntryRoom::InPlace => {
                    // The neighbour must cover the gap before it has the key, which a scan may find
                    // in it at once.
                    node.splice(start, end, &[(start, neighbour.child)]);
                    F::insert(memory, neighbour.child, (key, value), depth, guard);
                }
                LeafEntryRoom::Copy(new) => {
                    F::kill(memory, neighbour.child);
                    node.splice(start, end, &[(start, new)]);
                    guard.retire(neighbour.child);
                }
            }
            guard.count_entries(1);
            // The gap is no range of its own any more, so the node may be underfull.
            return Ok(LockedAttemptResult::Done(InNode::Shrunk));
        }
        if room(node) == 0 && !gap.stored {
            return Ok(LockedAttemptResult::Full);
        }
        let leaf = F::create(memory, &entry)?;
        node.splice(gap.start, gap.end, &[(gap.start, leaf)]);
        guard.count_entries(1);
        Ok(LockedAttemptResult::Done(InNode::Changed))
    }

    /// Links a leaf in place of one that covers the same bytes.
    pub fn exchange_leaf(
        &self,
        node: RadixInnerNode<'_>,
        symbol: Symbol,
        old: Ref,
        new: Ref,
        guard: &PinnedWriter<'_, F>,
    ) -> InNode {
        debug_assert_eq!(F::child(node, symbol), old, "another leaf is linked");
        debug_assert!(new.is_leaf() && new != old, "a leaf replaces a leaf");
        // The old leaf is marked before the new one is linked: a thread that sees a change in the
        // new one must find the old one dead.
        F::kill(&self.memory, old);
        match symbol {
            END => node.header().set_end(new),
            byte => node.set_covering(byte as u8, new),
        }
        guard.retire(old);
        InNode::Changed
    }

    /// Replaces a leaf with a subtree with room for its entries and a new one, which may replace
    /// one of them.
    fn overflow(
        &self,
        node: RadixInnerNode<'_>,
        symbol: Symbol,
        full: Ref,
        (key, value): (F::Key<'_>, F::Value<'_>),
        guard: &PinnedWriter<'_, F>,
    ) -> Result<LockedAttemptResult, OperationError> {
        let memory = &self.memory;
        debug_assert_ne!(symbol, END, "an entry alone has room in a leaf of its own");
        let range = node.range(symbol as u8);
        let entry = (F::shorten_key(key), F::shorten_value(value));
        if room(node) > 0 {
            let (depth, is_last) = (node.header().depth(), range.end == 255);
            let divided = F::divided(memory, full, depth, is_last, entry, guard);
            if let Some((byte, [left, right])) = divided.transpose()? {
                let pieces = [(range.start, left), (byte, right)];
                return Ok(self.replace_leaf(node, range, full, &pieces, guard));
            }
        }
        let mut entries = Entries::<F>::new();
        F::gather(memory, full, guard, &mut entries);
        put_entry::<F>(&mut entries, entry.0, entry.1);
        let Some(pieces) = self.divide(node, range, &entries, key)? else {
            return Ok(LockedAttemptResult::Full);
        };
        let done = self.replace_leaf(node, range, full, pieces.as_slice(), guard);
        self.link_new(node, pieces.as_slice(), guard);
        Ok(done)
    }

    /// Links pieces in place of the leaf of a range.
    fn replace_leaf(
        &self,
        node: RadixInnerNode<'_>,
        range: ChildByteRange,
        old: Ref,
        pieces: &[(u8, Ref)],
        guard: &PinnedWriter<'_, F>,
    ) -> LockedAttemptResult {
        debug_assert_eq!(range.child, old, "another leaf is linked");
        F::kill(&self.memory, old);
        node.splice(range.start, range.end, pieces);
        guard.retire(old);
        LockedAttemptResult::Done(InNode::Changed)
    }

    /// Records jumps to the new nodes below a node.
    pub(super) fn link_new(
        &self,
        node: RadixInnerNode<'_>,
        pieces: &[(u8, Ref)],
        guard: &PinnedWriter<'_, F>,
    ) {
        for &(_, child) in pieces {
            if child.is_inner() {
                self.relink(node, [Ref::NULL, child], Hint::None, guard, || {});
            }
        }
    }

    /// Returns the subtree that covers a range in place of a leaf without room for `entries`, of
    /// which `added` is new; `None` if the node has no room for it.
    fn divide(
        &self,
        node: RadixInnerNode<'_>,
        range: ChildByteRange,
        entries: &Entries<'_, F>,
        added: F::Key<'_>,
    ) -> Result<Option<RangeReplacement>, OperationError> {
        let depth = node.header().depth();
        let at = |i: usize| F::symbol(entries[i].0, depth).unwrap_or_default() as u8;
        let last = entries.len() - 1;
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        if at(0) == at(last) {
            let byte = at(0);
            // The bytes before and after become gaps, which need a slot each.
            let extra = usize::from(range.start < byte) + usize::from(byte < range.end);
            if room(node) < extra {
                return Ok(None);
            }
            let below = build::<F>(&self.memory, entries, entries.len().div_ceil(2))?;
            let below = self.memory.edge(depth, below);
            let pieces = around(range, byte, below, Ref::NULL, Ref::NULL);
            return Ok(Some(RangeReplacement::Few(pieces)));
        }
        if room(node) == 0 {
            return Ok(None);
        }
        // Keys in ascending order leave full blocks behind.
        let is_last = F::shorten_key(entries[last].0) == F::shorten_key(added);
        let ascending = is_last && range.end == 255;
        let wanted = if ascending { last } else { entries.len() / 2 };
        let split = (1..=last)
            .filter(|&i| at(i - 1) != at(i))
            .min_by_key(|&i| i.abs_diff(wanted))
            .unwrap_or(wanted);
        let (left, right) = entries.split_at(split);
        if !F::fits(left) || !F::fits(right) {
            // An entry may be as large as a leaf.
            return self.divide_large(node, range, entries);
        }
        let [left, right] = F::create_two(&self.memory, left, right)?;
        Ok(Some(RangeReplacement::Few(
            [(range.start, left), (at(split), right)]
                .into_iter()
                .collect(),
        )))
    }

    /// Divides like `divide`, if entries are so large that two leaves may not suffice.
    #[cold]
    fn divide_large(
        &self,
        node: RadixInnerNode<'_>,
        range: ChildByteRange,
        entries: &Entries<'_, F>,
    ) -> Result<Option<RangeReplacement>, OperationError> {
        let pieces = self.cover(node, &range, entries)?;
        if pieces.len() > room(node) + 1 {
            discard_all::<F>(&self.memory, &pieces);
            return Ok(None);
        }
        Ok(Some(RangeReplacement::Many(pieces)))
    }

    /// Builds full leaves and nodes from entries in ascending order, which together cover a range
    /// of a node. The caller must link or [discard](discard_all) them.
    pub(super) fn cover(
        &self,
        node: RadixInnerNode<'_>,
        range: &ChildByteRange,
        entries: Slice<'_, '_, F>,
    ) -> Result<Vec<(u8, Ref)>, OperationError> {
        let (memory, depth) = (&self.memory, node.header().depth());
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        let groups = entries
            .chunk_by(|a, b| F::symbol(a.0, depth) == F::symbol(b.0, depth))
            .map(|group| {
                let symbol = F::symbol(group[0].0, depth).unwrap_or_default();
                Ok((symbol as u8, ChildEntries::of(memory, group)?))
            });
        let bytes = u16::from(range.start)..u16::from(range.end) + 1;
        let (fill, mut pieces) = (F::LEAF_ENTRIES_MAX, Vec::new());
        pack::<F>(memory, depth, bytes, groups, fill, &mut pieces)
            .inspect_err(|_| discard_all::<F>(memory, &pieces))?;
        Ok(pieces)
    }

    /// Removes an entry of a leaf, and the leaf if it becomes empty.
    fn remove(
        &self,
        node: RadixInnerNode<'_>,
        symbol: Symbol,
        leaf: Ref,
        position: usize,
        guard: &PinnedWriter<'_, F>,
    ) -> InNode {
        let memory = &self.memory;
        F::remove(memory, leaf, position, guard);
        guard.count_entries(-1);
        let count = F::count(memory, leaf, guard);
        // Looking at the neighbours pays only for a leaf that is small enough to join one.
        if count > F::JOINED_MAX / 2 {
            return self.compact_leaf(node, symbol, leaf, guard);
        }
        if symbol == END {
            self.retire_leaf(leaf, guard);
            node.header().set_end(Ref::NULL);
            return InNode::Shrunk;
        }
        if count == 0 {
            self.retire_leaf(leaf, guard);
            node.clear_covering(symbol as u8);
            return InNode::Shrunk;
        }
        let range = node.range(symbol as u8);
        let left = range.start.checked_sub(1).map(|byte| node.range(byte));
        let right = range.end.checked_add(1).map(|byte| node.range(byte));
        match self.join(node, &range, [left, right], guard) {
            true => InNode::Shrunk,
            false => self.compact_leaf(node, symbol, leaf, guard),
        }
    }

    /// Joins a leaf that has become small, and is linked, with a small neighbour, if there is one.
    #[cold]
    fn join_small(
        &self,
        node: RadixInnerNode<'_>,
        symbol: Symbol,
        leaf: Ref,
        guard: &PinnedWriter<'_, F>,
    ) -> InNode {
        let _latch = self.latch(leaf, guard);
        if symbol == END || F::count(&self.memory, leaf, guard) > F::JOINED_MAX / 2 {
            return InNode::Changed;
        }
        let range = node.range(symbol as u8);
        let left = range.start.checked_sub(1).map(|byte| node.range(byte));
        let right = range.end.checked_add(1).map(|byte| node.range(byte));
        match self.join(node, &range, [left, right], guard) {
            true => InNode::Shrunk,
            false => InNode::Changed,
        }
    }

    /// Replaces the latched leaf of a range and one of two neighbours with one leaf, if they have
    /// few enough entries together, and if there is memory for it.
    fn join(
        &self,
        node: RadixInnerNode<'_>,
        range: &ChildByteRange,
        neighbours: [Option<ChildByteRange>; 2],
        guard: &PinnedWriter<'_, F>,
    ) -> bool {
        let memory = &self.memory;
        let count = F::count(memory, range.child, guard);
        let joins = |other: ChildByteRange| {
            if other.child.kind() != NodeRefKind::Leaf {
                return None;
            }
            // The latch of a second leaf of one node cannot cause a deadlock: holders of a latch
            // alone never wait.
            let latch = self.latch(other.child, guard);
            let both = F::count(memory, other.child, guard) + count;
            (both <= F::JOINED_MAX).then_some((other, latch))
        };
        let [left, right] = neighbours;
        let (low, high, _latch) = if let Some((left, latch)) = left.and_then(joins) {
            (left, *range, latch)
        } else if let Some((right, latch)) = right.and_then(joins) {
            (*range, right, latch)
        } else {
            return false;
        };
        debug_assert_eq!(low.end + 1, high.start, "the leaves are no neighbours");
        let mut entries = Entries::<F>::new();
        F::gather(memory, low.child, guard, &mut entries);
        F::gather(memory, high.child, guard, &mut entries);
        if !F::joins(&entries) {
            return false;
        }
        let Ok(joined) = F::create(memory, &entries) else {
            return false;
        };
        F::kill(memory, low.child);
        F::kill(memory, high.child);
        node.splice(low.start, high.end, &[(low.start, joined)]);
        guard.retire(low.child);
        guard.retire(high.child);
        true
    }

    /// Reclaims the memory of removed entries in a leaf, if that pays and there is memory for a
    /// copy.
    fn compact_leaf(
        &self,
        node: RadixInnerNode<'_>,
        symbol: Symbol,
        leaf: Ref,
        guard: &PinnedWriter<'_, F>,
    ) -> InNode {
        match F::compacted(&self.memory, leaf, guard) {
            Some(Ok(copy)) => self.exchange_leaf(node, symbol, leaf, copy, guard),
            _ => InNode::Unchanged,
        }
    }

    /// Latches a leaf below a node whose lock is held.
    #[inline]
    pub(super) fn latch(&self, leaf: Ref, guard: &PinnedWriter<'_, F>) -> F::Latch<'_> {
        F::latch(&self.memory, leaf, guard.latching().needed)
    }

    /// Retires a leaf that is about to be unlinked.
    pub(super) fn retire_leaf(&self, leaf: Ref, guard: &PinnedWriter<'_, F>) {
        debug_assert!(leaf.is_leaf(), "only leaves are marked");
        F::kill(&self.memory, leaf);
        guard.retire(leaf);
    }
}

/// The replacement of one range.
enum RangeReplacement {
    Few(ArrayVec<(u8, Ref), 3>),
    /// The pieces of large entries.
    Many(Vec<(u8, Ref)>),
}

impl RangeReplacement {
    fn as_slice(&self) -> &[(u8, Ref)] {
        match self {
            RangeReplacement::Few(ranges) => ranges,
            RangeReplacement::Many(ranges) => ranges,
        }
    }
}

/// Returns a child of one byte, and the children that cover the range's bytes before and after it.
pub(super) fn around(
    range: ChildByteRange,
    byte: u8,
    child: Ref,
    before: Ref,
    behind: Ref,
) -> ArrayVec<(u8, Ref), 3> {
    debug_assert!(
        (range.start..=range.end).contains(&byte),
        "another range has the byte"
    );
    let mut ranges = ArrayVec::new();
    if range.start < byte {
        ranges.push((range.start, before));
    }
    ranges.push((byte, child));
    if byte < range.end {
        ranges.push((byte + 1, behind));
    }
    ranges
}
