//! The entries of trees of byte strings: in blocks of [strings](super::strings).

use super::read::write_each;
use super::strings::{self, Candidates, STRINGS_MAX, Strings};
use super::{Entries, Lookup, ModifyLeaf, ReadLeaf, Reclaim, Room, Scan, Symbols, put_entry};
use crate::memory::Memory;
use crate::node::{END, Inner, Ref, Sorted, Symbol};
use crate::shortcut::Tables;
use crossbeam_epoch::Guard;
use nearfield_core::{Bytes, Direction, EntriesWriter, Error};
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Two neighbouring blocks become one when they have no more entries together.
const JOINED_MAX: usize = 20;

/// The number of blocks by which a block is prefetched before it is freed.
const FREED_AHEAD: usize = 8;

impl Symbols for Bytes {
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

    #[inline]
    fn prefix(key: &[u8]) -> Option<u32> {
        key.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn show(key: &[u8]) -> String {
        Error::shorten(key)
    }
}

impl ReadLeaf for Bytes {
    const LEAF_SECOND_LINE: usize = 64;
    const LEAF_LINES: usize = 8;
    type Prepared = Option<Candidates>;
    const MIXES_KINDS: bool = true;

    #[inline]
    fn child(node: Inner<'_>, symbol: Symbol) -> Ref {
        match symbol {
            END => node.header().end(),
            byte => node.covering(byte as u8),
        }
    }

    #[inline]
    fn child_of_small<N: Sorted>(node: &N, symbol: Symbol) -> Ref {
        match symbol {
            END => node.header().end(),
            byte => node.covering(byte as u8),
        }
    }

    #[inline]
    fn entries_expected(tag: usize) -> usize {
        // Leaf, node4, node16, node48, dense, node256, skipping node256, nothing.
        [16, 32, 128, 512, 0, 512, 512, 0][tag]
    }

