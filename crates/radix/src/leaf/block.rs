//! Leaves of 8-byte keys and payloads: blocks of up to seven entries in ascending order.
//!
//! ```text
//!   0         4       8                                      64
//!   │ version │ count │ 7 keys …                             │ 7 payloads …     │ unused │ 128
//! ```
//!
//! A block has two lines. The first shows if a key is there, and at which place. Unused keys have
//! all bits set, so that they sort after those in use. The block's [latch](WordBlockLatch), a bit
//! in the word of the count, guards it from other writers; the version shows readers that entries
//! have moved. A payload changes by one atomic store, which readers need not notice.
//!
//! A block that is replaced is *obsolete*, and never changes again. A walk that began before may
//! still read it; a reader that came by a shortcut must not.

use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::lock::{Version, VersionLock, pause};
use crate::prefetch::prefetch;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use std::ops::Deref;

/// The maximum number of entries in a block.
pub const BLOCK_MAX: usize = 7;

/// The bit of the count that is set while the latch is held.
const LATCHED: u32 = 1 << 31;

/// The value of an unused key.
const UNUSED: u64 = u64::MAX;

/// A leaf of words; see the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct WordBlock {
    lock: VersionLock,
    count: AtomicU32,
    keys: [AtomicU64; BLOCK_MAX],
    payloads: [AtomicU64; BLOCK_MAX],
    _unused: u64,
}

// loom's atomics are larger.
#[cfg(not(loom))]
const _: () = assert!(size_of::<WordBlock>() == 128);

/// The offset of the payloads in a block.
#[cfg(not(loom))]
pub const PAYLOADS_AT: usize = std::mem::offset_of!(WordBlock, payloads);

/// The entries of a block, see [`WordBlock::load`].
#[derive(Clone, Copy, Debug, Default)]
pub struct WordBlockEntries {
    entries: [(u64, u64); BLOCK_MAX],
    count: usize,
}

impl WordBlockEntries {
    /// Returns the entries in ascending order.
    #[inline]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.entries[..self.count]
    }
}

impl WordBlock {
    /// Creates a block of entries outside the leaf region, for tests.
    #[cfg(any(test, loom))]
    pub fn new(entries: &[(u64, u64)]) -> Self {
        let block = WordBlock {
            lock: VersionLock::new(),
            count: AtomicU32::new(0),
            keys: Default::default(),
            payloads: Default::default(),
            _unused: 0,
        };
        block.fill(entries);
        block
    }

