//! The filters that select clients for `CLIENT LIST` and `CLIENT KILL`, those of Valkey 9.
//!
//! A client must pass all of them. If an option is repeated, the last one holds, except for `ID`
//! and `NOT-ID`, which accumulate their numbers.

use crate::client::{ClientShared, flags};
use crate::command::is;
use crate::connection::ClientRegistry;
use crate::error::{CommandError, shown};
use crate::number::parse_integer;
use crate::server::ServerCore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The letters that may stand for a client's state, including those that no client here has.
const FLAGS: &[u8] = b"bcdeirtuxABEIMNOPRSTU";
/// The letters that may stand for a client's capabilities. Clients here declare none.
const CAPABILITIES: &[u8] = b"r";

/// The property that a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientProperty {
    Kind,
    Address,
    Local,
    Ip,
    User,
    Name,
    LibraryName,
    LibraryVersion,
    Flags,
    Capabilities,
    Database,
}

/// The options with their properties. Each also has a form with `NOT-` before it.
const OPTIONS: &[(&str, ClientProperty)] = &[
    ("type", ClientProperty::Kind),
    ("addr", ClientProperty::Address),
    ("laddr", ClientProperty::Local),
    ("ip", ClientProperty::Ip),
    ("user", ClientProperty::User),
    ("name", ClientProperty::Name),
    ("lib-name", ClientProperty::LibraryName),
    ("lib-ver", ClientProperty::LibraryVersion),
    ("flags", ClientProperty::Flags),
    ("capa", ClientProperty::Capabilities),
    ("db", ClientProperty::Database),
];

/// A condition that must hold or, if `holds` is false, fail.
#[derive(Debug)]
struct ClientCondition {
    by: ClientProperty,
    value: Vec<u8>,
    holds: bool,
}

/// A selection of clients.
#[derive(Debug, Default)]
pub struct ClientFilter {
    /// The only numbers that clients may have. Empty if any number may be.
    ids: BTreeSet<u64>,
    other_than_ids: BTreeSet<u64>,
    conditions: Vec<ClientCondition>,
    older_than_s: Option<u64>,
    idle_since_s: Option<u64>,
    /// True if the requesting client is left out. `None` means the default of the command.
    skips_own: Option<bool>,
}

impl ClientFilter {
    /// Creates a filter for clients that connect from an address.
    pub fn of_address(address: &[u8]) -> ClientFilter {
        let mut filter = ClientFilter::default();
        filter.condition(ClientProperty::Address, address.to_vec(), true);
        filter
    }

    /// Parses options.
    ///
    /// # Errors
    /// `Syntax`, or an error for a value that the option does not take.
    pub fn parse(server: &ServerCore, mut words: &[&[u8]]) -> Result<ClientFilter, CommandError> {
        let mut filter = ClientFilter::default();
        while let [option, rest @ ..] = words {
            // `NOT-` has four letters. Each property has both forms.
            let (holds, name) = match option.split_at_checked(4) {
                Some((not, name)) if is(not, "not-") => (false, name),
                _ => (true, *option),
            };
            let [value, after @ ..] = rest else {
                return Err(CommandError::Syntax);
            };
            words = after;
            if is(name, "id") {
                words = filter.read_ids(rest, holds)?;
            } else if let Some(&(name, by)) = OPTIONS.iter().find(|it| is(name, it.0)) {
                let value = checked(server, by, name, value, holds)?;
                filter.condition(by, value, holds);
            } else if is(option, "maxage") {
                filter.older_than_s = Some(seconds(value, "maxage")?);
            } else if is(option, "idle") {
                filter.idle_since_s = Some(seconds(value, "idle")?);
            } else if is(option, "skipme") {
                filter.skips_own = Some(match (is(value, "yes"), is(value, "no")) {
                    (true, _) => true,
                    (_, true) => false,
                    _ => return Err(CommandError::Syntax),
                });
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(filter)
    }

    /// Parses the numbers at the beginning of `words` and returns the remaining words.
    fn read_ids<'a, 'w>(
        &mut self,
        words: &'w [&'a [u8]],
        holds: bool,
    ) -> Result<&'w [&'a [u8]], CommandError> {
        const TOO_SMALL: CommandError =
            CommandError::text("ERR client-id should be greater than 0");
        // The list has no count: it ends at the first word that is no number, the next option.
        let ids: Vec<i64> = words.iter().map_while(|it| parse_integer(it)).collect();
        let to = if holds {
            &mut self.ids
        } else {
            &mut self.other_than_ids
        };
        if ids.is_empty() {
            return Err(TOO_SMALL);
        }
        for &id in &ids {
            let id = u64::try_from(id).ok().filter(|id| *id > 0);
            to.insert(id.ok_or(TOO_SMALL)?);
        }
        Ok(words.get(ids.len()..).unwrap_or_default())
    }

    fn condition(&mut self, by: ClientProperty, value: Vec<u8>, holds: bool) {
        let same = |it: &ClientCondition| it.by == by && it.holds == holds;
        // As in Valkey, the last of repeated options holds.
        self.conditions.retain(|it| !same(it));
        self.conditions.push(ClientCondition { by, value, holds });
    }

    /// Returns the clients that may pass: those with the given numbers, or all.
    pub fn candidates(&self, clients: &ClientRegistry) -> Vec<Arc<ClientShared>> {
        let clients = clients.lock();
        match self.ids.is_empty() {
            true => clients.values().cloned().collect(),
            // A few numbers are looked up, so that not all clients are visited.
            false => self
                .ids
                .iter()
                .filter_map(|id| clients.get(id).cloned())
                .collect(),
        }
    }

