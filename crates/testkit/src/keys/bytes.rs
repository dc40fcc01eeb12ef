//! Keys that are byte strings.

use super::{Random, SampleForm, choose, distinct, open_word, scramble, seal_word};
use nearfield_core::{ByteStrings, MAX_KEY_BYTES};
use rand::{Rng, RngExt};

/// The kinds of key sets of [`ByteStrings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteKeys {
    /// Keys of up to 6 bytes of at most three letters, so that most keys are prefixes of others.
    Prefixes,
    /// Keys of up to 5 bytes of `00`, `01`, `fe` and `ff`; the empty key is among them.
    Edges,
    /// Keys of up to 12 random bytes.
    Random,
    /// A few long common prefixes, 8 to 300 bytes and mostly about a multiple of 8, with short
    /// suffixes; also pieces of the prefixes themselves.
    Shared,
    /// Pieces of one string, each a prefix of all longer ones.
    Nested,
    /// Pronounceable words, some of two parts.
    Words,
    /// Integers of 8 bytes, big-endian: some close to each other, some anywhere.
    Integers,
    /// A few keys of up to 64 KiB (also of exactly this limit) among short ones.
    Long,
}

impl ByteKeys {
    fn draw(self, shared: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        match self {
            ByteKeys::Prefixes => string(b"abc", 6, random),
            ByteKeys::Edges => string(&[0x00, 0x01, 0xfe, 0xff], 5, random),
            ByteKeys::Random => any_bytes(random.random_range(0..=12), random),
            ByteKeys::Shared => {
                let prefix = choose(shared, random);
                let cut = match random.random_range(0..4) {
                    0 => random.random_range(0..=prefix.len()),
                    _ => prefix.len(),
                };
                [&prefix[..cut], &string(&[0x00, b'a', 0xff], 4, random)].concat()
            }
            ByteKeys::Nested => {
                let whole = choose(shared, random);
                whole[..random.random_range(0..=whole.len())].to_vec()
            }
            ByteKeys::Words => words(random),
            ByteKeys::Integers => match random.random_range(0..3) {
                0 => random.next_u64(),
                1 => random.random_range(0..300),
                _ => u64::MAX - random.random_range(0..300),
            }
            .to_be_bytes()
            .to_vec(),
            ByteKeys::Long => match random.random_range(0..8) {
                0 => long_key(random),
                _ => string(b"ab", 9, random),
            },
        }
    }
}

