//! The steps of a model test, drawn from one seed.

use super::request::{OwnedOperation, OwnedScan, State};
use crate::keys::{self, Random, SampleForm, choose};
use nearfield_core::{ByteStrings, EntryForm, ScanDirection};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};
use std::ops::Bound;

/// One step of a scenario.
#[derive(Clone, Debug)]
pub(crate) enum ScenarioStep<F: EntryForm> {
    /// A batch to execute.
    Batch(Vec<OwnedOperation<F>>),
    /// A call of the trait's method for a single point operation.
    Single(OwnedOperation<F>),
    /// A call of the caller's hook with a random number.
    Between(u64),
    /// A scan of everything in both directions, and a check of the invariants.
    Inspect,
}

impl ScenarioStep<ByteStrings> {
    /// Shortens keys to at most `key_bytes_max` bytes, except those that every index refuses.
    pub(crate) fn shorten_keys(&mut self, key_bytes_max: usize) {
        match self {
            ScenarioStep::Batch(requests) => {
                for request in requests {
                    request.shorten_keys(key_bytes_max);
                }
            }
            ScenarioStep::Single(request) => request.shorten_keys(key_bytes_max),
            ScenarioStep::Between(_) | ScenarioStep::Inspect => {}
        }
    }
}

/// The greatest number of key and value bytes of a scenario. With long keys a scenario so has fewer
/// steps.
const BYTES_MAX: usize = 4 << 20;

/// The greatest number of scans without a limit, because each of them reads all entries.
const UNLIMITED_SCANS_MAX: usize = 40;

/// Draws the steps of a scenario.
pub(crate) fn draw<F: SampleForm>(seed: u64) -> Vec<ScenarioStep<F>> {
    let mut random = keys::random(seed);
    // Mostly short, because many short scenarios combine more operations in the same time than few
    // long ones. A tree with several levels needs a long one.
    let operations: usize = match random.random_range(0..100) {
        0..70 => random.random_range(1..400),
        70..95 => random.random_range(400..4000),
        _ => random.random_range(4000..20_000),
    };
    Scenario::<F>::new(random).draw(operations)
}

struct Scenario<F: EntryForm> {
    random: Random,
    keys: Vec<F::OwnedKey>,
    /// The positions in `keys` of the keys used last.
    recent: Vec<usize>,
    /// Skew of the use of keys: with greater values the first keys are used more often than the
    /// last ones; 1 is uniform.
    skew: f64,
    /// Probability that a recent key is used again.
    repeat: f64,
    /// Probability that a key is replaced with one nearby.
    stray: f64,
    /// Probability that a key is too long.
    oversized: f64,
    /// Relative frequencies in the order of the variants of [`OwnedOperation`]. Some are zero,
    /// because some faults show only without some of the operations.
    mix: [u32; 8],
    batch_size_max: usize,
    singles: f64,
    /// Values to draw from; if empty, values are random.
    values: Vec<F::OwnedValue>,
    /// The entries after the requests so far, so that updates can be drawn that apply.
    state: State<F>,
    bytes_left: usize,
    unlimited_scans_left: usize,
}

impl<F: SampleForm> Scenario<F> {
    fn new(mut random: Random) -> Self {
        let kind = *choose(F::KINDS, &mut random);
        let key_count = *choose(&[1, 3, 10, 40, 200, 1000, 6000], &mut random);
        let value_count = *choose(&[0, 0, 1, 3], &mut random);
        let mut mix = [(); 8].map(|()| match random.random_range(0..4) {
            0 => 0,
            _ => random.random_range(1..=8),
        });
        // Without any weight no operation could be drawn.
        if mix == [0; 8] {
            mix = [1; 8];
        }
        Scenario {
            keys: F::keys(kind, key_count, &mut random),
            recent: vec![0; 8],
            skew: *choose(&[1.0, 1.0, 3.0, 10.0], &mut random),
            repeat: *choose(&[0.0, 0.1, 0.6], &mut random),
            stray: *choose(&[0.0, 0.05, 0.3], &mut random),
            oversized: *choose(&[0.0, 0.0, 0.0, 0.01], &mut random),
            mix,
            batch_size_max: *choose(&[1, 5, 60, 600, 4000], &mut random),
            singles: *choose(&[0.0, 0.1, 0.5, 0.9], &mut random),
            values: (0..value_count)
                .map(|_| F::any_value(&mut random))
                .collect(),
            state: State::<F>::new(),
            bytes_left: BYTES_MAX,
            unlimited_scans_left: UNLIMITED_SCANS_MAX,
            random,
        }
    }

