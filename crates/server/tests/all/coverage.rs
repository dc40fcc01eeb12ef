//! The table of commands in docs/server.md is that of the program.
//!
//! `NEARFIELD_UPDATE_DOCS=1` writes it anew.

use nearfield_server::command::{Command, Flags, Run, all};

const BEGIN: &str = "<!-- commands: begin -->\n";
const END: &str = "<!-- commands: end -->";
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");

/// A row for each command and subcommand, by group and name.
fn table() -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for command in all() {
        match command.run {
            Run::Command(_) | Run::Planned(_) => rows.push(row(command, command.name.to_owned())),
            Run::Container(subcommands) => {
                let name = |sub: &Command| format!("{} {}", command.name, sub.name);
                rows.extend(subcommands.iter().map(|sub| row(sub, name(sub))));
            }
        }
    }
    rows.sort();
    let count = rows.len();
    let rows: String = rows.into_iter().map(|(_, row)| row).collect();
    format!(
        "{count} commands and subcommands.\n\n| group | command | since Redis | on a \
            pool | differs from Redis |\n|---|---|---|---|---|\n{rows}"
    )
}

fn row(command: &Command, name: String) -> (String, String) {
    let since = if command.flags.has(Flags::OWN) {
        "own"
    } else {
        command.since
    };
    let name = name.to_ascii_uppercase();
    let pool = match (command.is_for_pools(), command.flags.has(Flags::KEY_BY_KEY)) {
        (false, _) => "no",
        (true, true) => "key by key",
        (true, false) => "yes",
    };
    let (group, differs) = (command.group.name(), command.deviation.replace('|', "\\|"));
    let sorted = format!("{:02} {name}", command.group as u8);
    (
        sorted,
        format!("| {group} | {name} | {since} | {pool} | {differs} |\n"),
    )
}

#[test]
fn the_documentation_lists_the_commands_that_there_are() {
    let text = std::fs::read_to_string(PATH).expect("docs/server.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table has a beginning");
    let (shown, after) = rest.split_once(END).expect("the table has an end");
    let made = table();
    if std::env::var_os("NEARFIELD_UPDATE_DOCS").is_some() {
        let text = format!("{before}{BEGIN}{made}{END}{after}");
        std::fs::write(PATH, text).expect("docs/server.md can be written");
        return;
    }
    assert!(
        shown == made,
        "docs/server.md lists other commands than there are; \
         NEARFIELD_UPDATE_DOCS=1 cargo test -p nearfield-server --test all coverage writes it anew"
    );
}
