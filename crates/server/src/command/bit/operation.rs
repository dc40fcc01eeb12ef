//! Combining strings bit by bit.

use crate::command::{Answer, Call, is};
use crate::error::CommandError;
use crate::keyspace::Class;

pub(super) fn bitop(call: &mut Call<'_>) -> Answer {
    let (name, target, sources) = (call.args[1], call.args[2], call.rest(3));
    let combine: fn(u8, u8) -> u8 = match name {
        _ if is(name, "and") => |one, two| one & two,
        _ if is(name, "or") => |one, two| one | two,
        _ if is(name, "xor") => |one, two| one ^ two,
        _ if is(name, "not") => |one, _| !one,
        _ => return Err(CommandError::Syntax),
    };
    if is(name, "not") && sources.len() != 1 {
        return Err(CommandError::text(
            "ERR BITOP NOT must be called with a single source key.",
        ));
    }
    let mut strings = Vec::with_capacity(sources.len());
    for source in sources {
        strings.push(call.keys.string(source)?.unwrap_or_default());
    }
    let length = strings.iter().map(Vec::len).max().unwrap_or(0);
    let mut strings = strings.into_iter();
    let mut result = strings.next().unwrap_or_default();
    result.resize(length, 0);
    if is(name, "not") {
        result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    for string in strings {
        // The loop over bytes of two slices becomes one over vectors; what a string is too short
        // for counts as zeros.
        let (common, beyond) = result.split_at_mut(string.len());
        for (byte, &other) in common.iter_mut().zip(&string) {
            *byte = combine(*byte, other);
        }
        for byte in beyond {
            *byte = combine(*byte, 0);
        }
    }
    if length > 0 {
        call.keys.set_string(target, &result, None)?;
        call.keys.changed(target, Class::String, "set");
    } else if call.keys.exists(target)? {
        call.keys.remove(target)?;
        call.keys.changed(target, Class::Generic, "del");
    }
    call.reply.count(length);
    Ok(())
}
