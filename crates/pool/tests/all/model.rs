//! Tests that a hopscotch leaf holds the entries of a `BTreeMap`, through inserts, changes,
//! removals and splits, and that its invariants hold after each step.

use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::hopscotch::{self, NeighborhoodLookup, NoRoom};
use nearfield_pool::layout::{
    self, Arrangement, Geometry, LeafMetadataPosition, LeafSlotRange, LockWordLayout,
    PoolIndexShape, PoolLeaf, PoolLeafLayout, Validation,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const STEPS: usize = 4_000;

struct LeafModelRun {
    leaf: PoolLeaf,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    rng: SmallRng,
    splits: u64,
}

impl LeafModelRun {
    fn span(&self) -> usize {
        self.leaf.layout().span()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.rng.random()).collect()
    }

    /// Returns a key of few possible ones, so that some exist.
    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.random_range(1..=3 * self.span() as u64);
        let mut key = vec![0; self.leaf.layout().geometry().shape().key_bytes];
        let bytes = number.to_be_bytes();
        let kept = key.len().min(bytes.len());
        key[..kept].copy_from_slice(&bytes[8 - kept..]);
        key
    }

    fn all_from(&self, key: &[u8]) -> LeafSlotRange {
        self.leaf.layout().all_slots(key)
    }

    fn insert(&mut self, key: &[u8]) {
        let value = self.bytes(self.leaf.layout().geometry().shape().value_bytes);
        let known = self.all_from(key);
        let before = self.leaf.clone();
        match hopscotch::insert(&mut self.leaf, known, key, &value) {
            Ok(inserted) => {
                assert_eq!(inserted.replaced, self.model.contains_key(key));
                assert_eq!(self.leaf.key(inserted.slot), Some(key));
                only_these_changed(&before, &self.leaf, inserted.written);
            }
            Err(NoRoom) => {
                assert!(self.leaf == before, "no entry changes without free space");
                self.split(key);
                let inserted = hopscotch::insert(&mut self.leaf, known, key, &value);
                assert!(inserted.is_ok(), "after the split there is room");
            }
        }
        self.model.insert(key.to_vec(), value);
    }

    /// Splits the leaf and continues with the half that `key` belongs into.
    fn split(&mut self, key: &[u8]) {
        let address = GlobalAddress::new(NodeId(0), 64 * (self.splits + 1));
        let former = self.leaf.sibling(0);
        let separator = hopscotch::split_key(&self.leaf, key);
        let right = hopscotch::split(&mut self.leaf, &separator, address);
        assert_eq!((self.leaf.sibling(0), right.sibling(0)), (address, former));
        hopscotch::check_invariants(&self.leaf);
        hopscotch::check_invariants(&right);
        let right_model = self.model.split_off(&*separator);
        assert_eq!(entries(&right), right_model);
        assert_eq!(entries(&self.leaf), self.model);
        assert_eq!(self.leaf.fences(0).is_some(), right.fences(0).is_some());
        if let (Some(left), Some(right)) = (self.leaf.fences(0), right.fences(0)) {
            assert_eq!((left.1, right.0), (&*separator, &*separator));
        }
        if *key >= *separator {
            (self.leaf, self.model) = (right, right_model);
        }
        self.splits += 1;
    }

    fn remove(&mut self, key: &[u8]) {
        let before = self.leaf.clone();
        let found = hopscotch::lookup(&self.leaf, key);
        let is_there = self.model.remove(key).is_some();
        if let NeighborhoodLookup::Found(slot) = found {
            assert!(is_there);
            let written = hopscotch::remove(&mut self.leaf, slot);
            only_these_changed(&before, &self.leaf, written);
        } else {
            assert!(!is_there);
        }
    }

    fn check(&mut self) {
        hopscotch::check_invariants(&self.leaf);
        assert_eq!(entries(&self.leaf), self.model);
        let greatest = self.leaf.max_slot().and_then(|slot| self.leaf.key(slot));
        assert_eq!(greatest, self.model.keys().next_back().map(|key| &key[..]));
        let key = self.key();
        match hopscotch::lookup(&self.leaf, &key) {
            NeighborhoodLookup::Found(slot) => assert_eq!(self.leaf.value(slot), self.model[&key]),
            NeighborhoodLookup::Absent => assert!(!self.model.contains_key(&key)),
            NeighborhoodLookup::Moved => panic!("no thread moves entries"),
        }
    }
}

fn entries(leaf: &PoolLeaf) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entry = |slot| Some((leaf.key(slot)?.to_vec(), leaf.value(slot).to_vec()));
    leaf.occupied().filter_map(entry).collect()
}

/// Checks that a reader that knows the old leaf and gets the written bytes knows the new leaf.
fn only_these_changed(before: &PoolLeaf, after: &PoolLeaf, written: LeafSlotRange) {
    let segments = after.layout().entries(written);
    let wire = after.encode(&segments);
    let wire: Vec<&[u8]> = wire.iter().map(Vec::as_slice).collect();
    let mut leaf = before.clone();
    assert_eq!(leaf.decode(&segments, &wire), Ok(()));
    assert!(leaf == *after, "all that changed is written back");
}

fn run(shape: PoolIndexShape, seed: u64) {
    let geometry = Geometry::new(shape).expect("the shape is possible");
    let mut run = LeafModelRun {
        leaf: PoolLeaf::new(PoolLeafLayout::new(geometry)),
        model: BTreeMap::new(),
        rng: SmallRng::seed_from_u64(seed),
        splits: 0,
    };
    for step in 0..STEPS {
        // Phases of growth and of shrinking take turns.
        let inserts = if step / 500 % 2 == 0 { 0.8 } else { 0.4 };
        let key = run.key();
        if run.rng.random_bool(inserts) {
            run.insert(&key);
        } else {
            run.remove(&key);
        }
        run.check();
    }
    assert!(run.splits > 2, "{} splits of {shape:?}", run.splits);
}

