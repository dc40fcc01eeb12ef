//! `MEMORY`: the memory that is in use.

use crate::allocator;
use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, integer, is};
use crate::error::CommandError;
use crate::info::memory::Figures;
use crate::keyspace::{KeyView, Outside};
use crate::object::node::counts;
use nearfield_tiers::ColdPlace;

const GROUP: CommandGroup = CommandGroup::Server;
const FREE: Flags = Flags::NO_PHASE;

/// The subcommands.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("usage", -3, usage)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .part(counts)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns the memory of a key.")
        .differs("the size of an object is known; SAMPLES is accepted and ignored"),
    CommandDefinition::new("stats", 2, stats)
        .flag(Flags::LOADING)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns memory usage in detail."),
    CommandDefinition::new("doctor", 2, doctor)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns a report in plain text."),
    CommandDefinition::new("purge", 2, purge)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Asks the allocator to free unused memory.")
        .differs("each thread frees its unused memory within 0.1 s"),
    CommandDefinition::new("malloc-stats", 2, malloc_stats)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns the allocator's statistics."),
    CommandDefinition::new("help", 2, show_help)
        .flag(FREE)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Describes the subcommands."),
];

fn usage(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[2];
    match call.rest(3) {
        [] => {}
        [word, _] if is(word, "samples") => {
            // Redis estimates the size from some elements. Here it is known.
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
        // The memory of the value in its tier is shared with others, and not counted.
        Some(Outside::Place(_)) => size_of::<ColdPlace>(),
        Some(Outside::Slot(_)) => keys
            .read_object(key, &found, |object| object.memory_bytes())?
            .unwrap_or(0),
        None => keys.read_string(key, |value| value.map_or(0, <[u8]>::len))?,
    };
    call.reply.count(key.len() + value + ENTRY_BYTES);
    Ok(())
}

/// The approximate bytes of an index entry without its key and value: its place in a block, and the
/// record's head.
const ENTRY_BYTES: usize = 16;

/// A figure of `MEMORY STATS`.
enum StatsFigure {
    Bytes(i64),
    Part(f64),
    /// The memory of a database's tables, without its keys.
    Database,
}

fn stats(call: &mut CommandCall<'_>) -> Answer {
    let figures = Figures::take(call.server, call.keys.databases());
    let mut fields: Vec<(String, StatsFigure)> = Vec::new();
    let mut add = |name: &str, shown| fields.push((name.to_owned(), shown));
    let bytes = |bytes: u64| StatsFigure::Bytes(bytes as i64);
    let percent =
        |part: u64, of: u64| StatsFigure::Part(100.0 * part as f64 / (of as f64).max(1.0));
    add("peak.allocated", bytes(figures.peak));
    add("total.allocated", bytes(figures.used));
    for name in ["startup.allocated", "replication.backlog", "clients.slaves"] {
        add(name, bytes(0));
    }
    add("clients.normal", bytes(figures.clients));
    for name in ["cluster.links", "aof.buffer"] {
        add(name, bytes(0));
    }
    add(
        "lua.caches",
        bytes(call.server.scripts.known_bytes() as u64),
    );
    let functions = call.server.functions.known_bytes();
    add("functions.caches", bytes(functions as u64));
    let mut keys = 0;
    for (number, database) in call.keys.databases().iter().enumerate() {
        // As in Redis, only databases with keys are listed.
        let len = database.len()?;
        keys += len as u64;
        if len > 0 {
            add(&format!("db.{number}"), StatsFigure::Database);
        }
    }
    let dataset = figures.dataset();
    add("overhead.total", bytes(figures.clients));
    add("keys.count", bytes(keys));
    add("keys.bytes-per-key", bytes(dataset / keys.max(1)));
    add("dataset.bytes", bytes(dataset));
    add("dataset.percentage", percent(dataset, figures.used));
    add("peak.percentage", percent(figures.used, figures.peak));
    add("allocator.allocated", bytes(figures.used));
    add("allocator.active", bytes(figures.resident));
    add("allocator.resident", bytes(figures.resident));
    let (ratio, more) = (figures.fragmentation(), figures.fragmentation_bytes());
    add("allocator-fragmentation.ratio", StatsFigure::Part(ratio));
    add("allocator-fragmentation.bytes", StatsFigure::Bytes(more));
    // All memory of the process counts as the allocator's.
    for part in ["allocator-rss", "rss-overhead"] {
        add(&format!("{part}.ratio"), StatsFigure::Part(1.0));
        add(&format!("{part}.bytes"), bytes(0));
    }
    add("fragmentation", StatsFigure::Part(ratio));
    add("fragmentation.bytes", StatsFigure::Bytes(more));
    call.reply.map(fields.len());
    for (name, shown) in fields {
        call.reply.bulk(name.as_bytes());
        match shown {
            StatsFigure::Bytes(bytes) => call.reply.integer(bytes),
            StatsFigure::Part(part) => call.reply.double(part),
            StatsFigure::Database => {
                // There are no hash tables in addition to the keys, nor a second one for expiry.
                let tables = ["main", "expires", "slot-to-keys"];
                call.reply.map(tables.len());
                for table in tables {
                    call.reply
                        .bulk(format!("overhead.hashtable.{table}").as_bytes());
                    call.reply.integer(0);
                }
            }
        }
    }
    Ok(())
}

fn doctor(call: &mut CommandCall<'_>) -> Answer {
    let text = "No problem is known. INFO memory and MEMORY STATS have the statistics.\n";
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn purge(call: &mut CommandCall<'_>) -> Answer {
    // Allocators keep memory by thread, so each thread must return its own.
    allocator::ask();
    call.reply.ok();
    Ok(())
}

fn malloc_stats(call: &mut CommandCall<'_>) -> Answer {
    let text = "The allocator of the system has no statistics.";
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "DOCTOR",
            "    A report in plain text.",
            "MALLOC-STATS",
            "    The allocator's statistics.",
            "PURGE",
            "    Free unused memory.",
            "STATS",
            "    Memory usage in detail.",
            "USAGE <key> [SAMPLES <count>]",
            "    The memory of a key.",
        ],
    )
}