    fn draw(mut self, operations: usize) -> Vec<ScenarioStep<F>> {
        let mut steps = Vec::new();
        if self.random.random_bool(0.5) {
            steps.push(self.fill());
        }
        let mut left = operations;
        // Empty batches count as one operation below, so that the loop ends.
        while left > 0 && self.bytes_left > 0 {
            match self.random.random_range(0..20) {
                0 => steps.push(ScenarioStep::Inspect),
                1 => steps.push(ScenarioStep::Between(self.random.next_u64())),
                2 => {
                    let requests = self.ascend(left);
                    left -= requests.len().max(1);
                    steps.push(ScenarioStep::Batch(requests));
                }
                _ if self.random.random_bool(self.singles) => {
                    let request = self.request();
                    steps.push(match request {
                        // The trait has no single calls for these.
                        OwnedOperation::Predecessor(_)
                        | OwnedOperation::Successor(_)
                        | OwnedOperation::Scan(_) => ScenarioStep::Batch(vec![request]),
                        _ => ScenarioStep::Single(request),
                    });
                    left -= 1;
                }
                _ => {
                    let size = self.batch_size().min(left);
                    steps.push(ScenarioStep::Batch(
                        (0..size).map(|_| self.request()).collect(),
                    ));
                    left -= size.max(1);
                }
            }
        }
        // Writes that no later operation looks at show here.
        steps.push(ScenarioStep::Inspect);
        steps
    }

    /// Returns a step that inserts all keys, in ascending or random order.
    fn fill(&mut self) -> ScenarioStep<F> {
        let mut keys = self.keys.clone();
        // In order, all splits are at one end of the index.
        match self.random.random_range(0..3) {
            0 => keys.sort(),
            1 => keys.sort_by(|left, right| right.cmp(left)),
            _ => keys.shuffle(&mut self.random),
        }
        let insert = |key| {
            let value = self.value();
            self.account(OwnedOperation::Insert(key, value))
        };
        ScenarioStep::Batch(keys.into_iter().map(insert).collect())
    }

    /// Returns a batch that inserts adjacent keys in ascending order, with at most a few left out,
    /// followed by other requests.
    fn ascend(&mut self, left: usize) -> Vec<OwnedOperation<F>> {
        let mut sorted = self.keys.clone();
        sorted.sort();
        let start = self.random.random_range(0..sorted.len());
        let count = self.batch_size().min(left);
        let kept = *choose(&[1.0, 0.9, 0.3], &mut self.random);
        let mut requests = Vec::with_capacity(count);
        for key in sorted.into_iter().skip(start).take(count) {
            if self.random.random_bool(kept) {
                let value = self.value();
                requests.push(self.account(OwnedOperation::Insert(key, value)));
            }
        }
        let others = self.random.random_range(0..=count - requests.len());
        for _ in 0..others {
            requests.push(self.request());
        }
        requests
    }

    fn batch_size(&mut self) -> usize {
        let size_max = *choose(&[0, 1, 5, 60, 600, 4000], &mut self.random);
        let size_max = self.batch_size_max.min(size_max);
        self.random.random_range(size_max / 2..=size_max)
    }

