//! Commands on groups of consumers.

use super::GROUP;
use super::id::{any, strict};
use crate::carried;
use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, integer, is};
use crate::error::{CommandError, shown};
use crate::keyspace::{Class, KeyView};
use crate::object::{Container, StreamId, StreamObject};

pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::container("xgroup", SUBCOMMANDS)
        .about(GROUP, "5.0.0", "Depends on subcommand.")
        .summary("A container for commands about consumer groups."),
    CommandDefinition::new("xack", -4, xack)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", "O(log N) for each identifier")
        .summary("Acknowledges entries that were delivered to consumers of a group."),
];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("create", -5, create)
        .grows()
        .key(2)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Creates a consumer group."),
    CommandDefinition::new("createconsumer", 5, create_consumer)
        .grows()
        .key(2)
        .about(GROUP, "6.2.0", "O(log N) for N consumers")
        .summary("Creates a consumer of a group."),
    CommandDefinition::new("delconsumer", 5, delete_consumer)
        .writes()
        .key(2)
        .about(
            GROUP,
            "5.0.0",
            "O(N log M) for N of M entries that are pending",
        )
        .summary("Deletes a consumer of a group, with its pending entries."),
    CommandDefinition::new("destroy", 4, destroy)
        .writes()
        .key(2)
        .about(GROUP, "5.0.0", "O(N) for N entries that are pending")
        .summary("Deletes a consumer group."),
    CommandDefinition::new("help", 2, about)
        .flag(crate::command::Flags(crate::command::Flags::LOADING.0))
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Describes the subcommands."),
    CommandDefinition::new("setid", -5, set_id)
        .writes()
        .key(2)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Sets the last identifier that was delivered to a group."),
];

const NO_KEY: CommandError = CommandError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);

fn no_group(group: &[u8], key: &[u8]) -> CommandError {
    let (group, key) = (text(group), text(key));
    CommandError::owned(format!(
        "NOGROUP No such consumer group '{group}' for key name '{key}'"
    ))
}

/// Returns the error of commands on groups that do not exist.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    let (group, key) = (text(group), text(key));
    CommandError::owned(format!(
        "NOGROUP No such key '{key}' or consumer group '{group}'"
    ))
}

/// Returns a name for an error, cut where Redis stops printing it.
pub(super) fn text(name: &[u8]) -> String {
    let text = name.split(|&byte| byte == 0).next().unwrap_or_default();
    carried::text(text)
}

/// Returns the error of arguments that no subcommand takes.
pub(super) fn wrong_subcommand(call: &CommandCall<'_>) -> CommandError {
    let name = call.args[0].to_ascii_uppercase();
    let (name, word) = (String::from_utf8_lossy(&name), shown(call.args[1]));
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try {name} HELP."
    ))
}

/// The options of `XGROUP CREATE` and `XGROUP SETID`.
struct XgroupOptions {
    creates_key: bool,
    read: Option<u64>,
}

impl XgroupOptions {
    /// Returns the read counter of a group, at most the number of entries ever added.
    fn read_of(&self, stream: &StreamObject) -> Option<u64> {
        let added = stream.progress().entries_added;
        // More entries than were ever added would make the lag negative.
        self.read.map(|read| read.min(added))
    }
}

fn options(call: &CommandCall<'_>, may_create: bool) -> Result<XgroupOptions, CommandError> {
    let mut options = XgroupOptions {
        creates_key: false,
        read: None,
    };
    let mut words = call.rest(5);
    loop {
        match words {
            [] => return Ok(options),
            [name, rest @ ..] if may_create && is(name, "mkstream") => {
                options.creates_key = true;
                words = rest;
            }
            [name, value, rest @ ..] if is(name, "entriesread") => {
                options.read = match integer(value)? {
                    -1 => None,
                    read => Some(u64::try_from(read).map_err(|_| {
                        CommandError::text("ERR value for ENTRIESREAD must be positive or -1")
                    })?),
                };
                words = rest;
            }
            _ => return Err(wrong_subcommand(call)),
        }
    }
}

fn create(call: &mut CommandCall<'_>) -> Answer {
    let options = options(call, true)?;
    let (key, name, id) = (call.args[2], call.args[3], call.args[4]);
    // The type is checked before the identifier, as in Redis.
    let kind = call.keys.kind(key)?;
    if kind.is_some_and(|kind| kind != StreamObject::KIND) {
        return Err(CommandError::WrongType);
    }
    if kind.is_none() && !options.creates_key {
        return Err(NO_KEY);
    }
    let id = if id == b"$" {
        None
    } else {
        Some(strict(id, 0)?)
    };
    let created = call.keys.edit::<StreamObject, _>(key, |stream, _| {
        let id = id.unwrap_or(stream.last_id());
        let read = options.read_of(stream);
        let is_new = stream.create_group(name, id, read);
        is_new.then_some((id, read))
    })?;
    let Some((id, read)) = created else {
        return Err(CommandError::text(
            "BUSYGROUP Consumer Group name already exists",
        ));
    };
    call.keys.changed_aside(key, Class::Stream, "xgroup-create");
    // The log has the identifier that `$` stood for. MKSTREAM, because the command may have created
    // the stream.
    let (id, read) = (id.to_string(), read_text(read));
    let words = [
        &b"XGROUP"[..],
        b"CREATE",
        key,
        name,
        id.as_bytes(),
        b"MKSTREAM",
        b"ENTRIESREAD",
        read.as_bytes(),
    ];
    call.keys.effects().log_instead(&words);
    call.reply.ok();
    Ok(())
}

