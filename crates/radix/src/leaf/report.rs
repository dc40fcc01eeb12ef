//! Reports of the reads of a leaf to a [`RadixProbe`].

use super::block::{PAYLOADS_AT, WordBlock};
use super::strings;
use super::word::block;
use crate::counters::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use crate::memory::RadixMemory;
use crate::node::{Dense, NodeRefKind, Ref};
use crossbeam_epoch::Guard;
use nearfield_core::{ByteStrings, EntryForm, Words};

/// Reports of leaves and dense nodes to a probe.
pub trait ReportLeaf: EntryForm {
    /// Reports the reads of a terminal that a lookup of a key makes.
    fn report(
        memory: &RadixMemory,
        terminal: Ref,
        key: Self::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    );
    /// Returns the bytes of a terminal, without those that are stored apart.
    fn bytes(memory: &RadixMemory, terminal: Ref, guard: &Guard) -> usize;
    /// Returns the address and number of the bytes that a terminal stores apart, if any.
    fn apart(_memory: &RadixMemory, _terminal: Ref, _guard: &Guard) -> Option<(usize, usize)> {
        None
    }
}

impl ReportLeaf for Words {
    fn report(
        memory: &RadixMemory,
        terminal: Ref,
        key: u64,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        let slot = match terminal.kind() {
            NodeRefKind::Dense => {
                let (dense, last) = (memory.dense(terminal), key as u8);
                let is_there = dense.base() == key >> 8 && dense.find(last).is_some();
                is_there.then_some(Dense::PAYLOADS_AT + 8 * usize::from(last))
            }
            _ => {
                let position = block(memory, terminal).position(key);
                position.map(|position| PAYLOADS_AT + 8 * position)
            }
        };
        // The keys of a block, and the bitmap of a dense node, are in the first line.
        probe.node(RadixNodeVisit {
            address: memory.line(terminal).addr(),
            kind: VisitedNodeKind::Leaf,
            bytes: Self::bytes(memory, terminal, guard) as u32,
            head_bytes: PAYLOADS_AT.min(Dense::PAYLOADS_AT) as u32,
            prefix_bytes: 0,
            index: 0,
            slot: slot.unwrap_or_default() as u32,
        });
    }

    fn bytes(_memory: &RadixMemory, terminal: Ref, _guard: &Guard) -> usize {
        match terminal.kind() {
            NodeRefKind::Dense => size_of::<Dense>(),
            _ => size_of::<WordBlock>(),
        }
    }
}

impl ReportLeaf for ByteStrings {
    fn report(
        memory: &RadixMemory,
        terminal: Ref,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        strings::report(memory, terminal, key, guard, probe);
    }

    fn bytes(memory: &RadixMemory, terminal: Ref, guard: &Guard) -> usize {
        strings::bytes(memory, terminal, guard)
    }

    fn apart(memory: &RadixMemory, terminal: Ref, guard: &Guard) -> Option<(usize, usize)> {
        strings::apart(memory, terminal, guard)
    }
}
