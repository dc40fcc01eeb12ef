//! Keys and values by position, without a table.

use crate::workload::Permutation;

/// Random distinct integers of 64 bits as keys, and values that reveal a wrong outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct PermutedKeys {
    permutation: Permutation,
    key_bytes: usize,
    value_bytes: usize,
}

/// The bits of a value that identify the write; the others depend on its key.
const WRITING: u64 = 0xffff;

impl PermutedKeys {
    pub(super) fn new(seed: u64, key_bytes: usize, value_bytes: usize) -> PermutedKeys {
        debug_assert!(key_bytes >= 8 && value_bytes >= 8, "both begin with a word");
        PermutedKeys {
            permutation: Permutation::of_words(seed),
            key_bytes,
            value_bytes,
        }
    }

    /// Returns the number of the key at a position; keys are in the order of their numbers.
    pub(super) fn word(&self, position: usize) -> u64 {
        // A key of zeros is invalid.
        self.permutation.at(position as u64).max(1)
    }

    /// Returns the key at a position: big-endian, followed by zeros if keys are longer.
    pub(super) fn key(&self, position: usize) -> Vec<u8> {
        let mut key = vec![0; self.key_bytes];
        key[..8].copy_from_slice(&self.word(position).to_be_bytes());
        key
    }

    /// Returns the value of the key at a position for a write.
    pub(super) fn value(&self, position: usize, writing: usize) -> Vec<u8> {
        let word = self.of_key(position) | writing as u64 & WRITING;
        let mut value = vec![0; self.value_bytes];
        value[..8].copy_from_slice(&word.to_le_bytes());
        value
    }

    /// Returns true if `value` was written for the key at a position.
    pub(super) fn is_value(&self, position: usize, value: Option<&[u8]>) -> bool {
        let word = value.and_then(|value| value.first_chunk());
        word.is_some_and(|word| u64::from_le_bytes(*word) & !WRITING == self.of_key(position))
    }

    fn of_key(&self, position: usize) -> u64 {
        // Not the key itself: an index that mixes up keys and values must fail.
        self.permutation.at(position as u64).rotate_left(29) & !WRITING
    }
}
