//! The use of keys: the time of the last use, and the recent frequency.
//!
//! Values are stored in blocks that are not changed, so the use cannot be stored next to them as in
//! Redis. It is stored in tables by the hash of the key. Their size depends on `maxmemory` and not
//! on the number of keys.
//!
//! # Recency
//!
//! A table of clocks; a key's clock is set whenever the key is used. Keys share clocks, so that one
//! may seem used later than it was, never earlier: a hot key is never mistaken for a cold one, and
//! a cold one that shares its clock with a hot one stays longer than it should. With a clock for
//! each 64 bytes of `maxmemory` these are few.
//!
//! # Frequency
//!
//! For eviction there is a [`FrequencySketch`], which halves its counters by itself; unlike Redis's
//! logarithmic counter it has the range 0 to 15.
//!
//! # Heat
//!
//! For tiers there is a [`Warmth`], which distinguishes keys over a longer time.

use super::hot_keys::HotKeys;
use nearfield_hotness::FrequencySketch;
use nearfield_tiers::keep::Warmth;
use parking_lot::{RwLock, RwLockReadGuard};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

/// The number of clocks without a limit of memory: 256 KiB.
const CLOCKS_MIN: usize = 1 << 16;
const CLOCKS_MAX: usize = 1 << 28;

// A mask selects the clock of a hash.
const _: () = assert!(CLOCKS_MIN.is_power_of_two() && CLOCKS_MAX.is_power_of_two());

/// Bytes of `maxmemory` for each clock.
const LIMIT_BYTES_PER_CLOCK: u64 = 64;
/// Bytes of `maxmemory` for each byte of the sketch.
const LIMIT_BYTES_PER_SKETCH_BYTE: u64 = 32;
/// The tick of a clock in milliseconds, as a power of two: 2^32 ticks are two years.
const TICK_SHIFT: u32 = 4;
const DATABASE_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The statistics of the use of keys.
#[derive(Debug)]
pub struct KeyUseStatistics {
    hasher: foldhash::fast::FixedState,
    started: Instant,
    /// The time that uses are recorded with, in ticks since the start.
    tick: AtomicU32,
    tables: RwLock<KeyUseTables>,
    bytes: AtomicUsize,
    /// The heat of keys, for tiers.
    pub warmth: Warmth,
    /// The most used keys.
    pub hot_keys: HotKeys,
}

#[derive(Debug)]
struct KeyUseTables {
    clocks: Box<[AtomicU32]>,
    sketch: Option<FrequencySketch>,
}

impl KeyUseTables {
    fn bytes(&self) -> usize {
        let sketch = self.sketch.as_ref().map_or(0, FrequencySketch::bytes);
        size_of_val(&*self.clocks) + sketch
    }
}

/// The tables, locked to record several uses at one time.
#[derive(Debug)]
pub struct KeyUseRecorder<'a> {
    hasher: &'a foldhash::fast::FixedState,
    tables: RwLockReadGuard<'a, KeyUseTables>,
    warmth: &'a Warmth,
    tick: u32,
}

impl KeyUseStatistics {
    /// Creates tables for a server with a limit of `limit_bytes`; 0 is no limit.
    pub fn new(limit_bytes: u64, counts: bool) -> KeyUseStatistics {
        let access = KeyUseStatistics {
            hasher: foldhash::fast::FixedState::with_seed(0x6e65_6172),
            started: Instant::now(),
            // The first tick is 1, because 0 marks a clock that was never set.
            tick: AtomicU32::new(1),
            tables: RwLock::new(KeyUseTables {
                clocks: Box::default(),
                sketch: None,
            }),
            bytes: AtomicUsize::new(0),
            warmth: Warmth::default(),
            hot_keys: HotKeys::default(),
        };
        access.resize(limit_bytes, counts);
        access
    }

