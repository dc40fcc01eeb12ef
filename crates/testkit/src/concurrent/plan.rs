//! The shared plan of the threads of a concurrent test.

use super::{ConcurrentTestConfig, draw_size};
use crate::keys::{Random, SampleForm, choose};
use nearfield_core::EntryForm;
use rand::RngExt;

/// The keys of a concurrent test, and the rates at which the threads use them. A key's number is
/// its position in the order of keys.
#[derive(Debug)]
pub(crate) struct ConcurrentKeyPlan<F: EntryForm> {
    /// All keys in order. Keys with odd numbers are stable.
    pub(crate) keys: Vec<F::OwnedKey>,
    pub(crate) batch_size_max: usize,
    /// Probability that an operation is not in a batch.
    pub(crate) singles: f64,
    /// Probability that a batch has a scan, predecessor or successor.
    pub(crate) ordered: f64,
    /// Probability that a thread yields to others before a step.
    pub(crate) yields: f64,
    /// Relative frequencies of get, insert, update, remove and conditional remove.
    pub(crate) mix: [u32; 5],
}

/// The writer number of the values that exist before the threads begin.
const NO_WRITER: u64 = 255;

impl<F: SampleForm> ConcurrentKeyPlan<F> {
    pub(crate) fn draw(config: &ConcurrentTestConfig, random: &mut Random) -> Self {
        let kind = *choose(F::KINDS, random);
        // One stable key for each contended one.
        let key_count = 2 * draw_size(config.keys_max, random);
        let mut keys = F::keys(kind, key_count, random);
        keys.sort();
        debug_assert!(
            keys.is_sorted_by(|left, right| left < right),
            "keys are distinct"
        );
        let mut mix = [(); 5].map(|()| random.random_range(0..6));
        // Without inserts the contended keys would stay absent.
        mix[1] += 1;
        ConcurrentKeyPlan {
            keys,
            batch_size_max: draw_size(config.batch_size_max, random),
            singles: *choose(&[0.0, 0.5, 0.95], random),
            ordered: *choose(&[0.0, 0.1, 0.5], random),
            yields: *choose(&[0.0, 0.01, 0.2], random),
            mix,
        }
    }

    /// Returns a key that the threads write.
    pub(crate) fn contended_key(&self, random: &mut Random) -> usize {
        2 * random.random_range(0..self.keys.len().div_ceil(2))
    }

    /// Returns any key.
    pub(crate) fn any_key(&self, random: &mut Random) -> usize {
        random.random_range(0..self.keys.len())
    }

    pub(crate) fn key(&self, number: usize) -> F::Key<'_> {
        F::key(&self.keys[number])
    }

    /// Returns the value that a stable key has from the beginning; `None` for contended keys, which
    /// are absent.
    pub(crate) fn stable_value(&self, number: usize) -> Option<u64> {
        (number % 2 == 1).then(|| value_number(number, NO_WRITER, 0))
    }
}

/// Returns the number of the value that `writer` writes to a key in its operation `sequence`.
pub(crate) fn value_number(key: usize, writer: u64, sequence: u64) -> u64 {
    debug_assert!(writer < 1 << 8 && sequence < 1 << 16);
    (key as u64) << 24 | writer << 16 | sequence
}

/// Returns the key of a value's number.
pub(crate) fn value_key(number: u64) -> usize {
    (number >> 24) as usize
}
