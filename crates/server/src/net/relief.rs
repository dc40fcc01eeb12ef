//! The stand-in that serves the connections of a thread while its script runs for long.
//!
//! A script runs on the thread of its client and holds the keyspace exclusively. Other clients of
//! that thread must get the error that the server is busy, and one of them must be able to end the
//! script. While a thread executes a command that may run a script, it therefore lends its
//! connections: it unlocks the mutex around them. Short scripts need nothing else. A separate
//! thread checks periodically if a script has run for long. It then locks that mutex and does the
//! other thread's work until the script has ended. The connection of the script's client is away
//! meanwhile: no thread reads from it or writes to it, and messages for it are kept.
//!
//! This works whatever the script does: it may also be in one long call of a library.

use super::state::IoThreadState;
use super::thread::IoThread;
use super::turns::TURN_MS;
use super::{held, limits};
use crate::blocking::Wait;
use crate::commands::TABLE;
use crate::connection::RespConnection;
use crate::execute::Executor;
use crate::resp::Parser;
use crate::resp::request::RequestProgress;
use crate::server::ServerCore;
use mio::Events;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest interval between two checks for scripts that run for long.
const TICK: Duration = Duration::from_millis(100);

/// Stands in for threads with scripts that run for long, until the server stops. `states` are those
/// of all threads, by their numbers.
pub(super) fn stand_in(server: &ServerCore, states: &[Mutex<IoThreadState>]) {
    while !server.stopping.load(Ordering::Acquire) {
        // A script that begins during the sleep does not count as slow before the sleep ends.
        std::thread::sleep(server.scripts.watchdog.until_slow().min(TICK));
        let Some(number) = server.scripts.watchdog.slow_thread() else {
            continue;
        };
        let mailbox = server.clients.mailboxes().get(number);
        if let (Some(state_lock), Some(mailbox)) = (states.get(number), mailbox)
            // The lock is taken if the script has just ended.
            && let Some(guard) = state_lock.try_lock()
        {
            let executor = Executor::new(server).standing_in();
            IoThread::new(server, number, mailbox, state_lock, guard, executor).serve_while_slow();
        }
    }
}

impl IoThread<'_> {
    /// Executes the command that the connection's parser has found in `bytes`, which may run a
    /// script, and those after it in `scripts` that may do so, too. Meanwhile another thread may
    /// serve all other connections. Returns the number of bytes of `scripts` that were executed.
    pub(super) fn run_lending(
        &mut self,
        index: usize,
        bytes: &[u8],
        scripts: &[u8],
    ) -> (Option<Wait>, usize) {
        let Some(mut connection) = self.guard.connections.lend(index) else {
            return (None, 0);
        };
        debug_assert!(
            self.guard.lent.client.is_none(),
            "a thread runs one script at a time"
        );
        self.guard.lent.client = Some(connection.client.shared.id);
        let (now_ms, steady_ms) = (self.guard.now_ms, self.guard.steady_ms);
        let (executor, state_lock, mailbox) = (&mut self.executor, self.state_lock, self.mailbox);
        let (server, mut end) = (self.server, 0);
        let wait = MutexGuard::unlocked(&mut self.guard, || {
            let limits = limits::of_requests(server);
            let RespConnection {
                client,
                reply,
                parser,
                ..
            } = &mut *connection;
            let args: SmallVec<[&[u8]; 16]> = parser.arguments(bytes).collect();
            let mut wait = executor.run(client, &args, now_ms, reply);
            drop(args);
            while end < scripts.len() && wait.is_none() && !client.closing {
                // Another thread serves the connections, or replies must be sent first.
                if state_lock.is_locked() || reply.len() > limits::REPLY_BYTES || reply.is_cut() {
                    break;
                }
                let rest = scripts.get(end..).unwrap_or_default();
                let Ok(RequestProgress::Complete(length)) = parser.next(rest, &limits) else {
                    // The request is parsed again later.
                    *parser = Parser::new();
                    break;
                };
                let args: SmallVec<[&[u8]; 16]> = parser.arguments(rest).collect();
                let is_script = args.first().is_some_and(|name| TABLE.may_run_script(name));
                if !is_script || held::is_held(server, client, &args, steady_ms) {
                    break;
                }
                wait = executor.run(client, &args, now_ms, reply);
                end += length;
                if executor.has_run_until(steady_ms + TURN_MS) {
                    break;
                }
            }
            if state_lock.is_locked() {
                mailbox.wake();
            }
            wait
        });
        let state = &mut *self.guard;
        state.lent.client = None;
        let is_dirty = connection.dirty;
        state.connections.give_back(index, connection);
        if std::mem::take(&mut state.lent.was_served) {
            // They came before the messages that are left in the queue.
            let messages = std::mem::take(&mut state.lent.messages);
            for message in messages.into_iter().rev() {
                state.mail.push_front(message);
            }
            // Data that arrived on the connection meanwhile caused no event.
            state.ready.to_read.push(index);
            if is_dirty {
                state.ready.to_send.push(index);
            }
        }
        (wait, end)
    }

    /// Serves the lent connections of another thread, until its script has ended.
    fn serve_while_slow(mut self) {
        let number = self.number;
        let is_slow = |it: &ServerCore| it.scripts.watchdog.slow_thread() == Some(number);
        if !is_slow(self.server) {
            return;
        }
        tracing::warn!("a script runs for long; clients receive BUSY errors");
        self.guard.lent.was_served = true;
        // The thread may have received events that it has not handled yet.
        self.accept_all();
        self.read_mail();
        let all: Vec<usize> = self.guard.connections.iter().map(|it| it.0).collect();
        for index in all {
            self.resume_sending(index);
            self.receive(index);
        }
        self.finish_round();
        let mut events = Events::with_capacity(1024);
        while is_slow(self.server) && !self.server.stopping.load(Ordering::Acquire) {
            self.turn(&mut events);
        }
    }
}
