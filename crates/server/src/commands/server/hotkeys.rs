//! The metrics, and the keys that are used most.

use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::error::CommandError;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("metrics", 1, metrics)
        .flag(Flags::OWN)
        .about(
            CommandGroup::Server,
            "",
            "O(N) for N commands that were used",
        )
        .summary("Returns all metrics, in the text format of Prometheus.")
        .differs("not in Redis: the text that --metrics-port serves, for nearfield top"),
    CommandDefinition::new("hotkeys", -1, hotkeys)
        .flag(Flags::NO_PHASE)
        .flag(Flags::OWN)
        .about(
            CommandGroup::Server,
            "",
            "O(N log N) for N counted keys, at most 512",
        )
        .summary("Returns the keys that are used most, each with its database and uses per second.")
        .differs(
            "not in Redis, whose redis-cli --hotkeys reads all keys; one use of 64 is counted",
        ),
];

/// The default number of keys in the reply of HOTKEYS.
const COUNT: i64 = 10;

/// Executes `METRICS`.
fn metrics(call: &mut CommandCall<'_>) -> Answer {
    let text = crate::metrics::text(call.server, call.keys.databases());
    call.reply.bulk(text.as_bytes());
    Ok(())
}

/// Executes `HOTKEYS [count]`.
fn hotkeys(call: &mut CommandCall<'_>) -> Answer {
    let count = match call.args.len() {
        1 => COUNT,
        2 => call.integer(1)?,
        _ => return Err(CommandError::Syntax),
    };
    let count = usize::try_from(count).map_err(|_| CommandError::NotPositive)?;
    let hottest = call.server.access.hot_keys.hottest(count);
    call.reply.array(hottest.len());
    for hot in hottest {
        call.reply.array(3);
        call.reply.bulk(&hot.key);
        call.reply.count(hot.database);
        // The rate is estimated from samples, so that a fraction would mean nothing.
        call.reply.integer(hot.uses_per_second.round() as i64);
    }
    Ok(())
}