    /// Returns the number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize & BLOCK_MAX
    }

    /// Returns true if there is no room for another entry.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count() == BLOCK_MAX
    }

    /// Returns the position of a key. Validate it unless under the lock of the node above.
    #[inline]
    pub fn position(&self, key: u64) -> Option<usize> {
        let stored = |position: usize| self.key(position);
        // Three binary steps without a branch, all within a line. Unused keys have all bits set, so
        // that all seven places can be searched whatever the count.
        let mut position = 4 * usize::from(stored(3) < key);
        position += 2 * usize::from(stored(position + 1) < key);
        position += usize::from(stored(position) < key);
        // All seven may be less than the key. The seventh is then not the key.
        let position = position.min(BLOCK_MAX - 1);
        (stored(position) == key && position < self.count()).then_some(position)
    }

    #[inline]
    fn key(&self, position: usize) -> u64 {
        self.keys[position].load(Ordering::Relaxed)
    }

    /// Returns the payload at a place.
    #[inline]
    pub fn payload(&self, position: usize) -> u64 {
        self.payloads[position].load(Ordering::Acquire)
    }

    /// Returns the payload of a key, and the version at which it was read.
    #[inline]
    pub fn find(&self, key: u64) -> (Option<u64>, Version) {
        // Prefetches the second line, so that the two lines are not waited for in turn.
        prefetch(std::ptr::from_ref(&self.payloads).cast());
        loop {
            let version = self.lock.read();
            let payload = self.position(key).map(|position| self.payload(position));
            if self.lock.validate(version) {
                return (payload, version);
            }
        }
    }

    /// Applies the decision of `decide` to a key, under the latch alone, unless the change affects
    /// more than the block, the block is obsolete, or another thread holds the latch. `decide` may
    /// have been called without an effect. `belongs` is true if the key can only be in this block,
    /// because a walk without skipped bytes has led here.
    #[inline]
    pub fn alter(
        &self,
        key: u64,
        belongs: bool,
        decide: &mut impl FnMut(Option<u64>) -> RadixKeyChange<u64>,
    ) -> LeafChangeResult {
        // As in `find`.
        prefetch(std::ptr::from_ref(&self.payloads).cast());
        let Some(position) = self.position(key) else {
            return match belongs && !self.is_full() {
                true => self.alter_absent(key, decide),
                false => LeafChangeResult::Not,
            };
        };
        let Some(latch) = self.try_latch() else {
            return LeafChangeResult::Not;
        };
        // Entries may have moved since they were searched; now they cannot move.
        let is_there = position < latch.count() && latch.key(position) == key;
        // A block that is not obsolete is linked, or was when its latch was taken, because a thread
        // that replaces it latches it first. It still covers its former range, because a smaller
        // range needs another block.
        if !is_there || latch.lock.is_obsolete() {
            return LeafChangeResult::Not;
        }
        match decide(Some(latch.payload(position))) {
            RadixKeyChange::Keep => {}
            RadixKeyChange::Set(payload) => latch.set_payload(position, payload),
            // A leaf that becomes small must join another, under the lock of the node above.
            RadixKeyChange::Remove => return LeafChangeResult::Not,
        }
        LeafChangeResult::InPlace
    }

    /// Changes a key like `alter`, if it belongs here and is probably absent.
    #[inline]
    fn alter_absent(
        &self,
        key: u64,
        decide: &mut impl FnMut(Option<u64>) -> RadixKeyChange<u64>,
    ) -> LeafChangeResult {
        let Some(latch) = self.try_latch() else {
            return LeafChangeResult::Not;
        };
        // The key was searched without the latch, so it may have been added since.
        if latch.lock.is_obsolete() || latch.is_full() || latch.position(key).is_some() {
            return LeafChangeResult::Not;
        }
        let RadixKeyChange::Set(payload) = decide(None) else {
            return LeafChangeResult::InPlace;
        };
        latch.insert(key, payload);
        LeafChangeResult::Inserted
    }

    /// Takes the latch, after waiting for others, if it is `needed`: see
    /// [`latching`](crate::latching). Only under the lock of the node above.
    #[inline]
    pub fn latch(&self, needed: bool) -> WordBlockLatch<'_> {
        let mut waits = 0;
        loop {
            if !needed {
                return WordBlockLatch {
                    block: self,
                    taken: false,
                };
            }
            match self.try_latch() {
                Some(latch) => return latch,
                None => pause(&mut waits),
            }
        }
    }

    #[inline]
    fn try_latch(&self) -> Option<WordBlockLatch<'_>> {
        let count = self.count.load(Ordering::Relaxed);
        let free = count & LATCHED == 0
            && self
                .count
                .compare_exchange(count, count | LATCHED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Created only if this thread holds it: dropping it would release the latch of another
        // thread.
        free.then(|| WordBlockLatch {
            block: self,
            taken: true,
        })
    }

    /// Returns the keys at one instant, each with a payload that it had at about that time; exact
    /// under the latch.
    #[inline]
    pub fn load(&self) -> WordBlockEntries {
        loop {
            let version = self.lock.read();
            let mut entries = WordBlockEntries {
                count: self.count(),
                ..WordBlockEntries::default()
            };
            for i in 0..BLOCK_MAX {
                entries.entries[i] = (
                    self.keys[i].load(Ordering::Relaxed),
                    self.payloads[i].load(Ordering::Relaxed),
                );
            }
            if self.lock.validate(version) {
                return entries;
            }
        }
    }

    /// Returns some key, `None` if the block is empty.
    pub fn any_key(&self) -> Option<u64> {
        loop {
            let version = self.lock.read();
            let key = self.keys[0].load(Ordering::Relaxed);
            let some = self.count() > 0;
            if self.lock.validate(version) {
                return some.then_some(key);
            }
        }
    }

    /// Sets the first entries of a block that no walk can reach. The caller must then link or
    /// [retire](WordBlock::retire) it.
    pub fn fill(&self, entries: &[(u64, u64)]) {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
        for (i, &(key, payload)) in entries.iter().enumerate() {
            self.keys[i].store(key, Ordering::Relaxed);
            self.payloads[i].store(payload, Ordering::Relaxed);
        }
        for key in &self.keys[entries.len()..] {
            key.store(UNUSED, Ordering::Relaxed);
        }
        self.count.store(entries.len() as u32, Ordering::Relaxed);
        // A walk by a stale shortcut finds the block obsolete until here.
        self.lock.revive();
    }
}

