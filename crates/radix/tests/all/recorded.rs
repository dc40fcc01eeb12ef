//! The reads and changes that the engine reports to a probe agree with the nodes of the tree.

use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex, Words};
use nearfield_radix::{RadixForm, RadixIndex, RadixNodeVisit, RadixProbe, VisitedNodeKind};
use nearfield_testkit::keys::{self, SampleForm};
use nearfield_testkit::model;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The existing nodes according to the reports: addresses and bytes.
#[derive(Debug, Default)]
struct ReportedNodes {
    nodes: BTreeMap<usize, u32>,
    visited: BTreeSet<usize>,
    last: Option<RadixNodeVisit>,
    /// The place to which the key of the last operation moved, if it moved.
    moved: Option<(usize, usize)>,
    /// True if reports of removed nodes are ignored. A test must detect that.
    is_deaf: bool,
}

impl RadixProbe for ReportedNodes {
    fn operation(&mut self, _: usize) {
        (self.last, self.moved) = (None, None);
    }
    fn node(&mut self, visit: RadixNodeVisit) {
        if self.nodes.is_empty() {
            // The root exists from the beginning.
            self.nodes.insert(visit.address, visit.bytes);
        }
        let known = self.nodes.get(&visit.address);
        assert_eq!(known, Some(&visit.bytes), "no operation wrote {visit:?}");
        assert!(visit.head_bytes <= visit.bytes && visit.slot < visit.bytes);
        assert!(
            visit.head_bytes > 0 || visit.slot > 0,
            "nothing of {visit:?}"
        );
        self.visited.insert(visit.address);
        self.last = Some(visit);
    }
    fn part(&mut self, address: usize, bytes: u32) {
        let last = self.last.expect("a node before its part");
        let end = address + bytes as usize;
        let is_inside = address >= last.address && end <= last.address + last.bytes as usize;
        if !is_inside {
            assert_eq!(self.nodes.get(&address), Some(&bytes), "a part outside");
            self.visited.insert(address);
        }
    }
    fn write(&mut self, address: usize, bytes: u32) {
        let before = self.nodes.range(..=address).next_back();
        let end = address + bytes as usize;
        let is_inside = before.is_some_and(|(base, count)| end <= base + *count as usize);
        if !is_inside {
            self.nodes.insert(address, bytes);
        }
    }
    fn replace(&mut self, old: usize, _: usize, _: u32) {
        let was_there = self.is_deaf || self.nodes.remove(&old).is_some();
        assert!(was_there, "no operation wrote the removed entry");
    }
    fn moved(&mut self, target: usize, parent: usize) {
        self.moved = Some((target, parent));
    }
}

/// An index whose every batch is recorded.
struct BatchRecordingIndex<F: RadixForm>(Mutex<(RadixIndex<F>, ReportedNodes)>);

impl<F: RadixForm> BatchRecordingIndex<F> {
    fn new() -> Self {
        let index = RadixIndex::new().expect("address space");
        BatchRecordingIndex(Mutex::new((index, ReportedNodes::default())))
    }
}

impl<F: RadixForm> OrderedIndex<F> for BatchRecordingIndex<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        let (index, shadow) = &mut *self.0.lock().expect("one thread");
        index.execute_recorded(batch, shadow)
    }

    fn len(&self) -> usize {
        self.0.lock().expect("one thread").0.len()
    }

    fn check_invariants(&self) {
        self.0.lock().expect("one thread").0.check_invariants();
    }
}

#[test]
fn answers_are_those_of_a_model() {
    model::check::<Words, _>(13, |_| BatchRecordingIndex::new());
    model::check::<ByteStrings, _>(13, |_| BatchRecordingIndex::new());
}

