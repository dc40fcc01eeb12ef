//! The batch of a round: consecutive commands with plans, of all connections of a thread.
//!
//! # From commands to a batch
//!
//! [`CommandRound::add`] copies each request into the batch. The batch's operations refer to the
//! keys and values in that copy. [`CommandRound::execute`] then
//!
//! 1. chooses a phase of the keyspace. Commands that change several keys, and searches for the
//!    nearest key, need the exclusive phase. All other commands run in the shared phase.
//! 2. adds the operations of all commands to one [`Batch`], as the commands' plans demand, and
//!    locks the stripes of all keys that are changed, of commands that read several keys or an
//!    object, and of all keys of a batch that is folded. In the exclusive phase it needs no
//!    stripes.
//! 3. executes the batch and completes the commands, one after the other. In a batch that is folded
//!    (see [`InBatch`]) a second batch then writes the changes.
//! 4. logs the changes, while the stripes are held.
//!
//! Planning (2) and completing are independent of locks: an index that several servers share can
//! execute the writes of a folded batch as comparisons with the values that the first batch has
//! read.
//!
//! # The order in which clients see the changes
//!
//! The commands of a connection take effect in their order, also for clients of other threads:
//! local memory executes the operations of a batch in their order. A folded batch reads first and
//! writes afterwards, each key once. It therefore holds the stripes of the keys that it reads, too,
//! and its commands are executed one by one if they change keys alternately. One read may be late:
//! that of a string in a slot (a long one, or one that is changed in place) sees changes in place
//! that happened after the reads of later commands. Modules and pools keep the order of the
//! commands on each key alone.
//!
//! # Execution without a batch
//!
//! If writes are observed or refused, or if a script holds the keyspace for long, the commands are
//! executed one by one, with all side effects of commands outside of batches.

mod pending;
mod writes;

use crate::client::ClientSession;
use crate::command::{Batchables, PlannedCommand, Touch, Usual};
use crate::commands::TABLE;
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::execute::{CommandTally, Executor};
use crate::keyspace::record::{HEAD_BYTES_MAX, PLAIN_STRING};
use crate::keyspace::stripes::{KeyStripes, StripeSet};
use crate::keyspace::{BatchEffects, BatchValueChanges, Database, Databases, InBatch, Outside};
use crate::resp::repeated::RequestHead;
use crate::resp::{Parser, RequestLimits, RespReply, encode};
use crate::server::ServerCore;
use nearfield::{Batch, ByteStrings, ScanDirection};
use nearfield_core::ArenaSpan;
use pending::{BatchCommandKind, BatchCommands, Needs};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Commands that are executed as one batch, and the connections that sent them.
#[derive(Debug)]
pub struct CommandRound {
    names: &'static Batchables,
    /// The database of all commands of the batch.
    database: usize,
    sent: BatchCommands,
    /// The outputs of the commands, in the same order, once they are completed.
    outputs: Vec<CommandOutputRanges>,
    needs: Needs,
    /// Number of operations of all commands.
    operations: usize,
    tallies: Vec<CommandTally>,
    /// The index of the tally of the last command.
    tally: usize,
    /// The head of the last request, if the next one may be recognized by it.
    head: Option<RequestHead>,
    batch: Batch<ByteStrings>,
    folded: BatchValueChanges,
    writes: Batch<ByteStrings>,
    /// Slots and places that belong to replaced records, each with its get.
    retired: Vec<(u32, Outside)>,
    /// The gets of keys that another server has changed meanwhile.
    conflicts: Vec<u32>,
    /// Replies in place of the first ones, each with the position of its command.
    corrections: Vec<(usize, RespReply)>,
    ledger: BatchEffects,
    /// Uses of keys since the last sample of the keys that are used most.
    uses: u32,
    /// True if other servers change the same keys.
    is_shared: bool,
}

/// The ranges of a command's parts in the reply and in the log.
#[derive(Clone, Debug, Default)]
struct CommandOutputRanges {
    reply: Range<usize>,
    log: Range<usize>,
    /// True if the command has changed an object in place, which cannot be taken back.
    in_place: bool,
}

/// Longest word of a command in a batch, which copies it.
const WORD_BYTES_MAX: usize = 4096;

/// Number of operations after which a batch ends.
const OPERATIONS_MAX: usize = 1024;

