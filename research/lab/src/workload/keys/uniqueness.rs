//! The set of strings that were generated already.

use std::collections::HashSet;

/// A set of strings by their 64-bit hashes: 8 bytes each instead of a second copy.
///
/// Two different strings of one hash count as equal. That drops one good candidate in 2^64 / n and
/// never lets a duplicate through.
pub(super) struct DistinctStrings(HashSet<u64>);

impl DistinctStrings {
    /// Creates a set with room for `count` strings.
    pub(super) fn with_capacity(count: usize) -> Self {
        DistinctStrings(HashSet::with_capacity(count))
    }

    /// Adds `string`; returns false if it was present.
    pub(super) fn insert(&mut self, string: &[u8]) -> bool {
        self.0.insert(hash(string))
    }
}

/// Hashes by FNV-1a over 8 bytes at a time, and mixes.
fn hash(string: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    // Not the standard library's hash, which may change: the strings that it drops determine the
    // key set.
    let mut hash = OFFSET ^ string.len() as u64;
    for chunk in string.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(PRIME);
        hash ^= hash >> 29;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_new_once() {
        let mut seen = DistinctStrings::with_capacity(4);
        for string in ["", "a", "a\0", "near", "nearfield-engine"] {
            assert!(seen.insert(string.as_bytes()), "{string:?}");
            assert!(!seen.insert(string.as_bytes()), "{string:?}");
        }
    }

    #[test]
    fn a_million_close_strings_do_not_collide() {
        let mut seen = DistinctStrings::with_capacity(1_000_000);
        let collisions =
            (0..1_000_000).filter(|i| !seen.insert(format!("user{i}@mail").as_bytes()));
        assert_eq!(collisions.count(), 0);
    }
}
