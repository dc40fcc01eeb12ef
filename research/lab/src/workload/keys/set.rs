//! The keys of one experiment.

use rand::seq::SliceRandom;

use super::super::{ByteStringList, random};

/// The keys of one experiment, all different, in the order in which they are loaded.
///
/// The operations of a stream name keys by their position in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySet {
    /// 64-bit integers.
    Words(Vec<u64>),
    /// Byte strings, none of them empty.
    Bytes(ByteStringList),
}

impl KeySet {
    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            KeySet::Words(words) => words.len(),
            KeySet::Bytes(strings) => strings.len(),
        }
    }

    /// Returns true if there is no key. No generated set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of all keys together, 8 for each integer.
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        match self {
            KeySet::Words(words) => words.len() * size_of::<u64>(),
            KeySet::Bytes(strings) => strings.text_bytes(),
        }
    }

    /// Puts the keys in ascending order: integers by value, strings as bytes.
    pub fn sort(&mut self) {
        match self {
            KeySet::Words(words) => words.sort_unstable(),
            KeySet::Bytes(strings) => *strings = strings.sorted(),
        }
    }

    /// Puts the keys in a random order, determined by `seed` and the order before.
    pub fn shuffle(&mut self, seed: u64) {
        match self {
            KeySet::Words(words) => words.shuffle(&mut random(seed, SHUFFLE)),
            KeySet::Bytes(strings) => *strings = strings.shuffled(seed ^ SHUFFLE),
        }
    }

    /// Keeps the first `count` keys; all if there are fewer.
    pub fn truncate(&mut self, count: usize) {
        match self {
            KeySet::Words(words) => words.truncate(count),
            KeySet::Bytes(strings) => strings.truncate(count),
        }
    }
}

/// The purpose of the generator that shuffles.
const SHUFFLE: u64 = 0x73_6875_6666;

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> [KeySet; 2] {
        let words: Vec<u64> = (0..500).rev().collect();
        let strings = words.iter().map(|word| format!("{word:03}")).collect();
        [KeySet::Words(words), KeySet::Bytes(strings)]
    }

    #[test]
    fn shuffling_keeps_the_keys_and_sorting_orders_them() {
        for set in sets() {
            let mut sorted = set.clone();
            sorted.sort();
            let mut shuffled = set.clone();
            shuffled.shuffle(1);
            assert_ne!(shuffled, set);
            assert_ne!(shuffled, sorted);
            let mut again = set.clone();
            again.shuffle(1);
            assert_eq!(shuffled, again);
            shuffled.sort();
            assert_eq!(shuffled, sorted);
        }
    }

    #[test]
    fn truncation() {
        for mut set in sets() {
            set.truncate(1000);
            assert_eq!(set.len(), 500);
            set.truncate(2);
            assert_eq!(set.len(), 2);
            assert!(set.key_bytes() == 16 || set.key_bytes() == 6);
        }
    }
}
