//! `MEMORY`: what takes how much.

use super::help::help;
use super::{Answer, Call, Command, Flags, Group, integer, is};
use crate::error::CommandError;
use crate::info::memory::Figures;
use crate::keyspace::Outside;
use crate::object::node::counts;
use nearfield_tiers::Place;

const GROUP: Group = Group::Server;
const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::LOADING.0);

/// The subcommands.
pub const COMMANDS: &[Command] = &[
    Command::new("usage", -3, usage)
        .looks()
        .key(2)
        .part(counts)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns how much memory a key takes.")
        .differs("the size of an object is known; SAMPLES is accepted and not needed"),
    Command::new("stats", 2, stats)
        .flag(Flags::LOADING)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns what takes how much memory."),
    Command::new("doctor", 2, doctor)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns a report for people."),
    Command::new("purge", 2, purge)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Asks the allocator to give memory back.")
        .differs("memory is given back anyway; nothing is left to be done"),
    Command::new("malloc-stats", 2, malloc_stats)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns the allocator's figures."),
    Command::new("help", 2, show_help)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns a text about the subcommands."),
];

fn usage(call: &mut Call<'_>) -> Answer {
    let key = call.args[2];
    match call.rest(3) {
        [] => {}
        [word, _] if is(word, "samples") => {
            if integer(call.args[4])? < 0 {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    let Some(found) = call.keys.peek(key)? else {
        call.reply.null();
        return Ok(());
    };
    let keys = &mut call.keys;
    let value = match found.outside {
        // What the value takes in its tier it shares with others.
        Some(Outside::Place(_)) => size_of::<Place>(),
        Some(Outside::Slot(_)) => keys
            .read_object(key, &found, |object| object.memory_bytes())?
            .unwrap_or(0),
        None => keys.read_string(key, |value| value.map_or(0, <[u8]>::len))?,
    };
    call.reply.count(key.len() + value + ENTRY_BYTES);
    Ok(())
}

/// What an entry of the index takes beside its key and value, roughly: its place in a block, and
/// the record's head.
const ENTRY_BYTES: usize = 16;

fn stats(call: &mut Call<'_>) -> Answer {
    let figures = Figures::take(call.server, call.keys.databases());
    let mut keys = 0;
    for database in call.keys.databases() {
        keys += database.len()?;
    }
    let dataset = figures.used as i64;
    let fields = [
        ("peak.allocated", figures.peak as i64),
        ("total.allocated", figures.used as i64),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", figures.clients as i64),
        ("aof.buffer", 0),
        ("overhead.total", figures.clients as i64),
        ("keys.count", keys as i64),
        ("keys.bytes-per-key", dataset / (keys as i64).max(1)),
        ("dataset.bytes", dataset),
        ("allocator.allocated", figures.used as i64),
        ("allocator.resident", figures.resident as i64),
    ];
    call.reply.map(fields.len() + 1);
    for (name, value) in fields {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(value);
    }
    call.reply.bulk(b"fragmentation");
    call.reply.double(figures.fragmentation());
    Ok(())
}

fn doctor(call: &mut Call<'_>) -> Answer {
    let text = "Nothing is known to be wrong. INFO memory and MEMORY STATS have the figures.\n";
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn purge(call: &mut Call<'_>) -> Answer {
    call.reply.ok();
    Ok(())
}

fn malloc_stats(call: &mut Call<'_>) -> Answer {
    let text = "The allocator of the system keeps no figures.";
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn show_help(call: &mut Call<'_>) -> Answer {
    help(
        call,
        &[
            "DOCTOR",
            "    A report for people.",
            "MALLOC-STATS",
            "    The allocator's figures.",
            "PURGE",
            "    Give memory back.",
            "STATS",
            "    What takes how much memory.",
            "USAGE <key> [SAMPLES <count>]",
            "    How much memory a key takes.",
        ],
    );
    Ok(())
}
