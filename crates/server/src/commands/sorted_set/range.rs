//! Commands on ranges of sorted sets: by rank, by score and by member.

use crate::command::arguments::positions;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, integer, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::number::parse_double;
use crate::object::{Container, RedisType, SortedSet};
use std::ops::{Bound, Range};

const GROUP: CommandGroup = CommandGroup::SortedSet;
const TIME: &str = "O(log N + M) for M members";

/// The rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("zrange", -4, |call| range(call, ZrangeForm::default()))
        .reads()
        .key(1)
        .about(GROUP, "1.2.0", TIME)
        .summary("Returns the members within a range of ranks, scores or members."),
    CommandDefinition::new("zrangestore", -5, zrangestore)
        .grows()
        .keys_at(1, 2, 1)
        .about(GROUP, "6.2.0", TIME)
        .summary("Stores the members within a range of ranks, scores or members."),
    CommandDefinition::new("zrevrange", -4, |call| {
        range(call, ZrangeForm::old(ZrangeBoundKind::Rank, true))
    })
    .reads()
    .key(1)
    .about(GROUP, "1.2.0", TIME)
    .summary("Returns the members within a range of ranks, the highest score first."),
    CommandDefinition::new("zrangebyscore", -4, |call| {
        range(call, ZrangeForm::old(ZrangeBoundKind::Score, false))
    })
    .reads()
    .key(1)
    .about(GROUP, "1.0.5", TIME)
    .summary("Returns the members within a range of scores."),
    CommandDefinition::new("zrevrangebyscore", -4, |call| {
        range(call, ZrangeForm::old(ZrangeBoundKind::Score, true))
    })
    .reads()
    .key(1)
    .about(GROUP, "2.2.0", TIME)
    .summary("Returns the members within a range of scores, the highest score first."),
    CommandDefinition::new("zrangebylex", -4, |call| {
        range(call, ZrangeForm::old(ZrangeBoundKind::Member, false))
    })
    .reads()
    .key(1)
    .about(GROUP, "2.8.9", TIME)
    .summary("Returns the members within a range of members, all of the same score."),
    CommandDefinition::new("zrevrangebylex", -4, |call| {
        range(call, ZrangeForm::old(ZrangeBoundKind::Member, true))
    })
    .reads()
    .key(1)
    .about(GROUP, "2.8.9", TIME)
    .summary(
        "Returns the members within a range of members, all of the same score, the last one first.",
    ),
    CommandDefinition::new("zcount", 4, |call| count(call, ZrangeBoundKind::Score))
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "2.0.0", "O(log N)")
        .summary("Returns the number of members within a range of scores."),
    CommandDefinition::new("zlexcount", 4, |call| count(call, ZrangeBoundKind::Member))
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "2.8.9", "O(log N)")
        .summary("Returns the number of members within a range of members, all of the same score."),
    CommandDefinition::new("zremrangebyrank", 4, |call| {
        remove(call, ZrangeBoundKind::Rank, "zremrangebyrank")
    })
    .writes()
    .key(1)
    .about(GROUP, "2.0.0", TIME)
    .summary("Removes the members within a range of ranks."),
    CommandDefinition::new("zremrangebyscore", 4, |call| {
        remove(call, ZrangeBoundKind::Score, "zremrangebyscore")
    })
    .writes()
    .key(1)
    .about(GROUP, "1.2.0", TIME)
    .summary("Removes the members within a range of scores."),
    CommandDefinition::new("zremrangebylex", 4, |call| {
        remove(call, ZrangeBoundKind::Member, "zremrangebylex")
    })
    .writes()
    .key(1)
    .about(GROUP, "2.8.9", TIME)
    .summary("Removes the members within a range of members, all of the same score."),
];

/// The kind of a range's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZrangeBoundKind {
    Rank,
    Score,
    Member,
}

/// The properties of a range that the command's name determines. The others are left to options.
#[derive(Clone, Copy, Debug, Default)]
struct ZrangeForm {
    by: Option<ZrangeBoundKind>,
    reverse: Option<bool>,
    /// True if the members are stored, so that their scores are not part of the reply.
    stores: bool,
}

impl ZrangeForm {
    /// Returns the form of the commands that are older than options.
    fn old(by: ZrangeBoundKind, reverse: bool) -> ZrangeForm {
        ZrangeForm {
            by: Some(by),
            reverse: Some(reverse),
            stores: false,
        }
    }
}

/// A parsed range.
#[derive(Debug)]
struct ZrangeQuery<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    /// The number of members to skip, and the largest number that follow; negative for all.
    limit: Option<(i64, i64)>,
    scores: bool,
}

/// The two members that bound a range.
type MemberBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