/// Largest number of words of a command in a batch: its name, and a key and a value for each
/// operation.
const WORDS_MAX: usize = 1 + 2 * OPERATIONS_MAX;

/// Number of words of a batch that are referred to without an allocation.
const WORDS_INLINE: usize = 64;

/// Bytes from which a reply is checked against the memory that clients may take.
const LONG_REPLY_BYTES: usize = 64 << 10;
/// Bytes left for clients below which each reply is checked against the rest.
const ROOM_BYTES_LOW: usize = 64 << 20;

/// The outcome of adding a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchAdmission {
    /// The command is part of the batch.
    Yes,
    /// The command can be part of the next batch only.
    Later,
    /// The command must be executed by itself.
    Never,
}

/// The clients of a round, and their replies.
pub trait RoundClients {
    /// Returns the client of a connection, and the buffer for its replies.
    fn client(&mut self, connection: u32) -> (&mut ClientSession, &mut RespReply);
}

impl CommandRound {
    /// Creates a round of a server. `is_shared` is true if other servers share its keys.
    pub fn new(is_shared: bool) -> CommandRound {
        // Of a value that a command replaces without reading it, only the references to slots and
        // places are needed.
        let mut batch = Batch::new();
        batch.cut_replaced(HEAD_BYTES_MAX);
        let writes = batch.clone();
        CommandRound {
            names: TABLE.batchables(),
            database: 0,
            sent: BatchCommands::default(),
            outputs: Vec::new(),
            needs: Needs::default(),
            operations: 0,
            tallies: Vec::new(),
            tally: 0,
            head: None,
            batch,
            folded: BatchValueChanges::default(),
            writes,
            retired: Vec::new(),
            conflicts: Vec::new(),
            corrections: Vec::new(),
            ledger: BatchEffects::default(),
            uses: 0,
            is_shared,
        }
    }

    /// Returns true if the round must be executed before more is added.
    fn is_full(&self) -> bool {
        self.operations >= OPERATIONS_MAX
    }

