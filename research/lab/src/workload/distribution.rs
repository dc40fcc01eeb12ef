//! Distributions of requests over keys.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand_distr::Zipf;

use super::{Permutation, Random};
use crate::error::LabError;
use crate::text::shortened;

/// The distribution of operations over the keys, as written on a command line: `uniform`,
/// `zipf:THETA` (`zipf` alone is `zipf:0.99`) or `latest`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Equal probability of all keys.
    Uniform,
    /// The key of rank r, counted from 1, in proportion to r^-θ. Ranks are scattered over the keys
    /// by a permutation, so that hot keys are not neighbours. YCSB scatters by a hash instead
    /// (`ScrambledZipfianGenerator`); there, keys with colliding hashes add up and others are never
    /// chosen, so that the distribution is no longer Zipf's. θ is 0 to 100.
    Zipf(f64),
    /// Zipf with θ = 0.99 by age: the key inserted last is the hottest, and before the first
    /// insertion the one loaded last. Source: YCSB core workload D
    /// (`SkewedLatestGenerator`). A thread sees its own insertions as the latest, then the
    /// loaded keys; it never chooses a key that another thread may not have inserted yet.
    Latest,
}

/// YCSB's constant of skew (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
const THETA: f64 = 0.99;
const THETA_MAX: f64 = 100.0;
const ALLOWED: &str = "uniform, zipf, zipf:THETA, latest";

impl Distribution {
    /// YCSB's request distribution: Zipf with θ = 0.99.
    pub const ZIPF: Distribution = Distribution::Zipf(THETA);

    /// Creates a sampler for `loaded` keys and, if the distribution is by age, for up to `inserts`
    /// more that are inserted later.
    ///
    /// # Errors
    /// `OutOfRange` for a θ that is negative, above 100 or not a number.
    pub(super) fn sampler(self, loaded: u64, inserts: u64, seed: u64) -> Result<Sampler, LabError> {
        assert!(loaded > 0, "no key to choose");
        Ok(match self {
            Distribution::Uniform => Sampler::Uniform { loaded },
            Distribution::Zipf(theta) => Sampler::Zipf {
                ranks: Ranks::new(loaded, theta)?,
                scatter: Permutation::new(loaded, seed),
            },
            Distribution::Latest => Sampler::Latest {
                ranks: Ranks::new(loaded + inserts, THETA)?,
                loaded,
            },
        })
    }
}

/// A distribution over the positions of one key set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sampler {
    Uniform { loaded: u64 },
    Zipf { ranks: Ranks, scatter: Permutation },
    Latest { ranks: Ranks, loaded: u64 },
}

/// A key chosen by a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampledKey {
    /// The loaded key at this position.
    Loaded(u64),
    /// The key that this thread inserted as its n-th, counted from 0.
    Inserted(u64),
}

impl Sampler {
    /// Draws a key, if this thread has inserted `inserted` so far.
    pub(super) fn sample(&self, inserted: u64, random: &mut Random) -> SampledKey {
        match self {
            Sampler::Uniform { loaded } => SampledKey::Loaded(random.random_range(0..*loaded)),
            Sampler::Zipf { ranks, scatter } => {
                SampledKey::Loaded(scatter.at(ranks.sample(random)))
            }
            Sampler::Latest { ranks, loaded } => {
                let age = ranks.sample_below(inserted + loaded, random);
                debug_assert!(age < inserted + loaded);
                // The youngest keys are the thread's own; behind them come the loaded ones, the
                // last one first.
                match inserted.checked_sub(age + 1) {
                    Some(position) => SampledKey::Inserted(position),
                    None => SampledKey::Loaded(loaded - 1 - (age - inserted)),
                }
            }
        }
    }
}

/// Zipf's distribution over the ranks 0, 1, … below a count.
///
/// Exact for any θ and count by rejection (see `rand_distr::Zipf`), unlike YCSB's generator (Gray
/// et al., SIGMOD 1994), which approximates all ranks except the first two and is undefined at θ =
/// 1 and wrong above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranks {
    zipf: Zipf<f64>,
    last: u64,
}

