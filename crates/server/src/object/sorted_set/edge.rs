//! Edges between the entries of a sorted set: what ranges begin and end with.

use std::ops::Bound;

/// A place between entries. The entries before it are those that are less than what it names, or
/// also those that are equal.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    at: At<'a>,
    behind_equals: bool,
}

#[derive(Clone, Copy)]
enum At<'a> {
    Start,
    End,
    Score(f64),
    /// A score and a member. Without a score it is that of all members.
    Member(Option<f64>, &'a [u8]),
}

impl<'a> Edge<'a> {
    /// Before the entry of this score and member.
    pub(super) fn before(score: f64, member: &'a [u8]) -> Self {
        Edge {
            at: At::Member(Some(score), member),
            behind_equals: false,
        }
    }

    /// Behind the entry of this score and member.
    pub(super) fn behind(score: f64, member: &'a [u8]) -> Self {
        Edge {
            at: At::Member(Some(score), member),
            behind_equals: true,
        }
    }

    /// Where the scores from `min` on begin.
    pub(super) fn from_score(min: Bound<f64>) -> Self {
        Self::start(min.map(At::Score))
    }

    /// Where the scores up to `max` end.
    pub(super) fn to_score(max: Bound<f64>) -> Self {
        Self::end(max.map(At::Score))
    }

    /// Where the members from `min` on begin.
    pub(super) fn from_member(min: Bound<&'a [u8]>) -> Self {
        Self::start(min.map(|member| At::Member(None, member)))
    }

    /// Where the members up to `max` end.
    pub(super) fn to_member(max: Bound<&'a [u8]>) -> Self {
        Self::end(max.map(|member| At::Member(None, member)))
    }

    fn start(bound: Bound<At<'a>>) -> Self {
        let (at, behind_equals) = match bound {
            Bound::Unbounded => (At::Start, false),
            Bound::Included(at) => (at, false),
            Bound::Excluded(at) => (at, true),
        };
        Edge { at, behind_equals }
    }

    fn end(bound: Bound<At<'a>>) -> Self {
        let (at, behind_equals) = match bound {
            Bound::Unbounded => (At::End, false),
            Bound::Included(at) => (at, true),
            Bound::Excluded(at) => (at, false),
        };
        Edge { at, behind_equals }
    }

    /// The rank of the edge among `len` entries, where that is known without a look at them.
    pub(super) fn known_rank(&self, len: usize) -> Option<usize> {
        match self.at {
            At::Start => Some(0),
            At::End => Some(len),
            _ => None,
        }
    }

    /// The score that divides the entries into those before the edge and those behind it, but for
    /// the ones that have it. `common` is the score of all entries where the edge names none.
    #[inline]
    pub(super) fn score(&self, common: f64) -> f64 {
        match self.at {
            At::Start => f64::NEG_INFINITY,
            At::End => f64::INFINITY,
            At::Score(score) => score,
            At::Member(score, _) => score.unwrap_or(common),
        }
    }

    /// Whether an entry that has the score of the edge lies before it. Asks for the member only
    /// where it decides.
    #[inline]
    pub(super) fn is_behind<'m>(&self, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self.at {
            At::Start => false,
            At::End => true,
            At::Score(_) => self.behind_equals,
            At::Member(_, at) if self.behind_equals => member() <= at,
            At::Member(_, at) => member() < at,
        }
    }
}
