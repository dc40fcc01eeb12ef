//! What is noted of each command that is executed: counters, the slow log, what long commands
//! took, which keys a client that caches has read; and monitors are shown it.

use crate::client::Client;
use crate::command::{Command, Flags};
use crate::error::CommandError;
use crate::keyspace::Observer;
use crate::server::Server;
use crate::singly::Reason;
use crate::statistics::number_of;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A command that is being executed.
#[derive(Debug)]
pub struct Account {
    number: usize,
    command: &'static Command,
    started: Instant,
}

/// True if nobody is shown the command.
fn is_hidden(command: &Command) -> bool {
    command.flags.has(Flags::SECRET) || command.flags.has(Flags::ADMIN) || command.name == "exec"
}

impl Account {
    /// Notes that a command begins.
    pub fn begin(
        server: &Server,
        client: &Client,
        command: &'static Command,
        args: &[&[u8]],
    ) -> Account {
        if server.singly.has(Reason::Monitor) && !is_hidden(command) {
            server.monitors.show(server, client, args);
        }
        let number = number_of(command);
        let last = &client.shared.listed.last_command;
        last.store(number as u32 + 1, Ordering::Relaxed);
        Account {
            number,
            command,
            started: Instant::now(),
        }
    }

    /// Notes that it has ended, and how. One that waits has not.
    pub fn end(
        self,
        server: &Server,
        client: &Client,
        args: &[&[u8]],
        answer: &Result<(), CommandError>,
        waits: bool,
    ) {
        let command = self.command;
        if client.tracking.is_some() && command.flags.has(Flags::READONLY) {
            let positions = command.keys.positions(args);
            let keys = positions
                .iter()
                .filter_map(|&position| args.get(position).copied());
            server.tracking.note_read(server, client, keys);
        }
        if waits {
            return;
        }
        if matches!(command.name, "flushall" | "flushdb")
            && answer.is_ok()
            && server.keyspace.is_observed_by(Observer::Tracking)
        {
            server.tracking.tell_all(server);
        }
        let took = self.started.elapsed();
        let thread = client.shared.thread;
        server.statistics.count(thread, self.number, 1, took);
        if let Err(error) = answer {
            server.statistics.count_failed(thread, self.number);
            server.statistics.count_error(&error.to_string());
        }
        if command.name == "exec" {
            // Its commands have been noted one by one.
            if server.singly.has(Reason::Monitor) {
                server.monitors.show(server, client, args);
            }
            return;
        }
        if !command.flags.has(Flags::SECRET) {
            server.slowlog.note(server, client, args, took);
        }
        let event = if command.flags.has(Flags::FAST) {
            "fast-command"
        } else {
            "command"
        };
        server.latency.note(server, event, took);
    }

    /// Notes that a command was refused before it was executed.
    pub fn refuse(server: &Server, client: &Client, args: &[&[u8]], error: &CommandError) {
        server.statistics.count_error(&error.to_string());
        let name = args.first().copied().unwrap_or_default();
        if let Some(command) = crate::command::find(name) {
            let subcommand = args.get(1).and_then(|word| command.subcommand(word));
            let number = number_of(subcommand.unwrap_or(command));
            let thread = client.shared.thread;
            server.statistics.count_rejected(thread, number);
        }
    }
}
