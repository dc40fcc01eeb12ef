//! Dense nodes of trees of words: up to 256 payloads under one 7-byte prefix.

use super::block::BLOCK_MAX;
use super::modify::InNode;
use crate::change::RadixKeyChange;
use crate::lock::Version;
use crate::memory::RadixMemory;
use crate::node::{Dense, RadixInnerNode, Ref, bitmap};
use nearfield_core::{ByteStrings, EntryForm, OperationError, ScanDirection, Words};
use std::ops::{Bound, ControlFlow};

/// The minimum number of entries at the last byte of sorted input that make a dense node: 16 blocks
/// and a node16 take more memory.
const DENSE_AT: usize = 15 * BLOCK_MAX + 1;
/// The number of entries below which a dense node becomes blocks again.
const DENSE_MIN: usize = 37;

/// Operations on dense nodes, for forms that have them.
pub trait DenseNodes: EntryForm {
    /// Returns the byte that a dense node decides on.
    fn last_byte(key: Self::Key<'_>) -> usize;
    /// Returns true if a dense node is the place of a key.
    fn is_in_dense(memory: &RadixMemory, node: Ref, key: Self::Key<'_>) -> bool;
    /// Makes a change under the lock of a dense node. The caller counts entries: one more for
    /// `Changed`, one less for `Shrunk`.
    fn modify_in_dense<'v>(
        memory: &RadixMemory,
        node: Ref,
        key: Self::Key<'_>,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> RadixKeyChange<Self::Value<'v>>,
    ) -> InNode;
    /// Returns true if a dense node must replace a node without room.
    fn becomes_dense(node: RadixInnerNode<'_>) -> bool;
    /// Creates a dense node of entries in ascending order that belong in one.
    fn create_dense(
        memory: &RadixMemory,
        entries: &[(Self::Key<'_>, Self::Value<'_>)],
    ) -> Result<Ref, OperationError>;
    /// Returns true if a number of entries that first differ in the byte at a depth should be kept
    /// in a dense node.
    fn fills_dense(depth: usize, entries: usize) -> bool;
    /// Returns a dense node of sorted entries that agree in all bytes before a depth, if they
    /// should be kept in one.
    fn build_dense(
        memory: &RadixMemory,
        depth: usize,
        entries: &[(Self::OwnedKey, Self::OwnedValue)],
    ) -> Result<Option<Ref>, OperationError>;
    /// Returns true if a dense node has too few entries to stay.
    fn is_dense_underfull(memory: &RadixMemory, node: Ref) -> bool;
    /// Returns the entries of a dense node, in ascending order. Only under its lock.
    fn dense_entries(memory: &RadixMemory, node: Ref) -> Vec<(Self::Key<'_>, Self::Value<'_>)>;
}

impl DenseNodes for Words {
    #[inline]
    fn last_byte(key: u64) -> usize {
        key as u8 as usize
    }

    #[inline]
    fn is_in_dense(memory: &RadixMemory, node: Ref, key: u64) -> bool {
        memory.dense(node).base() == key >> 8
    }

    fn modify_in_dense<'v>(
        memory: &RadixMemory,
        node: Ref,
        key: u64,
        decide: &mut impl FnMut(Option<u64>) -> RadixKeyChange<Self::Value<'v>>,
    ) -> InNode {
        let dense = memory.dense(node);
        // Paths skip bytes, so a walk may bring any key here.
        if dense.base() != key >> 8 {
            return InNode::Postponed;
        }
        let byte = key as u8;
        let current = dense.find(byte);
        match decide(current) {
            RadixKeyChange::Set(payload) => {
                // The payload is there before the place is in use.
                dense.set_payload(byte, payload);
                if current.is_some() {
                    return InNode::Unchanged;
                }
                dense.set_used(byte, true);
                InNode::Changed
            }
            RadixKeyChange::Remove if current.is_some() => {
                dense.set_used(byte, false);
                InNode::Shrunk
            }
            _ => InNode::Unchanged,
        }
    }

    fn becomes_dense(node: RadixInnerNode<'_>) -> bool {
        node.header().depth() == 7 && matches!(node, RadixInnerNode::Node16(_))
    }

    fn create_dense(memory: &RadixMemory, entries: &[(u64, u64)]) -> Result<Ref, OperationError> {
        let base = entries[0].0 >> 8;
        debug_assert!(
            entries.iter().all(|entry| entry.0 >> 8 == base),
            "another node's key"
        );
        let node = memory.allocate_dense(base)?;
        let dense = memory.dense(node);
        for &(key, payload) in entries {
            dense.set_payload(key as u8, payload);
            dense.set_used(key as u8, true);
        }
        dense.header().publish();
        Ok(node)
    }

    #[inline]
    fn fills_dense(depth: usize, entries: usize) -> bool {
        depth == 7 && entries >= DENSE_AT
    }

    fn build_dense(
        memory: &RadixMemory,
        depth: usize,
        entries: &[(u64, u64)],
    ) -> Result<Option<Ref>, OperationError> {
        match Self::fills_dense(depth, entries.len()) {
            true => Self::create_dense(memory, entries).map(Some),
            false => Ok(None),
        }
    }

    fn is_dense_underfull(memory: &RadixMemory, node: Ref) -> bool {
        memory.dense(node).header().count() <= DENSE_MIN
    }

    fn dense_entries(memory: &RadixMemory, node: Ref) -> Vec<(u64, u64)> {
        let mut entries = Vec::with_capacity(DENSE_MIN);
        let dense = memory.dense(node);
        bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
            entries.push((dense.base() << 8 | u64::from(byte), dense.payload(byte)));
            true
        });
        entries
    }
}