    /// Returns true if `client` passes. `own` is the number of the requesting client; `skips_own`
    /// is true if that client does not pass unless the options include it.
    pub fn takes(&self, client: &ClientShared, own: u64, skips_own: bool, steady_ms: u64) -> bool {
        let seconds = |since_ms: u64| steady_ms.saturating_sub(since_ms) / 1000;
        (self.ids.is_empty() || self.ids.contains(&client.id))
            && !self.other_than_ids.contains(&client.id)
            && !(client.id == own && self.skips_own.unwrap_or(skips_own))
            && self
                .older_than_s
                .is_none_or(|age| seconds(client.connected_at_ms) >= age)
            && self
                .idle_since_s
                .is_none_or(|idle| seconds(client.active_at_ms.load(Relaxed)) >= idle)
            && self.conditions.iter().all(|it| it.takes(client))
    }
}

impl ClientCondition {
    fn takes(&self, client: &ClientShared) -> bool {
        let value = self.value.as_slice();
        let library = &client.listed.library;
        let met = match self.by {
            ClientProperty::Kind => type_of(client).as_bytes() == value,
            ClientProperty::Address => client.peer.as_bytes() == value,
            ClientProperty::Local => client.local.as_bytes() == value,
            ClientProperty::Ip => ip(&client.peer).as_bytes() == value,
            ClientProperty::User => *client.user.lock() == value,
            ClientProperty::Name => client.name.lock().as_bytes() == value,
            ClientProperty::LibraryName => library.lock().0.as_bytes() == value,
            ClientProperty::LibraryVersion => library.lock().1.as_bytes() == value,
            ClientProperty::Flags => {
                let flags = flags(client);
                value.iter().all(|flag| flags.as_bytes().contains(flag))
            }
            // Clients here declare no capabilities, so only an empty list is met.
            ClientProperty::Capabilities => value.is_empty(),
            ClientProperty::Database => {
                client.database.load(Relaxed).to_string().as_bytes() == value
            }
        };
        met == self.holds
    }
}

/// Returns the address without the port, and without the brackets around an IPv6 address.
fn ip(address: &str) -> &str {
    // The addresses of IPv6 contain colons, so the last one is before the port.
    let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
    ip.trim_start_matches('[').trim_end_matches(']')
}

/// Checks a value, and returns it in the form in which it is compared.
fn checked(
    server: &ServerCore,
    by: ClientProperty,
    name: &str,
    value: &[u8],
    holds: bool,
) -> Result<Vec<u8>, CommandError> {
    let unknown = |known: &[u8]| -> Result<Vec<u8>, CommandError> {
        if value.iter().all(|letter| known.contains(letter)) {
            return Ok(value.to_vec());
        }
        let filter = match holds {
            true => "provided".to_owned(),
            false => format!("NOT-{}", name.to_ascii_uppercase()),
        };
        let value = shown(value);
        Err(CommandError::owned(format!(
            "ERR Unknown {name} found in the {filter} filter: {value}"
        )))
    };
    match by {
        ClientProperty::Kind => Ok(client_type(value)?.as_bytes().to_vec()),
        ClientProperty::Flags => unknown(FLAGS),
        ClientProperty::Capabilities => unknown(CAPABILITIES),
        ClientProperty::Database => {
            let name = if holds { "DB" } else { "NOT-DB" };
            let number = parse_integer(value).ok_or_else(|| not_integer(name))?;
            let databases = server.config.hot.databases();
            if !(0..databases as i64).contains(&number) {
                debug_assert!(databases > 0, "`databases` is at least 1");
                return Err(CommandError::owned(format!(
                    "ERR {name} number should be between 0 and {}",
                    databases - 1
                )));
            }
            // Different spellings of one number must compare equal.
            Ok(number.to_string().into_bytes())
        }
        ClientProperty::User if server.acl.user(value).is_none() => {
            let name = shown(value);
            Err(CommandError::owned(format!("ERR No such user '{name}'")))
        }
        _ => Ok(value.to_vec()),
    }
}

fn not_integer(name: &str) -> CommandError {
    CommandError::owned(format!("ERR {name} is not an integer or out of range"))
}

fn seconds(value: &[u8], name: &str) -> Result<u64, CommandError> {
    let seconds = parse_integer(value).ok_or_else(|| not_integer(name))?;
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => Err(CommandError::owned(format!(
            "ERR {name} should be greater than 0"
        ))),
    }
}

/// Parses a type of clients, as `LIST` and `KILL` name them.
fn client_type(word: &[u8]) -> Result<&'static str, CommandError> {
    for (name, shown) in [
        ("normal", "normal"),
        // No client here is a server, so a filter for this type finds none.
        ("master", "master"),
        ("primary", "master"),
        ("slave", "replica"),
        ("replica", "replica"),
        ("pubsub", "pubsub"),
    ] {
        if is(word, name) {
            return Ok(shown);
        }
    }
    let word = shown(word);
    Err(CommandError::owned(format!(
        "ERR Unknown client type '{word}'"
    )))
}

fn type_of(client: &ClientShared) -> &'static str {
    if client.listed.is_subscriber() {
        "pubsub"
    } else {
        "normal"
    }
}
