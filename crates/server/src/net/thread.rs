//! A thread that serves connections.

use super::limits;
use super::reads::ParkedReads;
use super::state::{ClientDeadline, IoThreadState};
use crate::allocator;
use crate::clock::{now_ms, steady_ms};
use crate::connection::{Mailbox, RespConnection};
use crate::eviction::MaxmemoryPolicy;
use crate::execute::Executor;
use crate::keyspace::Keyspace;
use crate::server::ServerCore;
use mio::{Events, Token};
use parking_lot::{Mutex, MutexGuard};
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Duration;

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
/// The worker that serves connections: their thread, or the one that stands in for it.
pub(super) struct IoThread<'s> {
    pub(super) server: &'s ServerCore,
    /// The number of the thread to which the connections belong.
    pub(super) number: usize,
    pub(super) mailbox: &'s Mailbox,
    pub(super) executor: Executor<'s>,
    /// The mutex around the state, through which the connections are lent.
    pub(super) state_lock: &'s Mutex<IoThreadState>,
    /// The locked state. It is unlocked only while a script runs.
    pub(super) guard: MutexGuard<'s, IoThreadState>,
}

impl Deref for IoThread<'_> {
    type Target = IoThreadState;

    #[inline]
    fn deref(&self) -> &IoThreadState {
        &self.guard
    }
}

impl DerefMut for IoThread<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut IoThreadState {
        &mut self.guard
    }
}

impl<'s> IoThread<'s> {
    /// Creates a worker for the state behind `state_lock`, of the thread of this number.
    pub(super) fn new(
        server: &'s ServerCore,
        number: usize,
        mailbox: &'s Mailbox,
        state_lock: &'s Mutex<IoThreadState>,
        guard: MutexGuard<'s, IoThreadState>,
        executor: Executor<'s>,
    ) -> Self {
        IoThread {
            server,
            number,
            mailbox,
            executor,
            state_lock,
            guard,
        }
    }

    /// Serves until the server stops.
    pub(super) fn run(mut self) {
        self.await_connections();
        if let Some(reads) = &self.disk_waits.reads
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
        for index in std::mem::take(&mut self.ready.to_read) {
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
        if self.steady_ms.abs_diff(self.accepting.tried_at_ms) >= TICK.as_millis() as u64 {
            self.accepting.tried_at_ms = self.steady_ms;
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
        let client = connection.client.shared.id;
        if let Some(until_ms) = connection.waits_until_ms {
            self.deadlines.remove(&ClientDeadline { until_ms, client });
        }
        let known = self.by_client.remove(&client);
        debug_assert_eq!(known, Some(index), "the client has another connection");
        self.server.forget(&mut connection.client);
    }

    pub(super) fn mark_dirty(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.dirty {
            connection.dirty = true;
            self.ready.to_send.push(index);
        }
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
        if self.number != 0 || self.steady_ms.abs_diff(self.checks.process_ms) < PROCESS_TICK_MS {
            return;
        }
        self.checks.process_ms = self.steady_ms;
        let eviction = &server.eviction;
        if eviction.check_process_memory(&server.keyspace, &server.access) {
            allocator::ask();
        }
    }

    /// Closes the clients that hold most memory if all together hold more than they may.
    pub(super) fn relieve(&mut self) {
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
        let state = &mut *self.guard;
        state
            .round
            .execute(&mut self.executor, state.now_ms, &mut state.connections);
    }

    /// Executes the rest of the round and sends all replies.
    pub(super) fn finish_round(&mut self) {
        self.execute_round();
        self.server.keyspace.reclaim_by(Keyspace::try_exclude);
        if self.ready.to_send.is_empty() {
            return;
        }
        let dirty = std::mem::take(&mut self.ready.to_send);
        let safe_up_to = self.commit(&dirty);
        for index in dirty {
            let state = &mut *self.guard;
            let Some(connection) = state.connections.get_mut(index) else {
                continue;
            };
            connection.dirty = false;
            // Neither success nor an error would be a true reply to its commands.
            let unsafe_to_tell = connection.client.logged_up_to > safe_up_to;
            let sent = !unsafe_to_tell && !connection.is_killed() && connection.send();
            connection.show(&self.server.statistics);
            connection.note_held(&self.server.clients.share);
            if !sent
                || connection.is_over_output_limit(self.server, state.steady_ms)
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
        let state = &mut *self.guard;
        let Some(connection) = state.connections.get_mut(index) else {
            return;
        };
        if !connection.is_stuffed() {
            return;
        }
        // A client that receives a long reply is not idle.
        connection.client.shared.touch(state.steady_ms);
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
        let has_values = self
            .disk_waits
            .reads
            .as_ref()
            .is_some_and(ParkedReads::is_ready);
        let has_work = !self.ready.to_read.is_empty()
            || !self.ready.to_process.is_empty()
            || !self.mail.is_empty();
        if has_values || has_work {
            return Duration::ZERO;
        }
        // The end of a pause is noticed soon.
        let tick = if self.paused.held.is_empty() {
            TICK
        } else {
            HELD_TICK
        };
        match self.deadlines.first() {
            Some(next) => {
                let left_ms = next.until_ms.saturating_sub(steady_ms());
                tick.min(Duration::from_millis(left_ms))
            }
            None => tick,
        }
    }

    /// Counts the memory that the connections hold, unless that was done recently.
    fn count_held(&mut self) {
        if self.steady_ms.abs_diff(self.checks.connections_ms) >= TICK.as_millis() as u64 {
            let share = &self.server.clients.share;
            for (_, connection) in self.connections.iter() {
                connection.note_held(share);
            }
            share.try_again();
            self.checks.connections_ms = self.steady_ms;
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
            let state = &mut *self.guard;
            state.expiry.tick(&mut self.executor, state.now_ms);
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
