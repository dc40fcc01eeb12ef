//! Loads of modules when operations go to few keys.

use crate::device::{Model, ModuleDevice};
use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Number of modules of [`model`].
pub const MODULES: usize = 16;
/// Number of keys that [`load`] inserts.
pub const KEYS: u64 = 100_000;
/// Number of operations of a batch.
pub const BATCH: usize = 20_000;

/// Returns modelled modules.
pub fn model() -> Model {
    Model::new(MODULES, ModulePreset::UpmemMeasured.parameters())
}

/// Returns a key for a number. Keys are spread over the whole key space.
pub fn key(number: u64) -> u64 {
    number * (u64::MAX / KEYS)
}

/// Inserts all keys, each with its number.
pub fn load(index: &impl OrderedIndex<Words>) {
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.insert(key(number), number);
        if batch.len() == BATCH {
            index.execute(&mut batch).expect("executed");
            batch.clear();
        }
    }
}

/// Returns the numbers of the keys of a batch of reads of `count` adjacent keys.
fn reads(count: u64, seed: u64) -> Vec<u64> {
    let random = &mut SmallRng::seed_from_u64(seed);
    (0..BATCH)
        .map(|_| 30_000 + random.random_range(0..count))
        .collect()
}

/// Executes some batches of reads of `count` adjacent keys; `counters` returns [`words_sent`].
/// Returns for the last batch the words sent to the fullest module
/// divided by the average.
pub fn imbalance(
    index: &impl OrderedIndex<Words>,
    counters: impl Fn() -> (u64, f64),
    count: u64,
) -> f64 {
    let mut last = 0.0;
    for seed in 0..4 {
        let before = counters();
        let mut batch = Batch::<Words>::new();
        let numbers = reads(count, seed);
        for &number in &numbers {
            batch.get(key(number));
        }
        index.execute(&mut batch).expect("executed");
        for (position, &number) in numbers.iter().enumerate() {
            assert_eq!(batch.value(position), Some(number));
        }
        let after = counters();
        let average = after.1 - before.1;
        // The average may be 0, because modules get no tasks for keys of the host.
        last = (after.0 - before.0) as f64 / average.max(1.0);
    }
    last
}

/// Returns the words sent to the fullest module in each round, and the average of all modules,
/// summed over all rounds.
pub fn words_sent<D: ModuleDevice>(device: &D) -> (u64, f64) {
    let counters = device.counters();
    (counters.fullest_words, counters.average_words)
}
