//! Stems: common beginnings of keys after which the tree next decides on a later byte.
//!
//! Keys such as `user:1024` begin alike, so prefixes from their first byte on lead past few nodes.
//! A stem consists of the shortest prefix of such keys, whose first node after it decides on a
//! later byte, and of the depth of that node, from which the windows of these keys begin:
//!
//! ```text
//!   u s e r : 1 0 2 4 5 7
//!   stem      window
//! ```
//!
//! The bytes between are not compared, because walks skip them as well. A stem has a number, which
//! is a byte of its prefixes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The minimum depth of a node for a stem. For a smaller depth, prefixes from the first byte on
/// suffice.
pub const DEPTH_MIN: usize = 4;

/// The greatest depth.
pub const DEPTH_MAX: usize = 255;

/// Number of places for stems.
const PLACES: usize = 256;

/// The word of a place without a stem: the number of a stem is not 0.
const NONE: u64 = 0;

/// A beginning that keys share, and the depth at which their windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stem {
    /// The first bytes of its keys, big-endian.
    pub first: u64,
    /// The depth of the first node after them.
    pub depth: usize,
    /// The stem's number, at least 1.
    pub number: u8,
}

impl Stem {
    fn word(self) -> u64 {
        u64::from(self.number) << 32 | (self.depth as u64) << 24 | self.first
    }

    #[inline]
    fn of(word: u64) -> Stem {
        Stem {
            first: word & 0xff_ffff,
            depth: (word >> 24) as usize & DEPTH_MAX,
            number: (word >> 32) as u8,
        }
    }
}

/// The stems of a tree.
#[derive(Debug)]
pub struct Stems(Box<[AtomicU64; PLACES]>);

impl Default for Stems {
    fn default() -> Stems {
        Stems(Box::new([const { AtomicU64::new(NONE) }; PLACES]))
    }
}

impl Stems {
    #[inline]
    fn place(&self, first: u64) -> &AtomicU64 {
        // The middle bits of the product depend on all bytes.
        &self.0[(first.wrapping_mul(0x9e37_79b1) >> 24) as usize % PLACES]
    }

    /// Returns the stem of keys with these first bytes.
    #[inline]
    pub fn find(&self, first: u64) -> Option<Stem> {
        let word = self.place(first).load(Ordering::Acquire);
        (word & 0xff_ffff == first && word != NONE).then(|| Stem::of(word))
    }

    /// Returns true if there is room for a stem of keys with these first bytes.
    pub fn has_room(&self, first: u64) -> bool {
        self.place(first).load(Ordering::Relaxed) == NONE
    }

    pub fn set(&self, stem: Stem) {
        self.place(stem.first).store(stem.word(), Ordering::Release);
    }

    pub fn clear(&self, stem: Stem) {
        self.place(stem.first).store(NONE, Ordering::Release);
    }

    pub fn iter(&self) -> impl Iterator<Item = Stem> {
        let words = self.0.iter().map(|place| place.load(Ordering::Relaxed));
        words.filter(|&word| word != NONE).map(Stem::of)
    }
}
