//! A thread that serves connections.

use super::ahead::Ahead;
use super::connections::Connections;
use super::expiry::Expiry;
use super::listener::ClientListener;
use super::parked::Scout;
use super::reads::ParkedReads;
use super::round::{BatchAdmission, CommandRound};
use super::{held, limits};
use crate::allocator::{self, FollowedRequests};
use crate::clock::{now_ms, steady_ms};
use crate::commands::TABLE;
use crate::connection::{IoThreadMessage, Mailbox, RespConnection, SocketReadOutcome};
use crate::eviction::MaxmemoryPolicy;
use crate::execute::Executor;
use crate::keyspace::Keyspace;
use crate::resp::RequestLimits;
use crate::resp::request::{ProtocolError, RequestProgress};
use crate::server::ServerCore;
use mio::{Events, Poll, Token};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const WAKER: Token = Token(usize::MAX);
pub(super) const READS: Token = Token(usize::MAX - 1);
/// The token of the first listener; the others follow.
pub(super) const FIRST_LISTENER: usize = usize::MAX - 64;
/// Longest sleep of a thread.
const TICK: Duration = Duration::from_millis(100);
/// Shortest interval between two checks of the resident memory.
const PROCESS_TICK_MS: u64 = 20;
/// Longest sleep while commands are held back.
const HELD_TICK: Duration = Duration::from_millis(5);
/// Number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Largest number of bytes of one read within a longer request.
const LONG_READ_BYTES: usize = 1 << 20;
/// Number of reads of one connection before the others have their turn.
const READS_MAX: usize = 16;

/// The connections and the state of a thread. It is behind a mutex that the thread holds, except
/// while a command runs that may take long (see [`relief`](super::relief)).
pub(super) struct IoThreadState {
    pub(super) poll: Poll,
    /// The listeners, on the first thread.
    pub(super) listeners: Vec<ClientListener>,
    pub(super) connections: Connections,
    /// The connection of each client.
    pub(super) by_client: hashbrown::HashMap<u64, usize>,
    round: CommandRound,
    /// The prefetch of values for received requests.
    pub(super) scout: Scout,
    /// The prefetch of keys of scripts.
    pub(super) ahead: Ahead,
    /// The reads of values in files, if the kernel provides rings.
    pub(super) reads: Option<ParkedReads>,
    /// The times by [`steady_ms`] at which waits for values are given up, and the waiting clients.
    pub(super) parked: VecDeque<(u64, u64)>,
    /// Messages that were taken out of the mailbox.
    pub(super) mail: VecDeque<IoThreadMessage>,
    /// The client with a connection that is away, and the messages for it that have arrived since.
    pub(super) away: Option<u64>,
    pub(super) kept: Vec<IoThreadMessage>,
    /// True if another thread has served the connections since one is away.
    pub(super) was_lent: bool,
    /// Connections with something to send.
    pub(super) dirty: Vec<usize>,
    /// Connections from which more can be read at once.
    pub(super) unread: Vec<usize>,
    /// Connections with requests that wait until others were served.
    pub(super) yielding: Vec<usize>,
    scratch: Vec<u8>,
    /// The time of day at the start of the round, which decides about the expiry of keys.
    pub(super) now_ms: u64,
    /// The time at the start of the round by [`steady_ms`], which durations are measured with.
    pub(super) steady_ms: u64,
    /// Time of the last log line about connections that cannot be accepted.
    pub(super) not_accepted_at: Option<Instant>,
    /// Time of the last attempt to accept connections for which no event arrived.
    accepted_at_ms: u64,
    /// Time of the last count of the memory that connections hold.
    held_counted_ms: u64,
    /// Time of the last check of the resident memory.
    process_ms: u64,
    /// The requests for memory that this thread has followed.
    followed: FollowedRequests,
    pub(super) next_thread: usize,
    /// Clients with held-back commands.
    pub(super) held: Vec<u64>,
    /// Clients with commands that were held back and now continue.
    pub(super) released: VecDeque<u64>,
    /// Time of the last search for idle clients, by [`steady_ms`].
    pub(super) looked_at_ms: u64,
    /// The deadlines of waiting clients, the soonest first, with the clients' numbers.
    pub(super) deadlines: BTreeSet<(u64, u64)>,
    /// Number of threads that served connections at the last check, and the time of the last
    /// decision about it, by [`steady_ms`].
    pub(super) active: usize,
    pub(super) balanced_ms: u64,
    /// The deletion of expired keys, on the first thread.
    expiry: Expiry,
}

