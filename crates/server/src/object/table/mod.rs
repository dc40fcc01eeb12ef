//! A hash table of byte strings: the form of large hashes and sets, and the members of large sorted
//! sets. Values may be in cold tiers (`nodes.rs`).
//!
//! ```text
//!   ids: hash → id        entries: id → tag, location        arena
//!   ┌────┐                ┌─────────────────────┐            ┌─────────────────────────────────┐
//!   │  7 │ ─────────────► │ tag: 27 │ where: 35 │ ─────────► │ id: 4 │ lengths │ key │ value   │
//!   └────┘                └─────────────────────┘            └─────────────────────────────────┘
//! ```
//!
//! An element keeps its id while it lives, except that [`ByteStringTable::compact`] closes the gaps
//! between ids without a change of their order. So other structures may refer to elements by four
//! bytes, a cursor into the ids walks the table while it changes, and a random id is a random
//! element. The blob begins with its id, so that a sweep of a page finds the entries that refer to
//! it.

mod nodes;
#[cfg(test)]
mod tests;

use super::arena::{BlobArena, LOCATION_BITS, Location};
use super::bytes::{read_varint, varint_bytes, write_varint};
use super::frozen::{FrozenReader, put_bytes, put_number};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use nodes::TableTierState;
use rand::{Rng, RngExt};
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

/// The bit of a free entry. Its low half is the next free id.
const FREE: u64 = 1 << 63;

/// The bit of an entry whose value is in a cold tier. Its blob has a [stub](nodes::Stub) instead of
/// the value.
const COLD: u64 = 1 << 62;

/// The number of bits of a tag, which is between these bits and the location.
const TAG_BITS: u32 = 27;

/// The end of the list of free ids.
const NONE: u32 = u32::MAX;

/// The size of the id at the beginning of each blob.
const ID_BYTES: usize = size_of::<u32>();

/// The number of ids below which they are never compacted.
const COMPACT_IDS_MIN: usize = 64;

/// The number of free ids that a scan skips for each element requested.
const SCAN_GAPS: usize = 10;

/// A map from keys to values, both byte strings, whose elements have ids.
///
/// Operations on one element take expected constant time, amortized if they change the table.
pub struct ByteStringTable<A: Allocator> {
    entries: Vec<u64, A>,
    ids: HashTable<u32, A>,
    arena: BlobArena<A>,
    /// The first free id; each free entry holds the next.
    free: u32,
    /// The bytes of all values, in all tiers.
    value_bytes: usize,
    /// The facts about the values for the mover, once it has visited them.
    nodes: Option<Box<TableTierState<A>, A>>,
}

