//! The paper's tree on the card: the adaptive radix tree with one leaf a key.

use super::addresses::CardNodePlaces;
use super::log::{WalkEvent, WalkEventLog};
use super::{OperationEffect, VALUE, Walker};
use nearfield_core::{Batch, ByteStrings, OperationError};
use nearfield_hardware::accelerator::MemorySpan;
use nearfield_hardware::accelerator::dcart::{DcartVisit, DcartWalk};
use nearfield_radix::VisitedNodeKind;
use nearfield_radix_rivals::Art;

/// The tree, and the places of its nodes on the card.
#[derive(Debug, Default)]
pub(in crate::figures::dcart) struct PaperTree {
    tree: Art<ByteStrings>,
    addresses: CardNodePlaces,
    log: WalkEventLog,
}

/// Returns the bytes of an inner node for this number of children: a header of 16 bytes, keys or an
/// index, and slots of 8 bytes.
fn node_bytes(slots: u16) -> u32 {
    match slots {
        ..=4 => 56,
        5..=16 => 160,
        17..=48 => 656,
        _ => 2064,
    }
}

impl PaperTree {
    /// Returns the places of all inner nodes that the batch has visited.
    pub(in crate::figures::dcart) fn inner_nodes(&mut self) -> Vec<u64> {
        let all = (0..self.log.operations()).flat_map(|one| visits(self.log.of(one)));
        let visits: Vec<_> = all.collect();
        let places = visits.iter().map(|visit| self.place(visit));
        let inner = places.filter(|visit| visit.matches);
        inner.map(|visit| visit.node).collect()
    }

    /// Converts a visit to the parts of the node's place on the card.
    fn place(&mut self, visit: &nearfield_radix::RadixNodeVisit) -> DcartVisit {
        let at = |base: u64, offset: u32, bytes| MemorySpan {
            address: base + u64::from(offset),
            bytes,
        };
        match visit.kind {
            VisitedNodeKind::Leaf => {
                let bytes = visit.head_bytes + VALUE;
                let place = self.addresses.of(visit.address, bytes);
                DcartVisit::leaf(MemorySpan { bytes, ..place })
            }
            VisitedNodeKind::Inner { slots } => {
                let size = node_bytes(slots);
                let base = self.addresses.of(visit.address, size).address;
                let head = at(base, 0, visit.head_bytes);
                let slot = match visit.slot {
                    0 => MemorySpan::default(),
                    slot => at(base, slot.min(size - 8), 8),
                };
                match slots {
                    // The key's byte in the index leads to the slot, so the slot is read
                    // afterwards.
                    49.. => DcartVisit {
                        also: slot,
                        ..DcartVisit::inner(head, MemorySpan::default())
                    },
                    17..=48 => DcartVisit {
                        also: at(base, visit.index, 1),
                        ..DcartVisit::inner(head, slot)
                    },
                    _ => DcartVisit::inner(head, slot),
                }
            }
        }
    }
}

impl PaperTree {
    /// Returns the place of written bytes: in a visited node, or in a new one.
    fn stored(&mut self, events: &[WalkEvent], address: usize, bytes: u32) -> MemorySpan {
        let holds = |visit: &nearfield_radix::RadixNodeVisit| {
            (visit.address..visit.address + visit.bytes as usize).contains(&address)
        };
        let node = visits(events).find(holds);
        let place = node.and_then(|node| Some((node, self.addresses.get(node.address)?)));
        let Some((node, place)) = place else {
            return self.addresses.of(address, bytes);
        };
        // Headers are longer in this process than on the card.
        let offset = ((address - node.address) as u32).min(place.bytes - 1);
        MemorySpan {
            address: place.address + u64::from(offset),
            bytes: bytes.min(place.bytes - offset),
        }
    }
}

/// Returns the nodes that were read.
fn visits(events: &[WalkEvent]) -> impl Iterator<Item = nearfield_radix::RadixNodeVisit> {
    events.iter().filter_map(|event| match event {
        WalkEvent::Node(visit) => Some(*visit),
        _ => None,
    })
}

impl Walker for PaperTree {
    type Form = ByteStrings;

    fn execute(&mut self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.log.clear();
        self.tree.execute_probed(batch, &mut self.log)
    }

    fn recorded(&self) -> usize {
        self.log.operations()
    }

    fn walk(&mut self, operation: usize, changed: Option<OperationEffect>, walk: &mut DcartWalk) {
        let events = self.log.of(operation).to_vec();
        let mut leaf = None;
        for visit in visits(&events) {
            let visit = self.place(&visit);
            leaf = (!visit.matches).then_some(visit.first);
            walk.visit(visit);
        }
        // A new leaf is written before the slot that points to it.
        let written = events.iter().find_map(|event| match event {
            WalkEvent::Write { address, bytes } => Some((*address, *bytes)),
            _ => None,
        });
        let Some(changed) = changed else {
            return;
        };
        if changed == OperationEffect::Read {
            return walk.found();
        }
        // As in the rivals, a writer of a leaf locks the node above it.
        let inner = visits(&events).filter_map(|visit| match visit.kind {
            VisitedNodeKind::Inner { slots } => Some((visit.address, node_bytes(slots))),
            VisitedNodeKind::Leaf => None,
        });
        if let Some((address, bytes)) = inner.last() {
            walk.lock(self.addresses.of(address, bytes).address);
        }
        match changed {
            OperationEffect::Read => {}
            OperationEffect::Value => {
                walk.found();
                // The tree in this process creates a new leaf for a new value. On the card the
                // value has the same size and is overwritten in place. *Assumed*: the paper does
                // not describe this.
                if let (Some(old), Some((new, _))) = (visits(&events).last(), written) {
                    self.addresses.rename(old.address, new);
                }
                if let Some(leaf) = leaf {
                    let address = leaf.address + u64::from(leaf.bytes.saturating_sub(VALUE));
                    let bytes = VALUE;
                    walk.store(MemorySpan { address, bytes });
                }
            }
            OperationEffect::Nodes | OperationEffect::Removed => {
                for event in &events {
                    if let WalkEvent::Write { address, bytes } = *event {
                        let store = self.stored(&events, address, bytes);
                        walk.store(store);
                    }
                }
                for event in &events {
                    if let WalkEvent::Replaced(old) = event
                        && let Some(place) = self.addresses.free(*old)
                    {
                        walk.free(place);
                    }
                }
                // The place of a removed leaf is free at once. In this process the leaf's memory
                // may be reused later.
                let last = visits(&events).last();
                if let (OperationEffect::Removed, Some(last)) = (changed, last)
                    && last.kind == VisitedNodeKind::Leaf
                    && let Some(place) = self.addresses.free(last.address)
                {
                    walk.free(place);
                }
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        use nearfield_core::OrderedIndex;
        self.tree.len()
    }
}
