//! Commands that describe the server's commands.

mod described_keys;

use crate::catalog::key_uses;
use crate::command::help::help;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, CommandKeySpec, Flags, is,
};
use crate::commands::TABLE;
use crate::error::CommandError;
use crate::glob::matches_bounded;
use crate::number::parse_integer;
use crate::resp::RespReply;
use described_keys::{describe_keys, first_last_step};

const GROUP: CommandGroup = CommandGroup::Server;
const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::LOADING.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("command", SUBCOMMANDS)
    .flag(FREE)
    .without_subcommand(list_all)
    .about(GROUP, "2.8.13", "O(N) for N commands")
    .summary("Returns information about all commands.")];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("count", 2, count)
        .flag(FREE)
        .about(GROUP, "2.8.13", "O(1)")
        .summary("Returns the number of commands."),
    CommandDefinition::new("info", -2, info)
        .flag(FREE)
        .about(GROUP, "2.8.13", "O(N) for N commands")
        .summary("Returns information about commands."),
    CommandDefinition::new("docs", -2, docs)
        .flag(FREE)
        .about(GROUP, "7.0.0", "O(N) for N commands")
        .summary("Returns documentation of commands."),
    CommandDefinition::new("list", -2, list)
        .flag(FREE)
        .about(GROUP, "7.0.0", "O(N) for N commands")
        .summary("Returns the names of commands."),
    CommandDefinition::new("getkeys", -4, get_keys)
        .flag(FREE)
        .about(GROUP, "2.8.13", "O(N) for N arguments")
        .summary("Finds the keys of a command."),
    CommandDefinition::new("getkeysandflags", -4, get_keys_and_flags)
        .flag(FREE)
        .about(GROUP, "7.0.0", "O(N) for N arguments")
        .summary("Finds the keys of a command, and its access to each."),
    CommandDefinition::help(GROUP, "5.0.0", show_help),
];

fn list_all(call: &mut CommandCall<'_>) -> Answer {
    call.reply.array(TABLE.all().count());
    let on_pool = call.server.keyspace.is_shared();
    for command in TABLE.all() {
        describe(call.reply, command, command.name, on_pool);
    }
    Ok(())
}

fn count(call: &mut CommandCall<'_>) -> Answer {
    // As in Redis, subcommands do not count.
    call.reply.count(TABLE.all().count());
    Ok(())
}

fn info(call: &mut CommandCall<'_>) -> Answer {
    let names = call.rest(2);
    if names.is_empty() {
        return list_all(call);
    }
    call.reply.array(names.len());
    let on_pool = call.server.keyspace.is_shared();
    for name in names {
        match find_by_full_name(name) {
            Some((command, name)) => describe(call.reply, command, &name, on_pool),
            // As in Redis, the reply has a place for each name, also for unknown ones.
            None => call.reply.null_array(),
        }
    }
    Ok(())
}

/// Finds a command, or a subcommand by `command|subcommand`. Returns its full name, too.
fn find_by_full_name(name: &[u8]) -> Option<(&'static CommandDefinition, String)> {
    let mut words = name.splitn(2, |&byte| byte == b'|');
    let command = TABLE.find(words.next()?)?;
    match words.next() {
        None => Some((command, command.name.to_owned())),
        Some(word) => {
            let subcommand = command.subcommand(word)?;
            let name = format!("{}|{}", command.name, subcommand.name);
            Some((subcommand, name))
        }
    }
}

fn words<'w>(reply: &mut RespReply, words: impl IntoIterator<Item = &'w str>) {
    let words: Vec<_> = words.into_iter().collect();
    reply.set(words.len());
    for word in words {
        reply.simple(word);
    }
}

/// Writes a command as `COMMAND INFO` shows it.
fn describe(reply: &mut RespReply, command: &'static CommandDefinition, name: &str, on_pool: bool) {
    let (first, last, step) = first_last_step(command);
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(i64::from(command.arity));
    words(reply, command.flag_names(on_pool));
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories = command.category_names(TABLE.registry());
    let categories: Vec<_> = categories.iter().map(|name| format!("@{name}")).collect();
    words(reply, categories.iter().map(String::as_str));
    // Redis has hints for proxies here.
    reply.array(0);
    describe_keys(reply, command);
    let subcommands = command.subcommands();
    reply.array(subcommands.len());
    for subcommand in subcommands {
        let name = format!("{name}|{}", subcommand.name);
        describe(reply, subcommand, &name, on_pool);
    }
}

fn docs(call: &mut CommandCall<'_>) -> Answer {
    let names = call.rest(2);
    if names.is_empty() {
        call.reply.map(TABLE.all().count());
        for command in TABLE.all() {
            document(call.reply, command, command.name);
        }
        return Ok(());
    }
    let found: Vec<_> = names
        .iter()
        // As in Redis, COMMAND DOCS leaves out unknown names.
        .filter_map(|name| find_by_full_name(name))
        .collect();
    call.reply.map(found.len());
    for (command, name) in found {
        document(call.reply, command, &name);
    }
    Ok(())
}