#[test]
fn leaves_of_many_shapes_agree_with_a_map() {
    let shape = PoolIndexShape::default();
    let shapes = [
        shape,
        PoolIndexShape {
            validation: Validation::Fences,
            key_bytes: 13,
            ..shape
        },
        PoolIndexShape {
            arrangement: Arrangement::Neighborhood,
            ..shape
        },
        PoolIndexShape {
            metadata: LeafMetadataPosition::Single,
            value_bytes: 100,
            ..shape
        },
        PoolIndexShape {
            leaf_span: 37,
            neighborhood: 5,
            value_bytes: 0,
            ..shape
        },
        PoolIndexShape {
            leaf_span: 16,
            neighborhood: 16,
            key_bytes: 3,
            ..shape
        },
        PoolIndexShape {
            leaf_span: 8,
            neighborhood: 1,
            ..shape
        },
    ];
    for (seed, shape) in (0..).zip(shapes) {
        run(shape, seed);
    }
}

#[test]
fn the_hop_range_is_enough_to_insert_and_the_lock_word_stays_right() {
    let layout = PoolLeafLayout::new(Geometry::default());
    let words = LockWordLayout::new(layout.span());
    seeds::each(200, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut whole = PoolLeaf::new(layout);
        let mut word = words.of_leaf(&whole);
        for _ in 0..80 {
            let key = rng.random_range(1..=u64::MAX).to_be_bytes();
            let home = layout::home(&key, layout.span());
            let Some(range) = words.hop_range(word, home) else {
                break;
            };
            let known = LeafSlotRange::new(home, range.count().max(8), layout.span());
            assert!(range.iter().any(|slot| whole.key(slot).is_none()));
            // The bytes that were not read are unknown.
            let mut fetched = PoolLeaf::new(layout);
            let segments = layout.with_metadata(known);
            let wire = whole.encode(&segments);
            let wire: Vec<&[u8]> = wire.iter().map(Vec::as_slice).collect();
            assert_eq!(fetched.decode(&segments, &wire), Ok(()));
            let Ok(inserted) = hopscotch::insert(&mut fetched, known, &key, &[7; 8]) else {
                continue;
            };
            let segments = layout.entries(inserted.written);
            let wire = fetched.encode(&segments);
            let wire: Vec<&[u8]> = wire.iter().map(Vec::as_slice).collect();
            assert_eq!(whole.decode(&segments, &wire), Ok(()));
            hopscotch::check_invariants(&whole);
            let is_empty = |slot| fetched.key(slot).is_none();
            word = words.after_write(word, inserted.written, known, is_empty);
            let max = whole.max_slot().expect("there is a key");
            word = words.with_max_slot(word, max);
            // A bucket that the word shows with an empty slot has one.
            let exact = words.of_leaf(&whole);
            for bucket in 0..words.buckets() {
                assert!(words.is_full(word, bucket) || !words.is_full(exact, bucket));
            }
            assert_eq!(words.max_slot(word), words.max_slot(exact));
        }
        assert!(whole.occupied().count() > 40);
    });
}

#[test]
fn a_key_that_moves_while_it_is_read_is_noticed() {
    let layout = PoolLeafLayout::new(Geometry::default());
    let mut rng = SmallRng::seed_from_u64(7);
    let mut noticed = 0;
    let mut leaf = PoolLeaf::new(layout);
    loop {
        let key = rng.random_range(1..=u64::MAX).to_be_bytes();
        let span = layout.span();
        let known = LeafSlotRange::new(layout::home(&key, span), span, span);
        let before = leaf.clone();
        if hopscotch::insert(&mut leaf, known, &key, &[1; 8]).is_err() {
            break;
        }
        // The reader sees the slot that a key leaves after the move, and the one that it moves to
        // before.
        for slot in before.occupied() {
            let moved = before.key(slot).expect("occupied");
            let NeighborhoodLookup::Found(target) = hopscotch::lookup(&leaf, moved) else {
                panic!("the key is still there");
            };
            if target == slot {
                continue;
            }
            let mut seen = leaf.clone();
            let old = layout.entries(LeafSlotRange::new(target, 1, span));
            let wire = before.encode(&old);
            let wire: Vec<&[u8]> = wire.iter().map(Vec::as_slice).collect();
            assert_eq!(seen.decode(&old, &wire), Ok(()));
            let home = layout::home(moved, span);
            let lookup = hopscotch::lookup(&seen, moved);
            let versions = (before.entry_versions(home), leaf.entry_versions(home));
            assert!(lookup == NeighborhoodLookup::Moved || versions.0 != versions.1);
            noticed += usize::from(lookup == NeighborhoodLookup::Moved);
        }
    }
    assert!(noticed > 5, "{noticed} moves");
}

/// Returns the leaf with a wrong bit in the hop bitmap of a slot.
fn with_wrong_bitmap(leaf: &PoolLeaf, slot: usize) -> PoolLeaf {
    let layout = leaf.layout();
    let segments = layout.entries(LeafSlotRange::new(slot, 1, layout.span()));
    let mut wire = leaf.encode(&segments).remove(0);
    wire[1] ^= 1;
    let mut wrong = leaf.clone();
    assert_eq!(wrong.decode(&segments, &[&wire]), Ok(()));
    wrong
}

#[test]
#[should_panic(expected = "the hop bitmap of slot 3")]
fn a_planted_fault_is_found() {
    let leaf = PoolLeaf::new(PoolLeafLayout::new(Geometry::default()));
    hopscotch::check_invariants(&leaf);
    hopscotch::check_invariants(&with_wrong_bitmap(&leaf, 3));
}
