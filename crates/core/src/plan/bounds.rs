//! Bounds of ranges of words.

use std::ops::Bound;

/// Returns the least and the greatest key of a range of words; or `None` if the range has no key.
///
/// ```
/// use nearfield_core::plan::inclusive;
/// use std::ops::Bound::{Excluded, Unbounded};
///
/// assert_eq!(inclusive((Excluded(3), Unbounded)), Some((4, u64::MAX)));
/// assert_eq!(inclusive((Excluded(3), Excluded(4))), None);
/// ```
pub fn inclusive((low, high): (Bound<u64>, Bound<u64>)) -> Option<(u64, u64)> {
    let from = match low {
        Bound::Included(key) => key,
        // No key follows the greatest word, so the range is empty.
        Bound::Excluded(key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match high {
        Bound::Included(key) => key,
        // No key precedes 0.
        Bound::Excluded(key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then_some((from, to))
}
