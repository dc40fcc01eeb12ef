//! Ranges of keys.

use crate::error::PoolError;
use crate::index;

/// A range of keys of a tree, both bounds included. They have the length of the tree's keys, and
/// may be all zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolScanRange {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
    /// The last byte of all keys of the tree, if it is the same.
    suffix: Option<u8>,
}

/// A range of keys as numbers, both bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRange {
    pub low: u64,
    pub high: u64,
}

const WORD: usize = size_of::<u64>();

impl PoolScanRange {
    /// Creates the range of all keys from `low` to `high`.
    pub fn new(low: &[u8], high: &[u8]) -> PoolScanRange {
        PoolScanRange {
            low: low.to_vec(),
            high: high.to_vec(),
            suffix: None,
        }
    }

    /// Returns the same range for a tree with keys that all end with this byte.
    pub(crate) fn with_suffix(self, suffix: u8) -> PoolScanRange {
        let suffix = Some(suffix);
        PoolScanRange { suffix, ..self }
    }

    /// Refuses bounds that differ in length from keys.
    pub(crate) fn check(&self, key_bytes: usize) -> Result<(), PoolError> {
        index::check_bound(&self.low, key_bytes)?;
        index::check_bound(&self.high, key_bytes)
    }

    /// Returns the rest of the range behind a key; `None` if nothing is left.
    pub(crate) fn behind(&self, key: &[u8]) -> Option<PoolScanRange> {
        let mut low = key.to_vec();
        let is_next = low.iter_mut().rev().any(|byte| {
            *byte = byte.wrapping_add(1);
            *byte != 0
        });
        let rest = PoolScanRange {
            low,
            ..self.clone()
        };
        (is_next && !rest.is_empty()).then_some(rest)
    }

    /// Divides the range at keys: each part but the first begins at one of them. Keys that are not
    /// within the range, or not in ascending order, are left out.
    pub(crate) fn divide(&self, keys: &[Vec<u8>]) -> Vec<PoolScanRange> {
        let mut parts = Vec::with_capacity(keys.len() + 1);
        let mut rest = self.clone();
        for key in keys.iter().filter(|key| key.len() == self.low.len()) {
            // A key above the low bound has one before it.
            if *key <= rest.low || *key > rest.high {
                continue;
            }
            let mut high = key.clone();
            for byte in high.iter_mut().rev() {
                *byte = byte.wrapping_sub(1);
                if *byte != u8::MAX {
                    break;
                }
            }
            let part = PoolScanRange {
                high,
                ..rest.clone()
            };
            parts.push(part);
            rest.low.clone_from(key);
        }
        parts.push(rest);
        parts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.low > self.high
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.low <= *key && *key <= *self.high
    }

    /// Returns the range as one of numbers, if keys are words: eight bytes, or nine with a constant
    /// last one. `Some(None)` if there is no such key.
    pub(crate) fn words(&self) -> Option<Option<WordRange>> {
        // All keys end with the suffix. So a bound with another last byte lies beside the key of
        // its word, and may exclude it.
        let split = |key: &[u8]| {
            let (word, rest) = key.split_first_chunk::<WORD>()?;
            let word = u64::from_be_bytes(*word);
            match (rest, self.suffix) {
                ([], None) => Some((word, true, true)),
                (&[last], Some(suffix)) => Some((word, suffix >= last, suffix <= last)),
                _ => None,
            }
        };
        let (low, low_is_in, _) = split(&self.low)?;
        let (high, _, high_is_in) = split(&self.high)?;
        let low = low.checked_add((!low_is_in).into());
        let high = high.checked_sub((!high_is_in).into());
        let range = low.zip(high).filter(|(low, high)| low <= high);
        Some(range.map(|(low, high)| WordRange { low, high }))
    }

    /// Returns the key of a number.
    pub(crate) fn key_of(&self, word: u64) -> Vec<u8> {
        let mut key = word.to_be_bytes().to_vec();
        key.extend(self.suffix);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_a_suffix_are_in_the_range_of_words_if_they_are_in_that_of_bytes() {
        let key = |word: u64, last: u8| [&word.to_be_bytes()[..], &[last]].concat();
        let words = [0, 1, 2, u64::MAX - 1, u64::MAX];
        let keys: Vec<Vec<u8>> = words
            .into_iter()
            .flat_map(|word| [0, 8, 9, 10, 255].map(|last| key(word, last)))
            .collect();
        for low in &keys {
            for high in &keys {
                let range = PoolScanRange::new(low, high).with_suffix(9);
                let found = range.words().expect("keys are words");
                for word in words {
                    assert_eq!(range.key_of(word), key(word, 9));
                    let is_in = found.is_some_and(|found| (found.low..=found.high).contains(&word));
                    assert_eq!(is_in, range.contains(&key(word, 9)), "{word} in {range:?}");
                }
            }
        }
        assert_eq!(PoolScanRange::new(&[0; 9], &[1; 9]).words(), None);
        assert_eq!(PoolScanRange::new(&[0; 7], &[1; 7]).words(), None);
        let range = PoolScanRange::new(&[0; 8], &[0, 0, 0, 0, 0, 0, 1, 0]).words();
        assert_eq!(range, Some(Some(WordRange { low: 0, high: 256 })));
    }

    #[test]
    fn parts_have_each_key_once() {
        let range = PoolScanRange::new(&[0, 5], &[3, 9]);
        let keys = [[0, 5], [1, 0], [2, 7], [2, 6], [3, 9], [4, 0]].map(|key| key.to_vec());
        let parts = range.divide(&keys);
        let bounds: Vec<(&[u8], &[u8])> = parts
            .iter()
            .map(|part| (part.low.as_slice(), part.high.as_slice()))
            .collect();
        let expected: [(&[u8], &[u8]); 4] = [
            (&[0, 5], &[0, 255]),
            (&[1, 0], &[2, 6]),
            (&[2, 7], &[3, 8]),
            (&[3, 9], &[3, 9]),
        ];
        assert_eq!(bounds, expected);
        assert_eq!(range.divide(&[]), std::slice::from_ref(&range));
        assert_eq!(range.divide(&[vec![1]]), [range]);
    }

    #[test]
    fn what_is_behind_a_key_ends_with_the_range() {
        let range = PoolScanRange::new(&[0, 0], &[1, 255]);
        let behind = |key: [u8; 2]| range.behind(&key).map(|rest| rest.low);
        assert_eq!(behind([0, 255]), Some(vec![1, 0]));
        assert_eq!(behind([1, 254]), Some(vec![1, 255]));
        assert_eq!(behind([1, 255]), None);
        assert_eq!(
            PoolScanRange::new(&[0, 0], &[255, 255]).behind(&[255, 255]),
            None
        );
    }
}
