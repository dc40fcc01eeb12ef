//! A synthetic stream of a phasor, as a measuring unit of a power grid sends it to BTrDB.

use std::ops::Range;

/// Measurements a second.
pub(crate) const HERTZ: u64 = 120;
/// 2015-10-01, in nanoseconds since 1970.
const BEGIN: u64 = 1_443_657_600_000_000_000;

/// Returns the time of a measurement by its number, and a magnitude in microvolts: a grid's slow
/// swing and noise.
pub(crate) fn measurement(number: u64) -> (u64, u64) {
    let moment = BEGIN + number * 1_000_000_000 / HERTZ;
    let swing = (number % 7200).abs_diff(3600) * 2000;
    (moment, 7_200_000_000 + swing + hash(number) % 1_000_000)
}

/// Computes the sum, the least and the greatest of the magnitudes of measurements.
pub(crate) fn sum_and_bounds(numbers: Range<u64>) -> [u64; 3] {
    numbers.fold([0, u64::MAX, 0], |[sum, least, greatest], number| {
        let (_, magnitude) = measurement(number);
        [
            sum + magnitude,
            least.min(magnitude),
            greatest.max(magnitude),
        ]
    })
}

/// Computes a random-looking number from another.
pub(crate) fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
