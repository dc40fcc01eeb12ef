//! Commands on the bits of strings. The first bit of a string is the highest of its first byte.

mod count;
mod field;
mod operation;

use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup};
use crate::commands::string::STRING_BYTES_MAX;
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::number::parse_integer;

const GROUP: CommandGroup = CommandGroup::String;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("setbit", 4, setbit)
        .grows()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "2.2.0", "O(1)")
        .summary("Sets or clears a bit of a string."),
    CommandDefinition::new("getbit", 3, getbit)
        .reads()
        .fast()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "2.2.0", "O(1)")
        .summary("Returns a bit of a string."),
    CommandDefinition::new("bitcount", -2, count::bitcount)
        .reads()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "2.6.0", "O(N) for N bytes")
        .summary("Counts the bits of a string that are set."),
    CommandDefinition::new("bitpos", -3, count::bitpos)
        .reads()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "2.8.7", "O(N) for N bytes")
        .summary("Finds the first bit of a string that is set, or clear."),
    CommandDefinition::new("bitop", -4, operation::bitop)
        .grows()
        .keys_at(2, -1, 1)
        .categories(&["bitmap"])
        .about(GROUP, "2.6.0", "O(N) for N bytes")
        .summary("Combines strings bit by bit and stores the result."),
    CommandDefinition::new("bitfield", -2, field::bitfield)
        .grows()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "3.2.0", "O(1) for each operation")
        .summary("Reads and changes integers of any width within a string.")
        .differs(
            "A key that was created only by failed operations (OVERFLOW FAIL) counts as changed: \
             it is logged, and WATCH detects it.",
        ),
    CommandDefinition::new("bitfield_ro", -2, field::bitfield_ro)
        .reads()
        .fast()
        .key(1)
        .categories(&["bitmap"])
        .about(GROUP, "6.0.0", "O(1) for each operation")
        .summary("Reads integers of any width within a string."),
];

/// Parses the position of the first of `width` bits, which must be within the longest string.
fn position(argument: &[u8], factor: u64, width: u64) -> Result<u64, CommandError> {
    let error = CommandError::text("ERR bit offset is not an integer or out of range");
    let value = parse_integer(argument).and_then(|value| u64::try_from(value).ok());
    let position = value.and_then(|value| value.checked_mul(factor));
    match position {
        Some(position) if position.saturating_add(width) <= 8 * STRING_BYTES_MAX as u64 => {
            Ok(position)
        }
        _ => Err(error),
    }
}

/// Returns the byte of a bit, and the bit's mask in it.
fn locate(position: u64) -> (usize, u8) {
    ((position / 8) as usize, 0x80 >> (position % 8))
}

/// Checks that there is room for a string to become `length` bytes long.
fn check_growth(call: &mut CommandCall<'_>, key: &[u8], length: usize) -> Answer {
    let present = call
        .keys
        .read_string(key, |value| value.map_or(0, <[u8]>::len))?;
    // Only the growth needs room, because the other bytes are there already.
    call.check_room(length.saturating_sub(present))
}

fn setbit(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[1];
    let (byte, bit) = locate(position(call.args[2], 1, 1)?);
    // As in Redis, an invalid offset is reported before an invalid bit.
    let set = match call.args[3] {
        b"0" => false,
        b"1" => true,
        _ => {
            return Err(CommandError::text(
                "ERR bit is not an integer or out of range",
            ));
        }
    };
    check_growth(call, key, byte + 1)?;
    let (old, grown) = call.keys.edit_string(key, |text| {
        let length = text.bytes().len();
        let bytes = text.extend_to(byte + 1);
        debug_assert!(byte < bytes.len());
        let Some(byte) = bytes.get_mut(byte) else {
            return (false, false);
        };
        let old = *byte & bit != 0;
        *byte = if set { *byte | bit } else { *byte & !bit };
        (old, length < bytes.len())
    })?;
    // As in Redis, a longer string has changed even if the new bits are clear.
    if grown || old != set {
        call.keys.changed(key, Class::String, "setbit");
    }
    call.reply.integer(i64::from(old));
    Ok(())
}

fn getbit(call: &mut CommandCall<'_>) -> Answer {
    let (byte, bit) = locate(position(call.args[2], 1, 1)?);
    let is_set = call.keys.read_string(call.args[1], |value| {
        // As in Redis, a bit after the end of the string is 0.
        let byte = value.and_then(|value| value.get(byte));
        byte.is_some_and(|byte| byte & bit != 0)
    })?;
    call.reply.integer(i64::from(is_set));
    Ok(())
}
