//! The entries of trees of 8-byte keys and payloads: in [blocks](super::block), and in [dense
//! nodes](super::dense).

use super::block::{BLOCK_MAX, WordBlock, WordBlockLatch};
use super::read::write_each;
use super::{
    Entries, LeafEntryRoom, LeafWalkContext, ModifyLeaf, RadixLeafLookup, RadixScanRange, ReadLeaf,
    Reclaim, Symbols, dense,
};
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::lock::Version;
use crate::memory::RadixMemory;
use crate::node::{NodeRefKind, RadixInnerNode, RadixSortedNode, Ref, Symbol, bitmap};
use crate::shortcut::ShortcutTables;
use crossbeam_epoch::Guard;
use nearfield_core::{BatchOutput, EntriesWriter, OperationError, ScanDirection, Words};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Borrows the block of a leaf of a tree of words.
#[inline]
pub(super) fn block(memory: &RadixMemory, leaf: Ref) -> &WordBlock {
    // SAFETY: the leaf region of a tree of words has units of a block's size, and only its
    // allocator makes references to leaves. The region begins on a page, so that blocks are
    // aligned, and is mapped as long as `memory`. Blocks consist of atomics, for which any content
    // is valid, and are never accessed other than through shared references.
    unsafe { &*memory.leaf_address(leaf).cast() }
}

/// Returns a block whose latch the caller of a method holds.
#[inline]
fn latched(memory: &RadixMemory, leaf: Ref) -> WordBlockLatch<'_> {
    block(memory, leaf).latch(false)
}

/// Returns the byte of a word at a depth.
#[inline]
fn byte_at(key: u64, depth: usize) -> u8 {
    (key >> (56 - 8 * (depth & 7))) as u8
}

impl Symbols for Words {
    #[inline]
    fn symbol(key: u64, depth: usize) -> Option<Symbol> {
        Some(Symbol::from(byte_at(key, depth)))
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

    fn show(key: u64) -> String {
        key.to_string()
    }
}

/// Finds a key in a terminal; also returns the version at which it was found.
#[inline(always)]
fn find(memory: &RadixMemory, terminal: Ref, key: u64) -> (Option<u64>, Version) {
    match terminal.is_leaf() {
        true => block(memory, terminal).find(key),
        false => dense::find(memory.dense(terminal), key),
    }
}

impl ReadLeaf for Words {
    const LEAF_SECOND_LINE: usize = 64;
    const LEAF_LINES: usize = 2;
    type Prepared = ();
    type Found<'g> = u64;
    const MIXES_KINDS: bool = false;

    #[inline]
    fn found(found: &u64) -> u64 {
        *found
    }

    #[inline]
    fn child(node: RadixInnerNode<'_>, symbol: Symbol) -> Ref {
        node.covering(symbol as u8)
    }

    #[inline]
    fn child_of_small<N: RadixSortedNode>(node: &N, symbol: Symbol) -> Ref {
        node.covering(symbol as u8)
    }

    #[inline]
    fn entries_expected(tag: usize) -> usize {
        // Leaf, node4, node16, node48, dense, node256, skipping node256, nothing.
        [4, 8, 24, 64, 64, 96, 96, 0][tag]
    }

    // As a call, it takes a tenth of a get's time in the cache.
    #[inline(always)]
    fn lookup<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        key: u64,
        (): (),
        _guard: &'g Guard,
    ) -> Option<u64> {
        find(memory, terminal, key).0
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        key: u64,
        (): (),
        _guard: &'g Guard,
    ) -> RadixLeafLookup<u64> {
        let (payload, version) = find(memory, terminal, key);
        match payload {
            _ if version.is_obsolete() => RadixLeafLookup::Dead,
            Some(payload) => RadixLeafLookup::Found(payload),
            None => RadixLeafLookup::Absent,
        }
    }

