//! Groups of consumers: the entries that each group has delivered, and the consumers that hold
//! them.

use super::StreamId;
use super::progress::StreamCounters;
use super::sorted::{StreamIdElement, StreamIdMap};
use allocator_api2::vec::Vec;
use nearfield_tiers::AccountedHeap;

/// An entry that was delivered to a consumer and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingStreamEntry {
    /// The entry's identifier. The entry may be deleted.
    pub id: StreamId,
    /// The number of the consumer that has it.
    pub consumer: u32,
    /// The time of the last delivery, in ms since 1970.
    pub delivered_ms: i64,
    /// Number of deliveries.
    pub deliveries: u64,
}

impl StreamIdElement for PendingStreamEntry {
    fn id(&self) -> StreamId {
        self.id
    }
}

/// A consumer of a group.
pub struct Consumer {
    name: Vec<u8, AccountedHeap>,
    /// The time of its last request, in ms since 1970.
    pub seen_ms: i64,
    /// The time at which it last received an entry, in ms since 1970; `None` if it never did.
    pub active_ms: Option<i64>,
    pending: StreamIdMap<StreamId>,
}

impl Consumer {
    /// Returns the name of the consumer.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the number of entries that it has not acknowledged.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

/// A group of consumers. Each entry goes to one of them.
pub struct ConsumerGroup {
    name: Vec<u8, AccountedHeap>,
    /// The last identifier that was delivered.
    pub last_id: StreamId,
    /// Number of entries that have been read, of all that were ever added; `None` if unknown.
    pub entries_read: Option<u64>,
    pending: StreamIdMap<PendingStreamEntry>,
    /// The consumers by their numbers.
    consumers: Vec<Option<Consumer>, AccountedHeap>,
    /// The consumers' numbers in the order of their names.
    order: Vec<u32, AccountedHeap>,
}

/// Copies bytes into a heap.
fn copied(bytes: &[u8], heap: &AccountedHeap) -> Vec<u8, AccountedHeap> {
    let mut copy = Vec::with_capacity_in(bytes.len(), heap.clone());
    copy.extend_from_slice(bytes);
    copy
}

impl ConsumerGroup {
    pub(super) fn new(
        name: &[u8],
        last_id: StreamId,
        read: Option<u64>,
        heap: &AccountedHeap,
    ) -> ConsumerGroup {
        ConsumerGroup {
            name: copied(name, heap),
            last_id,
            entries_read: read,
            pending: StreamIdMap::new_in(heap.clone()),
            consumers: Vec::new_in(heap.clone()),
            order: Vec::new_in(heap.clone()),
        }
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the consumers with their numbers, in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (u32, &Consumer)> {
        let consumer = |&number: &u32| Some((number, self.consumer(number)?));
        self.order.iter().filter_map(consumer)
    }

    /// Returns the number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.order.len()
    }

    /// Returns a consumer by its number.
    pub fn consumer(&self, number: u32) -> Option<&Consumer> {
        self.consumers.get(number as usize)?.as_ref()
    }

    fn consumer_mut(&mut self, number: u32) -> Option<&mut Consumer> {
        self.consumers.get_mut(number as usize)?.as_mut()
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.order.binary_search_by(|&number| {
            self.consumer(number)
                .map_or(&[][..], |it| &it.name)
                .cmp(name)
        })
    }

    /// Returns the number of a consumer.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let at = self.place(name).ok()?;
        self.order.get(at).copied()
    }

