//! The warmth of a store's keys.
//!
//! It is not needed while all values are in memory and have room there, and [costs
//! nothing](Warmth::warm) then. Otherwise one use in [`USES_COUNTED`] is noted, drawn at random,
//! and counts as that many. While the policy learns which keys are hot, [each](Warmth::note_each)
//! use is noted: a key then stands out after few uses. A policy that counts by itself gets [each
//! use](Warmth::count_each) instead, and there is no heat.

use nearfield_hotness::HotnessTable;
use parking_lot::{Mutex, RwLock};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

/// Number of bytes of the heat per key: between this and twice this. *Assumed*: with half as many,
/// one cold key in ten looks as warm as a hot one.
const BYTES_PER_KEY: usize = 4;
/// Initial number of bytes of the heat.
const BYTES_MIN: usize = 64 << 10;
/// The sampling rate: one use in this number is noted, and counts as that many.
pub const USES_COUNTED: u16 = 4;
/// Number of parts of the counts of each use, which are locked separately.
const COUNT_PARTS: usize = 16;
/// Maximum number of keys of a part of the counts.
const COUNTED_KEYS_MAX: usize = 1 << 14;

/// The heat of keys, once it is needed. Keys are identified by their hashes.
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
    heat: RwLock<Option<HotnessTable>>,
    bytes: AtomicUsize,
    /// Number of uses that a noted use counts for; 0 while none is noted. Only the keeper sets it.
    counted: AtomicU16,
    /// Set if each use is counted by its hash, in place of heat.
    counts_each: AtomicBool,
    each: [Mutex<HashMap<u64, u32>>; COUNT_PARTS],
}