#[derive(Debug)]
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    /// Bounds by member. `None` is an empty range.
    Members(Option<MemberBounds<'a>>),
}

impl<'a> Bounds<'a> {
    fn parse(
        by: ZrangeBoundKind,
        min: &'a [u8],
        max: &'a [u8],
    ) -> Result<Bounds<'a>, CommandError> {
        match by {
            ZrangeBoundKind::Rank => Ok(Bounds::Ranks(integer(min)?, integer(max)?)),
            ZrangeBoundKind::Score => Ok(Bounds::Scores(score_bound(min)?, score_bound(max)?)),
            ZrangeBoundKind::Member => {
                let (min, max) = (member_bound(min)?, member_bound(max)?);
                Ok(Bounds::Members(match (min, max) {
                    // Nothing is after `+` or before `-`.
                    (MemberBound::Last, _) | (_, MemberBound::First) => None,
                    (min, max) => Some((min.bound(), max.bound())),
                }))
            }
        }
    }

    /// Returns the ranks of the members within the bounds.
    fn ranks(&self, set: &SortedSet, reverse: bool) -> Range<usize> {
        match *self {
            Bounds::Ranks(start, stop) => {
                let range = positions(start, stop, set.len());
                if reverse {
                    debug_assert!(range.end <= set.len(), "`positions` returns existing ones");
                    // Ranks count from the highest score then.
                    set.len() - range.end..set.len() - range.start
                } else {
                    range
                }
            }
            Bounds::Scores(min, max) => set.score_ranks(min, max),
            Bounds::Members(Some((min, max))) => set.lex_ranks(min, max, reverse),
            Bounds::Members(None) => 0..0,
        }
    }
}

fn score_bound(argument: &[u8]) -> Result<Bound<f64>, CommandError> {
    const NO_FLOAT: CommandError = CommandError::text("ERR min or max is not a float");
    // An empty argument counts as zero, as in C's `strtod`.
    let score = |text: &[u8]| match text {
        b"" => Ok(0.0),
        text => parse_double(text).ok_or(NO_FLOAT),
    };
    match argument {
        [b'(', text @ ..] => score(text).map(Bound::Excluded),
        text => score(text).map(Bound::Included),
    }
}

enum MemberBound<'a> {
    First,
    Last,
    At(Bound<&'a [u8]>),
}

impl<'a> MemberBound<'a> {
    fn bound(self) -> Bound<&'a [u8]> {
        match self {
            MemberBound::First | MemberBound::Last => Bound::Unbounded,
            MemberBound::At(bound) => bound,
        }
    }
}

fn member_bound(argument: &[u8]) -> Result<MemberBound<'_>, CommandError> {
    match argument {
        b"-" => Ok(MemberBound::First),
        b"+" => Ok(MemberBound::Last),
        [b'[', member @ ..] => Ok(MemberBound::At(Bound::Included(member))),
        [b'(', member @ ..] => Ok(MemberBound::At(Bound::Excluded(member))),
        _ => Err(CommandError::text(
            "ERR min or max not valid string range item",
        )),
    }
}

impl<'a> ZrangeQuery<'a> {
    /// Parses the bounds and the options after them.
    fn parse(form: ZrangeForm, arguments: &'a [&'a [u8]]) -> Result<ZrangeQuery<'a>, CommandError> {
        let [first, second, ref options @ ..] = *arguments else {
            return Err(CommandError::Syntax);
        };
        let ZrangeForm {
            mut by,
            mut reverse,
            ..
        } = form;
        let (mut limit, mut scores) = (None, false);
        let mut options = options;
        while let [option, rest @ ..] = options {
            options = rest;
            if !form.stores && is(option, "withscores") {
                scores = true;
            } else if is(option, "limit")
                && let [offset, count, rest @ ..] = rest
            {
                limit = Some((integer(offset)?, integer(count)?));
                options = rest;
            } else if reverse.is_none() && is(option, "rev") {
                reverse = Some(true);
            } else if by.is_none() && is(option, "bylex") {
                by = Some(ZrangeBoundKind::Member);
            } else if by.is_none() && is(option, "byscore") {
                by = Some(ZrangeBoundKind::Score);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (by, reverse) = (
            by.unwrap_or(ZrangeBoundKind::Rank),
            reverse.unwrap_or(false),
        );
        // A limit of -1 is the same as no limit: Redis cannot distinguish them either.
        if by == ZrangeBoundKind::Rank && limit.is_some_and(|(_, count)| count != -1) {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE \
                 or BYLEX",
            ));
        }
        if by == ZrangeBoundKind::Member && scores {
            return Err(CommandError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (min, max) = if reverse && by != ZrangeBoundKind::Rank {
            // As in Redis, the greater bound comes first with REV, except for ranks.
            (second, first)
        } else {
            (first, second)
        };
        Ok(ZrangeQuery {
            bounds: Bounds::parse(by, min, max)?,
            reverse,
            // With ranks, only a count of -1 has passed the check above.
            limit: limit.filter(|_| by != ZrangeBoundKind::Rank),
            scores,
        })
    }

    /// Returns the ranks of the requested members.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let ranks = self.bounds.ranks(set, self.reverse);
        let Some((offset, count)) = self.limit else {
            return ranks;
        };
        // A negative offset skips all members.
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let offset = offset.min(ranks.len());
        let count = count.min(ranks.len() - offset);
        if self.reverse {
            // Ranks ascend even with REV, so that the skipped members are the last ones.
            let end = ranks.end - offset;
            end - count..end
        } else {
            let start = ranks.start + offset;
            start..start + count
        }
    }
}