    /// Returns the number of a consumer, which is created if it does not exist, and true if it was
    /// created.
    pub fn find_or_create(&mut self, name: &[u8], now_ms: i64) -> (u32, bool) {
        let at = match self.place(name) {
            Ok(at) => return (self.order[at], false),
            Err(at) => at,
        };
        let heap = self.order.allocator().clone();
        let consumer = Consumer {
            name: copied(name, &heap),
            seen_ms: now_ms,
            active_ms: None,
            pending: StreamIdMap::new_in(heap),
        };
        // Pending entries refer to consumers by number, so that numbers stay and gaps are filled.
        let free = self.consumers.iter().position(Option::is_none);
        let number = free.unwrap_or(self.consumers.len());
        match free {
            Some(free) => self.consumers[free] = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        self.order.insert(at, number as u32);
        (number as u32, true)
    }

    /// Notes a request of a consumer, whether it receives anything or not.
    pub fn see(&mut self, number: u32, now_ms: i64) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.seen_ms = now_ms;
        }
    }

    /// Notes a request of a consumer that received an entry.
    pub fn see_active(&mut self, number: u32, now_ms: i64) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.seen_ms = now_ms;
            consumer.active_ms = Some(now_ms);
        }
    }

    /// Sets the time at which a consumer last received an entry.
    pub(super) fn set_active(&mut self, number: u32, active_ms: Option<i64>) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.active_ms = active_ms;
        }
    }

    /// Removes a consumer with all its pending entries. Returns their number, or `None` if the
    /// consumer does not exist.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let at = self.place(name).ok()?;
        let number = self.order.remove(at);
        let consumer = self.consumers.get_mut(number as usize)?.take()?;
        for id in consumer.pending.iter() {
            let removed = self.pending.remove(*id);
            debug_assert!(removed.is_some_and(|pending| pending.consumer == number));
        }
        Some(consumer.pending.len())
    }

    /// Returns the number of pending entries.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Returns the pending entries from an identifier on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = &PendingStreamEntry> {
        self.pending.iter_from(id)
    }

    /// Returns the pending entries of one consumer from an identifier on.
    pub fn pending_of(
        &self,
        number: u32,
        id: StreamId,
    ) -> impl Iterator<Item = &PendingStreamEntry> {
        let consumer = self.consumer(number).into_iter();
        let ids = consumer.flat_map(move |consumer| consumer.pending.iter_from(id));
        ids.filter_map(|&id| self.pending.get(id))
    }

    /// Returns the last pending entry.
    pub fn last_pending(&self) -> Option<&PendingStreamEntry> {
        self.pending.last()
    }

    /// Returns a pending entry.
    pub fn pending(&self, id: StreamId) -> Option<&PendingStreamEntry> {
        self.pending.get(id)
    }

    /// Sets the consumer and the time of delivery of an entry.
    pub fn set_pending(&mut self, pending: PendingStreamEntry) {
        let old = self.pending.get(pending.id).map(|old| old.consumer);
        if let Some(old) = old.filter(|&old| old != pending.consumer)
            && let Some(consumer) = self.consumer_mut(old)
        {
            let removed = consumer.pending.remove(pending.id);
            debug_assert!(removed.is_some(), "a consumer lacks its pending entry");
        }
        if old != Some(pending.consumer)
            && let Some(consumer) = self.consumer_mut(pending.consumer)
        {
            consumer.pending.set(pending.id);
        }
        self.pending.set(pending);
    }

    /// Removes a pending entry. Returns true if it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else {
            return false;
        };
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            let removed = consumer.pending.remove(id);
            debug_assert!(removed.is_some(), "a consumer lacks its pending entry");
        }
        true
    }

    /// Notes the first delivery of an entry of a stream.
    pub fn advance(&mut self, id: StreamId, stream: &StreamCounters) {
        if id <= self.last_id {
            return;
        }
        match &mut self.entries_read {
            // No entry is missing after the last one that was delivered, so that this is the next.
            Some(read) if stream.is_whole_from(self.last_id) => *read += 1,
            _ if stream.entries_added > 0 => self.entries_read = stream.read_up_to(id),
            _ => {}
        }
        self.last_id = id;
    }

    /// Returns the number of entries that are still to deliver; `None` if unknown.
    pub fn lag(&self, stream: &StreamCounters) -> Option<i64> {
        let added = stream.entries_added as i64;
        // Entries that are deleted before the first one are never delivered.
        let is_before = self.last_id.max(stream.max_deleted) < stream.first_id;
        match self.entries_read {
            _ if stream.len == 0 => Some(0),
            _ if is_before => Some(stream.len as i64),
            Some(read) if stream.is_whole_from(self.last_id) => Some(added - read as i64),
            _ => stream
                .read_up_to(self.last_id)
                .map(|read| added - read as i64),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let consumers = self.consumers.iter().flatten();
        let consumers: usize = consumers
            .map(|it| it.name.capacity() + it.pending.memory_bytes())
            .sum();
        self.name.capacity()
            + self.pending.memory_bytes()
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
            + self.order.capacity() * size_of::<u32>()
            + consumers
    }

    pub(super) fn rebuild_in(&self, heap: &AccountedHeap) -> ConsumerGroup {
        let mut copy = ConsumerGroup::new(&self.name, self.last_id, self.entries_read, heap);
        copy.pending = self.pending.rebuild_in(heap);
        // Gaps are copied, too, because pending entries refer to consumers by number.
        for consumer in &self.consumers {
            let consumer = consumer.as_ref().map(|it| Consumer {
                name: copied(&it.name, heap),
                seen_ms: it.seen_ms,
                active_ms: it.active_ms,
                pending: it.pending.rebuild_in(heap),
            });
            copy.consumers.push(consumer);
        }
        copy.order.extend_from_slice(&self.order);
        copy
    }
}
