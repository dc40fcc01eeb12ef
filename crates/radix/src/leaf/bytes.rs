//! The entries of trees of byte strings: in blocks of [strings](super::strings).

use super::read::write_each;
use super::reclaim::free_later;
use super::strings::{self, Candidates, Found, Latch, STRINGS_MAX, Strings};
use super::{Entries, Known, Lookup, ModifyLeaf, ReadLeaf, Reclaim, Room, Scan, Symbols};
use crate::change::{Altered, Change};
use crate::memory::Memory;
use crate::node::{END, Inner, Ref, Sorted, Symbol};
use crate::shortcut::Tables;
use crossbeam_epoch::Guard;
use nearfield_core::{Bytes, Direction, EntriesWriter, Error, Output};
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The maximum number of entries that two neighbouring blocks have together to become one.
const JOINED_MAX: usize = 20;

/// Number of blocks by which a block is prefetched before it is freed.
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
    fn window(key: &[u8], from: usize, count: usize) -> Option<u64> {
        // Unrolled, because the count is known.
        let bytes = key.get(from..from + count)?.iter();
        Some(bytes.fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)))
    }

    fn show(key: &[u8]) -> String {
        Error::shorten(key)
    }
}

impl ReadLeaf for Bytes {
    const LEAF_SECOND_LINE: usize = 64;
    const LEAF_LINES: usize = 10;
    type Prepared = Candidates;
    type Found<'g> = Found<'g>;
    const MIXES_KINDS: bool = true;

    #[inline]
    fn found<'f>(found: &'f Found<'_>) -> &'f [u8] {
        found.value()
    }

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
        prepared: Candidates,
        guard: &'g Guard,
    ) -> Option<Found<'g>> {
        strings::read(memory, leaf, key, prepared, guard).0
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        prepared: Candidates,
        guard: &'g Guard,
    ) -> Lookup<Found<'g>> {
        match strings::read(memory, leaf, key, prepared, guard) {
            (_, true) => Lookup::Dead,
            (Some(value), _) => Lookup::Found(value),
            (None, _) => Lookup::Absent,
        }
    }

    #[inline]
    fn answer(
        memory: &Memory,
        leaf: Ref,
        key: &[u8],
        prepared: Candidates,
        guard: &Guard,
        (position, output): (usize, &mut Output<'_, Bytes>),
    ) -> Lookup<()> {
        let mut is_dead = false;
        let is_found = output.copied(position, |bytes| {
            let is_found;
            (is_found, is_dead) = strings::copy_to(memory, leaf, key, prepared, guard, bytes);
            is_found
        });
        match is_found {
            _ if is_dead => Lookup::Dead,
            true => Lookup::Found(()),
            false => Lookup::Absent,
        }
    }

    #[inline]
    fn prepare(memory: &Memory, leaf: Ref, key: &[u8], writes: bool, guard: &Guard) -> Candidates {
        if !leaf.is_leaf() {
            return Candidates::default();
        }
        let (block, candidates) = strings::prepare(memory, leaf, key, guard);
        if writes && candidates.is_empty() {
            // The key will be compared with others, and the block perhaps copied.
            block.rest().for_each(crate::prefetch::prefetch);
            return candidates;
        }
        for likely in block.likely(key, candidates) {
            crate::prefetch::prefetch_close(likely);
        }
        block
            .likely_rest(candidates)
            .for_each(crate::prefetch::prefetch);
        candidates
    }

    #[inline]
    fn any_key<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard) -> Option<&'g [u8]> {
        strings::any_key(memory, leaf, guard)
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
        visit: impl FnMut(&'g [u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        strings::entries(memory, leaf, direction, guard, visit)
    }

    /// Copies the entries of an ascending scan in the block's packed form.
    #[inline]
    fn write_entries<'g>(
        memory: &'g Memory,
        leaf: Ref,
        scan: &Scan<&'g [u8]>,
        last: &mut Option<&'g [u8]>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        match scan.direction {
            Direction::Ascending => strings::write_entries(memory, leaf, scan, last, guard, writer),
            Direction::Descending => write_each(memory, leaf, scan, last, guard, writer),
        }
    }
}

