//! The features of a subrange in a batch, and their encoding for models.

/// Number of past batches that a model uses.
pub const STEPS: usize = 4;
/// Number of hexadecimal digits of a batch's features.
pub const INPUTS: usize = HOTNESS + 1 + 1 + LIFETIME + KEYS;
/// Numbers of digits of each feature: enough for a batch of 16 million operations, for 65 thousand
/// windows and for a million keys.
const HOTNESS: usize = 6;
const LIFETIME: usize = 4;
const KEYS: usize = 5;

/// The features of a subrange in a batch. Source: RADAR, section V-A.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The number of requests.
    pub hotness: u32,
    /// True if the left neighbour had requests, too.
    pub is_left: bool,
    /// True if the right neighbour had requests, too.
    pub is_right: bool,
    /// Number of windows since the last earlier request; `u32::MAX` if there was none.
    pub lifetime: u32,
    /// Number of keys.
    pub keys: u64,
}

/// The features of a subrange in the last batches, the oldest first.
pub type Sequence = [Features; STEPS];

impl Features {
    /// Returns the hexadecimal digits of all numbers, one after the other, each divided by 15:
    /// hotness 6, flags of the left and the right neighbour 1 each, lifetime 4, keys 5. A number
    /// with more digits becomes all F.
    ///
    /// ```
    /// use nearfield_pim::radar::heights::Features;
    /// let features = Features {
    ///     hotness: 0x1f,
    ///     is_right: true,
    ///     lifetime: u32::MAX,
    ///     ..Features::default()
    /// };
    /// let digits = features.digits();
    /// assert_eq!(digits[3..8], [0.0, 1.0 / 15.0, 1.0, 0.0, 1.0]);
    /// assert_eq!(digits[8..12], [1.0; 4]);
    /// ```
    pub fn digits(&self) -> [f32; INPUTS] {
        let numbers = [
            (u64::from(self.hotness), HOTNESS),
            (u64::from(self.is_left) * 15, 1),
            (u64::from(self.is_right) * 15, 1),
            (u64::from(self.lifetime), LIFETIME),
            (self.keys, KEYS),
        ];
        let digits = numbers.into_iter().flat_map(|(number, count)| {
            let most = (1 << (4 * count)) - 1;
            // All digits F mean "very many". The lowest digits alone would look like a small
            // number.
            let number: u64 = number.min(most);
            (0..count)
                .rev()
                .map(move |digit| (number >> (4 * digit) & 15) as f32 / 15.0)
        });
        let mut inputs = [0.0; INPUTS];
        for (input, digit) in inputs.iter_mut().zip(digits) {
            *input = digit;
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cut_into_digits_and_those_that_are_too_great_are_all_f() {
        let features = Features {
            hotness: 0x12_3456,
            is_left: true,
            is_right: false,
            lifetime: 0xab,
            keys: 1 << 20,
        };
        let digits = features.digits().map(|digit| (digit * 15.0).round() as u32);
        let expected = [1, 2, 3, 4, 5, 6, 15, 0, 0, 0, 10, 11, 15, 15, 15, 15, 15];
        assert_eq!(digits, expected);
        let greater = Features {
            hotness: 1 << 24,
            lifetime: 0,
            ..features
        };
        assert_eq!(greater.digits()[..6], [1.0; 6]);
        assert_eq!(greater.digits()[8..12], [0.0; 4]);
    }
}
