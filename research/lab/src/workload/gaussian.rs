//! Keys by a normal distribution, as `memtier_benchmark --key-pattern=G:G` draws them.

use super::Random;
use rand_distr::{Distribution as _, StandardNormal};

/// A generator of keys in `0..count`: normal around the middle, and drawn again outside. The keys
/// near the middle are the hottest, so hot keys are neighbours unless the caller scatters them.
#[derive(Clone, Copy, Debug)]
pub struct Gaussian {
    count: f64,
    deviation: f64,
}

impl Gaussian {
    /// Creates a generator. `deviation` is a part of the number of keys.
    #[must_use]
    pub fn new(count: u64, deviation: f64) -> Gaussian {
        debug_assert!(count > 0, "no key would ever do");
        debug_assert!(deviation.is_finite());
        let count = count as f64;
        Gaussian {
            count,
            deviation: deviation * count,
        }
    }

    /// Draws the next key.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let normal: f64 = StandardNormal.sample(random);
            let key = (normal * self.deviation + self.count / 2.0).floor();
            // Clamping to the bounds would make the first and the last key hot.
            if (0.0..self.count).contains(&key) {
                return key as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    /// Measures the share of draws of the hottest part of the keys.
    fn share(deviation: f64, hottest: f64) -> f64 {
        const KEYS: u64 = 100_000;
        const DRAWS: u32 = 400_000;
        let gaussian = Gaussian::new(KEYS, deviation);
        let mut random = random(1, 9);
        let near = hottest * KEYS as f64 / 2.0;
        let is_hot = |key: u64| (key as f64 + 0.5 - KEYS as f64 / 2.0).abs() <= near;
        let hot = (0..DRAWS).filter(|_| is_hot(gaussian.draw(&mut random)));
        hot.count() as f64 / f64::from(DRAWS)
    }

    #[test]
    fn the_hottest_keys_get_the_published_shares() {
        // H(f) = erf(f / (2 √2 s)) / erf(1 / (2 √2 s)).
        for (deviation, hottest, expected) in [
            (0.1, 0.1, 0.383),
            (0.1, 0.3, 0.866),
            (0.1, 0.33, 0.901),
            (0.125, 0.3, 0.770),
            (1.0 / 6.0, 0.2, 0.453),
            (1.0 / 6.0, 0.3, 0.634),
        ] {
            let found = share(deviation, hottest);
            assert!(
                (found - expected).abs() < 0.005,
                "{deviation} {hottest}: {found}"
            );
        }
    }
}
