//! How warm the keys of a store are.
//!
//! That is not needed while all values are in memory and have room there, and
//! [costs nothing](Warmth::warm) then. Otherwise one use in [`USES_COUNTED`] is noted, drawn by
//! chance, and counts as many.

use nearfield_hotness::Heat;
use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Of the heat, for each key, at least; twice as many at most. *Assumed*: with half as many, one
/// cold key in ten looks as warm as a hot one.
const BYTES_PER_KEY: usize = 4;
/// Of the heat, at first.
const BYTES_MIN: usize = 64 << 10;
/// One use in so many is noted, and counts as so many.
pub const USES_COUNTED: u16 = 4;

/// The heat of keys, once somebody has to know it. Keys are known by their hashes.
///
/// ```
/// use nearfield_tiers::keep::Warmth;
///
/// let warmth = Warmth::default();
/// (0..100).for_each(|_| _ = warmth.note(7));
/// assert_eq!(warmth.level(7), 0);
/// warmth.warm(true);
/// (0..100).for_each(|_| _ = warmth.note(7));
/// assert!(warmth.level(7) > 0);
/// ```
#[derive(Debug, Default)]
pub struct Warmth {
    heat: RwLock<Option<Heat>>,
    bytes: AtomicUsize,
    /// Whether uses are noted.
    warms: AtomicBool,
}

thread_local! {
    /// What chance is drawn from; never 0.
    static CHANCE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// True once in [`USES_COUNTED`], by chance (xorshift).
#[inline]
fn is_drawn() -> bool {
    let mut state = CHANCE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    CHANCE.set(state);
    state.is_multiple_of(u32::from(USES_COUNTED))
}

impl Warmth {
    /// Has uses be noted from now on, or no more. There is no heat before it is needed.
    pub fn warm(&self, warms: bool) {
        if warms == self.warms.load(Ordering::Relaxed) {
            return;
        }
        if warms {
            let mut kept = self.heat.write();
            let heat = kept.get_or_insert_with(|| Heat::with_bytes(BYTES_MIN));
            self.bytes.store(heat.bytes(), Ordering::Relaxed);
        }
        self.warms.store(warms, Ordering::Relaxed);
    }

    /// Makes the heat large enough for so many keys.
    pub fn make_for(&self, keys: usize) {
        let is_small = |heat: &Heat| heat.bytes() < keys * BYTES_PER_KEY;
        while self.heat.read().as_ref().is_some_and(is_small) {
            let mut kept = self.heat.write();
            if let Some(heat) = kept.as_mut() {
                *heat = heat.doubled();
                self.bytes.store(heat.bytes(), Ordering::Relaxed);
            }
        }
    }

    /// Begins a new period.
    pub fn age(&self) {
        if let Some(heat) = &*self.heat.read() {
            heat.age();
        }
    }

    /// The memory that the heat takes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes that the key of a hash is used, if uses are noted and this one is drawn. Answers for
    /// how many uses it counts.
    #[inline]
    pub fn note(&self, hash: u64) -> u16 {
        if !self.warms.load(Ordering::Relaxed) || !is_drawn() {
            return 0;
        }
        if let Some(heat) = &*self.heat.read() {
            heat.record_as(hash, USES_COUNTED);
        }
        USES_COUNTED
    }

    /// The heat of the key of a hash, as a level of [`Heat`]; 0 if none is kept.
    pub fn level(&self, hash: u64) -> u16 {
        self.heat.read().as_ref().map_or(0, |heat| heat.level(hash))
    }
}
