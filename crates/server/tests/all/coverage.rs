//! The tables of commands in docs/server-commands*.md are those of the program.
//!
//! `NEARFIELD_UPDATE_DOCS=1` rewrites them.

use nearfield_server::catalog::CommandGroup;
use nearfield_server::command::{CommandDefinition, CommandImplementation, Flags};
use nearfield_server::commands::TABLE;
use std::collections::BTreeMap;

const BEGIN: &str = "<!-- commands: begin -->\n";
const END: &str = "<!-- commands: end -->";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
const PAGES: [&str; 2] = ["server-commands.md", "server-commands-other.md"];

/// Returns the page that lists a group.
fn page_of(group: CommandGroup) -> &'static str {
    match group {
        CommandGroup::String
        | CommandGroup::Generic
        | CommandGroup::Ordered
        | CommandGroup::List
        | CommandGroup::Hash
        | CommandGroup::Set
        | CommandGroup::SortedSet
        | CommandGroup::Geo
        | CommandGroup::HyperLogLog
        | CommandGroup::Stream => PAGES[0],
        CommandGroup::Transactions
        | CommandGroup::PubSub
        | CommandGroup::Scripting
        | CommandGroup::Connection
        | CommandGroup::Server => PAGES[1],
    }
}

/// Returns the rows of each group, by the names of commands and subcommands.
fn rows() -> BTreeMap<CommandGroup, BTreeMap<String, String>> {
    let mut groups = BTreeMap::<CommandGroup, BTreeMap<String, String>>::new();
    let mut add = |command: &CommandDefinition, name: &str| {
        let name = name.to_ascii_uppercase();
        let row = row(command, &name);
        let is_new = groups
            .entry(command.group)
            .or_default()
            .insert(name, row)
            .is_none();
        assert!(is_new, "{} appears twice", command.name);
    };
    for command in TABLE.all() {
        match command.run {
            CommandImplementation::Command(_) | CommandImplementation::Planned(_) => {
                add(command, command.name)
            }
            CommandImplementation::Container(subcommands) => {
                for sub in subcommands {
                    add(sub, &format!("{} {}", command.name, sub.name));
                }
            }
        }
    }
    groups
}

fn row(command: &CommandDefinition, name: &str) -> String {
    let since = if command.flags.has(Flags::OWN) {
        "own"
    } else {
        command.since
    };
    let pool = match (command.is_for_pools(), command.flags.has(Flags::KEY_BY_KEY)) {
        (false, _) => "no",
        (true, true) => "key by key",
        (true, false) => "yes",
    };
    let differs = command.deviation.replace('|', "\\|");
    format!("| {name} | {since} | {pool} | {differs} |\n")
}

/// Returns the tables of a page.
fn tables(page: &str) -> String {
    let mut groups = rows();
    groups.retain(|&group, _| page_of(group) == page);
    let count: usize = groups.values().map(BTreeMap::len).sum();
    let mut text = format!("{count} commands and subcommands.\n");
    for (group, rows) in groups {
        text += &format!(
            "\n### {}\n\n| command | since Redis | on a pool | differs from Redis |\n\
             |---|---|---|---|\n",
            group.name()
        );
        text.extend(rows.into_values());
    }
    text
}

#[test]
fn the_documentation_lists_the_commands_that_there_are() {
    for page in PAGES {
        let path = format!("{FOLDER}/{page}");
        let text = std::fs::read_to_string(&path).expect("the page exists");
        let (before, rest) = text.split_once(BEGIN).expect("the tables have a beginning");
        let (shown, after) = rest.split_once(END).expect("the tables have an end");
        let made = tables(page);
        if std::env::var_os("NEARFIELD_UPDATE_DOCS").is_some() {
            let text = format!("{before}{BEGIN}{made}{END}{after}");
            std::fs::write(&path, text).expect("the page can be written");
            continue;
        }
        assert!(
            shown == made,
            "docs/{page} does not match the command table; NEARFIELD_UPDATE_DOCS=1 cargo test -p \
             nearfield-server --test all coverage:: rewrites it"
        );
    }
}
