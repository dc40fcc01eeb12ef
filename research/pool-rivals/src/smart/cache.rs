//! The cache of internal nodes on a compute node, first in, first out, within a budget.
//!
//! Nodes are stored one after the other in a ring of words: one with their address, their type and
//! their capacity in slots, their header if they have a prefix, and their slots as far as they were
//! in use. The oldest is evicted. A node that was read again overwrites its former copy, if that
//! has room for all its slots. Otherwise it is appended, and its former place is reclaimed when it
//! is the oldest or when an eighth of the ring is of that kind. A table maps addresses to places in
//! the ring.
//!
//! A node with n slots in use takes 8n + 8 bytes (and 8 for a prefix, which few have) and 5 of the
//! table. The public implementation of SMART counts 8n + 9 and does not count the tree in which it
//! finds nodes.

use super::layout::{
    NodeType, SmartNode, SmartNodeHeader, SmartSlot, SmartSlotChild, pack, slot_offset,
};
use super::place::{SmartRoutePart, SmartSlotPosition};
use super::table::{NO_PLACE, SmartCacheTable};
use nearfield_fabric::GlobalAddress;
use parking_lot::RwLock;
use std::collections::VecDeque;

/// Internal nodes that clients of one compute node have read. A route through them begins at the
/// root, so a node is useful only while those above it are cached.
#[derive(Debug)]
pub struct SmartNodeCache {
    budget_bytes: usize,
    kept: RwLock<SmartCacheState>,
}

#[derive(Clone, Debug, Default)]
struct SmartCacheState {
    /// The root's slot, once it is known.
    root: Option<SmartSlotPosition>,
    ring: VecDeque<u64>,
    /// The place of the first word of the ring; places wrap modulo [`PLACES`].
    first: u32,
    /// Number of words of nodes that were written again elsewhere.
    dead_words: usize,
    table: SmartCacheTable,
}

const ADDRESS_BITS: u32 = 48;
const ROOM_SHIFT: u32 = 48;
const TYPE_SHIFT: u32 = 57;
/// Flag in the first word of a node with a prefix: its header comes next. Without a prefix a header
/// contains only the type.
const HAS_HEADER: u64 = 1 << 62;
/// Flag in the first word of a node that was written again elsewhere.
const DEAD: u64 = 1 << 63;
/// Number of places, from 0 on. The table marks unused ones with this number.
const PLACES: u32 = NO_PLACE;
/// Maximum number of words of the ring, so that each has a place of its own.
const WORDS_MAX: usize = PLACES as usize - 1;

/// Returns the number of words of a node before its slots.
fn head(first: u64) -> usize {
    if first & HAS_HEADER == 0 { 1 } else { 2 }
}

/// Returns the number of slots that a node of the ring has room for.
fn slots_of(first: u64) -> usize {
    (first >> ROOM_SHIFT & 0x1ff) as usize
}

/// Returns the number of words of a node of the ring.
fn words(first: u64) -> usize {
    head(first) + slots_of(first)
}

/// Returns the place of a word of a ring whose first one has the place `first`.
fn place(first: u32, index: usize) -> u32 {
    debug_assert!(first < PLACES);
    ((u64::from(first) + index as u64) % u64::from(PLACES)) as u32
}

/// Returns the index of the word of a place in such a ring.
fn index(first: u32, place: u32) -> usize {
    debug_assert!(first < PLACES && place < PLACES);
    let wrapped = if place < first { PLACES } else { 0 };
    // The difference of two places is right modulo 2^32, also if a place has wrapped.
    place.wrapping_sub(first).wrapping_add(wrapped) as usize
}

/// Returns the first word of a node.
fn first_word(packed: u64, header: SmartNodeHeader, room: usize) -> u64 {
    debug_assert!(packed >> ADDRESS_BITS == 0 && room <= 256);
    let has_header = if header.has_prefix() { HAS_HEADER } else { 0 };
    let node_type = header.node_type().bits();
    packed | (room as u64) << ROOM_SHIFT | node_type << TYPE_SHIFT | has_header
}

