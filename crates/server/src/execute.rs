//! The execution of one command: the checks before it, the phase in which it runs, and the handling
//! of its effects.

use crate::admission;
use crate::blocking::{BlockedClient, Wait};
use crate::client::{ClientSession, ENTRY_BYTES, ReplyMode};
use crate::clock::{self, now_ms};
use crate::command::{
    CommandAccount, CommandDefinition, CommandGroup, CommandInvocation, Flags, Latest, invoke,
    note_uses,
};
use crate::commands::{self, TABLE};
use crate::connection::IoThreadMessage;
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects, KeyView, WriteObserver};
use crate::object::RedisType;
use crate::push::notifications;
use crate::resp::{Protocol, RespReply};
use crate::server::ServerCore;
use crate::singly::SequentialReason;
use rand::RngExt;
use rand::rngs::SmallRng;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
                .relieve(&server.keyspace, &server.access, None);
        // The mover is paused before the phase is entered, in the mover's own lock order.
        let mut still = None;
        if tiers_are_full {
            still = server.tiering.try_pause();
            if still.is_none() {
                return false;
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

    /// Runs a command in its phase. A command that lacks room runs again after an eviction.
    fn execute_with_room(
        &mut self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut RespReply,
    ) -> Option<Wait> {
        let start = reply.len();
        let wait = self.execute(client, command, args, now_ms, reply);
        match client.lacks_room.take() {
            // The command checked for room before it changed anything, so it may run a second time.
            Some(bytes) if self.make_room_for(bytes, now_ms) => {
                reply.truncate(start);
                let wait = self.execute(client, command, args, now_ms, reply);
                // It runs twice at most, so that it does not take turns with eviction for ever.
                client.lacks_room = None;
                wait
            }
            _ => wait,
        }
    }

    /// Runs a command in its phase.
    fn execute(
        &mut self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut RespReply,
    ) -> Option<Wait> {
        let server = self.server;
        let database = client.database;
        self.effects.clear();
        self.effects.observed = false;
        self.effects.origin = client.shared.id;
        if command.flags.has(Flags::NO_PHASE) {
            self.pause();
            let mut account = self.account(command, args);
            let effects = &mut self.effects;
            let keys = DatabaseKeys::new(
                &server.keyspace,
                DatabaseAccess::None,
                database,
                now_ms,
                effects,
            );
            let invocation = CommandInvocation {
                server,
                keys,
                client,
                args,
                reply,
                nested: false,
            };
            let wait = invoke(invocation, &mut account);
            self.last_end.set(account.ended());
            return wait;
        }
        // The commands of a script use keys; the script's own command does not.
        let positions = match command.group {
            CommandGroup::Scripting => SmallVec::new(),
            _ => command.keys.positions(args),
        };
        let sampled = self.random.random_ratio(1, USES_PER_SAMPLE);
        note_uses(server, client, command, args, &positions, sampled);
        // The shared phase locks the stripe of one key. Several stripes would need an order.
        if positions.len() <= 1 && !command.flags.has(Flags::EXCLUSIVE) {
            let key = positions.first().and_then(|&position| args.get(position));
            debug_assert!(
                !command.flags.has(Flags::RUNS_QUEUED),
                "a transaction has the keyspace to itself"
            );
            let key = key.copied();
            match self.execute_shared(client, command, args, key, now_ms, reply) {
                SharedPhaseOutcome::Executed(wait) => return wait,
                SharedPhaseOutcome::Busy => {
                    refuse_while_busy(server, client, command, reply);
                    return None;
                }
                SharedPhaseOutcome::Observed => {}
            }
        }
        let databases = if let Some(databases) = server.keyspace.try_exclude() {
            (!server.scripts.watchdog.is_given_up()).then_some(databases)
        } else {
            self.pause();
            server.exclude_unless_busy()
        };
        let Some(mut databases) = databases else {
            refuse_while_busy(server, client, command, reply);
            return None;
        };
        let mut account = self.account(command, args);
        let effects = &mut self.effects;
        effects.observed = server.keyspace.is_observed();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let keys = DatabaseKeys::new(&server.keyspace, access, database, now_ms, effects);
        let invocation = CommandInvocation {
            server,
            keys,
            client,
            args,
            reply,
            nested: false,
        };
        let wait = invoke(invocation, &mut account);
        if server.scripts.watchdog.is_given_up() {
            // Neither success nor an error would be true.
            client.shared.killed.store(true, Ordering::Release);
            effects.clear();
        }
        if let Some(wait) = &wait {
            if !wait.keys.is_empty() {
                // Writes in the shared phase wake no client, so they need the exclusive one from
                // here on.
                server.keyspace.set_observed(WriteObserver::Blocked, true);
            }
            // The words are stored once, and the keys among them in two more places.
            client.waiting_bytes = 3 * remembered_bytes(args);
            let sent = || args.iter().map(|word| word.to_vec()).collect();
            let words = wait.words.clone().unwrap_or_else(sent);
            let waiter = BlockedClient::new(client, reply.protocol(), words, wait.clone());
            server.blocked.add(waiter);
        }
        client.logged_up_to = client.logged_up_to.max(server.log_effects(effects));
        self.last_end.set(account.ended());
        // Commands of waiting clients may run below, whose time is not that of the next command.
        if effects.events.is_empty() {
            self.ended = account.ended();
        }
        server.announce(effects, &mut databases);
        wait
    }

    /// Runs a command on one key or none in the shared phase.
    fn execute_shared(
        &mut self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
        key: Option<&[u8]>,
        now_ms: u64,
        reply: &mut RespReply,
    ) -> SharedPhaseOutcome {
        let (server, keyspace) = (self.server, &self.server.keyspace);
        let databases = if let Some(databases) = keyspace.try_share() {
            databases
        } else {
            self.pause();
            let Some(databases) = server.share_unless_busy() else {
                return SharedPhaseOutcome::Busy;
            };
            databases
        };
        // Observers are added in the exclusive phase, so this cannot change from here on.
        let changes = [Flags::WRITE, Flags::MAY_CHANGE];
        let may_change = key.is_some() && changes.iter().any(|&flag| command.flags.has(flag));
        let deletes = key.is_some() && server.singly.has(SequentialReason::LazyExpiry);
        if (may_change || deletes) && keyspace.is_observed() {
            return SharedPhaseOutcome::Observed;
        }
        let stripe = key.map(|key| {
            let stripe = keyspace.stripes.of(key);
            keyspace.stripes.try_lock(stripe).unwrap_or_else(|| {
                self.ended = None;
                keyspace.stripes.lock(stripe)
            })
        });
        let mut account = self.account(command, args);
        let effects = &mut self.effects;
        let access = DatabaseAccess::Shared(&databases);
        let keys = DatabaseKeys::new(keyspace, access, client.database, now_ms, effects);
        let invocation = CommandInvocation {
            server,
            keys,
            client,
            args,
            reply,
            nested: false,
        };
        let wait = invoke(invocation, &mut account);
        debug_assert!(
            wait.as_ref().is_none_or(|wait| wait.keys.is_empty()),
            "a client that waits for a key needs the exclusive phase"
        );
        // The log has the changes of one key in their order only while the stripe is locked.
        client.logged_up_to = client.logged_up_to.max(server.log_effects(effects));
        self.ended = account.ended();
        self.last_end.set(self.ended);
        drop(stripe);
        SharedPhaseOutcome::Executed(wait)
    }
}

/// Returns the bytes of memory of a queued command.
fn remembered_bytes(args: &[&[u8]]) -> usize {
    let bytes = |word: &&[u8]| word.len() + ENTRY_BYTES;
    ENTRY_BYTES + args.iter().map(bytes).sum::<usize>()
}

/// The outcome of a command in the shared phase.
enum SharedPhaseOutcome {
    /// The command was executed, and may wait.
    Executed(Option<Wait>),
    /// A script has held the keyspace exclusively for long.
    Busy,
    /// Writes are observed, so the command needs the exclusive phase.
    Observed,
}

/// Refuses a command while a script runs for long. A transaction that cannot be executed now ends,
/// because the client could not find out its state otherwise.
fn refuse_while_busy(
    server: &ServerCore,
    client: &mut ClientSession,
    command: &CommandDefinition,
    reply: &mut RespReply,
) {
    let reason = server.scripts.watchdog.busy();
    if command.flags.has(Flags::RUNS_QUEUED) && client.transaction.take().is_some() {
        reply.error(&format!(
            "EXECABORT Transaction discarded because of: {reason}"
        ));
    } else {
        reply.error(reason);
    }
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

/// Returns true if a command that waits for a key must be executed now that the key is of this
/// type. While the key is of another type than the command takes, the client continues to wait.
fn is_waited_for(
    command: &CommandDefinition,
    kind: Result<Option<RedisType>, CommandError>,
) -> bool {
    match command.group {
        CommandGroup::List => kind == Ok(Some(RedisType::List)),
        CommandGroup::SortedSet => kind == Ok(Some(RedisType::SortedSet)),
        // A client that waits for a group gets an error if the group is gone.
        CommandGroup::Stream => {
            command.flags.has(Flags::WAKES_ALWAYS) || kind == Ok(Some(RedisType::Stream))
        }
        _ => true,
    }
}

impl ServerCore {
    /// Appends the changes of commands to the log as one unit, and reports the duration of expiry
    /// to the latency monitor. Returns the log position that must be durable before replies are
    /// sent; 0 if nothing was changed. Call it before other threads can change the same keys.
    pub fn log_effects(&self, effects: &mut Effects) -> u64 {
        let took = std::mem::take(&mut effects.longest_expiry);
        if !took.is_zero() {
            self.latency.note(&self.config.hot, "expire-del", took);
        }
        let is_work = std::mem::take(&mut effects.is_work);
        if effects.logged.is_empty() {
            return 0;
        }
        let position = match self.log.is_on() {
            true => self.log.append(&effects.logged),
            false => 0,
        };
        effects.logged.clear();
        if is_work { position } else { 0 }
    }

    /// Notifies observers of changes to keys, and executes the commands of clients that have waited
    /// for them.
    pub fn announce(&self, effects: &mut Effects, databases: &mut Databases) {
        // The commands of clients that are served cause events in turn.
        while !effects.events.is_empty() {
            let events = std::mem::take(&mut effects.events);
            let told = std::mem::take(&mut effects.told);
            debug_assert!(told <= events.len(), "events are told once they exist");
            for event in events.iter().filter(|event| event.is_change) {
                self.watches.touch(event.database, &event.key);
            }
            if self.keyspace.is_observed_by(WriteObserver::Notifications) {
                let on = self.config.hot.notified_events.load(Ordering::Relaxed);
                notifications::publish(&self.pubsub, &self.clients, on, &events);
            }
            if self.keyspace.is_observed_by(WriteObserver::Tracking) {
                let news = events.get(told..).unwrap_or_default();
                self.tracking.tell(&self.clients, news);
            }
            if self.keyspace.is_observed_by(WriteObserver::Blocked) {
                for event in &events {
                    self.serve_waiting(event.database, &event.key, effects, databases);
                }
                if self.blocked.is_empty() {
                    self.keyspace.set_observed(WriteObserver::Blocked, false);
                }
            }
        }
    }

    /// Counts a command after its wait has timed out.
    pub fn count_wait_in_vain(&self, waiter: &BlockedClient) {
        let args: Vec<&[u8]> = waiter.words.iter().map(Vec::as_slice).collect();
        if let Ok(command) = TABLE.lookup(&args) {
            self.statistics
                .count(TABLE.number_of(command), 1, Duration::ZERO);
        }
    }

    /// Executes the commands of clients that wait for a key, in their order.
    fn serve_waiting(
        &self,
        database: usize,
        key: &[u8],
        effects: &mut Effects,
        databases: &mut Databases,
    ) {
        self.blocked.serve(database, key, |waiter| {
            self.go_on(waiter, key, effects, databases)
        });
    }

    /// Executes the command of a waiting client, as if it had just arrived. Returns false if the
    /// client continues to wait.
    fn go_on(
        &self,
        waiter: &BlockedClient,
        key: &[u8],
        effects: &mut Effects,
        databases: &mut Databases,
    ) -> bool {
        let args: Vec<&[u8]> = waiter.words.iter().map(Vec::as_slice).collect();
        let Ok(command) = TABLE.lookup(&args) else {
            return false;
        };
        // The command that woke it may have taken long, and keys may have expired since.
        let now_ms = now_ms();
        let database = waiter.database;
        let is_ready = |effects: &mut Effects, databases: &mut Databases| {
            let access = DatabaseAccess::Exclusive(databases);
            let mut keys = DatabaseKeys::new(&self.keyspace, access, database, now_ms, effects);
            is_waited_for(command, keys.kind(key))
        };
        if !is_ready(effects, databases) {
            return false;
        }
        // Tracking with NOLOOP compares the client that made the change, which is this one.
        let origin = std::mem::replace(&mut effects.origin, waiter.client.id);
        let mut client = waiter.resumed();
        let mut reply = RespReply::new(waiter.protocol);
        let admitted = self
            .admit_again(&mut client, command, &args)
            .and_then(|()| self.check_memory_again(command, effects, databases, now_ms));
        let is_answered = match admitted {
            // The command's key may have been evicted.
            Ok(()) if !is_ready(effects, databases) => false,
            Ok(()) => {
                let access = DatabaseAccess::Exclusive(&mut *databases);
                let keys = DatabaseKeys::new(&self.keyspace, access, database, now_ms, effects);
                let account = &mut CommandAccount::of(command, self).shown_before();
                let invocation = CommandInvocation {
                    server: self,
                    keys,
                    client: &mut client,
                    args: &args,
                    reply: &mut reply,
                    nested: false,
                };
                let wait = invoke(invocation, account);
                wait.is_none()
            }
            Err(error) => {
                CommandAccount::refuse(self, TABLE.number_named(&args), &error);
                reply.error(&error.to_string());
                true
            }
        };
        effects.origin = origin;
        if is_answered {
            let resume = IoThreadMessage::Resume {
                client: waiter.client.id,
                answer: reply.take(),
                // The changes are logged before the reply is handed over, which waits for this
                // position.
                logged_up_to: self.log_effects(effects),
            };
            self.clients.send(&waiter.client, resume);
        }
        is_answered
    }

    /// Checks that a client that has waited may still execute its command.
    ///
    /// # Errors
    /// Those of [`ClientSession::admit`].
    pub fn admit_again(
        &self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
    ) -> Result<(), CommandError> {
        match client.login.is_unrestricted(&self.acl) {
            true => Ok(()),
            false => client.admit(&self.acl, command, args),
        }
    }

    /// Makes room for a command that has waited, if it may take memory.
    fn check_memory_again(
        &self,
        command: &CommandDefinition,
        effects: &mut Effects,
        databases: &mut Databases,
        now_ms: u64,
    ) -> Result<(), CommandError> {
        let may_take = command.flags.has(Flags::DENYOOM);
        if !may_take || !self.eviction.may_exceed_limit(&self.keyspace, &self.access) {
            return Ok(());
        }
        let access = DatabaseAccess::Exclusive(databases);
        let mut keys = DatabaseKeys::new(&self.keyspace, access, 0, now_ms, effects);
        keys.set_keeps_all(self.is_paused());
        let has_room = self.eviction.make_room(0, &mut keys, &self.access, None);
        effects.settle(0, &[]);
        match has_room {
            true => Ok(()),
            false => Err(CommandError::OutOfMemory),
        }
    }
}
