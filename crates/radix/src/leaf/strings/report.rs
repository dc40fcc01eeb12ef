//! Reports of a block to a probe: its header with the offsets, and each entry whose fingerprint is
//! the key's, up to that of the key.

use super::{OFFSETS_AT, OutsideEntry, PRINTS_AT, StringBlock};
use crate::counters::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use crate::memory::RadixMemory;
use crate::node::Ref;
use crossbeam_epoch::Guard;

/// Reports the reads of a lookup of a key.
pub fn report(
    memory: &RadixMemory,
    leaf: Ref,
    key: &[u8],
    guard: &Guard,
    probe: &mut impl RadixProbe,
) {
    let block = StringBlock::at(memory, leaf, guard);
    let head = match block.state.is_outside() {
        true => PRINTS_AT + size_of::<OutsideEntry>(),
        false => OFFSETS_AT + 2 * block.state.slots(),
    };
    probe.node(RadixNodeVisit {
        address: block.start.addr(),
        kind: VisitedNodeKind::Leaf,
        bytes: bytes(memory, leaf, guard) as u32,
        head_bytes: head as u32,
        prefix_bytes: 0,
        index: 0,
        slot: 0,
    });
    let mut positions = block.candidates(key).positions;
    while positions != 0 {
        let position = positions.trailing_zeros() as usize;
        let parts = block.parts(position);
        let address = match block.state.is_outside() {
            true => block.outside().entry.addr(),
            false => block.start.addr() + block.offset(position),
        };
        probe.part(address, parts.length() as u32);
        if parts.key == key {
            return;
        }
        positions &= positions - 1;
    }
}

/// Returns the bytes of a block, without an entry outside.
pub fn bytes(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> usize {
    let block = StringBlock::latched(memory, leaf, guard);
    match block.state.is_outside() {
        true => PRINTS_AT + size_of::<OutsideEntry>(),
        false => block.length(),
    }
}

/// Returns the address and length of the entry of a block, if it is stored outside.
pub fn apart(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> Option<(usize, usize)> {
    let block = StringBlock::latched(memory, leaf, guard);
    let is_outside = block.state.is_outside();
    is_outside
        .then(|| block.outside())
        .map(|outside| (outside.entry.addr(), outside.length))
}
