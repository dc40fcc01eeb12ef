//! The batch of a round: commands with plans that follow each other, of all connections of a
//! thread.
//!
//! # From commands to a batch
//!
//! [`Round::add`] keeps the words of each command. [`Round::execute`] then
//!
//! 1. chooses a phase of the keyspace. Commands that change several keys, and searches for the
//!    nearest key, need the exclusive phase, because single reads hold no stripe and would see
//!    half of the change, or a key that was never the nearest one. All others share.
//! 2. adds the operations of all commands to one [`Batch`], as the commands' plans say, and takes
//!    the stripes of all keys that are changed and of commands that read several keys.
//! 3. executes the batch and completes the commands, one after the other. In a batch that is
//!    folded (see [`InBatch`]) a second batch then writes what was changed.
//! 4. logs what was changed, while the stripes are held.
//!
//! Planning (2) and completing know nothing of locks: an index that several servers share can
//! execute the writes of a folded batch as comparisons with what the first batch has read.
//!
//! # When there is no batch
//!
//! If somebody observes each write, if writes are refused, or if a script holds the keyspace for
//! long, the commands are executed one by one, with all that a command may bring with it.

use super::limits;
use crate::client::Client;
use crate::command::{
    Batchable, Batchables, Flags, NAME_BYTES_MAX, Planned, Touch, batchables, packed,
};
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::execute::{Executor, Tally};
use crate::keyspace::record::{HEAD_BYTES_MAX, PLAIN_STRING, is_plain};
use crate::keyspace::stripes::{StripeSet, Stripes};
use crate::keyspace::{
    Database, Databases, Folded, InBatch, Index, Keyspace, Ledger, Outside, Record,
};
use crate::resp::{Parser, Reply};
use crate::server::Server;
use nearfield::{Batch, Bytes, Direction, Outcome};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Commands that are executed as one batch, and the connections that they are of.
#[derive(Debug)]
pub struct Round {
    names: &'static Batchables,
    /// All commands of a batch are of one database.
    database: usize,
    pending: Vec<Pending>,
    /// What the commands have told, in the same order, once they are completed.
    told: Vec<Told>,
    words: Words,
    needs: Needs,
    /// The operations of all commands.
    operations: usize,
    tallies: Vec<Tally>,
    /// The place of the tally of the command that was added last.
    tally: usize,
    batch: Batch<Bytes>,
    folded: Folded,
    /// The words that are the keys of the gets of a batch that is folded.
    keys: Vec<u32>,
    writes: Batch<Bytes>,
    /// What records that writes have replaced refer to, each with its get.
    retired: Vec<(u32, Outside)>,
    /// The gets whose keys another server has changed meanwhile.
    conflicts: Vec<u32>,
    ledger: Ledger,
    /// Uses of keys since one was looked at, to find those that are used most.
    uses: u32,
    /// Other servers change the same keys.
    is_shared: bool,
}

/// A command of a batch.
#[derive(Clone, Copy, Debug)]
struct Pending {
    connection: u32,
    batchable: &'static Batchable,
    touch: Touch,
    /// Its name as it was sent.
    name: [u8; NAME_BYTES_MAX],
    /// Its first word behind the name, and how many there are.
    words: u32,
    count: u32,
    /// Its number of keys, and the step from one to the next.
    keys: u32,
    step: u32,
    /// Its first operation.
    first: u32,
}

/// Where a command's parts of the reply and of the log lie.
#[derive(Clone, Debug, Default)]
struct Told {
    reply: Range<usize>,
    log: Range<usize>,
}

/// The words of commands, one behind the other, each behind a byte that makes the stored form of
/// a string of it.
#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    /// Where each ends. The next one begins there.
    ends: Vec<usize>,
    /// Keys have the prefix of the index in place of that byte.
    prefixed: bool,
}

/// The words of a command, its name first.
type Arguments<'w> = SmallVec<[&'w [u8]; 16]>;

/// What the commands of a batch need.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Keys are changed.
    writes: bool,
    /// Memory may be taken.
    grows: bool,
    /// Some command decides by what it reads.
    fold: bool,
    /// Some command has several keys.
    several: bool,
    /// The keyspace for itself.
    alone: bool,
    /// The nearest key is searched for, which has to see the writes before it in the index.
    nearest: bool,
    /// Keys that are changed, and the bytes of the commands that do so.
    written_keys: usize,
    written_bytes: usize,
}

