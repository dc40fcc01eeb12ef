//! Changes of trees of words, whose leaves are [blocks](crate::leaf::block) of up to seven
//! entries.
//!
//! The children of a node cover ranges of bytes. A block may cover several, an inner or dense
//! node covers one, and null covers those between:
//!
//! ```text
//!   node, deciding on byte d
//!   │ 0 … 16 │ 17 … 80 │ 81 │ 82 … 255 │
//!      block    block     │     nothing
//!                         ▼
//!                    node, deciding on a later byte
//! ```
//!
//! A block that overflows is divided between two bytes of its range; if all of its keys have the
//! same byte, a node takes its place that decides on the first byte in which they differ. A
//! block that becomes small joins a small neighbour, and one that becomes empty is removed: no
//! block of a tree is empty, so that any key below a node tells the bytes that paths skip.
//!
//! A block is never divided in place. The blocks that replace it are linked, and then it is
//! obsolete and stays as it was: a walk that has come to it sees the state before, which was the
//! tree's after the walk began.

use crate::counters::Probe;
use crate::leaf::block::{BLOCK_MAX, Block};
use crate::leaf::{LeafForm, Spot, word};
use crate::lock::Held;
use crate::memory::Memory;
use crate::node::{Inner, Kind, Node4, Node16, Node48, Range, Ref, Sorted};
use crate::tree::{Attempt, Change, InNode, Place, Tree};
use crate::writer::Writer;
use nearfield_core::{Error, Words};
use word::{block, byte_at};

/// Entries at the last byte of sorted input that make a dense node: 16 blocks and a node16 take
/// more memory.
pub const DENSE_AT: usize = 15 * BLOCK_MAX + 1;
/// A dense node with no more entries becomes blocks again.
const DENSE_MIN: usize = 37;

/// Two neighbouring blocks become one when they have no more entries together.
const JOINED_MAX: usize = 5;

/// The kind of a node that begins with a number of ranges. A full node48 would save three
/// quarters of a node256, but each look-up would read a line more; with 17 ranges of about five
/// keys, a node256 takes 13 bytes a key, with more it takes less.
pub fn kind_for(ranges: usize) -> Kind {
    match ranges {
        0..=4 => Kind::Node4,
        5..=16 => Kind::Node16,
        _ => Kind::Node256,
    }
}

/// How many ranges more a node has room for.
fn room(node: Inner<'_>) -> usize {
    let capacity = match node {
        Inner::Node4(_) => Node4::CAPACITY,
        Inner::Node16(_) => Node16::CAPACITY,
        // There are none in trees of words.
        Inner::Node48(_) => Node48::CAPACITY,
        Inner::Node256(_) => return usize::MAX,
    };
    capacity - node.header().count()
}

/// How an attempt under a node's lock has ended.
enum Step {
    Done(InNode),
    /// The key differs from those below the node in this byte, which the path skips.
    Above(usize),
    /// The node has no room for another range.
    Full,
    /// The child is no block.
    Below(Ref),
    /// Another thread is at work where the answer lies.
    Unknown,
}

type Decide<'d> = dyn FnMut(Option<u64>) -> Change<u64> + 'd;

