//! The requests of a connection: they join the round, or are executed by themselves.

use super::round::BatchAdmission;
use super::thread::IoThread;
use super::{held, limits};
use crate::commands::TABLE;
use crate::connection::RespConnection;
use crate::resp::RequestLimits;
use crate::resp::request::{ProtocolError, RequestProgress};
use smallvec::SmallVec;

impl IoThread<'_> {
    pub(super) fn process_requests(&mut self, index: usize, bytes: &[u8]) -> usize {
        self.executor.pause();
        let mut used = 0;
        // Offset up to which keys of scripts were prefetched.
        let mut seen = 0;
        let has_files = self.server.keyspace.cold.has_files();
        loop {
            debug_assert!(used <= bytes.len());
            let served = &mut *self.served;
            let Some(connection) = served.connections.get_mut(index) else {
                return bytes.len();
            };
            if connection.waiting || connection.client.closing {
                return used;
            }
            connection.bound_output(self.server);
            if has_files && used >= connection.fetched_bytes {
                let rest = bytes.get(used..).unwrap_or_default();
                if self.fetch(index, used, rest) {
                    return used;
                }
                continue;
            }
            let fetched_bytes = match has_files {
                true => connection.fetched_bytes,
                false => usize::MAX,
            };
            // Only commands change these, and none is executed before they are read again.
            let client = &connection.client;
            let limits = match client.authenticated {
                true => limits::of_requests(self.server),
                false => RequestLimits::unauthenticated(),
            };
            let database = client.database;
            let for_batches = client.is_plain()
                && client.login.is_unrestricted(&self.server.acl)
                && self.server.singly.none();
            let (rest, end, added) = loop {
                if used >= fetched_bytes {
                    // The values of further commands are fetched once these are executed.
                    match used == bytes.len() {
                        true => return used,
                        false => break (&[][..], 0, BatchAdmission::Yes),
                    }
                }
                let rest = bytes.get(used..).unwrap_or_default();
                // A dirty connection is in the list, and its client was touched in this round.
                if for_batches
                    && connection.dirty
                    && connection.parser.is_between_requests()
                    && let Some(end) = served
                        .round
                        .add_again(index as u32, database, rest, &limits)
                {
                    used += end;
                    if !served.round.counts_and_has_room(&connection.client) {
                        break (rest, end, BatchAdmission::Yes);
                    }
                    continue;
                }
                let end = match connection.parser.next(rest, &limits) {
                    Ok(RequestProgress::Complete(end)) => end,
                    Ok(RequestProgress::Incomplete) => return used,
                    Err(error) => {
                        self.refuse_protocol(index, &error);
                        return bytes.len();
                    }
                };
                used += end;
                if connection.parser.argument_count() == 0 {
                    continue;
                }
                if !connection.dirty {
                    connection.dirty = true;
                    connection.client.shared.touch(served.steady_ms);
                    served.dirty.push(index);
                }
                if !for_batches {
                    break (rest, end, BatchAdmission::Never);
                }
                let parser = &connection.parser;
                let request = rest.get(..end).unwrap_or_default();
                match served.round.add(index as u32, database, parser, request) {
                    BatchAdmission::Yes if served.round.note_and_has_room(&connection.client) => {}
                    added => break (rest, end, added),
                }
            };
            self.execute_round();
            if added == BatchAdmission::Yes {
                self.send_early(index);
                if used < bytes.len() && self.yields(index) {
                    return used;
                }
                continue;
            }
            if added == BatchAdmission::Later {
                // The round is empty now. It takes the request now, or never.
                let served = &mut *self.served;
                let RespConnection { client, parser, .. } = &served.connections[index];
                let (round, request) = (&mut served.round, rest.get(..end).unwrap_or_default());
                if round.add_first(index as u32, client, parser, request) {
                    continue;
                }
            }
            if used > seen {
                seen = used + self.look_ahead(index, rest, bytes.get(used..).unwrap_or_default());
            }
            let scripts = bytes.get(used..seen.min(fetched_bytes));
            match self.run_alone(index, rest, scripts.unwrap_or_default()) {
                Some(more) => {
                    used += more;
                    if used < bytes.len() && self.yields(index) {
                        return used;
                    }
                }
                None => return used - end,
            }
        }
    }

    /// Executes the command that the connection's parser has found in `bytes`. If it is a script,
    /// also executes the scripts after it, in `scripts`, and returns the number of their bytes that
    /// were executed. Returns `None` if the command is held back: it is then read again when
    /// commands may continue.
    fn run_alone(&mut self, index: usize, bytes: &[u8], scripts: &[u8]) -> Option<usize> {
        let served = &mut *self.served;
        let RespConnection {
            client,
            reply,
            parser,
            waiting,
            ..
        } = &mut served.connections[index];
        debug_assert!(!*waiting, "its requests wait, too");
        let args: SmallVec<[&[u8]; 16]> = parser.arguments(bytes).collect();
        debug_assert!(!args.is_empty(), "empty requests are skipped");
        if held::is_held(self.server, client, &args, served.steady_ms) {
            *waiting = true;
            held::hold(self.server, &mut served.held, client);
            return None;
        }
        let name = args.first().copied().unwrap_or_default();
        let (wait, more) = if TABLE.may_run_script(name) && !self.executor.stands_in() {
            drop(args);
            self.run_lending(index, bytes, scripts)
        } else {
            let wait = self.executor.run(client, &args, served.now_ms, reply);
            drop(args);
            (wait, 0)
        };
        let served = &mut *self.served;
        let connection = &mut served.connections[index];
        connection.waiting = wait.is_some();
        connection.client.show(connection.waiting);
        connection.waits_until_ms = wait.and_then(|wait| wait.until_ms);
        if let Some(until) = connection.waits_until_ms {
            let id = connection.client.shared.id;
            served.deadlines.insert((until, id));
        }
        self.send_early(index);
        Some(more)
    }

    /// Replies with a protocol error to a client, and reads no more from it.
    #[cold]
    fn refuse_protocol(&mut self, index: usize, error: &ProtocolError) {
        self.execute_round();
        let connection = &mut self.connections[index];
        connection.reply.error(&format!("ERR {error}"));
        connection.client.closing = true;
        self.mark_dirty(index);
    }

    /// Sends replies before all commands are executed, if they take much memory.
    fn send_early(&mut self, index: usize) {
        let served = &mut *self.served;
        let connection = &mut served.connections[index];
        if !connection.has_much_to_send() {
            return;
        }
        self.executor.pause();
        // A reply may leave only once the changes of its command are durable.
        let logged_up_to = connection.client.logged_up_to;
        if connection.is_killed()
            || self.server.log.commit(logged_up_to).is_err()
            || !connection.send()
            || connection.is_over_output_limit(self.server, served.steady_ms)
        {
            self.close(index);
        } else {
            connection.note_held(&self.server.clients.share);
        }
        self.relieve();
    }
}
