//! Tests of the fill of leaves, and of the bytes that inserts read and write, on average: as
//! published of CHIME.

use nearfield_fabric::GlobalAddress;
use nearfield_pool::hopscotch::{self, NoRoom};
use nearfield_pool::layout::{
    Geometry, LeafSlotRange, LockWord, LockWordLayout, NodeSegments, PoolIndexShape, PoolLeaf,
    PoolLeafLayout,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// Number of slots of the default leaf.
const SPAN: usize = 64;
const NEIGHBORHOOD: usize = 8;

fn layout(leaf_span: usize, neighborhood: usize) -> PoolLeafLayout {
    let shape = PoolIndexShape {
        leaf_span,
        neighborhood,
        ..PoolIndexShape::default()
    };
    PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible"))
}

/// Returns the mean fill of leaves when the first random key finds no room.
fn load(layout: PoolLeafLayout, leaves: usize, rng: &mut SmallRng) -> f64 {
    let mut entries = 0;
    for _ in 0..leaves {
        let mut leaf = PoolLeaf::new(layout);
        loop {
            let key = rng.random_range(1..=u64::MAX).to_be_bytes();
            let known = layout.all_slots(&key);
            if hopscotch::insert(&mut leaf, known, &key, &[0; 8]).is_err() {
                break;
            }
        }
        entries += leaf.occupied().count();
    }
    entries as f64 / (leaves * layout.span()) as f64
}

#[test]
fn leaves_fill_as_far_as_published() {
    let mut rng = SmallRng::seed_from_u64(1);
    let neighborhoods = [2, 4, 6, 8, 10, 12, 14, 16];
    let table = [
        (64, [0.38, 0.69, 0.85, 0.94, 0.98, 0.995, 0.999, 1.0]),
        (128, [0.30, 0.62, 0.78, 0.87, 0.92, 0.96, 0.98, 0.99]),
    ];
    for (span, published) in table {
        for (neighborhood, published) in neighborhoods.into_iter().zip(published) {
            let load = load(layout(span, neighborhood), 1000, &mut rng);
            near(
                &format!("load of {span} slots, {neighborhood} near"),
                load,
                published,
                0.02,
            );
        }
    }
}

/// The leaves of a tree, by the least key that belongs into each, and the counts.
struct LoadTestLeaves {
    layout: PoolLeafLayout,
    words: LockWordLayout,
    leaves: BTreeMap<u64, (PoolLeaf, LockWord)>,
    inserts: u64,
    ranges: HopRangeTotals,
    splits: u64,
    split_load: f64,
    smaller_half: f64,
}

/// Sums over inserts that found room.
#[derive(Default)]
struct HopRangeTotals {
    count: usize,
    hop_range: SlotReadTotals,
    /// Hop ranges with at least the neighborhood, which an insert reads that may find its key.
    with_neighborhood: SlotReadTotals,
    /// The reads of the public implementation of CHIME: hop ranges that do not wrap but become the
    /// whole leaf, from the replica of the home's group on.
    public: SlotReadTotals,
    written: SlotReadTotals,
}

#[derive(Default)]
struct SlotReadTotals {
    slots: usize,
    bytes: usize,
    whole: usize,
    two_segments: usize,
}

impl SlotReadTotals {
    fn add(&mut self, slots: LeafSlotRange, segments: &NodeSegments) {
        self.slots += slots.count();
        self.bytes += segments.wire_bytes();
        self.whole += usize::from(slots.count() == SPAN);
        self.two_segments += usize::from(segments.count() == 2);
    }
}

impl LoadTestLeaves {
    fn new() -> LoadTestLeaves {
        let layout = layout(SPAN, NEIGHBORHOOD);
        let words = LockWordLayout::new(SPAN);
        LoadTestLeaves {
            layout,
            words,
            leaves: BTreeMap::from([(0, (PoolLeaf::new(layout), LockWord::default()))]),
            inserts: 0,
            ranges: HopRangeTotals::default(),
            splits: 0,
            split_load: 0.0,
            smaller_half: 0.0,
        }
    }

    fn insert(&mut self, number: u64) {
        self.inserts += 1;
        let key = number.to_be_bytes();
        let (&low, (leaf, word)) = self
            .leaves
            .range_mut(..=number)
            .next_back()
            .expect("a leaf");
        let known = self.layout.all_slots(&key);
        let range = self.words.hop_range(*word, known.first());
        match hopscotch::insert(leaf, known, &key, &[0; 8]) {
            Ok(inserted) => {
                *word = self.words.of_leaf(leaf);
                let range = range.expect("there was an empty slot");
                self.ranges.add(&self.layout, range, inserted.written);
            }
            Err(NoRoom) => {
                let full = leaf.occupied().count();
                let separator = hopscotch::split_key(leaf, &key);
                let mut right = hopscotch::split(leaf, &separator, GlobalAddress::NULL);
                let smaller = leaf.occupied().count().min(right.occupied().count());
                self.splits += 1;
                self.split_load += full as f64 / SPAN as f64;
                self.smaller_half += smaller as f64 / full as f64;
                let half = if key[..] < *separator {
                    &mut *leaf
                } else {
                    &mut right
                };
                let inserted = hopscotch::insert(half, known, &key, &[0; 8]);
                assert!(inserted.is_ok(), "there is room after the split");
                *word = self.words.of_leaf(leaf);
                let right_word = self.words.of_leaf(&right);
                let separator = separator.as_ref().try_into().map(u64::from_be_bytes);
                let separator = separator.expect("keys have 8 bytes");
                assert!(separator > low);
                self.leaves.insert(separator, (right, right_word));
            }
        }
    }

    fn occupancy(&self) -> f64 {
        self.inserts as f64 / (self.leaves.len() * SPAN) as f64
    }
}

impl HopRangeTotals {
    fn add(&mut self, layout: &PoolLeafLayout, range: LeafSlotRange, written: LeafSlotRange) {
        self.count += 1;
        self.hop_range.add(range, &layout.with_metadata(range));
        let home = range.first();
        let safe = LeafSlotRange::new(home, range.count().max(NEIGHBORHOOD), SPAN);
        self.with_neighborhood
            .add(safe, &layout.with_metadata(safe));
        let before = home % NEIGHBORHOOD;
        let public = match range.ranges() {
            (straight, None) => LeafSlotRange::new(home - before, straight.len() + before, SPAN),
            (_, Some(_)) => LeafSlotRange::new(home, SPAN, SPAN),
        };
        self.public.add(public, &layout.with_metadata(public));
        self.written.add(written, &layout.entries(written));
    }
}

/// Checks a number, and prints it next to the expected one.
fn near(name: &str, found: f64, expected: f64, tolerance: f64) {
    println!("{name}: {found:.3}, expected {expected}");
    assert!((found - expected).abs() <= tolerance, "{name}: {found}");
}

#[test]
fn random_inserts_split_read_and_write_as_published() {
    let mut leaves = LoadTestLeaves::new();
    let mut rng = SmallRng::seed_from_u64(2);
    for _ in 0..120_000 {
        leaves.insert(rng.random_range(1..=u64::MAX));
    }
    let splits = leaves.splits as f64;
    near("load at splits", leaves.split_load / splits, 0.88, 0.01);
    near(
        "splits for each insert",
        splits / leaves.inserts as f64,
        0.026,
        0.001,
    );
    near(
        "share of the smaller half",
        leaves.smaller_half / splits,
        0.416,
        0.01,
    );
    near("load", leaves.occupancy(), 0.594, 0.01);

    let ranges = &leaves.ranges;
    let mean = |sum: usize| sum as f64 / ranges.count as f64;
    near("slots written", mean(ranges.written.slots), 4.2, 0.1);
    near("bytes written", mean(ranges.written.bytes), 87.0, 3.0);
    near(
        "written in two",
        mean(ranges.written.two_segments),
        0.05,
        0.005,
    );
    near("slots read by CHIME", mean(ranges.public.slots), 10.1, 0.3);
    near("bytes read by CHIME", mean(ranges.public.bytes), 211.0, 6.0);
    near(
        "leaves read by CHIME",
        mean(ranges.public.whole),
        0.055,
        0.005,
    );
    // Our ranges wrap, and extend to the nearest replica only if they contain none.
    near(
        "slots of hop ranges",
        mean(ranges.hop_range.slots),
        4.4,
        0.1,
    );
    near(
        "bytes of hop ranges",
        mean(ranges.hop_range.bytes),
        116.0,
        3.0,
    );
    near(
        "bytes of neighborhood and hop range",
        mean(ranges.with_neighborhood.bytes),
        186.0,
        3.0,
    );
    assert!(mean(ranges.hop_range.whole) < 0.001);
}

#[test]
fn ascending_inserts_leave_leaves_half_empty() {
    let mut leaves = LoadTestLeaves::new();
    (1..=60_000).for_each(|number| leaves.insert(number));
    near("load", leaves.occupancy(), 0.474, 0.01);
}
