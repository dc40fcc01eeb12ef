//! The execution of one command: the checks before it, the phase in which it runs, and the handling
//! of its effects.

mod announce;
mod phases;

use crate::admission;
use crate::blocking::Wait;
use crate::client::{ClientSession, ENTRY_BYTES, ReplyMode};
use crate::clock;
use crate::command::{CommandAccount, CommandDefinition, Flags, Latest};
use crate::commands::{self, TABLE};
use crate::error::CommandError;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects};
use crate::resp::{Protocol, RespReply};
use crate::server::ServerCore;
use rand::rngs::SmallRng;
use std::cell::Cell;
use std::time::Instant;

/// The share of a command in a batch.
#[derive(Clone, Copy, Debug)]
pub struct CommandTally {
    /// The number of the command.
    pub number: usize,
    /// Number of executions.
    pub calls: u64,
    /// Number of its operations on the index in all.
    pub operations: usize,
    /// Number of executions with an error reply.
    pub failed: u64,
}

/// The executor of the commands of one thread.
#[derive(Debug)]
pub struct Executor<'s> {
    server: &'s ServerCore,
    effects: Effects,
    latest: Option<Latest>,
    /// The time at which the last command ended, if nothing else was done since.
    ended: Option<Instant>,
    /// The time at which the last command or batch ended.
    last_end: Cell<Option<Instant>>,
    random: SmallRng,
    /// True if it stands in for a thread with a script that runs for long. It runs no script
    /// itself, even if that one has ended by now, because no thread would stand in for it.
    stands_in: bool,
}

impl<'s> Executor<'s> {
    /// Creates an executor of `server`.
    pub fn new(server: &'s ServerCore) -> Executor<'s> {
        Executor {
            server,
            effects: Effects::default(),
            latest: None,
            ended: None,
            last_end: Cell::new(None),
            random: rand::make_rng(),
            stands_in: false,
        }
    }

    /// Returns this executor as a stand-in, which refuses all commands that are refused while a
    /// script runs for long.
    pub fn standing_in(self) -> Executor<'s> {
        Executor {
            stands_in: true,
            ..self
        }
    }

    /// Returns true if it [stands in](Executor::standing_in) for another.
    pub fn stands_in(&self) -> bool {
        self.stands_in
    }

    /// Notes that other work was done since the last command: the last command's end is not the
    /// start of the next one.
    pub fn pause(&mut self) {
        self.ended = None;
    }

    /// Returns true if the last command or batch ended at this time of
    /// [`steady_ms`](clock::steady_ms) or later.
    pub fn has_run_until(&self, until_ms: u64) -> bool {
        let ended = self.last_end.get();
        ended.is_some_and(|ended| clock::steady_ms_at(ended) >= until_ms)
    }

    /// Creates the account of a command. Its time begins at the end of the last one.
    fn account(&mut self, command: &'static CommandDefinition, args: &[&[u8]]) -> CommandAccount {
        let number = self.number(command, args);
        CommandAccount::after(command, number, self.ended.take())
    }

    /// Returns the number of a command.
    fn number(&mut self, command: &'static CommandDefinition, args: &[&[u8]]) -> usize {
        match self.latest {
            Some(latest) if std::ptr::eq(latest.command, command) => latest.number,
            _ => {
                let latest = Latest::new(command, TABLE.number_of(command), args);
                self.latest.insert(latest).number
            }
        }
    }

