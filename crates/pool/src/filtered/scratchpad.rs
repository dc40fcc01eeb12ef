//! The words that a program carries from leaf to leaf.
//!
//! What it has found in whole leaves stands apart from what it has found in the present one, which
//! counts only when the leaf is known to be whole.

use super::aggregates::Aggregates;
use super::filter::Selected;
use super::range::WordRange;
use nearfield_offload::program::SCRATCHPAD_BYTES_MAX;
use nearfield_offload::traversal::Outcome;

/// The least and the greatest key.
pub const LOW: usize = 0;
pub const HIGH: usize = 1;
/// The first number that the filter selects, and how many more it does.
pub const FIRST: usize = 2;
pub const MORE: usize = 3;
/// Of the leaves behind: the values that were selected. A list of entries needs only the count. The
/// lower and the upper halves of values have a sum each, as a program has no carry but by a branch
/// that no processor predicts.
pub const COUNT: usize = 4;
pub const SUM_LOWER: usize = 5;
pub const SUM_UPPER: usize = 6;
pub const MIN: usize = 7;
pub const MAX: usize = 8;
/// As many words: the same with the present leaf, as far as it was read.
pub const PRESENT: usize = 9;
/// The number of the next group of the present leaf, from 1 on; one more behind the last; 0 if the
/// leaf's guard is to be read.
pub const STAGE: usize = 14;
/// The guard of the present leaf: its counter or its lock word.
pub const SEEN: usize = 15;
/// The address of the present leaf.
pub const LEAF: usize = 16;
/// That of the leaf to the right.
pub const SIBLING: usize = 17;
/// 1 if a key beyond the greatest was seen.
pub const BEYOND: usize = 18;
/// Why the program has ended; 0 if it is done.
pub const STOP: usize = 19;
/// How many leaves were read.
pub const LEAVES: usize = 20;
/// Where the list of entries begins: key and value of each.
pub const LIST: usize = 21;

/// The present leaf was changed while it was read.
pub const CHANGED: i32 = 1;
/// What should be a leaf is none any more.
pub const GONE: i32 = 2;
/// The list may have no room for the entries of the present leaf.
pub const FULL: i32 = 3;

/// The most entries of a list.
pub const LIST_MAX: usize = (SCRATCHPAD_BYTES_MAX / 8 - LIST) / 2;

/// The words at the start.
pub fn initial(keys: WordRange, selected: Selected) -> [u64; LIST] {
    let mut words = [0; LIST];
    words[LOW] = keys.low;
    words[HIGH] = keys.high;
    words[FIRST] = selected.first;
    words[MORE] = selected.more;
    words[MIN] = u64::MAX;
    words[PRESENT + MIN - COUNT] = u64::MAX;
    words
}

/// The aggregates of the leaves that were read as a whole.
pub fn aggregates(outcome: &Outcome) -> Aggregates {
    let count = outcome.word(COUNT);
    let of_some = |word| (count > 0).then(|| outcome.word(word));
    Aggregates {
        count,
        sum: (u128::from(outcome.word(SUM_UPPER)) << 32) + u128::from(outcome.word(SUM_LOWER)),
        min: of_some(MIN),
        max: of_some(MAX),
    }
}

/// The list of entries of these leaves: keys and values.
pub fn entries(outcome: &Outcome) -> impl Iterator<Item = (u64, u64)> + '_ {
    let count = outcome.word(COUNT).min(LIST_MAX as u64) as usize;
    let word = |index, which| outcome.word(LIST + 2 * index + which);
    (0..count).map(move |index| (word(index, 0), word(index, 1)))
}
