//! Commands on sorted sets that take the members with the lowest or highest scores, and those that
//! block until there are members.

use crate::blocking::WaitLine;
use crate::command::arguments::{count, counted_keys, timeout_ms};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, is};
use crate::commands::list::blocking::mpop_count;
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::SortedSet;

const GROUP: CommandGroup = CommandGroup::SortedSet;
const TIME: &str = "O(log N * M) for M members";
const WAITS: Flags = Flags(Flags::BLOCKING.0 | Flags::EXCLUSIVE.0);

/// The rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("zpopmin", -2, |call| pop(call, ZsetPopSide::Min))
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", TIME)
        .summary("Removes the members of the lowest scores and returns them."),
    CommandDefinition::new("zpopmax", -2, |call| pop(call, ZsetPopSide::Max))
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", TIME)
        .summary("Removes the members of the highest scores and returns them."),
    CommandDefinition::new("zmpop", -4, zmpop)
        .writes()
        .keys_counted(1, None)
        .about(
            GROUP,
            "7.0.0",
            "O(K) + O(log N * M) for K keys and M members",
        )
        .summary("Removes members from the first sorted set that is not empty and returns them."),
    CommandDefinition::new("bzpopmin", -3, |call| blocking_pop(call, ZsetPopSide::Min))
        .writes()
        .fast()
        .flag(WAITS)
        .keys_at(1, -2, 1)
        .about(GROUP, "5.0.0", "O(log N)")
        .summary(
            "Removes the member of the lowest score and returns it, or blocks until there is one.",
        ),
    CommandDefinition::new("bzpopmax", -3, |call| blocking_pop(call, ZsetPopSide::Max))
        .writes()
        .fast()
        .flag(WAITS)
        .keys_at(1, -2, 1)
        .about(GROUP, "5.0.0", "O(log N)")
        .summary(
            "Removes the member of the highest score and returns it, or blocks until there is one.",
        ),
    CommandDefinition::new("bzmpop", -5, bzmpop)
        .writes()
        .flag(WAITS)
        .keys_counted(2, None)
        .about(
            GROUP,
            "7.0.0",
            "O(K) + O(log N * M) for K keys and M members",
        )
        .summary(
            "Removes members from the first sorted set that is not empty and returns them, or \
             blocks until there are any.",
        ),
];

/// The side with the lowest or the highest scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZsetPopSide {
    Min,
    Max,
}

impl ZsetPopSide {
    fn parse(argument: &[u8]) -> Result<ZsetPopSide, CommandError> {
        if is(argument, "min") {
            Ok(ZsetPopSide::Min)
        } else if is(argument, "max") {
            Ok(ZsetPopSide::Max)
        } else {
            Err(CommandError::Syntax)
        }
    }

    fn event(self) -> &'static str {
        match self {
            ZsetPopSide::Min => "zpopmin",
            ZsetPopSide::Max => "zpopmax",
        }
    }

    /// Removes at most `count` members, and calls `visit` with each before.
    fn pop(self, set: &mut SortedSet, count: usize, mut visit: impl FnMut(&[u8], f64)) {
        let len = set.len();
        let count = count.min(len);
        match self {
            ZsetPopSide::Min => {
                set.remove_ranks(0..count, visit);
            }
            ZsetPopSide::Max => {
                let ranks = len - count..len;
                // The removal visits the lowest score first, but the reply begins with the highest.
                for (member, score) in set.range(ranks.clone(), true) {
                    visit(member, score);
                }
                set.remove_ranks(ranks, |_, _| {});
            }
        }
    }
}

