//! Commands on sets.

pub(super) mod algebra;

use crate::command::arguments::count;
use crate::command::parts::{
    CollectionScanOptions, REPEATED_MAX_DEVIATION, RandomDraw, SCANNED_MAX_DEVIATION, cursor,
};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, PlannedCommand, Touch};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::Set;

const GROUP: CommandGroup = CommandGroup::Set;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("sadd", -3, Touch::Change, sadd)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1) for each member")
        .summary("Adds members to a set. Creates the key if it does not exist."),
    CommandDefinition::planned("srem", -3, Touch::Change, srem)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1) for each member")
        .summary("Removes members from a set. Deletes the key if it becomes empty."),
    CommandDefinition::new("sismember", 3, sismember)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns 1 if a set has a member."),
    CommandDefinition::new("smismember", -3, smismember)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "6.2.0", "O(1) for each member")
        .summary("Returns 1 for each of several members that a set has."),
    CommandDefinition::new("smembers", 2, smembers)
        .reads()
        .key(1)
        .about(GROUP, "1.0.0", "O(N) for N members")
        .summary("Returns all members of a set."),
    CommandDefinition::new("scard", 2, scard)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the number of members."),
    CommandDefinition::new("spop", -2, spop)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1) for each member")
        .summary("Removes and returns random members."),
    CommandDefinition::new("srandmember", -2, srandmember)
        .reads()
        .key(1)
        .about(GROUP, "1.0.0", "O(N) for N members that are returned")
        .summary("Returns random members.")
        .differs(REPEATED_MAX_DEVIATION),
    CommandDefinition::new("smove", 4, smove)
        .slowly_grows()
        .fast()
        .keys_at(1, 2, 1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Moves a member from one set to another."),
    CommandDefinition::new("sscan", -3, sscan)
        .reads()
        .key(1)
        .about(GROUP, "2.8.0", "O(1) for each call, O(N) for all N members")
        .summary("Iterates over the members of a set.")
        .differs(SCANNED_MAX_DEVIATION),
];

fn sadd(planned: &mut PlannedCommand<'_>) -> Answer {
    let members = planned.rest(2);
    let added = planned.edit::<Set, _>(0, |set, limits| {
        members
            .iter()
            .filter(|member| set.add(limits, member))
            .count()
    })?;
    if added > 0 {
        planned.changed(0, Class::Set, "sadd");
    }
    planned.reply.count(added);
    Ok(())
}

