//! A bijection of `0..count` that looks random, computed without a table.

/// A random-looking permutation of `0..count` in constant space: position to element and back, each
/// in a few nanoseconds.
///
/// Two rounds of add, multiply by an odd number and shift-exclusive-or on the smallest power of two
/// that holds `count` (each step is a bijection there). Results at or above `count` are sent
/// through again until they fall below it, which keeps the map a bijection of `0..count` and takes
/// less than two passes on average. The same construction as the finalizer of MurmurHash3 and
/// SplitMix64, with the seed in its addends.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    /// Largest element.
    last: u64,
    /// All bits that an element may have.
    mask: u64,
    /// Right shift of both rounds: at least half the bits, so that each is its own inverse.
    shift: u32,
    addends: [u64; ROUNDS],
}

const ROUNDS: usize = 3;
/// Odd multipliers of SplitMix64's finalizer and of its increment.
const MULTIPLIERS: [u64; ROUNDS] = [
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0x9e37_79b9_7f4a_7c15,
];
const INVERSES: [u64; ROUNDS] = [
    inverse_of_odd(MULTIPLIERS[0]),
    inverse_of_odd(MULTIPLIERS[1]),
    inverse_of_odd(MULTIPLIERS[2]),
];

impl Permutation {
    /// Creates a permutation of `0..count`, determined by `seed`.
    ///
    /// # Panics
    /// If `count` is 0.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        assert!(count > 0, "nothing to permute");
        Self::up_to(count - 1, seed)
    }

    /// Creates a permutation of all 64-bit words, determined by `seed`.
    #[must_use]
    pub fn of_words(seed: u64) -> Self {
        Self::up_to(u64::MAX, seed)
    }

    fn up_to(last: u64, seed: u64) -> Self {
        // At least two bits: a single element would have none, and the mask would shift by 64.
        let bits = (u64::BITS - last.leading_zeros()).max(2);
        let mut state = seed;
        let addends = [(); ROUNDS].map(|()| {
            state = state.wrapping_add(MULTIPLIERS[2]);
            let mixed = (state ^ (state >> 30)).wrapping_mul(MULTIPLIERS[0]);
            (mixed ^ (mixed >> 27)).wrapping_mul(MULTIPLIERS[1])
        });
        Permutation {
            last,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            addends,
        }
    }

    /// Returns the element at `position`.
    #[must_use]
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(
            position <= self.last,
            "position {position} past {}",
            self.last
        );
        let mut word = position;
        loop {
            for (addend, multiplier) in self.addends.iter().zip(MULTIPLIERS) {
                word = word.wrapping_add(*addend).wrapping_mul(multiplier) & self.mask;
                word ^= word >> self.shift;
            }
            // The cycle through all words returns to the position, so it meets such a word.
            if word <= self.last {
                return word;
            }
        }
    }

    /// Returns the position of `element`.
    #[must_use]
    #[inline]
    pub fn position_of(&self, element: u64) -> u64 {
        debug_assert!(element <= self.last, "element {element} past {}", self.last);
        let mut word = element;
        loop {
            for (addend, inverse) in self.addends.iter().zip(INVERSES).rev() {
                word ^= word >> self.shift;
                word = word.wrapping_mul(inverse).wrapping_sub(*addend) & self.mask;
            }
            if word <= self.last {
                return word;
            }
        }
    }
}

/// Computes the inverse modulo 2^64, by Newton's iteration: each step doubles the correct low bits.
const fn inverse_of_odd(odd: u64) -> u64 {
    debug_assert!(odd & 1 == 1, "even numbers have no inverse");
    let mut inverse = odd; // correct in 3 bits
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    debug_assert!(odd.wrapping_mul(inverse) == 1);
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_permutations_are_complete_and_invertible() {
        for count in (1..=130).chain([255, 256, 257, 1000, 65_536]) {
            for seed in 0..3 {
                let permutation = Permutation::new(count, seed);
                let mut seen = vec![false; count as usize];
                for position in 0..count {
                    let element = permutation.at(position);
                    assert!(!std::mem::replace(&mut seen[element as usize], true));
                    assert_eq!(permutation.position_of(element), position);
                }
            }
        }
    }

    #[test]
    fn words_are_invertible() {
        let permutation = Permutation::of_words(7);
        for word in [0, 1, 2, 1 << 40, u64::MAX - 1, u64::MAX] {
            assert_eq!(permutation.position_of(permutation.at(word)), word);
        }
    }

    #[test]
    fn elements_look_random() {
        const COUNT: u64 = 100_000;
        let permutation = Permutation::new(COUNT, 1);
        // Neighbours land far apart, and each tenth of the positions covers all tenths evenly.
        let distance: u64 = (1..COUNT)
            .map(|i| permutation.at(i).abs_diff(permutation.at(i - 1)))
            .sum();
        let mean = distance as f64 / COUNT as f64;
        assert!(
            (mean - COUNT as f64 / 3.0).abs() < COUNT as f64 / 50.0,
            "mean distance {mean}"
        );
        let mut cells = [[0u32; 10]; 10];
        for i in 0..COUNT {
            cells[(i * 10 / COUNT) as usize][(permutation.at(i) * 10 / COUNT) as usize] += 1;
        }
        for cell in cells.as_flattened() {
            assert!((800..1200).contains(cell), "{cells:?}");
        }
    }

    #[test]
    fn seeds_differ() {
        let same = (0..1000)
            .filter(|&i| Permutation::new(1000, 1).at(i) == Permutation::new(1000, 2).at(i))
            .count();
        assert!(same < 20, "{same}");
    }
}
