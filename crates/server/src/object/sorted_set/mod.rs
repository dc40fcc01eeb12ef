//! Sorted sets: members with scores, ordered by score and, if scores are equal, by the members'
//! bytes.

mod edge;
mod large;
#[cfg(test)]
mod tests;

use super::ObjectLimits;
use super::frozen::FrozenReader;
use super::packed::{PackedStrings, Pairs};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use edge::Edge;
use large::{Large, LargeEntries};
use nearfield_tiers::AccountedHeap;
use rand::{Rng, RngExt};
use std::ops::{Bound, Range, RangeBounds};

/// Members with scores that are never NaN. `-0.0` and `0.0` are equal.
///
/// A small set is packed; the complexities given here are those of large ones. Ranks count from 0
/// at the least score. To visit the members between bounds, ask for the range of their ranks first;
/// it also gives their number.
pub struct SortedSet<A: Allocator = AccountedHeap> {
    form: SortedSetForm<A>,
}

enum SortedSetForm<A: Allocator> {
    /// Members and scores alternating, sorted.
    Small(PackedStrings<A>),
    Large(Box<Large<A>, A>),
}

fn encode(score: f64) -> [u8; 8] {
    score.to_le_bytes()
}

#[inline]
fn decode(bytes: &[u8]) -> f64 {
    match bytes.try_into() {
        Ok(bytes) => f64::from_le_bytes(bytes),
        Err(_) => unreachable!("scores have eight bytes"),
    }
}

/// Returns the number of pairs before an edge.
fn rank_in(packed: &PackedStrings<impl Allocator + Clone>, edge: Edge<'_>) -> usize {
    // An edge without a score has the score of all members.
    let first = packed.pairs().next();
    let score = edge.score(first.map_or(0.0, |(_, _, score)| decode(score)));
    let entries = packed
        .pairs()
        .map(|(_, member, other)| (member, decode(other)));
    entries
        .take_while(|(member, other)| {
            *other < score || *other == score && edge.is_behind(|| member)
        })
        .count()
}

/// Returns the first run of members within bounds, from the first that reaches `min`, or backwards
/// from the last that reaches `max`.
fn walk_members(
    packed: &PackedStrings<impl Allocator + Clone>,
    min: Bound<&[u8]>,
    max: Bound<&[u8]>,
    reverse: bool,
) -> Range<usize> {
    let members: Vec<&[u8]> = packed.pairs().map(|(_, member, _)| member).collect();
    let reaches_min =
        |member: &&[u8]| RangeBounds::<[u8]>::contains(&(min, Bound::Unbounded), *member);
    let reaches_max =
        |member: &&[u8]| RangeBounds::<[u8]>::contains(&(Bound::Unbounded, max), *member);
    // These are the checks of `zzlIsInLexRange` in Redis.
    let is_possible = match (min, max) {
        (Bound::Included(min), Bound::Included(max)) => min <= max,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (
            Bound::Included(min) | Bound::Excluded(min),
            Bound::Included(max) | Bound::Excluded(max),
        ) => min < max,
    };
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return 0..0;
    };
    if !is_possible || !reaches_min(last) || !reaches_max(first) {
        return 0..0;
    }
    if reverse {
        let end = members
            .iter()
            .rposition(reaches_max)
            .map_or(0, |last| last + 1);
        let run = members[..end].iter().rev().take_while(|it| reaches_min(it));
        return end - run.count()..end;
    }
    let start = members.iter().position(reaches_min);
    let start = start.unwrap_or(members.len());
    let run = members[start..].iter().take_while(|it| reaches_max(it));
    start..start + run.count()
}

fn insert_in(packed: &mut PackedStrings<impl Allocator + Clone>, member: &[u8], score: f64) {
    let rank = rank_in(packed, Edge::before(score, member));
    let position = packed.position(2 * rank);
    // A zero is stored without its sign here, as in small sorted sets of Redis.
    packed.insert(position, &encode(score + 0.0));
    // Second, because both are inserted at the same position.
    packed.insert(position, member);
}

/// The tags of the forms of a frozen sorted set.
const SMALL: u8 = 0;
const LARGE: u8 = 1;

/// Reads a frozen score.
fn thawed_score(bytes: &[u8]) -> Option<f64> {
    let score = f64::from_le_bytes(bytes.try_into().ok()?);
    // It would have no place in the order.
    (!score.is_nan()).then_some(score)
}

/// Returns true if an entry comes before another one.
fn is_before((score, member): (f64, &[u8]), (other, other_member): (f64, &[u8])) -> bool {
    score < other || score == other && member < other_member
}

/// Returns true if the elements are sorted members and scores alternating.
fn is_sorted(packed: &PackedStrings<impl Allocator + Clone>) -> bool {
    let mut before: Option<(f64, &[u8])> = None;
    let mut elements = packed.iter();
    while let Some(member) = elements.next() {
        let Some(score) = elements.next().and_then(thawed_score) else {
            return false;
        };
        let entry = (score, member);
        if before.is_some_and(|before| !is_before(before, entry)) {
            return false;
        }
        before = Some(entry);
    }
    true
}

