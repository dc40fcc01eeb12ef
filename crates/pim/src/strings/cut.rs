//! Places between keys.

use std::cmp::Ordering;
use std::ops::Bound;

/// A place between keys, at which a range begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyBoundary<'k> {
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

impl<'k> KeyBoundary<'k> {
    /// Returns the place at which a range begins.
    pub fn low(bound: Bound<&'k [u8]>) -> KeyBoundary<'k> {
        match bound {
            Bound::Included(key) => KeyBoundary::Before(key),
            Bound::Excluded(key) => KeyBoundary::After(key),
            Bound::Unbounded => KeyBoundary::Begin,
        }
    }

    /// Returns the place at which a range ends.
    pub fn high(bound: Bound<&'k [u8]>) -> KeyBoundary<'k> {
        match bound {
            Bound::Included(key) => KeyBoundary::After(key),
            Bound::Excluded(key) => KeyBoundary::Before(key),
            Bound::Unbounded => KeyBoundary::End,
        }
    }

    /// Splits the place into a number and a key, for encoding.
    pub fn split(self) -> (u64, &'k [u8]) {
        match self {
            KeyBoundary::Begin => (BEGIN, &[]),
            KeyBoundary::Before(key) => (BEFORE, key),
            KeyBoundary::After(key) => (AFTER, key),
            KeyBoundary::End => (END, &[]),
        }
    }

    /// Joins the parts of [`split`](KeyBoundary::split).
    pub fn of(kind: u64, key: &'k [u8]) -> Option<KeyBoundary<'k>> {
        Some(match kind {
            BEGIN => KeyBoundary::Begin,
            BEFORE => KeyBoundary::Before(key),
            AFTER => KeyBoundary::After(key),
            END => KeyBoundary::End,
            _ => return None,
        })
    }

    /// Returns the key next to the place, if there is one.
    pub fn key(self) -> Option<&'k [u8]> {
        match self {
            KeyBoundary::Before(key) | KeyBoundary::After(key) => Some(key),
            KeyBoundary::Begin | KeyBoundary::End => None,
        }
    }
}

impl Ord for KeyBoundary<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |cut: &Self| match cut {
            KeyBoundary::Begin => 0,
            KeyBoundary::Before(_) | KeyBoundary::After(_) => 1,
            KeyBoundary::End => 2,
        };
        // No key lies between the two places next to a key, so the key decides first.
        let side = |cut: &Self| matches!(cut, KeyBoundary::After(_));
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.key().cmp(&other.key()))
            .then_with(|| side(self).cmp(&side(other)))
    }
}

impl PartialOrd for KeyBoundary<'_> {
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
            KeyBoundary::Begin,
            KeyBoundary::Before(b""),
            KeyBoundary::After(b""),
            KeyBoundary::Before(b"a"),
            KeyBoundary::After(b"a"),
            KeyBoundary::Before(b"a\0"),
            KeyBoundary::Before(b"b"),
            KeyBoundary::End,
        ];
        assert!(cuts.is_sorted_by(|one, other| one < other));
        for cut in cuts {
            let (kind, key) = cut.split();
            assert_eq!(KeyBoundary::of(kind, key), Some(cut));
        }
        assert_eq!(KeyBoundary::of(4, b""), None);
    }
}
