//! Commands on whole databases.

use crate::command::{Answer, CommandCall, is};
use crate::error::CommandError;
use crate::keyspace::{DATABASES, Database, flushed};
use crate::number::parse_integer;
use std::ops::Range;

pub(super) fn dbsize(call: &mut CommandCall<'_>) -> Answer {
    let count = call.keys.database().len()?;
    call.reply.count(count);
    Ok(())
}

pub(super) fn flushdb(call: &mut CommandCall<'_>) -> Answer {
    let own = call.keys.database_number();
    flush(call, own..own + 1)
}

pub(super) fn flushall(call: &mut CommandCall<'_>) -> Answer {
    flush(call, 0..DATABASES)
}

fn flush(call: &mut CommandCall<'_>, numbers: Range<usize>) -> Answer {
    match *call.rest(1) {
        [] => {}
        // In both cases many keys are freed in the background.
        [how] if is(how, "async") || is(how, "sync") => {}
        _ => return Err(CommandError::Syntax),
    }
    debug_assert!(numbers.end <= DATABASES);
    let mut flushed = Vec::new();
    let mut keys = 0;
    for number in numbers.clone() {
        touch_watched(call, number, number);
        let Some(database) = call.keys.databases_mut().get_mut(number) else {
            continue;
        };
        if database.is_shared() {
            // Other servers continue to use it meanwhile.
            database.entries_or_create()?.clear()?;
            continue;
        }
        keys += database.len()? as u64;
        flushed.push(database.replace());
    }
    flushed::free(flushed, call.keys.keyspace());
    numbers.for_each(|number| wake_waiting(call, number));
    // The command is logged even if there was no key.
    call.keys.effects().changes += keys.max(1);
    call.reply.ok();
    Ok(())
}

/// Marks the watched keys of database `number` as changed if they exist there or in database
/// `other`, which replaces it.
fn touch_watched(call: &mut CommandCall<'_>, number: usize, other: usize) {
    for key in call.server.watches.keys_of(number) {
        let databases = call.keys.databases();
        let has_key = |number| -> bool {
            let database: Option<&Database> = databases.get(number);
            database.is_some_and(|database| matches!(database.read(&key, |_| ()), Ok(Some(()))))
        };
        if has_key(number) || has_key(other) {
            call.server.watches.touch(number, &key);
        }
    }
}

pub(super) fn swapdb(call: &mut CommandCall<'_>) -> Answer {
    let number = |position: usize, error| {
        let number = parse_integer(call.args[position]).and_then(|value| i32::try_from(value).ok());
        number.ok_or(CommandError::text(error))
    };
    let one = number(1, "ERR invalid first DB index")?;
    let two = number(2, "ERR invalid second DB index")?;
    let databases = call.server.config.hot.databases();
    let valid = |number: i32| usize::try_from(number).ok().filter(|&n| n < databases);
    let (Some(one), Some(two)) = (valid(one), valid(two)) else {
        return Err(CommandError::text("ERR DB index is out of range"));
    };
    debug_assert!(one < DATABASES && two < DATABASES);
    if one != two {
        touch_watched(call, one, two);
        touch_watched(call, two, one);
        let databases = call.keys.databases_mut();
        if let Ok([one, two]) = databases.get_disjoint_mut([one, two]) {
            one.swap_keys(two);
        }
        wake_waiting(call, one);
        wake_waiting(call, two);
    }
    // As in Redis, the command is logged even if both are the same database.
    call.keys.effects().changes += 1;
    call.reply.ok();
    Ok(())
}

/// Wakes the clients that wait for keys of a database which was replaced or emptied, so that they
/// check their keys again.
pub(in crate::commands) fn wake_waiting(call: &mut CommandCall<'_>, number: usize) {
    let own = call.keys.database_number();
    call.keys.select(number);
    for key in call.server.blocked.keys_of(number) {
        call.keys.wake_waiters(&key);
    }
    call.keys.select(own);
}