/// Writes a command's name and its documentation.
fn document(reply: &mut RespReply, command: &CommandDefinition, name: &str) {
    let mut facts = vec![
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ];
    if !command.deviation.is_empty() {
        // Redis has no such field. Clients skip fields that they do not know.
        facts.push(("deviation", command.deviation));
    }
    reply.bulk(name.as_bytes());
    let subcommands = command.subcommands();
    reply.map(facts.len() + usize::from(!subcommands.is_empty()));
    for (title, text) in facts {
        reply.bulk(title.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        for subcommand in subcommands {
            document(reply, subcommand, &format!("{name}|{}", subcommand.name));
        }
    }
}

/// A filter of the commands to list.
type Keep = dyn Fn(&'static CommandDefinition, &str) -> bool;

fn list(call: &mut CommandCall<'_>) -> Answer {
    let keep: Box<Keep> = match call.rest(2) {
        [] => Box::new(|_, _| true),
        [filter, kind, pattern] if is(filter, "filterby") => {
            if is(kind, "module") {
                Box::new(|_, _| false)
            } else if is(kind, "aclcat") {
                let wanted = String::from_utf8_lossy(pattern).to_ascii_lowercase();
                Box::new(move |command, _| {
                    command
                        .category_names(TABLE.registry())
                        .contains(&wanted.as_str())
                })
            } else if is(kind, "pattern") {
                // The names are in lower case, and Redis ignores the case.
                let pattern = pattern.to_ascii_lowercase();
                Box::new(move |_, name| matches_bounded(&pattern, name.as_bytes()))
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let mut names = Vec::new();
    for command in TABLE.all() {
        if keep(command, command.name) {
            names.push(command.name.to_owned());
        }
        for subcommand in command.subcommands() {
            let name = format!("{}|{}", command.name, subcommand.name);
            if keep(subcommand, &name) {
                names.push(name);
            }
        }
    }
    call.reply.set(names.len());
    for name in names {
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// Returns the command that `args` begin with, and the positions of its keys.
fn keys_of(args: &[&[u8]]) -> Result<(&'static CommandDefinition, Vec<usize>), CommandError> {
    let command = match TABLE.lookup(args) {
        Ok(command) => command,
        Err(CommandError::WrongArity(_)) => {
            return Err(CommandError::text(
                "ERR Invalid number of arguments specified for command",
            ));
        }
        Err(_) => return Err(CommandError::text("ERR Invalid command specified")),
    };
    if matches!(command.keys, CommandKeySpec::None) {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    let positions = match command.keys {
        // If the number of keys is larger than the number of arguments left, no key is found.
        CommandKeySpec::Counted { count, .. } if !has_all_keys(args, count) => Default::default(),
        keys => keys.positions(args),
    };
    // A script may be called without keys.
    if positions.is_empty() && command.group != CommandGroup::Scripting {
        return Err(CommandError::text(
            "ERR Invalid arguments specified for command",
        ));
    }
    debug_assert!(positions.iter().all(|&position| position < args.len()));
    Ok((command, positions.to_vec()))
}

/// Returns true if the number of keys at `count` is at most the number of words after it.
fn has_all_keys(args: &[&[u8]], count: usize) -> bool {
    let number = args.get(count).and_then(|word| parse_integer(word));
    let behind = args.len().saturating_sub(count + 1);
    number.is_some_and(|number| usize::try_from(number).is_ok_and(|it| it <= behind))
}

fn get_keys(call: &mut CommandCall<'_>) -> Answer {
    let args = call.rest(2);
    let (_, positions) = keys_of(args)?;
    call.reply.array(positions.len());
    for position in positions {
        call.reply
            .bulk(args.get(position).copied().unwrap_or_default());
    }
    Ok(())
}

fn get_keys_and_flags(call: &mut CommandCall<'_>) -> Answer {
    let args = call.rest(2);
    let (command, positions) = keys_of(args)?;
    call.reply.array(positions.len());
    for (number, position) in positions.into_iter().enumerate() {
        call.reply.array(2);
        call.reply
            .bulk(args.get(position).copied().unwrap_or_default());
        let uses = key_uses::of_call(command, args, number);
        words(call.reply, uses.iter().copied());
    }
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "(no subcommand)",
            "    All commands, as INFO shows them.",
            "COUNT",
            "    The number of commands.",
            "DOCS [<command> ...]",
            "    The documentation of all or some commands.",
            "GETKEYS <command> [<argument> ...]",
            "    The keys of a command.",
            "GETKEYSANDFLAGS <command> [<argument> ...]",
            "    The keys of a command, and its access to each.",
            "INFO [<command> ...]",
            "    Arity, flags, keys and categories of all or some commands.",
            "LIST [FILTERBY (MODULE <module>|ACLCAT <category>|PATTERN <pattern>)]",
            "    The names of all or some commands.",
        ],
    )
}
