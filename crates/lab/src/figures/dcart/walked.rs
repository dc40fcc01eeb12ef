//! A real tree, whose walks the model of the accelerator gets.

use super::addresses::Addresses;
use super::workload::Load;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_core::{Batch, Bytes};
use nearfield_hardware::accelerator::Span;
use nearfield_hardware::accelerator::dcart::{Tree, Visit, Walk};
use nearfield_radix::rivals::Art;
use nearfield_radix::{Probe, Visited};

/// Operations that the tree executes at once; the model gets them one by one.
const CHUNK: usize = 4096;
/// The bytes of a value.
const VALUE: usize = 8;

/// The adaptive radix tree with one leaf a key, loaded with the keys of a load.
pub(super) struct Walked<'l> {
    load: &'l Load,
    tree: Art<Bytes>,
    addresses: Addresses,
    recorder: Recorder,
    /// The first operation that is recorded.
    begin: usize,
    /// The last value that was written to each key.
    values: Vec<u64>,
    wrong: u64,
    first_wrong: String,
    failed: Option<nearfield_core::Error>,
}

/// The nodes that operations visit, of each where it ends.
#[derive(Debug, Default)]
struct Recorder {
    visits: Vec<nearfield_radix::Visit>,
    begins: Vec<usize>,
    /// Leaves that were written: the last new one of each operation.
    leaves: Vec<Option<usize>>,
}

impl Recorder {
    fn clear(&mut self) {
        self.visits.clear();
        self.begins.clear();
        self.leaves.clear();
    }

    fn visits(&self, operation: usize) -> &[nearfield_radix::Visit] {
        let end = self.begins.get(operation + 1).copied();
        &self.visits[self.begins[operation]..end.unwrap_or(self.visits.len())]
    }
}

impl Probe for Recorder {
    fn operation(&mut self, _: usize) {
        self.begins.push(self.visits.len());
        self.leaves.push(None);
    }
    fn node(&mut self, visit: nearfield_radix::Visit) {
        self.visits.push(visit);
    }
    fn write(&mut self, address: usize, _: u32) {
        // A new leaf is written before the slot that leads to it.
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.get_or_insert(address);
        }
    }
}

/// The bytes of an inner node with room for so many children: a header of 16 bytes, keys or an
/// index, and slots of 8 bytes.
pub(super) fn node_bytes(slots: u16) -> u32 {
    match slots {
        ..=4 => 56,
        5..=16 => 160,
        17..=48 => 656,
        _ => 2064,
    }
}

