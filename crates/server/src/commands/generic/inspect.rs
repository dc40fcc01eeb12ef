//! Commands that show how values are represented.

use super::GROUP;
use crate::command::{Answer, CommandCall, CommandDefinition, Flags};
use crate::error::CommandError;
use crate::keyspace::record::INLINE_BYTES_MAX;
use crate::keyspace::{DatabaseKeys, KeyView};
use crate::number::parse_integer;
use crate::object::RedisType;
use crate::object::node::counts;

/// The subcommands of `OBJECT`.
pub(super) const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("encoding", 3, encoding)
        .looks()
        .key(2)
        .part(counts)
        .about(GROUP, "2.2.3", "O(1)")
        .summary("Returns the representation of a key's value."),
    CommandDefinition::new("freq", 3, freq)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .about(GROUP, "4.0.0", "O(1)")
        .summary("Returns the estimated frequency of a key's use.")
        .differs(
            "Policies that need it keep an estimate, which several keys may share: 5 for a key \
             that was used once, up to 19, and 0 if it was not used recently.",
        ),
    CommandDefinition::new("idletime", 3, idletime)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .about(GROUP, "2.2.3", "O(1)")
        .summary("Returns the seconds since a key was last used.")
        .differs(
            "Several keys may share an entry of the table of times, so the reply may be too low.",
        ),
    CommandDefinition::new("refcount", 3, refcount)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .about(GROUP, "2.2.3", "O(1)")
        .summary("Returns the number of references to a key's value.")
        .differs("The reply is 1, also for small integers, which Redis shares."),
    CommandDefinition::new("tier", 3, tier)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .key(2)
        .flag(Flags::OWN)
        .about(GROUP, "", "O(1)")
        .summary("Returns the tier of a key's value.")
        .differs(
            "not in Redis: memory, compressed or file, memory+file if parts are in both, or null \
             if the key does not exist",
        ),
    CommandDefinition::new("help", 2, help)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Describes the subcommands."),
];

/// The longest string that Redis embeds. Tools expect the server to report the same.
const EMBEDDED_BYTES_MAX: usize = 44;
/// The longest string that Redis converts to an integer.
const INTEGER_BYTES_MAX: usize = 20;

fn encoding(call: &mut CommandCall<'_>) -> Answer {
    let name = encoding_of(&mut call.keys, call.args[2])?;
    call.reply.bulk_or_null(name.map(str::as_bytes));
    Ok(())
}

/// Returns the name of the form in which the value of a key is stored, or `None` if there is no
/// key.
pub(in crate::commands) fn encoding_of(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
) -> Result<Option<&'static str>, CommandError> {
    let Some(found) = keys.peek(key)? else {
        return Ok(None);
    };
    if found.kind != RedisType::String {
        let limits = keys.limits();
        return keys.read_object(key, &found, |object| object.encoding(&limits));
    }
    keys.read_string(key, |value| {
        let value = value.unwrap_or_default();
        // As in Redis, a string that was changed in place stays raw, however short it is.
        Some(if found.is_raw() || value.len() > INLINE_BYTES_MAX {
            "raw"
        } else if value.len() <= INTEGER_BYTES_MAX && parse_integer(value).is_some() {
            // As in Redis, although the number was sent as text.
            "int"
        } else if value.len() <= EMBEDDED_BYTES_MAX {
            "embstr"
        } else {
            "raw"
        })
    })
}

/// Returns true if the key exists. Otherwise replies null.
fn is_there(call: &mut CommandCall<'_>) -> Result<bool, CommandError> {
    let is_there = call.keys.exists(call.args[2])?;
    if !is_there {
        call.reply.null();
    }
    Ok(is_there)
}

fn freq(call: &mut CommandCall<'_>) -> Answer {
    // As in Redis, an absent key is null under any policy, and only then the policy is checked.
    if is_there(call)? {
        if call.server.eviction.policy().is_lfu() {
            let (database, key) = (call.keys.database_number(), call.arg(2)?);
            let frequency = call.server.access.noting().frequency(database, key);
            call.reply.integer(frequency.into());
            return Ok(());
        }
        return Err(CommandError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
             Please note that when switching between policies at runtime LRU and LFU data \
             will take some time to adjust.",
        ));
    }
    Ok(())
}

fn idletime(call: &mut CommandCall<'_>) -> Answer {
    if is_there(call)? {
        if call.server.eviction.policy().is_lfu() {
            return Err(CommandError::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note \
                 that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust.",
            ));
        }
        let (database, key) = (call.keys.database_number(), call.arg(2)?);
        let idle_ms = call.server.access.noting().idle_ms(database, key);
        call.reply.integer((idle_ms / 1000) as i64);
    }
    Ok(())
}

fn refcount(call: &mut CommandCall<'_>) -> Answer {
    if is_there(call)? {
        call.reply.integer(1);
    }
    Ok(())
}

fn tier(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[2];
    if call.keys.peek(key)?.is_none() {
        call.reply.null();
        return Ok(());
    }
    let (keyspace, database) = (call.keys.keyspace(), call.keys.database_number());
    let tiers = keyspace.tiers_of(call.keys.databases(), (database, key))?;
    let names: Vec<&str> = match tiers.as_slice() {
        // A key that does not exist by now was in the memory of another server's pool.
        [] => vec!["memory"],
        tiers => tiers.iter().map(|&tier| keyspace.cold.name(tier)).collect(),
    };
    call.reply.bulk(names.join("+").as_bytes());
    Ok(())
}

fn help(call: &mut CommandCall<'_>) -> Answer {
    const LINES: [&str; 15] = [
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
        "TIER <key>",
        "    Return the tier of the value of the <key>.",
    ];
    const LAST: [&str; 2] = ["HELP", "    Prints this help."];
    call.reply.array(LINES.len() + LAST.len());
    for line in LINES.iter().chain(&LAST) {
        call.reply.simple(line);
    }
    Ok(())
}
