//! The requests of a run: the same for all placements.

use super::bench::{AdmBench, Type};
use super::scale::AdmScale;
use crate::workload::{Gaussian, Permutation, Random, random};
use rand::RngExt;

/// The objects and requests of a run.
#[derive(Clone, Debug)]
pub(super) struct AdmWorkload {
    pub bench: AdmBench,
    pub kind: Type,
    /// The bytes of the fast memory.
    pub capacity: u64,
    /// Number of requests after which the hot set moves by two deviations.
    pub moves_after: Option<usize>,
    /// True if a set writes the whole value also of lists, sorted sets and hashes.
    pub sets_whole: bool,
    pub scale: AdmScale,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdmRequest {
    /// A read of the whole object.
    Get(usize),
    /// A write of a value of this size.
    Set(usize, u64),
    /// A write of one element of the object; the fraction selects it among all.
    SetElement(usize, f64),
}

const SIZES: u64 = 1;
const KEYS: u64 = 2;

impl AdmWorkload {
    pub(super) fn new(scale: &AdmScale, bench: AdmBench, kind: Type) -> AdmWorkload {
        let mut load = AdmWorkload {
            bench,
            kind,
            capacity: 0,
            moves_after: None,
            sets_whole: kind == Type::String,
            scale: scale.clone(),
        };
        load.capacity = load.part();
        load
    }

    /// Returns the bytes of the fast memory: its configured part of all objects.
    pub(super) fn part(&self) -> u64 {
        let values = self.values();
        let bytes: u64 = values.into_iter().map(|value| self.kind.bytes(value)).sum();
        (bytes as f64 * self.scale.capacity) as u64
    }

    /// Draws the size of each object's value at the beginning, by its key.
    pub(super) fn values(&self) -> Vec<u64> {
        let mut random = random(self.scale.seed, SIZES);
        let size = |_| random.random_range(1..=self.bench.bytes_max);
        (0..self.scale.objects).map(size).collect()
    }

    /// Returns all keys in the order in which they are loaded, which is independent of their
    /// hotness.
    pub(super) fn order(&self) -> Vec<usize> {
        let count = self.scale.objects as u64;
        let order = Permutation::new(count, self.scale.seed);
        (0..count).map(|place| order.at(place) as usize).collect()
    }

    /// Returns all keys, the hottest first.
    pub(super) fn by_heat(&self) -> Vec<usize> {
        // Draws are rounded down, so the middle of the keys is half a key lower.
        let middle = self.scale.objects as f64 / 2.0 - 0.5;
        let mut keys: Vec<usize> = (0..self.scale.objects).collect();
        keys.sort_by(|one, other| {
            let far = |key: &usize| (*key as f64 - middle).abs();
            far(one).total_cmp(&far(other))
        });
        keys
    }

    pub(super) fn requests(&self) -> AdmRequests<'_> {
        AdmRequests {
            load: self,
            keys: Gaussian::new(self.scale.objects as u64, self.scale.deviation),
            random: random(self.scale.seed, KEYS),
            number: 0,
        }
    }
}

/// Requests, one after the other.
#[derive(Debug)]
pub(super) struct AdmRequests<'l> {
    load: &'l AdmWorkload,
    keys: Gaussian,
    random: Random,
    number: usize,
}

impl Iterator for AdmRequests<'_> {
    type Item = AdmRequest;

    fn next(&mut self) -> Option<AdmRequest> {
        let load = self.load;
        if self.number >= load.scale.requests() {
            return None;
        }
        let moved = load.moves_after.map_or(0, |after| self.number / after);
        let by = 2.0 * load.scale.deviation * load.scale.objects as f64;
        let key = self.keys.draw(&mut self.random) as usize + moved * by as usize;
        // The hot set moves around all keys, behind the last one to the first again.
        let key = key % load.scale.objects;
        let is_set = self.number % 10 < load.bench.sets;
        self.number += 1;
        Some(match (is_set, load.sets_whole) {
            (false, _) => AdmRequest::Get(key),
            (true, true) => {
                AdmRequest::Set(key, self.random.random_range(1..=load.bench.bytes_max))
            }
            (true, false) => AdmRequest::SetElement(key, self.random.random()),
        })
    }
}
