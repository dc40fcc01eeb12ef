//! Commands that wait for values on a disk, while the thread goes on with other connections.
//!
//! Before a thread executes what a connection has sent, it looks ahead in it, if there are values
//! in files: it reads the records of all keys whose values the commands need, in one batch, and
//! asks for those values that lie in files (`reads.rs`, or where the kernel gives no rings
//! [`fetch`](crate::tiering::fetch)). Until they have come
//! the connection waits with all that it has sent, so that the order of its replies is kept. Then
//! its commands find the values beside their places and wait for no disk.
//!
//! Keys that a script does not declare, and commands that go through ranges of keys, are not seen
//! ahead: such values are read when they are met, and the thread waits for them, no longer than
//! [`PATIENCE`] for each.

use super::limits;
use super::thread::IoThread;
use crate::command::{Command, lookup};
use crate::keyspace::cold::{Held, PATIENCE};
use crate::keyspace::{Databases, Outside, Record};
use crate::object::{Kind, Object, Part};
use crate::resp::Parser;
use crate::resp::request::Step;
use nearfield::{Batch, Bytes};
use nearfield_tiers::Place;
use smallvec::SmallVec;
use std::sync::Arc;

/// How far it is looked ahead.
const COMMANDS_MAX: usize = 256;
const KEYS_MAX: usize = 1024;

/// What looking ahead needs, kept for the next time.
#[derive(Debug, Default)]
pub struct Scout {
    keys: Batch<Bytes>,
    count: usize,
}

/// Commands that never look at the values of their keys, or replace them as a whole.
const KEYS_ONLY: &[&str] = &[
    "set",
    "setex",
    "psetex",
    "setnx",
    "mset",
    "msetnx",
    "del",
    "unlink",
    "exists",
    "touch",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "persist",
    "rename",
    "renamenx",
    "move",
    "watch",
    "pin",
    "tier",
    "freq",
    "idletime",
    "refcount",
    "usage",
];

/// True if a command reads values of its keys.
fn reads_values(command: &Command, args: &[&[u8]]) -> bool {
    let gets = || {
        args.iter()
            .skip(3)
            .any(|word| word.eq_ignore_ascii_case(b"get"))
    };
    !KEYS_ONLY.contains(&command.name) || command.name == "set" && gets()
}

impl Scout {
    fn add<'a>(&mut self, args: &[&'a [u8]], parts: &mut Vec<Part<'a>>) {
        if args.is_empty() {
            return;
        }
        let Ok(command) = lookup(args) else { return };
        if !reads_values(command, args) {
            return;
        }
        for position in command.keys.positions(args) {
            if let Some(key) = args.get(position)
                && self.count < KEYS_MAX
            {
                self.keys.get(key);
                parts.push((command.part)(args));
                self.count += 1;
            }
        }
    }
}

