//! Leaves of byte strings: one record, never changed after it is linked, but for its dead bit.
//!
//! ```text
//!   0                      4            8
//!   │ dead·outside·key len │ value len  │ key … │ value … │      up to 1 KiB
//!   │ dead·outside·key len │ value len  │ pointer │ ──▶ │ key … │ value … │
//! ```
//!
//! # Dead leaves
//!
//! A leaf is marked *dead* before it is unlinked or replaced, by the holder of its parent's
//! lock. A reader that finds the leaf of its key alive has found the key at that instant,
//! however it came to the leaf, through the tree or by a shortcut. A reader that finds it dead
//! looks again from the root.
//!
//! Another value for a key is another record, so that readers hold on to a value as long as they
//! are pinned, without a copy.

use super::{LeafForm, Lookup, Spot};
use crate::bulk::{Packed, Subtree};
use crate::counters::Probe;
use crate::memory::Memory;
use crate::node::{END, Inner, Ref, Sorted, Symbol};
use crate::records;
use crate::shortcut::Tables;
use crate::tree::{Attempt, Change, InNode, Place, Tree};
use crate::writer::Writer;
use crossbeam_epoch::Guard;
use nearfield_core::{Bytes, Direction, Error, MAX_KEY_BYTES};
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The unit of leaf memory.
const GRANULE_BYTES: usize = 16;

/// The longest record in granules; longer ones are kept outside the region.
const GRANULES_MAX: usize = 64;

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

/// What a comparison of a leaf with a key has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The leaf is the key's, and was alive.
    Equal,
    /// The leaf was the key's, and is dead.
    Dead,
    /// The leaf is another key's.
    Different,
}

/// Creates a leaf that no other thread can reach yet.
pub fn create(memory: &Memory, key: &[u8], value: &[u8]) -> Result<Ref, Error> {
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

/// Compares a leaf with a key.
#[inline]
pub fn compare(memory: &Memory, leaf: Ref, key: &[u8], guard: &Guard) -> Match {
    let (bytes, key_length) = content(memory, leaf, guard);
    if &bytes[..key_length] != key {
        Match::Different
    } else if record(memory, leaf).head.load(Ordering::Acquire) & DEAD != 0 {
        Match::Dead
    } else {
        Match::Equal
    }
}

/// The value of a leaf.
#[inline]
pub fn value_of<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> &'g [u8] {
    let (bytes, key_length) = content(memory, leaf, guard);
    &bytes[key_length..]
}

/// Marks a leaf as dead, under its parent's lock and before it is unlinked.
pub fn mark_dead(memory: &Memory, leaf: Ref, _guard: &Guard) {
    record(memory, leaf).head.fetch_or(DEAD, Ordering::AcqRel);
}

fn hash_of_dead(memory: &Memory, leaf: Ref, guard: &Guard) -> u64 {
    let (bytes, key_length) = content(memory, leaf, guard);
    Bytes::hash(&bytes[..key_length])
}

