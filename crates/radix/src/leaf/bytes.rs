//! The entries of trees of byte strings: in blocks of [strings](super::strings).

use super::read::write_each;
use super::reclaim::free_later;
use super::strings::{
    self, FingerprintCandidates, STRINGS_MAX, StringBlock, StringBlockLatch, StringBlockValue,
};
use super::{
    Entries, LeafEntryRoom, LeafWalkContext, ModifyLeaf, RadixLeafLookup, RadixScanRange, ReadLeaf,
    Reclaim, Symbols,
};
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::memory::RadixMemory;
use crate::node::{END, RadixInnerNode, RadixSortedNode, Ref, Symbol};
use crate::shortcut::ShortcutTables;
use crossbeam_epoch::Guard;
use nearfield_core::{BatchOutput, ByteStrings, EntriesWriter, OperationError, ScanDirection};
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The maximum number of entries that two neighbouring blocks have together to become one.
const JOINED_MAX: usize = 20;

/// Number of blocks by which a block is prefetched before it is freed.
const FREED_AHEAD: usize = 8;

impl Symbols for ByteStrings {
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
        OperationError::shorten(key)
    }
}

impl ReadLeaf for ByteStrings {
    const LEAF_SECOND_LINE: usize = 64;
    const LEAF_LINES: usize = 10;
    type Prepared = FingerprintCandidates;
    type Found<'g> = StringBlockValue<'g>;
    const MIXES_KINDS: bool = true;

    #[inline]
    fn found<'f>(found: &'f StringBlockValue<'_>) -> &'f [u8] {
        found.value()
    }

    #[inline]
    fn child(node: RadixInnerNode<'_>, symbol: Symbol) -> Ref {
        match symbol {
            END => node.header().end(),
            byte => node.covering(byte as u8),
        }
    }

    #[inline]
    fn child_of_small<N: RadixSortedNode>(node: &N, symbol: Symbol) -> Ref {
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
        memory: &'g RadixMemory,
        leaf: Ref,
        key: &[u8],
        prepared: FingerprintCandidates,
        guard: &'g Guard,
    ) -> Option<StringBlockValue<'g>> {
        strings::read(memory, leaf, key, prepared, guard).0
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        key: &[u8],
        prepared: FingerprintCandidates,
        guard: &'g Guard,
    ) -> RadixLeafLookup<StringBlockValue<'g>> {
        match strings::read(memory, leaf, key, prepared, guard) {
            (_, true) => RadixLeafLookup::Dead,
            (Some(value), _) => RadixLeafLookup::Found(value),
            (None, _) => RadixLeafLookup::Absent,
        }
    }

    #[inline]
    fn answer(
        memory: &RadixMemory,
        leaf: Ref,
        key: &[u8],
        prepared: FingerprintCandidates,
        guard: &Guard,
        (position, output): (usize, &mut BatchOutput<'_, ByteStrings>),
    ) -> RadixLeafLookup<()> {
        let mut is_dead = false;
        let is_found = output.copied(position, |bytes| {
            let is_found;
            (is_found, is_dead) = strings::copy_to(memory, leaf, key, prepared, guard, bytes);
            is_found
        });
        match is_found {
            _ if is_dead => RadixLeafLookup::Dead,
            true => RadixLeafLookup::Found(()),
            false => RadixLeafLookup::Absent,
        }
    }

    #[inline]
    fn prepare(
        memory: &RadixMemory,
        leaf: Ref,
        key: &[u8],
        writes: bool,
        guard: &Guard,
    ) -> FingerprintCandidates {
        if !leaf.is_leaf() {
            return FingerprintCandidates::default();
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
    fn any_key<'g>(memory: &'g RadixMemory, leaf: Ref, guard: &'g Guard) -> Option<&'g [u8]> {
        strings::any_key(memory, leaf, guard)
    }

    #[inline]
    fn covers(_leaf: Ref, depth: usize, shared: usize) -> bool {
        shared >= depth
    }

    #[inline]
    fn entries<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        _from: Bound<&[u8]>,
        direction: ScanDirection,
        guard: &'g Guard,
        visit: impl FnMut(&'g [u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        strings::entries(memory, leaf, direction, guard, visit)
    }

    /// Copies the entries of an ascending scan in the block's packed form.
    #[inline]
    fn write_entries<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        scan: &RadixScanRange<&'g [u8]>,
        last: &mut Option<&'g [u8]>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        match scan.direction {
            ScanDirection::Ascending => {
                strings::write_entries(memory, leaf, scan, last, guard, writer)
            }
            ScanDirection::Descending => write_each(memory, leaf, scan, last, guard, writer),
        }
    }
}

