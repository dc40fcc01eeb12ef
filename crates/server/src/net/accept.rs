//! Accepts connections, on the first thread.

use super::limits;
use super::listener::Listener;
use super::thread::{FIRST_LISTENER, IoThread};
use crate::connection::Message;
use crate::connection::listen::Sockets;
use mio::Token;

impl IoThread<'_> {
    /// Has all listeners be waited for.
    pub(super) fn await_connections(&mut self) {
        let served = &mut *self.served;
        for (number, listener) in served.listeners.iter_mut().enumerate() {
            let token = Token(FIRST_LISTENER + number);
            if let Err(error) = listener.register(served.poll.registry(), token) {
                tracing::error!("cannot wait for connections: {error}");
                self.server.stop();
            }
        }
    }

    /// Listens elsewhere for TCP. Connections stay.
    pub(super) fn listen(&mut self, sockets: Sockets) {
        let served = &mut *self.served;
        for listener in &mut served.listeners {
            // One that is not waited for is closed all the same.
            let _ = listener.deregister(served.poll.registry());
        }
        let is_other = |listener: &Listener| matches!(listener, Listener::Unix(..));
        served.listeners.retain(is_other);
        let plain = sockets.plain.into_iter().map(Listener::Tcp);
        let tls = sockets.tls.into_iter().map(Listener::Tls);
        served.listeners.extend(plain.chain(tls));
        self.await_connections();
        self.accept_all();
    }

    /// Accepts the connections that wait on any listener.
    pub(super) fn accept_all(&mut self) {
        for number in 0..self.listeners.len() {
            self.accept(number);
        }
    }

    /// Accepts the connections that wait on a listener.
    pub(super) fn accept(&mut self, number: usize) {
        let accept = |it: &Self| it.listeners.get(number)?.accept(it.server);
        while let Some(stream) = accept(self) {
            let Some(stream) = limits::admit(self.server, stream) else {
                continue;
            };
            let mailboxes = self.server.clients.mailboxes();
            self.next_thread = (self.next_thread + 1) % self.server.balance.active();
            if self.next_thread == self.number {
                self.add(stream);
            } else if let Some(mailbox) = mailboxes.get(self.next_thread) {
                mailbox.send(Message::Serve(stream));
            }
        }
    }
}