impl IoThreadState {
    /// Creates the state of a thread of `server` without clients.
    pub fn new(
        server: &ServerCore,
        poll: Poll,
        reads: Option<ParkedReads>,
        listeners: Vec<ClientListener>,
    ) -> IoThreadState {
        IoThreadState {
            poll,
            listeners,
            connections: Connections::default(),
            by_client: hashbrown::HashMap::new(),
            round: CommandRound::new(server.keyspace.is_shared()),
            scout: Scout::default(),
            ahead: Ahead::default(),
            reads,
            parked: VecDeque::new(),
            mail: VecDeque::new(),
            away: None,
            kept: Vec::new(),
            was_lent: false,
            dirty: Vec::new(),
            unread: Vec::new(),
            yielding: Vec::new(),
            scratch: Vec::new(),
            now_ms: now_ms(),
            steady_ms: steady_ms(),
            not_accepted_at: None,
            accepted_at_ms: 0,
            held_counted_ms: 0,
            process_ms: 0,
            followed: FollowedRequests::default(),
            next_thread: 0,
            held: Vec::new(),
            released: VecDeque::new(),
            looked_at_ms: 0,
            deadlines: BTreeSet::new(),
            active: server.balance.active(),
            balanced_ms: 0,
            expiry: Expiry::default(),
        }
    }
}

/// The worker that serves connections: their thread, or the one that stands in for it.
pub(super) struct IoThread<'s> {
    pub(super) server: &'s ServerCore,
    /// The number of the thread to which the connections belong.
    pub(super) number: usize,
    pub(super) mailbox: &'s Mailbox,
    pub(super) executor: Executor<'s>,
    /// The mutex around the connections, which are lent through it.
    pub(super) desk: &'s Mutex<IoThreadState>,
    pub(super) served: MutexGuard<'s, IoThreadState>,
}

impl Deref for IoThread<'_> {
    type Target = IoThreadState;

    #[inline]
    fn deref(&self) -> &IoThreadState {
        &self.served
    }
}

impl DerefMut for IoThread<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut IoThreadState {
        &mut self.served
    }
}

impl<'s> IoThread<'s> {
    /// Creates a worker for `served`, which is behind the `desk` of the thread of this number.
    pub(super) fn new(
        server: &'s ServerCore,
        number: usize,
        mailbox: &'s Mailbox,
        desk: &'s Mutex<IoThreadState>,
        served: MutexGuard<'s, IoThreadState>,
        executor: Executor<'s>,
    ) -> Self {
        IoThread {
            server,
            number,
            mailbox,
            executor,
            desk,
            served,
        }
    }

    /// Serves until the server stops.
    pub(super) fn run(mut self) {
        self.await_connections();
        if let Some(reads) = &self.reads
            && let Err(error) = reads.register(self.poll.registry(), READS)
        {
            tracing::error!("cannot wait for reads of files: {error}");
            self.server.stop();
        }
        let mut events = Events::with_capacity(1024);
        while !self.server.stopping.load(Ordering::Acquire) {
            self.turn(&mut events);
            self.balance();
        }
    }