/// Returns the capacity for `slots` slots: an eighth more in large nodes, which are read again
/// after each insert.
fn room(slots: usize) -> usize {
    slots.next_multiple_of((slots / 8).max(1)).min(256)
}

impl SmartNodeCache {
    /// Creates an empty cache with a budget of `budget_bytes`.
    pub fn new(budget_bytes: usize) -> SmartNodeCache {
        SmartNodeCache {
            budget_bytes,
            kept: RwLock::default(),
        }
    }

    /// Copies the nodes of another cache, which has the same budget.
    pub fn learn_from(&self, other: &SmartNodeCache) {
        // Copied first, so that two caches that learn from each other do not wait for each other.
        let kept = other.kept.read().clone();
        *self.kept.write() = kept;
    }

    /// Returns the bytes of the cache.
    pub fn bytes(&self) -> usize {
        self.kept.read().bytes()
    }

    /// Returns the place to which a key leads, as far as it is cached.
    pub fn walk(&self, key: &[u8]) -> SmartRoutePart {
        let kept = self.kept.read();
        let Some(mut position) = kept.root else {
            return SmartRoutePart::Root;
        };
        while let SmartSlotChild::Node(address, _) = position.slot.child() {
            let Some(index) = kept.find(address) else {
                break;
            };
            let header = kept.header(index);
            let (depth, is_whole) = header.agreement(key, position.depth);
            let Some(&partial) = key.get(depth).filter(|_| is_whole) else {
                return SmartRoutePart::Beside {
                    position,
                    header,
                    agree: depth,
                };
            };
            let mut slots = kept.slots(index).enumerate();
            let found = slots.find(|(_, slot)| !slot.is_unused() && slot.partial() == partial);
            let Some((number, slot)) = found else {
                return SmartRoutePart::Node {
                    address,
                    node_type: header.node_type(),
                    depth,
                };
            };
            position = SmartSlotPosition {
                holder: address,
                at: address.plus(slot_offset(number)),
                slot,
                depth: depth + 1,
                is_fresh: false,
            };
        }
        SmartRoutePart::Slot(position)
    }

    /// Returns the root's slot as far as it is cached.
    pub fn root(&self) -> Option<SmartSlotPosition> {
        self.kept.read().root
    }

    /// Returns a cached node, with the slots that were in use, and unused ones.
    pub fn node(&self, address: GlobalAddress) -> Option<SmartNode> {
        let kept = self.kept.read();
        let index = kept.find(address)?;
        Some(SmartNode {
            reverse: GlobalAddress::NULL,
            header: kept.header(index),
            slots: kept.slots(index).collect(),
        })
    }

    /// Stores a node that was read, in place of its former content.
    pub fn keep(&self, address: GlobalAddress, node: &SmartNode) {
        // Slots behind an unused one may have been read later than it.
        let in_use = node.first_unused().unwrap_or(node.slots.len());
        let slots = node.slots.get(..in_use).unwrap_or_default();
        let mut kept = self.kept.write();
        if let Some(index) = kept.find(address) {
            let first = kept.ring[index];
            // A node keeps its prefix, but one that was damaged may seem to have got or lost it.
            let has_header = first & HAS_HEADER != 0;
            if slots_of(first) >= slots.len() && has_header == node.header.has_prefix() {
                kept.overwrite(index, node.header, slots);
                return;
            }
            // Its place has no room for the new slots.
            kept.bury(index);
        }
        kept.append(address, node.header, slots, self.budget_bytes);
    }

