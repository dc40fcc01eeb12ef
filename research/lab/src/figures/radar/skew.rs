//! The choice of hot keys.

use super::data::ExpectedEntries;
use crate::figures::row::Quantity;
use crate::workload::{Permutation, Random};
use rand::RngExt;
use rand_distr::Zipf;
use std::fmt;
use std::sync::Arc;

/// The distribution of operations over keys. Segments are equal parts of the keys, or of the space
/// of all keys, one for each module. The segment of rank r is chosen in proportion to r^-α, and a
/// key in it uniformly.
#[derive(Clone, Debug)]
pub(super) enum Skew {
    /// Other hot segments in each batch. PIM-tree's generator, which RADAR was measured with.
    Jump(f64),
    /// The same hot segments in all batches.
    Fixed(f64),
    /// The same hot segments for [`DRIFT`] batches.
    Drift(f64),
    /// The key of rank r in proportion to r^-α; hot keys are not neighbours (YCSB).
    Keys(f64),
    /// Keys by age: the key inserted last is the hottest (YCSB's D).
    Latest(f64),
    /// Keys as often as they occur in a text.
    Words(Arc<Vec<u64>>),
}

/// Number of batches with the same hot segments if these drift.
const DRIFT: u64 = 4;

impl fmt::Display for Skew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skew::Jump(alpha) => write!(formatter, "seg-jump:{alpha}"),
            Skew::Fixed(alpha) => write!(formatter, "seg-fixed:{alpha}"),
            Skew::Drift(alpha) => write!(formatter, "drift:{alpha}"),
            Skew::Keys(alpha) => write!(formatter, "key-zipf:{alpha}"),
            Skew::Latest(alpha) => write!(formatter, "latest:{alpha}"),
            Skew::Words(_) => write!(formatter, "words"),
        }
    }
}

/// Returns the degree of skew for an axis.
pub(super) fn alpha(alpha: f64) -> Quantity {
    Quantity::new("α", "", alpha)
}

/// The choice of keys in a batch.
pub(super) enum Chooser<'s> {
    Segments {
        shares: &'s SegmentShares,
        order: Permutation,
    },
    Keys {
        ranks: Zipf<f64>,
        scatter: Permutation,
    },
    Latest(Zipf<f64>),
    Words(&'s [u64]),
}

/// The cumulative shares of segments, by rank.
pub(super) struct SegmentShares(Vec<f64>);

impl SegmentShares {
    pub(super) fn new(segments: usize, alpha: f64) -> SegmentShares {
        let mut sum = 0.0;
        let sums = (1..=segments).map(|rank| {
            sum += (rank as f64).powf(-alpha);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        debug_assert!(sums.is_sorted(), "no segment has a negative share");
        SegmentShares(sums.iter().map(|part| part / sum).collect())
    }

    /// Returns the share of the hottest segment, as a multiple of the mean.
    pub(super) fn imbalance(&self) -> f64 {
        self.0
            .first()
            .map_or(1.0, |first| first * self.0.len() as f64)
    }

    fn rank(&self, random: &mut Random) -> u64 {
        debug_assert!(!self.0.is_empty());
        let at: f64 = random.random();
        let rank = self.0.partition_point(|&sum| sum <= at);
        rank.min(self.0.len() - 1) as u64
    }
}

impl Skew {
    fn alpha(&self) -> f64 {
        match *self {
            Skew::Jump(alpha)
            | Skew::Fixed(alpha)
            | Skew::Drift(alpha)
            | Skew::Keys(alpha)
            | Skew::Latest(alpha) => alpha,
            Skew::Words(_) => 0.0,
        }
    }

    pub(super) fn shares(&self, segments: usize) -> SegmentShares {
        SegmentShares::new(segments, self.alpha())
    }

    /// Creates the chooser of batch `number`.
    pub(super) fn chooser<'s>(
        &'s self,
        shares: &'s SegmentShares,
        data: &ExpectedEntries,
        number: u64,
        seed: u64,
    ) -> Chooser<'s> {
        let count = data.len().max(1);
        // Any non-negative exponent is possible.
        let zipf = |alpha| Zipf::new(count as f64, alpha).expect("a distribution");
        let which = match self {
            Skew::Jump(_) => number + 1,
            Skew::Drift(_) => number / DRIFT + 1,
            _ => 0,
        };
        match self {
            Skew::Jump(_) | Skew::Fixed(_) | Skew::Drift(_) => Chooser::Segments {
                shares,
                order: Permutation::new(shares.0.len() as u64, seed ^ which << 32),
            },
            Skew::Keys(alpha) => Chooser::Keys {
                ranks: zipf(*alpha),
                scatter: Permutation::new(count as u64, seed),
            },
            Skew::Latest(alpha) => Chooser::Latest(zipf(*alpha)),
            Skew::Words(tokens) => Chooser::Words(tokens),
        }
    }
}

