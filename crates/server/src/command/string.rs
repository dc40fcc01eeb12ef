//! Strings.

use super::{Answer, Call, Command, Group};
use crate::keyspace::Class;

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[
    Command::new("get", 2, get).reads().fast().key(1).about(
        Group::String,
        "1.0.0",
        "O(1)",
        "Returns the string value of a key.",
    ),
    Command::new("set", -3, set).grows().key(1).about(
        Group::String,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key, ignoring its type.",
    ),
];

fn get(call: &mut Call<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys
        .read_string(call.args[1], |value| reply.bulk_or_null(value))
}

fn set(call: &mut Call<'_>) -> Answer {
    call.keys.set_string(call.args[1], call.args[2], None)?;
    call.keys.changed(call.args[1], Class::String, "set");
    call.reply.ok();
    Ok(())
}
