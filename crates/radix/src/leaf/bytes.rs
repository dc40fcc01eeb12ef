//! Leaves of byte strings: one record, never changed after it is linked, but for its dead bit.
//!
//! ```text
//!   0                      4            8
//!   │ dead·outside·key len │ value len  │ key … │ value … │      up to 1 KiB
//!   │ dead·outside·key len │ value len  │ pointer │ ──▶ │ key … │ value … │
//! ```
//!
//! Another value for a key is another record, so that readers hold on to a value as long as they
//! are pinned, without a copy.

use super::{LeafForm, Match};
use crate::memory::{GRANULE_BYTES, GRANULES_MAX, Memory};
use crate::node::{END, Ref, Symbol};
use crossbeam_epoch::Guard;
use nearfield_core::{Bytes, Error, MAX_KEY_BYTES};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

const DEAD: u32 = 1 << 31;
const OUTSIDE: u32 = 1 << 30;
const KEY_LENGTH: u32 = OUTSIDE - 1;
const HEADER_BYTES: usize = 8;

const _: () = assert!(MAX_KEY_BYTES <= KEY_LENGTH as usize);

#[repr(C)]
struct Record {
    head: AtomicU32,
    value_length: AtomicU32,
}

#[inline]
fn record(memory: &Memory, leaf: Ref) -> &Record {
    // SAFETY: leaf references are made by `create` only, within the leaf region, which is mapped
    // as long as `memory`; granules are aligned to 16. The header consists of atomics.
    unsafe { &*memory.leaf_address(leaf).cast() }
}

fn granules(head: u32, length: usize) -> usize {
    if head & OUTSIDE != 0 {
        1
    } else {
        (HEADER_BYTES + length).div_ceil(GRANULE_BYTES)
    }
}

/// Key and value, one after the other, and the key's length.
#[inline]
fn content<'g>(memory: &'g Memory, leaf: Ref, _guard: &'g Guard) -> (&'g [u8], usize) {
    let record = record(memory, leaf);
    let head = record.head.load(Ordering::Acquire);
    let key_length = (head & KEY_LENGTH) as usize;
    let length = key_length + record.value_length.load(Ordering::Relaxed) as usize;
    // SAFETY: `create` has written `length` bytes behind the header, or behind the pointer that
    // stands there, before the leaf was linked, and nothing writes them until the leaf is freed.
    // That happens after all guards under which the leaf could be read are gone; the caller's
    // lives for 'g.
    let bytes = unsafe {
        let behind = memory.leaf_address(leaf).add(HEADER_BYTES);
        let start = if head & OUTSIDE == 0 {
            behind.cast_const()
        } else {
            behind.cast::<*const u8>().read()
        };
        std::slice::from_raw_parts(start, length)
    };
    (bytes, key_length)
}

impl LeafForm for Bytes {
    const DENSE: bool = false;

    #[inline]
    fn symbol(key: &[u8], depth: usize) -> Option<Symbol> {
        match key.get(depth) {
            Some(&byte) => Some(Symbol::from(byte)),
            None => (key.len() == depth).then_some(END),
        }
    }