/// The longest word of a command that goes through a batch, which copies it.
const WORD_BYTES_MAX: usize = 4096;

/// Batches end with the command that has more operations than this.
const OPERATIONS_MAX: usize = 1024;

/// What becomes of a command that is to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is part of the batch.
    Yes,
    /// It can be part of the next batch only.
    Later,
    /// It is to be executed by itself.
    Never,
}

/// What a connection gives and takes when the commands of a round are executed.
pub trait Clients {
    /// The client of a connection and where its answers are written.
    fn client(&mut self, connection: u32) -> (&mut Client, &mut Reply);
}

impl Needs {
    /// Adds what a command needs, apart from what is written.
    fn add(&mut self, pending: &Pending) {
        let (several, writes) = (pending.keys > 1, pending.writes());
        self.nearest |= pending.is_nearest();
        self.several |= several;
        self.alone |= pending.is_nearest() || writes && several;
        self.writes |= writes;
        self.grows |= writes && pending.batchable.command.flags.has(Flags::DENYOOM);
        self.fold |= pending.folds();
    }
}

impl Words {
    #[inline]
    fn push(&mut self, word: &[u8]) {
        self.bytes.push(PLAIN_STRING);
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.prefixed = false;
    }

    /// Puts the prefix of the index before a key.
    fn set_prefix(&mut self, number: usize, prefix: u8) {
        let start = self.start(number);
        if let Some(byte) = self.bytes.get_mut(start) {
            *byte = prefix;
        }
        self.prefixed = true;
    }

    /// A key as the index stores it.
    #[inline]
    fn stored_key(&self, number: usize) -> &[u8] {
        match self.prefixed {
            true => self.stored(number),
            false => self.get(number),
        }
    }

    /// The stored form of a word.
    #[inline]
    fn stored(&self, number: usize) -> &[u8] {
        let start = self.start(number);
        let end = self.ends.get(number).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Where the stored form of a word begins.
    #[inline]
    fn start(&self, number: usize) -> usize {
        match number.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
            None => 0,
        }
    }

    #[inline]
    fn get(&self, number: usize) -> &[u8] {
        self.stored(number).get(1..).unwrap_or_default()
    }

    /// The words of a command, its name first.
    fn of<'w>(&'w self, pending: &'w Pending) -> Arguments<'w> {
        let mut words = Arguments::new();
        words.push(pending.name());
        self.push_arguments(pending, &mut words);
        words
    }

    /// Appends the words of a command behind its name.
    #[inline]
    fn push_arguments<'w>(&'w self, pending: &Pending, words: &mut Arguments<'w>) {
        let first = pending.words as usize;
        let mut start = self.start(first);
        let ends = self.ends.get(first..first + pending.count as usize);
        for &end in ends.unwrap_or_default() {
            words.push(self.bytes.get(start + 1..end).unwrap_or_default());
            start = end;
        }
    }
}

impl Pending {
    fn name(&self) -> &[u8] {
        let length = self.batchable.command.name.len();
        self.name.get(..length).unwrap_or_default()
    }

    /// The numbers of the words that are its keys.
    #[inline]
    fn keys(&self) -> impl Iterator<Item = usize> {
        let first = self.words as usize;
        let step = self.step as usize;
        (0..self.keys as usize).map(move |key| first + key * step)
    }

    /// True if it is what was sent as `name` with so many words, the name among them.
    #[inline]
    fn is_sent_as(&self, name: &[u8], words: usize) -> bool {
        self.count as usize + 1 == words
            && self.batchable.command.name.len() == name.len()
            && packed(name) == Some(u64::from_le_bytes(self.name))
    }

    #[inline]
    fn writes(&self) -> bool {
        self.batchable.command.flags.has(Flags::WRITE)
    }

    /// True if it decides by what it reads.
    fn folds(&self) -> bool {
        self.writes() && matches!(self.touch, Touch::Change)
    }

    fn is_nearest(&self) -> bool {
        matches!(self.touch, Touch::Nearest(_))
    }

    /// True if its keys are keys of its own, and it is a use of them.
    fn uses_keys(&self) -> bool {
        let looks_only = self.batchable.command.flags.has(Flags::LOOKS_ONLY);
        !looks_only && !self.is_nearest()
    }