    /// Creates tables for another limit; with `counts`, frequencies are kept, too. Everything
    /// recorded is lost if their sizes change.
    pub fn resize(&self, limit_bytes: u64, counts: bool) {
        let clocks = (limit_bytes / LIMIT_BYTES_PER_CLOCK) as usize;
        let clocks = clocks.next_power_of_two().clamp(CLOCKS_MIN, CLOCKS_MAX);
        let sketch = (limit_bytes / LIMIT_BYTES_PER_SKETCH_BYTE) as usize;
        let sketch = sketch.clamp(64 << 10, 1 << 30);
        let mut tables = self.tables.write();
        if tables.clocks.len() != clocks {
            // The system zeroes these pages on first use. Writing 1 GiB of zeros here would block
            // all clients.
            tables.clocks = bytemuck::zeroed_slice_box(clocks);
        }
        match &tables.sketch {
            _ if !counts => tables.sketch = None,
            Some(old) if old.bytes() == sketch / 64 * 64 => {}
            _ => tables.sketch = Some(FrequencySketch::with_bytes(sketch)),
        }
        self.bytes.store(tables.bytes(), Ordering::Relaxed);
    }

    /// Returns the memory of the tables that depend on the limit or the number of keys, which
    /// counts as used.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.warmth.bytes()
    }

    /// Returns the hash of a key in the tables.
    #[inline]
    pub fn hash(&self, database: usize, key: &[u8]) -> u64 {
        hash(&self.hasher, database, key)
    }

    /// Locks the tables.
    #[inline]
    pub fn noting(&self) -> KeyUseRecorder<'_> {
        KeyUseRecorder {
            hasher: &self.hasher,
            tables: self.tables.read(),
            warmth: &self.warmth,
            tick: self.tick.load(Ordering::Relaxed),
        }
    }

    /// Reads the time, with which all uses until the next call are recorded.
    pub fn advance(&self) {
        let ticks = (self.started.elapsed().as_millis() as u64 >> TICK_SHIFT) as u32;
        self.tick.store(ticks.saturating_add(1), Ordering::Relaxed);
    }
}

#[inline]
fn hash(hasher: &foldhash::fast::FixedState, database: usize, key: &[u8]) -> u64 {
    hasher.hash_one(key) ^ (database as u64).wrapping_mul(DATABASE_FACTOR)
}

impl KeyUseRecorder<'_> {
    #[inline]
    fn hash(&self, database: usize, key: &[u8]) -> u64 {
        hash(self.hasher, database, key)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the mask is less than the length")]
    fn clock(&self, hash: u64) -> &AtomicU32 {
        let clocks = &self.tables.clocks;
        debug_assert!(clocks.len().is_power_of_two());
        // The sketch uses the high bits to choose its blocks, and the low ones to tell keys apart.
        &clocks[(hash >> 16) as usize & (clocks.len() - 1)]
    }

    /// Records a use of a key.
    #[inline]
    pub fn note(&self, database: usize, key: &[u8]) {
        let hash = self.hash(database, key);
        self.clock(hash).store(self.tick, Ordering::Relaxed);
        if let Some(sketch) = &self.tables.sketch {
            sketch.record(hash);
        }
        self.warmth.note(hash);
    }

    /// Brings the clocks of keys with these hashes into the processor's caches, because they will
    /// be used soon. The loads are independent, so that their latencies overlap.
    pub fn look(&self, hashes: &[u64]) {
        let ticks = hashes
            .iter()
            .map(|&hash| self.clock(hash).load(Ordering::Relaxed));
        std::hint::black_box(ticks.fold(0, u32::max));
    }

    /// Returns for how many milliseconds a key has not been used; for a key that never was, since
    /// the start.
    pub fn idle_ms(&self, database: usize, key: &[u8]) -> u64 {
        let clock = self.clock(self.hash(database, key));
        let ticks = self.tick.saturating_sub(clock.load(Ordering::Relaxed));
        u64::from(ticks) << TICK_SHIFT
    }

    /// Returns the recent frequency of a key: 5 for one use, one more for each further use, up to
    /// 19; 0 for a key that was not used, or if frequencies are not kept.
    ///
    /// A key begins with 5 as in Redis, because its users compare `OBJECT FREQ` with that.
    pub fn frequency(&self, database: usize, key: &[u8]) -> u8 {
        const ONCE: u8 = 5;
        let sketch = self.tables.sketch.as_ref();
        match sketch.map_or(0, |sketch| sketch.estimate(self.hash(database, key))) {
            0 => 0,
            uses => ONCE - 1 + uses,
        }
    }
}
