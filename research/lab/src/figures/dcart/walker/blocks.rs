//! Nearfield's own tree on the card: inner nodes with slots of four bytes, and leaves that are
//! blocks of several entries. Reads and changes are those that the engine reports.

use super::addresses::CardNodePlaces;
use super::log::{WalkEvent, WalkEventLog};
use super::{OperationEffect, Walker};
use crate::figures::dcart::entries::DcartEntryForm;
use nearfield_core::{Batch, OperationError};
use nearfield_hardware::accelerator::MemorySpan;
use nearfield_hardware::accelerator::dcart::{DcartVisit, DcartWalk};
use nearfield_radix::{RadixIndex, VisitedNodeKind};

/// The tree, and the places of its nodes on the card.
#[derive(Debug)]
pub(in crate::figures::dcart) struct BlockTree<F: DcartEntryForm> {
    /// The tree, created at the first use because that may fail.
    tree: Option<RadixIndex<F>>,
    addresses: CardNodePlaces,
    log: WalkEventLog,
}

impl<F: DcartEntryForm> Default for BlockTree<F> {
    fn default() -> Self {
        BlockTree {
            tree: None,
            addresses: CardNodePlaces::default(),
            log: WalkEventLog::default(),
        }
    }
}

/// Bytes of a slot of an inner node, and of one in a leaf: a value.
const SLOT: [u32; 2] = [4, 8];

/// A node's address in this process, and its place on the card.
#[derive(Clone, Copy, Debug)]
struct CardNode {
    address: usize,
    place: MemorySpan,
}

impl CardNode {
    /// Returns the place of these bytes, if they are inside the node.
    fn span(&self, address: usize, bytes: u32) -> Option<MemorySpan> {
        let offset = address.checked_sub(self.address)? as u64;
        let fits = offset + u64::from(bytes) <= u64::from(self.place.bytes);
        fits.then_some(MemorySpan {
            address: self.place.address + offset,
            bytes,
        })
    }
}

impl<F: DcartEntryForm> BlockTree<F> {
    fn placed(&mut self, address: usize, bytes: u32) -> CardNode {
        CardNode {
            address,
            place: self.addresses.of(address, bytes),
        }
    }

    /// Converts a visit. The first read is the node's first bytes, or its slot.
    fn visit(&self, visit: &nearfield_radix::RadixNodeVisit, node: CardNode) -> DcartVisit {
        let at = |offset: u32, bytes| MemorySpan {
            address: node.place.address + u64::from(offset),
            bytes,
        };
        let is_leaf = visit.kind == VisitedNodeKind::Leaf;
        let head = at(0, visit.head_bytes);
        let slot = match visit.slot {
            0 => MemorySpan::default(),
            slot => at(slot, SLOT[usize::from(is_leaf)]),
        };
        let (first, also, then) = match (is_leaf, visit.head_bytes) {
            (_, 0) => (slot, MemorySpan::default(), MemorySpan::default()),
            // The line of a leaf's slot is known, so it is read at the same time.
            (true, _) => (head, slot, MemorySpan::default()),
            (false, _) => (head, MemorySpan::default(), slot),
        };
        DcartVisit {
            node: node.place.address,
            first,
            also,
            then,
            matches: !is_leaf,
            continues: false,
        }
    }

    /// Converts the read events: to visits, and the nodes that they visit.
    fn reads(&mut self, events: &[WalkEvent]) -> (Vec<DcartVisit>, Vec<CardNode>) {
        let (mut visits, mut nodes) = (Vec::<DcartVisit>::new(), Vec::<CardNode>::new());
        for event in events {
            match *event {
                WalkEvent::Node(visit) => {
                    let node = self.placed(visit.address, visit.bytes);
                    visits.push(self.visit(&visit, node));
                    nodes.push(node);
                }
                WalkEvent::Part { address, bytes } => {
                    let inside = nodes.last().and_then(|node| node.span(address, bytes));
                    let span = inside.unwrap_or_else(|| MemorySpan {
                        bytes,
                        ..self.addresses.of(address, bytes)
                    });
                    match visits.last_mut() {
                        Some(last) if !last.continues && last.then.bytes == 0 => last.then = span,
                        _ => visits.push(DcartVisit::more(span)),
                    }
                }
                _ => {}
            }
        }
        (visits, nodes)
    }
}

impl<F: DcartEntryForm> Walker for BlockTree<F> {
    type Form = F;

    fn execute(&mut self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.log.clear();
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(RadixIndex::new()?),
        };
        tree.execute_recorded(batch, &mut self.log)
    }

    fn recorded(&self) -> usize {
        self.log.operations()
    }

    fn walk(&mut self, operation: usize, changed: Option<OperationEffect>, walk: &mut DcartWalk) {
        let events = self.log.of(operation).to_vec();
        let (visits, mut nodes) = self.reads(&events);
        visits.into_iter().for_each(|visit| walk.visit(visit));
        if matches!(
            changed,
            Some(OperationEffect::Read | OperationEffect::Value)
        ) {
            walk.found();
        }
        // The walk may not have visited the leaf that takes the key.
        for event in &events {
            if let WalkEvent::Moved { target, .. } = *event
                && let Some(place) = self.addresses.get(target)
            {
                let address = target;
                nodes.push(CardNode { address, place });
            }
        }
        let mut locked = Vec::new();
        for event in events {
            match event {
                WalkEvent::Write { address, bytes } => {
                    let mut parts = nodes.iter().map(|node| (node, node.span(address, bytes)));
                    match parts.find_map(|(node, span)| Some((node.place.address, span?))) {
                        // A write requires a lock: of a node its lock, of a leaf its latch.
                        Some((node, span)) => {
                            walk.store(span);
                            if !locked.contains(&node) {
                                locked.push(node);
                                walk.lock(node);
                            }
                        }
                        None => {
                            let place = self.addresses.of(address, bytes);
                            walk.store(MemorySpan { bytes, ..place });
                        }
                    }
                }
                WalkEvent::Replaced(old) => {
                    if let Some(place) = self.addresses.free(old) {
                        walk.free(place);
                    }
                }
                WalkEvent::Moved { target, parent } => {
                    let places = [target, parent].map(|node| self.addresses.get(node));
                    if let [Some(target), Some(parent)] = places {
                        walk.moved(target.address, parent.address);
                    }
                }
                WalkEvent::Node(_) | WalkEvent::Part { .. } => {}
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        use nearfield_core::OrderedIndex;
        self.tree.as_ref().map_or(0, OrderedIndex::len)
    }
}
