//! The requests of subranges in the last batches.

use super::features::{Features, STEPS, Sequence};
use crate::structures::hash::mix;
use std::collections::HashMap;

/// A subrange with requests in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubrangeRequests {
    /// First and last key of the subrange.
    pub start: u64,
    pub last: u64,
    /// Number of keys before the batch.
    pub keys: u64,
    /// The number of requests.
    pub hotness: u32,
}

/// The history of each subrange: its features in the last batches with requests for it.
#[derive(Debug)]
pub struct HotnessHistory {
    /// Number of batches of a window.
    window: u64,
    records: HashMap<u64, Record>,
}

/// A ring of batches with requests for a subrange, and its features in them. Place n holds the last
/// of the batches n, n + [`STEPS`] and so on.
type Record = [Option<(u64, Features)>; STEPS];

impl HotnessHistory {
    pub fn new(window: u64) -> HotnessHistory {
        HotnessHistory {
            window: window.max(1),
            records: HashMap::new(),
        }
    }

    /// Returns the features of a subrange in the batches before `batch`. `keys` is its number of
    /// keys, for a subrange without history.
    pub fn before(&self, start: u64, batch: u64, keys: u64) -> Sequence {
        let record = self.records.get(&start).copied().unwrap_or_default();
        let known = || record.iter().flatten();
        let latest = known().max_by_key(|(then, _)| then);
        let keys = latest.map_or(keys, |(_, features)| features.keys);
        let mut sequence = Sequence::default();
        for (step, features) in sequence.iter_mut().enumerate() {
            let Some(then) = (batch + step as u64).checked_sub(STEPS as u64) else {
                let lifetime = u32::MAX;
                *features = Features {
                    lifetime,
                    keys,
                    ..Features::default()
                };
                continue;
            };
            let exact = known().find(|(other, _)| *other == then);
            *features = exact.map_or_else(
                || Features {
                    lifetime: self.lifetime(&record, then),
                    keys,
                    ..Features::default()
                },
                |(_, features)| *features,
            );
        }
        sequence
    }

    /// Returns the number of windows between a batch without requests and the last request before
    /// it.
    fn lifetime(&self, record: &Record, batch: u64) -> u32 {
        let window = |batch: u64| (batch / self.window) as u32;
        let known = || record.iter().flatten();
        let earlier = known().filter(|(then, _)| *then < batch);
        let later = known().filter(|(then, _)| *then > batch);
        // The record of an earlier request may be overwritten. Then the lifetime follows from the
        // oldest later batch.
        match later.min_by_key(|(then, _)| then) {
            Some((_, features)) if features.lifetime == u32::MAX => u32::MAX,
            Some((then, features)) => {
                let between = window(*then) - window(batch);
                features.lifetime.saturating_sub(between)
            }
            None => earlier
                .max_by_key(|(then, _)| then)
                .map_or(u32::MAX, |(then, _)| window(batch) - window(*then)),
        }
    }

    /// Records the requests of a batch, which are in the order of keys.
    pub fn note(&mut self, batch: u64, requested: &[SubrangeRequests]) {
        debug_assert!(requested.is_sorted_by(|one, other| one.last < other.start));
        for (number, subrange) in requested.iter().enumerate() {
            let left = number.checked_sub(1).and_then(|left| requested.get(left));
            let right = requested.get(number + 1);
            let meet = |one: &SubrangeRequests, other: &SubrangeRequests| {
                one.last.checked_add(1) == Some(other.start)
            };
            let before = self.records.get(&subrange.start);
            let before = before.copied().unwrap_or_default();
            let features = Features {
                hotness: subrange.hotness,
                is_left: left.is_some_and(|left| meet(left, subrange)),
                is_right: right.is_some_and(|right| meet(subrange, right)),
                lifetime: self.lifetime(&before, batch),
                keys: subrange.keys,
            };
            let record = self.records.entry(subrange.start).or_default();
            record[(batch % STEPS as u64) as usize] = Some((batch, features));
        }
    }

    /// Returns true if a subrange had a request in one of the last [`STEPS`] batches up to `batch`.
    pub fn is_recent(&self, start: u64, batch: u64) -> bool {
        let record = self.records.get(&start);
        let known = record.into_iter().flatten().flatten();
        known
            .into_iter()
            .any(|(then, _)| then + STEPS as u64 > batch)
    }

    /// Drops subranges that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.records.retain(|&start, _| is_there(start));
    }
}

/// Returns at most `count` of a batch's requests, chosen by their hashes, in order.
pub fn sample(requested: &[SubrangeRequests], count: usize, batch: u64) -> Vec<SubrangeRequests> {
    let mut chosen = requested.to_vec();
    if count < chosen.len() {
        // The choice follows from the batch alone, so that a run can be repeated. Another batch
        // samples other subranges.
        let seed = mix(batch + 1);
        chosen.select_nth_unstable_by_key(count, |subrange| mix(subrange.start ^ seed));
        chosen.truncate(count);
        // The selection leaves its part in any order.
        chosen.sort_unstable_by_key(|subrange| subrange.start);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(start: u64, hotness: u32) -> SubrangeRequests {
        SubrangeRequests {
            start,
            last: start + 9,
            keys: start * 2,
            hotness,
        }
    }

    #[test]
    fn sequences_say_what_was_and_what_was_not() {
        let mut history = HotnessHistory::new(2);
        history.note(0, &[requested(0, 5), requested(10, 6), requested(30, 7)]);
        history.note(3, &[requested(10, 8)]);
        let hotness = |start, batch| history.before(start, batch, 1).map(|step| step.hotness);
        assert_eq!(hotness(10, 4), [6, 0, 0, 8]);
        assert_eq!(hotness(10, 3), [0, 6, 0, 0], "not the next operation");
        assert_eq!(hotness(10, 1), [0, 0, 0, 6]);
        assert_eq!(hotness(99, 4), [0; 4]);
        let neighbours = |start| {
            let step = history.before(start, 4, 1)[0];
            (step.is_left, step.is_right)
        };
        assert_eq!(
            [0, 10, 30].map(neighbours),
            [(false, true), (true, false), (false, false)]
        );
        // Windows have two batches, so batch 3 is in the second.
        let lifetimes = |start, batch| history.before(start, batch, 1).map(|step| step.lifetime);
        assert_eq!(lifetimes(10, 4), [u32::MAX, 0, 1, 1]);
        assert_eq!(lifetimes(30, 8), [2, 2, 3, 3]);
        assert_eq!(lifetimes(99, 8), [u32::MAX; 4]);
        assert_eq!(history.before(99, 4, 1)[3].keys, 1);
        assert_eq!(history.before(30, 9, 1)[3].keys, 60);
        assert!(history.is_recent(10, 6) && !history.is_recent(10, 7));
        history.retain(|start| start != 10);
        assert!(!history.is_recent(10, 6));
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_batch_and_another_for_another() {
        let all: Vec<SubrangeRequests> =
            (0..1000).map(|number| requested(number * 10, 1)).collect();
        let one = sample(&all, 100, 7);
        assert_eq!(one.len(), 100);
        assert!(one.is_sorted_by_key(|subrange| subrange.start));
        assert_eq!(sample(&all, 100, 7), one);
        assert_ne!(sample(&all, 100, 8), one);
        assert_eq!(sample(&all, 2000, 7), all);
    }
}