/// Frees a leaf.
///
/// # Safety
/// No other thread may hold a reference to the leaf's key or value, and the leaf is freed only
/// once.
pub unsafe fn free(memory: &Memory, leaf: Ref) {
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

impl LeafForm for Bytes {
    const LEAF_UNIT_BYTES: usize = GRANULE_BYTES;
    const LEAF_UNITS_MAX: usize = GRANULES_MAX;
    const LEAF_SECOND_LINE: usize = 0;
    const MIXES_KINDS: bool = true;

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

    fn show(key: &[u8]) -> String {
        Error::shorten(key)
    }

    #[inline]
    fn child(node: Inner<'_>, symbol: Symbol) -> Ref {
        node.find(symbol)
    }

    #[inline]
    fn child_of_small<N: Sorted>(node: &N, symbol: Symbol) -> Ref {
        match symbol {
            END => node.header().end(),
            byte => node.find(byte as u8),
        }
    }

    #[inline]
    fn range_start(_node: Inner<'_>, symbol: Symbol) -> Symbol {
        symbol
    }

    fn exchange(node: Inner<'_>, symbol: Symbol, child: Ref) {
        match child.is_null() {
            true => node.remove(symbol),
            false => node.replace(symbol, child),
        }
    }

    #[inline]
    fn entries_expected(tag: usize) -> usize {
        // Leaf, node4, node16, node48, dense, node256, skipping node256, nothing.
        [1, 2, 4, 13, 0, 38, 38, 0][tag]
    }

    fn last_byte(_key: &[u8]) -> usize {
        0
    }

    #[inline]
    fn lookup<'g>(memory: &'g Memory, leaf: Ref, key: &[u8], guard: &'g Guard) -> Lookup<&'g [u8]> {
        match compare(memory, leaf, key, guard) {
            Match::Equal => Lookup::Found(value_of(memory, leaf, guard)),
            Match::Different => Lookup::Absent,
            Match::Dead => Lookup::Dead,
        }
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        guard: &'g Guard,
    ) -> Lookup<&'g [u8]> {
        Self::lookup(memory, leaf, key, guard)
    }

    #[inline]
    fn any_key<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> Option<&'g [u8]> {
        let alive = record(memory, leaf).head.load(Ordering::Acquire) & DEAD == 0;
        let (bytes, key_length) = content(memory, leaf, guard);
        alive.then(|| &bytes[..key_length])
    }

    #[inline]
    fn covers(_leaf: Ref, _depth: usize, _shared: usize) -> bool {
        false
    }

    #[inline]
    fn entries<'g>(
        memory: &'g Memory,
        leaf: Ref,
        _from: Bound<&[u8]>,
        _direction: Direction,
        guard: &'g Guard,
        mut visit: impl FnMut(&'g [u8], &'g [u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let key = Self::any_key(memory, leaf, guard)?;
        Some(visit(key, value_of(memory, leaf, guard)))
    }

    fn visit_at<'v>(
        tree: &Tree<Self>,
        place: &Place,
        key: &[u8],
        guard: &Writer<'_, Self>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<Attempt, Error> {
        tree.visit_record_at(place, key, guard, probe, decide)
    }

    #[inline]
    fn visit_in_node<'v>(
        tree: &Tree<Self>,
        spot: Spot<'_>,
        key: &[u8],
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> InNode {
        tree.visit_record_in_node(spot, key, guard, decide)
    }

    fn visit_in_dense<'v>(
        _tree: &Tree<Self>,
        _node: Ref,
        _key: &[u8],
        _guard: &Writer<'_, Self>,
        _decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> InNode {
        unreachable!("byte strings have no dense nodes")
    }

    fn is_underfull(memory: &Memory, node: Ref) -> bool {
        memory.inner(node).is_underfull()
    }

    fn smaller(tree: &Tree<Self>, node: Ref) -> Result<Ref, Error> {
        records::smaller(&tree.memory, node)
    }

    fn begin(
        memory: &Memory,
        key: &[u8],
        value: &[u8],
        _pending: &mut Vec<(u64, u64)>,
    ) -> Result<Subtree, Error> {
        create(memory, key, value).map(Subtree::Built)
    }

    fn pack(
        memory: &Memory,
        depth: usize,
        children: &[(Symbol, Subtree)],
        _pending: &mut Vec<(u64, u64)>,
    ) -> Result<Packed, Error> {
        let bytes = children.iter().filter(|child| child.0 != END).count();
        let children = children.iter().map(|&(symbol, subtree)| match subtree {
            Subtree::Built(child) => (symbol, memory.edge(depth, child)),
            Subtree::Few(_) => unreachable!("a record is built at once"),
        });
        Ok(Packed::Node(records::kind_for(bytes), children.collect()))
    }

    fn fill(node: Inner<'_>, children: &[(Symbol, Ref)]) {
        for &(symbol, child) in children {
            node.insert(symbol, child);
        }
    }

    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]) {
        let guard = crossbeam_epoch::pin();
        for &node in unlinked {
            if !node.is_leaf() {
                memory.free_node(node);
            } else if shortcuts.purge(node, || hash_of_dead(memory, node, &guard)) {
                let memory = Arc::clone(memory);
                // SAFETY: the closure owns what it uses, and may run on any thread. It runs after
                // all guards are gone under which the leaf could be found in a shortcut table.
                unsafe { guard.defer_unchecked(move || free(&memory, node)) };
            } else {
                // SAFETY: as promised by the caller, and there is no table that could lead to the
                // leaf.
                unsafe { free(memory, node) };
            }
        }
    }

    unsafe fn free_outside(memory: &Memory, leaf: Ref) {
        // SAFETY: promised by the caller.
        unsafe { free(memory, leaf) };
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
