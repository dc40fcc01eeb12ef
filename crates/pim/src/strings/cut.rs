//! Places between keys.

use std::cmp::Ordering;
use std::ops::Bound;

/// A place between keys, at which a range begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut<'k> {
    /// The place before all keys.
    Begin,
    /// The place before a key, and after all lesser keys.
    Before(&'k [u8]),
    /// The place after a key.
    After(&'k [u8]),
    /// The place after all keys.
    End,
}

const BEGIN: u64 = 0;
const BEFORE: u64 = 1;
const AFTER: u64 = 2;
const END: u64 = 3;

impl<'k> Cut<'k> {
    /// Returns the place at which a range begins.
    pub fn low(bound: Bound<&'k [u8]>) -> Cut<'k> {
        match bound {
            Bound::Included(key) => Cut::Before(key),
            Bound::Excluded(key) => Cut::After(key),
            Bound::Unbounded => Cut::Begin,
        }
    }

    /// Returns the place at which a range ends.
    pub fn high(bound: Bound<&'k [u8]>) -> Cut<'k> {
        match bound {
            Bound::Included(key) => Cut::After(key),
            Bound::Excluded(key) => Cut::Before(key),
            Bound::Unbounded => Cut::End,
        }
    }

    /// Splits the place into a number and a key, for encoding.
    pub fn split(self) -> (u64, &'k [u8]) {
        match self {
            Cut::Begin => (BEGIN, &[]),
            Cut::Before(key) => (BEFORE, key),
            Cut::After(key) => (AFTER, key),
            Cut::End => (END, &[]),
        }
    }

    /// Joins the parts of [`split`](Cut::split).
    pub fn of(kind: u64, key: &'k [u8]) -> Option<Cut<'k>> {
        Some(match kind {
            BEGIN => Cut::Begin,
            BEFORE => Cut::Before(key),
            AFTER => Cut::After(key),
            END => Cut::End,
            _ => return None,
        })
    }

    /// Returns the key next to the place, if there is one.
    pub fn key(self) -> Option<&'k [u8]> {
        match self {
            Cut::Before(key) | Cut::After(key) => Some(key),
            Cut::Begin | Cut::End => None,
        }
    }
}

impl Ord for Cut<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |cut: &Self| match cut {
            Cut::Begin => 0,
            Cut::Before(_) | Cut::After(_) => 1,
            Cut::End => 2,
        };
        let side = |cut: &Self| matches!(cut, Cut::After(_));
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.key().cmp(&other.key()))
            .then_with(|| side(self).cmp(&side(other)))
    }
}

impl PartialOrd for Cut<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_lie_between_keys_in_their_order() {
        let cuts = [
            Cut::Begin,
            Cut::Before(b""),
            Cut::After(b""),
            Cut::Before(b"a"),
            Cut::After(b"a"),
            Cut::Before(b"a\0"),
            Cut::Before(b"b"),
            Cut::End,
        ];
        assert!(cuts.is_sorted_by(|one, other| one < other));
        for cut in cuts {
            let (kind, key) = cut.split();
            assert_eq!(Cut::of(kind, key), Some(cut));
        }
        assert_eq!(Cut::of(4, b""), None);
    }
}
