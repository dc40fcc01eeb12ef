//! Groups of consumers: what each has been given, and who has it.

use super::StreamId;
use super::progress::Progress;
use super::sorted::{Identified, Sorted};
use allocator_api2::vec::Vec;
use nearfield_tiers::Heap;

/// An entry that a consumer was given and has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry's identifier. The entry may be deleted.
    pub id: StreamId,
    /// The number of the consumer that has it.
    pub consumer: u32,
    /// When it was delivered last, in ms since 1970.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl Identified for Pending {
    fn id(&self) -> StreamId {
        self.id
    }
}

/// A consumer of a group.
pub struct Consumer {
    name: Vec<u8, Heap>,
    /// When it asked for something last, in ms since 1970.
    pub seen_ms: i64,
    /// When it was given something last, in ms since 1970; `None` if it never was.
    pub active_ms: Option<i64>,
    pending: Sorted<StreamId>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// How many entries it has not acknowledged.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

/// A group of consumers, each entry of which goes to one of them.
pub struct Group {
    name: Vec<u8, Heap>,
    /// The last identifier that was delivered.
    pub last_id: StreamId,
    /// How many entries have been read, of all that were ever added; `None` if that is not known.
    pub entries_read: Option<u64>,
    pending: Sorted<Pending>,
    /// Consumers by their numbers.
    consumers: Vec<Option<Consumer>, Heap>,
    /// The numbers in the order of names.
    order: Vec<u32, Heap>,
}

/// A copy of bytes in a heap.
fn copied(bytes: &[u8], heap: &Heap) -> Vec<u8, Heap> {
    let mut copy = Vec::with_capacity_in(bytes.len(), heap.clone());
    copy.extend_from_slice(bytes);
    copy
}

impl Group {
    pub(super) fn new(name: &[u8], last_id: StreamId, read: Option<u64>, heap: &Heap) -> Group {
        Group {
            name: copied(name, heap),
            last_id,
            entries_read: read,
            pending: Sorted::new_in(heap.clone()),
            consumers: Vec::new_in(heap.clone()),
            order: Vec::new_in(heap.clone()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The consumers with their numbers, in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (u32, &Consumer)> {
        let consumer = |&number: &u32| Some((number, self.consumer(number)?));
        self.order.iter().filter_map(consumer)
    }

    /// The number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.order.len()
    }

    /// A consumer by its number.
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

    /// The number of a consumer.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let at = self.place(name).ok()?;
        self.order.get(at).copied()
    }

    /// The number of a consumer, who is created if it is not there; and whether it was.
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
            pending: Sorted::new_in(heap),
        };
        let free = self.consumers.iter().position(Option::is_none);
        let number = free.unwrap_or(self.consumers.len());
        match free {
            Some(free) => self.consumers[free] = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        self.order.insert(at, number as u32);
        (number as u32, true)
    }

    /// Notes that a consumer asks for something, whether it is given anything or not.
    pub fn see(&mut self, number: u32, now_ms: i64) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.seen_ms = now_ms;
        }
    }

    /// Notes that a consumer asked for something and was given it.
    pub fn see_active(&mut self, number: u32, now_ms: i64) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.seen_ms = now_ms;
            consumer.active_ms = Some(now_ms);
        }
    }

    /// Sets when a consumer was given something last.
    pub(super) fn set_active(&mut self, number: u32, active_ms: Option<i64>) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.active_ms = active_ms;
        }
    }

    /// Removes a consumer with all that it has; how many entries that was, or `None` if it is not
    /// there.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let at = self.place(name).ok()?;
        let number = self.order.remove(at);
        let consumer = self.consumers.get_mut(number as usize)?.take()?;
        for id in consumer.pending.iter() {
            self.pending.remove(*id);
        }
        Some(consumer.pending.len())
    }

    /// How many entries are pending.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// What is pending from an identifier on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = &Pending> {
        self.pending.iter_from(id)
    }

    /// What is pending of one consumer from an identifier on.
    pub fn pending_of(&self, number: u32, id: StreamId) -> impl Iterator<Item = &Pending> {
        let consumer = self.consumer(number).into_iter();
        let ids = consumer.flat_map(move |consumer| consumer.pending.iter_from(id));
        ids.filter_map(|&id| self.pending.get(id))
    }

    /// The last entry that is pending.
    pub fn last_pending(&self) -> Option<&Pending> {
        self.pending.last()
    }

    /// What is known of an entry that is pending.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(id)
    }

    /// Sets who has an entry, and since when.
    pub fn set_pending(&mut self, pending: Pending) {
        let old = self.pending.get(pending.id).map(|old| old.consumer);
        if let Some(old) = old.filter(|&old| old != pending.consumer)
            && let Some(consumer) = self.consumer_mut(old)
        {
            consumer.pending.remove(pending.id);
        }
        if old != Some(pending.consumer)
            && let Some(consumer) = self.consumer_mut(pending.consumer)
        {
            consumer.pending.set(pending.id);
        }
        self.pending.set(pending);
    }

    /// Forgets that an entry is pending, and says whether it was.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else {
            return false;
        };
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.remove(id);
        }
        true
    }

    /// Notes that an entry of a stream was delivered for the first time.
    pub fn advance(&mut self, id: StreamId, stream: &Progress) {
        if id <= self.last_id {
            return;
        }
        match &mut self.entries_read {
            Some(read) if stream.is_whole_from(self.last_id) => *read += 1,
            _ if stream.entries_added > 0 => self.entries_read = stream.read_up_to(id),
            _ => {}
        }
        self.last_id = id;
    }

    /// How many entries are still to be delivered; `None` if that is not known.
    pub fn lag(&self, stream: &Progress) -> Option<i64> {
        let added = stream.entries_added as i64;
        // Entries deleted before the first one are not delivered.
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

    pub(super) fn rebuild_in(&self, heap: &Heap) -> Group {
        let mut copy = Group::new(&self.name, self.last_id, self.entries_read, heap);
        copy.pending = self.pending.rebuild_in(heap);
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