impl ModifyLeaf for ByteStrings {
    type Latch<'m> = StringBlockLatch<'m>;

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

    fn create(memory: &RadixMemory, entries: &[(&[u8], &[u8])]) -> Result<Ref, OperationError> {
        strings::create(memory, entries)
    }

    fn create_two(
        memory: &RadixMemory,
        left: &[(&[u8], &[u8])],
        right: &[(&[u8], &[u8])],
    ) -> Result<[Ref; 2], OperationError> {
        let left = strings::create_with_room(memory, left)?;
        let right = strings::create_with_room(memory, right)
            .inspect_err(|_| Self::discard_leaf(memory, left))?;
        Ok([left, right])
    }

    fn divided(
        memory: &RadixMemory,
        leaf: Ref,
        depth: usize,
        is_last: bool,
        (key, value): (&[u8], &[u8]),
        guard: &Guard,
    ) -> Option<Result<(u8, [Ref; 2]), OperationError>> {
        let block = StringBlock::latched(memory, leaf, guard);
        let place = match block.position(key) {
            Some(position) => (position, position + 1),
            None => {
                let rank = block.rank_behind(key, depth);
                (rank, rank)
            }
        };
        // The largest key of the last leaf is probably followed by larger ones.
        let ascends = is_last && place.0 == block.count();
        strings::create_divided(memory, block, place, (key, value), depth, |count| {
            // Keys in ascending order leave full blocks behind.
            if ascends { count - 1 } else { count / 2 }
        })
    }

    fn discard_leaf(memory: &RadixMemory, leaf: Ref) {
        // SAFETY: no other thread can reach the leaf.
        unsafe { strings::free(memory, leaf) };
    }

