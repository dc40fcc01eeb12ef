//! How trees of 8-byte keys and payloads are read; [`blocks`](crate::blocks) changes them.

use super::block::{BLOCK_MAX, Block};
use super::{LeafForm, Lookup, Spot};
use crate::blocks;
use crate::bulk::{Packed, Subtree};
use crate::counters::Probe;
use crate::lock::Version;
use crate::memory::Memory;
use crate::node::{Dense, Inner, Kind, Ref, Sorted, Symbol, bitmap};
use crate::shortcut::Tables;
use crate::tree::{Attempt, Change, InNode, Place, Tree};
use crate::writer::Writer;
use crossbeam_epoch::Guard;
use nearfield_core::{Direction, Error, Words};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Borrows the block that a leaf of a tree of words is.
#[inline]
pub fn block(memory: &Memory, leaf: Ref) -> &Block {
    // SAFETY: the leaf region of a tree of words has units of a block's size, and references to
    // leaves are made by its allocator only. The region begins on a page, so that blocks are
    // aligned, and is mapped as long as `memory`. Blocks consist of atomics, for which any
    // content is valid, and are never accessed other than through shared references.
    unsafe { &*memory.leaf_address(leaf).cast() }
}

/// The byte of a word at a depth.
#[inline]
pub fn byte_at(key: u64, depth: usize) -> u8 {
    (key >> (56 - 8 * (depth & 7))) as u8
}

impl LeafForm for Words {
    const LEAF_UNIT_BYTES: usize = size_of::<Block>();
    const LEAF_UNITS_MAX: usize = 1;
    const LEAF_SECOND_LINE: usize = 64;
    const MIXES_KINDS: bool = false;

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

    #[inline]
    fn child(node: Inner<'_>, symbol: Symbol) -> Ref {
        node.covering(symbol as u8)
    }

    #[inline]
    fn child_of_small<N: Sorted>(node: &N, symbol: Symbol) -> Ref {
        node.covering(symbol as u8)
    }

    #[inline]
    fn range_start(node: Inner<'_>, symbol: Symbol) -> Symbol {
        Symbol::from(node.range_start(symbol as u8))
    }

    fn exchange(node: Inner<'_>, symbol: Symbol, child: Ref) {
        node.set_covering(symbol as u8, child);
    }

    #[inline]
    fn entries_expected(tag: usize) -> usize {
        // Leaf, node4, node16, node48, dense, node256, skipping node256, nothing.
        [4, 8, 24, 64, 64, 96, 96, 0][tag]
    }

    #[inline]
    fn last_byte(key: u64) -> usize {
        key as u8 as usize
    }