    /// Finds a command and checks the number of its arguments.
    fn lookup(&self, args: &[&[u8]]) -> Result<&'static CommandDefinition, CommandError> {
        match self.latest {
            Some(latest) if latest.is_found_by(args) => Ok(latest.command),
            _ => TABLE.lookup(args),
        }
    }

    /// Returns the server.
    pub fn server(&self) -> &'s ServerCore {
        self.server
    }

    /// Counts commands that were executed as one batch of `operations` operations, which has just
    /// ended.
    pub fn count_batch(&self, tallies: &[CommandTally], operations: usize, started: Instant) {
        let ended = Instant::now();
        self.last_end.set(Some(ended));
        let took = ended.duration_since(started);
        let statistics = &self.server.statistics;
        for tally in tallies {
            // The operations of a batch share their walks, so no command has a duration of its own.
            let part = took * tally.operations as u32 / operations.max(1) as u32;
            statistics.count(tally.number, tally.calls, part);
            for _ in 0..tally.failed {
                statistics.count_failed(tally.number);
            }
        }
    }

    /// Checks up to `limit` due notes of a database, and deletes the expired keys. Returns the
    /// number of notes. The keyspace is not locked if there are none.
    pub fn expire_due(&mut self, database: usize, limit: usize, now_ms: u64) -> usize {
        let server = self.server;
        let keyspace = &server.keyspace;
        let due = |databases: &Databases| -> bool {
            let database = databases.get(database);
            database.is_some_and(|database| database.is_note_due(now_ms))
        };
        // While a script runs for long, the thread must remain able to receive SCRIPT KILL.
        // The shared phase is enough to see that nothing is due, and other threads work meanwhile.
        if !server.share_unless_busy().is_some_and(|it| due(&it)) {
            return 0;
        }
        let Some(mut databases) = server.exclude_unless_busy() else {
            return 0;
        };
        let effects = &mut self.effects;
        effects.clear();
        effects.origin = 0;
        effects.observed = keyspace.is_observed();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let mut keys = DatabaseKeys::new(keyspace, access, database, now_ms, effects);
        // Deletions that the index refuses are tried again the next time.
        let count = keys.expire_due(limit).unwrap_or(0);
        let count = count.max(keys.expire_fields(limit).unwrap_or(0));
        effects.settle(database, &[]);
        server.log_effects(effects);
        server.announce(effects, &mut databases);
        count
    }

    /// Executes a command of a client and writes the reply. If the client must wait for the reply,
    /// the wait is returned instead.
    pub fn run(
        &mut self,
        client: &mut ClientSession,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut RespReply,
    ) -> Option<Wait> {
        let start = reply.len();
        let before = client.replies;
        if before == ReplyMode::SkipNext {
            // The command may set another value.
            client.replies = ReplyMode::On;
        }
        let admitted = self
            .admit(client, reply.protocol(), args)
            .and_then(|command| {
                self.check_memory(client, command, now_ms)?;
                Ok(command)
            });
        // A refused command is listed, too, so it is looked up without the client's permissions.
        let number = match &admitted {
            Ok(command) => Some(self.number(command, args)),
            Err(_) => TABLE.lookup(args).ok().map(|it| TABLE.number_of(it)),
        };
        client.shared.listed.note(number);
        let is_told = client.transaction.is_none()
            && admitted
                .as_ref()
                .is_ok_and(|it| it.flags.has(Flags::CONFIRMS));
        let wait = match admitted {
            Ok(command) if must_queue(client, command) => {
                match self.queue(client, args) {
                    Ok(()) => reply.simple("QUEUED"),
                    Err(error) => {
                        CommandAccount::refuse(self.server, TABLE.number_named(args), &error);
                        reply.error(&error.to_string());
                    }
                }
                None
            }
            Ok(command) => self.execute_with_room(client, command, args, now_ms, reply),
            Err(error) => {
                // EXEC must fail if one of its commands was refused, as in Redis.
                if let Some(transaction) = &mut client.transaction {
                    transaction.refuse();
                }
                CommandAccount::refuse(self.server, TABLE.number_named(args), &error);
                let exec = args.first().and_then(|name| TABLE.find(name));
                let exec = exec.is_some_and(|it| it.flags.has(Flags::RUNS_QUEUED));
                let error = if exec {
                    commands::abort(self.server, client, &error)
                } else {
                    error
                };
                // A client of another protocol gets no reply.
                if !client.closing {
                    reply.error(&error.to_string());
                }
                None
            }
        };
        if client.transaction.is_none()
            && let Some(choice) = &mut client.tracking
            && !std::mem::take(&mut choice.caching_is_new)
        {
            choice.caching = None;
        }
        if before != ReplyMode::On || client.replies != ReplyMode::On {
            // The command itself may change the mode: `CLIENT REPLY ON` is replied to.
            let is_error = reply.bytes().get(start) == Some(&b'-');
            let is_answered = client.replies == ReplyMode::On && before != ReplyMode::SkipNext;
            if !is_answered && (!is_told || is_error) {
                reply.truncate(start);
            }
        }
        if wait.is_some() {
            // The reply is written when the wait ends, but the mode of this command applies to it.
            client.is_silent_wait =
                client.replies != ReplyMode::On || before == ReplyMode::SkipNext;
        }
        wait
    }

    /// Adds a command to the client's transaction.
    ///
    /// # Errors
    /// `OutOfMemory`; the transaction is then refused as a whole, and holds nothing.
    fn queue(&self, client: &mut ClientSession, args: &[&[u8]]) -> Result<(), CommandError> {
        let Some(transaction) = &mut client.transaction else {
            return Ok(());
        };
        if transaction.refused {
            // The transaction will never be executed.
            return Ok(());
        }
        let share = &self.server.clients.share;
        let bytes = remembered_bytes(args);
        // Some room is left for later commands, so that the client gets an error and is not closed.
        let most = share.most() - share.most() / 4;
        if transaction.bytes + bytes > most || !share.has_room_for(bytes) {
            transaction.refuse();
            return Err(CommandError::OutOfMemory);
        }
        let words = args.iter().map(|word| word.to_vec()).collect();
        transaction.commands.push(words);
        transaction.bytes += bytes;
        Ok(())
    }

    /// Finds the command and checks that the client may run it.
    fn admit(
        &self,
        client: &mut ClientSession,
        protocol: Protocol,
        args: &[&[u8]],
    ) -> Result<&'static CommandDefinition, CommandError> {
        let command = match self.lookup(args) {
            Ok(command) => command,
            Err(error) => return Err(admission::of_unknown(self.server, client, args, error)),
        };
        if command.flags.has(Flags::PROTECTED) {
            admission::protected(self.server, client, args)?;
        }
        if !client.login.is_unrestricted(&self.server.acl) {
            client.admit(&self.server.acl, command, args)?;
        }
        if client.transaction.is_some() && command.flags.has(Flags::NO_MULTI) {
            return Err(CommandError::text(
                "ERR Command not allowed inside a transaction",
            ));
        }
        if protocol == Protocol::Resp2
            && client.subscriptions.any()
            && !command.flags.has(Flags::SUBSCRIBER)
        {
            // RESP2 has no pushes, so a client could not tell a message from a reply.
            return Err(not_while_subscribed(command, args));
        }
        // A stand-in refuses even after the script has ended, because no thread would stand in for
        // it.
        let watchdog = &self.server.scripts.watchdog;
        let is_busy = self.stands_in || watchdog.is_slow();
        if is_busy && !command.flags.has(Flags::ALLOW_BUSY) {
            return Err(CommandError::text(watchdog.busy()));
        }
        self.server.admit_write(command)?;
        command.admit_on(self.server.keyspace.is_shared())?;
        Ok(command)
    }

    /// Makes room if necessary, and refuses commands that may take memory if there is none.
    fn check_memory(
        &mut self,
        client: &mut ClientSession,
        command: &CommandDefinition,
        now_ms: u64,
    ) -> Result<(), CommandError> {
        let server = self.server;
        client.script.lacks_memory = false;
        if !server
            .eviction
            .may_exceed_limit(&server.keyspace, &server.access)
        {
            return Ok(());
        }
        if command.flags.has(Flags::RUNS_SCRIPT)
            && !command.flags.has(Flags::READONLY)
            && client.transaction.is_none()
        {
            // A script's writes are admitted or refused when they happen.
            client.script.lacks_memory = !self.make_room(now_ms);
            return Ok(());
        }
        let (takes, takes_in_exec) = self.takes_memory(client, command);
        if !(takes || takes_in_exec) || self.make_room(now_ms) {
            return Ok(());
        }
        // The memory is counted now, so that fewer commands may be refused.
        let (takes, takes_in_exec) = self.takes_memory(client, command);
        if !(takes || takes_in_exec) {
            return Ok(());
        }
        if takes_in_exec && let Some(transaction) = &mut client.transaction {
            // EXEC then ends the transaction with the error.
            transaction.without_memory = true;
            return Ok(());
        }
        Err(CommandError::OutOfMemory)
    }

    /// Returns true if the command may take memory that is refused beyond the limit, and true if a
    /// command does that which `EXEC` would execute.
    fn takes_memory(&self, client: &ClientSession, command: &CommandDefinition) -> (bool, bool) {
        let server = self.server;
        let exceeds_limit_by_far = server
            .eviction
            .exceeds_limit_by_far(&server.keyspace, &server.access);
        let denied = |command: &CommandDefinition| {
            let flags = command.flags;
            flags.has(Flags::DENYOOM) || flags.has(Flags::SLOWLY_GROWS) && exceeds_limit_by_far
        };
        // As in Redis, EXEC is refused if one of the queued commands is.
        let commands = client.transaction.iter().flat_map(|it| &it.commands);
        let denied_in_exec = command.flags.has(Flags::RUNS_QUEUED)
            && commands.into_iter().any(|words| {
                let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                TABLE.lookup(&args).is_ok_and(denied)
            });
        // Queued commands take memory, whatever they do.
        let takes_aside = command.flags.has(Flags::STORES_ASIDE);
        let takes = denied(command) || takes_aside || must_queue(client, command);
        (takes, denied_in_exec)
    }

    /// Evicts keys until memory is below `maxmemory`. Returns false if that fails.
    pub fn make_room(&mut self, now_ms: u64) -> bool {
        self.make_room_for(0, now_ms)
    }

    /// Evicts keys until there is room for `bytes` bytes below `maxmemory`. Returns false if that
    /// fails.
    fn make_room_for(&mut self, bytes: usize, now_ms: u64) -> bool {
        self.pause();
        let server = self.server;
        let tiers_are_full = server.eviction.may_exceed_memory_tier(&server.keyspace)
            && server.share_unless_busy().is_some()
            && !server
                .tiering
                .relieve_for_client(&server.keyspace, &server.access, &server.singly);
        // The mover is paused before the phase is entered, in the mover's own lock order.
        let mut still = None;
        if tiers_are_full {
            still = server.tiering.try_pause();
            if still.is_none() {
                // This command may exceed the limit, and the next ones wait.
                return server.tiering.begin_wait(&server.singly);
            }
        }
        let Some(mut databases) = server.exclude_unless_busy() else {
            return false;
        };
        let effects = &mut self.effects;
        effects.clear();
        effects.origin = 0;
        effects.observed = server.keyspace.is_observed();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let mut keys = DatabaseKeys::new(&server.keyspace, access, 0, now_ms, effects);
        keys.set_keeps_all(server.is_paused());
        let mut carry = still.as_mut().map(|still| {
            |databases: &Databases| {
                let (keyspace, access) = (&server.keyspace, &server.access);
                server.tiering.carry_on(still, keyspace, access, databases);
            }
        });
        let carry = carry.as_mut().map(|it| it as &mut dyn FnMut(&Databases));
        let eviction = &server.eviction;
        let room = eviction.make_room(bytes as u64, &mut keys, &server.access, carry);
        effects.settle(0, &[]);
        server.log_effects(effects);
        server.announce(effects, &mut databases);
        room
    }
}

/// Returns the bytes of memory of a queued command.
fn remembered_bytes(args: &[&[u8]]) -> usize {
    let bytes = |word: &&[u8]| word.len() + ENTRY_BYTES;
    ENTRY_BYTES + args.iter().map(bytes).sum::<usize>()
}

fn not_while_subscribed(command: &CommandDefinition, args: &[&[u8]]) -> CommandError {
    let name = args.first().copied().unwrap_or_default();
    let mut name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if command.name != name {
        name = format!("{name}|{}", command.name);
    }
    CommandError::owned(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    ))
}

fn must_queue(client: &ClientSession, command: &CommandDefinition) -> bool {
    client.transaction.is_some() && !command.flags.has(Flags::IN_MULTI)
}
