//! Filters of values.

use std::ops::{Bound, RangeBounds};

/// A filter of values, which compares them with constants as unsigned numbers
/// ([`number`](super::number)).
///
/// ```
/// use nearfield_pool::filtered::ValueFilter;
///
/// assert!(ValueFilter::at_least(10).matches(10) && !ValueFilter::at_least(10).matches(9));
/// assert!(ValueFilter::between(3..=5).matches(5) && !ValueFilter::between(3..5).matches(5));
/// assert!(ValueFilter::other_than(7).matches(0) && !ValueFilter::other_than(7).matches(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFilter {
    selected: Option<WrappingNumberRange>,
}

/// The numbers from `first` on, `more` of them behind it, wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrappingNumberRange {
    pub first: u64,
    pub more: u64,
}

impl ValueFilter {
    /// All values.
    pub const ALL: ValueFilter = ValueFilter::of(0, u64::MAX);

    const fn of(first: u64, more: u64) -> ValueFilter {
        let selected = Some(WrappingNumberRange { first, more });
        ValueFilter { selected }
    }

    /// Creates a filter of values that are at least this.
    pub const fn at_least(least: u64) -> ValueFilter {
        ValueFilter::of(least, u64::MAX - least)
    }

    /// Creates a filter of values that are at most this.
    pub const fn at_most(greatest: u64) -> ValueFilter {
        ValueFilter::of(0, greatest)
    }

    /// Creates a filter of this value.
    pub const fn equal_to(value: u64) -> ValueFilter {
        ValueFilter::of(value, 0)
    }

    /// Creates a filter of all values except this.
    pub const fn other_than(value: u64) -> ValueFilter {
        ValueFilter::of(value.wrapping_add(1), u64::MAX - 1)
    }

    /// Creates a filter of values in a range.
    pub fn between(range: impl RangeBounds<u64>) -> ValueFilter {
        let least = match range.start_bound() {
            Bound::Unbounded => Some(0),
            Bound::Included(&least) => Some(least),
            Bound::Excluded(&below) => below.checked_add(1),
        };
        let greatest = match range.end_bound() {
            Bound::Unbounded => Some(u64::MAX),
            Bound::Included(&greatest) => Some(greatest),
            Bound::Excluded(&above) => above.checked_sub(1),
        };
        let selected = least.zip(greatest).and_then(|(first, greatest)| {
            let more = greatest.checked_sub(first)?;
            Some(WrappingNumberRange { first, more })
        });
        ValueFilter { selected }
    }

    /// Returns true if it selects a value.
    pub const fn matches(&self, value: u64) -> bool {
        match self.selected {
            Some(WrappingNumberRange { first, more }) => value.wrapping_sub(first) <= more,
            None => false,
        }
    }

    /// Returns the numbers that it selects, if there are any.
    pub(crate) const fn selected(&self) -> Option<WrappingNumberRange> {
        self.selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 7] = [0, 1, 2, 1 << 63, u64::MAX - 2, u64::MAX - 1, u64::MAX];

    #[test]
    fn filters_select_what_they_say() {
        for value in EDGES {
            for edge in EDGES {
                assert_eq!(ValueFilter::at_least(edge).matches(value), value >= edge);
                assert_eq!(ValueFilter::at_most(edge).matches(value), value <= edge);
                assert_eq!(ValueFilter::equal_to(edge).matches(value), value == edge);
                assert_eq!(ValueFilter::other_than(edge).matches(value), value != edge);
                for other in EDGES {
                    let bounds = [Bound::Included(edge), Bound::Excluded(edge)];
                    for range in bounds.map(|low| (low, Bound::Excluded(other))) {
                        assert_eq!(
                            ValueFilter::between(range).matches(value),
                            range.contains(&value)
                        );
                        let range = (range.1, range.0);
                        assert_eq!(
                            ValueFilter::between(range).matches(value),
                            range.contains(&value)
                        );
                    }
                }
            }
            assert!(ValueFilter::ALL.matches(value) && ValueFilter::between(..).matches(value));
        }
    }
}