impl Chooser<'_> {
    /// Returns the position of an existing key.
    pub(super) fn existing(&self, data: &ExpectedEntries, random: &mut Random) -> usize {
        let count = data.len() as u64;
        debug_assert!(count > 0, "no key to choose");
        let position = match self {
            Chooser::Segments { shares, order } => {
                let segments = shares.0.len() as u64;
                let segment = order.at(shares.rank(random));
                let start = |segment: u64| {
                    (u128::from(segment) * u128::from(count) / u128::from(segments)) as u64
                };
                debug_assert!(segment < segments);
                let (first, end) = (start(segment), start(segment + 1));
                // With fewer keys than segments, an empty segment stands for the key behind it.
                random.random_range(first..end.max(first + 1))
            }
            Chooser::Keys { ranks, scatter } => {
                // Positions barely change while keys are inserted and removed, so the hot keys stay
                // the same.
                let rank = random.sample(ranks) as u64 - 1;
                scatter.at(rank.min(count - 1))
            }
            Chooser::Latest(ranks) => {
                let age = random.sample(ranks) as u64 - 1;
                // The loaded keys have no age, so a fixed random order stands for it, the same in
                // all batches.
                let key = data.inserted_before(age);
                let loaded = || Permutation::of_words(0).at(age - data.inserted());
                data.below(key.unwrap_or_else(loaded)) as u64
            }
            Chooser::Words(tokens) => {
                let token = tokens[random.random_range(0..tokens.len())];
                data.below(token) as u64
            }
        };
        position.min(count - 1) as usize
    }

    /// Returns a key that need not exist.
    pub(super) fn anywhere(&self, data: &ExpectedEntries, random: &mut Random) -> u64 {
        match self {
            Chooser::Segments { shares, order } => {
                let segments = shares.0.len() as u128;
                let segment = u128::from(order.at(shares.rank(random)));
                let start = |segment: u128| (segment << 64) / segments;
                let width = (start(segment + 1) - start(segment)).max(1);
                // The upper half of the product is uniform below the width.
                let offset = (u128::from(random.random::<u64>()) * width) >> 64;
                debug_assert!(offset < width);
                (start(segment) + offset) as u64
            }
            _ => data.key(self.existing(data, random)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    const SEGMENTS: usize = 64;
    const DRAWS: usize = 200_000;

    fn data() -> ExpectedEntries {
        ExpectedEntries::new(ExpectedEntries::anywhere(50_000, 3).collect())
    }

    /// Counts how often a batch chooses each segment of the sorted keys, and of the space of keys.
    fn drawn(skew: &Skew, number: u64) -> [Vec<usize>; 2] {
        let (data, shares) = (data(), skew.shares(SEGMENTS));
        let chooser = skew.chooser(&shares, &data, number, 7);
        let mut random = random(1, number);
        let mut counts = [vec![0; SEGMENTS], vec![0; SEGMENTS]];
        for _ in 0..DRAWS {
            let position = chooser.existing(&data, &mut random);
            counts[0][position * SEGMENTS / data.len()] += 1;
            let key = chooser.anywhere(&data, &mut random);
            counts[1][((u128::from(key) * SEGMENTS as u128) >> 64) as usize] += 1;
        }
        counts
    }

    fn hottest(counts: &[usize]) -> usize {
        (0..counts.len())
            .max_by_key(|&segment| counts[segment])
            .unwrap()
    }

    #[test]
    fn the_hottest_segment_has_the_share_of_the_zipf_distribution() {
        for (alpha, published) in [
            (0.0, 1.0),
            (0.2, 1.9),
            (0.4, 3.3),
            (0.6, 5.7),
            (0.99, 13.0),
            (1.2, 19.0),
        ] {
            let skew = Skew::Jump(alpha);
            let expected = skew.shares(SEGMENTS).imbalance();
            // The table of P/H(P, α) for 64 segments.
            assert!(
                (expected / published - 1.0).abs() < 0.05,
                "{alpha}: {expected}"
            );
            for counts in drawn(&skew, 0) {
                let most = *counts.iter().max().unwrap() as f64 * SEGMENTS as f64 / DRAWS as f64;
                assert!(
                    (most / expected - 1.0).abs() < 0.12,
                    "{alpha}: {most} for {expected}"
                );
            }
        }
    }

    #[test]
    fn hot_segments_jump_or_drift_or_stay() {
        let same = |skew: Skew, batches: [u64; 2]| {
            let [one, other] = batches.map(|number| hottest(&drawn(&skew, number)[0]));
            one == other
        };
        assert!(!same(Skew::Jump(0.99), [0, 1]) || !same(Skew::Jump(0.99), [1, 2]));
        assert!(same(Skew::Fixed(0.99), [0, 9]));
        assert!(same(Skew::Drift(0.99), [0, DRIFT - 1]));
        assert!(!same(Skew::Drift(0.99), [0, DRIFT]) || !same(Skew::Drift(0.99), [0, 2 * DRIFT]));
        // A segment of the keys and that of the space of keys are hot together.
        let [keys, space] = drawn(&Skew::Jump(0.99), 5);
        assert_eq!(hottest(&keys), hottest(&space));
    }

    #[test]
    fn the_latest_inserted_keys_are_hottest() {
        let mut data = data();
        let new: Vec<u64> = (0..100).map(|number| number * 1_000_003 + 17).collect();
        for &key in &new {
            data.insert(key);
        }
        data.settle();
        let skew = Skew::Latest(0.99);
        let shares = skew.shares(SEGMENTS);
        let chooser = skew.chooser(&shares, &data, 0, 7);
        let mut random = random(1, 1);
        let mut of_new = vec![0; new.len()];
        for _ in 0..20_000 {
            let key = data.key(chooser.existing(&data, &mut random));
            if let Some(place) = new.iter().position(|&other| other == key) {
                of_new[place] += 1;
            }
        }
        assert!(
            of_new[99] > 1200 && of_new[99] > 5 * of_new[50],
            "{of_new:?}"
        );
        assert!(of_new.iter().sum::<usize>() < 15_000);
    }

    #[test]
    fn hot_keys_and_words_are_there() {
        let data = data();
        let tokens = Arc::new(vec![
            data.key(5),
            data.key(5),
            data.key(5),
            data.key(40_000),
        ]);
        let mut random = random(1, 2);
        let skew = Skew::Words(tokens);
        let shares = skew.shares(SEGMENTS);
        let chooser = skew.chooser(&shares, &data, 0, 7);
        let found: Vec<usize> = (0..4000)
            .map(|_| chooser.existing(&data, &mut random))
            .collect();
        assert!(found.iter().all(|position| [5, 40_000].contains(position)));
        let hot = found.iter().filter(|&&position| position == 5).count();
        assert!((2900..3100).contains(&hot), "{hot}");
        let skew = Skew::Keys(0.99);
        let chooser = skew.chooser(&shares, &data, 0, 7);
        let mut counts = vec![0; data.len()];
        for _ in 0..20_000 {
            counts[chooser.existing(&data, &mut random)] += 1;
        }
        let most = *counts.iter().max().unwrap();
        assert!((1400..2000).contains(&most), "{most}");
    }
}
