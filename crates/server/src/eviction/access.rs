//! The use of keys: the time of the last use, and the recent frequency.
//!
//! Values lie in blocks that are not changed, so this cannot stand beside them as in Redis. It
//! stands in tables by the hash of the key, of a size that depends on `maxmemory` and not on the
//! number of keys.
//!
//! # When last
//!
//! A table of clocks; a key's clock is set whenever the key is used. Keys share clocks, so that
//! one may seem used later than it was, never earlier: a hot key is never taken for a cold one,
//! and a cold one that shares its clock with a hot one stays longer than it ought to. With a clock
//! for each 64 bytes of `maxmemory` that are few.
//!
//! # How often
//!
//! For eviction a [`FrequencySketch`], which halves its counters by itself; unlike Redis's
//! logarithmic counter it goes from 0 to 15.
//!
//! # How hot
//!
//! For tiers a [`Warmth`], which tells the keys apart for longer.

use super::hot_keys::HotKeys;
use nearfield_hotness::FrequencySketch;
use nearfield_tiers::keep::Warmth;
use parking_lot::{RwLock, RwLockReadGuard};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

/// Clocks that there are without a limit of memory: 256 KiB.
const CLOCKS_MIN: usize = 1 << 16;
const CLOCKS_MAX: usize = 1 << 28;
/// Of `maxmemory`, for each clock.
const LIMIT_BYTES_PER_CLOCK: u64 = 64;
/// Of `maxmemory`, for each byte of the sketch.
const LIMIT_BYTES_PER_SKETCH_BYTE: u64 = 32;
/// A tick of a clock, in milliseconds as a power of two: 2^32 of them are two years.
const TICK_SHIFT: u32 = 4;
const DATABASE_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is known of how keys are used.
#[derive(Debug)]
pub struct Access {
    hasher: foldhash::fast::FixedState,
    started: Instant,
    /// The time that is noted, in ticks since the start.
    tick: AtomicU32,
    tables: RwLock<Tables>,
    bytes: AtomicUsize,
    /// How hot keys are, for tiers.
    pub warmth: Warmth,
    /// The keys that are used most.
    pub hot_keys: HotKeys,
}

#[derive(Debug)]
struct Tables {
    clocks: Box<[AtomicU32]>,
    sketch: Option<FrequencySketch>,
}

impl Tables {
    fn bytes(&self) -> usize {
        let sketch = self.sketch.as_ref().map_or(0, FrequencySketch::bytes);
        size_of_val(&*self.clocks) + sketch
    }
}

/// The tables, opened to note several keys at one time.
#[derive(Debug)]
pub struct Noting<'a> {
    hasher: &'a foldhash::fast::FixedState,
    tables: RwLockReadGuard<'a, Tables>,
    warmth: &'a Warmth,
    tick: u32,
}

impl Access {
    /// Tables for a server that keeps within `limit_bytes`, if that is not 0.
    pub fn new(limit_bytes: u64, counts: bool) -> Access {
        let access = Access {
            hasher: foldhash::fast::FixedState::with_seed(0x6e65_6172),
            started: Instant::now(),
            // From 1 on, as 0 is a clock that was never set.
            tick: AtomicU32::new(1),
            tables: RwLock::new(Tables {
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

    /// Makes tables for another limit; with `counts`, frequencies are kept, too. What was known is
    /// forgotten if their sizes change.
    pub fn resize(&self, limit_bytes: u64, counts: bool) {
        let clocks = (limit_bytes / LIMIT_BYTES_PER_CLOCK) as usize;
        let clocks = clocks.next_power_of_two().clamp(CLOCKS_MIN, CLOCKS_MAX);
        let sketch = (limit_bytes / LIMIT_BYTES_PER_SKETCH_BYTE) as usize;
        let sketch = sketch.clamp(64 << 10, 1 << 30);
        let mut tables = self.tables.write();
        if tables.clocks.len() != clocks {
            // Pages that the system zeroes on first use. Writing 1 GiB of zeros here would hold up
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

    /// The memory of the tables that depend on the limit or the number of keys, which counts as
    /// used.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.warmth.bytes()
    }

    /// The hash by which the tables know a key.
    #[inline]
    pub fn hash(&self, database: usize, key: &[u8]) -> u64 {
        hash(&self.hasher, database, key)
    }

    /// Opens the tables.
    #[inline]
    pub fn noting(&self) -> Noting<'_> {
        Noting {
            hasher: &self.hasher,
            tables: self.tables.read(),
            warmth: &self.warmth,
            tick: self.tick.load(Ordering::Relaxed),
        }
    }

    /// Reads the time, which is then noted of all uses up to the next call.
    pub fn advance(&self) {
        let ticks = (self.started.elapsed().as_millis() as u64 >> TICK_SHIFT) as u32;
        self.tick.store(ticks.saturating_add(1), Ordering::Relaxed);
    }
}

#[inline]
fn hash(hasher: &foldhash::fast::FixedState, database: usize, key: &[u8]) -> u64 {
    hasher.hash_one(key) ^ (database as u64).wrapping_mul(DATABASE_FACTOR)
}

impl Noting<'_> {
    #[inline]
    fn hash(&self, database: usize, key: &[u8]) -> u64 {
        hash(self.hasher, database, key)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the mask is less than the length")]
    fn clock(&self, hash: u64) -> &AtomicU32 {
        let clocks = &self.tables.clocks;
        // The sketch takes its blocks from the high bits, and tells keys apart by the low ones.
        &clocks[(hash >> 16) as usize & (clocks.len() - 1)]
    }

    /// Notes that a key is used.
    #[inline]
    pub fn note(&self, database: usize, key: &[u8]) {
        let hash = self.hash(database, key);
        self.clock(hash).store(self.tick, Ordering::Relaxed);
        if let Some(sketch) = &self.tables.sketch {
            sketch.record(hash);
        }
        self.warmth.note(hash);
    }

    /// Brings the clocks of keys of these hashes into the processor's caches, as they will be used
    /// soon. The loads depend on nothing, so that they wait together.
    pub fn look(&self, hashes: &[u64]) {
        let ticks = hashes
            .iter()
            .map(|&hash| self.clock(hash).load(Ordering::Relaxed));
        std::hint::black_box(ticks.fold(0, u32::max));
    }

    /// How long a key has not been used, in milliseconds; of one that never was, since the start.
    pub fn idle_ms(&self, database: usize, key: &[u8]) -> u64 {
        let clock = self.clock(self.hash(database, key));
        let ticks = self.tick.saturating_sub(clock.load(Ordering::Relaxed));
        u64::from(ticks) << TICK_SHIFT
    }

    /// Returns the recent frequency of a key: 5 for one use, one more for each further use, up to
    /// 19; 0 for a key that was not used, or if frequencies are not kept.
    ///
    /// A key begins with 5 as in Redis, whose users compare `OBJECT FREQ` with that.
    pub fn frequency(&self, database: usize, key: &[u8]) -> u8 {
        const ONCE: u8 = 5;
        let sketch = self.tables.sketch.as_ref();
        match sketch.map_or(0, |sketch| sketch.estimate(self.hash(database, key))) {
            0 => 0,
            uses => ONCE - 1 + uses,
        }
    }
}
