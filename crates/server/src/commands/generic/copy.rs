//! The command that copies a key.

use super::{SAME_OBJECT, database_number};
use crate::command::{Answer, CommandCall, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};

pub(super) fn copy(call: &mut CommandCall<'_>) -> Answer {
    let (source, target) = (call.args[1], call.args[2]);
    let own = call.keys.database_number();
    let (mut other, mut replace) = (own, false);
    let mut words = call.rest(3).iter();
    while let Some(word) = words.next() {
        if is(word, "replace") {
            replace = true;
        } else if is(word, "db") {
            other = database_number(call, words.next().ok_or(CommandError::Syntax)?)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if own == other && source == target {
        return Err(SAME_OBJECT);
    }
    let Some(found) = call.keys.find(source)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let bytes = call
        .keys
        .read_object(source, &found, |object| object.memory_bytes())?;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => call
            .keys
            .read_string(source, |value| value.map_or(0, <[u8]>::len))?,
    };
    // The copy may be large although the arguments are small.
    call.check_room(bytes)?;
    let heap = &call.keys.keyspace().heap;
    let object = call
        .keys
        .read_object(source, &found, |object| object.rebuild_in(heap))?;
    // A string that is stored in the index itself is no object.
    let string = match object {
        Some(_) => None,
        None => call.keys.string(source)?,
    };
    call.keys.select(other);
    if call.keys.exists(target)? && !replace {
        call.keys.select(own);
        call.reply.integer(0);
        return Ok(());
    }
    let expires_at_ms = found.expires_at_ms;
    match (object, string) {
        (Some(object), _) => call.keys.put_object(target, object, expires_at_ms)?,
        (None, Some(string)) => call.keys.set_string(target, &string, expires_at_ms)?,
        (None, None) => {}
    }
    call.keys.changed(target, Class::Generic, "copy_to");
    call.keys.select(own);
    call.reply.integer(1);
    Ok(())
}
