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
    // One source at a time, as a key may be named any number of times.
    let mut result: Option<Vec<u8>> = None;
    for source in sources {
        call.keys.read_string(source, |string| {
            let string = string.unwrap_or_default();
            let Some(result) = &mut result else {
                result = Some(string.to_vec());
                return;
            };
            if result.len() < string.len() {
                result.resize(string.len(), 0);
            }
            // The loop over bytes of two slices becomes one over vectors; what a string is too
            // short for counts as zeros.
            let (common, beyond) = result.split_at_mut(string.len());
            for (byte, &other) in common.iter_mut().zip(string) {
                *byte = combine(*byte, other);
            }
            for byte in beyond {
                *byte = combine(*byte, 0);
            }
        })?;
    }
    let mut result = result.unwrap_or_default();
    if is(name, "not") {
        result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    let length = result.len();
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
