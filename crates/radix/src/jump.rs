//! Jumps: from the first bytes of a key to the first node on its path that lies behind them, past
//! the nodes before.
//!
//! ```text
//!   bucket   slot 0 | slot 1 | slot 2 | slot 3    32 bytes, chosen by a hash of the prefix
//!   slot     tag: 4 bytes | node: 4 bytes         one word, read and written at once
//! ```
//!
//! There are prefixes of several [lengths](LENGTHS), and a table for each. A walk begins at the
//! node of its longest prefix that has one: short prefixes lead past most nodes of a small tree,
//! where few paths are longer.
//!
//! For each prefix there is one link of the tree, from a node that decides on one of its bytes to a
//! child that decides on a later byte. If the child is an inner node, a slot may name it. Other
//! keys with the prefix cannot be elsewhere, so that a walk may begin there. The hash is another
//! number of as many bits, so that the bucket and the tag together are the prefix.
//!
//! The link is changed under the lock of the node above. Before that, the thread clears the slot,
//! and it sets it again before it gives the lock back. So whoever finds a node in the table has
//! begun before the node was unlinked, as if it had come from the root: it sees the state before
//! the change, or meets an obsolete node. A missing slot costs only a longer walk.

use crate::node::Ref;
use crate::prefetch::prefetch;
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of the prefixes, in ascending order.
pub const LENGTHS: [usize; 2] = [3, 5];

/// The bytes of the longest prefix.
pub const LENGTH_MAX: usize = LENGTHS[LENGTHS.len() - 1];

const SLOTS: usize = 4;

/// The logarithm of the most buckets of a table.
const BUCKETS_LOG_MAX: u32 = 18;

const TAG_BITS: u32 = u32::BITS;

/// An odd number, as a prefix times it is another number of as many bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first bytes of a key: the number of the length, and the bytes, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    length: usize,
    bytes: u64,
}

impl Prefix {
    /// The prefix of one of the lengths, which has so many bytes.
    #[inline(always)]
    pub fn of(first: &[u8], length: usize) -> Prefix {
        // Unrolled, as the length is known.
        let bytes = first[..LENGTHS[length]].iter();
        Prefix {
            length,
            bytes: bytes.fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)),
        }
    }

    /// The number of bytes.
    pub fn bytes(self) -> usize {
        LENGTHS[self.length]
    }

    /// One of the bytes.
    pub fn byte(self, at: usize) -> u8 {
        (self.bytes >> (8 * (self.bytes() - 1 - at))) as u8
    }

    /// The bit lengths of the prefix, and of what a bucket tells of it at least.
    #[inline]
    fn bits(length: usize) -> (u32, u32) {
        let bits = 8 * LENGTHS[length] as u32;
        (bits, bits.saturating_sub(TAG_BITS))
    }

    #[inline]
    fn hash(self) -> u64 {
        let (bits, _) = Self::bits(self.length);
        self.bytes.wrapping_mul(FACTOR) & ((1 << bits) - 1)
    }

    #[inline]
    fn tag(self) -> u32 {
        self.hash() as u32
    }
}

#[derive(Debug, Default)]
#[repr(align(32))]
struct Bucket {
    slots: [AtomicU64; SLOTS],
}

