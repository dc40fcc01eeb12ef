//! Commands on sorted sets.

pub(super) mod algebra;
pub(super) mod pop;
pub(super) mod range;

use crate::command::parts::{
    CollectionScanOptions, REPEATED_MAX_DEVIATION, RandomDraw, SCANNED_MAX_DEVIATION, cursor,
};
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, PlannedCommand, Touch, is,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::number::{format_double, parse_double};
use crate::object::{ObjectLimits, SortedSet};
use smallvec::SmallVec;

const GROUP: CommandGroup = CommandGroup::SortedSet;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("zadd", -4, Touch::Change, zadd)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.2.0", "O(log N) for each member")
        .summary("Adds members or changes their scores. Creates the key if it does not exist."),
    CommandDefinition::planned("zincrby", 4, Touch::Change, zincrby)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.2.0", "O(log N)")
        .summary("Adds to the score of a member."),
    CommandDefinition::new("zcard", 2, zcard)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "1.2.0", "O(1)")
        .summary("Returns the number of members."),
    CommandDefinition::new("zscore", 3, zscore)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "1.2.0", "O(1)")
        .summary("Returns the score of a member."),
    CommandDefinition::new("zmscore", -3, zmscore)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "6.2.0", "O(1) for each member")
        .summary("Returns the scores of members."),
    CommandDefinition::new("zrank", -3, |call| rank(call, false))
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "2.0.0", "O(log N)")
        .summary("Returns the rank of a member, counted from the lowest score."),
    CommandDefinition::new("zrevrank", -3, |call| rank(call, true))
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "2.0.0", "O(log N)")
        .summary("Returns the rank of a member, counted from the highest score."),
    CommandDefinition::planned("zrem", -3, Touch::Change, zrem)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "1.2.0", "O(log N) for each member")
        .summary("Removes members. Deletes the key if it becomes empty."),
    CommandDefinition::new("zrandmember", -2, zrandmember)
        .reads()
        .key(1)
        .about(GROUP, "6.2.0", "O(N) for N members that are returned")
        .summary("Returns random members.")
        .differs(REPEATED_MAX_DEVIATION),
    CommandDefinition::new("zscan", -3, zscan)
        .reads()
        .key(1)
        .about(GROUP, "2.8.0", "O(1) for each call, O(N) for all N members")
        .summary("Iterates over the members and scores.")
        .differs(SCANNED_MAX_DEVIATION),
];

const NO_NUMBER: CommandError = CommandError::text("ERR resulting score is not a number (NaN)");

/// The options of `ZADD`.
#[derive(Clone, Copy, Default)]
pub(super) struct ZaddOptions {
    /// True if no members are added.
    pub(super) present: bool,
    /// True if no scores are changed.
    pub(super) absent: bool,
    /// True if scores may only increase.
    greater: bool,
    /// True if scores may only decrease.
    less: bool,
    /// True if members with changed scores are counted.
    pub(super) changed: bool,
    /// True if the score is increased by the given number.
    increment: bool,
}