/// Byte strings have no dense nodes: values of any length cannot be stored as an array.
impl DenseNodes for ByteStrings {
    fn last_byte(_key: &[u8]) -> usize {
        0
    }

    #[inline]
    fn is_in_dense(_memory: &RadixMemory, _node: Ref, _key: &[u8]) -> bool {
        false
    }

    fn modify_in_dense<'v>(
        _memory: &RadixMemory,
        _node: Ref,
        _key: &[u8],
        _decide: &mut impl FnMut(Option<&[u8]>) -> RadixKeyChange<&'v [u8]>,
    ) -> InNode {
        unreachable!("byte strings have no dense nodes")
    }

    fn becomes_dense(_node: RadixInnerNode<'_>) -> bool {
        false
    }

    fn create_dense(
        _memory: &RadixMemory,
        _entries: &[(&[u8], &[u8])],
    ) -> Result<Ref, OperationError> {
        unreachable!("byte strings have no dense nodes")
    }

    #[inline]
    fn fills_dense(_depth: usize, _entries: usize) -> bool {
        false
    }

    fn build_dense(
        _memory: &RadixMemory,
        _depth: usize,
        _entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Option<Ref>, OperationError> {
        Ok(None)
    }

    fn is_dense_underfull(_memory: &RadixMemory, _node: Ref) -> bool {
        unreachable!("byte strings have no dense nodes")
    }

    fn dense_entries(_memory: &RadixMemory, _node: Ref) -> Vec<(&[u8], &[u8])> {
        unreachable!("byte strings have no dense nodes")
    }
}

/// Returns the payload of a key in a dense node, and the version at which it was read.
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

/// Calls `visit` for the entries of a dense node at one instant, without those before a bound.
pub fn entries(
    dense: &Dense,
    from: Bound<u64>,
    direction: ScanDirection,
    mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let lock = &dense.header().lock;
    // All are copied before the first visit: a visitor must not see two versions of the node.
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
    bitmap::NodeBitmapIter::new(bits, direction)
        .try_for_each(|byte| visit(base << 8 | u64::from(byte), payloads[byte as usize]))
}