/// A block whose entries no other thread can change.
#[derive(Debug)]
pub struct WordBlockLatch<'b> {
    block: &'b WordBlock,
    taken: bool,
}

impl Deref for WordBlockLatch<'_> {
    type Target = WordBlock;

    #[inline]
    fn deref(&self) -> &WordBlock {
        self.block
    }
}

impl Drop for WordBlockLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.taken {
            let count = self.count.load(Ordering::Relaxed);
            debug_assert!(count & LATCHED != 0, "released twice");
            self.count.store(count & !LATCHED, Ordering::Release);
        }
    }
}

impl WordBlockLatch<'_> {
    /// Sets the payload of the entry at a place.
    #[inline]
    pub fn set_payload(&self, position: usize, payload: u64) {
        debug_assert!(position < self.count(), "no entry is there");
        self.payloads[position].store(payload, Ordering::Release);
    }

    /// Adds an entry, of a key that is absent, to a block that is not full.
    pub fn insert(&self, key: u64, payload: u64) {
        let count = self.count();
        debug_assert!(count < BLOCK_MAX, "no room");
        debug_assert!(self.position(key).is_none(), "the key is present");
        self.lock.lock_alone();
        let mut position = count;
        while position > 0 && self.key(position - 1) > key {
            self.move_entry(position - 1, position);
            position -= 1;
        }
        self.keys[position].store(key, Ordering::Relaxed);
        self.payloads[position].store(payload, Ordering::Relaxed);
        self.set_count(count + 1);
        self.lock.unlock_changed();
    }

    /// Removes the entry at a place. Only under the lock of the node above.
    pub fn remove(&self, position: usize) {
        let count = self.count();
        debug_assert!(position < count, "no entry is there");
        self.lock.lock_alone();
        for i in position + 1..count {
            self.move_entry(i, i - 1);
        }
        self.keys[count - 1].store(UNUSED, Ordering::Relaxed);
        self.set_count(count - 1);
        self.lock.unlock_changed();
    }

    fn move_entry(&self, from: usize, to: usize) {
        self.keys[to].store(self.key(from), Ordering::Relaxed);
        let payload = self.payloads[from].load(Ordering::Relaxed);
        self.payloads[to].store(payload, Ordering::Relaxed);
    }

    fn set_count(&self, count: usize) {
        // The latch is a bit of the same word. If it was not needed, it must stay clear.
        let latched = self.count.load(Ordering::Relaxed) & LATCHED;
        self.count.store(count as u32 | latched, Ordering::Relaxed);
    }

    /// Marks the block as replaced. Call it before its replacement is linked. Only under the lock
    /// of the node above.
    pub fn retire(self) {
        self.lock.retire_alone();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_in_order() {
        let block = WordBlock::new(&[]);
        for key in [5, 1, 7, 3, 6, 2, 4] {
            assert_eq!(block.find(key).0, None);
            block.latch(true).insert(key, key * 10);
        }
        assert!(block.is_full());
        let expected: Vec<_> = (1..=7).map(|key| (key, key * 10)).collect();
        assert_eq!(block.load().as_slice(), expected);
        for key in [4, 1, 7] {
            assert_eq!(block.find(key).0, Some(key * 10));
            block.latch(true).remove(block.position(key).unwrap());
            assert_eq!(block.find(key).0, None);
        }
        assert_eq!(
            block.load().as_slice(),
            [(2, 20), (3, 30), (5, 50), (6, 60)]
        );
        assert_eq!(block.any_key(), Some(2));
    }

    #[test]
    fn a_key_left_behind_the_count_is_absent() {
        let block = WordBlock::new(&[(0, 1), (9, 2)]);
        block.latch(true).remove(1);
        assert_eq!((block.find(9).0, block.find(0).0), (None, Some(1)));
        block.latch(true).remove(0);
        assert_eq!((block.find(0).0, block.any_key()), (None, None));
    }

    #[test]
    fn every_key_is_found_among_every_number_of_others() {
        for count in 0..=BLOCK_MAX {
            for greatest in [7 * 10, u64::MAX] {
                let mut entries: Vec<_> = (1..=count as u64).map(|i| (i * 10, i)).collect();
                if let Some(last) = entries.last_mut() {
                    last.0 = greatest;
                }
                let block = WordBlock::new(&entries);
                for &(key, payload) in &entries {
                    assert_eq!(block.find(key).0, Some(payload));
                    assert_eq!(block.find(key - 1).0, None);
                }
                let is_there = entries.iter().any(|entry| entry.0 == u64::MAX);
                assert_eq!(block.find(u64::MAX).0.is_some(), is_there);
            }
        }
    }

    #[test]
    fn a_latch_is_held_by_one() {
        let block = WordBlock::new(&[(1, 10)]);
        let set = |payload| move |_: Option<u64>| RadixKeyChange::Set(payload);
        let latch = block.latch(true);
        for _ in 0..3 {
            assert_eq!(block.alter(1, true, &mut set(11)), LeafChangeResult::Not);
            assert_eq!(block.alter(2, true, &mut set(20)), LeafChangeResult::Not);
        }
        drop(latch);
        assert_eq!(
            block.alter(1, false, &mut set(11)),
            LeafChangeResult::InPlace
        );
        assert_eq!(block.alter(2, false, &mut set(20)), LeafChangeResult::Not);
        assert_eq!(
            block.alter(2, true, &mut set(20)),
            LeafChangeResult::Inserted
        );
        assert_eq!(block.load().as_slice(), [(1, 11), (2, 20)]);
    }

    #[test]
    fn only_what_a_block_has_and_has_room_for_is_altered_in_it() {
        let block = WordBlock::new(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)]);
        let set = &mut |_: Option<u64>| RadixKeyChange::Set(1);
        assert_eq!(block.alter(8, true, set), LeafChangeResult::Not);
        assert_eq!(
            block.alter(7, true, &mut |_| RadixKeyChange::Remove),
            LeafChangeResult::Not
        );
        assert_eq!(block.alter(7, true, set), LeafChangeResult::InPlace);
        block.latch(true).retire();
        assert_eq!(block.alter(7, true, set), LeafChangeResult::Not);
        assert_eq!(block.find(7).0, Some(1));
    }

    #[test]
    fn an_obsolete_block_stays_as_it_was_and_says_so() {
        let block = WordBlock::new(&[(1, 10)]);
        assert!(!block.find(1).1.is_obsolete());
        block.latch(true).retire();
        let (payload, version) = block.find(1);
        assert!(payload == Some(10) && version.is_obsolete());
    }
}
