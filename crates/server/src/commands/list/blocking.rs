//! Commands on lists that take elements from one of several lists or move them to another one, and
//! those that block until there are elements.

use super::{ListEnd, pop_into};
use crate::blocking::WaitLine;
use crate::command::arguments::{count, counted_keys, timeout_ms};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::{ListObject, ObjectPart};

const GROUP: CommandGroup = CommandGroup::List;

/// The rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("lmove", 5, lmove)
        .grows()
        .keys_at(1, 2, 1)
        .part(|_| ENDS)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Moves an element from an end of one list to an end of another and returns it."),
    CommandDefinition::new("rpoplpush", 3, rpoplpush)
        .grows()
        .keys_at(1, 2, 1)
        .part(|_| ENDS)
        .about(GROUP, "1.2.0", "O(1)")
        .summary("Moves the last element of one list to the front of another and returns it."),
    CommandDefinition::new("lmpop", -4, lmpop)
        .writes()
        .keys_counted(1, None)
        .part(|args| popped(args.get(1..)))
        .about(GROUP, "7.0.0", "O(N+M) for N keys and M elements")
        .summary("Removes elements from the first list that is not empty and returns them."),
    CommandDefinition::new("blpop", -3, |call| blocking_pop(call, ListEnd::Left))
        .writes()
        .flag(WAITS)
        .keys_at(1, -2, 1)
        .part(|_| ListEnd::Left.part(1))
        .about(GROUP, "2.0.0", "O(N) for N keys")
        .summary(
            "Removes the first element of a list and returns it, or blocks until there is one.",
        ),
    CommandDefinition::new("brpop", -3, |call| blocking_pop(call, ListEnd::Right))
        .writes()
        .flag(WAITS)
        .keys_at(1, -2, 1)
        .part(|_| ListEnd::Right.part(1))
        .about(GROUP, "2.0.0", "O(N) for N keys")
        .summary(
            "Removes the last element of a list and returns it, or blocks until there is one.",
        ),
    CommandDefinition::new("blmove", 6, blmove)
        .grows()
        .flag(WAITS)
        .keys_at(1, 2, 1)
        .part(|_| ENDS)
        .about(GROUP, "6.2.0", "O(1)")
        .summary(
            "Moves an element from one list to another and returns it, or blocks until there is \
             one.",
        ),
    CommandDefinition::new("brpoplpush", 4, brpoplpush)
        .grows()
        .flag(WAITS)
        .keys_at(1, 2, 1)
        .part(|_| ENDS)
        .about(GROUP, "2.2.0", "O(1)")
        .summary(
            "Moves the last element of one list to the front of another and returns it, or blocks \
             until there is one.",
        ),
    CommandDefinition::new("blmpop", -5, blmpop)
        .writes()
        .flag(WAITS)
        .keys_counted(2, None)
        .part(|args| popped(args.get(2..)))
        .about(GROUP, "7.0.0", "O(N+M) for N keys and M elements")
        .summary(
            "Removes elements from the first list that is not empty and returns them, or blocks \
             until there are any.",
        ),
];

/// Both ends, because either may be that of the source or of the target.
const ENDS: ObjectPart<'static> = ObjectPart::Ends { front: 1, back: 1 };

fn popped<'a>(arguments: Option<&[&'a [u8]]>) -> ObjectPart<'a> {
    match parse_mpop(arguments.unwrap_or_default()) {
        Ok((_, end, limit)) => end.part(limit),
        // The command then fails without reading any element.
        Err(_) => ObjectPart::All,
    }
}

const WAITS: Flags = Flags(Flags::BLOCKING.0 | Flags::EXCLUSIVE.0);

/// Moves an element and replies with it. Returns false if there is none.
fn move_element(
    call: &mut CommandCall<'_>,
    source: &[u8],
    target: &[u8],
    from: ListEnd,
    to: ListEnd,
) -> Result<bool, CommandError> {
    let peek = |list: &mut ListObject| from.peek(list).map(<[u8]>::to_vec);
    let Some(Some(element)) = call.keys.edit_present(source, peek)? else {
        return Ok(false);
    };
    if source == target {
        let limits = call.keys.limits();
        call.keys.edit_present::<ListObject, _>(source, |list| {
            from.remove(list, 1);
            to.push(list, &limits, &element);
        })?;
        // As in Redis, the push is reported before the pop.
        call.keys.changed(target, Class::List, to.pushed());
        call.keys.changed(source, Class::List, from.popped());
    } else {
        // The element is added to the target before it is removed from the source, so that it is
        // not lost if the target refuses it.
        call.keys
            .edit(target, |list, limits| to.push(list, limits, &element))?;
        call.keys.changed(target, Class::List, to.pushed());
        call.keys
            .edit_present::<ListObject, _>(source, |list| from.remove(list, 1))?;
        call.keys.changed(source, Class::List, from.popped());
    }
    call.reply.bulk(&element);
    Ok(true)
}

fn lmove(call: &mut CommandCall<'_>) -> Answer {
    let (from, to) = (ListEnd::parse(call.args[3])?, ListEnd::parse(call.args[4])?);
    if !move_element(call, call.args[1], call.args[2], from, to)? {
        call.reply.null();
    }
    Ok(())
}

