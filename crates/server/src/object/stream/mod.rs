//! Streams: entries of fields and values, in the order of their identifiers, and groups of
//! consumers that share them.
//!
//! Entries are stored in nodes of some kilobytes (`node.rs`), in their order. An entry is found by
//! a binary search for its node and a walk over the node.

mod group;
mod id;
mod listpack;
mod node;
mod parts;
mod progress;
mod range;
mod sorted;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod trim;

pub use group::{Consumer, ConsumerGroup, PendingStreamEntry};
pub use id::StreamId;
pub use node::StreamEntry;
pub use parts::{ConsumerParts, GroupParts, NEVER_ACTIVE, StreamParts};
pub use progress::StreamCounters;
pub use trim::{Trim, TrimBound};

use super::ObjectLimits;
use super::list::ring::SlotRing;
use allocator_api2::vec::Vec;
use nearfield_tiers::AccountedHeap;
use node::StreamNode;

/// The maximum number of bytes of an entry's fields and values together.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Entries in the order of their identifiers, and groups of consumers.
pub struct StreamObject {
    /// The nodes, each with at least one entry that is not deleted.
    nodes: SlotRing<StreamNode, AccountedHeap>,
    len: u64,
    last_id: StreamId,
    max_deleted: StreamId,
    entries_added: u64,
    /// The groups in the order of their names.
    groups: Vec<ConsumerGroup, AccountedHeap>,
}

impl StreamObject {
    /// Creates an empty stream.
    pub fn new_in(heap: AccountedHeap) -> StreamObject {
        StreamObject {
            nodes: SlotRing::new_in(heap.clone()),
            len: 0,
            last_id: StreamId::MIN,
            max_deleted: StreamId::MIN,
            entries_added: 0,
            groups: Vec::new_in(heap),
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there is no entry. Its key stays nevertheless.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the last identifier that an entry got.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Returns the counters and bounds of the entries that it ever had.
    pub fn progress(&self) -> StreamCounters {
        StreamCounters {
            len: self.len,
            first_id: self.first().map_or(StreamId::MIN, |entry| entry.id),
            last_id: self.last_id,
            max_deleted: self.max_deleted,
            entries_added: self.entries_added,
        }
    }

    /// Sets the counters, as `XSETID` does. No entry may have a greater identifier than `id`.
    pub fn set_last_id(&mut self, id: StreamId, added: Option<u64>, max_deleted: Option<StreamId>) {
        debug_assert!(self.last().is_none_or(|last| last.id <= id));
        // The next entry may get the identifier of a deleted one.
        if let Some(next) = id.next() {
            self.forget_deleted_from(next);
        }
        self.last_id = id;
        self.entries_added = added.unwrap_or(self.entries_added);
        self.max_deleted = max_deleted.unwrap_or(self.max_deleted);
    }

    /// Appends an entry of `words`, which are fields and values. Its identifier must be greater
    /// than the last one.
    pub fn append(&mut self, limits: &ObjectLimits, id: StreamId, words: &[&[u8]]) {
        debug_assert!(id > self.last_id);
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        // A listpack has four bytes for its length, so that there is always a limit.
        let usual_bytes = match limits.stream_node_bytes_max {
            0 => ENTRY_BYTES_MAX,
            max => max.min(ENTRY_BYTES_MAX),
        };
        let entries_max = limits.stream_node_entries_max as u64;
        let heap = self.groups.allocator().clone();
        // As in `streamAppendItem` of Redis, a node is full if the entry would reach the limit, and
        // deleted entries count.
        let is_full = |node: &StreamNode| {
            node.bytes().len() + bytes >= usual_bytes
                || entries_max > 0 && node.total() >= entries_max
        };
        match self.nodes.last_mut() {
            Some(node) if !is_full(node) => node.append(id, words, usual_bytes),
            last => {
                // A node that gets no more entries needs no room.
                if let Some(last) = last {
                    last.shrink();
                }
                let mut node = StreamNode::begin(id, words, usual_bytes, heap);
                node.append(id, words, usual_bytes);
                self.nodes.push_back(node);
            }
        }
        self.len += 1;
        self.entries_added += 1;
        self.last_id = id;
    }

    /// Returns the identifier of the last entry of the last node, which may be deleted.
    fn last_node_id(&self) -> Option<StreamId> {
        Some(self.nodes.get(self.nodes.len().checked_sub(1)?)?.last_id())
    }

    /// Drops the deleted entries of the last node, if one of them has the identifier `id` or a
    /// greater one.
    fn forget_deleted_from(&mut self, id: StreamId) {
        if let Some(node) = self.nodes.last_mut()
            && node.last_id() >= id
        {
            node.forget_deleted();
        }
    }

    /// Returns the last node that begins at `id` or before.
    fn node_of(&self, id: StreamId) -> Option<usize> {
        let (mut low, mut high) = (0, self.nodes.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.nodes.get(middle) {
                Some(node) if node.first <= id => low = middle + 1,
                _ => high = middle,
            }
        }
        low.checked_sub(1)
    }

    /// Deletes an entry. Returns true if it existed. Linear in a node; if the node has no other
    /// entry, linear in the nodes to the nearer end.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(index) = self.node_of(id) else {
            return false;
        };
        let Some(node) = self.nodes.get_mut(index) else {
            return false;
        };
        let found = node.entries().from(id).next();
        let Some(at) = found
            .filter(|it| it.id == id && !it.is_deleted)
            .map(|it| it.at)
        else {
            return false;
        };
        // No node has deleted entries only.
        if node.live() == 1 {
            self.nodes.remove(index);
        } else {
            node.delete(&[at]);
        }
        self.len -= 1;
        self.max_deleted = self.max_deleted.max(id);
        true
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of nodes that Redis's radix tree has with the same nodes of entries.
    pub fn radix_nodes(&self) -> usize {
        let nodes = self.nodes.iter();
        let keys: std::vec::Vec<[u8; 16]> = nodes.map(|node| node.first.to_bytes()).collect();
        radix_nodes(&keys, 0)
    }

    // ---- Groups ----------------------------------------------------------------------------

    /// Returns the index of the group of a name, or else the index at which it belongs.
    fn group_place(&self, name: &[u8]) -> Result<usize, usize> {
        self.groups.binary_search_by(|group| group.name().cmp(name))
    }

    /// Returns the groups, in the order of their names.
    pub fn groups(&self) -> &[ConsumerGroup] {
        &self.groups
    }

    /// Returns the group of a name.
    pub fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.groups.get(self.group_place(name).ok()?)
    }