    #[inline]
    fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
        let common = a.iter().zip(b).position(|(a, b)| a != b);
        common.or_else(|| (a.len() != b.len()).then(|| a.len().min(b.len())))
    }

    #[inline]
    fn slice(key: &[u8], depth: usize) -> u64 {
        let rest = key.get(depth..).unwrap_or_default();
        match rest.first_chunk::<8>() {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => {
                let mut padded = [0; 8];
                padded[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(padded)
            }
        }
    }

    #[inline]
    fn hash(key: &[u8]) -> u64 {
        foldhash::quality::FixedState::default().hash_one(key)
    }

    fn word(_key: &[u8]) -> u64 {
        unreachable!("byte strings have no dense nodes")
    }

    fn from_words<'a>(_key: u64, _payload: u64) -> (Self::Key<'a>, Self::Value<'a>) {
        unreachable!("byte strings have no dense nodes")
    }

    fn payload(_value: &[u8]) -> u64 {
        unreachable!("byte strings have no dense nodes")
    }

    fn create(memory: &Memory, key: &[u8], value: &[u8]) -> Result<Ref, Error> {
        let length = key.len() + value.len();
        let inside = HEADER_BYTES + length <= GRANULES_MAX * GRANULE_BYTES;
        let head = key.len() as u32 | if inside { 0 } else { OUTSIDE };
        let leaf = memory.allocate_leaf(granules(head, length))?;
        let behind = memory.leaf_address(leaf).wrapping_add(HEADER_BYTES);
        if inside {
            // SAFETY: the record has room for header, key and value, and nobody else knows it.
            unsafe {
                behind.copy_from_nonoverlapping(key.as_ptr(), key.len());
                behind
                    .add(key.len())
                    .copy_from_nonoverlapping(value.as_ptr(), value.len());
            }
        } else {
            let outside = create_outside(memory, key, value)
                .inspect_err(|_| memory.free_leaf(leaf, granules(head, length)))?;
            // SAFETY: the record is one granule of 16 bytes, aligned, and nobody else knows it.
            unsafe { behind.cast::<*mut u8>().write(outside) };
        }
        let record = record(memory, leaf);
        record
            .value_length
            .store(value.len() as u32, Ordering::Relaxed);
        record.head.store(head, Ordering::Release);
        Ok(leaf)
    }

    fn change(
        memory: &Memory,
        _leaf: Ref,
        key: &[u8],
        value: &[u8],
        _guard: &Guard,
    ) -> Result<Option<Ref>, Error> {
        Self::create(memory, key, value).map(Some)
    }

    #[inline]
    fn compare(memory: &Memory, leaf: Ref, key: &[u8], guard: &Guard) -> Match {
        let (bytes, key_length) = content(memory, leaf, guard);
        if &bytes[..key_length] != key {
            Match::Different
        } else if record(memory, leaf).head.load(Ordering::Acquire) & DEAD != 0 {
            Match::Dead
        } else {
            Match::Equal
        }
    }

    #[inline]
    fn key_of<'g>(
        memory: &'g Memory,
        leaf: Ref,
        _first: Symbol,
        guard: &'g Guard,
    ) -> Option<&'g [u8]> {
        let alive = record(memory, leaf).head.load(Ordering::Acquire) & DEAD == 0;
        let (bytes, key_length) = content(memory, leaf, guard);
        alive.then(|| &bytes[..key_length])
    }

    #[inline]
    fn value_of<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> &'g [u8] {
        let (bytes, key_length) = content(memory, leaf, guard);
        &bytes[key_length..]
    }

    fn mark_dead(memory: &Memory, leaf: Ref, _guard: &Guard) {
        record(memory, leaf).head.fetch_or(DEAD, Ordering::AcqRel);
    }

    fn hash_of_dead(memory: &Memory, leaf: Ref, guard: &Guard) -> u64 {
        let (bytes, key_length) = content(memory, leaf, guard);
        Self::hash(&bytes[..key_length])
    }

    unsafe fn free(memory: &Memory, leaf: Ref) {
        let record = record(memory, leaf);
        let head = record.head.load(Ordering::Acquire);
        let length =
            (head & KEY_LENGTH) as usize + record.value_length.load(Ordering::Relaxed) as usize;
        if head & OUTSIDE != 0 {
            let behind = memory.leaf_address(leaf).wrapping_add(HEADER_BYTES);
            // SAFETY: `create_outside` has made the pointer from a boxed slice of this length,
            // and the caller promises that this is its only and last use.
            drop(unsafe {
                Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                    behind.cast::<*mut u8>().read(),
                    length,
                ))
            });
            memory.free_outside(length);
        }
        memory.free_leaf(leaf, granules(head, length));
    }
}

/// Copies key and value into memory of their own.
fn create_outside(memory: &Memory, key: &[u8], value: &[u8]) -> Result<*mut u8, Error> {
    let length = key.len() + value.len();
    memory.take_outside(length)?;
    let mut bytes = Vec::new();
    if let Err(error) = bytes.try_reserve_exact(length) {
        memory.free_outside(length);
        return Err(Error::OutOfMemory {
            what: format!("a record of {length} bytes: {error}"),
        });
    }
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    Ok(Box::into_raw(bytes.into_boxed_slice()).cast())
}
