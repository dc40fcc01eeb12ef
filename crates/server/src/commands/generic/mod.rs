//! Commands on keys of any type.

mod copy;
mod dump;
pub(super) mod expiry;
mod flush;
mod inspect;
pub(super) mod migrate;
mod random;
mod scan;
mod sort;

pub(super) use dump::payload;
pub(super) use flush::wake_waiting;
pub(super) use inspect::encoding_of as encoding;

use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, Flags, PlannedCommand, Touch,
    small_integer,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};

const GROUP: CommandGroup = CommandGroup::Generic;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("del", -2, Touch::Remove, del)
        .flag(Flags::KEYS_ONLY)
        .writes()
        .flag(Flags::KEY_BY_KEY)
        .keys_at(1, -1, 1)
        .about(GROUP, "1.0.0", "O(N log M) for N keys of M")
        .summary("Deletes one or more keys."),
    CommandDefinition::planned("unlink", -2, Touch::Remove, del)
        .flag(Flags::KEYS_ONLY)
        .writes()
        .flag(Flags::KEY_BY_KEY)
        .fast()
        .keys_at(1, -1, 1)
        .about(GROUP, "4.0.0", "O(N log M) for N keys of M")
        .summary(
            "Deletes one or more keys, and frees their values in the background. DEL does the \
             same.",
        ),
    CommandDefinition::planned("exists", -2, Touch::Read, exists)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .fast()
        .keys_at(1, -1, 1)
        .about(GROUP, "1.0.0", "O(N) for N keys")
        .summary("Counts the given keys that exist."),
    CommandDefinition::planned("touch", -2, Touch::Read, exists)
        .flag(Flags::KEYS_ONLY)
        .flag(Flags::ALWAYS_USES)
        .reads()
        .fast()
        .keys_at(1, -1, 1)
        .about(GROUP, "3.2.1", "O(N) for N keys")
        .summary("Counts the given keys that exist, as uses of them."),
    CommandDefinition::planned("type", 2, Touch::Read, kind)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the type of a key."),
    CommandDefinition::new("rename", 3, rename)
        .flag(Flags::KEYS_ONLY)
        .unshared()
        // A longer name takes a little memory.
        .slowly_grows()
        .keys_at(1, 2, 1)
        .about(GROUP, "1.0.0", "O(log N)")
        .summary("Renames a key, and replaces a key of the new name."),
    CommandDefinition::new("renamenx", 3, renamenx)
        .flag(Flags::KEYS_ONLY)
        .unshared()
        .slowly_grows()
        .fast()
        .keys_at(1, 2, 1)
        .about(GROUP, "1.0.0", "O(log N)")
        .summary("Renames a key if no key has the new name."),
    CommandDefinition::new("copy", -3, copy::copy)
        .grows()
        .flag(Flags::PASSES_ON)
        .keys_at(1, 2, 1)
        .about(GROUP, "6.2.0", "O(N) for the N elements of the value")
        .summary("Copies a key to another."),
    CommandDefinition::new("move", 3, r#move)
        .flag(Flags::KEYS_ONLY)
        .unshared()
        .slowly_grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(log N)")
        .summary("Moves a key to another database."),
    CommandDefinition::new("randomkey", 1, random::randomkey)
        .reads()
        .about(GROUP, "1.0.0", "O(log N)")
        .summary("Returns a random key.")
        .differs(
            "Keys are not equally probable: each byte at which keys differ is drawn at random, \
             because an ordered index does not count the keys of each branch.",
        ),
    CommandDefinition::new("keys", 2, scan::keys)
        .reads()
        .flag(Flags::EXCLUSIVE)
        .categories(&["dangerous"])
        .about(
            GROUP,
            "1.0.0",
            "O(N) for N keys that begin like the pattern",
        )
        .summary("Returns all keys that match a pattern, in the order of their bytes."),
    CommandDefinition::new("scan", -2, scan::scan)
        .reads()
        .about(
            GROUP,
            "2.8.0",
            "O(N) for N keys of a call, O(M) for all M keys that begin like the pattern",
        )
        .summary("Returns some keys, and a cursor at which the next call continues.")
        .differs(
            "Keys are in the order of their bytes, each once. A cursor is a number that the server \
             remembers. It keeps the 65,536 most recently used ones, and none after a restart; a \
             call with a forgotten cursor is an error. One call visits at most 100,000 keys, even \
             if COUNT is larger.",
        ),
    CommandDefinition::container("object", inspect::SUBCOMMANDS)
        .about(GROUP, "2.2.3", "Depends on subcommand.")
        .summary("Describes the representation of a key."),
    CommandDefinition::new("dump", 2, dump::dump)
        .looks()
        .key(1)
        .about(GROUP, "2.6.0", "O(N) for the N elements of the value")
        .summary("Returns the value of a key in the form that RESTORE takes."),
    CommandDefinition::new("restore", -4, dump::restore)
        .grows()
        .key(1)
        .categories(&["dangerous"])
        .about(GROUP, "2.6.0", "O(N) for the N elements of the value")
        .summary("Creates a key from a payload that DUMP returned.")
        .differs(
            "IDLETIME and FREQ are checked and ignored: the uses of keys are not stored with them. \
             Values of modules are refused.",
        ),
    CommandDefinition::new("sort", -2, sort::sort)
        .unshared()
        .grows()
        .keys_found(sort::keys_of_sort)
        .flag(Flags(Flags::EXCLUSIVE.0 | Flags::PASSES_ON.0))
        .categories(&["list", "set", "sortedset", "dangerous"])
        .about(GROUP, "1.0.0", "O(N log N) for N elements")
        .summary("Sorts the elements of a list, set or sorted set, and may store the result.")
        .differs("With ALPHA elements are compared byte by byte, in any locale."),
    CommandDefinition::new("sort_ro", -2, sort::sort_ro)
        .unshared()
        .reads()
        .key(1)
        .flag(Flags(Flags::EXCLUSIVE.0 | Flags::PASSES_ON.0))
        .categories(&["list", "set", "sortedset", "dangerous"])
        .about(GROUP, "7.0.0", "O(N log N) for N elements")
        .summary("Sorts the elements of a list, set or sorted set.")
        .differs("With ALPHA elements are compared byte by byte, in any locale."),
    CommandDefinition::new("wait", 3, wait)
        .flag(Flags::BLOCKING)
        .about(GROUP, "3.0.0", "O(1)")
        .summary("Waits until replicas have acknowledged the client's writes.")
        .differs("There are no replicas: the reply is 0, at once."),
    CommandDefinition::new("dbsize", 1, flush::dbsize)
        .reads()
        .fast()
        .about(CommandGroup::Server, "1.0.0", "O(1)")
        .summary("Returns the number of keys in the database."),
    CommandDefinition::new("flushdb", -1, flush::flushdb)
        .flag(Flags::EMPTIES)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .categories(&["dangerous"])
        .about(
            CommandGroup::Server,
            "1.0.0",
            "O(1), and O(N) for N keys concurrent with other commands",
        )
        .summary("Removes all keys from the database."),
    CommandDefinition::new("flushall", -1, flush::flushall)
        .flag(Flags::EMPTIES)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .categories(&["dangerous"])
        .about(
            CommandGroup::Server,
            "1.0.0",
            "O(1), and O(N) for N keys concurrent with other commands",
        )
        .summary("Removes all keys from all databases."),
    CommandDefinition::new("swapdb", 3, flush::swapdb)
        .unshared()
        .writes()
        .fast()
        .flag(Flags::EXCLUSIVE)
        .categories(&["dangerous"])
        .about(
            CommandGroup::Server,
            "4.0.0",
            "O(N) for N keys that clients watch or wait for",
        )
        .summary("Exchanges the keys of two databases."),
];