    /// Sets a slot that was read or written alone: the root's, or one of a cached node.
    pub fn set(&self, position: &SmartSlotPosition) {
        let mut kept = self.kept.write();
        if position.holder.is_null() {
            kept.root = Some(SmartSlotPosition {
                is_fresh: false,
                ..*position
            });
            return;
        }
        let Some(index) = kept.find(position.holder) else {
            return;
        };
        let number = (position.at.offset() - position.holder.offset() - slot_offset(0)) / 8;
        let first = kept.ring[index];
        // A slot beyond the room comes with the next read of the whole node.
        if (number as usize) < slots_of(first) {
            kept.ring[index + head(first) + number as usize] = position.slot.to_word();
        }
    }
}

impl SmartCacheState {
    fn bytes(&self) -> usize {
        size_of::<SmartNodeCache>()
            + 8 * self.ring.capacity()
            + self.table.bytes(self.table.places())
    }

    fn find(&self, address: GlobalAddress) -> Option<usize> {
        let packed = pack(address);
        self.table
            .find(packed, |place| self.packed(place))
            .map(|place| self.index(place))
    }

    fn place(&self, index: usize) -> u32 {
        place(self.first, index)
    }

    fn index(&self, place: u32) -> usize {
        index(self.first, place)
    }

    fn packed(&self, place: u32) -> u64 {
        self.ring[self.index(place)] & ((1 << ADDRESS_BITS) - 1)
    }

    fn header(&self, index: usize) -> SmartNodeHeader {
        let first = self.ring[index];
        if first & HAS_HEADER == 0 {
            SmartNodeHeader::new(0, NodeType::from_bits(first >> TYPE_SHIFT & 0x1f), &[])
        } else {
            SmartNodeHeader::from_word(self.ring[index + 1])
        }
    }

    fn slots(&self, index: usize) -> impl Iterator<Item = SmartSlot> {
        let first = self.ring[index];
        let range = self.ring.range(index + head(first)..index + words(first));
        range.map(|&word| SmartSlot::from_word(word))
    }

    fn overwrite(&mut self, index: usize, header: SmartNodeHeader, slots: &[SmartSlot]) {
        let first = self.ring[index];
        debug_assert!(first & DEAD == 0 && slots.len() <= slots_of(first));
        debug_assert!((first & HAS_HEADER != 0) == header.has_prefix());
        let address = self.packed(self.place(index));
        // A node keeps its prefix, so its header stays in place.
        self.ring[index] = first_word(address, header, slots_of(first));
        if header.has_prefix() {
            self.ring[index + 1] = header.to_word();
        }
        for (number, slot) in slots.iter().enumerate() {
            self.ring[index + head(first) + number] = slot.to_word();
        }
    }

    /// Drops a node; its words are reclaimed later.
    fn bury(&mut self, index: usize) {
        debug_assert!(self.ring[index] & DEAD == 0, "a node is buried once");
        self.strike(index);
        self.dead_words += words(self.ring[index]);
        self.ring[index] |= DEAD;
        debug_assert!(self.dead_words <= self.ring.len());
        // To move nodes takes time linear in the ring, so one pass serves many dead ones.
        if self.dead_words > self.ring.len() / 8 {
            self.compact();
        }
    }

    /// Evicts the oldest node, or a former place of one; returns false if there is none.
    fn evict(&mut self) -> bool {
        let Some(&oldest) = self.ring.front() else {
            return false;
        };
        // A dead node has left the table before.
        if oldest & DEAD == 0 {
            self.strike(0);
        } else {
            self.dead_words -= words(oldest);
        }
        debug_assert!(words(oldest) <= self.ring.len());
        self.ring.drain(..words(oldest));
        self.first = self.place(words(oldest));
        true
    }

    /// Removes a node from the table.
    fn strike(&mut self, index: usize) {
        let (first, ring) = (self.first, &self.ring);
        let packed = |place: u32| ring[self::index(first, place)] & ((1 << ADDRESS_BITS) - 1);
        self.table.remove(packed(place(first, index)), packed);
    }