impl Ranks {
    fn new(count: u64, theta: f64) -> Result<Self, LabError> {
        debug_assert!(count > 0, "no rank to draw");
        if !(0.0..=THETA_MAX).contains(&theta) {
            return Err(theta_out_of_range(&theta.to_string()));
        }
        // Very near 1 the sampler's divisions by 1 - θ lose all digits; θ = 1 has the same
        // distribution to nine digits.
        let theta = if (theta - 1.0).abs() < 1e-9 {
            1.0
        } else {
            theta
        };
        match Zipf::new(count as f64, theta) {
            Ok(zipf) => Ok(Ranks {
                zipf,
                last: count - 1,
            }),
            Err(_) => Err(theta_out_of_range(&theta.to_string())),
        }
    }

    fn sample(&self, random: &mut Random) -> u64 {
        let rank = random.sample(self.zipf) as u64;
        debug_assert!(rank >= 1, "the library counts ranks from 1");
        // Rounding at the upper end may reach count + 1.
        (rank - 1).min(self.last)
    }

    /// Draws a rank below `count`.
    fn sample_below(&self, count: u64, random: &mut Random) -> u64 {
        debug_assert!(count > 0, "no rank would ever do");
        // Drawing again is exact, because a Zipf distribution that is cut off is the Zipf
        // distribution of fewer ranks.
        loop {
            let rank = self.sample(random);
            if rank < count {
                return rank;
            }
        }
    }
}

fn theta_out_of_range(given: &str) -> LabError {
    LabError::OutOfRange {
        subject: "skew THETA of zipf:THETA",
        given: shortened(given),
        allowed: format!("0 to {THETA_MAX}"),
    }
}

