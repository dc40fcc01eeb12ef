//! Executing one command: what is checked before, which phase it runs in, and what becomes of
//! its effects.

use crate::admission;
use crate::blocking::{Wait, Waiter};
use crate::client::{Client, ENTRY_BYTES, Replies};
use crate::clock::{self, now_ms};
use crate::command::{
    self, Account, Command, Flags, Group, Latest, invoke, lookup, note_uses, number_of,
};
use crate::connection::Message;
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::keyspace::{Access, Databases, Effects, Keys, Observer};
use crate::object::Kind;
use crate::push::notifications;
use crate::resp::{Protocol, Reply};
use crate::server::Server;
use crate::singly::Reason;
use rand::RngExt;
use rand::rngs::SmallRng;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a batch has a command.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// The number of the command.
    pub number: usize,
    /// How often it was executed.
    pub calls: u64,
    /// Its operations on the index, all together.
    pub operations: usize,
    /// How often its answer was an error.
    pub failed: u64,
}

/// What executes the commands of one thread.
#[derive(Debug)]
pub struct Executor<'s> {
    server: &'s Server,
    effects: Effects,
    latest: Option<Latest>,
    /// When it ended, if nothing else was done since.
    ended: Option<Instant>,
    /// When the last command or batch ended.
    last_end: Cell<Option<Instant>>,
    random: SmallRng,
    /// Whether it stands in for a thread whose script runs for long. It runs none itself, even if
    /// that is over by now, as no thread would stand in for it.
    stands_in: bool,
}

impl<'s> Executor<'s> {
    /// An executor of `server`.
    pub fn new(server: &'s Server) -> Executor<'s> {
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

    /// The same, which refuses all that is refused while a script runs for long.
    pub fn standing_in(self) -> Executor<'s> {
        Executor {
            stands_in: true,
            ..self
        }
    }

    /// True if it [stands in](Executor::standing_in) for another.
    pub fn stands_in(&self) -> bool {
        self.stands_in
    }

    /// Says that something else was done since the last command, which is no time of the next.
    pub fn pause(&mut self) {
        self.ended = None;
    }

    /// True if the last command or batch ended at a time of [`steady_ms`](clock::steady_ms), or
    /// later.
    pub fn has_run_until(&self, until_ms: u64) -> bool {
        let ended = self.last_end.get();
        ended.is_some_and(|ended| clock::steady_ms_at(ended) >= until_ms)
    }

    /// The account of a command, which begins when the last one has ended.
    fn account(&mut self, command: &'static Command, args: &[&[u8]]) -> Account {
        let number = self.number(command, args);
        Account::after(command, number, self.ended.take())
    }

    /// The number of a command.
    fn number(&mut self, command: &'static Command, args: &[&[u8]]) -> usize {
        match self.latest {
            Some(latest) if std::ptr::eq(latest.command, command) => latest.number,
            _ => self.latest.insert(Latest::new(command, args)).number,
        }
    }

    /// Finds a command and checks the number of its arguments.
    fn lookup(&self, args: &[&[u8]]) -> Result<&'static Command, CommandError> {
        match self.latest {
            Some(latest) if latest.is_found_by(args) => Ok(latest.command),
            _ => lookup(args),
        }
    }

