//! Words that look like English ones to an index: the set DICT without its data.
//!
//! They are words of a generated [`Language`], tuned so that their lengths and the tree over them
//! are those of dwyl/english-words (466,551 words, mean 9.4 bytes, the longest 45; see the tests).

use super::super::{ByteStringList, random};
use super::Progress;
use super::integers::REPORT_INTERVAL;
use super::language::Language;
use super::uniqueness::DistinctStrings;

/// The most keys: above this, new words become hard to find.
pub(super) const COUNT_MAX: u64 = 20_000_000;
/// Bytes of the words twice while they are shuffled (10 + 8 bytes each), and of their hashes.
pub(super) const BYTES_PER_KEY: u64 = 2 * 18 + 18;
/// Longest word made, in bytes.
const LENGTH_MAX: usize = 30;

/// Generates `count` words in random order.
pub(super) fn generate(count: usize, seed: u64, progress: Progress<'_>) -> ByteStringList {
    let mut random = random(seed, 0x776f_7264);
    let language = Language::new();
    let mut seen = DistinctStrings::with_capacity(count);
    let mut words = ByteStringList::with_capacity(count, count * 10);
    let mut family = Vec::new();
    let mut stems = Vec::new();
    while words.len() < count {
        family.clear();
        let stem = language.related_stem(&mut random, &mut stems);
        language.family(stem, &mut random, &mut family);
        for word in &family {
            if words.len() < count && word.len() <= LENGTH_MAX && seen.insert(word.as_bytes()) {
                words.push(word.as_bytes());
                if words.len().is_multiple_of(REPORT_INTERVAL) {
                    progress(words.len() as u64, count as u64);
                }
            }
        }
    }
    // Its memory is free before the words are copied.
    drop(seen);
    words.shuffled(seed)
}

#[cfg(test)]
mod tests {
    use super::super::shape::shape;
    use super::*;
    use std::sync::OnceLock;

    fn english_sized() -> &'static ByteStringList {
        static SET: OnceLock<ByteStringList> = OnceLock::new();
        SET.get_or_init(|| generate(466_551, 1, &mut |_, _| {}).sorted())
    }

    #[test]
    fn lengths_are_those_of_english() {
        let words = english_sized();
        let mean = words.text_bytes() as f64 / words.len() as f64;
        assert!((9.2..9.9).contains(&mean), "mean {mean}");
        let mut shares = [0.0; LENGTH_MAX + 1];
        for word in words.iter() {
            shares[word.len()] += 1.0 / words.len() as f64;
        }
        // Shares in the list: 11 % of 7 letters, 13 % of 9, 8 % of 12, 0.4 % of 18.
        for (length, share) in [(7, 0.11), (9, 0.13), (12, 0.08)] {
            assert!(
                (shares[length] - share).abs() < 0.025,
                "{length}: {}",
                shares[length]
            );
        }
        assert!((0.001..0.02).contains(&shares[18]), "18: {}", shares[18]);
        assert!(words.iter().any(|word| word.len() > 25));
    }

    #[test]
    fn the_tree_resembles_that_of_english() {
        let words: Vec<Vec<u8>> = english_sized()
            .iter()
            .map(|word| [word, b"\0"].concat())
            .collect();
        let shape = shape(&words);
        // In the list: 211,280 / 25,044 / 1,049 / 9 and 7.2.
        assert!((170_000..250_000).contains(&shape.node4), "{shape:?}");
        assert!((20_000..30_000).contains(&shape.node16), "{shape:?}");
        assert!((700..1700).contains(&shape.node48), "{shape:?}");
        assert!(shape.node256 < 30, "{shape:?}");
        assert!((6.2..7.5).contains(&shape.depth_mean), "{shape:?}");
    }

    #[test]
    fn words_are_letters_and_hyphens() {
        for word in english_sized().iter() {
            assert!(
                word.iter()
                    .all(|byte| byte.is_ascii_alphabetic() || *byte == b'-')
            );
            assert!(word[1..].iter().all(|byte| !byte.is_ascii_uppercase()));
        }
    }
}
