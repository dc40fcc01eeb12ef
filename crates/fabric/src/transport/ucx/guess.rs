//! The expected words of masked swaps.

use crate::address::{GlobalAddress, WORD_BYTES};
use crate::verb::MaskedSwap;
use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Number of remembered words, each at a place that its address selects.
const PLACES: usize = 1 << 12;

/// The words that swaps have found last, for some addresses. A wrong guess costs a round trip.
pub struct Guesses {
    places: RefCell<Box<[(GlobalAddress, u64)]>>,
}

impl Guesses {
    pub fn new() -> Guesses {
        let nothing = (GlobalAddress::NULL, 0);
        Guesses {
            places: RefCell::new(vec![nothing; PLACES].into()),
        }
    }

    /// Returns a word at an address with which a swap would succeed.
    pub fn guess(&self, at: GlobalAddress, swap: &MaskedSwap) -> u64 {
        let (address, word) = self.places.borrow()[place(at)];
        // Addresses share places, and the last one wins: a wrong guess costs time only.
        let word = if address == at { word } else { 0 };
        swap.expected & swap.compare_mask | word & !swap.compare_mask
    }

    /// Notes the word that a swap has found.
    pub fn see(&self, at: GlobalAddress, word: u64) {
        self.places.borrow_mut()[place(at)] = (at, word);
    }

    /// Notes a write, which may replace a remembered word: the release of a lock is such a write.
    pub fn note_written(&self, to: GlobalAddress, bytes: &[u8]) {
        let skipped = to.offset().next_multiple_of(WORD_BYTES) - to.offset();
        let words = bytes.get(skipped as usize..).unwrap_or_default();
        // A lock is written alone, or as the last or first word of its data.
        let (chunks, _) = words.as_chunks::<8>();
        let last = chunks.len().saturating_sub(1);
        for index in [0, last] {
            if let Some(word) = chunks.get(index) {
                let at = to.plus(skipped + WORD_BYTES * index as u64);
                let seen = &mut self.places.borrow_mut()[place(at)];
                if seen.0 == at {
                    seen.1 = u64::from_le_bytes(*word);
                }
            }
        }
    }
}

fn place(at: GlobalAddress) -> usize {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    hasher.hash_one(at) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::NodeId;

    #[test]
    fn what_was_seen_or_written_is_expected_where_it_can_be() {
        let guesses = Guesses::new();
        let at = GlobalAddress::new(NodeId(1), 64);
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: 1 << 63,
            desired: u64::MAX,
            swap_mask: u64::MAX,
        };
        assert_eq!(guesses.guess(at, &swap), 0);
        guesses.see(at, 77);
        assert_eq!(guesses.guess(at, &swap), 77);
        assert_eq!(guesses.guess(at.plus(8), &swap), 0);
        // The lock is written alone, then at the end of unaligned bytes.
        guesses.note_written(at, &78_u64.to_le_bytes());
        assert_eq!(guesses.guess(at, &swap), 78);
        let mut segment = [0; 45];
        segment[37..].copy_from_slice(&79_u64.to_le_bytes());
        guesses.note_written(GlobalAddress::new(NodeId(1), 64 - 37), &segment);
        assert_eq!(guesses.guess(at, &swap), 79);
        guesses.note_written(at.plus(1), &[1; 7]);
        assert_eq!(guesses.guess(at, &swap), 79);
        // The guess must be a word with which the swap succeeds.
        guesses.see(at, 5 | 1 << 63);
        assert_eq!(guesses.guess(at, &swap), 5);
        assert_eq!(guesses.guess(at, &MaskedSwap::whole(9, 1)), 9);
    }
}