    #[inline(always)]
    fn answer(
        memory: &RadixMemory,
        terminal: Ref,
        key: u64,
        (): (),
        _guard: &Guard,
        (position, output): (usize, &mut BatchOutput<'_, Words>),
    ) -> RadixLeafLookup<()> {
        let (payload, version) = find(memory, terminal, key);
        output.value(position, key, payload);
        match payload {
            _ if version.is_obsolete() => RadixLeafLookup::Dead,
            Some(_) => RadixLeafLookup::Found(()),
            None => RadixLeafLookup::Absent,
        }
    }

    #[inline]
    fn prepare(_memory: &RadixMemory, _terminal: Ref, _key: u64, _writes: bool, _guard: &Guard) {}

    fn any_key<'g>(memory: &'g RadixMemory, terminal: Ref, _guard: &'g Guard) -> Option<u64> {
        if terminal.kind() == NodeRefKind::Leaf {
            return block(memory, terminal).any_key();
        }
        let dense = memory.dense(terminal);
        let mut some = None;
        bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
            some = Some(dense.base() << 8 | u64::from(byte));
            false
        });
        some
    }

    #[inline]
    fn covers(terminal: Ref, depth: usize, shared: usize) -> bool {
        match terminal.kind() {
            NodeRefKind::Leaf => shared >= depth,
            _ => shared >= 7,
        }
    }

    #[inline]
    fn entries<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        from: Bound<u64>,
        direction: ScanDirection,
        _guard: &'g Guard,
        mut visit: impl FnMut(Self::Key<'g>, Self::Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if terminal.kind() == NodeRefKind::Dense {
            return dense::entries(memory.dense(terminal), from, direction, visit);
        }
        let entries = block(memory, terminal).load();
        let entries = entries.as_slice();
        let mut visit = |&(key, payload): &(u64, u64)| visit(key, payload);
        match direction {
            ScanDirection::Ascending => entries.iter().try_for_each(&mut visit),
            ScanDirection::Descending => entries.iter().rev().try_for_each(&mut visit),
        }
    }

    /// Copies the entries of an ascending scan that are in a block at once.
    #[inline]
    fn write_entries<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        scan: &RadixScanRange<u64>,
        last: &mut Option<u64>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        if !terminal.is_leaf() || scan.direction == ScanDirection::Descending {
            return write_each(memory, terminal, scan, last, guard, writer);
        }
        let entries = block(memory, terminal).load();
        let mut entries = entries.as_slice();
        // Only the first leaf of a scan has entries before the bound.
        if last.is_none() {
            let before = entries.iter().take_while(|entry| !scan.is_past(entry.0));
            entries = &entries[before.count()..];
        }
        let all = entries.len();
        if scan.to != Bound::Unbounded {
            let within = entries.iter().take_while(|entry| !scan.is_behind(entry.0));
            entries = &entries[..within.count()];
        }
        // An entry past the far bound ends the scan, even if the limit is not reached.
        let ended = entries.len() < all;
        entries = &entries[..entries.len().min(scan.limit - writer.count())];
        if let Some(entry) = entries.last() {
            *last = Some(entry.0);
        }
        writer.push_all(entries)?;
        match ended || writer.count() >= scan.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl ModifyLeaf for Words {
    type Latch<'m> = WordBlockLatch<'m>;

    const LEAF_UNIT_BYTES: usize = size_of::<WordBlock>();
    const LEAF_UNITS_MAX: usize = 1;
    const LEAF_ENTRIES_MAX: usize = BLOCK_MAX;
    const JOINED_MAX: usize = 5;
    // A node48 would save three quarters of a node256, but each lookup would read a line more. With
    // 17 ranges of about five keys, a node256 takes 13 bytes a key, and less with more ranges.
    const HAS_NODE48: bool = false;

    #[inline]
    fn fits(entries: &[(u64, u64)]) -> bool {
        entries.len() <= BLOCK_MAX
    }

    fn joins(entries: &[(u64, u64)]) -> bool {
        entries.len() <= Self::JOINED_MAX
    }

    fn create(memory: &RadixMemory, entries: &[(u64, u64)]) -> Result<Ref, OperationError> {
        let leaf = memory.allocate_leaf(1)?;
        block(memory, leaf).fill(entries);
        Ok(leaf)
    }

    fn create_two(
        memory: &RadixMemory,
        left: &[(u64, u64)],
        right: &[(u64, u64)],
    ) -> Result<[Ref; 2], OperationError> {
        let leaves = memory.allocate_leaves()?;
        block(memory, leaves[0]).fill(left);
        block(memory, leaves[1]).fill(right);
        Ok(leaves)
    }

    fn discard_leaf(memory: &RadixMemory, leaf: Ref) {
        latched(memory, leaf).retire();
        memory.free_leaf(leaf, 1);
    }

    fn gather<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        _guard: &'g Guard,
        entries: &mut Entries<'g, Self>,
    ) {
        entries.extend(block(memory, leaf).load().as_slice().iter().copied());
    }

    #[inline]
    fn latch(memory: &RadixMemory, leaf: Ref, needed: bool) -> WordBlockLatch<'_> {
        block(memory, leaf).latch(needed)
    }

    #[inline]
    fn alter_in_leaf<'v>(
        memory: &RadixMemory,
        leaf: Ref,
        key: u64,
        known: LeafWalkContext<()>,
        _guard: &Guard,
        decide: &mut impl FnMut(Option<u64>) -> RadixKeyChange<Self::Value<'v>>,
    ) -> LeafChangeResult {
        block(memory, leaf).alter(key, !known.skipped, decide)
    }

    #[inline]
    fn count(memory: &RadixMemory, leaf: Ref, _guard: &Guard) -> usize {
        block(memory, leaf).count()
    }

    #[inline]
    fn find<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        key: u64,
        _guard: &'g Guard,
    ) -> Option<(usize, u64)> {
        let leaf = block(memory, leaf);
        let position = leaf.position(key)?;
        Some((position, leaf.payload(position)))
    }

    #[inline]
    fn set(
        memory: &RadixMemory,
        leaf: Ref,
        position: usize,
        payload: u64,
        _guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError> {
        latched(memory, leaf).set_payload(position, payload);
        Ok(LeafEntryRoom::InPlace)
    }

    #[inline]
    fn make_room(
        memory: &RadixMemory,
        leaf: Ref,
        _entry: (u64, u64),
        _depth: usize,
        _guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError> {
        Ok(match block(memory, leaf).is_full() {
            true => LeafEntryRoom::Full,
            false => LeafEntryRoom::InPlace,
        })
    }

    #[inline]
    fn insert(
        memory: &RadixMemory,
        leaf: Ref,
        (key, payload): (u64, u64),
        _depth: usize,
        _guard: &Guard,
    ) {
        latched(memory, leaf).insert(key, payload);
    }

    fn remove(memory: &RadixMemory, leaf: Ref, position: usize, _guard: &Guard) {
        latched(memory, leaf).remove(position);
    }

    fn compacted(
        _memory: &RadixMemory,
        _leaf: Ref,
        _guard: &Guard,
    ) -> Option<Result<Ref, OperationError>> {
        None
    }

    fn kill(memory: &RadixMemory, leaf: Ref) {
        latched(memory, leaf).retire();
    }
}

impl Reclaim for Words {
    unsafe fn free_unlinked(
        memory: &Arc<RadixMemory>,
        _shortcuts: &ShortcutTables,
        unlinked: &[Ref],
    ) {
        // A stale shortcut may lead to a block forever. Its memory is only ever reused for blocks,
        // and a live block with a key is always that key's block.
        memory.free_all(unlinked);
    }

    unsafe fn free_outside(_memory: &RadixMemory, _leaf: Ref) {}
}