    fn request(&mut self) -> OwnedOperation<F> {
        let key = self.key();
        let request = match self.variant() {
            0 => OwnedOperation::Get(key),
            1 => OwnedOperation::Insert(key, self.value()),
            2 => {
                let previous = self.previous(&key);
                OwnedOperation::Update(key, previous, self.value())
            }
            3 => OwnedOperation::Remove(key),
            4 => {
                let expected = self.previous(&key).unwrap_or_else(|| self.value());
                OwnedOperation::RemoveIf(key, expected)
            }
            5 => OwnedOperation::Predecessor(key),
            6 => OwnedOperation::Successor(key),
            _ => OwnedOperation::Scan(self.scan(key)),
        };
        self.account(request)
    }

    fn variant(&mut self) -> usize {
        debug_assert!(self.mix.iter().any(|&weight| weight > 0));
        let mut rest = self.random.random_range(0..self.mix.iter().sum());
        for (variant, &weight) in self.mix.iter().enumerate() {
            if rest < weight {
                return variant;
            }
            rest -= weight;
        }
        unreachable!("the rest is less than the sum of all weights")
    }

    /// Tracks the request's effect and cost.
    fn account(&mut self, request: OwnedOperation<F>) -> OwnedOperation<F> {
        let keys = request.keys().map(|key| F::key_bytes(F::key(key)));
        let values = request
            .values()
            .map(|value| F::value_bytes(F::value(value)));
        let bytes = keys.chain(values).sum();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if matches!(
            request,
            OwnedOperation::Insert(..)
                | OwnedOperation::Update(..)
                | OwnedOperation::Remove(_)
                | OwnedOperation::RemoveIf(..)
        ) {
            request.expected(&mut self.state);
        }
        request
    }

    fn key(&mut self) -> F::OwnedKey {
        if self.random.random_bool(self.oversized)
            && let Some(key) = F::oversized_key(&mut self.random)
        {
            return key;
        }
        // Operations on one key in a row meet each other within a batch.
        let position = if self.random.random_bool(self.repeat) {
            *choose(&self.recent, &mut self.random)
        } else {
            let fraction = self.random.random::<f64>().powf(self.skew);
            (fraction * self.keys.len() as f64) as usize
        };
        let slot = self.random.random_range(0..self.recent.len());
        self.recent[slot] = position;
        let key = &self.keys[position];
        if self.random.random_bool(self.stray) {
            F::near(F::key(key), &mut self.random)
        } else {
            key.clone()
        }
    }

    fn value(&mut self) -> F::OwnedValue {
        match self.values.choose(&mut self.random) {
            Some(value) => value.clone(),
            None => F::any_value(&mut self.random),
        }
    }

    /// Returns mostly the value that the key has, otherwise another one or `None`.
    fn previous(&mut self, key: &F::OwnedKey) -> Option<F::OwnedValue> {
        match self.random.random_range(0..6) {
            0 => None,
            1 => Some(self.value()),
            _ => self.state.get(key).cloned(),
        }
    }

    fn scan(&mut self, key: F::OwnedKey) -> OwnedScan<F> {
        let mut ends = [key, self.key()];
        // A range that ends before it begins must be empty, so some stay as they are.
        if self.random.random_bool(0.85) {
            ends.sort();
        }
        let [low, high] = ends;
        OwnedScan {
            low: self.bound(low),
            high: self.bound(high),
            limit: self.limit(),
            direction: *choose(
                &[ScanDirection::Ascending, ScanDirection::Descending],
                &mut self.random,
            ),
        }
    }

    fn bound(&mut self, key: F::OwnedKey) -> Bound<F::OwnedKey> {
        match self.random.random_range(0..6) {
            0 => Bound::Unbounded,
            1..4 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    fn limit(&mut self) -> u32 {
        match self.random.random_range(0..20) {
            0 => 0,
            1..4 => 1,
            4..6 if self.unlimited_scans_left > 0 => {
                self.unlimited_scans_left -= 1;
                // These limits find a scan that ends one entry too early or too late.
                let len = self.state.len() as u32;
                *choose(&[u32::MAX, u32::MAX, len, len + 1], &mut self.random)
            }
            6..9 => self.random.random_range(10..100),
            _ => self.random.random_range(2..10),
        }
    }
}