impl ZaddOptions {
    /// Parses the options. Returns them and the arguments after them.
    fn parse<'a>(
        mut arguments: &'a [&'a [u8]],
    ) -> Result<(ZaddOptions, &'a [&'a [u8]]), CommandError> {
        let mut options = ZaddOptions::default();
        while let [option, rest @ ..] = arguments {
            // The length rules out most scores and members without a comparison.
            let option = match option.len() {
                2 if is(option, "nx") => &mut options.absent,
                2 if is(option, "xx") => &mut options.present,
                2 if is(option, "gt") => &mut options.greater,
                2 if is(option, "lt") => &mut options.less,
                2 if is(option, "ch") => &mut options.changed,
                4 if is(option, "incr") => &mut options.increment,
                _ => break,
            };
            *option = true;
            arguments = rest;
        }
        if arguments.is_empty() || !arguments.len().is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        let ZaddOptions {
            present,
            absent,
            greater,
            less,
            ..
        } = options;
        if absent && present {
            return Err(CommandError::text(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if greater && less || absent && (greater || less) {
            return Err(CommandError::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if options.increment && arguments.len() > 2 {
            return Err(CommandError::text(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok((options, arguments))
    }

    /// Sets the score of a member, or adds to it, unless the options forbid it.
    fn apply(
        self,
        set: &mut SortedSet,
        limits: &ObjectLimits,
        member: &[u8],
        score: f64,
    ) -> Result<ZaddMemberEffect, CommandError> {
        debug_assert!(!score.is_nan(), "no argument parses as NaN");
        // Without a condition the set is walked once, or else for the former score as well.
        let is_plain = !(self.present || self.absent || self.greater || self.less);
        if is_plain && !self.increment {
            return Ok(match set.insert(limits, member, score) {
                None => ZaddMemberEffect::Added(score),
                Some(old) if old == score => ZaddMemberEffect::Kept(score),
                Some(_) => ZaddMemberEffect::Changed(score),
            });
        }
        let Some(old) = set.score(member) else {
            if self.present {
                return Ok(ZaddMemberEffect::Refused);
            }
            set.insert(limits, member, score);
            return Ok(ZaddMemberEffect::Added(score));
        };
        if self.absent {
            return Ok(ZaddMemberEffect::Refused);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err(NO_NUMBER);
        }
        // As in Redis, an equal score is refused, too, so that INCR replies with null.
        if self.greater && score <= old || self.less && score >= old {
            return Ok(ZaddMemberEffect::Refused);
        }
        if score == old {
            return Ok(ZaddMemberEffect::Kept(score));
        }
        set.insert(limits, member, score);
        Ok(ZaddMemberEffect::Changed(score))
    }
}

/// The effect on a member.
enum ZaddMemberEffect {
    Refused,
    Added(f64),
    Changed(f64),
    Kept(f64),
}

fn score_of(argument: &[u8]) -> Result<f64, CommandError> {
    parse_double(argument).ok_or(CommandError::NotFloat)
}

fn zadd(planned: &mut PlannedCommand<'_>) -> Answer {
    let (options, pairs) = ZaddOptions::parse(planned.rest(2))?;
    let (pairs, _) = pairs.as_chunks::<2>();
    // All scores are parsed before any is set.
    let scores = pairs.iter().map(|[score, _]| score_of(score));
    // Most calls have few members, whose scores then take no memory of their own.
    let scores: SmallVec<[f64; 4]> = scores.collect::<Result<_, _>>()?;
    let members = pairs.iter().map(|&[_, member]| member);
    add(planned, options, members.zip(scores))
}

fn zincrby(planned: &mut PlannedCommand<'_>) -> Answer {
    // Redis parses the options of ZADD here, too, and then finds too few scores.
    ZaddOptions::parse(planned.rest(2))?;
    let options = ZaddOptions {
        increment: true,
        ..ZaddOptions::default()
    };
    let (summand, member) = (score_of(planned.args[2])?, planned.args[3]);
    add(planned, options, std::iter::once((member, summand)))
}

/// Sets or changes the scores of members, and replies as `ZADD` does.
pub(super) fn add<'a>(
    planned: &mut PlannedCommand<'_>,
    options: ZaddOptions,
    mut members: impl Iterator<Item = (&'a [u8], f64)>,
) -> Answer {
    let (mut added, mut changed, mut last) = (0, 0, None);
    let result: Answer = planned.edit::<SortedSet, _>(0, |set, limits| {
        members.try_for_each(|(member, score)| {
            last = match options.apply(set, limits, member, score)? {
                ZaddMemberEffect::Refused => None,
                ZaddMemberEffect::Kept(score) => Some(score),
                ZaddMemberEffect::Added(score) => {
                    added += 1;
                    Some(score)
                }
                ZaddMemberEffect::Changed(score) => {
                    changed += 1;
                    Some(score)
                }
            };
            Ok(())
        })
    })?;
    // Only INCR can fail here, which has one member, so no other was changed before.
    result?;
    if added + changed > 0 {
        let event = if options.increment { "zincr" } else { "zadd" };
        planned.changed(0, Class::SortedSet, event);
    }
    match last {
        // As in Redis, CH counts changed members besides added ones.
        _ if !options.increment => {
            let counted = if options.changed {
                added + changed
            } else {
                added
            };
            planned.reply.integer(counted);
        }
        // As in Redis, the reply of INCR is the new score, or null if a condition has failed.
        Some(score) => planned.reply.double(score),
        None => planned.reply.null(),
    }
    Ok(())
}

fn zcard(call: &mut CommandCall<'_>) -> Answer {
    let len = |set: Option<&SortedSet>| set.map_or(0, SortedSet::len);
    call.reply.count(call.keys.read(call.args[1], len)?);
    Ok(())
}

fn zscore(call: &mut CommandCall<'_>) -> Answer {
    let member = call.args[2];
    let score = call
        .keys
        .read::<SortedSet, _>(call.args[1], |set| set.and_then(|set| set.score(member)))?;
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

fn zmscore(call: &mut CommandCall<'_>) -> Answer {
    let members = call.rest(2);
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet, _>(call.args[1], |set| {
        reply.array(members.len());
        for member in members {
            match set.and_then(|set| set.score(member)) {
                Some(score) => reply.double(score),
                None => reply.null(),
            }
        }
    })
}

fn rank(call: &mut CommandCall<'_>, reverse: bool) -> Answer {
    let with_score = match *call.rest(3) {
        [] => false,
        [option] if is(option, "withscore") => true,
        [_] => return Err(CommandError::Syntax),
        _ => {
            let name = if reverse { "zrevrank" } else { "zrank" };
            return Err(CommandError::WrongArity(name.into()));
        }
    };
    let member = call.args[2];
    let found = call.keys.read::<SortedSet, _>(call.args[1], |set| {
        let set = set?;
        // The rank alone is found without the score.
        let score = if with_score { set.score(member)? } else { 0.0 };
        Some((set.rank(member, reverse)?, score))
    })?;
    match found {
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
        Some((rank, score)) => {
            if with_score {
                call.reply.array(2);
            }
            call.reply.count(rank);
            if with_score {
                call.reply.double(score);
            }
        }
    }
    Ok(())
}

fn zrem(planned: &mut PlannedCommand<'_>) -> Answer {
    let members = planned.rest(2);
    let removed = planned.edit_present::<SortedSet, _>(0, |_, set| {
        let removed = members.iter().filter(|member| set.remove(member).is_some());
        removed.count()
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        planned.changed(0, Class::SortedSet, "zrem");
    }
    planned.reply.count(removed);
    Ok(())
}

fn zrandmember(call: &mut CommandCall<'_>) -> Answer {
    let Some(&count) = call.args.get(2) else {
        let reply = &mut *call.reply;
        return call.keys.read::<SortedSet, _>(call.args[1], |set| {
            let drawn = set.and_then(|set| set.random(&mut rand::rng()));
            reply.bulk_or_null(drawn.map(|(member, _)| member));
        });
    };
    let draw = RandomDraw::parse(count)?;
    let scores = match *call.rest(3) {
        [] => false,
        [option] if is(option, "withscores") => true,
        _ => return Err(CommandError::Syntax),
    };
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet, _>(call.args[1], |set| {
        let len = set.map_or(0, SortedSet::len);
        let count = draw.count(len);
        if scores {
            reply.pairs(count);
        } else {
            reply.array(count);
        }
        let Some(set) = set else { return };
        let mut random = rand::rng();
        let random = || set.random(&mut random).map(|drawn| (drawn.0, drawn));
        draw.draw(len, set.iter(), random, |(member, score)| {
            if scores {
                reply.pair();
            }
            reply.bulk(member);
            if scores {
                reply.double(score);
            }
            !reply.is_cut()
        });
    })
}

fn zscan(call: &mut CommandCall<'_>) -> Answer {
    let (cursor, options) = (cursor(call.args[2])?, call.rest(3));
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet, _>(call.args[1], |set| {
        let mark = reply.begin();
        let Some(set) = set else {
            reply.end_scan(mark, 0, 0);
            return Ok(());
        };
        // As in Redis, the options are not checked if there is no key.
        let step = CollectionScanOptions::parse(options, Some("noscores"))?;
        let mut written = 0;
        let next = set.scan(cursor, step.count, |member, score| {
            if step.accepts(member) {
                reply.bulk(member);
                written += 1;
                if step.values {
                    // As text in both versions of the protocol, like Redis.
                    reply.bulk(format_double(score).as_bytes());
                    written += 1;
                }
            }
        });
        reply.end_scan(mark, next, written);
        Ok(())
    })?
}
