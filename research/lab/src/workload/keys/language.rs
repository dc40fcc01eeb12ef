//! A generated language that looks like English to an index.
//!
//! Stems of one to four syllables are drawn from a table of English sounds, many with the beginning
//! of an earlier stem. Each stem gives a family of words by endings and prefixes; some stems join,
//! some are names. Related stems make the long shared beginnings of a tree over a real list, and
//! endings its narrow nodes.

use rand::RngExt;
use rand::distr::weighted::WeightedIndex;

use super::super::Random;

const SYLLABLE_COUNTS: [(usize, u32); 3] = [(1, 30), (2, 55), (3, 15)];

/// Beginnings of syllables with their weights, as all tables here; `_` is empty.
const ONSETS: &str = "\
    _ 14, b 7, c 11, d 9, f 6, g 6, h 6, j 2, k 3, l 10, m 10, n 9, p 9, qu 1, r 11, \
    s 10, t 13, v 4, w 3, y 1, z 1, bl 1, br 2, ch 4, cl 2, cr 2, dr 1, fl 2, fr 1, gl 1, \
    gr 2, ph 2, pl 2, pr 3, sc 1, sh 2, sl 1, sp 2, st 4, str 1, th 3, tr 3, wh 1";

/// Middles of syllables.
const NUCLEI: &str = "\
    a 20, e 22, i 20, o 17, u 9, y 3, ai 1, au 1, ea 2, ee 2, ia 2, ie 1, io 2, oo 1, \
    ou 2, ae 1";

/// Ends of syllables.
const CODAS: &str = "\
    _ 48, b 1, c 2, ck 1, d 2, g 1, l 6, ll 1, m 3, n 10, nd 2, ng 1, nt 2, p 2, r 8, \
    rd 1, rm 1, rt 1, s 4, ss 2, st 2, t 4, x 1";

/// Endings of a word family; the empty one is the stem itself.
const ENDINGS: &str = "\
    _ 30, s 12, ed 9, ing 9, er 8, ers 3, ly 8, ness 7, al 5, ally 2, ic 5, ical 2, \
    able 4, ability 1, ation 4, ations 1, ism 3, ist 3, ists 1, ize 2, ized 1, less 3, \
    like 2, ous 4, ously 1, ity 3, ful 1, ment 2, ship 1, y 6, a 4, us 3, in 3, ine 3, \
    on 3, ate 3, ium 1";

/// Prefixes of single words.
const PREFIXES: &str = "\
    un 22, non 13, pre 8, over 8, re 7, in 6, dis 6, sub 5, inter 5, anti 5, super 5, \
    semi 4, pseudo 3, mis 3, under 3, out 3, micro 2, hyper 2, counter 2, photo 2, \
    electro 1";

/// Number of earlier stems that a new one may resemble.
const STEMS_KEPT: usize = 4096;

/// The tables, ready to draw from.
pub(super) struct Language {
    syllable_counts: WeightedValues<usize>,
    onsets: WeightedValues<&'static str>,
    nuclei: WeightedValues<&'static str>,
    codas: WeightedValues<&'static str>,
    endings: WeightedValues<&'static str>,
    prefixes: WeightedValues<&'static str>,
}

impl Language {
    pub(super) fn new() -> Self {
        Language {
            syllable_counts: WeightedValues::new(&SYLLABLE_COUNTS),
            onsets: WeightedValues::of(ONSETS),
            nuclei: WeightedValues::of(NUCLEI),
            codas: WeightedValues::of(CODAS),
            endings: WeightedValues::of(ENDINGS),
            prefixes: WeightedValues::of(PREFIXES),
        }
    }

    /// Draws a stem of lower-case letters.
    pub(super) fn stem(&self, random: &mut Random) -> String {
        let mut stem = String::new();
        for _ in 0..self.syllable_counts.draw(random) {
            self.append_syllable(random, &mut stem);
        }
        stem
    }

    fn append_syllable(&self, random: &mut Random, stem: &mut String) {
        for part in [&self.onsets, &self.nuclei, &self.codas] {
            stem.push_str(part.draw(random));
        }
    }

    /// Draws a lower-case word: a stem with an ending.
    pub(super) fn word(&self, random: &mut Random) -> String {
        join(&self.stem(random), self.endings.draw(random))
    }

    /// Draws a new stem; usually the beginning of an earlier one and one more syllable.
    pub(super) fn related_stem(&self, random: &mut Random, stems: &mut Vec<String>) -> String {
        if stems.len() < STEMS_KEPT {
            let stem = self.stem(random);
            stems.push(stem.clone());
            return stem;
        }
        let place = random.random_range(0..STEMS_KEPT);
        let earlier = &stems[place];
        debug_assert!(earlier.is_ascii(), "a stem is cut at any byte");
        let mut stem = String::new();
        if (4..10).contains(&earlier.len()) && random.random_ratio(5, 8) {
            stem.push_str(&earlier[..random.random_range(3..=earlier.len())]);
            self.append_syllable(random, &mut stem);
        } else {
            stem = self.stem(random);
        }
        stem.clone_into(&mut stems[place]);
        stem
    }

    /// Appends the words of one stem: at least one, possibly repeated.
    pub(super) fn family(&self, mut stem: String, random: &mut Random, words: &mut Vec<String>) {
        if random.random_ratio(1, 16) {
            let joint = if random.random_ratio(2, 3) { "-" } else { "" };
            stem = format!("{stem}{joint}{}", self.stem(random));
        }
        let is_name = random.random_ratio(1, 6);
        loop {
            let mut word = join(&stem, self.endings.draw(random));
            if random.random_ratio(1, 10) {
                word.insert_str(0, self.prefixes.draw(random));
            }
            if is_name {
                word[..1].make_ascii_uppercase();
            }
            words.push(word);
            // On average a stem has 3.5 words.
            if random.random_ratio(2, 7) {
                return;
            }
        }
    }
}

/// Joins a stem and an ending. If two vowels meet, the first is dropped.
fn join(stem: &str, ending: &str) -> String {
    let vowel = |byte: Option<&u8>| byte.is_some_and(|byte| b"aeiouy".contains(byte));
    let vowels_meet = vowel(stem.as_bytes().last()) && vowel(ending.as_bytes().first());
    let shortened = if vowels_meet && stem.len() > 2 {
        &stem[..stem.len() - 1]
    } else {
        stem
    };
    format!("{shortened}{ending}")
}

/// Values drawn in proportion to weights.
struct WeightedValues<T> {
    values: Vec<T>,
    index: WeightedIndex<u32>,
}

impl WeightedValues<&'static str> {
    fn of(table: &'static str) -> Self {
        let entry = |entry: &'static str| {
            let (text, weight) = entry.split_once(' ').expect("a text and its weight");
            let weight = weight.parse().expect("a weight is a number");
            (if text == "_" { "" } else { text }, weight)
        };
        WeightedValues::new(&table.split(", ").map(entry).collect::<Vec<_>>())
    }
}

impl<T: Copy> WeightedValues<T> {
    fn new(table: &[(T, u32)]) -> Self {
        let weights = table.iter().map(|&(_, weight)| weight);
        WeightedValues {
            values: table.iter().map(|&(value, _)| value).collect(),
            index: WeightedIndex::new(weights).expect("the tables have positive weights"),
        }
    }

    fn draw(&self, random: &mut Random) -> T {
        self.values[random.sample(&self.index)]
    }
}
