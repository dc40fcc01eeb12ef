//! Edges between the entries of a sorted set: the ends of ranges.

use std::ops::Bound;

/// A position between entries. The entries before it are those that are less than its bound, and
/// with `behind_equals` also those that are equal.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    at: SortedSetPosition<'a>,
    behind_equals: bool,
}

#[derive(Clone, Copy)]
enum SortedSetPosition<'a> {
    Start,
    End,
    Score(f64),
    /// A score and a member. Without a score, it is the common score of all members.
    Member(Option<f64>, &'a [u8]),
}

impl<'a> Edge<'a> {
    /// Creates the edge before the entry of this score and member.
    pub(super) fn before(score: f64, member: &'a [u8]) -> Self {
        Edge {
            at: SortedSetPosition::Member(Some(score), member),
            behind_equals: false,
        }
    }

    /// Creates the edge after the entry of this score and member.
    pub(super) fn behind(score: f64, member: &'a [u8]) -> Self {
        Edge {
            at: SortedSetPosition::Member(Some(score), member),
            behind_equals: true,
        }
    }

    /// Creates the edge at which the scores from `min` on begin.
    pub(super) fn from_score(min: Bound<f64>) -> Self {
        Self::start(min.map(SortedSetPosition::Score))
    }

    /// Creates the edge at which the scores up to `max` end.
    pub(super) fn to_score(max: Bound<f64>) -> Self {
        Self::end(max.map(SortedSetPosition::Score))
    }

    /// Creates the edge at which the members from `min` on begin.
    pub(super) fn from_member(min: Bound<&'a [u8]>) -> Self {
        Self::start(min.map(|member| SortedSetPosition::Member(None, member)))
    }

    /// Creates the edge at which the members up to `max` end.
    pub(super) fn to_member(max: Bound<&'a [u8]>) -> Self {
        Self::end(max.map(|member| SortedSetPosition::Member(None, member)))
    }

    fn start(bound: Bound<SortedSetPosition<'a>>) -> Self {
        let (at, behind_equals) = match bound {
            Bound::Unbounded => (SortedSetPosition::Start, false),
            Bound::Included(at) => (at, false),
            Bound::Excluded(at) => (at, true),
        };
        Edge { at, behind_equals }
    }

    fn end(bound: Bound<SortedSetPosition<'a>>) -> Self {
        let (at, behind_equals) = match bound {
            Bound::Unbounded => (SortedSetPosition::End, false),
            Bound::Included(at) => (at, true),
            Bound::Excluded(at) => (at, false),
        };
        Edge { at, behind_equals }
    }

    /// Returns the rank of the edge among `len` entries, if it is known without reading them.
    pub(super) fn known_rank(&self, len: usize) -> Option<usize> {
        match self.at {
            SortedSetPosition::Start => Some(0),
            SortedSetPosition::End => Some(len),
            _ => None,
        }
    }

    /// Returns the score that divides the entries into those before the edge and those after it,
    /// except the ones that have this score. `common` is the score of all entries, for an edge
    /// without one.
    #[inline]
    pub(super) fn score(&self, common: f64) -> f64 {
        match self.at {
            // The ranks of these two are known without a score.
            SortedSetPosition::Start => f64::NEG_INFINITY,
            SortedSetPosition::End => f64::INFINITY,
            SortedSetPosition::Score(score) => score,
            SortedSetPosition::Member(score, _) => score.unwrap_or(common),
        }
    }

    /// Returns true if an entry that has the score of the edge comes before the edge. Reads the
    /// member only if it decides.
    #[inline]
    pub(super) fn is_behind<'m>(&self, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self.at {
            SortedSetPosition::Start => false,
            SortedSetPosition::End => true,
            SortedSetPosition::Score(_) => self.behind_equals,
            SortedSetPosition::Member(_, at) if self.behind_equals => member() <= at,
            SortedSetPosition::Member(_, at) => member() < at,
        }
    }
}