fn range(call: &mut CommandCall<'_>, form: ZrangeForm) -> Answer {
    let query = ZrangeQuery::parse(form, call.rest(2))?;
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet, _>(call.args[1], |set| {
        let Some(set) = set else {
            reply.array(0);
            return;
        };
        let ranks = query.ranks(set);
        if query.scores {
            reply.pairs(ranks.len());
            for (member, score) in set.range(ranks, query.reverse) {
                reply.pair();
                reply.bulk(member);
                reply.double(score);
            }
        } else {
            reply.array(ranks.len());
            for (member, _) in set.range(ranks, query.reverse) {
                reply.bulk(member);
            }
        }
    })
}

fn zrangestore(call: &mut CommandCall<'_>) -> Answer {
    let form = ZrangeForm {
        stores: true,
        ..ZrangeForm::default()
    };
    let query = ZrangeQuery::parse(form, call.rest(3))?;
    let bytes = call.keys.read::<SortedSet, _>(call.args[2], |set| {
        let part = |set: &SortedSet| {
            // An estimate, as if all members were of the same size.
            let part = query.ranks(set).len() as f64 / set.len() as f64;
            (set.memory_bytes() as f64 * part) as usize
        };
        set.map_or(0, part)
    })?;
    call.check_room(bytes)?;
    let (limits, heap) = (call.keys.limits(), call.keys.keyspace().heap.clone());
    let mut result = SortedSet::create(&heap);
    call.keys.read::<SortedSet, _>(call.args[2], |set| {
        if let Some(set) = set {
            let ranks = query.ranks(set);
            // As in Redis, only a range of ranks tells the number of members before they are
            // read.
            if matches!(query.bounds, Bounds::Ranks(..)) {
                result = SortedSet::with_room_in(heap.clone(), &limits, ranks.len(), 0);
            }
            for (member, score) in set.range(ranks, false) {
                result.insert(&limits, member, score);
            }
        }
    })?;
    let count = result.len();
    store(call, call.args[1], result, "zrangestore")?;
    call.reply.count(count);
    Ok(())
}

/// Replaces the value of a key by the result of a command, or deletes the key if the result is
/// empty.
pub fn store<T: Container>(
    call: &mut CommandCall<'_>,
    target: &[u8],
    result: T,
    event: &'static str,
) -> Answer {
    if !result.is_empty() {
        let class = match T::KIND {
            RedisType::SortedSet => Class::SortedSet,
            _ => Class::Set,
        };
        // As in Redis, the target is replaced whatever its type is, and does not expire.
        call.keys.put_object(target, result.wrap(), None)?;
        call.keys.changed(target, class, event);
    } else if call.keys.remove(target)? {
        call.keys.changed(target, Class::Generic, "del");
    }
    Ok(())
}

fn count(call: &mut CommandCall<'_>, by: ZrangeBoundKind) -> Answer {
    let bounds = Bounds::parse(by, call.args[2], call.args[3])?;
    let count = call.keys.read::<SortedSet, _>(call.args[1], |set| {
        set.map_or(0, |set| bounds.ranks(set, false).len())
    })?;
    call.reply.count(count);
    Ok(())
}

fn remove(call: &mut CommandCall<'_>, by: ZrangeBoundKind, event: &'static str) -> Answer {
    let key = call.args[1];
    let bounds = Bounds::parse(by, call.args[2], call.args[3])?;
    let removed = call.keys.edit_present::<SortedSet, _>(key, |set| {
        let ranks = bounds.ranks(set, false);
        set.remove_ranks(ranks, |_, _| {})
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        call.keys.changed(key, Class::SortedSet, event);
    }
    call.reply.count(removed);
    Ok(())
}
