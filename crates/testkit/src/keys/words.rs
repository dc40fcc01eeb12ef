//! Keys of 8 bytes.

use super::{Random, SampleForm, choose, distinct, open_word, seal_word};
use nearfield_core::Words;
use rand::{Rng, RngExt};

/// The kinds of key sets of [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKeys {
    /// Consecutive numbers from a random start.
    Dense,
    /// Numbers from the whole range.
    Sparse,
    /// Numbers that share one of a few prefixes of 1 to 7 bytes.
    Clustered,
    /// Both ends of the range, and both sides of each power of 256.
    Extremes,
    /// A set of at most four numbers.
    Few,
}

impl SampleForm for Words {
    type Kind = WordKeys;
    const KINDS: &'static [WordKeys] = &[
        WordKeys::Dense,
        WordKeys::Sparse,
        WordKeys::Clustered,
        WordKeys::Extremes,
        WordKeys::Few,
    ];

    fn keys(kind: WordKeys, count: usize, random: &mut Random) -> Vec<u64> {
        match kind {
            WordKeys::Dense => {
                // Starts of all magnitudes, because each byte of a key may be a level of a tree.
                let start = random.next_u64() >> random.random_range(0..64);
                (0..count as u64)
                    .map(|step| start.wrapping_add(step))
                    .collect()
            }
            WordKeys::Sparse => distinct(count, || random.next_u64()),
            WordKeys::Clustered => {
                let prefixes = [(); 4].map(|()| (random.next_u64(), random.random_range(1..8)));
                distinct(count, || {
                    let &(prefix, bytes) = choose(&prefixes, random);
                    prefix ^ random.next_u64() >> (8 * bytes)
                })
            }
            WordKeys::Extremes => distinct(count, || {
                let edge = 1_u64 << (8 * random.random_range(0..8));
                let distance = random.random_range(0..3);
                match random.random_range(0..4) {
                    0 => distance,
                    1 => u64::MAX - distance,
                    2 => edge.wrapping_add(distance),
                    _ => edge.wrapping_sub(distance),
                }
            }),
            WordKeys::Few => distinct(count.min(4), || random.next_u64()),
        }
    }

    fn near(key: u64, random: &mut Random) -> u64 {
        match random.random_range(0..4) {
            0 => key.wrapping_add(1),
            1 => key.wrapping_sub(1),
            2 => key ^ 1 << random.random_range(0..64),
            _ => key ^ random.random_range(0..=255) << (8 * random.random_range(0..8)),
        }
    }

    fn oversized_key(_random: &mut Random) -> Option<u64> {
        None
    }

    fn any_value(random: &mut Random) -> u64 {
        match random.random_range(0..4) {
            0 => random.random_range(0..4),
            1 => u64::MAX - random.random_range(0..4),
            _ => random.next_u64(),
        }
    }

    fn key_bytes(_key: u64) -> usize {
        8
    }

    fn value_bytes(_value: u64) -> usize {
        8
    }

    fn seal(number: u64) -> u64 {
        seal_word(number)
    }

    fn open(value: u64) -> Option<u64> {
        open_word(value)
    }

    fn simpler_keys(&key: &u64, rank: usize) -> Vec<u64> {
        let mut keys = vec![
            rank as u64,
            key >> 32,
            key >> 8,
            key >> 1,
            key & key.wrapping_sub(1),
        ];
        keys.retain(|&simpler| simpler < key);
        keys
    }

    fn simpler_values(value: &u64, rank: usize) -> Vec<u64> {
        Self::simpler_keys(value, rank)
    }

    fn show_key(key: u64) -> String {
        if key < 1 << 16 {
            key.to_string()
        } else {
            format!("{key:#x}")
        }
    }

    fn show_value(value: u64) -> String {
        Self::show_key(value)
    }
}