    #[inline]
    fn lookup<'g>(memory: &'g Memory, terminal: Ref, key: u64, _guard: &'g Guard) -> Lookup<u64> {
        let found = match terminal.is_leaf() {
            true => block(memory, terminal).find(key),
            false => find_dense(memory.dense(terminal), key),
        };
        match found.0 {
            Some(payload) => Lookup::Found(payload),
            None => Lookup::Absent,
        }
    }

    #[inline]
    fn lookup_again<'g>(
        memory: &'g Memory,
        terminal: Ref,
        key: u64,
        _guard: &'g Guard,
    ) -> Lookup<u64> {
        let (payload, version) = match terminal.is_leaf() {
            true => block(memory, terminal).find(key),
            false => find_dense(memory.dense(terminal), key),
        };
        match payload {
            _ if version.is_obsolete() => Lookup::Dead,
            Some(payload) => Lookup::Found(payload),
            None => Lookup::Absent,
        }
    }

    fn any_key<'g>(memory: &'g Memory, terminal: Ref, _guard: &'g Guard) -> Option<u64> {
        if terminal.kind() == Kind::Leaf {
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
            Kind::Leaf => shared >= depth,
            _ => shared >= 7,
        }
    }

    #[inline]
    fn entries<'g>(
        memory: &'g Memory,
        terminal: Ref,
        from: Bound<u64>,
        direction: Direction,
        _guard: &'g Guard,
        mut visit: impl FnMut(Self::Key<'g>, Self::Value<'g>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        if terminal.kind() == Kind::Dense {
            return Some(dense_entries(
                memory.dense(terminal),
                from,
                direction,
                visit,
            ));
        }
        let entries = block(memory, terminal).load();
        let entries = entries.as_slice();
        let mut visit = |&(key, payload): &(u64, u64)| visit(key, payload);
        Some(match direction {
            Direction::Ascending => entries.iter().try_for_each(&mut visit),
            Direction::Descending => entries.iter().rev().try_for_each(&mut visit),
        })
    }

    fn visit_at<'v>(
        tree: &Tree<Self>,
        place: &Place,
        key: u64,
        guard: &Writer<'_, Self>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<u64>) -> Change<Self::Value<'v>>,
    ) -> Result<Attempt, Error> {
        tree.visit_word_at(place, key, guard, probe, decide)
    }

    #[inline]
    fn visit_in_node<'v>(
        tree: &Tree<Self>,
        spot: Spot<'_>,
        key: u64,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<u64>) -> Change<Self::Value<'v>>,
    ) -> InNode {
        tree.visit_word_in_node(spot, key, guard, decide)
    }

    fn visit_in_dense<'v>(
        tree: &Tree<Self>,
        node: Ref,
        key: u64,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<u64>) -> Change<Self::Value<'v>>,
    ) -> InNode {
        tree.visit_word_in_dense(node, key, guard, decide)
    }

    fn is_underfull(memory: &Memory, node: Ref) -> bool {
        blocks::is_underfull(memory, node)
    }

    fn smaller(tree: &Tree<Self>, node: Ref) -> Result<Ref, Error> {
        blocks::smaller(&tree.memory, node)
    }

    fn begin(
        _memory: &Memory,
        key: u64,
        value: u64,
        pending: &mut Vec<(u64, u64)>,
    ) -> Result<Subtree, Error> {
        pending.push((key, value));
        Ok(Subtree::Few(1))
    }

    fn pack(
        memory: &Memory,
        depth: usize,
        children: &[(Symbol, Subtree)],
        pending: &mut Vec<(u64, u64)>,
    ) -> Result<Packed, Error> {
        let few = |child: &(Symbol, Subtree)| match child.1 {
            Subtree::Built(_) => None,
            Subtree::Few(count) => Some(count),
        };
        let count: usize = children.iter().filter_map(few).sum();
        let all_few = children.iter().all(|child| few(child).is_some());
        let start = pending.len() - count;
        if depth > 0 && all_few && count <= BLOCK_MAX {
            return Ok(Packed::InPlace(Subtree::Few(count)));
        }
        let packed = if depth == 7 && count >= blocks::DENSE_AT {
            Packed::InPlace(Subtree::Built(blocks::build_dense(
                memory,
                &pending[start..],
            )?))
        } else {
            let mut rest = &pending[start..];
            let groups = children.iter().map(|&(symbol, subtree)| {
                let group = match subtree {
                    Subtree::Built(node) => blocks::Group::Node(node),
                    Subtree::Few(count) => {
                        let (entries, behind) = rest.split_at(count);
                        rest = behind;
                        blocks::Group::Entries(entries)
                    }
                };
                (symbol as u8, group)
            });
            let pieces = blocks::pack(memory, depth, groups, BLOCK_MAX)?;
            let pieces = pieces
                .iter()
                .map(|&(byte, child)| (Symbol::from(byte), child));
            Packed::Node(blocks::kind_for(pieces.len()), pieces.collect())
        };
        pending.truncate(start);
        Ok(packed)
    }

    fn fill(node: Inner<'_>, children: &[(Symbol, Ref)]) {
        let pieces: Vec<_> = children
            .iter()
            .map(|&(symbol, child)| (symbol as u8, child))
            .collect();
        node.splice(0, 255, &pieces);
    }

    unsafe fn free_unlinked(memory: &Arc<Memory>, _shortcuts: &Tables, unlinked: &[Ref]) {
        // A stale shortcut may lead to a block for ever. Its memory never becomes anything but
        // blocks, which are live with a key only if they are the key's.
        memory.free_all(unlinked);
    }

    unsafe fn free_outside(_memory: &Memory, _leaf: Ref) {}
}

/// The payload of a key in a dense node, and the version at which it was read.
#[inline]
fn find_dense(dense: &Dense, key: u64) -> (Option<u64>, Version) {
    let lock = &dense.header().lock;
    loop {
        let version = lock.read();
        let payload = (dense.base() == key >> 8)
            .then(|| dense.find(key as u8))
            .flatten();
        if lock.validate(version) {
            return (payload, version);
        }
    }
}

/// Calls `visit` for the entries of a dense node at one instant, those before a bound left out.
fn dense_entries(
    dense: &Dense,
    from: Bound<u64>,
    direction: Direction,
    mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let lock = &dense.header().lock;
    let mut payloads = [0; 256];
    let (base, bits) = loop {
        let version = lock.read();
        let base = dense.base();
        let mut bits = dense.bitmap().load();
        if let Bound::Included(key) | Bound::Excluded(key) = from
            && key >> 8 == base
        {
            bitmap::keep(&mut bits, key as u8, direction);
        }
        bitmap::for_each_from(bits, 0, |byte| {
            payloads[byte as usize] = dense.payload(byte);
            true
        });
        if lock.validate(version) {
            break (base, bits);
        }
    };
    bitmap::Bits::new(bits, direction)
        .try_for_each(|byte| visit(base << 8 | u64::from(byte), payloads[byte as usize]))
}
