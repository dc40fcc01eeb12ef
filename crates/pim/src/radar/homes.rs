//! The choice of modules for new subranges.

use super::{RadarHost, RadarOptions, SubrangePlacement};
use crate::device::ModuleDevice;
use crate::dispatch::directory::PartitionDirectory;
use crate::dispatch::routing::BatchRouting;
use nearfield_core::{BatchInput, IndexOperation, Words};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// Divisor of a module's fair load. A new subrange with more writes in the batch than this share
/// goes to the least loaded module. Others are placed by numbers of keys, which have a longer
/// effect.
const SHARE: u64 = 4;

impl<D: ModuleDevice> RadarHost<D> {
    /// Chooses modules for new subranges that will receive many writes of the batch. A batch that
    /// inserts into an empty range has all its load there. Takes O(n) for n operations.
    pub(super) fn find_homes(&mut self, input: BatchInput<'_, Words>, requests: &BatchRouting) {
        if !self.options.isolates {
            return;
        }
        let modules = self.device.modules();
        let mut weights: HashMap<u64, u64> = HashMap::new();
        for (position, operation) in input.operations().iter().enumerate() {
            let key = match *operation {
                IndexOperation::Insert { key, .. } => key,
                IndexOperation::Update { key, previous, .. }
                    if input.previous(previous).is_none() =>
                {
                    key
                }
                _ => continue,
            };
            if requests.place(position, key, &self.directory).is_none() {
                let (start, _) = fresh(&self.directory, &self.options, modules, key);
                *weights.entry(start).or_default() += 1;
            }
        }
        let all = weights.values().chain(&self.loads).sum::<u64>();
        let mut weights: Vec<(u64, u64)> = weights.into_iter().collect();
        // Few new subranges have a great share, and only these are worth the search for idle
        // modules.
        weights.retain(|(_, weight)| weight * SHARE * modules as u64 > all);
        if weights.is_empty() {
            return;
        }
        weights.sort_unstable_by_key(|&(start, weight)| (Reverse(weight), start));
        let mean = self.keys.iter().sum::<u64>() / (self.directory.len() as u64).max(1);
        let of_module = |module: usize| {
            let load = self.loads.get(module).copied().unwrap_or(0);
            Reverse((load, self.keys[module], module))
        };
        let has_room = |module: &usize| !self.full.contains(module);
        let mut idle: BinaryHeap<Reverse<(u64, u64, usize)>> =
            (0..modules).filter(has_room).map(of_module).collect();
        for (start, weight) in weights {
            let Some(Reverse((load, keys, module))) = idle.pop() else {
                return;
            };
            self.homes.insert(start, module);
            // The weight counts at once, so that the next hot subrange goes to another module.
            idle.push(Reverse((load + weight, keys + mean.max(1), module)));
        }
    }
}

/// Returns a subrange for a key without one: the largest of the possible sizes that overlaps no
/// other subrange. Possible are the initial size and those after divisions.
pub(super) fn fresh(
    directory: &PartitionDirectory,
    options: &RadarOptions,
    modules: usize,
    key: u64,
) -> (u64, u64) {
    let mut bits = options.coarsest(modules);
    loop {
        // The coarsest subrange may be the whole key space, whose size exceeds 64 bits.
        let size = 1_u128 << bits;
        let start = (u128::from(key) / size * size) as u64;
        let last = start + (size - 1) as u64;
        let overlaps = directory.overlaps(start, last);
        if !overlaps || bits == 0 {
            debug_assert!(!overlaps, "the key has a subrange");
            debug_assert!((start..=last).contains(&key));
            return (start, last);
        }
        // With division by load, parts can have any power of two as size.
        let step = match options.isolates {
            true => 1,
            false => options.fanout.trailing_zeros(),
        };
        bits = bits.saturating_sub(step);
    }
}

/// Returns the module for a subrange. Avoids modules that are known to be full.
pub(super) fn place(
    start: u64,
    placement: SubrangePlacement,
    keys: &[u64],
    full: &BTreeSet<usize>,
) -> usize {
    let hash = |seed: u64| {
        let mixed = (start ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((mixed ^ mixed >> 29) as u32 as u64 * keys.len() as u64) >> 32) as usize
    };
    let one = hash(1);
    let choices = match placement {
        SubrangePlacement::Hash => return one,
        SubrangePlacement::Emptiest(choices) => choices as u64,
    };
    let chosen = (1..=choices).map(hash);
    let chosen = chosen.filter(|module| !full.contains(module));
    let others = (0..keys.len()).filter(|module| !full.contains(module));
    // The choices are hashed, so that one subrange always has the same few modules, and the
    // emptiest module does not take all new ones.
    let emptiest = chosen.min_by_key(|&module| keys[module]);
    emptiest
        .or_else(|| others.min_by_key(|&module| keys[module]))
        .unwrap_or(one)
}