    /// Adds the request at the beginning of `bytes` if it has the same head as the last one.
    /// Returns the request's end.
    #[inline]
    pub fn add_again(
        &mut self,
        connection: u32,
        database: usize,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Option<usize> {
        let head = self.head.as_ref().filter(|_| database == self.database)?;
        let kind = self.sent.last_kind()?;
        let (keys, writes) = (kind.keys as usize, kind.writes);
        let words = &mut self.sent.words;
        let (before, start) = (words.len(), self.batch.staged_end());
        let word =
            |place: Range<usize>| words.push(ArenaSpan::new(start + place.start, place.len()));
        let end = head.find(bytes, limits, word);
        let request = end.and_then(|end| self.batch.stage(bytes.get(..end)?).ok());
        let Some(request) = request else {
            self.sent.words.truncate(before);
            return None;
        };
        self.count(keys, writes, request.length());
        self.sent.push(connection, request, before, self.operations);
        self.operations += keys;
        end
    }

    /// Counts a command of the last kind.
    #[inline]
    fn count(&mut self, keys: usize, writes: bool, bytes: usize) {
        if writes {
            self.needs.written_keys += keys;
            self.needs.written_bytes += bytes;
        }
        if let Some(tally) = self.tallies.get_mut(self.tally) {
            tally.calls += 1;
            tally.operations += keys;
        }
    }

    /// Adds the first request of a round, as [`add`](CommandRound::add) does, and notes it as the
    /// client's last command. Returns true if it was added.
    pub fn add_first(
        &mut self,
        connection: u32,
        client: &ClientSession,
        parser: &Parser,
        bytes: &[u8],
    ) -> bool {
        let is_added = self.add(connection, client.database, parser, bytes) == BatchAdmission::Yes;
        is_added && {
            self.note_and_has_room(client);
            true
        }
    }

    /// Adds the request that `parser` has found, and that is all of `bytes`, if batches support it.
    #[inline]
    pub fn add(
        &mut self,
        connection: u32,
        database: usize,
        parser: &Parser,
        bytes: &[u8],
    ) -> BatchAdmission {
        let count = parser.argument_count();
        let name = parser.argument(bytes, 0);
        // Clients mostly send the same command again. The kind of the last one applies to it.
        let last = self.sent.last_kind();
        let again = last.filter(|last| database == self.database && last.is_sent_as(name, count));
        let (keys, writes, new) = match again {
            Some(kind) => (kind.keys as usize, kind.writes, None),
            None => match self.begin(database, name, count) {
                Ok(kind) => (kind.keys as usize, kind.writes, Some(kind)),
                Err(added) => return added,
            },
        };
        let words = self.sent.words.len();
        let Some(request) = self.copy(parser, bytes) else {
            return BatchAdmission::Never;
        };
        if let Some(kind) = new {
            self.database = database;
            self.needs.add(&kind);
            self.tally = self.tally_of(kind.batchable.number);
            self.head = RequestHead::of(bytes, parser.places());
            self.sent.begin_kind(kind);
        }
        self.count(keys, writes, request.len());
        let request = ArenaSpan::new(request.start, request.len());
        self.sent.push(connection, request, words, self.operations);
        self.operations += keys;
        BatchAdmission::Yes
    }

    /// Copies a request into the batch, in the form of the log, and notes its words. Returns the
    /// copy's range, or `None` if a word is too long.
    #[inline]
    fn copy(&mut self, parser: &Parser, bytes: &[u8]) -> Option<Range<usize>> {
        let places = parser.places();
        if !encode::is_encoded(bytes, places) {
            return self.copy_encoded(parser, bytes);
        }
        let is_long = |place: &Range<usize>| place.len() > WORD_BYTES_MAX;
        if bytes.len() > WORD_BYTES_MAX && places.iter().any(is_long) {
            return None;
        }
        let start = self.batch.stage(bytes).ok()?.start();
        let word = |place: &Range<usize>| ArenaSpan::new(start + place.start, place.len());
        self.sent.words.extend(places.iter().map(word));
        Some(start..start + bytes.len())
    }

    /// Copies a request that is a line, or that is otherwise not in the form of the log.
    #[cold]
    fn copy_encoded(&mut self, parser: &Parser, bytes: &[u8]) -> Option<Range<usize>> {
        let words: Vec<&[u8]> = parser.arguments(bytes).collect();
        if words.iter().any(|word| word.len() > WORD_BYTES_MAX) {
            return None;
        }
        let mut request = Vec::new();
        encode::words(&mut request, &words);
        let staged = self.batch.stage(&request).ok()?.start();
        let mut end = staged + encode::head_bytes(words.len());
        for word in words {
            let start = end + encode::head_bytes(word.len());
            self.sent.words.push(ArenaSpan::new(start, word.len()));
            end = start + word.len() + encode::LINE_END.len();
        }
        Some(staged..end)
    }

    /// Returns the kind of a command with `count` words, including its name, before its words are
    /// added. Returns the reason if it cannot be added.
    fn begin(
        &self,
        database: usize,
        name: &[u8],
        count: usize,
    ) -> Result<BatchCommandKind, BatchAdmission> {
        let (batchable, name) = self.names.find(name).ok_or(BatchAdmission::Never)?;
        let command = batchable.command;
        if !command.accepts(count) || self.is_shared && !command.is_for_pools() {
            return Err(BatchAdmission::Never);
        }
        let kind = BatchCommandKind::new(batchable, name, count);
        if kind.keys as usize > OPERATIONS_MAX || count > WORDS_MAX {
            return Err(BatchAdmission::Never);
        }
        let (several, fold) = (kind.keys > 1, kind.folds());
        if self.is_shared && (fold || self.needs.fold) && (several || self.needs.several) {
            // Some of the comparisons at the end of a fold may fail. A command on several keys
            // would then be done in part. A command that only reads would run again, and see the
            // effects of later commands of its connection on the other keys.
            return Err(match self.sent.is_empty() {
                true => BatchAdmission::Never,
                false => BatchAdmission::Later,
            });
        }
        if !self.sent.is_empty()
            && (database != self.database
                || kind.writes && self.needs.nearest
                || kind.is_nearest() && self.needs.writes)
        {
            return Err(BatchAdmission::Later);
        }
        Ok(kind)
    }

    /// Notes the last command, which this client sent. Returns true if there is room for more.
    #[inline]
    pub fn note_and_has_room(&self, client: &ClientSession) -> bool {
        let last = self.tallies.get(self.tally).map(|tally| tally.number);
        client.shared.listed.note(last);
        self.counts_and_has_room(client)
    }

    /// Counts the last command, which this client sent. Returns true if there is room for more.
    #[inline]
    pub fn counts_and_has_room(&self, client: &ClientSession) -> bool {
        client.shared.listed.count_command();
        !self.is_full()
    }

    /// Returns the index of the tally of the command of this number.
    fn tally_of(&mut self, number: usize) -> usize {
        let mut tallies = self.tallies.iter();
        if let Some(place) = tallies.position(|tally| tally.number == number) {
            return place;
        }
        self.tallies.push(CommandTally {
            number,
            calls: 0,
            operations: 0,
            failed: 0,
        });
        self.tallies.len() - 1
    }

    /// Executes the commands and writes the replies.
    pub fn execute(
        &mut self,
        executor: &mut Executor<'_>,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) {
        if self.sent.is_empty() {
            return;
        }
        executor.pause();
        let server = executor.server();
        let room = !self.needs.grows
            || !server
                .eviction
                .may_exceed_limit(&server.keyspace, &server.access)
            || executor.make_room(now_ms);
        if room && self.execute_in_phase(executor, now_ms, clients) {
            server.batches.count(self.sent.len());
            if !self.conflicts.is_empty() {
                self.execute_again(executor, now_ms, clients);
            }
            if !self.corrections.is_empty() {
                self.correct_replies(clients);
            }
            self.note_uses(server);
        } else {
            self.execute_singly(executor, now_ms, clients);
        }
        self.sent.clear();
        self.head = None;
        self.needs = Needs::default();
        self.operations = 0;
        self.tallies.clear();
        self.batch.clear();
    }

    /// Executes the commands as one batch in the phase that they need. Returns false if that is not
    /// possible.
    fn execute_in_phase(
        &mut self,
        executor: &Executor<'_>,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) -> bool {
        let server = executor.server();
        let locks = self.needs.writes || self.needs.several;
        if locks
            && server.balance.active() == 1
            && let Some(databases) = server.keyspace.try_exclude()
        {
            // No other thread serves connections, so none waits. One lock replaces the stripes.
            self.needs.alone = true;
            return self.execute_as_batch(executor, &databases, now_ms, clients);
        }
        if self.needs.alone {
            let databases = server.exclude_unless_busy();
            return databases.is_some_and(|databases| {
                self.execute_as_batch(executor, &databases, now_ms, clients)
            });
        }
        let databases = executor.server().share_unless_busy();
        databases
            .is_some_and(|databases| self.execute_as_batch(executor, &databases, now_ms, clients))
    }

    /// Executes the commands as one batch. Returns false if that is not possible, for example
    /// because writes are observed.
    #[expect(
        clippy::indexing_slicing,
        reason = "only databases that exist are selected"
    )]
    fn execute_as_batch(
        &mut self,
        executor: &Executor<'_>,
        databases: &Databases,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) -> bool {
        let server = executor.server();
        let keyspace = &server.keyspace;
        if self.needs.writes && (keyspace.is_observed() || server.refuses_writes())
            || server.scripts.watchdog.is_given_up()
        {
            return false;
        }
        let database = &databases[self.database];
        let Ok(entries) = database.entries_or_create() else {
            return false;
        };
        if let Some(prefix) = entries.prefix() {
            for number in self.sent.iter().flat_map(|(sent, kind)| sent.keys(kind)) {
                // The prefix replaces the line end before the key.
                let stored = self.sent.word(number).with_byte_before();
                if let Some(first) = self.batch.staged_mut(stored).first_mut() {
                    *first = prefix;
                }
            }
        }
        let started = Instant::now();
        let stripes = self.plan(&keyspace.stripes, entries.prefix().is_some());
        if self.needs.fold
            && !self.needs.alone
            && keyspace.home.keeps_order()
            && !self.folded.keeps_order()
        {
            return false;
        }
        let held = if self.needs.alone {
            SmallVec::new()
        } else {
            keyspace.stripes.lock_all(&stripes)
        };
        if entries.execute(&mut self.batch).is_err() {
            return false;
        }
        self.ledger.clear();
        self.ledger.logging = self.needs.writes && server.log.is_on();
        // Prefixes replace line ends of the requests, which the log would then lack.
        debug_assert!(!self.ledger.logging || entries.prefix().is_none());
        self.complete(server, database, now_ms, clients);
        if self.needs.fold {
            self.write(keyspace, database, entries, clients);
        } else {
            let refused = self.ledger.notes.apply(database);
            debug_assert!(refused.is_empty(), "no command has given a key a time");
        }
        if !self.ledger.log.is_empty() {
            let position = server.log.append_encoded(self.database, &self.ledger.log);
            for ((pending, _), output) in self.sent.iter().zip(&self.outputs) {
                if !output.log.is_empty() {
                    clients.client(pending.connection).0.logged_up_to = position;
                }
            }
        }
        drop(held);
        let ledger = &self.ledger;
        for (counter, count) in [
            (&keyspace.hits, ledger.hits),
            (&keyspace.misses, ledger.misses),
            (&keyspace.changes, ledger.changes),
            (&keyspace.expired_keys, ledger.expired),
            (&keyspace.expired_fields, ledger.expired_fields),
        ] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
        executor.count_batch(&self.tallies, self.operations, started);
        true
    }

    /// Adds the operations of all commands to the batch, and returns the stripes that they need. If
    /// `prefixed`, stored keys begin with the byte before them.
    fn plan(&mut self, stripes: &KeyStripes, prefixed: bool) -> StripeSet {
        let mut set = StripeSet::default();
        if self.needs.fold {
            self.folded.clear();
        }
        for (pending, kind) in self.sent.iter() {
            debug_assert!(self.needs.fold || self.batch.len() == pending.first as usize);
            // Keys that a folded batch has read do not change until it is written. Its commands
            // thus take effect in their order, although all read before any writes.
            let locks = (kind.locks || self.needs.fold) && !self.needs.alone;
            for number in pending.keys(kind) {
                let key = self.sent.word(number);
                let stored_key = match prefixed {
                    true => key.with_byte_before(),
                    false => key,
                };
                if self.needs.fold {
                    let hash_of = |key: &[u8]| stripes.hash(key);
                    let (batch, writes) = (&mut self.batch, kind.writes);
                    let hash = self.folded.add(batch, key, stored_key, writes, hash_of);
                    if locks {
                        set.add(hash);
                    }
                    continue;
                }
                if locks {
                    set.add(stripes.hash(self.batch.staged(key)));
                }
                match kind.touch {
                    Touch::Read | Touch::Change => self.batch.get_staged(stored_key),
                    Touch::Set => {
                        let value = self.sent.word(number + 1).with_byte_before();
                        // The line end before the value is the tag of a plain string.
                        debug_assert_eq!(self.batch.staged(value).first(), Some(&PLAIN_STRING));
                        self.batch.insert_staged(stored_key, value)
                    }
                    Touch::Remove => self.batch.remove_staged(stored_key),
                    Touch::Nearest(direction) => {
                        let direction =
                            direction(&self.sent.words_of(&self.batch, (pending, kind)));
                        match direction {
                            ScanDirection::Ascending => self.batch.successor_staged(stored_key),
                            ScanDirection::Descending => self.batch.predecessor_staged(stored_key),
                        }
                    }
                };
            }
        }
        set
    }

    /// Completes the commands, one after the other.
    fn complete(
        &mut self,
        server: &ServerCore,
        database: &Database,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) {
        self.outputs.clear();
        let batch = &self.batch;
        let mut words: SmallVec<[&[u8]; WORDS_INLINE]> = SmallVec::new();
        // The outcome of a command is not needed if its completion is all of its work.
        let keeps_outputs = self.needs.fold || self.ledger.logging;
        let mut room = server.clients.share.room();
        for (pending, kind) in self.sent.iter() {
            let reply = clients.client(pending.connection).1;
            let writes = kind.writes;
            if !writes && reply.is_cut() {
                self.outputs.push(CommandOutputRanges::default());
                continue;
            }
            if room < ROOM_BYTES_LOW {
                // Replies of this batch to other clients do not count towards those clients' memory
                // yet.
                reply.leave_room_for(room.max(LONG_REPLY_BYTES));
            }
            // Ranges in the replies of a folded batch may be overwritten later.
            if !self.needs.fold {
                reply.set_apart();
            }
            let start = reply.len();
            self.ledger.begin();
            let usual = kind.usual.filter(|_| !self.needs.fold);
            let met = usual.and_then(|_| batch.value(pending.first as usize));
            let answer = match (usual, met) {
                (Some(usual), Some([PLAIN_STRING, string @ ..])) => {
                    match usual {
                        Usual::Read => {
                            self.ledger.hits += 1;
                            reply.bulk(string);
                        }
                        Usual::Set => {
                            self.ledger.changes += 1;
                            reply.ok();
                        }
                    }
                    Ok(())
                }
                _ => {
                    if words.is_empty() {
                        words.extend(self.sent.words.iter().map(|&word| batch.staged(word)));
                    }
                    let args = words.get(pending.words(kind)).unwrap_or_default();
                    let first = pending.first as usize;
                    let keys = InBatch {
                        keyspace: &server.keyspace,
                        database,
                        batch,
                        first,
                        operation: first,
                        folded: self.needs.fold.then_some(&mut self.folded),
                        ledger: &mut self.ledger,
                        writes,
                        now_ms,
                        part: (kind.batchable.command.part, args),
                    };
                    let mut planned =
                        PlannedCommand::in_batch(args, kind.step as usize, keys, reply);
                    (kind.batchable.plan.complete)(&mut planned)
                }
            };
            let made = reply.len().saturating_sub(start);
            if made >= LONG_REPLY_BYTES {
                room = room.saturating_sub(made);
            }
            let log = match writes {
                true => self.ledger.end(batch.staged(pending.request)),
                false => 0..0,
            };
            if let Err(error) = answer {
                reply.truncate(start);
                refuse(
                    server,
                    &mut self.tallies,
                    kind.batchable.number,
                    &error,
                    reply,
                );
            }
            if !keeps_outputs {
                continue;
            }
            let reply = start..reply.len();
            let in_place = self.ledger.in_place;
            self.outputs.push(CommandOutputRanges {
                reply,
                log,
                in_place,
            });
        }
        debug_assert!(!keeps_outputs || self.outputs.len() == self.sent.len());
    }

    /// Notes the uses of the keys, and the memory that the writes may take.
    fn note_uses(&mut self, server: &ServerCore) {
        if self.needs.writes {
            let Needs {
                written_keys,
                written_bytes,
                ..
            } = self.needs;
            server.eviction.note_writes(written_keys, written_bytes);
        }
        let noting = server.access.noting();
        for (pending, kind) in self.sent.iter() {
            if !kind.uses_keys {
                continue;
            }
            for word in pending.keys(kind) {
                noting.note(self.database, self.batch.staged(self.sent.word(word)));
            }
        }
        drop(noting);
        self.uses += self.operations as u32;
        while self.uses >= USES_PER_SAMPLE {
            self.uses -= USES_PER_SAMPLE;
            let sent = self.sent.get(rand::random_range(0..self.sent.len()));
            if let Some((pending, kind)) = sent.filter(|(_, kind)| kind.uses_keys)
                && let Some(word) = pending
                    .keys(kind)
                    .nth(rand::random_range(0..kind.keys as usize))
            {
                let key = self.batch.staged(self.sent.word(word));
                server.access.hot_keys.sample(self.database, key);
            }
        }
    }

    /// Executes the commands one by one, with all side effects of commands outside of batches.
    fn execute_singly(
        &self,
        executor: &mut Executor<'_>,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) {
        for (pending, kind) in self.sent.iter() {
            let (client, reply) = clients.client(pending.connection);
            if kind.writes || !reply.is_cut() {
                let words = self.sent.words_of(&self.batch, (pending, kind));
                executor.run(client, &words, now_ms, reply);
            }
        }
    }
}

/// Replies that a command has failed, and counts that.
#[cold]
fn refuse(
    server: &ServerCore,
    tallies: &mut [CommandTally],
    number: usize,
    error: &CommandError,
    reply: &mut RespReply,
) {
    let mut tallies = tallies.iter_mut();
    if let Some(tally) = tallies.find(|tally| tally.number == number) {
        tally.failed += 1;
    }
    let text = error.to_string();
    server.statistics.count_error(&text);
    reply.error(&text);
}