impl FromStr for Distribution {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text {
            "uniform" => return Ok(Distribution::Uniform),
            "zipf" => return Ok(Distribution::ZIPF),
            "latest" => return Ok(Distribution::Latest),
            _ => {}
        }
        let Some(theta) = text.strip_prefix("zipf:") else {
            return Err(LabError::UnknownName {
                subject: "distribution",
                given: shortened(text),
                allowed: ALLOWED,
            });
        };
        match theta.parse() {
            Ok(value) if (0.0..=THETA_MAX).contains(&value) => Ok(Distribution::Zipf(value)),
            _ => Err(theta_out_of_range(theta)),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.pad("uniform"),
            Distribution::Zipf(theta) => f.pad(&format!("zipf:{theta}")),
            Distribution::Latest => f.pad("latest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random;
    use super::*;

    /// Compares drawn ranks with the analytic distribution: one cell a rank for the first 100, then
    /// cells that double, joined until each expects at least 20 draws.
    fn assert_zipf(theta: f64, count: u64, draw: impl FnMut() -> u64) {
        const DRAWS: usize = 400_000;
        // From this rank on an integral takes the place of the sum. The two agree to nine digits.
        const SUMMED: u64 = 100_000;
        let mut ends: Vec<u64> = (1..=count.min(100)).collect();
        while *ends.last().unwrap() < count {
            ends.push((ends.last().unwrap() * 2).min(count));
        }
        let weight = |ranks: std::ops::Range<u64>| -> f64 {
            let end = ranks.end.min(SUMMED.max(ranks.start));
            let sum: f64 = (ranks.start..end)
                .rev()
                .map(|rank| ((rank + 1) as f64).powf(-theta))
                .sum();
            // A rank's weight is the area around it, half a rank to each side.
            let (low, high) = (end as f64 + 0.5, ranks.end as f64 + 0.5);
            let power = 1.0 - theta;
            if power.abs() < 1e-9 {
                return sum + (high / low).ln();
            }
            sum + (high.powf(power) - low.powf(power)) / power
        };
        let total = weight(0..count);
        let mut observed = vec![0u32; ends.len()];
        for rank in std::iter::repeat_with(draw).take(DRAWS) {
            assert!(rank < count);
            observed[ends.partition_point(|&end| end <= rank)] += 1;
        }
        let (mut chi_square, mut cells, mut start, mut seen) = (0.0, 0, 0, 0);
        for (&end, &drawn) in ends.iter().zip(&observed) {
            seen += drawn;
            let expected = weight(start..end) / total * DRAWS as f64;
            if expected >= 20.0 {
                chi_square += (f64::from(seen) - expected).powi(2) / expected;
                (cells, start, seen) = (cells + 1, end, 0);
            }
        }
        // Chi-square of f degrees of freedom has mean f and variance 2f.
        let freedom = f64::from((cells - 1).max(1));
        let limit = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(
            chi_square < limit,
            "theta {theta}, {count} ranks: {chi_square} > {limit}"
        );
    }

    #[test]
    fn ranks_follow_zipf_for_every_theta() {
        for theta in [0.0, 0.5, 0.8, 0.99, 1.0 - 1e-12, 1.0, 1.01, 1.2, 2.0, 8.0] {
            for count in [1, 2, 10, 1000, 1_000_000] {
                let ranks = Ranks::new(count, theta).unwrap();
                let mut random = random(11, count);
                assert_zipf(theta, count, || ranks.sample(&mut random));
            }
        }
    }

    #[test]
    fn a_hundred_million_ranks() {
        let ranks = Ranks::new(100_000_000, 0.99).unwrap();
        let mut random = random(12, 0);
        assert_zipf(0.99, 100_000_000, || ranks.sample(&mut random));
    }

    #[test]
    fn scattered_ranks_keep_the_distribution() {
        const COUNT: u64 = 5000;
        let sampler = Distribution::Zipf(1.2).sampler(COUNT, 0, 5).unwrap();
        let Sampler::Zipf { scatter, .. } = sampler else {
            panic!("not Zipf")
        };
        let mut random = random(13, 0);
        assert_zipf(1.2, COUNT, || match sampler.sample(0, &mut random) {
            SampledKey::Loaded(position) => scatter.position_of(position),
            SampledKey::Inserted(_) => panic!("nothing inserted"),
        });
    }

    #[test]
    fn hot_keys_are_no_neighbours() {
        let scatter = Permutation::new(1_000_000, 5);
        let mut hottest: Vec<u64> = (0..100).map(|rank| scatter.at(rank)).collect();
        hottest.sort_unstable();
        let mean_gap = (hottest[99] - hottest[0]) / 99;
        assert!((8_000..10_500).contains(&mean_gap), "{mean_gap}");
        assert!(
            hottest
                .windows(2)
                .filter(|pair| pair[1] - pair[0] < 100)
                .count()
                < 8
        );
    }

    #[test]
    fn uniform_is_zipf_of_theta_zero() {
        let sampler = Distribution::Uniform.sampler(1000, 0, 5).unwrap();
        let mut random = random(14, 0);
        assert_zipf(0.0, 1000, || match sampler.sample(0, &mut random) {
            SampledKey::Loaded(position) => position,
            SampledKey::Inserted(_) => panic!("nothing inserted"),
        });
    }

    #[test]
    fn latest_prefers_own_insertions_then_the_end_of_the_load() {
        let sampler = Distribution::Latest.sampler(1000, 500, 5).unwrap();
        for inserted in [0, 1, 3, 500] {
            let mut random = random(15, inserted);
            assert_zipf(THETA, 1000 + inserted, || {
                match sampler.sample(inserted, &mut random) {
                    SampledKey::Inserted(position) => inserted - 1 - position,
                    SampledKey::Loaded(position) => inserted + 999 - position,
                }
            });
        }
    }

    #[test]
    fn names_are_given_back() {
        for name in [
            "uniform",
            "zipf:0.99",
            "zipf:1",
            "zipf:1.2",
            "zipf:0",
            "latest",
        ] {
            assert_eq!(name.parse::<Distribution>().unwrap().to_string(), name);
        }
        assert_eq!(
            "zipf".parse::<Distribution>().unwrap(),
            Distribution::Zipf(0.99)
        );
    }

    #[test]
    fn bad_names_are_distinguished_from_bad_skews() {
        for bad in ["", "zipfian", "Uniform", "latest:1"] {
            let error = bad.parse::<Distribution>().unwrap_err();
            assert!(matches!(error, LabError::UnknownName { .. }), "{error}");
            assert!(error.to_string().contains(ALLOWED), "{error}");
        }
        for bad in [
            "zipf:",
            "zipf:-0.1",
            "zipf:nan",
            "zipf:inf",
            "zipf:101",
            "zipf:x",
        ] {
            let error = bad.parse::<Distribution>().unwrap_err();
            assert!(
                matches!(error, LabError::OutOfRange { .. }),
                "{bad}: {error}"
            );
        }
        assert!(Distribution::Zipf(f64::NAN).sampler(10, 0, 1).is_err());
    }
}
