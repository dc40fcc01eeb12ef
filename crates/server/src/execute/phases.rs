//! The phases of the keyspace in which commands run.

use super::{Executor, remembered_bytes};
use crate::blocking::{BlockedClient, Wait};
use crate::client::ClientSession;
use crate::command::{
    CommandAccount, CommandDefinition, CommandGroup, CommandInvocation, Flags, invoke, note_uses,
};
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, WriteObserver};
use crate::resp::{Protocol, RespReply};
use crate::server::ServerCore;
use crate::singly::SequentialReason;
use rand::RngExt;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// The outcome of a command in the shared phase.
enum SharedPhaseOutcome {
    /// The command was executed, and may wait.
    Executed(Option<Wait>),
    /// A script has held the keyspace exclusively for long.
    Busy,
    /// Writes are observed, so the command needs the exclusive phase.
    Observed,
}

impl Executor<'_> {
    /// Runs a command in its phase. A command that lacks room runs again after an eviction.
    pub(super) fn execute_with_room(
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
        self.effects.clear();
        self.effects.observed = false;
        self.effects.origin = client.shared.id;
        if command.flags.has(Flags::NO_PHASE) {
            return self.execute_without_phase(client, command, args, now_ms, reply);
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
        self.execute_exclusive(client, command, args, now_ms, reply)
    }

    /// Runs a command that uses no keys.
    fn execute_without_phase(
        &mut self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut RespReply,
    ) -> Option<Wait> {
        self.pause();
        let access = DatabaseAccess::None;
        let mut account = self.account(command, args);
        let wait = self.invoke(client, args, access, now_ms, reply, &mut account);
        self.last_end.set(account.ended());
        wait
    }

    /// Invokes a command on the keys to which its phase gives access.
    #[inline]
    fn invoke(
        &mut self,
        client: &mut ClientSession,
        args: &[&[u8]],
        access: DatabaseAccess<'_>,
        now_ms: u64,
        reply: &mut RespReply,
        account: &mut CommandAccount,
    ) -> Option<Wait> {
        let (server, effects) = (self.server, &mut self.effects);
        let keys = DatabaseKeys::new(&server.keyspace, access, client.database, now_ms, effects);
        let invocation = CommandInvocation {
            server,
            keys,
            client,
            args,
            reply,
            nested: false,
        };
        invoke(invocation, account)
    }

    /// Runs a command in the exclusive phase, with all side effects.
    fn execute_exclusive(
        &mut self,
        client: &mut ClientSession,
        command: &'static CommandDefinition,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut RespReply,
    ) -> Option<Wait> {
        let server = self.server;
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
        self.effects.observed = server.keyspace.is_observed();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let wait = self.invoke(client, args, access, now_ms, reply, &mut account);
        let effects = &mut self.effects;
        if server.scripts.watchdog.is_given_up() {
            // Neither success nor an error would be true.
            client.shared.killed.store(true, Ordering::Release);
            effects.clear();
        }
        if let Some(wait) = &wait {
            begin_wait(server, client, args, reply.protocol(), wait);
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
        let access = DatabaseAccess::Shared(&databases);
        let wait = self.invoke(client, args, access, now_ms, reply, &mut account);
        debug_assert!(
            wait.as_ref().is_none_or(|wait| wait.keys.is_empty()),
            "a client that waits for a key needs the exclusive phase"
        );
        // The log has the changes of one key in their order only while the stripe is locked.
        let effects = &mut self.effects;
        client.logged_up_to = client.logged_up_to.max(server.log_effects(effects));
        self.ended = account.ended();
        self.last_end.set(self.ended);
        drop(stripe);
        SharedPhaseOutcome::Executed(wait)
    }
}

/// Makes a client wait, in the exclusive phase, for the keys that its command found without values
/// or for another event.
fn begin_wait(
    server: &ServerCore,
    client: &mut ClientSession,
    args: &[&[u8]],
    protocol: Protocol,
    wait: &Wait,
) {
    if !wait.keys.is_empty() {
        // Writes in the shared phase wake no client, so they need the exclusive one from here on.
        server.keyspace.set_observed(WriteObserver::Blocked, true);
    }
    // The words are stored once, and the keys among them in two more places.
    client.waiting_bytes = 3 * remembered_bytes(args);
    let sent = || args.iter().map(|word| word.to_vec()).collect();
    let words = wait.words.clone().unwrap_or_else(sent);
    let waiter = BlockedClient::new(client, protocol, words, wait.clone());
    server.blocked.add(waiter);
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