    /// Returns the group of a name, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut ConsumerGroup> {
        let at = self.group_place(name).ok()?;
        self.groups.get_mut(at)
    }

    /// Creates a group. Returns false if there is one of that name already.
    pub fn create_group(&mut self, name: &[u8], last_id: StreamId, read: Option<u64>) -> bool {
        let Err(at) = self.group_place(name) else {
            return false;
        };
        let heap = self.groups.allocator().clone();
        self.groups
            .insert(at, ConsumerGroup::new(name, last_id, read, &heap));
        true
    }

    /// Removes a group with all its pending entries. Returns true if it existed.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let at = self.group_place(name);
        at.is_ok_and(|at| {
            self.groups.remove(at);
            true
        })
    }

    // ---- Memory ----------------------------------------------------------------------------

    /// Returns the bytes taken from the heap. Linear in nodes and consumers.
    pub fn memory_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(StreamNode::memory_bytes).sum();
        let groups: usize = self.groups.iter().map(ConsumerGroup::memory_bytes).sum();
        let heads = self.groups.capacity() * size_of::<ConsumerGroup>();
        self.nodes.memory_bytes() + nodes + heads + groups
    }

    /// Returns the number of nodes, groups, consumers and pending entries, all of which are freed
    /// with the stream.
    pub fn parts_to_free(&self) -> usize {
        let of_group = |group: &ConsumerGroup| 1 + group.consumer_count() + group.pending_count();
        self.node_count() + self.groups.iter().map(of_group).sum::<usize>()
    }

    /// Creates a copy that takes its memory from `heap`.
    pub fn rebuild_in(&self, heap: AccountedHeap) -> StreamObject {
        let mut copy = StreamObject::new_in(heap.clone());
        for node in self.nodes.iter() {
            copy.nodes.push_back(node.rebuild_in(heap.clone()));
        }
        copy.len = self.len;
        copy.last_id = self.last_id;
        copy.max_deleted = self.max_deleted;
        copy.entries_added = self.entries_added;
        for group in &self.groups {
            copy.groups.push(group.rebuild_in(&heap));
        }
        copy
    }

    /// Panics unless the stream is consistent.
    pub fn check_invariants(&self) {
        let parts = self.parts();
        let mut correct = parts.clone();
        assert_eq!(correct.correct(), Some(()), "a stream is damaged");
        assert_eq!(correct, parts, "a stream is damaged");
        assert!(self.nodes.iter().all(|node| node.live() > 0));
    }
}

/// Returns the number of nodes of a radix tree of sorted keys of 16 bytes: one for a run of bytes
/// without a branch, one for each branch, and one for each key.
fn radix_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return 1;
    };
    if depth == first.len() {
        return 1;
    }
    let same = first[depth..].iter().zip(&last[depth..]);
    let same = same.take_while(|(one, other)| one == other).count();
    if same > 0 {
        return 1 + radix_nodes(keys, depth + same);
    }
    let groups = keys.chunk_by(|one, other| one[depth] == other[depth]);
    1 + groups
        .map(|group| radix_nodes(group, depth + 1))
        .sum::<usize>()
}