impl SampleForm for ByteStrings {
    type Kind = ByteKeys;
    const KINDS: &'static [ByteKeys] = &[
        ByteKeys::Prefixes,
        ByteKeys::Edges,
        ByteKeys::Random,
        ByteKeys::Shared,
        ByteKeys::Nested,
        ByteKeys::Words,
        ByteKeys::Integers,
        ByteKeys::Long,
    ];

    fn keys(kind: ByteKeys, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
        let shared: Vec<_> = match kind {
            ByteKeys::Shared => (0..3).map(|_| shared_prefix(random)).collect(),
            // A string has one prefix for each of its bytes.
            ByteKeys::Nested => vec![any_bytes(count.min(600), random)],
            _ => Vec::new(),
        };
        // Few, because each operation on a long key copies all of it.
        let count = if kind == ByteKeys::Long {
            count.min(40)
        } else {
            count
        };
        distinct(count, || kind.draw(&shared, random))
    }

    fn near(key: &[u8], random: &mut Random) -> Vec<u8> {
        // Changes after which a comparison that ends early takes the two keys for one.
        let mut near = key.to_vec();
        match random.random_range(0..6) {
            0 => near.push(0x00),
            1 => near.push(random.random()),
            2 => {
                near.pop();
            }
            3 => near.truncate(random.random_range(0..=key.len())),
            _ if near.is_empty() => near.push(0xff),
            4 => {
                let end = near.len() - 1;
                near[end] = near[end].wrapping_add(*choose(&[1, 0xff], random));
            }
            _ => {
                let position = random.random_range(0..near.len());
                near[position] ^= 1 << random.random_range(0..8);
            }
        }
        near
    }

    fn oversized_key(random: &mut Random) -> Option<Vec<u8>> {
        let excess = *choose(&[1, 2, 1000], random);
        Some(vec![random.random(); MAX_KEY_BYTES + excess])
    }

    fn any_value(random: &mut Random) -> Vec<u8> {
        // Empty values and those of one word often have a code path of their own.
        let length = match random.random_range(0..200) {
            0 => random.random_range(0..20_000),
            1..20 => 0,
            20..60 => 8,
            _ => random.random_range(0..=40),
        };
        match random.random_range(0..4) {
            0 => vec![*choose(b"x\0\xff", random); length],
            _ => any_bytes(length, random),
        }
    }

    fn key_bytes(key: &[u8]) -> usize {
        key.len()
    }

    fn value_bytes(value: &[u8]) -> usize {
        value.len()
    }

    /// Repeats the sealed word, mostly a few times, occasionally hundreds of times.
    fn seal(number: u64) -> Vec<u8> {
        seal_word(number).to_le_bytes().repeat(seal_repeats(number))
    }

    fn open(value: &[u8]) -> Option<u64> {
        let (first, _) = value.split_first_chunk::<8>()?;
        let number = open_word(u64::from_le_bytes(*first))?;
        // A value that was cut between two repetitions is torn, too.
        let whole = value.len() == 8 * seal_repeats(number);
        (whole && value.chunks(8).all(|chunk| chunk == first)).then_some(number)
    }

    fn simpler_keys(key: &Vec<u8>, rank: usize) -> Vec<Vec<u8>> {
        // One letter for each rank, so that different keys can become short and stay different.
        let letter = b'a' + (rank % 26) as u8;
        let mut keys = vec![
            Vec::new(),
            vec![letter],
            key[..key.len() / 2].to_vec(),
            key[key.len() / 2..].to_vec(),
            key[..key.len().saturating_sub(1)].to_vec(),
            key[key.len().min(1)..].to_vec(),
            vec![b'a'; key.len()],
        ];
        // Each must be simpler, or shrinking would go around in circles.
        keys.retain(|simpler| complexity(simpler) < complexity(key));
        keys
    }

    fn simpler_values(value: &Vec<u8>, rank: usize) -> Vec<Vec<u8>> {
        Self::simpler_keys(value, rank)
    }

    fn show_key(key: &[u8]) -> String {
        match key {
            [first, .., _] if key.len() > 16 && key.iter().all(|byte| byte == first) => {
                format!("&[{first:#04x}; {}]", key.len())
            }
            _ => format!("b\"{}\"", key.escape_ascii()),
        }
    }

    fn show_value(value: &[u8]) -> String {
        Self::show_key(value)
    }
}

/// Returns the complexity of a string: its length, then its number of bytes other than lower-case
/// letters.
fn complexity(bytes: &[u8]) -> (usize, usize) {
    let odd = bytes.iter().filter(|byte| !byte.is_ascii_lowercase());
    (bytes.len(), odd.count())
}

fn seal_repeats(number: u64) -> usize {
    let bits = scramble(number) as usize;
    let most = if bits.is_multiple_of(50) { 300 } else { 6 };
    1 + (bits >> 8) % most
}

fn any_bytes(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes[..]);
    bytes
}

fn string(letters: &[u8], length_max: usize, random: &mut Random) -> Vec<u8> {
    let length = random.random_range(0..=length_max);
    (0..length).map(|_| *choose(letters, random)).collect()
}

fn shared_prefix(random: &mut Random) -> Vec<u8> {
    let length = match random.random_range(0..3) {
        0 => random.random_range(8..=300),
        // Just below, at and just above the words in which an index compares keys.
        _ => 8 * random.random_range(1..=8) + random.random_range(0..3) - 1,
    };
    match random.random_range(0..2) {
        0 => vec![*choose(b"p\0\xff", random); length],
        _ => any_bytes(length, random),
    }
}

fn words(random: &mut Random) -> Vec<u8> {
    const SYLLABLES: &[&str] = &["ba", "ne", "tor", "mi", "an", "s", "lu", "ker"];
    let mut word = String::new();
    for _ in 0..random.random_range(1..=4) {
        word.push_str(choose::<&str>(SYLLABLES, random));
    }
    if random.random_bool(0.3) {
        word.push(*choose(&[':', '/'], random));
        word.push_str(choose::<&str>(SYLLABLES, random));
    }
    word.into_bytes()
}

fn long_key(random: &mut Random) -> Vec<u8> {
    let length = match random.random_range(0..4) {
        0 => MAX_KEY_BYTES,
        1 => MAX_KEY_BYTES - random.random_range(0..9),
        _ => 1 << random.random_range(8..16),
    };
    // Only the last byte tells long keys apart, so that an index must compare all of them.
    let mut key = vec![b'l'; length];
    key[length - 1] = random.random_range(b'a'..=b'c');
    key
}