impl ModifyLeaf for Bytes {
    type Latch<'m> = Latch<'m>;

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
        let left = strings::create_with_room(memory, left)?;
        let right = strings::create_with_room(memory, right)
            .inspect_err(|_| Self::discard_leaf(memory, left))?;
        Ok([left, right])
    }

    fn divided(
        memory: &Memory,
        leaf: Ref,
        depth: usize,
        is_last: bool,
        (key, value): (&[u8], &[u8]),
        guard: &Guard,
    ) -> Option<Result<(u8, [Ref; 2]), Error>> {
        let block = Strings::latched(memory, leaf, guard);
        let place = match block.position(key) {
            Some(position) => (position, position + 1),
            None => {
                let rank = block.rank_behind(key, depth);
                (rank, rank)
            }
        };
        let ascends = is_last && place.0 == block.count();
        strings::create_divided(memory, block, place, (key, value), depth, |count| {
            // Keys in ascending order leave full blocks behind.
            if ascends { count - 1 } else { count / 2 }
        })
    }

    fn discard_leaf(memory: &Memory, leaf: Ref) {
        // SAFETY: no other thread can reach the leaf.
        unsafe { strings::free(memory, leaf) };
    }

    fn gather<'g>(
        memory: &'g Memory,
        leaf: Ref,
        guard: &'g Guard,
        entries: &mut Entries<'g, Self>,
    ) {
        let block = Strings::latched(memory, leaf, guard);
        entries.extend((0..block.count()).map(|position| block.entry(position)));
    }

    #[inline]
    fn latch(memory: &Memory, leaf: Ref, needed: bool) -> Latch<'_> {
        strings::latch(memory, leaf, needed)
    }

    #[inline]
    fn alter_in_leaf<'v>(
        memory: &Memory,
        leaf: Ref,
        key: &[u8],
        known: Known<Candidates>,
        guard: &Guard,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Altered {
        strings::alter(memory, leaf, key, known, guard, decide)
    }

    fn count(memory: &Memory, leaf: Ref, guard: &Guard) -> usize {
        Strings::latched(memory, leaf, guard).count()
    }

    #[inline]
    fn find<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<(usize, &'g [u8])> {
        let block = Strings::latched(memory, leaf, guard);
        let position = block.position(key)?;
        Some((position, block.entry(position).1))
    }

    fn set(
        memory: &Memory,
        leaf: Ref,
        position: usize,
        value: &[u8],
        guard: &Guard,
    ) -> Result<Room, Error> {
        if strings::set(memory, leaf, position, value, guard) {
            return Ok(Room::InPlace);
        }
        let block = Strings::latched(memory, leaf, guard);
        let key = block.key(position);
        edited(memory, block, position, position + 1, (key, value))
    }

    fn make_room(
        memory: &Memory,
        leaf: Ref,
        (key, value): (&[u8], &[u8]),
        depth: usize,
        guard: &Guard,
    ) -> Result<Room, Error> {
        let block = Strings::latched(memory, leaf, guard);
        if block.has_room_for_key(key, value) {
            return Ok(Room::InPlace);
        }
        let rank = block.rank_behind(key, depth);
        edited(memory, block, rank, rank, (key, value))
    }

    fn insert(memory: &Memory, leaf: Ref, entry: (&[u8], &[u8]), depth: usize, guard: &Guard) {
        strings::insert(memory, leaf, entry, depth, guard);
    }

    fn remove(memory: &Memory, leaf: Ref, position: usize, guard: &Guard) {
        strings::remove(memory, leaf, position, guard);
    }

    fn compacted(memory: &Memory, leaf: Ref, guard: &Guard) -> Option<Result<Ref, Error>> {
        let block = Strings::latched(memory, leaf, guard);
        block.is_sparse().then(|| {
            let mut entries = Entries::<Bytes>::new();
            Self::gather(memory, leaf, guard, &mut entries);
            strings::create(memory, &entries)
        })
    }

    fn is_small(memory: &Memory, leaf: Ref, guard: &Guard) -> bool {
        Strings::latched(memory, leaf, guard).is_small()
    }

    fn kill(memory: &Memory, leaf: Ref) {
        strings::mark_dead(memory, leaf);
    }
}

impl Reclaim for Bytes {
    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]) {
        // SAFETY: no other thread reaches the blocks through the tree, and threads that reach them
        // by a shortcut only read. This one reads them before it frees them.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let mut in_tables = Vec::new();
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
            let block = Strings::latched(memory, node, guard);
            // Including the removed keys: their shortcuts may have been inserted earlier.
            let hashes = || block.all_keys().map(Self::hash);
            if shortcuts.purge(node, hashes) {
                in_tables.push(node);
            } else {
                // SAFETY: as promised by the caller, and there is no table that could lead to the
                // leaf.
                unsafe { strings::free(memory, node) };
            }
        }
        if !in_tables.is_empty() {
            // SAFETY: no shortcut leads to them any more, and no thread adds one. After another
            // grace period no thread reads them.
            unsafe { free_later(memory, in_tables, strings::free) };
        }
    }

    unsafe fn free_outside(memory: &Memory, leaf: Ref) {
        // SAFETY: promised by the caller.
        unsafe { strings::free(memory, leaf) };
    }
}

/// Returns a copy of a block that is latched. Only under the lock of the node above.
pub fn copy_block(memory: &Memory, leaf: Ref, guard: &Guard) -> Result<Ref, Error> {
    strings::create_copy(memory, Strings::latched(memory, leaf, guard))
}

/// Returns the number of units of memory that a block takes; it may have been replaced.
pub fn units_of_block(memory: &Memory, leaf: Ref) -> usize {
    strings::granules(memory, leaf)
}

/// Returns a copy of a block with an entry in place of those at positions `at..behind`, if it fits.
fn edited(
    memory: &Memory,
    block: Strings<'_>,
    at: usize,
    behind: usize,
    entry: (&[u8], &[u8]),
) -> Result<Room, Error> {
    match strings::create_edited(memory, block, at, behind, entry) {
        Some(copy) => copy.map(Room::Copy),
        None if block.count() == behind - at => strings::create(memory, &[entry]).map(Room::Copy),
        None => Ok(Room::Full),
    }
}
