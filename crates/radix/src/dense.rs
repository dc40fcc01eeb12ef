//! Dense nodes of trees of words: up to 256 payloads under one 7-byte prefix.

use crate::build::build;
use crate::change::Change;
use crate::leaf::block::BLOCK_MAX;
use crate::leaf::{Entries, LeafForm};
use crate::lock::Version;
use crate::memory::Memory;
use crate::node::{Dense, Inner, Ref, bitmap};
use crate::tree::{InNode, Place, Tree};
use crate::writer::Writer;
use nearfield_core::{Direction, Error, Words};
use std::ops::{Bound, ControlFlow};

/// Entries at the last byte of sorted input that make a dense node: 16 blocks and a node16 take
/// more memory.
const DENSE_AT: usize = 15 * BLOCK_MAX + 1;
/// A dense node with no more entries becomes blocks again.
const DENSE_MIN: usize = 37;

/// See [`LeafForm::visit_in_dense`].
pub fn visit(
    memory: &Memory,
    node: Ref,
    key: u64,
    guard: &Writer<'_, Words>,
    decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
) -> InNode {
    let dense = memory.dense(node);
    if dense.base() != key >> 8 {
        return InNode::Postponed;
    }
    let byte = key as u8;
    let current = dense.find(byte);
    match decide(current) {
        Change::Set(payload) => {
            dense.set_payload(byte, payload);
            if current.is_some() {
                return InNode::Unchanged;
            }
            dense.set_used(byte, true);
            guard.count_entries(1);
            InNode::Changed
        }
        Change::Remove if current.is_some() => {
            dense.set_used(byte, false);
            guard.count_entries(-1);
            InNode::Shrunk
        }
        _ => InNode::Unchanged,
    }
}

/// See [`LeafForm::grow_dense`].
pub fn grow(
    tree: &Tree<Words>,
    place: &Place,
    node: Inner<'_>,
    key: u64,
    guard: &Writer<'_, Words>,
    decide: &mut impl FnMut(Option<u64>) -> Change<u64>,
) -> Result<Option<Ref>, Error> {
    if place.depth < 7 || !matches!(node, Inner::Node16(_)) {
        return Ok(None);
    }
    let mut entries = Vec::with_capacity(16 * BLOCK_MAX);
    let mut leaves = Vec::with_capacity(16);
    node.for_each(|_, leaf| {
        let latch = Words::latch(&tree.memory, leaf, guard.latching().needed);
        let mut own = Entries::<Words>::new();
        Words::gather(&tree.memory, leaf, guard, &mut own);
        entries.extend(own);
        leaves.push((leaf, latch));
    });
    let dense = create(&tree.memory, &entries)?;
    visit(&tree.memory, dense, key, guard, decide);
    for (leaf, latch) in leaves {
        latch.retire();
        guard.retire(leaf);
    }
    Ok(Some(dense))
}

/// See [`LeafForm::build_dense`].
pub fn build_dense(
    memory: &Memory,
    depth: usize,
    entries: &[(u64, u64)],
) -> Result<Option<Ref>, Error> {
    match depth == 7 && entries.len() >= DENSE_AT {
        true => create(memory, entries).map(Some),
        false => Ok(None),
    }
}

/// Builds a dense node of entries that agree in all bytes but the last.
fn create(memory: &Memory, entries: &[(u64, u64)]) -> Result<Ref, Error> {
    let node = memory.allocate_dense(entries[0].0 >> 8)?;
    let dense = memory.dense(node);
    for &(key, payload) in entries {
        dense.set_payload(key as u8, payload);
        dense.set_used(key as u8, true);
    }
    dense.header().publish();
    Ok(node)
}

/// See [`LeafForm::is_dense_underfull`].
pub fn is_underfull(memory: &Memory, node: Ref) -> bool {
    memory.dense(node).header().count() <= DENSE_MIN
}

/// See [`LeafForm::smaller_than_dense`].
pub fn smaller(memory: &Memory, node: Ref) -> Result<Ref, Error> {
    let mut entries = Vec::with_capacity(DENSE_MIN);
    let dense = memory.dense(node);
    bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
        entries.push((dense.base() << 8 | u64::from(byte), dense.payload(byte)));
        true
    });
    match entries.is_empty() {
        true => Ok(Ref::NULL),
        false => build::<Words>(memory, &entries, BLOCK_MAX - 2),
    }
}

/// The payload of a key in a dense node, and the version at which it was read.
#[inline]
pub fn find(dense: &Dense, key: u64) -> (Option<u64>, Version) {
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
pub fn entries(
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