fn srem(planned: &mut PlannedCommand<'_>) -> Answer {
    let members = planned.rest(2);
    let removed = planned.edit_present::<Set, _>(0, |_, set| {
        members.iter().filter(|member| set.remove(member)).count()
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        planned.changed(0, Class::Set, "srem");
    }
    planned.reply.count(removed);
    Ok(())
}

fn sismember(call: &mut CommandCall<'_>) -> Answer {
    let member = call.args[2];
    let is_member = call.keys.read::<Set, _>(call.args[1], |set| {
        set.is_some_and(|set| set.contains(member))
    })?;
    call.reply.integer(i64::from(is_member));
    Ok(())
}

fn smismember(call: &mut CommandCall<'_>) -> Answer {
    let members = call.rest(2);
    let reply = &mut *call.reply;
    call.keys.read::<Set, _>(call.args[1], |set| {
        reply.array(members.len());
        for member in members {
            let is_member = set.is_some_and(|set| set.contains(member));
            reply.integer(i64::from(is_member));
        }
    })
}

fn smembers(call: &mut CommandCall<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read::<Set, _>(call.args[1], |set| {
        reply.set(set.map_or(0, Set::len));
        for member in set.into_iter().flat_map(Set::iter) {
            reply.bulk(&member);
        }
    })
}

fn scard(call: &mut CommandCall<'_>) -> Answer {
    let len = |set: Option<&Set>| set.map_or(0, Set::len);
    call.reply.count(call.keys.read(call.args[1], len)?);
    Ok(())
}

fn spop(call: &mut CommandCall<'_>) -> Answer {
    if call.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let key = call.args[1];
    let limit = call.args.get(2).map(|limit| count(limit)).transpose()?;
    let popped = call.keys.edit_present::<Set, _>(key, |set| {
        let mut random = rand::rng();
        let count = limit.unwrap_or(1).min(set.len());
        // The key is deleted once the set is empty.
        if count == set.len() {
            let all = set.iter().map(|member| member.to_vec()).collect();
            set.clear();
            return all;
        }
        // Members are removed as they are drawn, so that none is drawn twice.
        let pop = || set.pop_random(&mut random);
        std::iter::repeat_with(pop).take(count).flatten().collect()
    })?;
    let popped: Vec<Vec<u8>> = popped.unwrap_or_default();
    if !popped.is_empty() {
        call.keys.changed(key, Class::Set, "spop");
        // A replay must remove the same members, which were drawn at random.
        let words = [&b"SREM"[..], key].into_iter();
        let words = words.chain(popped.iter().map(Vec::as_slice));
        let words: Vec<&[u8]> = words.collect();
        call.keys.effects().log_instead(&words);
    }
    debug_assert!(limit.is_some() || popped.len() <= 1);
    if limit.is_none() {
        call.reply.bulk_or_null(popped.first().map(Vec::as_slice));
        return Ok(());
    }
    call.reply.set(popped.len());
    popped.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}

fn srandmember(call: &mut CommandCall<'_>) -> Answer {
    if call.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let draw = call.args.get(2).map(|&count| RandomDraw::parse(count));
    let draw = draw.transpose()?;
    let reply = &mut *call.reply;
    call.keys.read::<Set, _>(call.args[1], |set| {
        let mut random = rand::rng();
        let Some(draw) = draw else {
            let drawn = set.and_then(|set| set.random(&mut random));
            reply.bulk_or_null(drawn.as_deref());
            return;
        };
        let len = set.map_or(0, Set::len);
        reply.array(draw.count(len));
        let Some(set) = set else { return };
        let random = || set.random(&mut random).map(|drawn| (drawn, drawn));
        draw.draw(len, set.iter(), random, |member| {
            reply.bulk(&member);
            !reply.is_cut()
        });
    })
}

fn smove(call: &mut CommandCall<'_>) -> Answer {
    let (source, target, member) = (call.args[1], call.args[2], call.args[3]);
    let is_member = call
        .keys
        .edit_present::<Set, _>(source, |set| set.contains(member))?;
    let Some(is_member) = is_member else {
        call.reply.integer(0);
        return Ok(());
    };
    // The target's type is checked even if there is nothing to move.
    call.keys.edit_present::<Set, _>(target, |_| ())?;
    if is_member && source != target {
        // The member is added to the target before it is removed from the source, so that it is not
        // lost if the target refuses it.
        let added = call
            .keys
            .edit::<Set, _>(target, |set, limits| set.add(limits, member))?;
        call.keys
            .edit_present::<Set, _>(source, |set| set.remove(member))?;
        call.keys.changed(source, Class::Set, "srem");
        if added {
            call.keys.changed(target, Class::Set, "sadd");
        }
    }
    call.reply.integer(i64::from(is_member));
    Ok(())
}

fn sscan(call: &mut CommandCall<'_>) -> Answer {
    let (cursor, options) = (cursor(call.args[2])?, call.rest(3));
    let reply = &mut *call.reply;
    call.keys.read::<Set, _>(call.args[1], |set| {
        let mark = reply.begin();
        let Some(set) = set else {
            reply.end_scan(mark, 0, 0);
            return Ok(());
        };
        // As in Redis, the options are not checked if there is no key.
        let step = CollectionScanOptions::parse(options, None)?;
        let mut written = 0;
        let next = set.scan(cursor, step.count, |member| {
            if step.accepts(member) {
                reply.bulk(member);
                written += 1;
            }
        });
        reply.end_scan(mark, next, written);
        Ok(())
    })?
}