/// The slots of the prefixes of one length.
#[derive(Debug)]
struct Table {
    buckets: Box<[Bucket]>,
    /// The bits of a hash behind those that choose a bucket.
    rest_bits: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Jumps {
    /// By length; null if there is none yet.
    tables: [Atomic<Table>; LENGTHS.len()],
    /// Held by the thread that changes the tables: the slots in use, by length.
    changes: Mutex<[usize; LENGTHS.len()]>,
}

fn entry(tag: u32, node: Ref) -> u64 {
    u64::from(tag) << 32 | u64::from(node.bits())
}

impl Table {
    /// A table for prefixes of a length, with at least so many buckets.
    fn new(length: usize, buckets_log: u32) -> Table {
        let (bits, least) = Prefix::bits(length);
        let buckets_log = buckets_log.max(least);
        Table {
            buckets: (0..1 << buckets_log).map(|_| Bucket::default()).collect(),
            rest_bits: bits - buckets_log,
        }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Bucket {
        // The number is below that of the buckets anyway.
        &self.buckets[(hash >> self.rest_bits) as usize & (self.buckets.len() - 1)]
    }

    /// The slot of a prefix, or a free one.
    fn slot(&self, prefix: Prefix) -> Option<&AtomicU64> {
        let slots = &self.bucket(prefix.hash()).slots;
        let load = |slot: &&AtomicU64| slot.load(Ordering::Relaxed);
        let own = slots
            .iter()
            .find(|slot| load(slot) as u32 != 0 && (load(slot) >> 32) as u32 == prefix.tag());
        own.or_else(|| slots.iter().find(|slot| load(slot) == 0))
    }

    fn slots(&self) -> impl Iterator<Item = &AtomicU64> {
        self.buckets.iter().flat_map(|bucket| &bucket.slots)
    }

    /// All prefixes of the length whose table it is, and their nodes.
    fn entries(&self, length: usize) -> impl Iterator<Item = (Prefix, Ref)> {
        let (bits, _) = Prefix::bits(length);
        let buckets = self.buckets.iter().enumerate();
        buckets.flat_map(move |(number, bucket)| {
            let loaded = bucket.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
            loaded.filter(|&entry| entry != 0).map(move |entry| {
                let above = ((number as u64) << self.rest_bits) >> TAG_BITS << TAG_BITS;
                let hash = above | entry >> 32;
                let bytes = hash.wrapping_mul(inverse()) & ((1 << bits) - 1);
                (Prefix { length, bytes }, Ref::from_bits(entry as u32))
            })
        })
    }
}

/// What undoes a multiplication by [`FACTOR`].
const fn inverse() -> u64 {
    // Each round doubles the number of bits that are right, which are three at first.
    let (mut inverse, mut round) = (FACTOR, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

impl Jumps {
    /// Asks for the line of a prefix.
    #[inline]
    pub fn prefetch(&self, prefix: Prefix, guard: &Guard) {
        if let Some(table) = self.table(prefix.length, guard) {
            prefetch(std::ptr::from_ref(table.bucket(prefix.hash())).cast());
        }
    }

    #[inline]
    fn table<'g>(&'g self, length: usize, guard: &'g Guard) -> Option<&'g Table> {
        let table = self.tables[length].load(Ordering::Acquire, guard);
        // SAFETY: a replaced table is freed after all guards are gone under which it could be read.
        unsafe { table.as_ref() }
    }

    /// The first node on the path of keys with a prefix that lies behind it; null if unknown.
    #[inline]
    pub fn find(&self, prefix: Prefix, guard: &Guard) -> Ref {
        let Some(table) = self.table(prefix.length, guard) else {
            return Ref::NULL;
        };
        let mut found = 0;
        for slot in &table.bucket(prefix.hash()).slots {
            let slot = slot.load(Ordering::Acquire);
            // Without a branch, as none could be predicted.
            let node = if (slot >> 32) as u32 == prefix.tag() {
                slot as u32
            } else {
                0
            };
            found |= node;
        }
        Ref::from_bits(found)
    }

    fn lock(&self) -> MutexGuard<'_, [usize; LENGTHS.len()]> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a prefix.
    pub fn clear(&self, prefix: Prefix, guard: &Guard) {
        let mut used = self.lock();
        let table = self.table(prefix.length, guard);
        if let Some(slot) = table.and_then(|table| table.slot(prefix))
            && slot.load(Ordering::Relaxed) != 0
        {
            slot.store(0, Ordering::Release);
            used[prefix.length] -= 1;
        }
    }

    /// Forgets a node whose prefix of a length is not known. Linear in the table.
    #[cold]
    pub fn clear_node(&self, length: usize, node: Ref, guard: &Guard) {
        let mut used = self.lock();
        for slot in self
            .table(length, guard)
            .iter()
            .flat_map(|table| table.slots())
        {
            if Ref::from_bits(slot.load(Ordering::Relaxed) as u32).same(node) {
                slot.store(0, Ordering::Release);
                used[length] -= 1;
            }
        }
    }

    /// Remembers the node of a prefix.
    pub fn set(&self, prefix: Prefix, node: Ref, guard: &Guard) {
        let (mut used, length) = (self.lock(), prefix.length);
        let mut table = self.table(length, guard);
        let mut slot = table.and_then(|table| table.slot(prefix));
        if slot.is_none() && self.grows(table, used[length]) {
            used[length] = self.grow(table, length, guard);
            table = self.table(length, guard);
            slot = table.and_then(|table| table.slot(prefix));
        }
        if let Some(slot) = slot {
            used[length] += usize::from(slot.load(Ordering::Relaxed) == 0);
            slot.store(entry(prefix.tag(), node), Ordering::Release);
        }
    }

    /// True if a table without room is to be replaced by a larger one: one that is half full. In
    /// others only some buckets are full, and their other nodes are not found.
    fn grows(&self, table: Option<&Table>, used: usize) -> bool {
        table.is_none_or(|table| {
            table.buckets.len() < 1 << BUCKETS_LOG_MAX && 2 * used >= SLOTS * table.buckets.len()
        })
    }

    /// Replaces a table by one of twice the size, if there is one. Returns the slots in use.
    fn grow(&self, table: Option<&Table>, length: usize, guard: &Guard) -> usize {
        let buckets_log = table.map_or(0, |table| table.buckets.len().ilog2() + 1);
        let larger = Table::new(length, buckets_log);
        let mut used = 0;
        for (prefix, node) in table.iter().flat_map(|table| table.entries(length)) {
            if let Some(slot) = larger.slot(prefix) {
                slot.store(entry(prefix.tag(), node), Ordering::Relaxed);
                used += 1;
            }
        }
        let old = self.tables[length].swap(Owned::new(larger), Ordering::AcqRel, guard);
        if !old.is_null() {
            // SAFETY: the old table is not reachable any more.
            unsafe { guard.defer_destroy(old) };
        }
        used
    }

    /// The memory of the tables.
    pub fn bytes(&self) -> usize {
        let guard = crossbeam_epoch::pin();
        let tables = (0..LENGTHS.len()).filter_map(|length| self.table(length, &guard));
        tables.map(|table| size_of_val(&*table.buckets)).sum()
    }

    /// All prefixes and their nodes.
    pub fn entries(&self, guard: &Guard) -> Vec<(Prefix, Ref)> {
        let lengths = 0..LENGTHS.len();
        let entries = lengths.flat_map(|length| {
            let table = self.table(length, guard);
            table
                .into_iter()
                .flat_map(move |table| table.entries(length))
        });
        entries.collect()
    }
}

impl Drop for Jumps {
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        for table in &self.tables {
            let table = table.swap(Shared::null(), Ordering::Relaxed, &guard);
            if !table.is_null() {
                // SAFETY: no other thread has the table, which is exclusively ours.
                unsafe { guard.defer_destroy(table) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Kind;
    use std::collections::HashMap;

    fn prefix(length: usize, number: u64) -> Prefix {
        let bytes = number.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        let prefix = Prefix::of(&bytes[..LENGTHS[length]], length);
        assert_eq!(prefix.bytes(), LENGTHS[length]);
        prefix
    }

    #[test]
    fn a_table_grows_and_keeps_what_buckets_have_room_for() {
        for length in 0..LENGTHS.len() {
            let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
            let mut model = HashMap::new();
            for number in 0..5000_u32 {
                let prefix = prefix(length, u64::from(number));
                let node = Ref::new(Kind::Node4, number);
                jumps.set(prefix, node, &guard);
                let found = jumps.find(prefix, &guard);
                assert!(found == node || found.is_null());
                model.insert(prefix.bytes, (prefix, node));
                if number % 3 == 0 {
                    jumps.clear(prefix, &guard);
                    assert!(jumps.find(prefix, &guard).is_null());
                    model.remove(&prefix.bytes);
                }
            }
            let mut kept = 0;
            for &(prefix, node) in model.values() {
                let found = jumps.find(prefix, &guard);
                assert!(found == node || found.is_null());
                kept += usize::from(found == node);
            }
            assert!(kept * 10 > model.len() * 9, "{kept} of {}", model.len());
            assert!(jumps.bytes() < 32 * 5000);
            let entries = jumps.entries(&guard);
            assert_eq!((entries.len(), jumps.lock()[length]), (kept, kept));
            for (prefix, node) in entries {
                assert_eq!(model[&prefix.bytes], (prefix, node));
            }
        }
    }

    /// Of prefixes that differ in one bit only, each has its own slot.
    #[test]
    fn no_prefix_is_taken_for_another() {
        for (length, bytes) in LENGTHS.into_iter().enumerate() {
            let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
            let bits = 8 * bytes;
            let node = Ref::new(Kind::Node16, 1);
            for number in 0..200 {
                let own = prefix(length, number);
                jumps.set(own, node, &guard);
                for bit in 0..bits {
                    let other = Prefix {
                        bytes: own.bytes ^ 1 << bit,
                        ..own
                    };
                    assert!(jumps.find(other, &guard).is_null());
                }
                assert_eq!(jumps.find(own, &guard), node);
                jumps.clear(own, &guard);
            }
        }
    }

    #[test]
    fn a_prefix_has_one_slot() {
        let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
        for index in 0..20 {
            jumps.set(prefix(1, 0), Ref::new(Kind::Node16, index), &guard);
        }
        let last = (prefix(1, 0), Ref::new(Kind::Node16, 19));
        assert_eq!(jumps.entries(&guard), [last]);
        assert!(jumps.find(prefix(1, 1), &guard).is_null());
        assert!(jumps.find(prefix(0, 0), &guard).is_null());
    }

    #[test]
    fn a_node_is_forgotten_without_its_prefix() {
        let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
        for number in 0..100 {
            let node = Ref::new(Kind::Node256, number);
            jumps.set(prefix(1, u64::from(number)), node, &guard);
        }
        let before = jumps.entries(&guard).len();
        let (gone, _) = jumps.entries(&guard)[50];
        let node = Ref::new(Kind::Skipping256, jumps.find(gone, &guard).index());
        jumps.clear_node(0, node, &guard);
        assert_eq!(jumps.entries(&guard).len(), before);
        jumps.clear_node(1, node, &guard);
        assert_eq!(jumps.entries(&guard).len(), before - 1);
        assert!(jumps.find(gone, &guard).is_null());
    }
}
