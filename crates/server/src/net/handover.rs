//! The handover of connections from one thread to another, as
//! [`ThreadBalance`](crate::connection::balance::ThreadBalance) decides.

use super::thread::IoThread;
use crate::connection::balance::INTERVAL;
use crate::connection::{IoThreadMessage, RespConnection};

impl RespConnection {
    /// Returns true if only the thread that serves the connection uses it at the moment.
    fn may_move(&self) -> bool {
        // Otherwise a list of this thread has its number, or waits for its client.
        self.client.is_plain()
            && !self.client.closing
            && !self.waiting
            && !self.postponed
            && !self.yields
            && !self.dirty
            && self.is_all_sent()
            && !self.is_stuffed()
            && !self.ends()
            && !self.is_killed()
    }
}

impl IoThread<'_> {
    /// Notes the load of the thread, and gives connections away if other threads should serve them.
    /// Call it between rounds.
    pub(super) fn balance(&mut self) {
        let balance = &self.server.balance;
        if self.server.options.threads < 2 {
            return;
        }
        if self.steady_ms.abs_diff(self.balance_seen.noted_at_ms) >= INTERVAL.as_millis() as u64 {
            self.balance_seen.noted_at_ms = self.steady_ms;
            balance.note(self.number);
        }
        let active = balance.active();
        let before = std::mem::replace(&mut self.balance_seen.active, active);
        if active < before && self.number >= active {
            self.give_away(|place| Some(place % active));
        } else if active > before && self.number < before {
            self.give_away(|place| Some(place % active).filter(|&target| target >= before));
        }
    }

    /// Gives connections to other threads. `target` returns the thread for a position among the
    /// connections that can move, or `None`.
    fn give_away(&mut self, target: impl Fn(usize) -> Option<usize>) {
        let all = self.connections.iter();
        let movable = all.filter(|(_, connection)| connection.may_move());
        let chosen: Vec<(usize, usize)> = movable
            .enumerate()
            .filter_map(|(place, (index, _))| Some((index, target(place)?)))
            .collect();
        for (index, target) in chosen {
            debug_assert_ne!(target, self.number, "it stays where it is");
            let Some(mailbox) = self.server.clients.mailboxes().get(target) else {
                return;
            };
            let state = &mut *self.guard;
            let source = state.connections[index].source();
            if state.poll.registry().deregister(source).is_err() {
                continue;
            }
            let Some(connection) = state.connections.remove(index) else {
                continue;
            };
            debug_assert!(
                connection.waits_until_ms.is_none() && connection.fetching.is_none(),
                "this thread would wake a client that it does not have"
            );
            let shared = std::sync::Arc::clone(&connection.client.shared);
            self.by_client.remove(&shared.id);
            // In this order: a message that is sent to the new thread comes after the connection in
            // the mailbox, so the thread finds the connection when it reads the message.
            mailbox.send(IoThreadMessage::Adopt(connection));
            shared.move_to(target);
        }
    }

    /// Serves a connection that another thread has given away.
    pub(super) fn adopt(&mut self, connection: RespConnection) {
        if let Some(index) = self.register(connection) {
            // Data that arrived in between caused no event.
            self.ready.to_read.push(index);
        }
    }

    /// Forwards a message for a client that another thread serves by now.
    pub(super) fn forward(&self, client: u64, message: IoThreadMessage) {
        let shared = self.server.clients.get(client);
        if let Some(shared) = shared
            && shared.thread() != self.number
        {
            self.server.clients.send(&shared, message);
        }
    }
}
