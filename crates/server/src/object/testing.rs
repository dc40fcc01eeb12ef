//! Helpers that the containers' tests share.

use super::node::TieredObject;
use nearfield_tiers::cold::ColdTiers;
use nearfield_tiers::{Specification, Tiers};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Runs `test` for `count` seeds, or only for the one in `SEED`. Reports the seed that failed.
pub fn for_each_seed(count: u64, test: impl Fn(&mut SmallRng)) {
    let only = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut random = SmallRng::seed_from_u64(seed);
        let run = catch_unwind(AssertUnwindSafe(|| test(&mut random)));
        if let Err(panic) = run {
            eprintln!("failed with SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// Returns a random string of at most `length_max` bytes, usually a short one.
pub fn bytes(random: &mut SmallRng, length_max: usize) -> Vec<u8> {
    let length = match random.random_range(0..8) {
        0 => random.random_range(0..=length_max),
        _ => random.random_range(0..=length_max.min(20)),
    };
    (0..length).map(|_| random.random_range(0..4)).collect()
}

/// Creates a cold tier in compressed memory, which has number 1.
pub fn cold() -> Arc<ColdTiers> {
    let tiers = ["memory=1mb", "compressed=8mb"].map(|tier| tier.parse::<Specification>());
    let tiers = Tiers::open(&tiers.map(Result::unwrap)).unwrap();
    Arc::new(ColdTiers::new(Some(Arc::new(tiers))))
}

/// Moves some nodes of an object out of memory, and some back. Each node stays with the probability
/// `stays`.
pub fn shuffle(
    object: &mut impl TieredObject,
    stays: f64,
    cold: &Arc<ColdTiers>,
    random: &mut SmallRng,
) {
    for (number, place) in object.nodes() {
        if random.random_bool(stays) {
            continue;
        }
        let mut node = Vec::new();
        let hint = random.random_range(0..10);
        let copied = object.copy_node(number, hint, &mut node).unwrap();
        assert_eq!(copied.place(), place);
        let to = match place {
            Some(place) => {
                cold.read(place, &mut node).unwrap();
                None
            }
            // Nodes that cannot be compressed stay.
            None => match cold.put(1, &[&node]) {
                Ok(places) => Some(places[0]),
                Err(_) => continue,
            },
        };
        assert!(object.move_node(&copied, to, cold, &node).unwrap());
        // The node has moved, and is not where it was when it was copied.
        assert!(!object.move_node(&copied, None, cold, b"other").unwrap());
    }
}