impl<'l> Walked<'l> {
    /// Loads the keys, and gives each node its place on the card.
    pub(super) fn new(load: &'l Load, interrupt: &Interrupt) -> Result<Walked<'l>, PointError> {
        let mut walked = Walked {
            load,
            tree: Art::new(),
            addresses: Addresses::default(),
            recorder: Recorder::default(),
            begin: 0,
            values: (0..u64::from(load.keys())).collect(),
            wrong: 0,
            first_wrong: String::new(),
            failed: None,
        };
        let mut batch = Batch::<Bytes>::new();
        let numbers: Vec<u32> = (0..load.keys()).collect();
        for chunk in numbers.chunks(CHUNK) {
            if interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
            batch.clear();
            for number in chunk {
                batch.insert(load.key(*number), &u64::from(*number).to_le_bytes());
            }
            walked
                .tree
                .execute_counted(&mut batch, &mut Default::default())?;
        }
        for chunk in numbers.chunks(CHUNK) {
            batch.clear();
            for number in chunk {
                batch.get(load.key(*number));
            }
            walked.recorder.clear();
            walked
                .tree
                .execute_probed(&mut batch, &mut walked.recorder)?;
            for visit in std::mem::take(&mut walked.recorder.visits) {
                walked.place(&visit);
            }
        }
        walked.recorder.clear();
        Ok(walked)
    }

    /// The places of a node's parts on the card.
    fn place(&mut self, visit: &nearfield_radix::Visit) -> Visit {
        let at = |base: u64, offset: u32, bytes| Span {
            address: base + u64::from(offset),
            bytes,
        };
        match visit.kind {
            Visited::Leaf => {
                let bytes = visit.head_bytes + VALUE as u32;
                let place = self.addresses.of(visit.address, bytes);
                Visit::leaf(at(place.address, 0, bytes))
            }
            Visited::Inner { slots } => {
                let base = self.addresses.of(visit.address, node_bytes(slots)).address;
                let head = at(base, 0, visit.head_bytes);
                let slot = match visit.slot {
                    0 => Span::default(),
                    slot => at(base, slot.min(node_bytes(slots) - 8), 8),
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

    /// The inner nodes above a key.
    pub(super) fn nodes_of(&mut self, number: u32) -> Vec<u64> {
        let mut batch = Batch::<Bytes>::new();
        batch.get(self.load.key(number));
        let mut recorder = Recorder::default();
        if let Err(error) = self.tree.execute_probed(&mut batch, &mut recorder) {
            self.failed.get_or_insert(error);
        }
        let places = recorder.visits.iter().map(|visit| self.place(visit));
        let inner = places.filter(|visit| visit.matches);
        inner.map(|visit| visit.first.address).collect()
    }

    /// Executes the operations from this one on, and records them.
    fn execute_chunk(&mut self, begin: usize) -> Result<(), nearfield_core::Error> {
        let end = self.load.operations.len().min(begin + CHUNK);
        let operations = &self.load.operations[begin..end];
        let mut batch = Batch::<Bytes>::new();
        for (position, (number, writes)) in operations.iter().enumerate() {
            let key = self.load.key(*number);
            match writes {
                true => batch.insert(key, &((begin + position) as u64).to_le_bytes()),
                false => batch.get(key),
            };
        }
        self.recorder.clear();
        self.begin = begin;
        self.tree.execute_probed(&mut batch, &mut self.recorder)?;
        for (position, (number, writes)) in operations.iter().enumerate() {
            let value = &mut self.values[*number as usize];
            if batch.value(position) != Some(&value.to_le_bytes()[..]) {
                if self.wrong == 0 {
                    self.first_wrong = format!("operation {} on key {number}", begin + position);
                }
                self.wrong += 1;
            }
            if *writes {
                *value = (begin + position) as u64;
            }
        }
        Ok(())
    }

    /// Whether all answers were right.
    pub(super) fn check(self) -> Result<(), PointError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        match self.wrong {
            0 => Ok(()),
            wrong => Err(PointError::Wrong {
                wrong,
                operations: self.load.operations.len() as u64,
                first: self.first_wrong,
            }),
        }
    }
}

impl Tree for Walked<'_> {
    fn execute(&mut self, operation: usize, walk: &mut Walk) {
        let recorded = self.begin..self.begin + self.recorder.begins.len();
        if !recorded.contains(&operation)
            && let Err(error) = self.execute_chunk(operation)
        {
            self.failed.get_or_insert(error);
            return;
        }
        let position = operation - self.begin;
        let visits = self.recorder.visits(position).to_vec();
        let mut leaf = None;
        for visit in &visits {
            let visit = self.place(visit);
            leaf = Some(visit.first);
            walk.visit(visit);
        }
        walk.found();
        let (_, writes) = self.load.operations[operation];
        let (Some(leaf), true) = (leaf, writes) else {
            return;
        };
        // The tree in this process has a new leaf for a new value. On the card, the value, which
        // is as long, is written where it is. *Assumed*: the paper does not say.
        if let (Some(old), Some(new)) = (visits.last(), self.recorder.leaves[position]) {
            self.addresses.rename(old.address, new);
        }
        walk.store(Span {
            address: leaf.address + u64::from(leaf.bytes) - VALUE as u64,
            bytes: VALUE as u32,
        });
        // As in the rivals, the node above a leaf is locked to write it.
        if let [.., above, _] = &visits[..]
            && let Visited::Inner { slots } = above.kind
        {
            walk.lock(self.addresses.of(above.address, node_bytes(slots)).address);
        }
    }
}