thread_local! {
    /// State of the random number generator; never 0.
    static CHANCE: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// Returns true once in [`USES_COUNTED`] calls, at random (xorshift).
#[inline]
fn is_drawn() -> bool {
    let mut state = CHANCE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    debug_assert_ne!(state, 0, "only 0 leads to 0");
    CHANCE.set(state);
    state.is_multiple_of(u32::from(USES_COUNTED))
}

impl Warmth {
    /// Starts or stops noting uses. No heat is allocated before it is needed.
    pub fn warm(&self, warms: bool) {
        if warms == (self.counted.load(Ordering::Relaxed) > 0) {
            return;
        }
        let counted = match (warms, self.counts_each.load(Ordering::Relaxed)) {
            (false, _) => 0,
            (true, false) => USES_COUNTED,
            (true, true) => 1,
        };
        if counted == USES_COUNTED {
            let mut kept = self.heat.write();
            let heat = kept.get_or_insert_with(|| HotnessTable::with_bytes(BYTES_MIN));
            self.bytes.store(heat.bytes(), Ordering::Relaxed);
        }
        self.counted.store(counted, Ordering::Relaxed);
    }

    /// Notes each use from now on, or one in [`USES_COUNTED`], if uses are noted at all.
    pub fn note_each(&self, each: bool) {
        let counted = if each { 1 } else { USES_COUNTED };
        if ![0, counted].contains(&self.counted.load(Ordering::Relaxed)) {
            self.counted.store(counted, Ordering::Relaxed);
        }
    }

    /// Makes each use be counted by its hash while uses are noted, for [`take_each`]. No heat is
    /// kept then.
    ///
    /// [`take_each`]: Warmth::take_each
    pub fn count_each(&self) {
        self.counts_each.store(true, Ordering::Relaxed);
        self.note_each(true);
    }

    /// Takes the counts of each use, by the hashes of the keys.
    pub fn take_each(&self) -> Vec<(u64, u32)> {
        let mut counts = Vec::new();
        for part in &self.each {
            counts.extend(part.lock().drain());
        }
        counts
    }

    fn count(&self, hash: u64) {
        let Some(part) = self.each.get(hash as usize % COUNT_PARTS) else {
            return;
        };
        let mut part = part.lock();
        // Counts are hints for the mover. If it is slow, other keys are not counted, so that the
        // table stays small.
        if let Some(uses) = part.get_mut(&hash) {
            *uses = uses.saturating_add(1);
        } else if part.len() < COUNTED_KEYS_MAX {
            part.insert(hash, 1);
        }
    }

    /// Enlarges the heat for `keys` keys.
    pub fn make_for(&self, keys: usize) {
        let is_small = |heat: &HotnessTable| heat.bytes() < keys * BYTES_PER_KEY;
        while self.heat.read().as_ref().is_some_and(is_small) {
            let mut kept = self.heat.write();
            if let Some(heat) = kept.as_mut() {
                // Copied into both halves, because an empty heat would make hot values leave.
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

    /// Returns the bytes of the heat.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes a use of the key with a hash, if uses are noted and this one is drawn. Returns the
    /// number of uses that it counts for.
    #[inline]
    pub fn note(&self, hash: u64) -> u16 {
        let counted = self.counted.load(Ordering::Relaxed);
        // The number comes first, so that a store with room pays for no random one.
        if counted == 0 || counted > 1 && !is_drawn() {
            return 0;
        }
        if counted == 1 && self.counts_each.load(Ordering::Relaxed) {
            self.count(hash);
            return 1;
        }
        if let Some(heat) = &*self.heat.read() {
            heat.record_as(hash, counted);
        }
        counted
    }

    /// Returns the heat of the key with a hash, as a level of [`HotnessTable`]; 0 if none is kept.
    pub fn level(&self, hash: u64) -> u16 {
        self.heat.read().as_ref().map_or(0, |heat| heat.level(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_is_noted_or_one_in_four_or_none() {
        let warmth = Warmth::default();
        let noted = || (0..4000).filter(|_| warmth.note(7) > 0).count();
        warmth.note_each(true);
        assert_eq!(noted(), 0);
        warmth.warm(true);
        assert!((800..1200).contains(&noted()));
        warmth.note_each(true);
        // A hash with other cells than 7.
        const OTHER: u64 = 0x9e37_79b9_7f4a_7c15;
        assert_eq!((warmth.note(OTHER), warmth.note(OTHER)), (1, 1));
        assert!((1..=2).contains(&warmth.level(OTHER)));
        assert_eq!(noted(), 4000);
        // It goes on as before.
        warmth.warm(true);
        assert_eq!(noted(), 4000);
        warmth.note_each(false);
        assert!((800..1200).contains(&noted()));
        warmth.warm(false);
        assert_eq!(noted(), 0);
    }

    #[test]
    fn each_use_is_counted_once_and_only_while_uses_are_noted() {
        let warmth = Warmth::default();
        warmth.count_each();
        assert_eq!((warmth.note(7), warmth.take_each()), (0, Vec::new()));
        warmth.warm(true);
        let noted = [7, 7, 8, 7].map(|hash| warmth.note(hash));
        assert_eq!(noted, [1; 4]);
        let mut counts = warmth.take_each();
        counts.sort_unstable();
        assert_eq!(counts, [(7, 3), (8, 1)]);
        assert!(warmth.take_each().is_empty());
        // There is no heat, which the policy does not need.
        assert_eq!((warmth.level(7), warmth.bytes()), (0, 0));
        warmth.warm(false);
        assert_eq!((warmth.note(7), warmth.take_each()), (0, Vec::new()));
    }

    #[test]
    fn the_counts_of_a_mover_that_does_not_come_stay_small() {
        let warmth = Warmth::default();
        warmth.count_each();
        warmth.warm(true);
        let many = (COUNT_PARTS * COUNTED_KEYS_MAX) as u64;
        (0..many + 1000).for_each(|hash| _ = warmth.note(hash));
        // Those that are known are still counted.
        (0..10).for_each(|_| _ = warmth.note(0));
        let counts = warmth.take_each();
        assert_eq!(counts.len() as u64, many);
        assert!(counts.contains(&(0, 11)));
    }
}