    /// True if the stripes of its keys are to be held.
    fn locks(&self) -> bool {
        self.writes() || self.keys > 1
    }
}

impl Round {
    /// A round of a server, which shares its keys with other servers or not.
    pub fn new(is_shared: bool) -> Round {
        // Of what a command replaces without reading it, no more than what it refers to is needed.
        let mut batch = Batch::new();
        batch.cut_replaced(HEAD_BYTES_MAX);
        let writes = batch.clone();
        Round {
            names: batchables(),
            database: 0,
            pending: Vec::new(),
            told: Vec::new(),
            words: Words::default(),
            needs: Needs::default(),
            operations: 0,
            tallies: Vec::new(),
            tally: 0,
            batch,
            folded: Folded::default(),
            keys: Vec::new(),
            writes,
            retired: Vec::new(),
            conflicts: Vec::new(),
            ledger: Ledger::default(),
            uses: 0,
            is_shared,
        }
    }

    /// True if the round has to be executed before more is added.
    pub fn is_full(&self) -> bool {
        self.operations >= OPERATIONS_MAX
    }

    /// Adds the request that `parser` has found in `bytes`, if it is one for a batch.
    #[inline]
    pub fn add(
        &mut self,
        connection: u32,
        database: usize,
        parser: &Parser,
        bytes: &[u8],
    ) -> Added {
        let count = parser.argument_count();
        let name = parser.argument(bytes, 0);
        // Clients mostly send the same command again. What holds for the last one holds for it.
        let last = self.pending.last();
        let again = last.filter(|last| database == self.database && last.is_sent_as(name, count));
        let pending = match again {
            Some(last) => *last,
            None => match self.begin(database, name, count) {
                Ok(pending) => pending,
                Err(added) => return added,
            },
        };
        let is_new = again.is_none();
        let (words, before) = (self.words.ends.len(), self.words.bytes.len());
        for position in 1..count {
            let word = parser.argument(bytes, position);
            if word.len() > WORD_BYTES_MAX {
                self.words.bytes.truncate(before);
                self.words.ends.truncate(words);
                return Added::Never;
            }
            self.words.push(word);
        }
        if is_new {
            self.database = database;
            self.needs.add(&pending);
            self.tally = self.tally_of(pending.batchable.number);
        }
        if pending.writes() {
            self.needs.written_keys += pending.keys as usize;
            self.needs.written_bytes += self.words.bytes.len() - before;
        }
        if let Some(tally) = self.tallies.get_mut(self.tally) {
            tally.calls += 1;
            tally.operations += pending.keys as usize;
        }
        self.pending.push(Pending {
            connection,
            words: words as u32,
            first: self.operations as u32,
            ..pending
        });
        self.operations += pending.keys as usize;
        Added::Yes
    }

    /// What is known of a command of so many words, its name among them, before its words are
    /// added. Says what becomes of it if it cannot be added.
    fn begin(&self, database: usize, name: &[u8], count: usize) -> Result<Pending, Added> {
        let (batchable, name) = self.names.find(name).ok_or(Added::Never)?;
        let command = batchable.command;
        if !command.accepts(count) || self.is_shared && !command.is_for_pools() {
            return Err(Added::Never);
        }
        let (keys, step) = command.keys.count(count);
        if keys > OPERATIONS_MAX {
            return Err(Added::Never);
        }
        let pending = Pending {
            connection: 0,
            batchable,
            touch: batchable.plan.touch(count, keys),
            name,
            words: 0,
            count: count as u32 - 1,
            keys: keys as u32,
            step: step as u32,
            first: 0,
        };
        let (several, fold) = (keys > 1, pending.folds());
        if self.is_shared && (fold || self.needs.fold) && (several || self.needs.several) {
            // Of the comparisons that a fold ends with, some may fail. A command on several keys
            // would then be done in part. One that only reads would run again, and see what later
            // commands of its connection have done to the other keys.
            return Err(match self.pending.is_empty() {
                true => Added::Never,
                false => Added::Later,
            });
        }
        if !self.pending.is_empty()
            && (database != self.database
                || pending.writes() && self.needs.nearest
                || pending.is_nearest() && self.needs.writes)
        {
            return Err(Added::Later);
        }
        Ok(pending)
    }