    /// The server.
    pub fn server(&self) -> &'s Server {
        self.server
    }

    /// Counts commands that were executed as one batch of so many operations, which has just ended.
    pub fn count_batch(&self, tallies: &[Tally], operations: usize, started: Instant) {
        let ended = Instant::now();
        self.last_end.set(Some(ended));
        let took = ended.duration_since(started);
        let statistics = &self.server.statistics;
        for tally in tallies {
            let part = took * tally.operations as u32 / operations.max(1) as u32;
            statistics.count(tally.number, tally.calls, part);
            for _ in 0..tally.failed {
                statistics.count_failed(tally.number);
            }
        }
    }

    /// Looks at up to `limit` notes of a database that are due, and deletes the keys whose time is
    /// over. Says how many notes there were. The keyspace is not taken if there are none.
    pub fn expire_due(&mut self, database: usize, limit: usize, now_ms: u64) -> usize {
        let server = self.server;
        let keyspace = &server.keyspace;
        let due = |databases: &Databases| -> bool {
            let database = databases.get(database);
            database.is_some_and(|database| database.is_note_due(now_ms))
        };
        // The thread has to go on to hear of SCRIPT KILL while a script runs for long.
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
        let access = Access::Exclusive(&mut databases);
        let mut keys = Keys::new(keyspace, access, database, now_ms, effects);
        // What the index refuses is tried again the next time.
        let count = keys.expire_due(limit).unwrap_or(0);
        let count = count.max(keys.expire_fields(limit).unwrap_or(0));
        effects.settle(database, &[]);
        server.log_effects(effects);
        server.announce(effects, &mut databases);
        count
    }

    /// Executes a command of a client and writes the answer, unless the client has to wait for
    /// it, which is answered here.
    pub fn run(
        &mut self,
        client: &mut Client,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut Reply,
    ) -> Option<Wait> {
        let start = reply.len();
        let before = client.replies;
        if before == Replies::SkipNext {
            // Unless the command says otherwise.
            client.replies = Replies::On;
        }
        let admitted = self
            .admit(client, reply.protocol(), args)
            .and_then(|command| {
                self.check_memory(client, command, now_ms)?;
                Ok(command)
            });
        let number = match &admitted {
            Ok(command) => Some(self.number(command, args)),
            Err(_) => lookup(args).ok().map(number_of),
        };
        client.shared.listed.note(number);
        let is_told =
            client.transaction.is_none() && admitted.as_ref().is_ok_and(|it| is_told(it, args));
        let wait = match admitted {
            Ok(command) if must_queue(client, command) => {
                match self.queue(client, args) {
                    Ok(()) => reply.simple("QUEUED"),
                    Err(error) => {
                        Account::refuse(self.server, args, &error);
                        reply.error(&error.to_string());
                    }
                }
                None
            }
            Ok(command) => self.execute(client, command, args, now_ms, reply),
            Err(error) => {
                if let Some(transaction) = &mut client.transaction {
                    transaction.refuse();
                }
                Account::refuse(self.server, args, &error);
                let exec = args.first().is_some_and(|name| command::is(name, "exec"));
                let error = if exec {
                    command::abort(self.server, client, &error)
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
        if before != Replies::On || client.replies != Replies::On {
            let is_error = reply.bytes().get(start) == Some(&b'-');
            let is_answered = client.replies == Replies::On && before != Replies::SkipNext;
            if !is_answered && (!is_told || is_error) {
                reply.truncate(start);
            }
        }
        if wait.is_some() {
            client.is_silent_wait = client.replies != Replies::On || before == Replies::SkipNext;
        }
        wait
    }

    /// Adds a command to the client's transaction.
    ///
    /// # Errors
    /// `OutOfMemory`; the transaction is then refused as a whole, and holds nothing.
    fn queue(&self, client: &mut Client, args: &[&[u8]]) -> Result<(), CommandError> {
        let Some(transaction) = &mut client.transaction else {
            return Ok(());
        };
        if transaction.refused {
            // It is never executed.
            return Ok(());
        }
        let share = &self.server.clients.share;
        let bytes = remembered_bytes(args);
        // Some room is left for what comes behind it, so that the client is told and not closed.
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
        client: &mut Client,
        protocol: Protocol,
        args: &[&[u8]],
    ) -> Result<&'static Command, CommandError> {
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
            return Err(not_while_subscribed(command, args));
        }
        let watchdog = &self.server.scripts.watchdog;
        let is_busy = self.stands_in || watchdog.is_slow();
        if is_busy && !command.flags.has(Flags::ALLOW_BUSY) {
            return Err(CommandError::text(watchdog.busy()));
        }
        self.server.admit_write(command)?;
        command.admit_on(self.server.keyspace.is_shared())?;
        Ok(command)
    }

    /// Makes room if need be, and refuses commands that may take memory if there is none.
    fn check_memory(
        &mut self,
        client: &mut Client,
        command: &Command,
        now_ms: u64,
    ) -> Result<(), CommandError> {
        let server = self.server;
        client.script.lacks_memory = false;
        if !server
            .eviction
            .may_be_over(&server.keyspace, &server.access)
        {
            return Ok(());
        }
        if matches!(command.name, "eval" | "evalsha" | "fcall") && client.transaction.is_none() {
            // What it may do is decided when it writes.
            client.script.lacks_memory = !self.make_room(now_ms);
            return Ok(());
        }
        let denied = |command: &Command| command.flags.has(Flags::DENYOOM);
        let denied_in_exec = command.name == "exec"
            && client
                .transaction
                .iter()
                .flat_map(|t| &t.commands)
                .any(|words| {
                    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    lookup(&args).is_ok_and(denied)
                });
        // Queued commands take memory, whatever they do.
        let takes = denied(command) || takes_aside(command) || must_queue(client, command);
        if !(takes || denied_in_exec) || self.make_room(now_ms) {
            return Ok(());
        }
        if denied_in_exec && let Some(transaction) = &mut client.transaction {
            // EXEC then ends the transaction and says why.
            transaction.without_memory = true;
            return Ok(());
        }
        Err(CommandError::OutOfMemory)
    }

    /// Evicts keys until less memory is used than may be, and says whether that went.
    pub fn make_room(&mut self, now_ms: u64) -> bool {
        self.pause();
        let server = self.server;
        let tiers_are_full = server.eviction.may_memory_tier_be_over(&server.keyspace)
            && server.share_unless_busy().is_some()
            && !server
                .tiering
                .relieve(&server.keyspace, &server.access, None);
        // Before the phase, in the order of the mover.
        let mut still = None;
        if tiers_are_full {
            still = server.tiering.still_unless_held_up();
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
        let access = Access::Exclusive(&mut databases);
        let mut keys = Keys::new(&server.keyspace, access, 0, now_ms, effects);
        let mut carry = still.as_mut().map(|still| {
            |databases: &Databases| {
                let (keyspace, access) = (&server.keyspace, &server.access);
                server.tiering.carry_on(still, keyspace, access, databases);
            }
        });
        let carry = carry.as_mut().map(|it| it as &mut dyn FnMut(&Databases));
        let room = server.eviction.make_room(&mut keys, &server.access, carry);
        effects.settle(0, &[]);
        server.log_effects(effects);
        server.announce(effects, &mut databases);
        room
    }

    /// Runs a command in its phase.
    fn execute(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut Reply,
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
            let keys = Keys::new(&server.keyspace, Access::None, database, now_ms, effects);
            let wait = invoke(server, keys, client, &mut account, args, reply, false);
            self.last_end.set(account.ended());
            return wait;
        }
        // The commands of a script use keys, and it does not by itself.
        let positions = match command.group {
            Group::Scripting => SmallVec::new(),
            _ => command.keys.positions(args),
        };
        let sampled = self.random.random_ratio(1, USES_PER_SAMPLE);
        note_uses(server, client, command, args, &positions, sampled);
        if positions.len() <= 1 && !command.flags.has(Flags::EXCLUSIVE) {
            let key = positions.first().and_then(|&position| args.get(position));
            let key = key.copied();
            match self.execute_shared(client, command, args, key, now_ms, reply) {
                Shared::Executed(wait) => return wait,
                Shared::Busy => {
                    refuse_while_busy(server, client, command, reply);
                    return None;
                }
                Shared::Observed => {}
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
        let access = Access::Exclusive(&mut databases);
        let keys = Keys::new(&server.keyspace, access, database, now_ms, effects);
        let wait = invoke(server, keys, client, &mut account, args, reply, false);
        if server.scripts.watchdog.is_given_up() {
            // Neither success nor an error would be true.
            client.shared.killed.store(true, Ordering::Release);
            effects.clear();
        }
        if let Some(wait) = &wait {
            if !wait.keys.is_empty() {
                server.keyspace.set_observed(Observer::Blocked, true);
            }
            // The words, and the keys among them in two more places.
            client.waiting_bytes = 3 * remembered_bytes(args);
            let sent = || args.iter().map(|word| word.to_vec()).collect();
            let words = wait.words.clone().unwrap_or_else(sent);
            let waiter = Waiter::new(client, reply.protocol(), words, wait.clone());
            server.blocked.add(waiter);
        }
        client.logged_up_to = client.logged_up_to.max(server.log_effects(effects));
        self.last_end.set(account.ended());
        if effects.events.is_empty() {
            self.ended = account.ended();
        }
        server.announce(effects, &mut databases);
        wait
    }

    /// Runs a command on one key or none in the shared phase.
    fn execute_shared(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &[&[u8]],
        key: Option<&[u8]>,
        now_ms: u64,
        reply: &mut Reply,
    ) -> Shared {
        let (server, keyspace) = (self.server, &self.server.keyspace);
        let databases = if let Some(databases) = keyspace.try_share() {
            databases
        } else {
            self.pause();
            let Some(databases) = server.share_unless_busy() else {
                return Shared::Busy;
            };
            databases
        };
        // Who begins to observe does so in the exclusive phase, so it is known from here on.
        let changes = [Flags::WRITE, Flags::MAY_CHANGE];
        let may_change = key.is_some() && changes.iter().any(|&flag| command.flags.has(flag));
        let deletes = key.is_some() && server.singly.has(Reason::LazyExpiry);
        if (may_change || deletes) && keyspace.is_observed() {
            return Shared::Observed;
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
        let access = Access::Shared(&databases);
        let keys = Keys::new(keyspace, access, client.database, now_ms, effects);
        let wait = invoke(server, keys, client, &mut account, args, reply, false);
        client.logged_up_to = client.logged_up_to.max(server.log_effects(effects));
        self.ended = account.ended();
        self.last_end.set(self.ended);
        drop(stripe);
        Shared::Executed(wait)
    }
}

/// Returns the memory of a queued command, in bytes.
fn remembered_bytes(args: &[&[u8]]) -> usize {
    let bytes = |word: &&[u8]| word.len() + ENTRY_BYTES;
    ENTRY_BYTES + args.iter().map(bytes).sum::<usize>()
}

/// What became of a command that was to run in the shared phase.
enum Shared {
    /// It was executed, and may wait.
    Executed(Option<Wait>),
    /// A script has had the keyspace to itself for long.
    Busy,
    /// Somebody observes what is written, so that it needs the exclusive phase.
    Observed,
}

/// Refuses a command while a script runs for long. A transaction that cannot be executed now is
/// over, as the client cannot tell what has become of it otherwise.
fn refuse_while_busy(server: &Server, client: &mut Client, command: &Command, reply: &mut Reply) {
    let reason = server.scripts.watchdog.busy();
    if command.name == "exec" && client.transaction.take().is_some() {
        reply.error(&format!(
            "EXECABORT Transaction discarded because of: {reason}"
        ));
    } else {
        reply.error(reason);
    }
}

fn not_while_subscribed(command: &Command, args: &[&[u8]]) -> CommandError {
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

/// True if a command is answered also to a client that wants no answers: `CLIENT REPLY ON`, and
/// what confirms subscriptions.
fn is_told(command: &Command, args: &[&[u8]]) -> bool {
    let confirms = command.group == Group::PubSub && command.flags.has(Flags::SUBSCRIBER);
    let is_on = || args.get(2).is_some_and(|word| command::is(word, "on"));
    confirms || command.name == "reply" && is_on()
}

/// True if the server remembers what the command says apart from all keys, although Redis takes
/// such commands also where there is no memory.
fn takes_aside(command: &Command) -> bool {
    let is = |group, name: &str| command.group == group && command.name == name;
    is(Group::Scripting, "load") || is(Group::Server, "setuser")
}

fn must_queue(client: &Client, command: &Command) -> bool {
    client.transaction.is_some() && !command.flags.has(Flags::IN_MULTI)
}

/// True if a command that waits for a key is to be executed now that the key is of a type: while
/// it is of another type than the command takes, the client goes on waiting.
fn is_waited_for(command: &Command, kind: Result<Option<Kind>, CommandError>) -> bool {
    match command.group {
        Group::List => kind == Ok(Some(Kind::List)),
        Group::SortedSet => kind == Ok(Some(Kind::SortedSet)),
        // Who waits for a group is told that it is gone.
        Group::Stream => command.name == "xreadgroup" || kind == Ok(Some(Kind::Stream)),
        _ => true,
    }
}

impl Server {
    /// Logs what commands have changed, as one whole, and notes how long that took of it which the
    /// latency monitor is told. Answers the position in the log that has to be safe before the
    /// client of the commands is answered; 0 if they have changed nothing. To be called while what
    /// they have changed cannot be changed by others.
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

    /// Tells those who observe what happened to keys, and lets those go on who have waited for
    /// them.
    pub fn announce(&self, effects: &mut Effects, databases: &mut Databases) {
        while !effects.events.is_empty() {
            let events = std::mem::take(&mut effects.events);
            let told = std::mem::take(&mut effects.told);
            for event in events.iter().filter(|event| event.is_change) {
                self.watches.touch(event.database, &event.key);
            }
            if self.keyspace.is_observed_by(Observer::Notifications) {
                let on = self.config.hot.notified_events.load(Ordering::Relaxed);
                notifications::publish(&self.pubsub, &self.clients, on, &events);
            }
            if self.keyspace.is_observed_by(Observer::Tracking) {
                let news = events.get(told..).unwrap_or_default();
                self.tracking.tell(&self.clients, news);
            }
            if self.keyspace.is_observed_by(Observer::Blocked) {
                for event in &events {
                    self.serve_waiting(event.database, &event.key, effects, databases);
                }
                if self.blocked.is_empty() {
                    self.keyspace.set_observed(Observer::Blocked, false);
                }
            }
        }
    }

    /// Counts a command that has waited, and is answered that it has in vain.
    pub fn count_wait_in_vain(&self, waiter: &Waiter) {
        let args: Vec<&[u8]> = waiter.words.iter().map(Vec::as_slice).collect();
        if let Ok(command) = lookup(&args) {
            self.statistics.count(number_of(command), 1, Duration::ZERO);
        }
    }

    /// Executes the commands of those who wait for a key, in their order.
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

    /// Executes the command of a client that waits, as if it had just come. Answers false if the
    /// client goes on waiting.
    fn go_on(
        &self,
        waiter: &Waiter,
        key: &[u8],
        effects: &mut Effects,
        databases: &mut Databases,
    ) -> bool {
        let args: Vec<&[u8]> = waiter.words.iter().map(Vec::as_slice).collect();
        let Ok(command) = lookup(&args) else {
            return false;
        };
        // The command that woke it may have taken long, and keys may have expired since.
        let now_ms = now_ms();
        let database = waiter.database;
        let is_ready = |effects: &mut Effects, databases: &mut Databases| {
            let access = Access::Exclusive(databases);
            let mut keys = Keys::new(&self.keyspace, access, database, now_ms, effects);
            is_waited_for(command, keys.kind(key))
        };
        if !is_ready(effects, databases) {
            return false;
        }
        let origin = std::mem::replace(&mut effects.origin, waiter.client.id);
        let mut client = waiter.resumed();
        let mut reply = Reply::new(waiter.protocol);
        let admitted = self
            .admit_again(&mut client, command, &args)
            .and_then(|()| self.check_memory_again(command, effects, databases, now_ms));
        let is_answered = match admitted {
            // Its key may have been evicted.
            Ok(()) if !is_ready(effects, databases) => false,
            Ok(()) => {
                let access = Access::Exclusive(&mut *databases);
                let keys = Keys::new(&self.keyspace, access, database, now_ms, effects);
                let account = &mut Account::of(command).shown_before();
                let wait = invoke(self, keys, &mut client, account, &args, &mut reply, false);
                wait.is_none()
            }
            Err(error) => {
                Account::refuse(self, &args, &error);
                reply.error(&error.to_string());
                true
            }
        };
        effects.origin = origin;
        if is_answered {
            let resume = Message::Resume {
                client: waiter.client.id,
                answer: reply.take(),
                logged_up_to: self.log_effects(effects),
            };
            self.clients.send(&waiter.client, resume);
        }
        is_answered
    }

    /// Checks that a client that has waited still may execute its command.
    ///
    /// # Errors
    /// As [`Client::admit`].
    pub fn admit_again(
        &self,
        client: &mut Client,
        command: &'static Command,
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
        command: &Command,
        effects: &mut Effects,
        databases: &mut Databases,
        now_ms: u64,
    ) -> Result<(), CommandError> {
        let may_take = command.flags.has(Flags::DENYOOM);
        if !may_take || !self.eviction.may_be_over(&self.keyspace, &self.access) {
            return Ok(());
        }
        let access = Access::Exclusive(databases);
        let mut keys = Keys::new(&self.keyspace, access, 0, now_ms, effects);
        let has_room = self.eviction.make_room(&mut keys, &self.access, None);
        effects.settle(0, &[]);
        match has_room {
            true => Ok(()),
            false => Err(CommandError::OutOfMemory),
        }
    }
}
