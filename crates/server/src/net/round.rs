//! The batch of a round: reads and writes of strings that follow each other.

use super::limits;
use crate::client::Client;
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::execute::Executor;
use crate::keyspace::record::PLAIN_STRING;
use crate::keyspace::{Database, Databases, Keyspace, Kind, Payload, Record};
use crate::log::Log;
use crate::object::{Container, Text};
use crate::resp::{Parser, Reply};
use crate::server::Server;
use nearfield::{Batch, Bytes};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Commands that are executed as one batch, and whom each is of.
#[derive(Debug)]
pub struct Round {
    batch: Batch<Bytes>,
    pending: Vec<Pending>,
    /// All commands of a batch are of one database.
    database: usize,
    /// The stripes of keys that are written.
    stripes: Vec<u16>,
    /// The value being put together.
    value: Vec<u8>,
    /// The bytes of keys and values that are written.
    written_bytes: usize,
    /// Uses of keys since one was looked at, to find those that are used most.
    uses: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    connection: u32,
    write: bool,
}

/// The longest value that goes through a batch, which copies it.
const VALUE_BYTES_MAX: usize = 4096;

/// More commands than this are executed as several batches.
const COMMANDS_MAX: usize = 1024;

/// What a connection gives and takes when the commands of a round are executed.
pub trait Clients {
    /// The client of a connection and where its answers are written.
    fn client(&mut self, connection: u32) -> (&mut Client, &mut Reply);
}

impl Default for Round {
    fn default() -> Self {
        Round {
            batch: Batch::new(),
            pending: Vec::new(),
            database: 0,
            stripes: Vec::new(),
            value: Vec::new(),
            written_bytes: 0,
            uses: 0,
        }
    }
}

