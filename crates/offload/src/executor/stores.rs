//! The bytes of a window that an iteration has stored.

use crate::program::{NODE_BYTES_MAX, REGION_BYTES};
use std::ops::Range;

const WORDS: usize = 4;
// A set has a bit for each byte of the windows whose stores are noted.
const _: () = assert!(64 * WORDS == NODE_BYTES_MAX && 64 * WORDS == REGION_BYTES);

/// A set of the bytes of a window of 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ByteSet {
    /// The bits: one for each byte, and one word more, because native code changes two words at
    /// once.
    words: [u64; WORDS + 1],
}

/// The stores of an iteration into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stores {
    /// Stores into the node, counted from the first byte that was loaded.
    pub node: ByteSet,
    /// Stores into the new allocation.
    pub allocation: ByteSet,
}

impl ByteSet {
    /// The empty set.
    pub const EMPTY: ByteSet = ByteSet {
        words: [0; WORDS + 1],
    };

    /// Returns true if no byte is in it.
    pub fn is_empty(&self) -> bool {
        *self == ByteSet::EMPTY
    }

    /// Adds bytes. Ignores those beyond 256.
    pub fn insert(&mut self, bytes: Range<usize>) {
        for byte in bytes {
            if let Some(word) = self.words.get_mut(byte / 64) {
                *word |= 1 << (byte % 64);
            }
        }
    }

    fn contains(&self, byte: usize) -> bool {
        let word = self.words.get(byte / 64);
        word.is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// Returns the ranges of successive bytes, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = (at..64 * WORDS).find(|&byte| self.contains(byte))?;
            at = (start..64 * WORDS)
                .find(|&byte| !self.contains(byte))
                .unwrap_or(64 * WORDS);
            Some(start..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_was_inserted() {
        let mut set = ByteSet::EMPTY;
        assert!(set.is_empty() && set.ranges().next().is_none());
        for range in [60..68, 0..1, 250..256, 68..72] {
            set.insert(range);
        }
        let ranges: Vec<_> = set.ranges().collect();
        assert_eq!(ranges, [0..1, 60..72, 250..256]);
    }
}
