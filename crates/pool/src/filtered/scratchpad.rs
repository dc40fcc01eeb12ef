//! The words that a program carries from leaf to leaf.
//!
//! The results from whole leaves are kept apart from those of the current one, which count only
//! when the leaf is known to be whole.

use super::aggregates::ScanAggregates;
use super::filter::WrappingNumberRange;
use super::range::WordRange;
use nearfield_offload::program::SCRATCHPAD_BYTES_MAX;
use nearfield_offload::traversal::TraversalOutcome;

/// The least and the greatest key of the range.
pub const LOW: usize = 0;
pub const HIGH: usize = 1;
/// The first number that the filter selects, and the number of those that follow it.
pub const FIRST: usize = 2;
pub const MORE: usize = 3;
/// Results from the leaves read before: the selected values. A list of entries needs only the
/// count. The lower and the upper halves of values have a sum each, because a program has no carry
/// except by a branch, which no processor could predict.
pub const COUNT: usize = 4;
pub const SUM_LOWER: usize = 5;
pub const SUM_UPPER: usize = 6;
pub const MIN: usize = 7;
pub const MAX: usize = 8;
/// The first of as many words: the same including the current leaf, as far as it was read.
pub const PRESENT: usize = 9;
/// The number of the next group of the current leaf, from 1 on; one more behind the last; 0 if the
/// leaf's guard must be read.
pub const STAGE: usize = 14;
/// The guard of the current leaf: its counter or its lock word.
pub const SEEN: usize = 15;
/// The address of the current leaf.
pub const LEAF: usize = 16;
/// The address of the leaf to the right.
pub const SIBLING: usize = 17;
/// Flag: 1 if a key beyond the greatest was seen.
pub const BEYOND: usize = 18;
/// The reason for which the program has ended; 0 if it has completed.
pub const STOP: usize = 19;
/// Number of leaves that were read.
pub const LEAVES: usize = 20;
/// The start of the list of entries: key and value of each.
pub const LIST: usize = 21;

/// The current leaf was changed while it was read.
pub const CHANGED: i32 = 1;
/// The former leaf is no leaf any more.
pub const GONE: i32 = 2;
/// The list may have no room for the entries of the current leaf.
pub const FULL: i32 = 3;

/// Maximum number of entries of a list.
pub const LIST_MAX: usize = (SCRATCHPAD_BYTES_MAX / 8 - LIST) / 2;

/// Returns the words at the start.
pub fn initial(keys: WordRange, selected: WrappingNumberRange) -> [u64; LIST] {
    let mut words = [0; LIST];
    words[LOW] = keys.low;
    words[HIGH] = keys.high;
    words[FIRST] = selected.first;
    words[MORE] = selected.more;
    // Any value is at most the first minimum, and at least the first maximum of zero.
    words[MIN] = u64::MAX;
    words[PRESENT + MIN - COUNT] = u64::MAX;
    words
}

/// Returns the aggregates of the leaves that were read as a whole.
pub fn aggregates(outcome: &TraversalOutcome) -> ScanAggregates {
    let count = outcome.word(COUNT);
    let of_some = |word| (count > 0).then(|| outcome.word(word));
    ScanAggregates {
        count,
        sum: (u128::from(outcome.word(SUM_UPPER)) << 32) + u128::from(outcome.word(SUM_LOWER)),
        min: of_some(MIN),
        max: of_some(MAX),
    }
}

/// Returns the list of entries of these leaves: keys and values.
pub fn entries(outcome: &TraversalOutcome) -> impl Iterator<Item = (u64, u64)> + '_ {
    let count = outcome.word(COUNT).min(LIST_MAX as u64) as usize;
    let word = |index, which| outcome.word(LIST + 2 * index + which);
    (0..count).map(move |index| (word(index, 0), word(index, 1)))
}
