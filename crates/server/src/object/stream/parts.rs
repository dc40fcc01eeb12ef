//! The parts of a stream, for snapshots and cold tiers.

use super::group::{ConsumerGroup, PendingStreamEntry};
use super::node::StreamNode;
use super::{StreamId, StreamObject};
use crate::object::frozen::{FrozenReader, put_bytes, put_number};
use nearfield_tiers::AccountedHeap;
use std::borrow::Cow;

/// The parts of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamParts<'a> {
    /// The nodes: the first identifier of each, and a listpack.
    pub nodes: Vec<(StreamId, Cow<'a, [u8]>)>,
    /// The number of entries.
    pub len: u64,
    /// The last identifier that an entry got.
    pub last_id: StreamId,
    /// The identifier of the first entry.
    pub first_id: StreamId,
    /// The greatest identifier that was deleted.
    pub max_deleted: StreamId,
    /// Number of entries that were ever added.
    pub entries_added: u64,
    /// The groups, in the order of their names.
    pub groups: Vec<GroupParts>,
}

/// The parts of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupParts {
    /// The name of the group.
    pub name: Vec<u8>,
    /// The last identifier that was delivered.
    pub last_id: StreamId,
    /// Number of entries that have been read; `None` if unknown.
    pub entries_read: Option<u64>,
    /// The pending entries: identifier, time of delivery, number of deliveries.
    pub pending: Vec<(StreamId, i64, u64)>,
    /// The consumers, in the order of their names.
    pub consumers: Vec<ConsumerParts>,
}

/// The parts of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerParts {
    /// The name of the consumer.
    pub name: Vec<u8>,
    /// The time of its last request, in ms since 1970.
    pub seen_ms: i64,
    /// The time at which it last received an entry, in ms since 1970; `None` if it never did.
    pub active_ms: Option<i64>,
    /// The identifiers of the entries that it has not acknowledged.
    pub pending: Vec<StreamId>,
}

impl StreamObject {
    /// Returns the parts of the stream. Entries are borrowed, groups copied.
    pub fn parts(&self) -> StreamParts<'_> {
        let progress = self.progress();
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| (node.first, Cow::Borrowed(node.bytes())));
        StreamParts {
            nodes: nodes.collect(),
            len: self.len,
            last_id: self.last_id,
            first_id: progress.first_id,
            max_deleted: self.max_deleted,
            entries_added: self.entries_added,
            groups: self.groups.iter().map(group_parts).collect(),
        }
    }

    /// Creates a stream from untrusted parts: `None` if they do not fit together. Corrects the
    /// number of entries and the last identifier.
    pub fn of_parts(parts: &StreamParts<'_>, heap: &AccountedHeap) -> Option<StreamObject> {
        let mut stream = StreamObject::new_in(heap.clone());
        for (first, bytes) in &parts.nodes {
            let node = StreamNode::parse(*first, bytes, heap.clone())?;
            // Redis has no node with deleted entries only, and neither does this server.
            if node.live() == 0 {
                continue;
            }
            // Deleted entries of the node before may have the identifiers of this one.
            stream.forget_deleted_from(*first);
            if stream.last_node_id().is_some_and(|last| *first <= last) {
                return None;
            }
            stream.len += node.live();
            stream.nodes.push_back(node);
        }
        if let Some(next) = parts.last_id.next() {
            stream.forget_deleted_from(next);
        }
        // The entries take precedence over the counters: Redis has written files with another
        // number of entries or last identifier.
        stream.last_id = parts
            .last_id
            .max(stream.last_node_id().unwrap_or(StreamId::MIN));
        stream.max_deleted = parts.max_deleted;
        stream.entries_added = parts.entries_added;
        for group in &parts.groups {
            // Two groups of one name are an error.
            let at = stream.group_place(&group.name).err()?;
            let group = group_of_parts(group, heap)?;
            stream.groups.insert(at, group);
        }
        Some(stream)
    }
}

fn group_parts(group: &ConsumerGroup) -> GroupParts {
    let pending = group.pending_from(StreamId::MIN);
    let consumers = group.consumers().map(|(number, consumer)| ConsumerParts {
        name: consumer.name().to_vec(),
        seen_ms: consumer.seen_ms,
        active_ms: consumer.active_ms,
        pending: group
            .pending_of(number, StreamId::MIN)
            .map(|it| it.id)
            .collect(),
    });
    GroupParts {
        name: group.name().to_vec(),
        last_id: group.last_id,
        entries_read: group.entries_read,
        pending: pending
            .map(|it| (it.id, it.delivered_ms, it.deliveries))
            .collect(),
        consumers: consumers.collect(),
    }
}

fn group_of_parts(parts: &GroupParts, heap: &AccountedHeap) -> Option<ConsumerGroup> {
    let mut group = ConsumerGroup::new(&parts.name, parts.last_id, parts.entries_read, heap);
    let mut owners = std::collections::BTreeMap::new();
    for consumer in &parts.consumers {
        let (number, is_new) = group.find_or_create(&consumer.name, consumer.seen_ms);
        if !is_new {
            return None;
        }
        group.set_active(number, consumer.active_ms);
        for id in &consumer.pending {
            // An entry that two consumers hold is an error.
            if owners.insert(*id, number).is_some() {
                return None;
            }
        }
    }
    // Each pending entry belongs to a consumer, and none belongs to two.
    if owners.len() != parts.pending.len() {
        return None;
    }
    for &(id, delivered_ms, deliveries) in &parts.pending {
        let consumer = owners.remove(&id)?;
        group.set_pending(PendingStreamEntry {
            id,
            consumer,
            delivered_ms,
            deliveries,
        });
    }
    Some(group)
}

