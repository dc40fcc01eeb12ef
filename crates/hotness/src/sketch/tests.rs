use super::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;

/// Mixes a number into a hash (the finalizer of SplitMix64).
fn hash(key: u64) -> u64 {
    let z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Generator of keys 0, 1, 2, … with frequencies that fall as 1 / (key + 1)^exponent.
struct SketchZipfKeys {
    cumulative: Vec<f64>,
    random: SmallRng,
}

impl SketchZipfKeys {
    fn new(keys: usize, exponent: f64, seed: u64) -> Self {
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-exponent));
        let cumulative = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let random = SmallRng::seed_from_u64(seed);
        SketchZipfKeys { cumulative, random }
    }

    fn draw(&mut self) -> u64 {
        let total = self.cumulative[self.cumulative.len() - 1];
        let point = self.random.random_range(0.0..total);
        self.cumulative.partition_point(|&sum| sum <= point) as u64
    }
}

#[test]
fn a_lone_key_is_counted_exactly_until_saturated() {
    let sketch = FrequencySketch::with_bytes(4096);
    for count in 1..=FrequencySketch::MAX_ESTIMATE {
        assert_eq!(sketch.record(hash(1)), count);
        assert_eq!(sketch.estimate(hash(1)), count);
    }
    for _ in 0..10 * ADDITIONS_PER_HALVING {
        assert_eq!(sketch.record(hash(1)), FrequencySketch::MAX_ESTIMATE);
    }
}

#[test]
fn estimates_are_never_too_low_before_a_halving() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let sketch = FrequencySketch::with_bytes(64);
        let mut counts = [0_u8; 20];
        for _ in 1..ADDITIONS_PER_HALVING {
            let key = random.random_range(0..counts.len());
            counts[key] = (counts[key] + 1).min(FrequencySketch::MAX_ESTIMATE);
            assert!(
                sketch.record(hash(key as u64)) >= counts[key],
                "seed {seed}"
            );
        }
        for (key, &count) in counts.iter().enumerate() {
            assert!(sketch.estimate(hash(key as u64)) >= count, "seed {seed}");
        }
    }
}

#[test]
fn a_block_halves_after_its_additions() {
    let sketch = FrequencySketch::with_bytes(64);
    let block = &sketch.blocks[0];
    for _ in 0..13 {
        sketch.record(hash(1));
    }
    block.additions.store(ADDITIONS_PER_HALVING - 1, Relaxed);
    assert_eq!(sketch.record(hash(1)), 14);
    assert_eq!(sketch.estimate(hash(1)), 7);
    assert_eq!(block.additions.load(Relaxed), 0);
}

#[test]
fn halving_keeps_counters_apart() {
    let block = SketchBlock::default();
    for word in &block.counters {
        word.store(0xfedc_ba98_7654_3210, Relaxed);
    }
    block.halve();
    for word in &block.counters {
        assert_eq!(word.load(Relaxed), 0x7766_5544_3322_1100);
    }
}

#[test]
fn what_was_hot_cools_down() {
    let sketch = FrequencySketch::with_bytes(64);
    for _ in 0..FrequencySketch::MAX_ESTIMATE {
        sketch.record(hash(0));
    }
    for key in 1..5 * ADDITIONS_PER_HALVING {
        sketch.record(hash(key));
    }
    let others = sketch.estimate(hash(u64::MAX));
    assert!(sketch.estimate(hash(0)) <= others + 1);
}

/// Returns the share of `keys` with an estimate of at least `threshold`.
fn share_at_least(sketch: &FrequencySketch, keys: Range<u64>, threshold: u8) -> f64 {
    let count = (keys.end - keys.start) as f64;
    let hot = keys.filter(|&key| sketch.estimate(hash(key)) >= threshold);
    hot.count() as f64 / count
}

/// The sketch has 8 bytes for each of 8192 hot keys among a million.
#[test]
fn hot_keys_stand_out_under_zipf() {
    const HOT_KEYS: u64 = 8192;
    const KEYS: u64 = 1_000_000;
    let sketch = FrequencySketch::with_bytes(HOT_KEYS as usize * 8);
    let mut zipf = SketchZipfKeys::new(KEYS as usize, 0.99, 7);
    for _ in 0..4_000_000 {
        sketch.record(hash(zipf.draw()));
    }
    let hottest = share_at_least(&sketch, 0..HOT_KEYS / 16, 4);
    let hot = share_at_least(&sketch, 0..HOT_KEYS, 4);
    let cold = share_at_least(&sketch, KEYS / 2..KEYS, 4);
    println!("at or above 4: hottest {hottest:.3}, hot {hot:.3}, cold {cold:.3}");
    assert!(hottest > 0.99, "{hottest}");
    assert!(hot > 0.7, "{hot}");
    assert!(cold < 0.05, "{cold}");
}

#[test]
fn a_new_hot_set_replaces_the_old_one() {
    let sketch = FrequencySketch::with_bytes(8192);
    let mut zipf = SketchZipfKeys::new(100_000, 0.99, 11);
    for _ in 0..200_000 {
        sketch.record(hash(zipf.draw()));
    }
    assert!(share_at_least(&sketch, 0..64, 8) > 0.9);

    let moved = 1 << 32;
    for _ in 0..200_000 {
        sketch.record(hash(moved + zipf.draw()));
    }
    assert!(share_at_least(&sketch, moved..moved + 64, 8) > 0.9);
    assert!(share_at_least(&sketch, 0..64, 8) < 0.05);
}

#[test]
fn memory_stays_within_the_budget() {
    for budget in [64, 65, 127, 128, 1000, 4096, 1 << 20] {
        let sketch = FrequencySketch::with_bytes(budget);
        assert!(sketch.bytes() <= budget);
        assert!(sketch.bytes() + 64 > budget);
    }
    assert_eq!(FrequencySketch::with_bytes(0).bytes(), 64);
}

#[test]
fn every_block_is_used_and_no_index_is_out_of_range() {
    let sketch = FrequencySketch::with_bytes(100 * 64);
    for key in 0..10_000 {
        sketch.record(hash(key));
    }
    sketch.record(0);
    sketch.record(u64::MAX);
    for block in &sketch.blocks {
        assert!(block.counters.iter().any(|word| word.load(Relaxed) != 0));
    }
}

/// Additions may be lost, but the order of hot and cold keys is kept, and no neighbour's counter
/// changes.
#[test]
fn threads_share_a_sketch() {
    let sketch = FrequencySketch::with_bytes(8192);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let sketch = &sketch;
            scope.spawn(move || {
                let mut zipf = SketchZipfKeys::new(100_000, 0.99, seed);
                for _ in 0..100_000 {
                    sketch.record(hash(zipf.draw()));
                }
            });
        }
    });
    assert!(share_at_least(&sketch, 0..64, 8) > 0.9);
    assert!(share_at_least(&sketch, 50_000..100_000, 8) < 0.05);
}