    /// Waits for something to do, and does it.
    pub(super) fn turn(&mut self, events: &mut Events) {
        self.resume_fetched();
        let timeout = self.timeout();
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::error!("cannot wait for sockets: {error}");
            self.server.stop();
        }
        self.now_ms = now_ms();
        self.steady_ms = steady_ms();
        self.server.access.advance();
        if !self.mail.is_empty() {
            self.read_mail();
        }
        self.resume_yielding();
        for index in std::mem::take(&mut self.unread) {
            self.receive(index);
        }
        for event in &*events {
            match event.token() {
                WAKER => self.read_mail(),
                // The ring is read before the thread sleeps again.
                READS => {}
                Token(token) if token >= FIRST_LISTENER => self.accept(token - FIRST_LISTENER),
                Token(index) => {
                    if event.is_writable() {
                        self.resume_sending(index);
                    }
                    if event.is_read_closed()
                        && let Some(connection) = self.connections.get_mut(index)
                    {
                        connection.ends = true;
                    }
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        self.receive(index);
                    }
                }
            }
        }
        // If a connection could not be accepted because there was no descriptor, no second event
        // reports it.
        if self.steady_ms.abs_diff(self.accepted_at_ms) >= TICK.as_millis() as u64 {
            self.accepted_at_ms = self.steady_ms;
            self.accept_all();
        }
        self.finish_round();
        self.housekeeping();
    }

    pub(super) fn close(&mut self, index: usize) {
        // Commands of the round may still write replies to this connection.
        self.execute_round();
        let Some(mut connection) = self.connections.remove(index) else {
            return;
        };
        limits::dismiss(self.server);
        connection.source().close();
        let _ = self.poll.registry().deregister(connection.source());
        let id = connection.client.shared.id;
        if let Some(until) = connection.waits_until_ms {
            self.deadlines.remove(&(until, id));
        }
        let known = self.by_client.remove(&id);
        debug_assert_eq!(known, Some(index), "the client has another connection");
        self.server.forget(&mut connection.client);
    }

    pub(super) fn read_mail(&mut self) {
        let sent = self.mailbox.empty().into_iter();
        // Messages that resume clients are handled last: such a client may unsubscribe, and must
        // first get what was published before. The messages of one client keep their order.
        let (last, first): (Vec<_>, Vec<_>) =
            sent.partition(|message| matches!(message, IoThreadMessage::Fetched { .. }));
        self.mail.extend(first.into_iter().chain(last));
        let mut fetched = Vec::new();
        while let Some(message) = self.mail.pop_front() {
            if message.client().is_some() && message.client() == self.away {
                self.kept.push(message);
                continue;
            }
            match message {
                IoThreadMessage::Serve(stream) => self.add(stream),
                IoThreadMessage::Deliver { client, bytes } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        // The replies to requests that were read before come first.
                        self.execute_round();
                        let served = &mut *self.served;
                        let connection = &mut served.connections[index];
                        let share = &self.server.clients.share;
                        share.note_received(&connection.client.shared, bytes.len());
                        connection.bound_output(self.server);
                        connection.reply.raw(&bytes);
                        connection.note_held(share);
                        if connection.is_over_output_limit(self.server, served.steady_ms) {
                            self.close(index);
                        } else {
                            self.mark_dirty(index);
                        }
                    } else {
                        self.forward(client, IoThreadMessage::Deliver { client, bytes });
                    }
                }
                IoThreadMessage::Resume {
                    client,
                    answer,
                    logged_up_to,
                } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        // Another client's command has executed the command of this client.
                        let own = &mut self.connections[index].client.logged_up_to;
                        *own = logged_up_to.max(*own);
                        self.reply_to_waiting(index, &answer);
                        // After messages that are here already: the client may unsubscribe.
                        self.mail.push_back(IoThreadMessage::GoOn { client });
                    } else {
                        let resume = IoThreadMessage::Resume {
                            client,
                            answer,
                            logged_up_to,
                        };
                        self.forward(client, resume);
                    }
                }
                IoThreadMessage::GoOn { client } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.resume_waiting(index);
                    }
                }
                IoThreadMessage::Fetched { client, held } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.resume_parked(index);
                        fetched.push(held);
                    }
                }
                IoThreadMessage::Close { client } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.close(index);
                    } else {
                        self.forward(client, IoThreadMessage::Close { client });
                    }
                }
                IoThreadMessage::Adopt(connection) => self.adopt(*connection),
                IoThreadMessage::Listen(sockets) => self.listen(sockets),
            }
        }
        if !fetched.is_empty() {
            // The commands find the values as long as these are held.
            self.execute_round();
        }
    }

    /// Closes a connection at the end of the client's data, after the replies to its last requests.
    fn end(&mut self, index: usize) {
        match self.connections.get_mut(index) {
            Some(connection) if connection.fetching.is_some() => {
                connection.ends_after_fetch = true;
            }
            Some(connection) if connection.dirty && !connection.waiting => {
                connection.client.closing = true;
            }
            _ => self.close(index),
        }
    }

    pub(super) fn mark_dirty(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Reads the data that has arrived on a connection and executes it, or adds it to the round.
    pub(super) fn receive(&mut self, index: usize) {
        if self
            .connections
            .get(index)
            .is_some_and(RespConnection::is_killed)
        {
            self.close(index);
            return;
        }
        for _ in 0..READS_MAX {
            let served = &mut *self.served;
            let Some(connection) = served.connections.get_mut(index) else {
                return;
            };
            if connection.yields {
                // The connection is read after its requests were executed.
                return;
            }
            if connection.waiting && connection.input.len() > READ_BYTES {
                // Data that it sends while it waits stays in the socket until it continues.
                connection.postponed = true;
                return;
            }
            let full;
            if connection.input.is_empty() && !connection.waiting {
                let mut scratch = std::mem::take(&mut served.scratch);
                // It is another thread's buffer if the connections were lent.
                if scratch.len() < READ_BYTES {
                    scratch.resize(READ_BYTES, 0);
                }
                let buffer = scratch.get_mut(..READ_BYTES).unwrap_or_default();
                match connection.receive(buffer) {
                    SocketReadOutcome::Bytes(count) => {
                        // More may have arrived, and no further event reports an end.
                        full = count == READ_BYTES || connection.ends();
                        connection.count_received(&self.server.statistics, count);
                        let bytes = scratch.get(..count).unwrap_or_default();
                        let used = self.process(index, bytes);
                        if let Some(connection) = self.connections.get_mut(index) {
                            let rest = bytes.get(used..).unwrap_or_default();
                            if !rest.is_empty() {
                                connection.input.extend_from_slice(rest);
                                connection.show_input();
                            }
                        }
                        self.scratch = scratch;
                    }
                    other => {
                        self.scratch = scratch;
                        if other == SocketReadOutcome::End {
                            self.end(index);
                        }
                        return;
                    }
                }
            } else {
                // The buffer grows with the data that has arrived, so that no client takes memory
                // by announcing a long request.
                let room = connection.input.len().clamp(READ_BYTES, LONG_READ_BYTES);
                let scratch = &mut served.scratch;
                if scratch.len() < room {
                    scratch.resize(room, 0);
                }
                let buffer = scratch.get_mut(..room).unwrap_or_default();
                let received = connection.receive(buffer);
                let count = match received {
                    SocketReadOutcome::Bytes(count) => count,
                    SocketReadOutcome::Nothing | SocketReadOutcome::End => 0,
                };
                let bytes = buffer.get(..count).unwrap_or_default();
                connection.input.extend_from_slice(bytes);
                full = count == room || connection.ends();
                connection.count_received(&self.server.statistics, count);
                if count > 0 {
                    // A client that sends a long request is not idle.
                    connection.client.shared.touch(served.steady_ms);
                }
                if received == SocketReadOutcome::End {
                    self.end(index);
                    return;
                }
                if count == 0 {
                    return;
                }
                self.process_input(index);
                if let Some(connection) = self.connections.get(index) {
                    connection.note_held(&self.server.clients.share);
                    if connection.is_over_query_limit(self.server) {
                        self.close(index);
                        return;
                    }
                }
                self.relieve();
            }
            if !full {
                return;
            }
        }
        if self.connections.contains(index) {
            self.unread.push(index);
        }
    }

    /// Executes the requests that a connection has kept.
    pub(super) fn process_input(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        let used = self.process(index, &input);
        if let Some(connection) = self.connections.get_mut(index) {
            input.drain(..used);
            // The rest may stay for long.
            if input.capacity() / 2 > input.len() {
                input.shrink_to_fit();
            }
            connection.input = input;
            connection.show_input();
        }
    }

    /// Executes the complete requests in `bytes`, or adds them to the round. Returns the number of
    /// their bytes.
    fn process(&mut self, index: usize, bytes: &[u8]) -> usize {
        let used = self.process_requests(index, bytes);
        if let Some(connection) = self.connections.get_mut(index) {
            // Requests that do not wait for values are looked at again when more of them has
            // arrived.
            connection.fetched_bytes = match &connection.fetching {
                Some(_) => connection.fetched_bytes.saturating_sub(used),
                None => 0,
            };
        }
        used
    }

    fn process_requests(&mut self, index: usize, bytes: &[u8]) -> usize {
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

    /// Evicts keys where memory is above the limit although no client writes.
    fn keep_limit(&mut self) {
        let server = self.server;
        server.count_aside();
        if server.eviction.policy() != MaxmemoryPolicy::NoEviction
            && server
                .eviction
                .may_exceed_limit(&server.keyspace, &server.access)
            && !server.is_paused()
        {
            let now_ms = self.now_ms;
            self.execute_round();
            // If that fails, the next write gets the error.
            let _ = self.executor.make_room(now_ms);
        }
    }

    /// Checks the memory of the process, unless that was done recently.
    fn check_process_memory(&mut self) {
        let server = self.server;
        if self.number != 0 || self.steady_ms.abs_diff(self.process_ms) < PROCESS_TICK_MS {
            return;
        }
        self.process_ms = self.steady_ms;
        let eviction = &server.eviction;
        if eviction.check_process_memory(&server.keyspace, &server.access) {
            allocator::ask();
        }
    }

    /// Closes the clients that hold most memory if all together hold more than they may.
    fn relieve(&mut self) {
        let clients = &self.server.clients;
        if !clients.share.exceeds_limit() {
            return;
        }
        for client in clients.relieve() {
            tracing::warn!(
                client.id,
                peer = client.peer,
                "a client is closed because clients exceed maxmemory-clients"
            );
            // Those of this thread give their memory back before others take more.
            if let Some(&index) = self.by_client.get(&client.id)
                && self.connections.contains(index)
            {
                self.close(index);
            }
        }
    }

    pub(super) fn execute_round(&mut self) {
        let served = &mut *self.served;
        served
            .round
            .execute(&mut self.executor, served.now_ms, &mut served.connections);
    }

    /// Executes the rest of the round and sends all replies.
    pub(super) fn finish_round(&mut self) {
        self.execute_round();
        self.server.keyspace.reclaim_by(Keyspace::try_exclude);
        if self.dirty.is_empty() {
            return;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let safe_up_to = self.commit(&dirty);
        for index in dirty {
            let served = &mut *self.served;
            let Some(connection) = served.connections.get_mut(index) else {
                continue;
            };
            connection.dirty = false;
            // Neither success nor an error would be a true reply to its commands.
            let unsafe_to_tell = connection.client.logged_up_to > safe_up_to;
            let sent = !unsafe_to_tell && !connection.is_killed() && connection.send();
            connection.show(&self.server.statistics);
            connection.note_held(&self.server.clients.share);
            if !sent
                || connection.is_over_output_limit(self.server, served.steady_ms)
                || (connection.client.closing && connection.is_all_sent())
            {
                self.close(index);
            }
        }
        self.relieve();
    }

    /// Waits until the log is durable enough to reply to the clients of `dirty` connections.
    /// Returns the log position up to which replies may be sent.
    fn commit(&self, dirty: &[usize]) -> u64 {
        let connection = |&index: &usize| self.connections.get(index);
        let logged = |connection: &RespConnection| connection.client.logged_up_to;
        let own = dirty.iter().filter_map(connection).map(logged).max();
        match self.server.log.commit(own.unwrap_or(0)) {
            Ok(()) => u64::MAX,
            Err(_) => self.server.log.durable(),
        }
    }

    pub(super) fn resume_sending(&mut self, index: usize) {
        let served = &mut *self.served;
        let Some(connection) = served.connections.get_mut(index) else {
            return;
        };
        if !connection.is_stuffed() {
            return;
        }
        // A client that receives a long reply is not idle.
        connection.client.shared.touch(served.steady_ms);
        // A dirty connection is sent at the end of the round, when its commands are durable.
        if connection.dirty {
            return;
        }
        let sent = connection.send();
        connection.show(&self.server.statistics);
        if !sent || (connection.client.closing && connection.is_all_sent()) {
            self.close(index);
        }
    }

    /// Returns how long the thread may sleep.
    fn timeout(&self) -> Duration {
        let is_ready = self.reads.as_ref().is_some_and(ParkedReads::is_ready);
        let is_told = self.unread.is_empty() && self.yielding.is_empty() && self.mail.is_empty();
        if is_ready || !is_told {
            return Duration::ZERO;
        }
        // The end of a pause is noticed soon.
        let tick = if self.held.is_empty() {
            TICK
        } else {
            HELD_TICK
        };
        match self.deadlines.first() {
            Some((until, _)) => tick.min(Duration::from_millis(until.saturating_sub(steady_ms()))),
            None => tick,
        }
    }

    /// Counts the memory that the connections hold, unless that was done recently.
    fn count_held(&mut self) {
        if self.steady_ms.abs_diff(self.held_counted_ms) >= TICK.as_millis() as u64 {
            let share = &self.server.clients.share;
            for (_, connection) in self.connections.iter() {
                connection.note_held(share);
            }
            share.try_again();
            self.held_counted_ms = self.steady_ms;
            self.relieve();
            if self.number == 0 {
                self.keep_limit();
            }
            self.followed.follow();
        }
    }

    fn housekeeping(&mut self) {
        // Nothing changes while writes are held back.
        if self.number == 0 && !self.server.is_paused() {
            let served = &mut *self.served;
            served.expiry.tick(&mut self.executor, served.now_ms);
        }
        self.check_process_memory();
        self.count_held();
        self.end_waits();
        self.execute_held();
        self.give_up_parked();
        self.look_for_idle();
        self.finish_round();
    }
}
