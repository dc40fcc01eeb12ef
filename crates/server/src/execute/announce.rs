//! The effects of commands on the log and on other clients.

use crate::blocking::BlockedClient;
use crate::client::ClientSession;
use crate::clock::now_ms;
use crate::command::{
    CommandAccount, CommandDefinition, CommandGroup, CommandInvocation, Flags, invoke,
};
use crate::commands::TABLE;
use crate::connection::IoThreadMessage;
use crate::error::CommandError;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects, KeyView, WriteObserver};
use crate::object::RedisType;
use crate::push::notifications;
use crate::resp::RespReply;
use crate::server::ServerCore;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
            let notified = std::mem::take(&mut effects.notified);
            debug_assert!(
                notified <= events.len(),
                "an event exists before clients are notified of it"
            );
            for event in events.iter().filter(|event| event.is_change) {
                self.watches.touch(event.database, &event.key);
            }
            if self.keyspace.is_observed_by(WriteObserver::Notifications) {
                let on = self.config.hot.notified_events.load(Ordering::Relaxed);
                notifications::publish(&self.pubsub, &self.clients, on, &events);
            }
            if self.keyspace.is_observed_by(WriteObserver::Tracking) {
                let news = events.get(notified..).unwrap_or_default();
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