    /// Moves nodes together, in their order.
    fn compact(&mut self) {
        // Nodes move only towards the front, so none is overwritten before it has moved.
        let (mut from, mut to) = (0, 0);
        while from < self.ring.len() {
            let length = words(self.ring[from]);
            if self.ring[from] & DEAD == 0 {
                for offset in 0..length {
                    self.ring[to + offset] = self.ring[from + offset];
                }
                to += length;
            }
            from += length;
        }
        debug_assert_eq!(to + self.dead_words, self.ring.len());
        self.ring.truncate(to);
        self.dead_words = 0;
        self.rebuild(self.table.places());
    }

    /// Rebuilds the table with this many places.
    fn rebuild(&mut self, places: usize) {
        let mut table = SmartCacheTable::of(places);
        let mut index = 0;
        while index < self.ring.len() {
            if self.ring[index] & DEAD == 0 {
                let place = self.place(index);
                table.insert(self.packed(place), place);
            }
            index += words(self.ring[index]);
        }
        self.table = table;
    }

    /// Appends a node, once older ones have been evicted, if there is room.
    fn append(
        &mut self,
        address: GlobalAddress,
        header: SmartNodeHeader,
        slots: &[SmartSlot],
        budget: usize,
    ) {
        let first = first_word(pack(address), header, room(slots.len()));
        debug_assert!(slots.len() <= slots_of(first));
        let length = words(first);
        while !self.make_room(length, budget) {
            if !self.evict() {
                return;
            }
        }
        let place = self.place(self.ring.len());
        let header = header.has_prefix().then_some(header.to_word());
        let all = std::iter::once(first).chain(header);
        let slots = slots.iter().map(|slot| slot.to_word());
        // Slots that are taken later have room here.
        let unused = std::iter::repeat(0);
        self.ring
            .extend(all.chain(slots).chain(unused).take(length));
        self.table.insert(pack(address), place);
        debug_assert!(self.ring.len() <= WORDS_MAX && self.bytes() <= budget);
    }

