//! The words of a text, and the documents that contain them, as keys.

use super::scale::RadarScale;
use crate::error::LabError;
use crate::workload::{Permutation, each_line, random};
use rand::RngExt;
use rand_distr::Zipf;
use std::collections::HashMap;
use std::path::Path;

/// Reads pairs of a word and a document from a text, one for each occurrence of the word. The upper
/// half of a key is the rank of the word among all words in their order, scaled so that ranks fill
/// 32 bits evenly; the lower half is the number of the document. So the keys of a word are
/// adjacent, frequent words are long runs, and equal parts of the space of keys have equally many
/// words.
///
/// A document is a line; a word consists of letters and digits, regardless of case.
///
/// # Errors
/// `KeyFile` for a file that cannot be read, or is not text.
fn read(path: &Path) -> Result<Vec<u64>, LabError> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut document = 0;
    each_line(path, |line| {
        let line = String::from_utf8_lossy(line).to_lowercase();
        let words = line.split(|letter: char| !letter.is_alphanumeric());
        for word in words.filter(|word| !word.is_empty()) {
            let next = numbers.len() as u32;
            // Most words are known, and need no copy as a key of the map.
            let number = match numbers.get(word) {
                Some(&number) => number,
                None => *numbers.entry(word.to_owned()).or_insert(next),
            };
            pairs.push((number, document));
        }
        document += 1;
    })?;
    let mut words: Vec<(String, u32)> = numbers.into_iter().collect();
    words.sort_unstable();
    let mut ranks = vec![0_u32; words.len()];
    for (rank, (_, number)) in words.iter().enumerate() {
        ranks[*number as usize] = rank as u32;
    }
    let pairs = pairs.into_iter();
    Ok(pairs
        .map(|(number, document)| key(ranks[number as usize], words.len(), document))
        .collect())
}

fn key(rank: u32, words: usize, document: u32) -> u64 {
    debug_assert!((rank as usize) < words, "rank {rank} of {words} words");
    let spread = (u64::from(rank) << 32) / words.max(1) as u64;
    spread << 32 | u64::from(document)
}

/// Number of words of a generated language.
const WORDS: u32 = 1_000_000;

/// Generates a text with this number of pairs: documents of a hundred to a thousand words. The
/// frequency of words follows Zipf's distribution (θ = 1), and is independent of their rank among
/// words in their order.
fn generate(pairs: usize, seed: u64) -> Vec<u64> {
    let mut random = random(seed, 0x7465_7874);
    let frequency = Zipf::new(f64::from(WORDS), 1.0).expect("a distribution");
    let order = Permutation::new(u64::from(WORDS), seed);
    let mut keys = Vec::with_capacity(pairs);
    let mut document = 0;
    while keys.len() < pairs {
        for _ in 0..random.random_range(100..=1000) {
            let rank: f64 = random.sample(frequency);
            // Rounding at the upper end may give one rank too many.
            let word = order.at((rank as u64 - 1).min(u64::from(WORDS) - 1));
            keys.push(key(word as u32, WORDS as usize, document));
        }
        document += 1;
    }
    keys
}

/// Returns the pairs of a run, and a description of them.
///
/// # Errors
/// Those of [`read`].
pub(super) fn of(scale: &RadarScale) -> Result<(Vec<u64>, &'static str), LabError> {
    Ok(match &scale.text {
        Some(path) => (read(path)?, "words"),
        None => (generate(scale.keys, scale.seed), "generated words"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_word_of_a_document_is_a_key() {
        let path = std::env::temp_dir().join(format!("nearfield-text-{}", std::process::id()));
        std::fs::write(&path, "The cat; the dog.\n\nA Cat\n").unwrap();
        let keys = read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // Ranks: a, cat, dog, the.
        let [a, cat, dog, the] = [0, 1, 2, 3].map(|rank| rank << 62);
        assert_eq!(keys, [the, cat, the, dog, a | 2, cat | 2]);
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_generated_text_has_frequent_words() {
        let keys = generate(50_000, 1);
        assert_eq!(keys, generate(50_000, 1));
        let mut counts = HashMap::new();
        for key in &keys {
            *counts.entry(key >> 32).or_insert(0) += 1;
        }
        // One in ln(1,000,000) + 0.58 words.
        let most = counts.values().max().unwrap() * 1000 / keys.len();
        assert!((60..80).contains(&most), "{most}");
        let distinct: BTreeSet<u64> = keys.iter().copied().collect();
        assert!(distinct.len() * 2 > keys.len());
    }
}
