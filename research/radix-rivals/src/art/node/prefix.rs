//! The compressed prefix of a node, in one word.

use crate::scan::Symbol;

/// Number of bytes of a prefix that a node stores.
const STORED: usize = 6;

/// The prefix: its length in the two lowest bytes, and its first bytes in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtPrefix(u64);

impl ArtPrefix {
    /// Creates a prefix of `length` bytes, fewer than 2^16, that begins with `bytes`. The stored
    /// bytes suffice.
    pub fn new(length: usize, bytes: impl IntoIterator<Item = u8>) -> ArtPrefix {
        let stored = bytes.into_iter().take(STORED.min(length)).enumerate();
        let word = stored.fold(0, |word, (i, byte)| word | u64::from(byte) << (16 + 8 * i));
        ArtPrefix(word | length as u64)
    }

    /// Creates a prefix from a word that was stored.
    #[inline]
    pub fn from_word(word: u64) -> ArtPrefix {
        ArtPrefix(word)
    }

    /// Returns the word to store.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes, stored or not.
    #[inline]
    pub fn length(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Returns the bytes that are stored.
    #[inline]
    pub fn stored(self) -> impl Iterator<Item = u8> {
        (0..self.stored_length()).map(move |i| self.byte(i))
    }

    /// Returns the number of bytes that are stored.
    #[inline]
    pub fn stored_length(self) -> usize {
        self.length().min(STORED)
    }

    #[inline]
    fn byte(self, i: usize) -> u8 {
        (self.0 >> (16 + 8 * i)) as u8
    }

    /// Returns true if all bytes are stored.
    #[inline]
    pub fn is_whole(self) -> bool {
        self.length() <= STORED
    }

    /// Returns the depth and byte at which the stored bytes first differ from those of `key` from
    /// `depth` on; `None` if they agree.
    #[inline]
    pub fn difference(self, key: &[u8], depth: usize) -> Option<(usize, Symbol)> {
        if self.length() == 0 {
            return None;
        }
        let stored = self.stored().enumerate();
        let mut differing = stored.filter(|&(i, byte)| key.get(depth + i) != Some(&byte));
        differing.next().map(|(i, byte)| (i, Some(byte)))
    }

    /// Returns the prefix of a node that replaces its parent, which had this prefix and led to it
    /// by `byte`.
    pub fn joined(self, byte: u8, below: ArtPrefix) -> ArtPrefix {
        let bytes = self.stored().chain([byte]).chain(below.stored());
        ArtPrefix::new(self.length() + 1 + below.length(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_keeps_its_length_and_its_first_bytes() {
        for length in [0, 1, 5, 6, 7, 300, 65_535] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8 ^ 0x5a).collect();
            let prefix = ArtPrefix::new(length, bytes.iter().copied());
            assert_eq!(prefix.length(), length);
            assert!(prefix.stored().eq(bytes.iter().copied().take(6)));
            assert_eq!(prefix.is_whole(), length <= 6);
            assert_eq!(ArtPrefix::from_word(prefix.word()), prefix);
            let key = [b"..", &bytes[..], b"end"].concat();
            assert_eq!(prefix.difference(&key, 2), None);
            for differing in 0..length.min(6) {
                let mut other = key.clone();
                other[2 + differing] ^= 1;
                let byte = Some(bytes[differing]);
                assert_eq!(prefix.difference(&other, 2), Some((differing, byte)));
                let cut = &key[..2 + differing];
                assert_eq!(prefix.difference(cut, 2), Some((differing, byte)));
            }
        }
    }

    #[test]
    fn joined_prefixes_are_one_behind_the_other() {
        for (above, below) in [(0, 0), (2, 2), (5, 9), (6, 0), (9, 5)] {
            let bytes: Vec<u8> = (1..).take(above + 1 + below).collect();
            let [first, last] = [0..above, above + 1..bytes.len()]
                .map(|range| ArtPrefix::new(range.len(), bytes[range].iter().copied()));
            let whole = ArtPrefix::new(bytes.len(), bytes.iter().copied());
            assert_eq!(first.joined(bytes[above], last), whole);
        }
    }
}