fn rpoplpush(call: &mut CommandCall<'_>) -> Answer {
    if !move_element(
        call,
        call.args[1],
        call.args[2],
        ListEnd::Right,
        ListEnd::Left,
    )? {
        call.reply.null();
    }
    Ok(())
}

fn blmove(call: &mut CommandCall<'_>) -> Answer {
    let (from, to) = (ListEnd::parse(call.args[3])?, ListEnd::parse(call.args[4])?);
    let timeout = timeout_ms(call.args[5])?;
    wait_and_move(call, from, to, timeout)
}

fn brpoplpush(call: &mut CommandCall<'_>) -> Answer {
    let timeout = timeout_ms(call.args[3])?;
    wait_and_move(call, ListEnd::Right, ListEnd::Left, timeout)
}

fn wait_and_move(call: &mut CommandCall<'_>, from: ListEnd, to: ListEnd, timeout: u64) -> Answer {
    let (source, target) = (call.args[1], call.args[2]);
    if move_element(call, source, target, from, to)? {
        let name = |end| {
            if end == ListEnd::Left {
                "LEFT"
            } else {
                "RIGHT"
            }
        };
        let (from, to) = (name(from).as_bytes(), name(to).as_bytes());
        // A replay must not block, so the log has the command that does not.
        let words = [&b"LMOVE"[..], source, target, from, to];
        call.keys.effects().log_instead(&words);
    } else if call.nested {
        // As in Redis, the reply is null if the command cannot block, but a null array after a
        // timeout.
        call.reply.null();
    } else {
        call.wait_for(&[source], WaitLine::List, timeout, |reply| {
            reply.null_array()
        });
    }
    Ok(())
}

/// Pops from the first of `keys` that is a list. Returns false if none is. Replies with its key and
/// the elements, or the only one if `limit` is `None`.
fn pop_first(
    call: &mut CommandCall<'_>,
    keys: &[&[u8]],
    end: ListEnd,
    limit: Option<usize>,
) -> Result<bool, CommandError> {
    for &key in keys {
        let reply = &mut *call.reply;
        let popped = call.keys.edit_present::<ListObject, _>(key, |list| {
            let count = limit.unwrap_or(1).min(list.len());
            debug_assert!(count > 0, "a list that is stored has elements");
            reply.array(2);
            reply.bulk(key);
            if limit.is_some() {
                reply.array(count);
            }
            pop_into(list, end, count, |element| reply.bulk(element));
            count
        })?;
        if let Some(count) = popped {
            call.keys.changed(key, Class::List, end.popped());
            // A replay neither blocks nor searches, so the log names the key and the number.
            let mut digits = itoa::Buffer::new();
            let name = if end == ListEnd::Left { "LPOP" } else { "RPOP" };
            let words = [name.as_bytes(), key, digits.format(count).as_bytes()];
            call.keys.effects().log_instead(&words);
            return Ok(true);
        }
    }
    Ok(false)
}

fn blocking_pop(call: &mut CommandCall<'_>, end: ListEnd) -> Answer {
    let Some((timeout, keys)) = call.rest(1).split_last() else {
        return Err(CommandError::Syntax);
    };
    // As in Redis, an invalid timeout is an error even if there are elements.
    let timeout = timeout_ms(timeout)?;
    if !pop_first(call, keys, end, None)? {
        call.wait_for(keys, WaitLine::List, timeout, |reply| reply.null_array());
    }
    Ok(())
}

fn lmpop(call: &mut CommandCall<'_>) -> Answer {
    let (keys, end, limit) = parse_mpop(call.rest(1))?;
    if !pop_first(call, keys, end, Some(limit))? {
        call.reply.null_array();
    }
    Ok(())
}

fn blmpop(call: &mut CommandCall<'_>) -> Answer {
    let (keys, end, limit) = parse_mpop(call.rest(2))?;
    let timeout = timeout_ms(call.args[1])?;
    if !pop_first(call, keys, end, Some(limit))? {
        call.wait_for(keys, WaitLine::List, timeout, |reply| reply.null_array());
    }
    Ok(())
}

fn parse_mpop<'a>(
    arguments: &'a [&'a [u8]],
) -> Result<(&'a [&'a [u8]], ListEnd, usize), CommandError> {
    let refused = CommandError::text("ERR numkeys should be greater than 0");
    let (keys, rest) = counted_keys(arguments, refused)?;
    let (end, options) = rest.split_first().ok_or(CommandError::Syntax)?;
    let end = ListEnd::parse(end)?;
    Ok((keys, end, mpop_count(options)?))
}

/// Parses the option `COUNT` of `LMPOP`, `ZMPOP` and their blocking variants.
///
/// # Errors
/// The number is not positive, or there are other options.
pub fn mpop_count(options: &[&[u8]]) -> Result<usize, CommandError> {
    match *options {
        [] => Ok(1),
        [name, number, ref rest @ ..] if is(name, "count") => {
            let number = count(number).ok().filter(|&number| number > 0);
            // An invalid number is reported before superfluous words.
            let number = number.ok_or(CommandError::text("ERR count should be greater than 0"))?;
            if rest.is_empty() {
                Ok(number)
            } else {
                Err(CommandError::Syntax)
            }
        }
        _ => Err(CommandError::Syntax),
    }
}
