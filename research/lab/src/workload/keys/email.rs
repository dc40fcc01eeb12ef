//! Synthetic e-mail addresses: the set EA without real addresses.

use std::io::Write;

use rand::RngExt;
use rand_distr::Zipf;

use super::super::{ByteStringList, Random, random};
use super::Progress;
use super::integers::REPORT_INTERVAL;
use super::language::Language;
use super::uniqueness::DistinctStrings;

/// The most keys: above this, too few short addresses are left at the common domains.
pub(super) const COUNT_MAX: u64 = 100_000_000;
/// Bytes of the addresses (24 + 8 bytes each) and of their hashes.
pub(super) const BYTES_PER_KEY: u64 = 32 + 18;

const PROVIDERS: [&str; 8] = [
    "gmail.com",
    "yahoo.com",
    "hotmail.com",
    "outlook.com",
    "icloud.com",
    "aol.com",
    "gmx.de",
    "mail.ru",
];
const SUFFIXES: [&str; 6] = [".com", ".org", ".net", ".de", ".co.uk", ".edu"];
/// Number of domains made of a word and a suffix.
const WORD_DOMAINS: usize = 2_000;
/// Skew of the domains by rank.
const DOMAIN_THETA: f64 = 1.1;
/// Number of different words that names are made of, 3 to 9 letters each.
const NAME_WORDS: usize = 200_000;

/// Generates `count` addresses in random order.
///
/// The part before the `@` is a word and a number up to 9999 (35 %), two words with a dot (25 %),
/// an initial and a word (15 %), two words with an underscore and a number up to 99 (15 %) or a
/// word (10 %); the domain has a rank of Zipf 1.1 among 8 large providers and 2,000 more.
pub(super) fn generate(count: usize, seed: u64, progress: Progress<'_>) -> ByteStringList {
    let mut random = random(seed, 0x6d61_696c);
    let addresses = EmailGenerator::new(&mut random);
    let mut seen = DistinctStrings::with_capacity(count);
    let mut strings = ByteStringList::with_capacity(count, count * 24);
    let mut address = Vec::new();
    while strings.len() < count {
        addresses.draw(&mut random, &mut address);
        // In large sets short addresses run out and are drawn again, which makes their forms rarer.
        if seen.insert(&address) {
            strings.push(&address);
            if strings.len().is_multiple_of(REPORT_INTERVAL) {
                progress(strings.len() as u64, count as u64);
            }
        }
    }
    strings
}

struct EmailGenerator {
    words: Vec<String>,
    /// The domains, by rank.
    domains: Vec<String>,
    rank: Zipf<f64>,
}

impl EmailGenerator {
    fn new(random: &mut Random) -> Self {
        let language = Language::new();
        let words = distinct_words(&language, NAME_WORDS, random);
        let mut domains: Vec<String> = PROVIDERS.map(str::to_owned).into();
        domains.extend(
            distinct_words(&language, WORD_DOMAINS, random)
                .iter()
                .map(|word| {
                    let suffix = SUFFIXES[random.random_range(0..SUFFIXES.len())];
                    format!("{word}{suffix}")
                }),
        );
        let rank = Zipf::new(domains.len() as f64, DOMAIN_THETA).expect("constants in range");
        EmailGenerator {
            words,
            domains,
            rank,
        }
    }

    fn draw(&self, random: &mut Random, address: &mut Vec<u8>) {
        address.clear();
        let word = &self.words[random.random_range(0..self.words.len())];
        let second = &self.words[random.random_range(0..self.words.len())];
        let written = match random.random_range(0..100) {
            0..35 => write!(address, "{word}{}", random.random_range(0..10_000)),
            35..60 => write!(address, "{word}.{second}"),
            60..75 => write!(address, "{}{word}", &second[..1]),
            75..90 => write!(address, "{word}_{second}{}", random.random_range(1..100)),
            _ => write!(address, "{word}"),
        };
        written.expect("a vector takes all bytes");
        let rank = random.sample(self.rank) as usize;
        // Ranks count from 1. Rounding at the upper end may give one too many.
        debug_assert!(rank >= 1);
        address.push(b'@');
        address.extend_from_slice(self.domains[rank.min(self.domains.len()) - 1].as_bytes());
    }
}

/// Draws different lower-case words of 3 to 9 letters.
fn distinct_words(language: &Language, count: usize, random: &mut Random) -> Vec<String> {
    let mut seen = DistinctStrings::with_capacity(count);
    let fitting = std::iter::repeat_with(|| language.word(random))
        .filter(|word| (3..=9).contains(&word.len()))
        .filter(|word| seen.insert(word.as_bytes()));
    fitting.take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::super::shape::shape;
    use super::*;
    use std::sync::OnceLock;

    fn million() -> &'static ByteStringList {
        static SET: OnceLock<ByteStringList> = OnceLock::new();
        SET.get_or_init(|| generate(1_000_000, 1, &mut |_, _| {}))
    }

    #[test]
    fn the_tree_resembles_that_of_the_reference() {
        let set = million();
        let mean = set.text_bytes() as f64 / set.len() as f64;
        assert!((22.0..24.5).contains(&mean), "mean {mean}");
        let addresses: Vec<Vec<u8>> = set
            .sorted()
            .iter()
            .map(|address| [address, b"\0"].concat())
            .collect();
        let shape = shape(&addresses);
        // With the words of a dictionary: 368,815 / 68,249 / 2,467 / 0 and 6.9.
        assert!((330_000..420_000).contains(&shape.node4), "{shape:?}");
        assert!((55_000..80_000).contains(&shape.node16), "{shape:?}");
        assert!((1800..3500).contains(&shape.node48), "{shape:?}");
        assert_eq!(shape.node256, 0, "{shape:?}");
        assert!((6.3..7.2).contains(&shape.depth_mean), "{shape:?}");
    }

    #[test]
    fn addresses_have_one_at_sign_and_common_domains() {
        let set = million();
        let mut common = 0;
        for address in set.iter() {
            let text = std::str::from_utf8(address).unwrap();
            let (local, domain) = text.split_once('@').unwrap();
            assert!(
                !local.is_empty() && domain.contains('.') && !domain.contains('@'),
                "{text}"
            );
            common += usize::from(domain == PROVIDERS[0]);
        }
        // Zipf 1.1 over 2,008 ranks gives the first 18 %.
        assert!((150_000..200_000).contains(&common), "{common}");
    }

    #[test]
    fn local_parts_have_their_shares() {
        let set = generate(20_000, 2, &mut |_, _| {});
        let share = |test: &dyn Fn(&[u8]) -> bool| {
            let matching = set.iter().filter(|address| {
                let at = address.iter().position(|&byte| byte == b'@').unwrap();
                test(&address[..at])
            });
            matching.count() as f64 / set.len() as f64
        };
        let dotted = share(&|local| local.contains(&b'.'));
        let joined = share(&|local| local.contains(&b'_'));
        let numbered = share(&|local| local.last().is_some_and(u8::is_ascii_digit));
        assert!((0.235..0.265).contains(&dotted), "{dotted}");
        assert!((0.135..0.165).contains(&joined), "{joined}");
        assert!((0.48..0.52).contains(&numbered), "{numbered}");
    }
}
