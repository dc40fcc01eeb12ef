//! The adaptive radix tree, whose walks are recorded as the accelerator would make them.

use super::addresses::Addresses;
use nearfield_core::{Batch, Bytes, Error};
use nearfield_hardware::accelerator::Span;
use nearfield_hardware::accelerator::dcart::{Visit, Walk};
use nearfield_radix::rivals::Art;
use nearfield_radix::{Probe, Visited};

/// What an operation of a batch has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing; its key was there.
    Read,
    /// The value of a key that was there, to one of as many bytes.
    Value {
        /// The bytes of the value.
        bytes: u32,
    },
    /// Which nodes there are.
    Nodes,
}

/// The tree with one leaf a key, and the places of its nodes on the card.
#[derive(Debug, Default)]
pub(super) struct Walker {
    pub(super) tree: Art<Bytes>,
    addresses: Addresses,
    recorder: Recorder,
}

/// The nodes that operations visit.
#[derive(Debug, Default)]
struct Recorder {
    visits: Vec<nearfield_radix::Visit>,
    /// Where those of each operation begin.
    begins: Vec<usize>,
    /// What each operation wrote first: a new leaf is written before the slot that leads to it.
    written: Vec<Option<(usize, u32)>>,
    /// Nodes that others have replaced, with the operation that did so.
    replaced: Vec<(usize, usize)>,
}

impl Recorder {
    fn clear(&mut self) {
        self.visits.clear();
        self.begins.clear();
        self.written.clear();
        self.replaced.clear();
    }

    fn visits(&self, operation: usize) -> &[nearfield_radix::Visit] {
        let end = self.begins.get(operation + 1).copied();
        &self.visits[self.begins[operation]..end.unwrap_or(self.visits.len())]
    }
}

impl Probe for Recorder {
    fn operation(&mut self, _: usize) {
        self.begins.push(self.visits.len());
        self.written.push(None);
    }
    fn node(&mut self, visit: nearfield_radix::Visit) {
        self.visits.push(visit);
    }
    fn write(&mut self, address: usize, bytes: u32) {
        if let Some(written) = self.written.last_mut() {
            written.get_or_insert((address, bytes));
        }
    }
    fn replace(&mut self, old: usize, _: usize, _: u32) {
        self.replaced.push((self.begins.len() - 1, old));
    }
}

/// The bytes of an inner node with room for so many children: a header of 16 bytes, keys or an
/// index, and slots of 8 bytes.
fn node_bytes(slots: u16) -> u32 {
    match slots {
        ..=4 => 56,
        5..=16 => 160,
        17..=48 => 656,
        _ => 2064,
    }
}

impl Walker {
    /// Executes a batch, and records what its operations visit.
    pub(super) fn execute(&mut self, batch: &mut Batch<Bytes>) -> Result<(), Error> {
        self.recorder.clear();
        self.tree.execute_probed(batch, &mut self.recorder)
    }

    /// The operations of the batch that was executed last.
    pub(super) fn recorded(&self) -> usize {
        self.recorder.begins.len()
    }

    /// The places of all inner nodes that the batch has visited.
    pub(super) fn inner_nodes(&mut self) -> Vec<u64> {
        let visits = std::mem::take(&mut self.recorder.visits);
        let places: Vec<Visit> = visits.iter().map(|visit| self.place(visit)).collect();
        let inner = places.iter().filter(|visit| visit.matches);
        inner.map(|visit| visit.first.address).collect()
    }

    /// The places of a node's parts on the card.
    fn place(&mut self, visit: &nearfield_radix::Visit) -> Visit {
        let at = |base: u64, offset: u32, bytes| Span {
            address: base + u64::from(offset),
            bytes,
        };
        match visit.kind {
            Visited::Leaf => {
                let bytes = visit.head_bytes + VALUE;
                Visit::leaf(at(
                    self.addresses.of(visit.address, bytes).address,
                    0,
                    bytes,
                ))
            }
            Visited::Inner { slots } => {
                let size = node_bytes(slots);
                let base = self.addresses.of(visit.address, size).address;
                let head = at(base, 0, visit.head_bytes);
                let slot = match visit.slot {
                    0 => Span::default(),
                    slot => at(base, slot.min(size - 8), 8),
                };
                match slots {
                    // The key's byte says where the slot lies.
                    49.. => Visit {
                        also: slot,
                        ..Visit::inner(head, Span::default())
                    },
                    17..=48 => Visit {
                        also: at(base, visit.index, 1),
                        ..Visit::inner(head, slot)
                    },
                    _ => Visit::inner(head, slot),
                }
            }
        }
    }

    /// Describes what an operation of the batch took. `changed` is `None` if it has found and
    /// changed nothing. Operations are asked for in their order, each once.
    pub(super) fn walk(&mut self, operation: usize, changed: Option<Changed>, walk: &mut Walk) {
        let visits = self.recorder.visits(operation).to_vec();
        let mut leaf = None;
        for visit in &visits {
            let visit = self.place(visit);
            leaf = (!visit.matches).then_some(visit.first);
            walk.visit(visit);
        }
        let written = self.recorder.written[operation];
        let Some(changed) = changed else {
            return;
        };
        match changed {
            Changed::Read => return walk.found(),
            Changed::Value { bytes } => {
                walk.found();
                // The tree in this process has a new leaf for a new value. On the card, the value,
                // which is as long, is written where it is. *Assumed*: the paper does not say.
                if let (Some(old), Some((new, _))) = (visits.last(), written) {
                    self.addresses.rename(old.address, new);
                }
                if let Some(leaf) = leaf {
                    let address = leaf.address + u64::from(leaf.bytes.saturating_sub(bytes));
                    walk.store(Span { address, bytes });
                }
            }
            Changed::Nodes => {
                if let Some((new, bytes)) = written {
                    walk.store(self.addresses.of(new, bytes));
                }
                let replaced = self.recorder.replaced.iter();
                for (_, old) in replaced.filter(|(by, _)| *by == operation) {
                    if let Some(place) = self.addresses.free(*old) {
                        walk.free(place);
                    }
                }
            }
        }
        // As in the rivals, the node above a leaf is locked to write it.
        let inner = visits.iter().rev().find_map(|visit| match visit.kind {
            Visited::Inner { slots } => Some((visit.address, node_bytes(slots))),
            Visited::Leaf => None,
        });
        if let Some((address, bytes)) = inner {
            walk.lock(self.addresses.of(address, bytes).address);
        }
    }
}

/// The bytes of a value, for which a leaf has room.
pub(super) const VALUE: u32 = 8;