    #[inline]
    fn lookup<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        prepared: Option<Candidates>,
        guard: &'g Guard,
    ) -> Option<&'g [u8]> {
        let found = Strings::at(memory, leaf, guard).find_prepared(key, prepared);
        found.map(|(_, value)| value)
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        prepared: Option<Candidates>,
        guard: &'g Guard,
    ) -> Lookup<&'g [u8]> {
        let block = Strings::at(memory, leaf, guard);
        match block.find_prepared(key, prepared) {
            _ if block.is_dead() => Lookup::Dead,
            Some((_, value)) => Lookup::Found(value),
            None => Lookup::Absent,
        }
    }

    #[inline]
    fn prepare(memory: &Memory, leaf: Ref, key: &[u8], guard: &Guard) -> Option<Candidates> {
        if !leaf.is_leaf() {
            return None;
        }
        let block = Strings::at(memory, leaf, guard);
        let candidates = block.candidates(key);
        for likely in block.likely(key, candidates) {
            crate::prefetch::prefetch(likely);
        }
        Some(candidates)
    }

    #[inline]
    fn any_key<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> Option<&'g [u8]> {
        let block = Strings::at(memory, leaf, guard);
        let first = block.entries().next().filter(|_| !block.is_dead())?;
        Some(first.0)
    }

    #[inline]
    fn covers(_leaf: Ref, depth: usize, shared: usize) -> bool {
        shared >= depth
    }

    #[inline]
    fn entries<'g>(
        memory: &'g Memory,
        leaf: Ref,
        _from: Bound<&[u8]>,
        direction: Direction,
        guard: &'g Guard,
        mut visit: impl FnMut(&'g [u8], &'g [u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut entries = Strings::at(memory, leaf, guard).entries();
        match direction {
            Direction::Ascending => entries.try_for_each(|(key, value)| visit(key, value)),
            Direction::Descending => entries.rev().try_for_each(|(key, value)| visit(key, value)),
        }
    }

    /// Copies the entries of an ascending scan as they are packed in the block.
    #[inline]
    fn write_entries<'g>(
        memory: &'g Memory,
        leaf: Ref,
        scan: &Scan<&'g [u8]>,
        last: &mut Option<&'g [u8]>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        if scan.direction == Direction::Descending {
            return write_each(memory, leaf, scan, last, guard, writer);
        }
        let block = Strings::at(memory, leaf, guard);
        let mut live = block.live();
        if last.is_none()
            && let Bound::Included(from) | Bound::Excluded(from) = scan.from
        {
            live &= u32::MAX
                .checked_shl(block.likely_rank(from) as u32)
                .unwrap_or(0);
            let first = live.trailing_zeros() as usize;
            if first < STRINGS_MAX && !scan.is_past(block.entry(first).0) {
                live &= live - 1;
            }
        }
        let greatest = |live: u32| 31 - live.leading_zeros() as usize;
        let mut ended = false;
        if scan.to != Bound::Unbounded {
            while live != 0 && scan.is_behind(block.entry(greatest(live)).0) {
                live &= !(1 << greatest(live));
                ended = true;
            }
        }
        let room = scan.limit - writer.count();
        for _ in room..live.count_ones() as usize {
            live &= !(1 << greatest(live));
        }
        if live != 0 {
            *last = Some(block.entry(greatest(live)).0);
        }
        while live != 0 {
            let first = live.trailing_zeros();
            let count = (live >> first).trailing_ones();
            let packed = block.packed(first as usize, (first + count - 1) as usize);
            writer.push_packed(packed, count as usize)?;
            live &= u32::MAX.checked_shl(first + count).unwrap_or(0);
        }
        match ended || writer.count() >= scan.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl ModifyLeaf for Bytes {
    // Blocks are changed under the lock of the node above only.
    type Latch<'m> = ();

    const LEAF_UNIT_BYTES: usize = strings::GRANULE_BYTES;
    const LEAF_UNITS_MAX: usize = strings::GRANULES_MAX;
    const LEAF_ENTRIES_MAX: usize = STRINGS_MAX;
    const JOINED_MAX: usize = JOINED_MAX;
    const HAS_NODE48: bool = true;

    fn fits(entries: &[(&[u8], &[u8])]) -> bool {
        strings::fits(entries)
    }

    fn joins(entries: &[(&[u8], &[u8])]) -> bool {
        strings::joins(entries, JOINED_MAX)
    }

    fn create(memory: &Memory, entries: &[(&[u8], &[u8])]) -> Result<Ref, Error> {
        strings::create(memory, entries)
    }

    fn create_two(
        memory: &Memory,
        left: &[(&[u8], &[u8])],
        right: &[(&[u8], &[u8])],
    ) -> Result<[Ref; 2], Error> {
        let left = strings::create(memory, left)?;
        let right =
            strings::create(memory, right).inspect_err(|_| Self::discard_leaf(memory, left))?;
        Ok([left, right])
    }

    fn discard_leaf(memory: &Memory, leaf: Ref) {
        // SAFETY: no other thread knows the leaf.
        unsafe { strings::free(memory, leaf) };
    }

    fn gather<'g>(
        memory: &'g Memory,
        leaf: Ref,
        guard: &'g Guard,
        entries: &mut Entries<'g, Self>,
    ) {
        entries.extend(Strings::at(memory, leaf, guard).entries());
    }

    #[inline]
    fn latch(_memory: &Memory, _leaf: Ref, _needed: bool) {}

    fn count(memory: &Memory, leaf: Ref, guard: &Guard) -> usize {
        Strings::at(memory, leaf, guard).count()
    }

    #[inline]
    fn find<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<(usize, &'g [u8])> {
        Strings::at(memory, leaf, guard).find(key)
    }

    fn set(
        memory: &Memory,
        leaf: Ref,
        position: usize,
        value: &[u8],
        guard: &Guard,
    ) -> Result<Room, Error> {
        let block = Strings::at(memory, leaf, guard);
        let (key, old) = block.entry(position);
        let copied = match block.is_whole() {
            // Most updates do not change the length.
            true if old.len() == value.len() && block.is_inside() => {
                Some(strings::create_replaced(memory, block, position, value))
            }
            true => strings::create_edited(memory, block, position, position + 1, (key, value)),
            false => None,
        };
        match copied {
            Some(copied) => copied.map(Room::Copy),
            None => copy(memory, block, key, value),
        }
    }

    fn make_room(
        memory: &Memory,
        leaf: Ref,
        key: &[u8],
        value: &[u8],
        guard: &Guard,
    ) -> Result<Room, Error> {
        let block = Strings::at(memory, leaf, guard);
        let copied = match block.is_whole() {
            true => {
                let rank = block.rank(key);
                strings::create_edited(memory, block, rank, rank, (key, value))
            }
            false => None,
        };
        match copied {
            Some(copied) => copied.map(Room::Copy),
            None => copy(memory, block, key, value),
        }
    }

    fn insert(_memory: &Memory, _leaf: Ref, _key: &[u8], _value: &[u8]) {
        unreachable!("blocks of strings are replaced")
    }

    fn remove(memory: &Memory, leaf: Ref, position: usize) {
        strings::remove(memory, leaf, position);
    }

    fn compacted(memory: &Memory, leaf: Ref, guard: &Guard) -> Option<Result<Ref, Error>> {
        let block = Strings::at(memory, leaf, guard);
        let sparse = block.places() >= 2 * block.count();
        sparse.then(|| {
            let entries: Entries<'_, Bytes> = block.entries().collect();
            strings::create(memory, &entries)
        })
    }

    fn kill(memory: &Memory, leaf: Ref) {
        strings::mark_dead(memory, leaf);
    }
}

impl Reclaim for Bytes {
    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]) {
        let guard = crossbeam_epoch::pin();
        for (i, &node) in unlinked.iter().enumerate() {
            if let Some(&coming) = unlinked.get(i + FREED_AHEAD)
                && coming.is_leaf()
            {
                crate::prefetch::prefetch(memory.leaf_address(coming).cast_const());
                memory.prefetch_to_free(coming);
            }
            if !node.is_leaf() {
                memory.free_node(node);
                continue;
            }
            let block = Strings::at(memory, node, &guard);
            // Those that were removed as well: they may have been inserted before.
            let hashes = || block.all_entries().map(|(key, _)| Self::hash(key));
            if shortcuts.purge(node, hashes) {
                let memory = Arc::clone(memory);
                // SAFETY: the closure owns what it uses, and may run on any thread. It runs after
                // all guards are gone under which the leaf could be found in a shortcut table.
                unsafe { guard.defer_unchecked(move || strings::free(&memory, node)) };
            } else {
                // SAFETY: as promised by the caller, and there is no table that could lead to the
                // leaf.
                unsafe { strings::free(memory, node) };
            }
        }
    }

    unsafe fn free_outside(memory: &Memory, leaf: Ref) {
        // SAFETY: promised by the caller.
        unsafe { strings::free(memory, leaf) };
    }
}

/// A copy of a block with an entry put in, if it fits.
#[cold]
fn copy(memory: &Memory, block: Strings<'_>, key: &[u8], value: &[u8]) -> Result<Room, Error> {
    let mut entries: Entries<'_, Bytes> = block.entries().collect();
    put_entry::<Bytes>(&mut entries, key, value);
    match strings::fits(&entries) {
        true => strings::create(memory, &entries).map(Room::Copy),
        false => Ok(Room::Full),
    }
}
