//! A blocked count-min sketch with halving counters, shared by threads.
//!
//! # Layout
//!
//! The sketch is an array of blocks of one cache line each, and a key lives in one block only, so
//! that recording it costs at most one cache miss:
//!
//! ```text
//!   hash   63 ............................ 40 | 39 ... 30 | 29 ... 20 | 19 ... 10 | 9 ... 0
//!          which block (multiplied, high part)  row 3       row 2       row 1       row 0
//!
//!   block  word 0 | word 1 | ... | word 6 | additions          8 × 8 bytes
//!                      │
//!            nibble 15 .. 12 | 11 .. 8 | 7 .. 4 | 3 .. 0
//!                   row 3      row 2     row 1    row 0
//! ```
//!
//! Each of the four rows has 28 counters of 4 bits in a block, and a key has one counter in each
//! row. Its estimate is the least of the four. Recording raises only those that equal the least
//! (conservative update): the others are too high already, because other keys share them.
//!
//! # Ageing
//!
//! A block halves its counters by itself after every [`ADDITIONS_PER_HALVING`] additions to it:
//! there is no shared count to contend for and no pause to sweep the array. Blocks age at nearly
//! the same rate, although hot keys are unevenly spread, because a use of a saturated key is no
//! addition. For the same reason the hottest lines, which all threads access, are only read.
//!
//! # Threads
//!
//! Counters are read and written with relaxed atomics and no read-modify-write. Two threads that
//! access the same word can lose an addition, or undo the halving of that word; an estimate is off
//! by a little until the next halving. An atomic addition would be exact about a number that is an
//! estimate anyway.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ROWS: usize = 4;
/// Number of bits of the hash that select a counter in a row: 8 for the word, 2 for the nibble.
const BITS_PER_ROW: usize = 10;
/// Number of nibbles that a row has in each word.
const NIBBLES_PER_ROW: usize = 4;
const COUNTER_WORDS: usize = 7;
const COUNTER_BITS: usize = 4;
const COUNTER_MAX: u64 = 15;
/// Mask of all bits of a word except the highest of each counter.
const HALVED: u64 = 0x7777_7777_7777_7777;

const _: () = assert!(
    ROWS * NIBBLES_PER_ROW * COUNTER_BITS == u64::BITS as usize,
    "the counters of all rows fill a word"
);

/// Number of additions to a block that halve it.
///
/// Chosen with `hot_keys_stand_out_under_zipf`: 78 % of the 8192 hottest keys and 2 % of the cold
/// ones are at or above 4. With half as many additions it is 39 % and none, with twice as many 99 %
/// and 65 %.
const ADDITIONS_PER_HALVING: u64 = 128;

/// An estimate of the recent frequency of each key, in a fixed budget of memory.
///
/// A key is given as its hash, all 64 bits of which must be well mixed. Estimates range from 0 to
/// [`MAX_ESTIMATE`](Self::MAX_ESTIMATE); they are halved from time to time, so that formerly hot
/// keys cool down. An estimate can be too high, because keys share counters. It is too low only by
/// halvings, and by additions lost when threads access the same word (the source explains why that
/// is acceptable).
///
/// A budget of 8 bytes for each key to distinguish from the rest is a good start.
///
/// Any number of threads may call all methods at once. Source: TinyLFU (Einziger, Friedman, Manes),
/// except that ageing is local to a cache line.
///
/// ```
/// use nearfield_hotness::FrequencySketch;
///
/// let sketch = FrequencySketch::with_bytes(64 * 1024);
/// let hash = 0x9e37_79b9_7f4a_7c15;
/// assert_eq!(sketch.estimate(hash), 0);
/// assert_eq!(sketch.record(hash), 1);
/// assert_eq!(sketch.record(hash), 2);
/// assert_eq!(sketch.estimate(hash), 2);
/// ```
#[derive(Debug)]
pub struct FrequencySketch {
    blocks: Box<[SketchBlock]>,
}

/// One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct SketchBlock {
    counters: [AtomicU64; COUNTER_WORDS],
    /// Number of additions since the block was halved.
    additions: AtomicU64,
}

const _: () = assert!(size_of::<SketchBlock>() == 64);

/// The position of a counter within its block.
#[derive(Clone, Copy)]
struct SketchCounterPosition {
    word: usize,
    shift: usize,
}

impl FrequencySketch {
    /// Maximum estimate; a key that has reached it stays there until its block is halved.
    pub const MAX_ESTIMATE: u8 = COUNTER_MAX as u8;

    /// Creates a sketch of at most `budget` bytes, rounded down to whole cache lines of 64 bytes,
    /// but at least one.
    pub fn with_bytes(budget: usize) -> Self {
        let count = (budget / size_of::<SketchBlock>()).max(1);
        FrequencySketch {
            blocks: (0..count).map(|_| SketchBlock::default()).collect(),
        }
    }

    /// Returns the bytes of the counters.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Counts one more occurrence and returns the estimate with it.
    #[inline]
    pub fn record(&self, hash: u64) -> u8 {
        self.block(hash).record(places(hash))
    }

    /// Returns the estimate, without counting.
    #[inline]
    pub fn estimate(&self, hash: u64) -> u8 {
        self.block(hash).least(places(hash)) as u8
    }

    #[inline]
    fn block(&self, hash: u64) -> &SketchBlock {
        // The high half of the product spreads keys as evenly as a remainder, and is faster.
        let index = (u128::from(hash) * self.blocks.len() as u128) >> 64;
        &self.blocks[index as usize]
    }
}

impl SketchBlock {
    #[inline]
    fn record(&self, places: [SketchCounterPosition; ROWS]) -> u8 {
        let least = self.least(places);
        if least == COUNTER_MAX {
            // No addition: threads only read the hottest lines, and do not compete for them.
            return COUNTER_MAX as u8;
        }
        for place in places {
            let word = self.counters[place.word].load(Relaxed);
            // The others are too high already, because other keys share them.
            if place.counter(word) == least {
                // Computed from the word that was checked, so that no counter overflows into its
                // neighbour, whatever other threads have stored since.
                self.counters[place.word].store(word + (1 << place.shift), Relaxed);
            }
        }
        let additions = self.additions.load(Relaxed) + 1;
        self.additions.store(additions, Relaxed);
        if additions >= ADDITIONS_PER_HALVING {
            self.halve();
        }
        least as u8 + 1
    }

    #[inline]
    fn least(&self, places: [SketchCounterPosition; ROWS]) -> u64 {
        let counter =
            |place: SketchCounterPosition| place.counter(self.counters[place.word].load(Relaxed));
        let [a, b, c, d] = places.map(counter);
        a.min(b).min(c.min(d))
    }

    #[cold]
    fn halve(&self) {
        self.additions.store(0, Relaxed);
        for word in &self.counters {
            word.store((word.load(Relaxed) >> 1) & HALVED, Relaxed);
        }
    }
}

impl SketchCounterPosition {
    #[inline]
    fn counter(self, word: u64) -> u64 {
        (word >> self.shift) & COUNTER_MAX
    }
}

/// Returns a counter in each row.
#[inline]
fn places(hash: u64) -> [SketchCounterPosition; ROWS] {
    array::from_fn(|row| {
        // Each row has nibbles of its own, so no counter is returned twice.
        let bits = (hash >> (row * BITS_PER_ROW)) as usize;
        let nibble = row * NIBBLES_PER_ROW + bits % NIBBLES_PER_ROW;
        SketchCounterPosition {
            word: (((bits >> 2) & 0xff) * COUNTER_WORDS) >> 8,
            shift: nibble * COUNTER_BITS,
        }
    })
}

#[cfg(test)]
mod tests;