impl IoThread<'_> {
    /// Looks ahead in `rest`, what a connection has sent behind the first `used` bytes, and says
    /// whether it has to wait for values. Notes how far it has looked. What lies further is looked
    /// for in the keyspace when the commands before it have been executed.
    pub(super) fn fetch(&mut self, index: usize, used: usize, rest: &[u8]) -> bool {
        let server = self.server;
        let served = &mut *self.served;
        let connection = &mut served.connections[index];
        let client = &connection.client;
        served.scout.keys.clear();
        served.scout.count = 0;
        // Which part of the object of each of the keys is touched.
        let mut parts = Vec::new();
        // Commands that were queued before are executed when EXEC comes.
        let queued = client.transaction.iter().flat_map(|it| &it.commands);
        for words in queued {
            let args: SmallVec<[&[u8]; 16]> = words.iter().map(Vec::as_slice).collect();
            served.scout.add(&args, &mut parts);
        }
        let mut parser = Parser::new();
        let mut end = 0;
        for _ in 0..COMMANDS_MAX {
            let ahead = rest.get(end..).unwrap_or_default();
            let Ok(Step::Complete(length)) = parser.next(ahead, &limits::of_requests(server))
            else {
                // What is not complete is looked at again with what follows.
                break;
            };
            // What somebody has typed with quotes is read when it is met.
            let places = parser.places().iter();
            let args: SmallVec<[&[u8]; 16]> = places
                .filter_map(|place| ahead.get(place.clone()))
                .collect();
            end += length;
            served.scout.add(&args, &mut parts);
            if served.scout.count >= KEYS_MAX {
                break;
            }
        }
        let held = match served.scout.count {
            0 => Vec::new(),
            // While a script is running, values are read when they are met.
            _ => match server.keyspace.try_share() {
                Some(databases) => {
                    let scout = &mut served.scout;
                    scout.hold(server, &databases, client.database, &parts)
                }
                None => Vec::new(),
            },
        };
        // At least what comes next is executed without another look.
        connection.fetched_bytes = used + end.max(1);
        if held.is_empty() {
            return false;
        }
        let until_ms = served.steady_ms + PATIENCE.as_millis() as u64;
        connection.waiting = true;
        connection.fetching = Some((until_ms, held.iter().map(Held::place).collect()));
        let shared = &connection.client.shared;
        served.parked.push_back((until_ms, shared.id));
        match &mut served.reads {
            Some(reads) => reads.ask(&server.keyspace.cold, shared.id, held),
            None => server.fetcher.ask(Arc::clone(shared), held),
        }
        true
    }

    /// Goes on with a connection whose values are there, or will not come.
    pub(super) fn go_on_with(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.fetching.take().is_none() {
            return;
        }
        connection.waiting = false;
        let ends = std::mem::take(&mut connection.ends_after_fetch);
        if std::mem::take(&mut connection.postponed) {
            self.unread.push(index);
        }
        self.process_input(index);
        // It may wait again, for what comes next.
        if let Some(connection) = self.connections.get_mut(index)
            && ends
        {
            if connection.fetching.is_some() {
                connection.ends_after_fetch = true;
            } else if !connection.yields {
                // One that yields is read again, and found to end, behind its requests.
                connection.client.closing = true;
                self.mark_dirty(index);
            }
        }
    }

    /// Has commands that have waited for a disk for too long be answered errors.
    pub(super) fn give_up_parked(&mut self) {
        while let Some(&(until_ms, id)) = self.parked.front() {
            if until_ms > self.steady_ms {
                return;
            }
            self.parked.pop_front();
            let Some(&index) = self.by_client.get(&id) else {
                continue;
            };
            let fetching = self.connections[index].fetching.as_ref();
            let Some((until, places)) = fetching else {
                continue;
            };
            if *until > until_ms {
                continue;
            }
            for place in places {
                self.server.keyspace.cold.give_up_waiting(*place);
            }
            self.go_on_with(index);
            self.execute_round();
        }
    }
}

impl Scout {
    /// Holds the places of values that lie in files, once each.
    fn hold(
        &mut self,
        server: &crate::server::Server,
        databases: &Databases,
        database: usize,
        parts: &[Part<'_>],
    ) -> Vec<Held> {
        let cold = &server.keyspace.cold;
        let mut held = Vec::<Held>::new();
        let mut hold = |place: Place| {
            let is_new = held.iter().all(|known| known.place() != place);
            if held.len() < KEYS_MAX && cold.waits(place) && is_new {
                held.push(Held::new(cold, place));
            }
        };
        let entries = databases.get(database).and_then(|it| it.entries());
        if entries.is_none_or(|entries| entries.execute(&mut self.keys).is_err()) {
            return Vec::new();
        }
        for (operation, part) in (0..self.count).zip(parts) {
            let stored = self.keys.value(operation).map(Record::parse);
            match stored.and_then(|record| Some((record.kind, record.outside()?))) {
                Some((_, Outside::Place(place))) => hold(place),
                Some((Kind::List | Kind::Hash, Outside::Slot(slot))) => {
                    // Nodes are held before the slot is closed, as they may be given up then.
                    let object = server.keyspace.slots.open(slot);
                    if let Some(parted) = object.as_ref().and_then(Object::parted) {
                        parted.places(part, &mut hold);
                    }
                }
                _ => {}
            }
        }
        held
    }
}