fn pop(call: &mut CommandCall<'_>, side: ZsetPopSide) -> Answer {
    if call.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let key = call.args[1];
    let limit = call.args.get(2).map(|limit| count(limit)).transpose()?;
    let reply = &mut *call.reply;
    let popped = call.keys.edit_present::<SortedSet, _>(key, |set| {
        let count = limit.unwrap_or(1).min(set.len());
        match limit {
            Some(_) => reply.pairs(count),
            // As in Redis, a single member is not nested in a pair, even in RESP3.
            None => reply.array(2),
        }
        side.pop(set, count, |member, score| {
            if limit.is_some() {
                reply.pair();
            }
            reply.bulk(member);
            reply.double(score);
        });
        count > 0
    })?;
    match popped {
        Some(true) => call.keys.changed(key, Class::SortedSet, side.event()),
        Some(false) => {}
        // As in Redis, an absent key is an empty array.
        None => call.reply.array(0),
    }
    Ok(())
}

/// Pops from the first of `keys` that is a sorted set. Returns false if none is. Replies with its
/// key and the members with their scores, or the only one if `limit` is `None`.
fn pop_first(
    call: &mut CommandCall<'_>,
    keys: &[&[u8]],
    side: ZsetPopSide,
    limit: Option<usize>,
) -> Result<bool, CommandError> {
    for &key in keys {
        let reply = &mut *call.reply;
        let popped = call.keys.edit_present::<SortedSet, _>(key, |set| {
            let count = limit.unwrap_or(1).min(set.len());
            debug_assert!(count > 0, "a sorted set that is stored has members");
            reply.array(if limit.is_some() { 2 } else { 3 });
            reply.bulk(key);
            if limit.is_some() {
                reply.array(count);
            }
            side.pop(set, count, |member, score| {
                if limit.is_some() {
                    // As in Redis, these pairs are nested in both protocols, unlike those of
                    // ZPOPMIN.
                    reply.array(2);
                }
                reply.bulk(member);
                reply.double(score);
            });
            count
        })?;
        if let Some(count) = popped {
            call.keys.changed(key, Class::SortedSet, side.event());
            // A replay neither blocks nor searches, so the log names the key and the number.
            let mut digits = itoa::Buffer::new();
            let name = if side == ZsetPopSide::Min {
                "ZPOPMIN"
            } else {
                "ZPOPMAX"
            };
            let words = [name.as_bytes(), key, digits.format(count).as_bytes()];
            call.keys.effects().log_instead(&words);
            return Ok(true);
        }
    }
    Ok(false)
}

fn blocking_pop(call: &mut CommandCall<'_>, side: ZsetPopSide) -> Answer {
    let Some((timeout, keys)) = call.rest(1).split_last() else {
        return Err(CommandError::Syntax);
    };
    // As in Redis, an invalid timeout is an error even if there are members.
    let timeout = timeout_ms(timeout)?;
    if !pop_first(call, keys, side, None)? {
        call.wait_for(keys, WaitLine::SortedSet, timeout, |reply| {
            reply.null_array()
        });
    }
    Ok(())
}

fn zmpop(call: &mut CommandCall<'_>) -> Answer {
    let (keys, side, limit) = parse_mpop(call.rest(1))?;
    if !pop_first(call, keys, side, Some(limit))? {
        call.reply.null_array();
    }
    Ok(())
}

fn bzmpop(call: &mut CommandCall<'_>) -> Answer {
    let (keys, side, limit) = parse_mpop(call.rest(2))?;
    let timeout = timeout_ms(call.args[1])?;
    if !pop_first(call, keys, side, Some(limit))? {
        call.wait_for(keys, WaitLine::SortedSet, timeout, |reply| {
            reply.null_array()
        });
    }
    Ok(())
}

fn parse_mpop<'a>(
    arguments: &'a [&'a [u8]],
) -> Result<(&'a [&'a [u8]], ZsetPopSide, usize), CommandError> {
    let refused = CommandError::text("ERR numkeys should be greater than 0");
    let (keys, rest) = counted_keys(arguments, refused)?;
    let (side, options) = rest.split_first().ok_or(CommandError::Syntax)?;
    let side = ZsetPopSide::parse(side)?;
    Ok((keys, side, mpop_count(options)?))
}
