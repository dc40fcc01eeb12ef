//! Commands that wait for values on a disk while the thread continues with other connections.
//!
//! If there are values in files, a thread looks ahead in the requests of a connection before it
//! executes them. It reads the records of all keys whose values the commands need, in one batch,
//! and requests the values that are in files (`reads.rs`, or, where the kernel provides no rings,
//! [`fetch`](crate::tiering::fetch)). Until they have arrived, the connection waits with all its
//! requests, so that the order of its replies is kept. Then its commands find the values in memory,
//! and wait for no disk.
//!
//! Keys that a script does not declare, and keys in ranges that a command scans, are not known
//! ahead. Their values are read during the command, and the thread waits for each of them, at most
//! for [`PATIENCE`].

use super::limits;
use super::state::ClientDeadline;
use super::thread::IoThread;
use crate::command::{CommandDefinition, Flags};
use crate::commands::TABLE;
use crate::keyspace::cold::{ColdPlaceGuard, PATIENCE};
use crate::keyspace::{Databases, Outside, ValueRecord};
use crate::object::{ObjectPart, RedisType, StoredObject};
use crate::resp::Parser;
use crate::resp::request::RequestProgress;
use nearfield::{Batch, ByteStrings};
use nearfield_tiers::ColdPlace;
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of commands to look ahead at, at most.
const COMMANDS_MAX: usize = 256;
const KEYS_MAX: usize = 1024;

/// The buffers for looking ahead, kept for the next time.
#[derive(Debug, Default)]
pub struct Scout {
    keys: Batch<ByteStrings>,
    count: usize,
}

/// Returns true if a command reads values of its keys.
fn reads_values(command: &CommandDefinition, args: &[&[u8]]) -> bool {
    let gets = || {
        args.iter()
            .skip(3)
            .any(|word| word.eq_ignore_ascii_case(b"get"))
    };
    match command.flags {
        flags if flags.has(Flags::KEYS_ONLY) => false,
        flags if flags.has(Flags::KEYS_ONLY_WITHOUT_GET) => gets(),
        _ => true,
    }
}

impl Scout {
    fn add<'a>(&mut self, args: &[&'a [u8]], parts: &mut Vec<ObjectPart<'a>>) {
        if args.is_empty() {
            return;
        }
        let Ok(command) = TABLE.lookup(args) else {
            return;
        };
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
        debug_assert_eq!(self.count, parts.len(), "each key has its part");
        debug_assert_eq!(self.count, self.keys.len());
    }
}

