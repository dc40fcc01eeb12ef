//! Filters of values.

use std::ops::{Bound, RangeBounds};

/// A filter of values, which compares them with constants as unsigned numbers
/// ([`number`](super::number)).
///
/// ```
/// use nearfield_pool::filtered::Filter;
///
/// assert!(Filter::at_least(10).matches(10) && !Filter::at_least(10).matches(9));
/// assert!(Filter::between(3..=5).matches(5) && !Filter::between(3..5).matches(5));
/// assert!(Filter::other_than(7).matches(0) && !Filter::other_than(7).matches(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    selected: Option<Selected>,
}

/// The numbers from `first` on, `more` of them behind it, wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub first: u64,
    pub more: u64,
}

impl Filter {
    /// All values.
    pub const ALL: Filter = Filter::of(0, u64::MAX);

    const fn of(first: u64, more: u64) -> Filter {
        let selected = Some(Selected { first, more });
        Filter { selected }
    }

    /// Creates a filter of values that are at least this.
    pub const fn at_least(least: u64) -> Filter {
        Filter::of(least, u64::MAX - least)
    }

    /// Creates a filter of values that are at most this.
    pub const fn at_most(greatest: u64) -> Filter {
        Filter::of(0, greatest)
    }

    /// Creates a filter of this value.
    pub const fn equal_to(value: u64) -> Filter {
        Filter::of(value, 0)
    }

    /// Creates a filter of all values except this.
    pub const fn other_than(value: u64) -> Filter {
        Filter::of(value.wrapping_add(1), u64::MAX - 1)
    }

    /// Creates a filter of values in a range.
    pub fn between(range: impl RangeBounds<u64>) -> Filter {
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
            Some(Selected { first, more })
        });
        Filter { selected }
    }

    /// Returns true if it selects a value.
    pub const fn matches(&self, value: u64) -> bool {
        match self.selected {
            Some(Selected { first, more }) => value.wrapping_sub(first) <= more,
            None => false,
        }
    }

    /// Returns the numbers that it selects, if there are any.
    pub(crate) const fn selected(&self) -> Option<Selected> {
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
                assert_eq!(Filter::at_least(edge).matches(value), value >= edge);
                assert_eq!(Filter::at_most(edge).matches(value), value <= edge);
                assert_eq!(Filter::equal_to(edge).matches(value), value == edge);
                assert_eq!(Filter::other_than(edge).matches(value), value != edge);
                for other in EDGES {
                    let bounds = [Bound::Included(edge), Bound::Excluded(edge)];
                    for range in bounds.map(|low| (low, Bound::Excluded(other))) {
                        assert_eq!(
                            Filter::between(range).matches(value),
                            range.contains(&value)
                        );
                        let range = (range.1, range.0);
                        assert_eq!(
                            Filter::between(range).matches(value),
                            range.contains(&value)
                        );
                    }
                }
            }
            assert!(Filter::ALL.matches(value) && Filter::between(..).matches(value));
        }
    }
}
