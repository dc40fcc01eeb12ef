//! The model test: an index returns for any operations what a `BTreeMap` returns.
//!
//! One seed determines a scenario: keys of one kind, a mix of operations of which some may be left
//! out, batches of 0 to thousands of operations with more or fewer duplicate keys, and single
//! operations in between. A `BTreeMap` executes the same operations one by one, and every outcome
//! and the length are compared after each step; occasionally all entries are scanned in both
//! directions and the index checks its invariants. A scenario that fails is shrunk by removing and
//! simplifying irrelevant parts, and then printed as Rust source.

mod reference;
pub(crate) mod request;
mod run;
pub(crate) mod scenario;
mod show;
pub(crate) mod shrink;

pub use reference::Reference;
#[cfg(test)]
pub(crate) use reference::write;

use crate::keys::SampleForm;
use crate::seeds;
use nearfield_core::{ByteStrings, OrderedIndex};
use run::attempt;
use shrink::{FailingScenario, shrink};

/// Runs the model test with `seeds` seeds on indexes from `build`.
///
/// `build` receives the seed, so that it can draw options from it, and must build the same empty
/// index for the same seed. In the environment, `NEARFIELD_SEEDS` replaces the number of seeds, and
/// `NEARFIELD_SEED` runs one of them.
///
/// # Panics
/// If an index differs from sequential execution or panics. The message has the command that
/// replays the seed, and the smallest steps found that fail.
#[track_caller]
pub fn check<F: SampleForm, I: OrderedIndex<F>>(seeds: u64, build: impl FnMut(u64) -> I) {
    check_with(seeds, build, |_, _| {});
}

/// Runs the model test as [`check`] does, and calls `between` with the index and a random number at
/// random moments between steps, to switch options of the index or to start background work.
///
/// # Panics
/// As for [`check`].
#[track_caller]
pub fn check_with<F: SampleForm, I: OrderedIndex<F>>(
    seeds: u64,
    mut build: impl FnMut(u64) -> I,
    mut between: impl FnMut(&I, u64),
) {
    let failure = seeds::first_failure(seeds, |seed| {
        find::<F, I>(seed, &mut build, &mut between).map_or(Ok(()), Err)
    });
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

/// Runs the model test as [`check`] does, for an index that refuses keys of more than
/// `key_bytes_max` bytes. Longer keys are cut to this length.
///
/// # Panics
/// As for [`check`].
#[track_caller]
pub fn check_short<I: OrderedIndex<ByteStrings>>(
    seeds: u64,
    key_bytes_max: usize,
    mut build: impl FnMut(u64) -> I,
) {
    let failure = seeds::first_failure(seeds, |seed| {
        // Cut after the draw, so that a seed draws the same steps for every limit.
        let mut steps = scenario::draw::<ByteStrings>(seed);
        for step in &mut steps {
            step.shorten_keys(key_bytes_max);
        }
        find_in(steps, seed, &mut build, &mut |_, _| {}).map_or(Ok(()), Err)
    });
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

/// Returns the smallest failing case that is found, if the scenario of the seed fails.
pub(crate) fn find<F: SampleForm, I: OrderedIndex<F>>(
    seed: u64,
    build: &mut dyn FnMut(u64) -> I,
    between: &mut dyn FnMut(&I, u64),
) -> Option<FailingScenario<F>> {
    find_in(scenario::draw::<F>(seed), seed, build, between)
}

/// Returns the smallest failing case that is found, if these steps fail.
fn find_in<F: SampleForm, I: OrderedIndex<F>>(
    steps: Vec<scenario::ScenarioStep<F>>,
    seed: u64,
    build: &mut dyn FnMut(u64) -> I,
    between: &mut dyn FnMut(&I, u64),
) -> Option<FailingScenario<F>> {
    let failure = attempt(&steps, || build(seed), between).err()?;
    let failing = FailingScenario { steps, failure };
    // Each try builds the index from the seed of the failure, and so with the same options.
    Some(shrink(failing, |steps| {
        attempt(steps, || build(seed), between)
    }))
}