fn del(planned: &mut PlannedCommand<'_>) -> Answer {
    let mut count = 0;
    for position in 0..planned.keys() {
        // A key that is named twice is deleted, and counted, once.
        if planned.remove(position)? {
            planned.changed(position, Class::Generic, "del");
            count += 1;
        }
    }
    planned.reply.integer(count);
    Ok(())
}

fn exists(planned: &mut PlannedCommand<'_>) -> Answer {
    let mut count = 0;
    for position in 0..planned.keys() {
        // As in Redis, a key that is named twice counts twice.
        count += i64::from(planned.find(position)?.is_some());
    }
    planned.reply.integer(count);
    Ok(())
}

fn kind(planned: &mut PlannedCommand<'_>) -> Answer {
    let found = planned.find(0)?;
    planned
        .reply
        .simple(found.map_or("none", |found| found.kind.name()));
    Ok(())
}

fn rename(call: &mut CommandCall<'_>) -> Answer {
    let (source, target) = (call.args[1], call.args[2]);
    if !call.keys.exists(source)? {
        return Err(CommandError::NoSuchKey);
    }
    rename_present(call, source, target)?;
    call.reply.ok();
    Ok(())
}

fn rename_present(call: &mut CommandCall<'_>, source: &[u8], target: &[u8]) -> Answer {
    // As in Redis, this succeeds for a key that exists, and changes nothing.
    if source == target {
        return Ok(());
    }
    let database = call.keys.database_number();
    call.keys.rename(source, database, target)?;
    call.keys.changed(source, Class::Generic, "rename_from");
    call.keys.changed(target, Class::Generic, "rename_to");
    Ok(())
}

fn renamenx(call: &mut CommandCall<'_>) -> Answer {
    let (source, target) = (call.args[1], call.args[2]);
    if !call.keys.exists(source)? {
        return Err(CommandError::NoSuchKey);
    }
    // Also false for the same name twice, which exists.
    let free = !call.keys.exists(target)?;
    if free {
        rename_present(call, source, target)?;
    }
    call.reply.integer(i64::from(free));
    Ok(())
}

/// Parses an argument as the number of a database.
fn database_number(call: &CommandCall<'_>, argument: &[u8]) -> Result<usize, CommandError> {
    let number = usize::try_from(small_integer(argument)?).ok();
    number
        .filter(|&number| number < call.server.config.hot.databases())
        .ok_or(CommandError::text("ERR DB index is out of range"))
}

/// The error of a command that would copy or move a key onto itself.
const SAME_OBJECT: CommandError =
    CommandError::text("ERR source and destination objects are the same");

fn r#move(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[1];
    let source = call.keys.database_number();
    let target = database_number(call, call.args[2])?;
    if source == target {
        return Err(SAME_OBJECT);
    }
    let mut moved = call.keys.exists(key)?;
    if moved {
        call.keys.select(target);
        let taken = call.keys.exists(key);
        // The client's database is selected again before an error leaves the function.
        call.keys.select(source);
        moved = !taken?;
    }
    if moved {
        call.keys.rename(key, target, key)?;
        call.keys.changed(key, Class::Generic, "move_from");
        // Each event belongs to the database of its key.
        call.keys.select(target);
        call.keys.changed(key, Class::Generic, "move_to");
        call.keys.select(source);
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}

fn wait(call: &mut CommandCall<'_>) -> Answer {
    // The number of replicas is checked like any other argument, though there are none.
    call.integer(1)?;
    let timeout = call
        .integer(2)
        .map_err(|_| CommandError::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    call.reply.integer(0);
    Ok(())
}