impl StreamParts<'_> {
    /// Returns the same parts with entries of their own.
    pub fn into_owned(self) -> StreamParts<'static> {
        let nodes = self.nodes.into_iter();
        StreamParts {
            nodes: nodes
                .map(|(id, bytes)| (id, Cow::Owned(bytes.into_owned())))
                .collect(),
            len: self.len,
            last_id: self.last_id,
            first_id: self.first_id,
            max_deleted: self.max_deleted,
            entries_added: self.entries_added,
            groups: self.groups,
        }
    }

    /// Corrects the number of entries and the first and last identifiers. Returns `None` if the
    /// parts do not fit together.
    pub fn correct(&mut self) -> Option<()> {
        let stream = StreamObject::of_parts(self, &AccountedHeap::new())?;
        self.len = stream.len;
        self.first_id = stream.progress().first_id;
        self.last_id = stream.last_id;
        Some(())
    }
}

/// The stored time of a consumer that never received anything.
pub const NEVER_ACTIVE: i64 = -1;

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.to_bytes());
}

fn id(source: &mut FrozenReader<'_>) -> Option<StreamId> {
    let bytes = source.take(16)?;
    Some(StreamId::from_bytes(bytes.try_into().ok()?))
}

fn i64_of(source: &mut FrozenReader<'_>) -> Option<i64> {
    Some(i64::from_le_bytes(source.take(8)?.try_into().ok()?))
}

impl StreamObject {
    /// Appends the stream as [`thaw`](StreamObject::thaw) reads it.
    pub(in crate::object) fn freeze(&self, out: &mut Vec<u8>) {
        let parts = self.parts();
        put_number(out, parts.nodes.len());
        for (first, bytes) in &parts.nodes {
            put_id(out, *first);
            put_bytes(out, bytes);
        }
        put_number(out, parts.len as usize);
        put_id(out, parts.last_id);
        put_id(out, parts.max_deleted);
        put_number(out, parts.entries_added as usize);
        put_number(out, parts.groups.len());
        for group in &parts.groups {
            put_bytes(out, &group.name);
            put_id(out, group.last_id);
            // 0 means that the number is unknown.
            put_number(out, group.entries_read.map_or(0, |read| read as usize + 1));
            put_number(out, group.pending.len());
            for (id, delivered_ms, deliveries) in &group.pending {
                put_id(out, *id);
                out.extend_from_slice(&delivered_ms.to_le_bytes());
                put_number(out, *deliveries as usize);
            }
            put_number(out, group.consumers.len());
            for consumer in &group.consumers {
                put_bytes(out, &consumer.name);
                out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
                let active_ms = consumer.active_ms.unwrap_or(NEVER_ACTIVE);
                out.extend_from_slice(&active_ms.to_le_bytes());
                put_number(out, consumer.pending.len());
                consumer.pending.iter().for_each(|id| put_id(out, *id));
            }
        }
    }

    /// Reads a frozen stream.
    pub(in crate::object) fn thaw(
        source: &mut FrozenReader<'_>,
        heap: &AccountedHeap,
    ) -> Option<StreamObject> {
        let mut parts = StreamParts::default();
        for _ in 0..source.count()? {
            let first = id(source)?;
            parts.nodes.push((first, Cow::Borrowed(source.bytes()?)));
        }
        parts.len = source.number()? as u64;
        parts.last_id = id(source)?;
        parts.max_deleted = id(source)?;
        parts.entries_added = source.number()? as u64;
        for _ in 0..source.count()? {
            let mut group = GroupParts {
                name: source.bytes()?.to_vec(),
                last_id: id(source)?,
                entries_read: (source.number()? as u64).checked_sub(1),
                ..GroupParts::default()
            };
            for _ in 0..source.count()? {
                let (id, delivered_ms) = (id(source)?, i64_of(source)?);
                let deliveries = source.number()? as u64;
                group.pending.push((id, delivered_ms, deliveries));
            }
            for _ in 0..source.count()? {
                let (name, seen_ms) = (source.bytes()?.to_vec(), i64_of(source)?);
                let active_ms = Some(i64_of(source)?).filter(|&time| time != NEVER_ACTIVE);
                let ids = (0..source.count()?).map(|_| id(source));
                group.consumers.push(ConsumerParts {
                    name,
                    seen_ms,
                    active_ms,
                    pending: ids.collect::<Option<_>>()?,
                });
            }
            parts.groups.push(group);
        }
        // A stream that was frozen needs no correction, so that one means damage.
        let is_exact =
            |stream: &StreamObject| stream.len == parts.len && stream.last_id == parts.last_id;
        StreamObject::of_parts(&parts, heap).filter(is_exact)
    }
}