impl Round {
    /// True if the round has to be executed before more is added.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= COMMANDS_MAX
    }

    /// Adds the request that `parser` has found in `bytes`, if it is one for a batch: a plain GET
    /// or SET.
    #[inline]
    pub fn add(
        &mut self,
        keyspace: &Keyspace,
        connection: u32,
        database: usize,
        parser: &Parser,
        bytes: &[u8],
    ) -> bool {
        let count = parser.argument_count();
        if count != 2 && count != 3 {
            return false;
        }
        if database != self.database {
            if !self.pending.is_empty() {
                return false;
            }
            self.database = database;
        }
        let name = parser.argument(bytes, 0);
        let write = count == 3;
        if !name.eq_ignore_ascii_case(if write { b"SET" } else { b"GET" }) {
            return false;
        }
        let key = parser.argument(bytes, 1);
        if write {
            let value = parser.argument(bytes, 2);
            if value.len() > VALUE_BYTES_MAX || key.len() > VALUE_BYTES_MAX {
                return false;
            }
            self.value.clear();
            self.value.push(PLAIN_STRING);
            self.value.extend_from_slice(value);
            self.batch.insert(key, &self.value);
            self.written_bytes += key.len() + value.len();
            self.stripes.push(keyspace.stripes.of(key));
        } else {
            self.batch.get(key);
        }
        self.pending.push(Pending { connection, write });
        true
    }

    /// Executes what was added and writes the answers.
    pub fn execute(
        &mut self,
        executor: &mut Executor<'_>,
        now_ms: u64,
        clients: &mut impl Clients,
    ) {
        if self.pending.is_empty() {
            return;
        }
        executor.pause();
        let server = executor.server();
        let room = self.stripes.is_empty()
            || !server
                .eviction
                .may_be_over(&server.keyspace, &server.access)
            || executor.make_room(now_ms);
        let databases = if room { executor.share() } else { None };
        let executed = databases
            .is_some_and(|databases| self.execute_as_batch(executor, &databases, now_ms, clients));
        if executed {
            server.batches.count(self.pending.len());
            self.note_uses(server);
        } else {
            self.execute_singly(executor, now_ms, clients);
        }
        self.written_bytes = 0;
        self.pending.clear();
        self.stripes.clear();
        self.batch.clear();
    }

    /// Executes the commands as one batch, unless somebody wants to know of each.
    #[expect(
        clippy::indexing_slicing,
        reason = "only databases that exist are selected"
    )]
    fn execute_as_batch(
        &mut self,
        executor: &Executor<'_>,
        databases: &Databases,
        now_ms: u64,
        clients: &mut impl Clients,
    ) -> bool {
        let server = executor.server();
        let keyspace = &server.keyspace;
        let writes = !self.stripes.is_empty();
        if writes && (keyspace.is_observed() || server.refuses_writes()) {
            return false;
        }
        let database = &databases[self.database];
        let Ok(entries) = database.entries_or_create() else {
            return false;
        };
        let started = Instant::now();
        let mut guards = Vec::new();
        keyspace.stripes.lock_all(&mut self.stripes, &mut guards);
        if entries.execute(&mut self.batch).is_err() {
            return false;
        }
        if writes && server.log.is_on() {
            self.log(&server.log, clients);
        }
        let (mut hits, mut misses) = (0, 0);
        for (position, pending) in self.pending.iter().enumerate() {
            let (client, reply) = clients.client(pending.connection);
            if pending.write {
                self.settle(position, keyspace, database, reply);
            } else if limits::is_too_much(server, client, reply) {
                misses += 1;
            } else if self.answer(position, keyspace, now_ms, reply) {
                hits += 1;
            } else {
                misses += 1;
            }
        }
        keyspace.hits.fetch_add(hits, Ordering::Relaxed);
        keyspace.misses.fetch_add(misses, Ordering::Relaxed);
        let written = (self.pending.len() as u64) - hits - misses;
        keyspace.changes.fetch_add(written, Ordering::Relaxed);
        executor.count_batch(hits + misses, written, started.elapsed());
        true
    }

    /// Logs the writes, while the stripes of their keys are held.
    fn log(&self, log: &Log, clients: &mut impl Clients) {
        let mut appender = log.appender();
        for position in 0..self.pending.len() {
            if let Some((key, Some(value))) = self.words(position)
                && !matches!(self.batch.outcome(position), nearfield::Outcome::Failed(_))
            {
                appender.set(self.database, key, value);
            }
        }
        let position = appender.finish();
        for pending in self.pending.iter().filter(|pending| pending.write) {
            clients.client(pending.connection).0.logged_up_to = position;
        }
    }

    /// Notes that the keys are used, and what the writes may take.
    fn note_uses(&mut self, server: &Server) {
        if self.written_bytes > 0 {
            let writes = self.pending.iter().filter(|pending| pending.write).count();
            server.eviction.note_writes(writes, self.written_bytes);
        }
        let noting = server.access.noting();
        for position in 0..self.pending.len() {
            if let Some((key, _)) = self.words(position) {
                noting.note(self.database, key);
            }
        }
        drop(noting);
        self.uses += self.pending.len() as u32;
        while self.uses >= USES_PER_SAMPLE {
            self.uses -= USES_PER_SAMPLE;
            let position = rand::random_range(0..self.pending.len());
            if let Some((key, _)) = self.words(position) {
                server.access.hot_keys.sample(self.database, key);
            }
        }
    }

    /// Answers a write, and gives up what it has replaced.
    fn settle(&self, position: usize, keyspace: &Keyspace, database: &Database, reply: &mut Reply) {
        match self.batch.value(position) {
            Some([PLAIN_STRING, ..]) => {}
            Some(old) => {
                let old = Record::parse(old);
                if let Some(slot) = old.slot() {
                    keyspace.slots.retire(slot);
                }
                if old.expires_at_ms.is_some()
                    && let Some((key, _)) = self.words(position)
                    && let Err(error) = database.note_expiry(key, old.expires_at_ms, None)
                {
                    reply.error(&CommandError::from(error).to_string());
                    return;
                }
            }
            None => {
                if let nearfield::Outcome::Failed(error) = self.batch.outcome(position) {
                    reply.error(&CommandError::from(error).to_string());
                    return;
                }
            }
        }
        reply.ok();
    }

    /// Answers a read; false if there is no key.
    fn answer(&self, position: usize, keyspace: &Keyspace, now_ms: u64, reply: &mut Reply) -> bool {
        let Some(stored) = self.batch.value(position) else {
            reply.null();
            return false;
        };
        let record = Record::parse(stored);
        if record.is_expired(now_ms) {
            // It is deleted when expired keys are looked for.
            reply.null();
            return false;
        }
        match record.payload {
            _ if record.kind != Kind::String => reply.error(&CommandError::WrongType.to_string()),
            Payload::Inline(value) => reply.bulk(value),
            Payload::InSlot(slot) => {
                let object = keyspace.slots.open(slot);
                let text = object.as_ref().and_then(Text::of);
                reply.bulk(text.map_or(&b""[..], Text::bytes));
            }
        }
        true
    }

    /// The key, and the value if it is a write, of the command at `position`.
    fn words(&self, position: usize) -> Option<(&[u8], Option<&[u8]>)> {
        let input = self.batch.input().ok()?;
        match *input.operations().get(position)? {
            nearfield_core::Operation::Get { key } => Some((input.key(key), None)),
            nearfield_core::Operation::Insert { key, value } => {
                Some((input.key(key), input.value(value).get(1..)))
            }
            _ => None,
        }
    }

    /// Executes the commands one by one, each with all that a command may bring with it.
    fn execute_singly(&self, executor: &mut Executor<'_>, now_ms: u64, clients: &mut impl Clients) {
        for (position, pending) in self.pending.iter().enumerate() {
            let (client, reply) = clients.client(pending.connection);
            match self.words(position) {
                Some((_, None)) if limits::is_too_much(executor.server(), client, reply) => None,
                Some((key, None)) => executor.run(client, &[b"GET", key], now_ms, reply),
                Some((key, Some(value))) => {
                    executor.run(client, &[b"SET", key, value], now_ms, reply)
                }
                None => {
                    reply.error("ERR the key or value is too long");
                    None
                }
            };
        }
    }
}