impl Tree<Words> {
    /// See [`LeafForm::visit_at`].
    pub fn visit_word_at(
        &self,
        place: &Place,
        key: u64,
        guard: &Writer<'_, Words>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> Result<Attempt, Error> {
        if place.child.kind() == Kind::Dense && self.memory.dense(place.child).base() == key >> 8 {
            return Ok(self.visit_word_at_dense(place.child, key, guard, probe, decide));
        }
        let node = self.memory.inner(place.node);
        let Ok((held, waits)) = Held::lock(&node.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(waits);
        if node.covering(place.symbol as u8) != place.child {
            held.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        let spot = Spot {
            node,
            symbol: place.symbol,
            skipped: place.skipped,
        };
        let attempt = match self.visit_word(spot, key, guard, decide) {
            Ok(Step::Done(InNode::Changed)) => {
                drop(held);
                return Ok(Attempt::Done);
            }
            Ok(Step::Done(InNode::Shrunk)) => {
                let underfull = is_underfull(&self.memory, place.node);
                drop(held);
                if underfull {
                    self.tidy(key, guard, probe);
                }
                return Ok(Attempt::Done);
            }
            Ok(Step::Done(_)) => Ok(Attempt::Done),
            Ok(Step::Above(depth)) => Ok(Attempt::Leaves(depth)),
            Ok(Step::Unknown) => Ok(Attempt::Restart),
            Ok(Step::Full) => match self.grow(place, node, key, guard, probe, decide) {
                Ok(Attempt::Done) => {
                    held.unlock_obsolete();
                    guard.retire(place.node);
                    return Ok(Attempt::Done);
                }
                attempt => attempt,
            },
            Ok(Step::Below(child)) => match self.fork(place, node, child, key, guard, decide) {
                Ok(Attempt::Done) => {
                    drop(held);
                    return Ok(Attempt::Done);
                }
                attempt => attempt,
            },
            Err(error) => Err(error),
        };
        held.unlock_unchanged();
        attempt
    }

    /// See [`LeafForm::visit_in_node`].
    #[inline]
    pub fn visit_word_in_node(
        &self,
        spot: Spot<'_>,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> InNode {
        match self.visit_word(spot, key, guard, decide) {
            Ok(Step::Done(done)) => done,
            // Out of memory as well: a visit of its own will say so.
            _ => InNode::Postponed,
        }
    }

    /// Makes a visit under a node's lock, if the node covers the key and has room.
    #[inline]
    fn visit_word(
        &self,
        spot: Spot<'_>,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> Result<Step, Error> {
        let Spot { node, symbol, .. } = spot;
        let byte = symbol as u8;
        let child = node.covering(byte);
        match child.kind() {
            Kind::Leaf => {}
            Kind::Nothing => return self.visit_gap(spot, key, guard, decide),
            _ => return Ok(Step::Below(child)),
        }
        let leaf = block(&self.memory, child);
        if let Some(position) = leaf.position(key) {
            return Ok(Step::Done(match decide(Some(leaf.payload(position))) {
                Change::Keep => InNode::Unchanged,
                Change::Set(payload) => {
                    leaf.set_payload(position, payload);
                    InNode::Unchanged
                }
                Change::Remove => self.remove(node, byte, child, position, guard),
            }));
        }
        if let Some(step) = leaves_path(spot, key, || leaf.any_key()) {
            return Ok(step);
        }
        let Change::Set(payload) = decide(None) else {
            return Ok(Step::Done(InNode::Unchanged));
        };
        if leaf.is_full() {
            return self.overflow(node, byte, child, (key, payload), guard);
        }
        leaf.insert(key, payload);
        guard.count_entries(1);
        Ok(Step::Done(InNode::Unchanged))
    }

    /// As `visit_word`, where the node has nothing for the key.
    #[cold]
    fn visit_gap(
        &self,
        spot: Spot<'_>,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut Decide<'_>,
    ) -> Result<Step, Error> {
        let Spot { node, symbol, .. } = spot;
        if let Some(step) = leaves_path(spot, key, || self.any_key(node.first(), guard)) {
            return Ok(step);
        }
        let Change::Set(payload) = decide(None) else {
            return Ok(Step::Done(InNode::Unchanged));
        };
        let gap = node.range(symbol as u8);
        // A neighbour with room covers the gap from now on. It must do so before it has the key,
        // which a scan may find in it at once.
        let left = gap.start.checked_sub(1).map(|byte| node.range(byte));
        let right = gap.end.checked_add(1).map(|byte| node.range(byte));
        let has_room = |range: &Range| {
            range.child.kind() == Kind::Leaf && !block(&self.memory, range.child).is_full()
        };
        let done = if let Some(left) = left.filter(has_room) {
            node.splice(left.start, gap.end, &[(left.start, left.child)]);
            block(&self.memory, left.child).insert(key, payload);
            InNode::Shrunk
        } else if let Some(right) = right.filter(has_room) {
            node.splice(gap.start, right.end, &[(gap.start, right.child)]);
            block(&self.memory, right.child).insert(key, payload);
            InNode::Shrunk
        } else {
            if room(node) == 0 && !gap.stored {
                return Ok(Step::Full);
            }
            let leaf = new_block(&self.memory, &[(key, payload)])?;
            node.splice(gap.start, gap.end, &[(gap.start, leaf)]);
            InNode::Changed
        };
        guard.count_entries(1);
        Ok(Step::Done(done))
    }

    /// Divides a full block to which an entry is to be added.
    fn overflow(
        &self,
        node: Inner<'_>,
        byte: u8,
        full: Ref,
        (key, payload): (u64, u64),
        guard: &Writer<'_, Words>,
    ) -> Result<Step, Error> {
        let old = block(&self.memory, full);
        let mut entries = old.load();
        entries.insert(key, payload);
        let depth = node.header().depth();
        let Some(pieces) = self.divide(node, depth, node.range(byte), entries.as_slice(), key)?
        else {
            return Ok(Step::Full);
        };
        let range = node.range(byte);
        node.splice(range.start, range.end, pieces.as_slice());
        old.retire();
        guard.retire(full);
        guard.count_entries(1);
        Ok(Step::Done(InNode::Changed))
    }

    /// What is to cover a range in place of a block of too many entries, the last of which is
    /// `added`; `None` if the node has no room for that.
    fn divide(
        &self,
        node: Inner<'_>,
        depth: usize,
        range: Range,
        entries: &[(u64, u64)],
        added: u64,
    ) -> Result<Option<Pieces>, Error> {
        let at = |i: usize| byte_at(entries[i].0, depth);
        let last = entries.len() - 1;
        if at(0) == at(last) {
            let byte = at(0);
            let extra = usize::from(range.start < byte) + usize::from(byte < range.end);
            if room(node) < extra {
                return Ok(None);
            }
            let below = build(&self.memory, entries, entries.len().div_ceil(2))?;
            let below = self.memory.edge(depth, below);
            return Ok(Some(Pieces::around(
                range,
                byte,
                below,
                Ref::NULL,
                Ref::NULL,
            )));
        }
        if room(node) == 0 {
            return Ok(None);
        }
        // Keys that come in ascending order leave full blocks behind.
        let ascending = entries[last].0 == added && range.end == 255;
        let wanted = if ascending { last } else { entries.len() / 2 };
        let split = (1..=last)
            .filter(|&i| at(i - 1) != at(i))
            .min_by_key(|&i| i.abs_diff(wanted))
            .unwrap_or(wanted);
        let [left, right] = self.memory.allocate_leaves()?;
        block(&self.memory, left).fill(&entries[..split]);
        block(&self.memory, right).fill(&entries[split..]);
        Ok(Some(Pieces {
            ranges: [(range.start, left), (at(split), right), (0, Ref::NULL)],
            count: 2,
        }))
    }

    /// Removes an entry of a block, and perhaps the block.
    fn remove(
        &self,
        node: Inner<'_>,
        byte: u8,
        leaf: Ref,
        position: usize,
        guard: &Writer<'_, Words>,
    ) -> InNode {
        let old = block(&self.memory, leaf);
        old.remove(position);
        guard.count_entries(-1);
        let count = old.count();
        if count > JOINED_MAX / 2 {
            return InNode::Unchanged;
        }
        let range = node.range(byte);
        let left = range.start.checked_sub(1).map(|byte| node.range(byte));
        let right = range.end.checked_add(1).map(|byte| node.range(byte));
        if count == 0 {
            // What is left covers the gaps at both sides, too.
            let is_gap = |range: &Range| range.child.is_null();
            let start = left.filter(is_gap).map_or(range.start, |gap| gap.start);
            let end = right.filter(is_gap).map_or(range.end, |gap| gap.end);
            node.splice(start, end, &[(start, Ref::NULL)]);
            self.retire_block(leaf, guard);
            return InNode::Shrunk;
        }
        let joins = |range: &Range| {
            range.child.kind() == Kind::Leaf
                && block(&self.memory, range.child).count() + count <= JOINED_MAX
        };
        let (low, high) = if let Some(left) = left.filter(joins) {
            (left, range)
        } else if let Some(right) = right.filter(joins) {
            (range, right)
        } else {
            return InNode::Unchanged;
        };
        let mut entries = block(&self.memory, low.child).load();
        for &(key, payload) in block(&self.memory, high.child).load().as_slice() {
            entries.insert(key, payload);
        }
        // Without memory for it they stay apart.
        let Ok(joined) = new_block(&self.memory, entries.as_slice()) else {
            return InNode::Unchanged;
        };
        node.splice(low.start, high.end, &[(low.start, joined)]);
        self.retire_block(low.child, guard);
        self.retire_block(high.child, guard);
        InNode::Shrunk
    }

    /// Retires a block that has been unlinked.
    fn retire_block(&self, leaf: Ref, guard: &Writer<'_, Words>) {
        block(&self.memory, leaf).retire();
        guard.retire(leaf);
    }

    /// Replaces a node without room by a larger one, in which the visit is made.
    fn grow(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: u64,
        guard: &Writer<'_, Words>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> Result<Attempt, Error> {
        let Some((parent, parent_symbol)) = place.parent else {
            return Ok(Attempt::Restart);
        };
        let above = self.memory.inner(parent);
        let Some(held_above) = Held::try_lock(&above.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(0);
        if !above.covering(parent_symbol as u8).same(place.node) {
            held_above.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        match self.enlarged(place, node, key, guard, decide) {
            Ok(Some(larger)) => {
                let edge = self.memory.edge(above.header().depth(), larger);
                above.set_covering(parent_symbol as u8, edge);
                Ok(Attempt::Done)
            }
            answer => {
                held_above.unlock_unchanged();
                answer.map(|_| Attempt::Restart)
            }
        }
    }

    /// A larger copy of a node, in which the visit has been made; `None` if it could not be.
    fn enlarged(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> Result<Option<Ref>, Error> {
        let kind = match node {
            Inner::Node4(_) => Kind::Node16,
            Inner::Node16(_) if place.depth == 7 => {
                let mut entries = Vec::with_capacity(16 * BLOCK_MAX);
                let mut leaves = Vec::with_capacity(16);
                node.for_each(|_, leaf| {
                    entries.extend_from_slice(block(&self.memory, leaf).load().as_slice());
                    leaves.push(leaf);
                });
                let dense = build_dense(&self.memory, &entries)?;
                self.visit_word_in_dense(dense, key, guard, decide);
                for leaf in leaves {
                    self.retire_block(leaf, guard);
                }
                return Ok(Some(dense));
            }
            _ => Kind::Node256,
        };
        let larger = copy(&self.memory, node, kind)?;
        let spot = Spot {
            node: self.memory.inner(larger),
            symbol: place.symbol,
            skipped: false,
        };
        match self.visit_word(spot, key, guard, decide) {
            Ok(Step::Done(_)) => {
                spot.node.header().publish();
                Ok(Some(larger))
            }
            other => {
                self.memory.free_node(larger);
                other.map(|_| None)
            }
        }
    }

    /// Inserts a key that differs from all keys below a child in a byte that the path to the
    /// child skips: a node that decides on that byte takes the child's place.
    fn fork(
        &self,
        place: &Place,
        node: Inner<'_>,
        child: Ref,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut Decide<'_>,
    ) -> Result<Attempt, Error> {
        let Some(other) = self.any_key(child, guard) else {
            return Ok(Attempt::Restart);
        };
        let below = match child.kind() {
            Kind::Dense => 7,
            _ => self.memory.inner(child).header().depth(),
        };
        let depth = match Words::difference(key, other) {
            Some(depth) if depth < place.depth => return Ok(Attempt::Leaves(depth)),
            Some(depth) if depth > place.depth && depth < below => depth,
            // The child covers the key by now.
            _ => return Ok(Attempt::Restart),
        };
        let Change::Set(payload) = decide(None) else {
            return Ok(Attempt::Done);
        };
        let leaf = new_block(&self.memory, &[(key, payload)])?;
        let fork = match self.memory.allocate_inner(Kind::Node4, depth) {
            Ok(fork) => fork,
            Err(error) => {
                discard(&self.memory, leaf);
                return Err(error);
            }
        };
        let (own, others) = (byte_at(key, depth), byte_at(other, depth));
        let beside = |is_own: bool| if is_own { leaf } else { Ref::NULL };
        let inner = self.memory.inner(fork);
        let child = self.memory.edge(depth, child);
        let pieces = Pieces::around(
            inner.range(0),
            others,
            child,
            beside(own < others),
            beside(own > others),
        );
        inner.splice(0, 255, pieces.as_slice());
        inner.header().publish();
        node.set_covering(place.symbol as u8, fork);
        guard.count_entries(1);
        Ok(Attempt::Done)
    }

    /// See [`LeafForm::visit_in_dense`].
    pub fn visit_word_in_dense(
        &self,
        node: Ref,
        key: u64,
        guard: &Writer<'_, Words>,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> InNode {
        let dense = self.memory.dense(node);
        if dense.base() != key >> 8 {
            return InNode::Postponed;
        }
        let byte = key as u8;
        let current = dense.find(byte);
        match decide(current) {
            Change::Set(payload) => {
                dense.set_payload(byte, payload);
                if current.is_some() {
                    return InNode::Unchanged;
                }
                dense.set_used(byte, true);
                guard.count_entries(1);
                InNode::Changed
            }
            Change::Remove if current.is_some() => {
                dense.set_used(byte, false);
                guard.count_entries(-1);
                InNode::Shrunk
            }
            _ => InNode::Unchanged,
        }
    }

    fn visit_word_at_dense(
        &self,
        node: Ref,
        key: u64,
        guard: &Writer<'_, Words>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
    ) -> Attempt {
        let Ok((held, waits)) = Held::lock(&self.memory.dense(node).header().lock) else {
            return Attempt::Restart;
        };
        probe.lock(waits);
        match self.visit_word_in_dense(node, key, guard, decide) {
            InNode::Unchanged => held.unlock_unchanged(),
            InNode::Changed => drop(held),
            InNode::Shrunk => {
                let underfull = is_underfull(&self.memory, node);
                drop(held);
                if underfull {
                    self.tidy(key, guard, probe);
                }
            }
            InNode::Postponed => {
                held.unlock_unchanged();
                return Attempt::Restart;
            }
        }
        Attempt::Done
    }
}

/// What takes the place of one range: up to three.
struct Pieces {
    ranges: [(u8, Ref); 3],
    count: usize,
}

impl Pieces {
    /// A child of one byte, and what is to cover the range's bytes before and behind it.
    fn around(range: Range, byte: u8, child: Ref, before: Ref, behind: Ref) -> Pieces {
        let mut pieces = Pieces {
            ranges: [(0, Ref::NULL); 3],
            count: 0,
        };
        if range.start < byte {
            pieces.push(range.start, before);
        }
        pieces.push(byte, child);
        if byte < range.end {
            pieces.push(byte + 1, behind);
        }
        pieces
    }

    fn push(&mut self, start: u8, child: Ref) {
        self.ranges[self.count] = (start, child);
        self.count += 1;
    }

    fn as_slice(&self) -> &[(u8, Ref)] {
        &self.ranges[..self.count]
    }
}

/// How a visit ends whose key is not below the node, as it differs from `other`, some key there,
/// in bytes that the path skips.
fn leaves_path(spot: Spot<'_>, key: u64, other: impl FnOnce() -> Option<u64>) -> Option<Step> {
    if !spot.skipped {
        return None;
    }
    let Some(other) = other() else {
        return Some(Step::Unknown);
    };
    let depth = Words::difference(key, other)?;
    (depth < spot.node.header().depth()).then_some(Step::Above(depth))
}

/// See [`LeafForm::is_underfull`].
pub fn is_underfull(memory: &Memory, node: Ref) -> bool {
    if node.kind() == Kind::Dense {
        return memory.dense(node).header().count() <= DENSE_MIN;
    }
    let inner = memory.inner(node);
    match inner {
        Inner::Node4(_) => {
            let mut children = 0;
            inner.for_each(|_, _| children += 1);
            children <= 1
        }
        Inner::Node16(_) => inner.header().count() <= 3,
        Inner::Node48(_) | Inner::Node256(_) => inner.header().count() <= 10,
    }
}

/// See [`LeafForm::smaller`].
pub fn smaller(memory: &Memory, node: Ref) -> Result<Ref, Error> {
    if node.kind() == Kind::Dense {
        let mut entries = Vec::with_capacity(DENSE_MIN);
        let dense = memory.dense(node);
        crate::node::bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
            entries.push((dense.base() << 8 | u64::from(byte), dense.payload(byte)));
            true
        });
        return match entries.is_empty() {
            true => Ok(Ref::NULL),
            false => build(memory, &entries, BLOCK_MAX - 2),
        };
    }
    let inner = memory.inner(node);
    if let Inner::Node4(_) = inner {
        return Ok(inner.first());
    }
    let smaller = copy(memory, inner, kind_for(inner.header().count()))?;
    memory.inner(smaller).header().publish();
    Ok(smaller)
}

/// Copies a node into one of another kind, which is to be published.
fn copy(memory: &Memory, node: Inner<'_>, kind: Kind) -> Result<Ref, Error> {
    let copy = memory.allocate_inner(kind, node.header().depth())?;
    let mut ranges = Vec::with_capacity(16);
    node.for_each_range(|byte, child| ranges.push((byte, child)));
    let first = ranges.first().map_or(0, |range| range.0);
    memory.inner(copy).splice(first, 255, &ranges);
    Ok(copy)
}

/// Creates a block of one to seven entries.
fn new_block(memory: &Memory, entries: &[(u64, u64)]) -> Result<Ref, Error> {
    let leaf = memory.allocate_leaf(1)?;
    block(memory, leaf).fill(entries);
    Ok(leaf)
}

/// What stands below one byte of a node that is being built.
#[derive(Clone, Copy, Debug)]
pub enum Group<'e> {
    /// A node.
    Node(Ref),
    /// No more entries than a block takes.
    Entries(&'e [(u64, u64)]),
}

/// Builds a block, or a node above blocks of about `fill`, of entries in ascending order, which
/// are at least one, and one more than a block takes at most unless they differ in the last byte
/// only.
fn build(memory: &Memory, entries: &[(u64, u64)], fill: usize) -> Result<Ref, Error> {
    if entries.len() <= BLOCK_MAX {
        return new_block(memory, entries);
    }
    let last = entries[entries.len() - 1].0;
    let depth = Words::difference(entries[0].0, last).unwrap_or_default();
    let groups = entries
        .chunk_by(|a, b| byte_at(a.0, depth) == byte_at(b.0, depth))
        .map(|group| (byte_at(group[0].0, depth), Group::Entries(group)));
    let pieces = pack(memory, depth, groups, fill)?;
    let node = memory
        .allocate_inner(kind_for(pieces.len()), depth)
        .inspect_err(|_| discard_all(memory, &pieces))?;
    let inner = memory.inner(node);
    inner.splice(0, 255, &pieces);
    inner.header().publish();
    Ok(node)
}

/// Covers all bytes of a node at a depth: neighbouring groups of entries become blocks of up to
/// `fill` where the groups allow.
pub fn pack<'e>(
    memory: &Memory,
    depth: usize,
    groups: impl Iterator<Item = (u8, Group<'e>)>,
    fill: usize,
) -> Result<Vec<(u8, Ref)>, Error> {
    let mut pieces = Vec::new();
    let mut entries: Vec<(u64, u64)> = Vec::with_capacity(BLOCK_MAX);
    // Where the next range starts; past the last byte there is none.
    let mut start = 0u16;
    let flush = |pieces: &mut Vec<_>, start: u16, end: u16, entries: &mut Vec<_>| {
        if !entries.is_empty() {
            let leaf = new_block(memory, entries).inspect_err(|_| discard_all(memory, pieces))?;
            pieces.push((start as u8, leaf));
            entries.clear();
        } else if start < end {
            pieces.push((start as u8, Ref::NULL));
        }
        Ok::<_, Error>(())
    };
    for (byte, group) in groups {
        let byte = u16::from(byte);
        match group {
            Group::Node(node) => {
                flush(&mut pieces, start, byte, &mut entries)?;
                pieces.push((byte as u8, memory.edge(depth, node)));
                start = byte + 1;
            }
            Group::Entries(group) => {
                if !entries.is_empty() && entries.len() + group.len() > fill {
                    flush(&mut pieces, start, byte, &mut entries)?;
                    start = byte;
                }
                entries.extend_from_slice(group);
            }
        }
    }
    flush(&mut pieces, start, 256, &mut entries)?;
    Ok(pieces)
}

/// Builds a dense node of entries that agree in all bytes but the last.
pub fn build_dense(memory: &Memory, entries: &[(u64, u64)]) -> Result<Ref, Error> {
    let node = memory.allocate_dense(entries[0].0 >> 8)?;
    let dense = memory.dense(node);
    for &(key, payload) in entries {
        dense.set_payload(key as u8, payload);
        dense.set_used(key as u8, true);
    }
    dense.header().publish();
    Ok(node)
}

/// Frees nodes and blocks that have been built and not been linked.
fn discard_all(memory: &Memory, pieces: &[(u8, Ref)]) {
    for &(_, child) in pieces {
        discard(memory, child);
    }
}

/// Frees a subtree that has been built and not been linked.
fn discard(memory: &Memory, node: Ref) {
    match node.kind() {
        Kind::Nothing => {}
        Kind::Leaf => {
            Block::retire(block(memory, node));
            memory.free_leaf(node, 1);
        }
        kind => {
            let lock = match kind {
                Kind::Dense => &memory.dense(node).header().lock,
                _ => {
                    memory
                        .inner(node)
                        .for_each(|_, child| discard(memory, child));
                    &memory.inner(node).header().lock
                }
            };
            lock.retire_alone();
            memory.free_node(node);
        }
    }
}