    /// The place of the tally of the command of this number.
    fn tally_of(&mut self, number: usize) -> usize {
        let mut tallies = self.tallies.iter();
        if let Some(place) = tallies.position(|tally| tally.number == number) {
            return place;
        }
        self.tallies.push(Tally {
            number,
            calls: 0,
            operations: 0,
            failed: 0,
        });
        self.tallies.len() - 1
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
        let room = !self.needs.grows
            || !server
                .eviction
                .may_be_over(&server.keyspace, &server.access)
            || executor.make_room(now_ms);
        if room && self.execute_in_phase(executor, now_ms, clients) {
            server.batches.count(self.pending.len());
            if !self.conflicts.is_empty() {
                self.execute_again(executor, now_ms, clients);
            }
            self.note_uses(server);
        } else {
            self.execute_singly(executor, now_ms, clients);
        }
        self.pending.clear();
        self.words.clear();
        self.needs = Needs::default();
        self.operations = 0;
        self.tallies.clear();
        self.batch.clear();
    }

    /// Executes the commands as one batch in the phase that they need, if they can be.
    fn execute_in_phase(
        &mut self,
        executor: &Executor<'_>,
        now_ms: u64,
        clients: &mut impl Clients,
    ) -> bool {
        let server = executor.server();
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
        if self.needs.writes && (keyspace.is_observed() || server.refuses_writes()) {
            return false;
        }
        let database = &databases[self.database];
        let Ok(entries) = database.entries_or_create() else {
            return false;
        };
        if let Some(prefix) = entries.prefix() {
            for word in self.pending.iter().flat_map(Pending::keys) {
                self.words.set_prefix(word, prefix);
            }
        }
        let started = Instant::now();
        let stripes = self.plan(&keyspace.stripes);
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
        self.complete(server, database, now_ms, clients);
        if self.needs.fold {
            self.write(keyspace, database, entries, clients);
        } else if !self.ledger.notes.apply(database).is_empty() {
            // Notes were removed only. One that is left is removed when it is due.
            tracing::warn!("notes of the times of keys that are gone are left");
        }
        if !self.ledger.log.is_empty() {
            let position = server.log.append_encoded(self.database, &self.ledger.log);
            for (pending, told) in self.pending.iter().zip(&self.told) {
                if !told.log.is_empty() {
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
        ] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
        executor.count_batch(&self.tallies, self.operations, started.elapsed());
        true
    }

    /// Adds the operations of all commands to the batch, and answers the stripes that they need.
    fn plan(&mut self, stripes: &Stripes) -> StripeSet {
        let mut set = StripeSet::default();
        let (words, keys) = (&self.words, &mut self.keys);
        if self.needs.fold {
            self.folded.clear();
            keys.clear();
        }
        for pending in &self.pending {
            let locks = pending.locks() && !self.needs.alone;
            for word in pending.keys() {
                let key = words.get(word);
                if self.needs.fold {
                    let hash = stripes.hash(key);
                    if locks {
                        set.add(hash);
                    }
                    let key_of = |get: u32| {
                        let word = keys.get(get as usize).copied().unwrap_or(0);
                        words.get(word as usize)
                    };
                    let hash_of = |key: &[u8]| stripes.hash(key);
                    let key = (key, words.stored_key(word));
                    if self.folded.add(&mut self.batch, key, hash, key_of, hash_of) {
                        keys.push(word as u32);
                    }
                    continue;
                }
                if locks {
                    set.add(stripes.hash(key));
                }
                let key = words.stored_key(word);
                match pending.touch {
                    Touch::Read | Touch::Change => self.batch.get(key),
                    Touch::Set => self.batch.insert(key, words.stored(word + 1)),
                    Touch::Remove => self.batch.remove(key),
                    Touch::Nearest(direction) => match direction(&words.of(pending)) {
                        Direction::Ascending => self.batch.successor(key),
                        Direction::Descending => self.batch.predecessor(key),
                    },
                };
            }
        }
        set
    }

    /// Completes the commands, one after the other.
    fn complete(
        &mut self,
        server: &Server,
        database: &Database,
        now_ms: u64,
        clients: &mut impl Clients,
    ) {
        self.told.clear();
        let mut args = Arguments::new();
        for pending in &self.pending {
            let (client, reply) = clients.client(pending.connection);
            let writes = pending.writes();
            if !writes && limits::is_too_much(server, client, reply) {
                self.told.push(Told::default());
                continue;
            }
            args.clear();
            args.push(pending.name());
            self.words.push_arguments(pending, &mut args);
            let start = reply.len();
            self.ledger.begin();
            let keys = InBatch {
                keyspace: &server.keyspace,
                database,
                batch: &self.batch,
                first: pending.first as usize,
                folded: self.needs.fold.then_some(&mut self.folded),
                ledger: &mut self.ledger,
                writes,
                now_ms,
            };
            let mut planned = Planned::in_batch(&args, pending.step as usize, keys, reply);
            let answer = (pending.batchable.plan.complete)(&mut planned);
            let log = if writes { self.ledger.end(&args) } else { 0..0 };
            if let Err(error) = answer {
                reply.truncate(start);
                refuse(server, &mut self.tallies, pending, &error, reply);
            }
            let reply = start..reply.len();
            self.told.push(Told { reply, log });
        }
    }

    /// Writes what commands have made of the keys of a batch that is folded. If another server has
    /// changed a key meanwhile, nothing is written for it, and the commands on it are marked to be
    /// executed again.
    fn write(
        &mut self,
        keyspace: &Keyspace,
        database: &Database,
        entries: &Index,
        clients: &mut impl Clients,
    ) {
        let (words, keys) = (&self.words, &self.keys);
        let word_of = |get: u32| keys.get(get as usize).copied().unwrap_or(0) as usize;
        self.writes.clear();
        let shared = self.is_shared.then_some(&self.batch);
        let key_of = |get: u32| words.stored_key(word_of(get));
        let gets = self.folded.plan_writes(&mut self.writes, shared, key_of);
        let executed = entries.execute(&mut self.writes);
        let notes = &mut self.ledger.notes;
        let mut failed: Vec<(u32, CommandError)> = Vec::new();
        let may_conflict = self.is_shared;
        for (position, &get) in gets.iter().enumerate() {
            let (old, now) = (self.batch.value(get as usize), self.folded.now(get));
            if old.is_some_and(is_plain)
                && now.is_some_and(is_plain)
                && !may_conflict
                && self.writes.value(position).is_some()
            {
                // It was written, and there is nothing to give up.
                continue;
            }
            let error = match (&executed, self.writes.outcome(position)) {
                (Err(error), _) => error.clone(),
                (_, Outcome::Failed(error)) => entries.own_error(error, words.get(word_of(get))),
                (_, Outcome::Updated { applied: false, .. }) => {
                    self.conflicts.push(get);
                    continue;
                }
                _ => {
                    let key = words.get(word_of(get));
                    let old = old.map(Record::parse);
                    let before = old.and_then(|old| old.note());
                    let after = now.and_then(|now| Record::parse(now).note());
                    if let Some(outside) = old.and_then(|old| old.outside()) {
                        self.retired.push((get, outside));
                    }
                    if !self.is_shared {
                        notes.add(get, key, before, after);
                    } else if let Err(error) = database.note_expiry(key, before, after) {
                        failed.push((get, error.into()));
                    }
                    continue;
                }
            };
            failed.push((get, error.into()));
        }
        for (get, error) in notes.apply(database) {
            let key = words.get(word_of(get));
            put_back(database, entries, key, self.batch.value(get as usize));
            self.retired.retain(|(retired, _)| *retired != get);
            failed.push((get, entries.own_error(error, key).into()));
        }
        for (_, outside) in self.retired.drain(..) {
            keyspace.retire(Some(outside));
        }
        if !failed.is_empty() {
            self.take_back(&failed, clients);
        }
    }

    /// Executes the commands again that have worked on keys which another server has changed
    /// meanwhile, one by one and in their order. Their answers take the place of the first ones.
    #[cold]
    fn execute_again(
        &mut self,
        executor: &mut Executor<'_>,
        now_ms: u64,
        clients: &mut impl Clients,
    ) {
        let conflicts = std::mem::take(&mut self.conflicts);
        let mut answers = Vec::new();
        for (pending, told) in self.pending.iter().zip(&self.told) {
            let mut operations = pending.first as usize..(pending.first + pending.keys) as usize;
            let is_met = operations.any(|operation| {
                let get = self.folded.get_of(operation) as u32;
                conflicts.contains(&get)
            });
            if is_met && !told.reply.is_empty() {
                let (client, reply) = clients.client(pending.connection);
                let mut answer = Reply::new(reply.protocol());
                executor.run(client, &self.words.of(pending), now_ms, &mut answer);
                answers.push((pending.connection, told.reply.clone(), answer));
            }
        }
        // From the last one on, so that what lies before stays where it is.
        for (connection, place, answer) in answers.into_iter().rev() {
            let reply = clients.client(connection).1;
            replace(reply, &place, |reply| reply.raw(answer.bytes()));
        }
    }

    /// Answers an error to the commands on keys that the index has refused to write, each with the
    /// command's get, and has the log not tell of them.
    #[cold]
    fn take_back(&mut self, failed: &[(u32, CommandError)], clients: &mut impl Clients) {
        // From the last one on, so that what lies before stays where it is.
        for (pending, told) in self.pending.iter().zip(&self.told).rev() {
            let operations = pending.first as usize..(pending.first + pending.keys) as usize;
            let error = failed.iter().find(|(get, _)| {
                let mut operations = operations.clone();
                operations.any(|operation| self.folded.get_of(operation) == *get as usize)
            });
            let Some((_, error)) = error.filter(|_| !told.reply.is_empty()) else {
                continue;
            };
            let reply = clients.client(pending.connection).1;
            replace(reply, &told.reply, |reply| {
                reply.error(&error.to_string());
            });
            self.ledger.log.drain(told.log.clone());
        }
    }

    /// Notes that the keys are used, and what the writes may take.
    fn note_uses(&mut self, server: &Server) {
        if self.needs.writes {
            let Needs {
                written_keys,
                written_bytes,
                ..
            } = self.needs;
            server.eviction.note_writes(written_keys, written_bytes);
        }
        let noting = server.access.noting();
        for pending in &self.pending {
            if !pending.uses_keys() {
                continue;
            }
            for word in pending.keys() {
                noting.note(self.database, self.words.get(word));
            }
        }
        drop(noting);
        self.uses += self.operations as u32;
        while self.uses >= USES_PER_SAMPLE {
            self.uses -= USES_PER_SAMPLE;
            let pending = self.pending.get(rand::random_range(0..self.pending.len()));
            if let Some(pending) = pending.filter(|pending| pending.uses_keys())
                && let Some(word) = pending
                    .keys()
                    .nth(rand::random_range(0..pending.keys as usize))
            {
                let key = self.words.get(word);
                server.access.hot_keys.sample(self.database, key);
            }
        }
    }

    /// Executes the commands one by one, each with all that a command may bring with it.
    fn execute_singly(&self, executor: &mut Executor<'_>, now_ms: u64, clients: &mut impl Clients) {
        for pending in &self.pending {
            let (client, reply) = clients.client(pending.connection);
            if pending.writes() || !limits::is_too_much(executor.server(), client, reply) {
                executor.run(client, &self.words.of(pending), now_ms, reply);
            }
        }
    }
}

/// Stores for a key again what was stored for it, because its new time cannot be noted.
#[cold]
fn put_back(database: &Database, entries: &Index, key: &[u8], old: Option<&[u8]>) {
    let put_back = match old {
        None => entries.remove(key).map(drop),
        Some(old) => entries
            .insert(key, old)
            .and_then(|_| database.note_expiry(key, None, Record::parse(old).note())),
    };
    if let Err(error) = put_back {
        tracing::warn!("a key whose time is not noted is left: {error}");
    }
}

/// Has `write` write another answer in place of one that lies in `reply`.
fn replace(reply: &mut Reply, answer: &Range<usize>, write: impl FnOnce(&mut Reply)) {
    let behind = reply.bytes().get(answer.end..).map(<[u8]>::to_vec);
    reply.truncate(answer.start);
    write(reply);
    reply.raw(&behind.unwrap_or_default());
}

/// Answers that a command has failed, and counts that.
#[cold]
fn refuse(
    server: &Server,
    tallies: &mut [Tally],
    pending: &Pending,
    error: &CommandError,
    reply: &mut Reply,
) {
    let mut tallies = tallies.iter_mut();
    if let Some(tally) = tallies.find(|tally| tally.number == pending.batchable.number) {
        tally.failed += 1;
    }
    let text = error.to_string();
    server.statistics.count_error(&text);
    reply.error(&text);
}
