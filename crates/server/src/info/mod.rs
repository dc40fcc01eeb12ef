//! The sections of `INFO`. They have Redis's names, because tools read them.

mod commands;
pub mod memory;
mod pool;
mod sections;
pub mod tiers;

use crate::keyspace::Databases;
use crate::server::ServerCore;
use std::fmt::Display;

/// A section: its name, whether it is shown by default, and the function that writes it.
struct InfoSection {
    name: &'static str,
    by_default: bool,
    write: fn(&mut InfoPage<'_>),
}

const fn section(
    name: &'static str,
    by_default: bool,
    write: fn(&mut InfoPage<'_>),
) -> InfoSection {
    InfoSection {
        name,
        by_default,
        write,
    }
}

const SECTIONS: &[InfoSection] = &[
    section("Server", true, sections::server),
    section("Clients", true, sections::clients),
    section("Memory", true, memory::write),
    section("Tiers", false, tiers::write),
    section("Pool", false, pool::write),
    section("Persistence", true, sections::persistence),
    section("Stats", true, sections::stats),
    section("Replication", true, sections::replication),
    section("CPU", true, sections::cpu),
    // Tools expect the section, although there are no modules.
    section("Modules", true, |_| ()),
    section("Commandstats", false, commands::commandstats),
    section("Errorstats", true, commands::errorstats),
    section("Latencystats", false, commands::latencystats),
    section("Cluster", true, sections::cluster),
    section("Keyspace", true, sections::keyspace),
];

/// The text of `INFO` while it is written.
pub struct InfoPage<'s> {
    /// The server described.
    pub server: &'s ServerCore,
    /// The databases.
    pub databases: &'s Databases,
    text: String,
}

impl InfoPage<'_> {
    /// Writes a field.
    pub fn field(&mut self, name: &str, value: impl Display) {
        debug_assert!(!name.is_empty() && !name.contains('\n'));
        self.text += &format!("{name}:{value}\r\n");
    }

    /// Writes fields that are always zero, because what they count does not happen in this server.
    pub fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.field(name, 0);
        }
    }
}

/// Writes the requested sections, given by their names or by `default`, `all` or `everything`.
pub fn write(server: &ServerCore, databases: &Databases, wanted: &[&[u8]]) -> String {
    let is = |name: &str| {
        let same = |word: &&[u8]| word.eq_ignore_ascii_case(name.as_bytes());
        wanted.iter().any(same)
    };
    let all = is("all") || is("everything");
    let default = wanted.is_empty() || is("default");
    let mut page = InfoPage {
        server,
        databases,
        text: String::new(),
    };
    for section in SECTIONS {
        if all || (default && section.by_default) || is(section.name) {
            if !page.text.is_empty() {
                page.text += "\r\n";
            }
            page.text += &format!("# {}\r\n", section.name);
            (section.write)(&mut page);
        }
    }
    page.text
}
