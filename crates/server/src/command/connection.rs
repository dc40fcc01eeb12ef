//! The connection.

use super::{Answer, Call, Command, Flags, Group};

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[Command::new("ping", -1, ping)
    .fast()
    .flag(Flags::NO_PHASE)
    .flag(Flags::SUBSCRIBER)
    .about(
        Group::Connection,
        "1.0.0",
        "O(1)",
        "Returns the server's liveliness response.",
    )];

fn ping(call: &mut Call<'_>) -> Answer {
    match call.rest(1) {
        [] => call.reply.simple("PONG"),
        [message, ..] => call.reply.bulk(message),
    }
    Ok(())
}