/// Formats the number of entries read for `ENTRIESREAD`.
pub(super) fn read_text(read: Option<u64>) -> String {
    read.map_or("-1".to_owned(), |read| read.to_string())
}

/// Calls `edit` with the stream of a group, which must exist.
fn with_group<R>(
    call: &mut CommandCall<'_>,
    edit: impl FnOnce(&mut StreamObject) -> R,
) -> Result<R, CommandError> {
    let (key, name) = (call.args[2], call.args[3]);
    let edited = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        stream.group(name)?;
        Some(edit(stream))
    })?;
    edited.ok_or(NO_KEY)?.ok_or_else(|| no_group(name, key))
}

fn set_id(call: &mut CommandCall<'_>) -> Answer {
    let options = options(call, false)?;
    let (key, name, id) = (call.args[2], call.args[3], call.args[4]);
    let set = with_group(call, |stream| {
        let (last_id, read) = (stream.last_id(), options.read_of(stream));
        let group = stream.group_mut(name);
        debug_assert!(group.is_some(), "`with_group` has found it");
        let id = if id == b"$" { last_id } else { any(id, 0)? };
        if let Some(group) = group {
            group.last_id = id;
            group.entries_read = read;
        }
        Ok::<_, CommandError>(())
    })?;
    set?;
    call.keys.changed_aside(key, Class::Stream, "xgroup-setid");
    call.reply.ok();
    Ok(())
}

fn destroy(call: &mut CommandCall<'_>) -> Answer {
    let (key, name) = (call.args[2], call.args[3]);
    let removed = call
        .keys
        .edit_present::<StreamObject, _>(key, |stream| stream.remove_group(name))?;
    let removed = removed.ok_or(NO_KEY)?;
    if removed {
        call.keys
            .changed_aside(key, Class::Stream, "xgroup-destroy");
    }
    call.reply.integer(removed.into());
    Ok(())
}

fn create_consumer(call: &mut CommandCall<'_>) -> Answer {
    let (key, name, consumer) = (call.args[2], call.args[3], call.args[4]);
    let now_ms = match call.keys.now_ms() {
        // A log is replayed, and it does not have the time.
        0 => crate::clock::now_ms(),
        now_ms => now_ms,
    } as i64;
    let created = with_group(call, |stream| {
        let group = stream.group_mut(name);
        debug_assert!(group.is_some(), "`with_group` has found it");
        group.is_some_and(|group| group.find_or_create(consumer, now_ms).1)
    })?;
    if created {
        call.keys
            .changed_aside(key, Class::Stream, "xgroup-createconsumer");
    }
    call.reply.integer(created.into());
    Ok(())
}

fn delete_consumer(call: &mut CommandCall<'_>) -> Answer {
    let (key, name, consumer) = (call.args[2], call.args[3], call.args[4]);
    let pending = with_group(call, |stream| {
        stream.group_mut(name)?.remove_consumer(consumer)
    })?;
    if pending.is_some() {
        call.keys
            .changed_aside(key, Class::Stream, "xgroup-delconsumer");
    }
    call.reply.count(pending.unwrap_or(0));
    Ok(())
}

fn about(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
    )
}

fn xack(call: &mut CommandCall<'_>) -> Answer {
    let (key, name) = (call.args[1], call.args[2]);
    let ids = call.args[3..].iter().map(|id| strict(id, 0));
    let acknowledged = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let Some(group) = stream.group_mut(name) else {
            return Ok(0);
        };
        // As in Redis, all identifiers are parsed before an entry is acknowledged, and none without
        // a group.
        let ids: Vec<StreamId> = ids.collect::<Result<_, CommandError>>()?;
        let acknowledged = ids.into_iter().filter(|&id| group.acknowledge(id));
        Ok::<_, CommandError>(acknowledged.count())
    })?;
    let acknowledged = acknowledged.unwrap_or(Ok(0))?;
    // As in Redis, the stream changes without an event of its key.
    call.keys.effects().changes += acknowledged as u64;
    call.reply.count(acknowledged);
    Ok(())
}