impl IoThread<'_> {
    /// Looks ahead in `rest`, the requests of a connection after its first `used` bytes. Returns
    /// true if the connection must wait for values. Notes how far it has looked. Later requests are
    /// checked when the commands before them have been executed.
    pub(super) fn fetch(&mut self, index: usize, used: usize, rest: &[u8]) -> bool {
        let server = self.server;
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        debug_assert!(!connection.waiting && connection.fetching.is_none());
        let client = &connection.client;
        state.disk_waits.scout.keys.clear();
        state.disk_waits.scout.count = 0;
        // The part of its object that each key's command touches.
        let mut parts = Vec::new();
        // Queued commands are executed when EXEC arrives.
        let queued = client.transaction.iter().flat_map(|it| &it.commands);
        for words in queued {
            let args: SmallVec<[&[u8]; 16]> = words.iter().map(Vec::as_slice).collect();
            state.disk_waits.scout.add(&args, &mut parts);
        }
        let mut parser = Parser::new();
        let mut end = 0;
        for _ in 0..COMMANDS_MAX {
            let ahead = rest.get(end..).unwrap_or_default();
            let Ok(RequestProgress::Complete(length)) =
                parser.next(ahead, &limits::of_requests(server))
            else {
                // An incomplete request is parsed again when more has arrived.
                break;
            };
            // The values for a request with quotes (which a person typed) are read when it is
            // executed.
            let places = parser.places().iter();
            let args: SmallVec<[&[u8]; 16]> = places
                .filter_map(|place| ahead.get(place.clone()))
                .collect();
            end += length;
            state.disk_waits.scout.add(&args, &mut parts);
            if state.disk_waits.scout.count >= KEYS_MAX {
                break;
            }
        }
        let held = match state.disk_waits.scout.count {
            0 => Vec::new(),
            // While a script is running, values are read during the commands.
            _ => match server.keyspace.try_share() {
                Some(databases) => {
                    let scout = &mut state.disk_waits.scout;
                    scout.hold(server, &databases, client.database, &parts)
                }
                None => Vec::new(),
            },
        };
        // At least the next command is executed without another look.
        connection.fetched_bytes = used + end.max(1);
        if held.is_empty() {
            return false;
        }
        let until_ms = state.steady_ms + PATIENCE.as_millis() as u64;
        connection.waiting = true;
        connection.fetching = Some((until_ms, held.iter().map(ColdPlaceGuard::place).collect()));
        let shared = &connection.client.shared;
        // All wait for the same time, so the first one in the queue is the first to give up.
        debug_assert!(
            state
                .disk_waits
                .deadlines
                .back()
                .is_none_or(|last| last.until_ms <= until_ms)
        );
        state.disk_waits.deadlines.push_back(ClientDeadline {
            until_ms,
            client: shared.id,
        });
        match &mut state.disk_waits.reads {
            Some(reads) => reads.ask(&server.keyspace.cold, shared.id, held),
            None => server.fetcher.ask(Arc::clone(shared), held),
        }
        true
    }

    /// Continues with a connection after its values have arrived, or when they will not arrive.
    pub(super) fn resume_parked(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.fetching.take().is_none() {
            return;
        }
        connection.waiting = false;
        let ends = std::mem::take(&mut connection.ends_after_fetch);
        if std::mem::take(&mut connection.postponed) {
            self.ready.to_read.push(index);
        }
        self.process_input(index);
        // It may wait again, for the values of later requests.
        if let Some(connection) = self.connections.get_mut(index)
            && ends
        {
            if connection.fetching.is_some() {
                connection.ends_after_fetch = true;
            } else if !connection.yields {
                // A connection that yields is read again after its requests. Its end is found then.
                connection.client.closing = true;
                self.mark_dirty(index);
            }
        }
    }

    /// Replies with errors to commands that have waited for a disk for too long.
    pub(super) fn give_up_parked(&mut self) {
        while let Some(&ClientDeadline { until_ms, client }) = self.disk_waits.deadlines.front() {
            if until_ms > self.steady_ms {
                return;
            }
            self.disk_waits.deadlines.pop_front();
            let Some(&index) = self.by_client.get(&client) else {
                continue;
            };
            let fetching = self.connections[index].fetching.as_ref();
            let Some((until, places)) = fetching else {
                continue;
            };
            if *until > until_ms {
                // The values of an earlier wait have arrived. It waits again, for others.
                continue;
            }
            for place in places {
                self.server.keyspace.cold.give_up_waiting(*place);
            }
            self.resume_parked(index);
            self.execute_round();
        }
    }
}

impl Scout {
    /// Holds the places of values that are in files, once each.
    fn hold(
        &mut self,
        server: &crate::server::ServerCore,
        databases: &Databases,
        database: usize,
        parts: &[ObjectPart<'_>],
    ) -> Vec<ColdPlaceGuard> {
        let cold = &server.keyspace.cold;
        let mut held = Vec::<ColdPlaceGuard>::new();
        let mut hold = |place: ColdPlace| {
            let is_new = held.iter().all(|known| known.place() != place);
            if held.len() < KEYS_MAX && cold.waits(place) && is_new {
                held.push(ColdPlaceGuard::new(cold, place));
            }
        };
        let entries = databases.get(database).and_then(|it| it.entries());
        if entries.is_none_or(|entries| entries.execute(&mut self.keys).is_err()) {
            return Vec::new();
        }
        for (operation, part) in (0..self.count).zip(parts) {
            let stored = self.keys.value(operation).map(ValueRecord::parse);
            match stored.and_then(|record| Some((record.kind, record.outside()?))) {
                Some((_, Outside::Place(place))) => hold(place),
                Some((RedisType::List | RedisType::Hash, Outside::Slot(slot))) => {
                    // Nodes are held before the slot is closed, because they may be given up then.
                    let object = server.keyspace.slots.open(slot);
                    if let Some(parted) = object.as_ref().and_then(StoredObject::parted) {
                        parted.places(part, &mut hold);
                    }
                }
                _ => {}
            }
        }
        held
    }
}