    /// Makes room for a node of `length` words; returns false if the budget does not allow it.
    fn make_room(&mut self, length: usize, budget: usize) -> bool {
        let needed = self.ring.len() + length;
        // The table counts with the size that it has after the insertion.
        let places = self.table.next_place_count();
        let table = self.table.bytes(places);
        let left = budget.saturating_sub(size_of::<SmartNodeCache>() + table) / 8;
        let left = left.min(WORDS_MAX);
        if needed > self.ring.capacity() {
            if needed > left {
                return false;
            }
            // A sixteenth more, so that a growing ring is copied only now and then.
            let wanted = (needed + needed / 16).min(left);
            self.ring.reserve_exact(wanted - self.ring.len());
        } else if self.ring.capacity() > left {
            // The table would grow at the expense of the ring. After an eviction it need not grow.
            return false;
        }
        if places != self.table.places() {
            self.rebuild(places);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smart::layout::unpack;
    use nearfield_fabric::NodeId;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::HashMap;

    fn node(number: u64, slots: usize) -> (GlobalAddress, SmartNode) {
        let address = unpack(number + 16);
        let slot = |at: usize| SmartSlot::leaf(at as u8, unpack(number * 300 + at as u64));
        let node = SmartNode {
            reverse: GlobalAddress::new(NodeId(0), 64),
            header: if number.is_multiple_of(3) {
                SmartNodeHeader::new(number as usize, NodeType::SMALLEST, b"abc")
            } else {
                SmartNodeHeader::new(0, NodeType::SMALLEST, &[])
            },
            slots: (0..slots).map(slot).collect(),
        };
        (address, node)
    }

    fn check(cache: &SmartNodeCache) {
        let kept = cache.kept.read();
        assert!(kept.bytes() <= cache.budget_bytes);
        let (mut index, mut live, mut dead) = (0, 0, 0);
        while index < kept.ring.len() {
            if kept.ring[index] & DEAD == 0 {
                let place = kept.place(index);
                assert_eq!(kept.find(unpack(kept.packed(place))), Some(index));
                live += 1;
            } else {
                dead += words(kept.ring[index]);
            }
            index += words(kept.ring[index]);
        }
        assert_eq!((live, dead), (kept.table.used(), kept.dead_words));
    }

    #[test]
    fn the_oldest_make_room_and_the_others_are_as_they_were_kept_last() {
        for budget in [3_000, 30_000, usize::MAX] {
            let cache = SmartNodeCache::new(budget);
            let mut model: HashMap<GlobalAddress, (u64, SmartNode)> = HashMap::new();
            let random = &mut SmallRng::seed_from_u64(5);
            for step in 0..20_000 {
                let slots = 1 + random.random_range(0..16_usize).pow(2).min(255);
                let (address, kept) = node(random.random_range(0..300), slots);
                cache.keep(address, &kept);
                model.insert(address, (step, kept));
                let (address, _) = node(random.random_range(0..300), 1);
                if let Some(found) = cache.node(address) {
                    let (_, expected) = &model[&address];
                    // Slots never become unused again.
                    assert_eq!(found.header, expected.header);
                    let both = found.slots.iter().zip(&expected.slots);
                    assert!(both.clone().count() == expected.slots.len());
                    assert!(both.clone().all(|(found, expected)| found == expected));
                }
                if step % 500 == 0 {
                    check(&cache);
                }
            }
            let all = model
                .keys()
                .filter(|address| cache.node(**address).is_some());
            let count = all.count();
            assert_eq!(count == 300, budget == usize::MAX);
            assert!(count > 0);
        }
        let none = SmartNodeCache::new(0);
        let (address, kept) = node(1, 4);
        none.keep(address, &kept);
        assert!(none.node(address).is_none());
    }

    /// The places of nodes wrap around the number that marks an unused place, wherever nodes begin.
    #[test]
    fn nodes_are_found_where_places_wrap() {
        for before in 0..40 {
            let cache = SmartNodeCache::new(4_000);
            cache.kept.write().first = PLACES - 1 - before;
            for number in 0..60 {
                let (address, kept) = node(number, 1 + number as usize % 5);
                cache.keep(address, &kept);
                let found = cache.node(address).expect("it was kept last");
                assert_eq!(found.slots[..kept.slots.len()], kept.slots);
                // Another of the same address, which has no room in place of the first.
                let (address, kept) = node(number / 2, 9);
                cache.keep(address, &kept);
                check(&cache);
            }
            assert!(cache.kept.read().first < PLACES / 2, "places have wrapped");
        }
    }

    /// A damaged node may have a prefix at one time and none at another.
    #[test]
    fn nodes_that_get_or_lose_a_prefix_stay_apart() {
        let cache = SmartNodeCache::new(usize::MAX);
        let prefixes: [&[u8]; 2] = [b"abc", b""];
        for round in 0..200 {
            let (address, mut kept) = node(round * 7 % 5, 3);
            let prefix = prefixes[(round / 5 % 2) as usize];
            kept.header = SmartNodeHeader::new(0, NodeType::SMALLEST, prefix);
            cache.keep(address, &kept);
            let found = cache.node(address).expect("it was kept last");
            assert_eq!(found.header, kept.header);
            assert_eq!(found.slots[..3], kept.slots);
            check(&cache);
        }
    }

    #[test]
    fn nodes_go_in_the_order_in_which_they_came() {
        let cache = SmartNodeCache::new(2_000);
        let mut gone = 0;
        for number in 0..500 {
            let (address, kept) = node(number, 3);
            cache.keep(address, &kept);
            while cache.node(node(gone, 1).0).is_none() {
                gone += 1;
            }
            assert!((gone..=number).all(|number| cache.node(node(number, 1).0).is_some()));
        }
        assert!(gone > 400 && gone < 480, "{gone}");
    }
}