impl<A: Allocator + Clone> SortedSet<A> {
    /// Creates an empty set.
    pub fn new_in(heap: A) -> Self {
        SortedSet {
            form: SortedSetForm::Small(PackedStrings::new_in(heap)),
        }
    }

    /// Creates an empty set in the form that `members` of up to `longest` bytes will need, so that
    /// it is never converted.
    pub fn with_room_in(heap: A, limits: &ObjectLimits, members: usize, longest: usize) -> Self {
        let packed = PackedStrings::new_in(heap.clone());
        let is_small =
            members <= limits.sorted_set_entries_max && longest <= limits.sorted_set_bytes_max;
        SortedSet {
            form: if is_small {
                SortedSetForm::Small(packed)
            } else {
                SortedSetForm::Large(Box::new_in(Large::from_packed(&packed), heap))
            },
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            SortedSetForm::Small(packed) => packed.len() / 2,
            SortedSetForm::Large(large) => large.members.len(),
        }
    }

    /// Returns true if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the form: `listpack` or `skiplist`.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            SortedSetForm::Small(_) => "listpack",
            SortedSetForm::Large(_) => "skiplist",
        }
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            SortedSetForm::Small(packed) => packed.memory_bytes(),
            SortedSetForm::Large(large) => {
                size_of::<Large<A>>() + large.members.memory_bytes() + large.tree.memory_bytes()
            }
        }
    }

    /// Creates a copy that takes its memory from `heap`. A cursor of a scan stays valid.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> SortedSet<B> {
        SortedSet {
            form: match &self.form {
                SortedSetForm::Small(packed) => SortedSetForm::Small(packed.rebuild_in(heap)),
                SortedSetForm::Large(large) => {
                    SortedSetForm::Large(Box::new_in(large.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the set as [`thaw`](SortedSet::thaw) reads it: a byte for its form, and its content.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        match &self.form {
            SortedSetForm::Small(packed) => {
                out.push(SMALL);
                packed.freeze(out);
            }
            SortedSetForm::Large(large) => {
                out.push(LARGE);
                large.freeze(out);
            }
        }
    }

    /// Reads a frozen set.
    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            SMALL => {
                let packed = PackedStrings::thaw(source, heap)?;
                SortedSetForm::Small(Some(packed).filter(is_sorted)?)
            }
            LARGE => SortedSetForm::Large(Box::new_in(Large::thaw(source, heap.clone())?, heap)),
            _ => return None,
        };
        Some(SortedSet { form })
    }

    /// Sets the score of `member` and returns the previous one. Logarithmic.
    pub fn insert(&mut self, limits: &ObjectLimits, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan());
        let packed = match &mut self.form {
            SortedSetForm::Large(large) => return large.insert(member, score),
            SortedSetForm::Small(packed) => packed,
        };
        let old = packed.find_pair(member);
        let old = old.map(|(position, score)| (position, decode(score)));
        // Another score may be another rank.
        if let Some((position, _)) = old {
            packed.remove(position, 2);
        }
        insert_in(packed, member, score);
        let is_small = member.len() <= limits.sorted_set_bytes_max
            && packed.len() / 2 <= limits.sorted_set_entries_max;
        // A set does not grow by another score.
        if old.is_none() && !is_small {
            let large = Large::from_packed(packed);
            self.form = SortedSetForm::Large(Box::new_in(large, packed.heap().clone()));
        }
        old.map(|(_, score)| score)
    }

    /// Removes `member` and returns its score. Logarithmic.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.form {
            SortedSetForm::Large(large) => large.remove(member),
            SortedSetForm::Small(packed) => {
                let (position, score) = packed.find_pair(member)?;
                let score = decode(score);
                packed.remove(position, 2);
                Some(score)
            }
        }
    }

    /// Returns the score of `member`. Expected constant time.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.form {
            SortedSetForm::Small(packed) => {
                packed.find_pair(member).map(|(_, score)| decode(score))
            }
            SortedSetForm::Large(large) => large.members.get(member).map(decode),
        }
    }

    /// Returns the number of members before `member`, or after it if `reverse`. Logarithmic.
    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<usize> {
        let rank = match &self.form {
            SortedSetForm::Large(large) => large.rank_of(member)?,
            SortedSetForm::Small(packed) => {
                packed.pairs().position(|(_, other, _)| other == member)?
            }
        };
        Some(if reverse { self.len() - 1 - rank } else { rank })
    }

    fn edge_rank(&self, edge: Edge<'_>) -> usize {
        match (edge.known_rank(self.len()), &self.form) {
            (Some(rank), _) => rank,
            (None, SortedSetForm::Small(packed)) => rank_in(packed, edge),
            (None, SortedSetForm::Large(large)) => large.rank(edge),
        }
    }

    fn edge_ranks(&self, start: Edge<'_>, end: Edge<'_>) -> Range<usize> {
        let start = self.edge_rank(start);
        // Nothing is between bounds that cross.
        start..self.edge_rank(end).max(start)
    }

    /// Returns the ranks of the members whose scores are within bounds; empty if `min` is above
    /// `max`. Logarithmic.
    pub fn score_ranks(&self, min: Bound<f64>, max: Bound<f64>) -> Range<usize> {
        self.edge_ranks(Edge::from_score(min), Edge::to_score(max))
    }

    /// Returns the ranks of the members that are within bounds, if all scores are the same. If they
    /// differ, the result is that of Redis for a small set, and unspecified for a large one.
    /// Logarithmic.
    pub fn lex_ranks(&self, min: Bound<&[u8]>, max: Bound<&[u8]>, reverse: bool) -> Range<usize> {
        match &self.form {
            // Redis walks from one end, which only matters if the scores differ.
            SortedSetForm::Small(packed) => walk_members(packed, min, max, reverse),
            SortedSetForm::Large(_) => {
                self.edge_ranks(Edge::from_member(min), Edge::to_member(max))
            }
        }
    }

    /// Returns member and score at rank `rank`. Logarithmic.
    pub fn by_rank(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.range(rank..rank.saturating_add(1), false).next()
    }

    /// Returns members and scores of a range of ranks, which is cut at the number of members; from
    /// its end if `reverse`. Logarithmic to begin with, then constant for each.
    pub fn range(&self, ranks: Range<usize>, reverse: bool) -> SortedSetEntries<'_, A> {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        let walk = match &self.form {
            SortedSetForm::Small(packed) => SortedSetWalk::Small(packed.pairs_between(start, end)),
            SortedSetForm::Large(large) => {
                // Of an empty range it wraps, and is no rank.
                let first = if reverse { end.wrapping_sub(1) } else { start };
                SortedSetWalk::Large(large.entries_from(first))
            }
        };
        SortedSetEntries {
            walk,
            left: end - start,
            reverse,
        }
    }

    /// Returns all members and scores in order.
    pub fn iter(&self) -> SortedSetEntries<'_, A> {
        self.range(0..self.len(), false)
    }

    /// Removes a range of ranks, which is cut at the number of members, and returns the number
    /// removed. Calls `visit` for each before. Logarithmic for each.
    pub fn remove_ranks(
        &mut self,
        ranks: Range<usize>,
        mut visit: impl FnMut(&[u8], f64),
    ) -> usize {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        let count = end - start;
        match &mut self.form {
            _ if count == 0 => {}
            SortedSetForm::Large(large) => large.remove_ranks(start, count, visit),
            SortedSetForm::Small(packed) => {
                for (_, member, score) in packed.pairs_between(start, end) {
                    visit(member, decode(score));
                }
                packed.remove(packed.position(2 * start), 2 * count);
            }
        }
        count
    }

    /// Returns a random member, all with equal probability.
    pub fn random(&self, random: &mut impl Rng) -> Option<(&[u8], f64)> {
        match &self.form {
            SortedSetForm::Small(packed) if packed.is_empty() => None,
            SortedSetForm::Small(_) => self.by_rank(random.random_range(0..self.len())),
            SortedSetForm::Large(large) => {
                let (member, score) = large.members.pair(large.members.random(random)?);
                Some((member, decode(score)))
            }
        }
    }

    /// Visits about `count` members and returns the next cursor; 0 begins and ends an iteration. A
    /// member that is present during the whole iteration is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        match &self.form {
            SortedSetForm::Small(packed) => {
                for (_, member, score) in packed.pairs() {
                    visit(member, decode(score));
                }
                0
            }
            SortedSetForm::Large(large) => large.members.scan(cursor, count, |id| {
                let (member, score) = large.members.pair(id);
                visit(member, decode(score));
            }),
        }
    }

    /// Panics unless the parts agree. For tests.
    pub fn check_invariants(&self) {
        match &self.form {
            SortedSetForm::Large(large) => large.check_invariants(),
            SortedSetForm::Small(packed) => {
                packed.check_invariants();
                for (rank, (_, member, score)) in packed.pairs().enumerate() {
                    assert_eq!(rank_in(packed, Edge::before(decode(score), member)), rank);
                }
            }
        }
    }
}

/// Members and scores of a [`SortedSet`] in one of the two directions.
pub struct SortedSetEntries<'a, A: Allocator> {
    walk: SortedSetWalk<'a, A>,
    left: usize,
    reverse: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack, where a box would cost more than the space"
)]
enum SortedSetWalk<'a, A: Allocator> {
    Small(Pairs<'a>),
    Large(LargeEntries<'a, A>),
}

impl<'a, A: Allocator + Clone> Iterator for SortedSetEntries<'a, A> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left;
        self.left = left.checked_sub(1)?;
        match &mut self.walk {
            SortedSetWalk::Large(entries) => entries.next(left, self.reverse),
            SortedSetWalk::Small(pairs) => {
                let pair = if self.reverse {
                    pairs.next_back()
                } else {
                    pairs.next()
                };
                pair.map(|(_, member, score)| (member, decode(score)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<A: Allocator + Clone> ExactSizeIterator for SortedSetEntries<'_, A> {}
