//! The keys that are used most, found by looking at one use of many.

use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// One use of so many is looked at.
pub const USES_PER_SAMPLE: u32 = 64;
/// How many keys are counted.
const COUNTERS: usize = 256;
/// How long uses are counted before counting begins anew.
const WINDOW: Duration = Duration::from_secs(5);

/// The keys that are used most, in the current window of time and the one before.
///
/// Each window counts 256 keys by the *space-saving* algorithm (Metwally, Agrawal, El Abbadi): a
/// key that has no counter takes over the least one and goes on from there, so that a count is at
/// most that much too high, and a key with more than 1/256 of all uses has a counter for certain.
#[derive(Debug)]
pub struct HotKeys {
    windows: Mutex<Windows>,
}

#[derive(Debug)]
struct Windows {
    hasher: foldhash::fast::FixedState,
    current: Vec<Counter>,
    current_since: Instant,
    before: Vec<Counter>,
    before_lasted: Duration,
}

#[derive(Clone, Debug)]
struct Counter {
    /// Of the database and the key. Nearly all other keys differ in it, so that their bytes, which
    /// lie elsewhere, need not be read.
    hash: u64,
    database: usize,
    key: Vec<u8>,
    samples: u64,
}

/// A key that is used much.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The number of its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// How often it is used, an estimate.
    pub uses_per_second: f64,
}

impl Default for HotKeys {
    fn default() -> Self {
        HotKeys {
            windows: Mutex::new(Windows {
                hasher: foldhash::fast::FixedState::default(),
                current: Vec::new(),
                current_since: Instant::now(),
                before: Vec::new(),
                before_lasted: Duration::ZERO,
            }),
        }
    }
}

impl HotKeys {
    /// Counts a use that was chosen to be looked at. Not counted if another thread counts one at
    /// the same time.
    pub fn sample(&self, database: usize, key: &[u8]) {
        if let Some(mut windows) = self.windows.try_lock() {
            windows.turn();
            windows.count(database, key);
        }
    }

    /// The keys that are used most, at most `count` of them.
    pub fn hottest(&self, count: usize) -> Vec<HotKey> {
        let mut windows = self.windows.lock();
        windows.turn();
        let lasted = windows.before_lasted + windows.current_since.elapsed();
        let mut all = windows.before.clone();
        for counter in &windows.current {
            match find(&mut all, counter.hash, counter.database, &counter.key) {
                Some(known) => known.samples += counter.samples,
                None => all.push(counter.clone()),
            }
        }
        drop(windows);
        all.sort_by(|a, b| (b.samples, &a.key).cmp(&(a.samples, &b.key)));
        all.truncate(count);
        let seconds = lasted.as_secs_f64().max(1.0);
        let hot = all.into_iter().map(|counter| HotKey {
            database: counter.database,
            key: counter.key,
            uses_per_second: counter.samples as f64 * f64::from(USES_PER_SAMPLE) / seconds,
        });
        hot.collect()
    }
}

impl Windows {
    fn turn(&mut self) {
        let lasted = self.current_since.elapsed();
        if lasted >= WINDOW {
            self.before = std::mem::take(&mut self.current);
            self.before_lasted = lasted;
            if lasted >= 2 * WINDOW {
                // Nothing was used since the window ended.
                self.before.clear();
                self.before_lasted = Duration::ZERO;
            }
            self.current_since = Instant::now();
        }
    }

    fn count(&mut self, database: usize, key: &[u8]) {
        let hash = self.hasher.hash_one((database, key));
        if let Some(known) = find(&mut self.current, hash, database, key) {
            known.samples += 1;
        } else if self.current.len() < COUNTERS {
            self.current.push(Counter {
                hash,
                database,
                key: key.to_vec(),
                samples: 1,
            });
        } else if let Some(least) = self.current.iter_mut().min_by_key(|c| c.samples) {
            least.hash = hash;
            least.database = database;
            least.key.clear();
            least.key.extend_from_slice(key);
            least.samples += 1;
        }
    }
}

fn find<'a>(
    counters: &'a mut [Counter],
    hash: u64,
    database: usize,
    key: &[u8],
) -> Option<&'a mut Counter> {
    let is = |counter: &&mut Counter| {
        counter.hash == hash && counter.database == database && counter.key == key
    };
    counters.iter_mut().find(is)
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
}
