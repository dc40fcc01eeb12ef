//! Integer keys: the sets RS, DE and RD of the ART and DCART papers.

use super::super::Permutation;
use super::Progress;

/// Number of keys between two reports of progress.
pub(super) const REPORT_INTERVAL: usize = 1 << 16;

/// Creates random 64-bit integers, the first `count` of a permutation of all words.
pub(super) fn sparse(count: usize, seed: u64, progress: Progress<'_>) -> Vec<u64> {
    let permutation = Permutation::of_words(seed);
    numbers(count, |i| permutation.at(i), progress)
}

/// Creates the integers below `count`, ascending.
pub(super) fn dense(count: usize, progress: Progress<'_>) -> Vec<u64> {
    numbers(count, |i| i, progress)
}

/// Creates the integers below `count` in random order.
pub(super) fn random_dense(count: usize, seed: u64, progress: Progress<'_>) -> Vec<u64> {
    let permutation = Permutation::new(count as u64, seed);
    numbers(count, |i| permutation.at(i), progress)
}

fn numbers(count: usize, number: impl Fn(u64) -> u64, progress: Progress<'_>) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let end = count.min(numbers.len() + REPORT_INTERVAL);
        numbers.extend((numbers.len() as u64..end as u64).map(&number));
        progress(end as u64, count as u64);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_sets_cover_the_same_integers() {
        assert_eq!(dense(5, &mut |_, _| {}), [0, 1, 2, 3, 4]);
        let mut random = random_dense(100_000, 9, &mut |_, _| {});
        random.sort_unstable();
        assert_eq!(random, dense(100_000, &mut |_, _| {}));
    }

    #[test]
    fn sparse_keys_spread_over_all_words() {
        const COUNT: usize = 65_536;
        let keys = sparse(COUNT, 5, &mut |_, _| {});
        // Each value of each byte of the key is about equally common.
        for shift in (0..64).step_by(8) {
            let mut counts = [0u32; 256];
            for key in &keys {
                counts[(key >> shift) as usize & 0xff] += 1;
            }
            let expected = COUNT as f64 / 256.0;
            let chi_square: f64 = counts
                .iter()
                .map(|&n| (f64::from(n) - expected).powi(2) / expected)
                .sum();
            // 255 degrees of freedom: mean 255, standard deviation 22.6.
            assert!(
                chi_square < 255.0 + 5.0 * 22.6,
                "byte at {shift}: {chi_square}"
            );
        }
    }
}
