//! The accounting of executed commands: counters, the slow log, latencies, and the keys that a
//! client with a cache has read. It also shows commands to monitors.

use super::{CommandDefinition, CommandGroup, Flags};
use crate::client::ClientSession;
use crate::error::CommandError;
use crate::keyspace::WriteObserver;
use crate::server::ServerCore;
use crate::singly::SequentialReason;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A command that is being executed.
#[derive(Debug)]
pub struct CommandAccount {
    number: usize,
    command: &'static CommandDefinition,
    started: Option<Instant>,
    ended: Option<Instant>,
    /// True if monitors have been shown the command.
    is_shown: bool,
}

/// Returns true if no monitor is shown the command when it begins.
fn is_hidden(command: &CommandDefinition) -> bool {
    command.flags.has(Flags::ADMIN) || command.flags.has(Flags::RUNS_QUEUED)
}

/// Returns the words of a command without those that are secret.
fn without_secrets<'a>(command: &CommandDefinition, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut words = args.to_vec();
    for position in (command.secrets)(args) {
        if let Some(word) = words.get_mut(position) {
            // The number of words stays the same, so that a reader sees the command's form.
            *word = b"(redacted)";
        }
    }
    words
}

impl CommandAccount {
    /// Creates the account of a command that begins when it is executed.
    pub fn of(command: &'static CommandDefinition, server: &ServerCore) -> CommandAccount {
        debug_assert!(
            server.acl.registry.number(command).is_some(),
            "the registry has all rows of the table"
        );
        let number = server.acl.registry.number(command).unwrap_or(0);
        CommandAccount::after(command, number, None)
    }

    /// Creates the account of the command `number`. If another command has `ended` just now, this
    /// one begins at that time, because reading the clock takes as long as some commands.
    pub fn after(
        command: &'static CommandDefinition,
        number: usize,
        ended: Option<Instant>,
    ) -> CommandAccount {
        CommandAccount {
            number,
            command,
            started: ended,
            ended: None,
            is_shown: false,
        }
    }

    /// Returns the same account for a command that continues after it was blocked. It was shown to
    /// monitors before.
    pub fn shown_before(self) -> CommandAccount {
        CommandAccount {
            is_shown: true,
            ..self
        }
    }

    /// Returns the command.
    pub fn command(&self) -> &'static CommandDefinition {
        self.command
    }

    /// Returns the time at which the command ended, or `None` if it has not.
    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// Records that the command begins, and returns the time.
    pub fn begin(
        &mut self,
        server: &ServerCore,
        client: &ClientSession,
        args: &[&[u8]],
    ) -> Instant {
        if server.singly.has(SequentialReason::Monitor)
            && !self.is_shown
            && !is_hidden(self.command)
        {
            let words = without_secrets(self.command, args);
            server.monitors.show(&server.clients, client, &words);
        }
        *self.started.get_or_insert_with(Instant::now)
    }

    /// Records that the command has ended, and its result. A command that blocks (`waits`) has not
    /// ended.
    pub fn end(
        &mut self,
        server: &ServerCore,
        client: &ClientSession,
        args: &[&[u8]],
        answer: &Result<(), CommandError>,
        waits: bool,
    ) {
        let command = self.command;
        // The commands of a script are recorded one by one.
        let is_tracked = client.tracking.is_some() && command.group != CommandGroup::Scripting;
        if is_tracked && command.flags.has(Flags::READONLY) {
            let positions = command.keys.positions(args);
            let keys = positions
                .iter()
                .filter_map(|&position| args.get(position).copied());
            let keys_max = server
                .config
                .hot
                .tracking_table_max_keys
                .load(Ordering::Relaxed);
            let tracking = &server.tracking;
            tracking.note_read(&server.clients, client, keys_max as usize, keys);
        }
        // A command that blocks is counted when its wait ends.
        if waits {
            return;
        }
        client.shared.listed.count_command();
        if server.keyspace.is_observed_by(WriteObserver::Tracking)
            && command.flags.has(Flags::EMPTIES)
            && answer.is_ok()
        {
            // As in Redis, clients drop their whole caches instead of being told each key.
            server.tracking.notify_all(&server.clients);
        }
        let now = Instant::now();
        let took = now - self.started.unwrap_or(now);
        self.ended = Some(now);
        server.statistics.count(self.number, 1, took);
        if let Err(error) = answer {
            server.statistics.count_failed(self.number);
            let error = error.to_string();
            // The error of a command that a script called was counted with that command.
            let is_counted = command.group == CommandGroup::Scripting
                && client
                    .script
                    .refused
                    .as_ref()
                    .is_some_and(|it| error.starts_with(it.as_str()));
            if !is_counted {
                server.statistics.count_error(&error);
            }
        }
        if command.flags.has(Flags::RUNS_QUEUED) {
            // The commands of the transaction were recorded one by one.
            if server.singly.has(SequentialReason::Monitor) {
                server.monitors.show(&server.clients, client, args);
            }
            return;
        }
        if !command.flags.has(Flags::SECRET) {
            let words = || without_secrets(command, args);
            // The words are copied only if the command is slow enough.
            server.slowlog.note(&server.config.hot, client, words, took);
        }
        let event = if command.flags.has(Flags::FAST) {
            "fast-command"
        } else {
            "command"
        };
        // The latency monitor of Redis has one event for fast commands and one for all others.
        server.latency.note(&server.config.hot, event, took);
    }

    /// Records that the command `number`, or an unknown one, was refused before it was executed.
    pub fn refuse(server: &ServerCore, number: Option<usize>, error: &CommandError) {
        server.statistics.count_error(&error.to_string());
        if let Some(number) = number {
            server.statistics.count_rejected(number);
        }
    }
}
