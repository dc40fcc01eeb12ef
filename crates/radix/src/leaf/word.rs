//! Leaves of 8-byte keys and payloads: one granule.
//!
//! ```text
//!   0      8         16
//!   │ key  │ payload │
//! ```
//!
//! A dead leaf has all bits of its key inverted. No walk for a key meets the inverted key: they
//! differ in the first byte, and the root decides on it.

use super::{LeafForm, Match};
use crate::memory::Memory;
use crate::node::{Ref, Symbol};
use crossbeam_epoch::Guard;
use nearfield_core::{Error, Words};
use std::sync::atomic::{AtomicU64, Ordering};

#[repr(C)]
struct Leaf {
    key: AtomicU64,
    payload: AtomicU64,
}

#[inline]
fn leaf(memory: &Memory, leaf: Ref) -> &Leaf {
    // SAFETY: leaf references are made by `create` only, for one granule of 16 bytes within the
    // leaf region, which is aligned to 16 and mapped as long as `memory`. It consists of
    // atomics, for which any content is valid.
    unsafe { &*memory.leaf_address(leaf).cast() }
}

impl LeafForm for Words {
    const DENSE: bool = true;

    #[inline]
    fn symbol(key: u64, depth: usize) -> Option<Symbol> {
        Some((key >> (56 - 8 * (depth & 7))) as u8 as Symbol)
    }

    #[inline]
    fn difference(a: u64, b: u64) -> Option<usize> {
        (a != b).then(|| (a ^ b).leading_zeros() as usize / 8)
    }

    #[inline]
    fn slice(key: u64, depth: usize) -> u64 {
        key << (8 * depth)
    }

    #[inline]
    fn hash(key: u64) -> u64 {
        // The finalizer of splitmix64.
        let x = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    #[inline]
    fn word(key: u64) -> u64 {
        key
    }

    #[inline]
    fn from_words<'a>(key: u64, payload: u64) -> (Self::Key<'a>, Self::Value<'a>) {
        (key, payload)
    }

    #[inline]
    fn payload(value: u64) -> u64 {
        value
    }

    fn create(memory: &Memory, key: u64, value: u64) -> Result<Ref, Error> {
        let new = memory.allocate_leaf(1)?;
        let record = leaf(memory, new);
        record.payload.store(value, Ordering::Relaxed);
        record.key.store(key, Ordering::Release);
        Ok(new)
    }

    #[inline]
    fn change(
        memory: &Memory,
        found: Ref,
        _key: u64,
        value: u64,
        _guard: &Guard,
    ) -> Result<Option<Ref>, Error> {
        leaf(memory, found).payload.store(value, Ordering::Release);
        Ok(None)
    }

    #[inline]
    fn compare(memory: &Memory, found: Ref, key: u64, _guard: &Guard) -> Match {
        let stored = leaf(memory, found).key.load(Ordering::Acquire);
        if stored == key {
            Match::Equal
        } else if stored == !key {
            Match::Dead
        } else {
            Match::Different
        }
    }

    #[inline]
    fn key_of<'g>(memory: &'g Memory, found: Ref, first: Symbol, _guard: &'g Guard) -> Option<u64> {
        let key = leaf(memory, found).key.load(Ordering::Acquire);
        (key >> 56 == u64::from(first)).then_some(key)
    }

    #[inline]
    fn value_of<'g>(memory: &'g Memory, found: Ref, _guard: &'g Guard) -> u64 {
        leaf(memory, found).payload.load(Ordering::Acquire)
    }

    fn mark_dead(memory: &Memory, found: Ref, _guard: &Guard) {
        let key = &leaf(memory, found).key;
        key.store(!key.load(Ordering::Relaxed), Ordering::Release);
    }

    fn hash_of_dead(memory: &Memory, found: Ref, _guard: &Guard) -> u64 {
        Self::hash(!leaf(memory, found).key.load(Ordering::Relaxed))
    }

    unsafe fn free(memory: &Memory, found: Ref) {
        memory.free_leaf(found, 1);
    }
}
