//! The most used keys, found by sampling one of many uses.

use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// The number of uses of which one is sampled.
pub const USES_PER_SAMPLE: u32 = 64;
/// Number of keys that are counted.
const COUNTERS: usize = 256;
/// The duration after which the counters are reset.
const WINDOW: Duration = Duration::from_secs(5);

/// The most used keys, in the current window of time and the one before.
///
/// Each window counts 256 keys by the *space-saving* algorithm (Metwally, Agrawal, El Abbadi): a
/// key without a counter takes over the least one and continues from its count. So a count is too
/// high by at most that much, and a key with more than 1/256 of all uses certainly has a counter.
#[derive(Debug)]
pub struct HotKeys {
    windows: Mutex<HotKeyWindows>,
}

#[derive(Debug)]
struct HotKeyWindows {
    hasher: foldhash::fast::FixedState,
    current: HotKeyCounters,
    current_since: Instant,
    before: Vec<Counter>,
    before_lasted: Duration,
}

/// The counters of a window.
#[derive(Debug, Default)]
struct HotKeyCounters {
    /// The hash of the database and the key of each counter. Nearly all other keys differ in it, so
    /// that the counters, which take many cache lines, need not be read.
    hashes: Vec<u32>,
    all: Vec<Counter>,
    /// The least count: no counter is less, and counters from the first up to `position` are
    /// greater.
    floor: u64,
    position: usize,
}

#[derive(Clone, Debug)]
struct Counter {
    database: usize,
    key: Vec<u8>,
    samples: u64,
}

/// A frequently used key.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The estimated rate of its uses.
    pub uses_per_second: f64,
}

impl Default for HotKeys {
    fn default() -> Self {
        HotKeys {
            windows: Mutex::new(HotKeyWindows {
                hasher: foldhash::fast::FixedState::default(),
                current: HotKeyCounters::default(),
                current_since: Instant::now(),
                before: Vec::new(),
                before_lasted: Duration::ZERO,
            }),
        }
    }
}

impl HotKeys {
    /// Counts a sampled use. Skips it if another thread is counting one at the same time.
    pub fn sample(&self, database: usize, key: &[u8]) {
        if let Some(mut windows) = self.windows.try_lock() {
            windows.turn();
            windows.count(database, key);
        }
    }

    /// Returns the most used keys, at most `count` of them.
    pub fn hottest(&self, count: usize) -> Vec<HotKey> {
        let mut windows = self.windows.lock();
        windows.turn();
        let lasted = windows.before_lasted + windows.current_since.elapsed();
        let mut all = windows.before.clone();
        for counter in &windows.current.all {
            let same = |known: &&mut Counter| known.is_of(counter.database, &counter.key);
            match all.iter_mut().find(same) {
                Some(known) => known.samples += counter.samples,
                None => all.push(counter.clone()),
            }
        }
        // Samples are skipped while the lock is held.
        drop(windows);
        all.sort_by(|a, b| (b.samples, &a.key).cmp(&(a.samples, &b.key)));
        all.truncate(count);
        // A rate over less than a second would be noise.
        let seconds = lasted.as_secs_f64().max(1.0);
        let hot = all.into_iter().map(|counter| HotKey {
            database: counter.database,
            key: counter.key,
            uses_per_second: counter.samples as f64 * f64::from(USES_PER_SAMPLE) / seconds,
        });
        hot.collect()
    }
}

impl HotKeyWindows {
    fn turn(&mut self) {
        let lasted = self.current_since.elapsed();
        if lasted >= WINDOW {
            self.before = std::mem::take(&mut self.current).all;
            self.before_lasted = lasted;
            if lasted >= 2 * WINDOW {
                // There were no uses since the window ended.
                self.before.clear();
                self.before_lasted = Duration::ZERO;
            }
            self.current_since = Instant::now();
        }
    }

    fn count(&mut self, database: usize, key: &[u8]) {
        let hash = self.hasher.hash_one((database, key)) as u32;
        self.current.count(hash, database, key);
    }
}

impl HotKeyCounters {
    fn count(&mut self, hash: u32, database: usize, key: &[u8]) {
        debug_assert_eq!(self.hashes.len(), self.all.len());
        if let Some(known) = self.find(hash, database, key) {
            known.samples += 1;
        } else if self.all.len() < COUNTERS {
            self.hashes.push(hash);
            self.all.push(Counter {
                database,
                key: key.to_vec(),
                samples: 1,
            });
        } else {
            let position = self.least();
            if let (Some(old), Some(least)) =
                (self.hashes.get_mut(position), self.all.get_mut(position))
            {
                *old = hash;
                least.database = database;
                least.key.clear();
                least.key.extend_from_slice(key);
                least.samples += 1;
            }
        }
    }

    fn find(&mut self, hash: u32, database: usize, key: &[u8]) -> Option<&mut Counter> {
        // The hashes are compared in groups, which the compiler vectorizes.
        const GROUP: usize = 16;
        let has = |group: &[u32]| {
            group
                .iter()
                .fold(false, |any, &other| any | (other == hash))
        };
        let groups = self.hashes.chunks(GROUP).zip(self.all.chunks_mut(GROUP));
        groups
            .filter(|(hashes, _)| has(hashes))
            .flat_map(|(_, counters)| counters)
            .find(|counter| counter.is_of(database, key))
    }

    /// Returns the position of a counter that is not greater than any other. Counters only grow, so
    /// that the search continues at the end of the last one.
    fn least(&mut self) -> usize {
        debug_assert!(!self.all.is_empty(), "the search would not end");
        loop {
            let rest = self.all.get(self.position..).unwrap_or_default();
            let floor = self.floor;
            if let Some(next) = rest.iter().position(|counter| counter.samples <= floor) {
                self.position += next;
                return self.position;
            }
            self.position = 0;
            let least = self.all.iter().map(|it| it.samples).min().unwrap_or(0);
            debug_assert!(least >= self.floor, "a counter has become less");
            self.floor = least;
        }
    }
}

impl Counter {
    fn is_of(&self, database: usize, key: &[u8]) -> bool {
        self.database == database && self.key == key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_used_much_come_first() {
        let hot = HotKeys::default();
        for use_number in 0..20_000_u32 {
            let key = match use_number % 10 {
                0..=4 => 1,
                5..=7 => 2,
                _ => 1000 + use_number,
            };
            hot.sample(0, key.to_string().as_bytes());
        }
        let hottest = hot.hottest(2);
        let keys: Vec<&[u8]> = hottest.iter().map(|hot| &*hot.key).collect();
        assert_eq!(keys, [b"1", b"2"]);
        assert!(hottest[0].uses_per_second > hottest[1].uses_per_second);
    }

    #[test]
    fn the_counter_that_a_new_key_takes_over_is_the_least() {
        let mut counters = HotKeyCounters::default();
        let mut random = 1_u32;
        for _ in 0..15_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Half of all uses are of 300 keys, some more frequent than others.
            let hot = (random >> 20) % 300 * ((random >> 12) % 300) / 300;
            let number = if random >> 31 == 0 { hot } else { random >> 8 };
            let key = number.to_le_bytes();
            let least = counters.all.iter().map(|it| it.samples).min();
            let before = counters.all.clone();
            counters.count(number ^ 0x55, 0, &key);
            let is_known = before.iter().any(|it| it.is_of(0, &key));
            if before.len() == COUNTERS && !is_known {
                let taken = before.iter().find(|it| {
                    let mut now = counters.all.iter();
                    !now.any(|now| now.is_of(0, &it.key))
                });
                assert_eq!(taken.map(|it| it.samples), least);
            }
        }
    }
}
