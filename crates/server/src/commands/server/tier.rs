//! `NEARFIELD.TIER`: commands on the tiers that hold values.

use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::error::CommandError;
use crate::keyspace::ValueMoveError;
use nearfield_tiers::keep::MOVED_BYTES_MIN;

const GROUP: CommandGroup = CommandGroup::Server;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] =
    &[CommandDefinition::container("nearfield.tier", SUBCOMMANDS)
        .flag(Flags::OWN)
        .about(GROUP, "", "Depends on the subcommand")
        .summary("A container for commands about tiers.")];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("move", 4, move_value)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .unshared()
        .flag(Flags(Flags::OWN.0 | Flags::ADMIN.0))
        .about(GROUP, "", "O(N) for a value of N bytes")
        .summary("Moves the value of a key to a tier now.")
        .differs("not in Redis: the tiers of --tier, of which 0 is the memory"),
    CommandDefinition::new("pin", 3, pin)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .unshared()
        .flag(Flags(Flags::OWN.0 | Flags::ADMIN.0))
        .about(GROUP, "", "O(N) for a value of N bytes")
        .summary("Keeps the value of a key in memory.")
        .differs("not in Redis: until NEARFIELD.TIER UNPIN or the server's end"),
    CommandDefinition::new("unpin", 3, unpin)
        .looks()
        .key(2)
        .unshared()
        .flag(Flags(Flags::OWN.0 | Flags::ADMIN.0))
        .about(GROUP, "", "O(1)")
        .summary("Lets the value of a key move to other tiers again.")
        .differs("not in Redis"),
    CommandDefinition::new("help", 2, show_help)
        .flag(Flags(Flags::OWN.0 | Flags::NO_PHASE.0))
        .about(GROUP, "", "O(1)")
        .summary("Describes the subcommands.")
        .differs("not in Redis"),
];

/// Executes `NEARFIELD.TIER MOVE key tier`. Replies 1 if the value has moved, 0 if it has not.
fn move_value(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[2];
    let to = usize::try_from(call.integer(3)?).map_err(|_| CommandError::NotPositive)?;
    let keys = &call.keys;
    let place = (keys.database_number(), key);
    let moved = keys
        .keyspace()
        .move_value(keys.databases(), place, to, MOVED_BYTES_MIN);
    match moved {
        Ok(()) => call.reply.integer(1),
        // These are states of the key and no failures of a tier.
        Err(ValueMoveError::Absent | ValueMoveError::There | ValueMoveError::Small(_)) => {
            call.reply.integer(0)
        }
        Err(error) => return Err(CommandError::owned(format!("ERR {error}"))),
    }
    Ok(())
}

/// Executes `NEARFIELD.TIER PIN key`. Replies 1 if the value stays in memory from now on, 0 if
/// there is no key.
fn pin(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[2];
    let keys = &call.keys;
    let place = (keys.database_number(), key);
    let keyspace = keys.keyspace();
    if keyspace.cold.tiers().is_none() {
        return Err(NO_TIERS);
    }
    // The key is pinned first, or a mover could take the value out again in between.
    if !call.server.tiering.pins.pin(place.0, key) {
        return Err(CommandError::text("ERR too many keys are pinned"));
    }
    match keyspace.move_value(keys.databases(), place, 0, 0) {
        Ok(()) | Err(ValueMoveError::There) => call.reply.integer(1),
        Err(error) => {
            // A value that could not be moved into memory is not kept there.
            call.server.tiering.pins.unpin(place.0, key);
            match error {
                ValueMoveError::Absent => call.reply.integer(0),
                error => return Err(CommandError::owned(format!("ERR {error}"))),
            }
        }
    }
    Ok(())
}

/// Executes `NEARFIELD.TIER UNPIN key`. Replies 1 if the key was pinned.
fn unpin(call: &mut CommandCall<'_>) -> Answer {
    let database = call.keys.database_number();
    let was_pinned = call.server.tiering.pins.unpin(database, call.args[2]);
    call.reply.integer(was_pinned.into());
    Ok(())
}

const NO_TIERS: CommandError =
    CommandError::text("ERR the server has no tiers; start it with --tier");

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "MOVE <key> <tier>",
            "    Move the value of a key to a tier now; tier 0 is the memory.",
            "PIN <key>",
            "    Keep the value of a key in memory.",
            "UNPIN <key>",
            "    Let the value of a key move to other tiers again.",
        ],
    )
}