/// Returns the hash of `key`. Each process draws its own seeds, so that no client can choose keys
/// that collide.
#[inline]
fn hash_of(key: &[u8]) -> u64 {
    static SEEDS: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    let mut hasher = SEEDS.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Returns the upper bits of a hash.
#[inline]
fn tag_in(hash: u64) -> u64 {
    hash >> (u64::BITS - TAG_BITS)
}

#[inline]
fn tag_of(key: &[u8]) -> u64 {
    tag_in(hash_of(key))
}

/// Returns the hash for the table of ids. That table uses both ends of a hash; multiplication makes
/// the upper end depend on all bits of the tag and keeps the lower one as it is spread.
#[inline]
fn spread(tag: u64) -> u64 {
    tag.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn tag(entry: u64) -> u64 {
    entry >> LOCATION_BITS & ((1 << TAG_BITS) - 1)
}

#[inline]
fn location(entry: u64) -> Location {
    entry & ((1 << LOCATION_BITS) - 1)
}

/// Returns the entry of an element whose blob has moved to `location`.
#[inline]
fn relocated(entry: u64, location: Location) -> u64 {
    entry & !((1 << LOCATION_BITS) - 1) | location
}

/// The positions of the parts of a blob.
struct TableBlobLayout {
    key: usize,
    value: usize,
    end: usize,
}

#[inline]
fn layout(blob: &[u8]) -> TableBlobLayout {
    let (key_length, at) = read_varint(blob, ID_BYTES);
    let (value_length, key) = read_varint(blob, at);
    let value = key + key_length;
    let end = value + value_length;
    TableBlobLayout { key, value, end }
}

fn blob_bytes(key: usize, value: usize) -> usize {
    ID_BYTES + varint_bytes(key) + varint_bytes(value) + key + value
}

fn id_of(blob: &[u8]) -> u32 {
    u32::from_le_bytes([blob[0], blob[1], blob[2], blob[3]])
}

fn write_blob(blob: &mut [u8], id: u32, key: &[u8], value: &[u8]) {
    blob[..ID_BYTES].copy_from_slice(&id.to_le_bytes());
    let mut at = ID_BYTES + write_varint(key.len(), &mut blob[ID_BYTES..]);
    at += write_varint(value.len(), &mut blob[at..]);
    blob[at..at + key.len()].copy_from_slice(key);
    at += key.len();
    blob[at..at + value.len()].copy_from_slice(value);
}

impl<A: Allocator + Clone> ByteStringTable<A> {
    /// Creates an empty table, which takes no memory yet.
    pub fn new_in(heap: A) -> Self {
        ByteStringTable {
            entries: Vec::new_in(heap.clone()),
            ids: HashTable::new_in(heap.clone()),
            arena: BlobArena::new_in(heap),
            free: NONE,
            value_bytes: 0,
            nodes: None,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the heap that the table takes its memory from.
    pub fn heap(&self) -> &A {
        self.entries.allocator()
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
            + self.ids.allocation_size()
            + self.arena.memory_bytes()
            + self.nodes.as_ref().map_or(0, |nodes| nodes.memory_bytes())
    }

    /// Creates a copy that takes its memory from `heap`. Its ids are compact and in the order of
    /// those here, so a cursor of a scan stays valid. Values in cold tiers must be lent.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> ByteStringTable<B> {
        let mut copy = ByteStringTable::new_in(heap);
        copy.entries.reserve_exact(self.len());
        copy.ids
            .reserve(self.len(), |_| unreachable!("the table of ids is empty"));
        for id in self.iter() {
            // The tag is all that is needed of the key's hash.
            let tag = tag(self.entries[id as usize]);
            copy.add(tag, self.key(id), self.value(id));
        }
        copy
    }

    /// Appends the elements as [`thaw`](ByteStringTable::thaw) reads them: the number of ids, the
    /// first free one, and for each id its key and value, or the next free id.
    pub fn freeze(&self, out: &mut std::vec::Vec<u8>) {
        let link = |id: u32| if id == NONE { 0 } else { id as usize + 1 };
        put_number(out, self.entries.len());
        put_number(out, link(self.free));
        for (id, entry) in self.entries.iter().enumerate() {
            if entry & FREE != 0 {
                put_number(out, 0);
                put_number(out, link(*entry as u32));
                continue;
            }
            let (key, value) = self.pair(id as u32);
            put_number(out, key.len() + 1);
            out.extend_from_slice(key);
            put_bytes(out, value);
        }
    }

    /// Reads frozen elements. Each gets the id that it had.
    pub fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let link = |source: &mut FrozenReader<'_>, ids: usize| match source.number()? {
            0 => Some(NONE),
            id => (id <= ids).then(|| id as u32 - 1),
        };
        let ids = source.count().filter(|&ids| ids < NONE as usize)?;
        let mut table = ByteStringTable::new_in(heap);
        let first_free = link(source, ids)?;
        table.entries.reserve_exact(ids);
        let mut free_ids = 0;
        for _ in 0..ids {
            match source.number()? {
                0 => {
                    let next = link(source, ids)?;
                    table.entries.push(FREE | u64::from(next));
                    free_ids += 1;
                }
                length => {
                    let (key, value) = (source.take(length - 1)?, source.bytes()?);
                    let tag = tag_of(key);
                    // The table would find only one of two equal keys.
                    if table.find_tagged(tag, key).is_some() {
                        return None;
                    }
                    table.add(tag, key, value);
                }
            }
        }
        // The free ids must form one list.
        table.free = first_free;
        let mut next = first_free;
        for _ in 0..free_ids {
            let entry = *table.entries.get(next as usize)?;
            if entry & FREE == 0 {
                return None;
            }
            next = entry as u32;
        }
        (next == NONE).then_some(table)
    }

    /// Returns the id of `key`'s element.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_tagged(tag_of(key), key)
    }

    #[inline]
    fn find_tagged(&self, wanted: u64, key: &[u8]) -> Option<u32> {
        let is_key = |id: &u32| {
            let entry = self.entries[*id as usize];
            // Nearly all other keys differ in the tag, so that their blobs are not read.
            tag(entry) == wanted && self.key(*id) == key
        };
        self.ids.find(spread(wanted), is_key).copied()
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.find(key).map(|id| self.value(id))
    }

    #[inline]
    fn blob(&self, id: u32) -> &[u8] {
        let entry = self.entries[id as usize];
        debug_assert_eq!(entry & FREE, 0);
        self.arena.blob(location(entry))
    }

    /// Returns the key of the element `id`, which must live.
    #[inline]
    pub fn key(&self, id: u32) -> &[u8] {
        let blob = self.blob(id);
        let layout = layout(blob);
        &blob[layout.key..layout.value]
    }

    /// Returns the value of the element `id`, which must live. A value in a cold tier must be lent.
    #[inline]
    pub fn value(&self, id: u32) -> &[u8] {
        self.pair(id).1
    }

    /// Returns key and value of the element `id`, which must live. A value in a cold tier must be
    /// lent.
    #[inline]
    pub fn pair(&self, id: u32) -> (&[u8], &[u8]) {
        let blob = self.blob(id);
        let layout = layout(blob);
        let (key, value) = blob[layout.key..layout.end].split_at(layout.value - layout.key);
        match self.is_cold(id) {
            false => (key, value),
            true => (key, self.lent(id)),
        }
    }

    /// Returns the keys of the first `count` of `ids`, which must live; the rest are empty.
    pub fn keys<const N: usize>(&self, ids: &[u32; N], count: usize) -> [&[u8]; N] {
        // Each step is done for all of them before the next one, so that their cache misses
        // overlap.
        let mut entries = [0; N];
        for (entry, id) in entries.iter_mut().zip(ids).take(count) {
            *entry = self.entries[*id as usize];
        }
        let mut keys: [&[u8]; N] = [&[]; N];
        for (key, entry) in keys.iter_mut().zip(&entries).take(count) {
            *key = self.arena.blob(location(*entry));
        }
        for key in keys.iter_mut().take(count) {
            let layout = layout(key);
            *key = &key[layout.key..layout.value];
        }
        keys
    }

    /// Sets the value of `key`. Returns its id, and true if there was a value before.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> (u32, bool) {
        let tag = tag_of(key);
        if let Some(id) = self.find_tagged(tag, key) {
            self.set_value(id, value);
            return (id, true);
        }
        (self.add(tag, key, value), false)
    }

    /// Adds an element whose key is absent.
    fn add(&mut self, tag: u64, key: &[u8], value: &[u8]) -> u32 {
        let location = self.allocate(blob_bytes(key.len(), value.len()));
        let entry = tag << LOCATION_BITS | location;
        let id = self.free;
        let id = if id == NONE {
            self.push_entry(entry)
        } else {
            self.free = self.entries[id as usize] as u32;
            self.entries[id as usize] = entry;
            id
        };
        write_blob(self.arena.blob_mut(location), id, key, value);
        self.value_bytes += value.len();
        let entries = &self.entries;
        self.ids.insert_unique(spread(tag), id, |id| {
            spread(self::tag(entries[*id as usize]))
        });
        id
    }

    /// Appends an entry.
    fn push_entry(&mut self, entry: u64) -> u32 {
        let length = self.entries.len();
        assert!(length < NONE as usize, "one object has too many elements");
        if length == self.entries.capacity() {
            // A quarter wastes less than doubling, and the copies are of eight bytes each.
            self.entries.reserve_exact((length / 4).max(16));
        }
        self.entries.push(entry);
        length as u32
    }

    /// Sets the value of the element `id`, which must live. It is overwritten in place if the old
    /// and the new one are of about the same length. A place in a cold tier is given up.
    pub fn set_value(&mut self, id: u32, value: &[u8]) {
        self.value_bytes = self.value_bytes - self.value_len(id) + value.len();
        self.give_up_place(id);
        self.write_value(id, value);
    }

    /// Sets the bytes that the blob of an element has for its value.
    fn write_value(&mut self, id: u32, value: &[u8]) {
        let entry = self.entries[id as usize];
        let blob = self.arena.blob_mut(location(entry));
        let old = layout(blob);
        if old.end - old.value == value.len() {
            blob[old.value..old.end].copy_from_slice(value);
            return;
        }
        let (key_length, old_bytes) = (old.value - old.key, old.end);
        let bytes = blob_bytes(key_length, value.len());
        // The key is in the blob that is overwritten or given up.
        let key = blob[old.key..old.value].to_vec();
        if BlobArena::<A>::is_same_size(old_bytes, bytes) {
            write_blob(blob, id, &key, value);
            return;
        }
        let new = self.allocate(bytes);
        write_blob(self.arena.blob_mut(new), id, &key, value);
        // The allocation may have moved the old blob.
        let old = location(self.entries[id as usize]);
        self.entries[id as usize] = relocated(entry, new);
        self.release(old, old_bytes);
    }

    /// Removes the element of `key`. Returns true if there was one. May change all ids.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(id) = self.find(key) else {
            return false;
        };
        self.remove_id(id);
        if self.is_sparse() {
            self.compact(|_, _| ());
        }
        true
    }

    /// Removes the element `id`, which must live. Changes no id, so the caller must compact the
    /// table when it has become sparse.
    pub fn remove_id(&mut self, id: u32) {
        let entry = self.entries[id as usize];
        let Ok(found) = self
            .ids
            .find_entry(spread(tag(entry)), |other| *other == id)
        else {
            unreachable!("an element that lives has its id in the table");
        };
        found.remove();
        // The length of a cold value is in its stub, which goes next.
        self.value_bytes -= self.value_len(id);
        self.give_up_place(id);
        let bytes = layout(self.blob(id)).end;
        self.entries[id as usize] = FREE | u64::from(self.free);
        self.free = id;
        // Last, because it may sweep the page, which moves the blobs whose entries are in use.
        self.release(location(entry), bytes);
    }

    /// Returns true if fewer than a quarter of the ids are in use.
    pub fn is_sparse(&self) -> bool {
        self.entries.len() > COMPACT_IDS_MIN && self.len() * 4 < self.entries.len()
    }

    /// Gives the elements the ids from 0 on, in the order of their old ids, and gives memory back.
    /// Calls `moved` with each element's old and new id. Linear in the ids.
    pub fn compact(&mut self, mut moved: impl FnMut(u32, u32)) {
        let heap = self.heap().clone();
        let mut ids = HashTable::with_capacity_in(self.len(), heap);
        let mut count = 0;
        for old in 0..self.entries.len() {
            let entry = self.entries[old];
            if entry & FREE != 0 {
                continue;
            }
            // In place, because no id rises.
            self.entries[count] = entry;
            let new = count as u32;
            // A sweep finds the entry of a blob by this id.
            let blob = self.arena.blob_mut(location(entry));
            blob[..ID_BYTES].copy_from_slice(&new.to_le_bytes());
            ids.insert_unique(spread(tag(entry)), new, |_| {
                unreachable!("there is room for all elements")
            });
            if let Some(nodes) = &mut self.nodes {
                nodes.rename(old as u32, new);
            }
            moved(old as u32, new);
            count += 1;
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.end_renaming(count);
        }
        self.ids = ids;
        self.entries.truncate(count);
        self.entries.shrink_to_fit();
        self.free = NONE;
    }

    /// Returns true if there is an element with this id.
    pub fn is_element(&self, id: u32) -> bool {
        let entry = self.entries.get(id as usize);
        entry.is_some_and(|entry| entry & FREE == 0)
    }

    /// Returns the ids of all elements, ascending.
    pub fn iter(&self) -> Ids<'_> {
        Ids {
            entries: &self.entries,
            next: 0,
        }
    }

    /// Returns an upper bound of the ids: all are below it.
    pub fn id_end(&self) -> usize {
        self.entries.len()
    }

    /// Returns the id of a random element, all with equal probability.
    pub fn random(&self, random: &mut impl Rng) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        // Most ids are in use, so that few draws fail.
        loop {
            let id = random.random_range(0..self.entries.len());
            if self.entries[id] & FREE == 0 {
                return Some(id as u32);
            }
        }
    }

    /// Visits about `count` elements and returns the next cursor, which is 0 when all have been
    /// visited; the first call gets 0, too.
    ///
    /// An element that is present during a whole iteration is visited at least once, whatever other
    /// elements come and go.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(u32)) -> u64 {
        let length = self.entries.len();
        let mut id = match usize::try_from(cursor) {
            Ok(cursor) if cursor > 0 => cursor.min(length),
            _ => length,
        };
        let mut left = count.max(1);
        // A table that has become sparse must not make one call long.
        let mut steps = left.saturating_mul(SCAN_GAPS);
        // Downwards, because an id never rises: no element passes the cursor unseen.
        while id > 0 && left > 0 && steps > 0 {
            id -= 1;
            steps -= 1;
            if self.entries[id] & FREE == 0 {
                visit(id as u32);
                left -= 1;
            }
        }
        id as u64
    }

    fn allocate(&mut self, bytes: usize) -> Location {
        if let Some(page) = self.arena.sweep_before(bytes) {
            self.sweep(page);
        }
        self.arena.place(bytes)
    }

    fn release(&mut self, location: Location, bytes: usize) {
        if let Some(page) = self.arena.release(location, bytes) {
            self.sweep(page);
        }
    }

    /// Moves the live blobs of a page to other pages, and gives the page back.
    #[cold]
    fn sweep(&mut self, page: u32) {
        let block = self.arena.take_page(page);
        let mut offset = 0;
        while offset < block.len() {
            let blob = &block[offset..];
            let (id, bytes) = (id_of(blob), layout(blob).end);
            // A blob lives if the entry of its id refers to it. A dead one may have the id of an
            // element that came later.
            let entry = self.entries.get(id as usize).copied().unwrap_or(FREE);
            if entry & FREE == 0 && location(entry) == BlobArena::<A>::location(page, offset) {
                let new = self.arena.place(bytes);
                self.arena.blob_mut(new)[..bytes].copy_from_slice(&blob[..bytes]);
                self.entries[id as usize] = relocated(entry, new);
            }
            offset += BlobArena::<A>::stride(bytes);
        }
        self.arena.vacate(page);
    }

    /// Panics unless ids, entries and blobs agree. For tests.
    pub fn check_invariants(&self) {
        let (mut bytes, mut value_bytes) = (0, 0);
        for id in self.iter() {
            value_bytes += self.value_len(id);
            let blob = self.blob(id);
            assert_eq!(id_of(blob), id);
            bytes += BlobArena::<A>::stride(layout(blob).end);
            assert_eq!(self.find(self.key(id)), Some(id));
            assert_eq!(tag(self.entries[id as usize]), tag_of(self.key(id)));
        }
        assert_eq!(self.iter().count(), self.len());
        assert_eq!(self.value_bytes, value_bytes);
        self.check_nodes();
        assert_eq!(self.arena.check_invariants(), bytes);
        let mut free = self.free;
        for _ in self.len()..self.entries.len() {
            assert_ne!(self.entries[free as usize] & FREE, 0);
            free = self.entries[free as usize] as u32;
        }
        assert_eq!(free, NONE);
    }
}

/// Ids of the elements of a [`ByteStringTable`], ascending.
#[derive(Clone)]
pub struct Ids<'a> {
    entries: &'a [u64],
    next: usize,
}

impl Iterator for Ids<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        loop {
            let entry = *self.entries.get(self.next)?;
            self.next += 1;
            if entry & FREE == 0 {
                return Some((self.next - 1) as u32);
            }
        }
    }
}
