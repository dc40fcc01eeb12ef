//! The requests of a connection: they join the round, or are executed by themselves.

use super::round::BatchAdmission;
use super::state::ClientDeadline;
use super::thread::IoThread;
use super::{held, limits};
use crate::commands::TABLE;
use crate::connection::RespConnection;
use crate::resp::RequestLimits;
use crate::resp::request::{ProtocolError, RequestProgress};
use smallvec::SmallVec;

/// The reason why no more requests of a connection are added to the round.
enum RoundStop {
    /// The absence of a further complete request.
    NoRequest,
    /// A round that must be executed first: it is full, or the values of the next requests are not
    /// fetched.
    MustExecute,
    /// A request that cannot join the round. The connection's parser has found it.
    CannotJoin {
        /// The offset at which it begins.
        start: usize,
        /// True if it may join the next round. Otherwise it must be executed by itself.
        may_join_next: bool,
    },
    /// A next request that violates the protocol.
    Malformed(ProtocolError),
}

impl IoThread<'_> {
    /// Adds the complete requests in `bytes` to the round, and executes those that cannot join one.
    /// Returns the offset at which it has stopped: the rest is incomplete or must wait.
    pub(super) fn process_requests(&mut self, index: usize, bytes: &[u8]) -> usize {
        self.executor.pause();
        let mut used = 0;
        // Offset up to which keys of scripts were prefetched.
        let mut prefetched = 0;
        let has_files = self.server.keyspace.cold.has_files();
        loop {
            debug_assert!(used <= bytes.len());
            let state = &mut *self.guard;
            let Some(connection) = state.connections.get_mut(index) else {
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
            match self.fill_round(index, bytes, &mut used, fetched_bytes) {
                RoundStop::NoRequest => return used,
                RoundStop::Malformed(error) => {
                    self.refuse_protocol(index, &error);
                    return bytes.len();
                }
                RoundStop::MustExecute => {
                    self.execute_round();
                    self.send_early(index);
                }
                RoundStop::CannotJoin {
                    start,
                    may_join_next,
                } => {
                    self.execute_round();
                    let request = bytes.get(start..used).unwrap_or_default();
                    if may_join_next && self.begin_round(index, request) {
                        continue;
                    }
                    let from_request = bytes.get(start..).unwrap_or_default();
                    if used > prefetched {
                        let rest = bytes.get(used..).unwrap_or_default();
                        prefetched = used + self.look_ahead(index, from_request, rest);
                    }
                    let scripts = bytes.get(used..prefetched.min(fetched_bytes));
                    match self.run_alone(index, from_request, scripts.unwrap_or_default()) {
                        Some(more) => used += more,
                        None => return start,
                    }
                }
            }
            if used < bytes.len() && self.yields(index) {
                return used;
            }
        }
    }

    /// Adds the requests of a connection from `*used` on to the round, as long as they can join it,
    /// and advances `*used` past each. The values of requests from `fetched_bytes` on were not
    /// fetched.
    #[inline]
    fn fill_round(
        &mut self,
        index: usize,
        bytes: &[u8],
        used: &mut usize,
        fetched_bytes: usize,
    ) -> RoundStop {
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
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
        loop {
            if *used >= fetched_bytes {
                // The values of further commands are fetched once these are executed.
                return match *used == bytes.len() {
                    true => RoundStop::NoRequest,
                    false => RoundStop::MustExecute,
                };
            }
            let start = *used;
            let rest = bytes.get(start..).unwrap_or_default();
            // A dirty connection is in the list, and its client was touched in this round.
            if for_batches
                && connection.dirty
                && connection.parser.is_between_requests()
                && let Some(length) = state.round.add_again(index as u32, database, rest, &limits)
            {
                *used += length;
                if !state.round.counts_and_has_room(&connection.client) {
                    return RoundStop::MustExecute;
                }
                continue;
            }
            let length = match connection.parser.next(rest, &limits) {
                Ok(RequestProgress::Complete(length)) => length,
                Ok(RequestProgress::Incomplete) => return RoundStop::NoRequest,
                Err(error) => return RoundStop::Malformed(error),
            };
            *used += length;
            if connection.parser.argument_count() == 0 {
                continue;
            }
            if !connection.dirty {
                connection.dirty = true;
                connection.client.shared.touch(state.steady_ms);
                state.ready.to_send.push(index);
            }
            let admission = match for_batches {
                true => {
                    let request = rest.get(..length).unwrap_or_default();
                    let parser = &connection.parser;
                    state.round.add(index as u32, database, parser, request)
                }
                false => BatchAdmission::Never,
            };
            if admission != BatchAdmission::Yes {
                return RoundStop::CannotJoin {
                    start,
                    may_join_next: admission == BatchAdmission::Later,
                };
            }
            if !state.round.note_and_has_room(&connection.client) {
                return RoundStop::MustExecute;
            }
        }
    }

    /// Adds a request, which the connection's parser has found, to the round, which is empty.
    /// Returns false if the request must be executed by itself.
    fn begin_round(&mut self, index: usize, request: &[u8]) -> bool {
        let state = &mut *self.guard;
        let RespConnection { client, parser, .. } = &state.connections[index];
        let round = &mut state.round;
        round.add_first(index as u32, client, parser, request)
    }

    /// Executes the command that the connection's parser has found in `bytes`. If it is a script,
    /// also executes the scripts after it, in `scripts`, and returns the number of their bytes that
    /// were executed. Returns `None` if the command is held back: it is then read again when
    /// commands may continue.
    fn run_alone(&mut self, index: usize, bytes: &[u8], scripts: &[u8]) -> Option<usize> {
        let state = &mut *self.guard;
        let RespConnection {
            client,
            reply,
            parser,
            waiting,
            ..
        } = &mut state.connections[index];
        debug_assert!(!*waiting, "its requests wait, too");
        let args: SmallVec<[&[u8]; 16]> = parser.arguments(bytes).collect();
        debug_assert!(!args.is_empty(), "empty requests are skipped");
        if held::is_held(self.server, client, &args, state.steady_ms) {
            *waiting = true;
            held::hold(self.server, &mut state.paused.held, client);
            return None;
        }
        let name = args.first().copied().unwrap_or_default();
        let (wait, more) = if TABLE.may_run_script(name) && !self.executor.stands_in() {
            drop(args);
            self.run_lending(index, bytes, scripts)
        } else {
            let wait = self.executor.run(client, &args, state.now_ms, reply);
            drop(args);
            (wait, 0)
        };
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        connection.waiting = wait.is_some();
        connection.client.show(connection.waiting);
        connection.waits_until_ms = wait.and_then(|wait| wait.until_ms);
        if let Some(until_ms) = connection.waits_until_ms {
            let client = connection.client.shared.id;
            state.deadlines.insert(ClientDeadline { until_ms, client });
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
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        if !connection.has_much_to_send() {
            return;
        }
        self.executor.pause();
        // A reply may leave only once the changes of its command are durable.
        let logged_up_to = connection.client.logged_up_to;
        if connection.is_killed()
            || self.server.log.commit(logged_up_to).is_err()
            || !connection.send()
            || connection.is_over_output_limit(self.server, state.steady_ms)
        {
            self.close(index);
        } else {
            connection.note_held(&self.server.clients.share);
        }
        self.relieve();
    }
}