/// Inserts keys, updates some, removes most and inserts again. Returns true if the existing nodes
/// according to the reports are those that gets of all keys visit.
fn agrees<F: SampleForm + RadixForm>(kind: F::Kind, seed: u64, is_deaf: bool) -> bool {
    let mut random = keys::random(seed);
    let keys: Vec<F::OwnedKey> = F::keys(kind, 3000, &mut random).into_iter().collect();
    let mut index = RadixIndex::<F>::new().expect("address space");
    let mut shadow = ReportedNodes {
        is_deaf,
        ..ReportedNodes::default()
    };
    let mut present = BTreeSet::new();
    for (round, chunk) in keys.chunks(100).enumerate() {
        let mut batch = Batch::new();
        for (number, key) in chunk.iter().enumerate() {
            let value = F::any_value(&mut random);
            batch.insert(F::key(key), F::value(&value));
            let value = F::any_value(&mut random);
            batch.insert(F::key(key), F::value(&value));
            present.insert(key.clone());
            let gone = &keys[(number * 37 + round * 101) % keys.len()];
            if round > 10 && number % 10 != 0 {
                batch.remove(F::key(gone));
                present.remove(gone);
            }
        }
        index
            .execute_recorded(&mut batch, &mut shadow)
            .expect("a batch");
        shadow.visited.clear();
        let mut batch = Batch::new();
        for key in &present {
            batch.get(F::key(key));
        }
        // The root, if there is no key.
        batch.get(F::key(&keys[0]));
        index
            .execute_recorded(&mut batch, &mut shadow)
            .expect("a batch");
        if !shadow.nodes.keys().eq(shadow.visited.iter()) {
            return false;
        }
    }
    true
}

#[test]
fn nodes_come_and_go_as_reported() {
    for (seed, &kind) in Words::KINDS.iter().enumerate() {
        assert!(agrees::<Words>(kind, seed as u64, false), "{kind:?}");
    }
    for (seed, &kind) in ByteStrings::KINDS.iter().enumerate() {
        assert!(agrees::<ByteStrings>(kind, seed as u64, false), "{kind:?}");
    }
}

#[test]
fn canary_nodes_that_go_unheard_are_found() {
    assert!(!agrees::<Words>(Words::KINDS[0], 0, true));
    assert!(!agrees::<ByteStrings>(ByteStrings::KINDS[0], 0, true));
}

/// A key that moves is found at the reported place.
#[test]
fn a_moved_key_lies_where_it_was_said() {
    let mut index = RadixIndex::<Words>::new().expect("address space");
    let mut shadow = ReportedNodes::default();
    let mut moves = 0;
    for number in 0..5000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut batch = Batch::new();
        batch.insert(key, number);
        index
            .execute_recorded(&mut batch, &mut shadow)
            .expect("a batch");
        let moved = shadow.moved;
        let mut batch = Batch::new();
        batch.get(key);
        index
            .execute_recorded(&mut batch, &mut shadow)
            .expect("a batch");
        let last = shadow.last.expect("a walk");
        assert_eq!(last.kind, VisitedNodeKind::Leaf);
        if let Some((target, parent)) = moved {
            assert_eq!(target, last.address);
            assert!(shadow.nodes.contains_key(&parent));
            moves += 1;
        }
    }
    assert!(moves > 500, "{moves}");
}

/// The bytes that each operation has written.
#[derive(Default)]
struct WrittenBytesProbe(Vec<u32>);

impl RadixProbe for WrittenBytesProbe {
    fn operation(&mut self, _: usize) {
        self.0.push(0);
    }
    fn write(&mut self, _: usize, bytes: u32) {
        *self.0.last_mut().expect("an operation") += bytes;
    }
}

/// An update in place writes the bytes of the value, and an update to the same value writes
/// nothing.
#[test]
fn an_update_writes_its_value() {
    let mut index = RadixIndex::<ByteStrings>::new().expect("address space");
    for number in 0..100_u8 {
        index.insert(&[number, 7], &[0; 8]).expect("insert");
    }
    let mut batch = Batch::<ByteStrings>::new();
    for _ in 0..2 {
        batch.insert(&[9, 7], &[1; 8]);
    }
    let mut written = WrittenBytesProbe::default();
    let done = index.execute_recorded(&mut batch, &mut written);
    done.expect("a batch");
    assert_eq!(written.0, [8, 0]);
}
