//! Events that took longer than `latency-monitor-threshold`, by kind (`LATENCY`).

use crate::config::Hot;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The number of samples kept of each event. There is at most one a second.
const SAMPLES_MAX: usize = 160;

/// The longest time that an event took within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyEventSample {
    /// The second, since 1970.
    pub at_s: u64,
    /// The time it took, in milliseconds.
    pub took_ms: u64,
}

/// The recorded samples of one kind of event.
#[derive(Clone, Debug, Default)]
pub struct LatencyEventHistory {
    /// The samples, the oldest first.
    pub samples: VecDeque<LatencyEventSample>,
    /// The longest time that was measured, in milliseconds.
    pub longest_ms: u64,
}

/// The events that took long, by kind.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<&'static str, LatencyEventHistory>>,
}

impl LatencyMonitor {
    /// Records the time that an event took if it reaches the threshold.
    pub fn note(&self, hot: &Hot, event: &'static str, took: Duration) {
        let threshold_ms = hot.latency_threshold_ms.load(Ordering::Relaxed);
        let took_ms = took.as_millis() as u64;
        if threshold_ms == 0 || took_ms < threshold_ms {
            // A threshold of 0 turns the monitor off.
            return;
        }
        let at_s = crate::clock::now_ms() / 1000;
        let mut events = self.events.lock();
        let history = events.entry(event).or_default();
        // Kept apart, because the sample itself is dropped at some time.
        history.longest_ms = history.longest_ms.max(took_ms);
        match history.samples.back_mut() {
            Some(last) if last.at_s == at_s => last.took_ms = last.took_ms.max(took_ms),
            _ => history
                .samples
                .push_back(LatencyEventSample { at_s, took_ms }),
        }
        if history.samples.len() > SAMPLES_MAX {
            history.samples.pop_front();
        }
        debug_assert!(history.samples.len() <= SAMPLES_MAX);
    }

    /// Returns all events and their histories.
    pub fn all(&self) -> Vec<(&'static str, LatencyEventHistory)> {
        let events = self.events.lock();
        events
            .iter()
            .map(|(name, it)| (*name, it.clone()))
            .collect()
    }

    /// Returns the history of one event.
    pub fn of(&self, event: &[u8]) -> Option<LatencyEventHistory> {
        let events = self.events.lock();
        let mut all = events.iter();
        let found = all.find(|(name, _)| event.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, history)| history.clone())
    }

    /// Forgets the named events, or all if `names` is empty. Returns their number.
    pub fn reset(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        let is = |name: &str| {
            let same = |wanted: &&[u8]| wanted.eq_ignore_ascii_case(name.as_bytes());
            names.is_empty() || names.iter().any(same)
        };
        events.retain(|name, _| !is(name));
        before - events.len()
    }
}