    fn gather<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        guard: &'g Guard,
        entries: &mut Entries<'g, Self>,
    ) {
        let block = StringBlock::latched(memory, leaf, guard);
        entries.extend((0..block.count()).map(|position| block.entry(position)));
    }

    #[inline]
    fn latch(memory: &RadixMemory, leaf: Ref, needed: bool) -> StringBlockLatch<'_> {
        strings::latch(memory, leaf, needed)
    }

    #[inline]
    fn alter_in_leaf<'v>(
        memory: &RadixMemory,
        leaf: Ref,
        key: &[u8],
        known: LeafWalkContext<FingerprintCandidates>,
        guard: &Guard,
        decide: &mut impl FnMut(Option<&[u8]>) -> RadixKeyChange<&'v [u8]>,
    ) -> LeafChangeResult {
        strings::alter(memory, leaf, key, known, guard, decide)
    }

    fn count(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> usize {
        StringBlock::latched(memory, leaf, guard).count()
    }

    #[inline]
    fn find<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<(usize, &'g [u8])> {
        let block = StringBlock::latched(memory, leaf, guard);
        let position = block.position(key)?;
        Some((position, block.entry(position).1))
    }

    fn set(
        memory: &RadixMemory,
        leaf: Ref,
        position: usize,
        value: &[u8],
        guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError> {
        if strings::set(memory, leaf, position, value, guard) {
            return Ok(LeafEntryRoom::InPlace);
        }
        let block = StringBlock::latched(memory, leaf, guard);
        let key = block.key(position);
        edited(memory, block, position, position + 1, (key, value))
    }

    fn make_room(
        memory: &RadixMemory,
        leaf: Ref,
        (key, value): (&[u8], &[u8]),
        depth: usize,
        guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError> {
        let block = StringBlock::latched(memory, leaf, guard);
        if block.has_room_for_key(key, value) {
            return Ok(LeafEntryRoom::InPlace);
        }
        let rank = block.rank_behind(key, depth);
        edited(memory, block, rank, rank, (key, value))
    }

    fn insert(memory: &RadixMemory, leaf: Ref, entry: (&[u8], &[u8]), depth: usize, guard: &Guard) {
        strings::insert(memory, leaf, entry, depth, guard);
    }

    fn remove(memory: &RadixMemory, leaf: Ref, position: usize, guard: &Guard) {
        strings::remove(memory, leaf, position, guard);
    }

    fn compacted(
        memory: &RadixMemory,
        leaf: Ref,
        guard: &Guard,
    ) -> Option<Result<Ref, OperationError>> {
        let block = StringBlock::latched(memory, leaf, guard);
        block.is_sparse().then(|| {
            let mut entries = Entries::<ByteStrings>::new();
            Self::gather(memory, leaf, guard, &mut entries);
            strings::create(memory, &entries)
        })
    }

    fn is_small(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> bool {
        StringBlock::latched(memory, leaf, guard).is_small()
    }

    fn kill(memory: &RadixMemory, leaf: Ref) {
        strings::mark_dead(memory, leaf);
    }
}

impl Reclaim for ByteStrings {
    unsafe fn free_unlinked(
        memory: &Arc<RadixMemory>,
        shortcuts: &ShortcutTables,
        unlinked: &[Ref],
    ) {
        // SAFETY: no other thread reaches the blocks through the tree, and threads that reach them
        // by a shortcut only read. This one reads them before it frees them.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let mut in_tables = Vec::new();
        for (i, &node) in unlinked.iter().enumerate() {
            if let Some(&coming) = unlinked.get(i + FREED_AHEAD)
                && coming.is_leaf()
            {
                crate::prefetch::prefetch(memory.leaf_address(coming).cast_const());
                // Freed blocks are out of the cache by now: their epoch has passed.
                memory.prefetch_to_free(coming);
            }
            if !node.is_leaf() {
                memory.free_node(node);
                continue;
            }
            let block = StringBlock::latched(memory, node, guard);
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

    unsafe fn free_outside(memory: &RadixMemory, leaf: Ref) {
        // SAFETY: promised by the caller.
        unsafe { strings::free(memory, leaf) };
    }
}

/// Returns a copy of a block that is latched. Only under the lock of the node above.
pub fn copy_block(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> Result<Ref, OperationError> {
    strings::create_copy(memory, StringBlock::latched(memory, leaf, guard))
}

/// Returns the number of units of memory that a block takes; it may have been replaced.
pub fn units_of_block(memory: &RadixMemory, leaf: Ref) -> usize {
    strings::granules(memory, leaf)
}

/// Returns a copy of a block with an entry in place of those at positions `at..behind`, if it fits.
fn edited(
    memory: &RadixMemory,
    block: StringBlock<'_>,
    at: usize,
    behind: usize,
    entry: (&[u8], &[u8]),
) -> Result<LeafEntryRoom, OperationError> {
    match strings::create_edited(memory, block, at, behind, entry) {
        Some(copy) => copy.map(LeafEntryRoom::Copy),
        // The entry that is replaced was the only one, so even a long one gets a leaf of its own.
        None if block.count() == behind - at => {
            strings::create(memory, &[entry]).map(LeafEntryRoom::Copy)
        }
        None => Ok(LeafEntryRoom::Full),
    }
}
