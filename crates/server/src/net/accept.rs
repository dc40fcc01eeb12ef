//! The accepting of connections, on the first thread.

use super::limits;
use super::listener::ClientListener;
use super::thread::{FIRST_LISTENER, IoThread, READS};
use crate::client::{ClientSession, ClientShared};
use crate::config::BIND_ADDRESSES_MAX;
use crate::connection::listen::ListenerSockets;
use crate::connection::{IoThreadMessage, RespConnection, Transport};
use mio::{Interest, Token};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reply to a client on another machine in protected mode.
const DENIED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is \
    enabled and no password is set for the default user. In this mode connections are only \
    accepted from the loopback interface. If you want to connect from external computers to Redis \
    you may adopt one of the following solutions: 1) Just disable protected mode sending the \
    command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from \
    the same host the server is running, however MAKE SURE Redis is not publicly accessible from \
    internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you \
    can just disable the protected mode by editing the Redis configuration file, and setting the \
    protected mode option to 'no', and then restarting the server. 3) If you started the server \
    manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an \
    authentication password for the default user. NOTE: You only need to do one of the above \
    things in order for the server to start accepting connections from the outside.\r\n";

/// Returns true if the peer of a connection is on this machine.
fn is_from_here(stream: &Transport) -> bool {
    let Some(stream) = stream.tcp() else {
        return true;
    };
    let peer = stream.peer_addr();
    peer.is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
}

/// Shortest interval between log lines about connections that cannot be accepted.
const NOT_ACCEPTED_EVERY: Duration = Duration::from_secs(10);

// The tokens of all listeners, with and without TLS and in the file system, are before the others.
const _: () = assert!(FIRST_LISTENER + 2 * BIND_ADDRESSES_MAX < READS.0);

impl IoThread<'_> {
    /// Registers all listeners with the poll.
    pub(super) fn await_connections(&mut self) {
        let state = &mut *self.guard;
        for (number, listener) in state.accepting.listeners.iter_mut().enumerate() {
            let token = Token(FIRST_LISTENER + number);
            if let Err(error) = listener.register(state.poll.registry(), token) {
                tracing::error!("cannot wait for connections: {error}");
                self.server.stop();
            }
        }
    }

    /// Replaces the TCP listeners. Connections stay.
    pub(super) fn listen(&mut self, sockets: ListenerSockets) {
        let state = &mut *self.guard;
        for listener in &mut state.accepting.listeners {
            // A listener that was not registered is closed all the same.
            let _ = listener.deregister(state.poll.registry());
        }
        let is_other = |listener: &ClientListener| matches!(listener, ClientListener::Unix(..));
        state.accepting.listeners.retain(is_other);
        let plain = sockets.plain.into_iter().map(ClientListener::Tcp);
        let tls = sockets.tls.into_iter().map(ClientListener::Tls);
        state.accepting.listeners.extend(plain.chain(tls));
        self.await_connections();
        self.accept_all();
    }

    /// Accepts the connections that wait on any listener.
    pub(super) fn accept_all(&mut self) {
        debug_assert!(self.number == 0 || self.accepting.listeners.is_empty());
        for number in 0..self.accepting.listeners.len() {
            self.accept(number);
        }
    }

    /// Accepts the connections that wait on a listener.
    pub(super) fn accept(&mut self, number: usize) {
        loop {
            let Some(listener) = self.accepting.listeners.get(number) else {
                return;
            };
            let stream = match listener.accept(self.server) {
                Ok(stream) => stream,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.tell_not_accepted(&error);
                    }
                    return;
                }
            };
            let Some(stream) = limits::admit(self.server, stream) else {
                continue;
            };
            let mailboxes = self.server.clients.mailboxes();
            self.accepting.last_thread =
                (self.accepting.last_thread + 1) % self.server.balance.active();
            if self.accepting.last_thread == self.number {
                self.add(stream);
            } else if let Some(mailbox) = mailboxes.get(self.accepting.last_thread) {
                mailbox.send(IoThreadMessage::Serve(stream));
            }
        }
    }

    /// Logs that a connection could not be accepted, unless that was logged recently: a client that
    /// connects again and again must not fill the log.
    fn tell_not_accepted(&mut self, error: &io::Error) {
        let is_new = |told: Instant| told.elapsed() >= NOT_ACCEPTED_EVERY;
        if self.accepting.failure_logged_at.is_none_or(is_new) {
            self.accepting.failure_logged_at = Some(Instant::now());
            tracing::warn!("connections cannot be accepted: {error}");
        }
    }

    /// Begins to serve a connection, unless it comes from another machine in protected mode.
    pub(super) fn add(&mut self, mut stream: Transport) {
        // Replies are sent whole; waiting for more would only delay them.
        if let Some(socket) = stream.tcp() {
            let _ = socket.set_nodelay(true);
            limits::keep_alive(self.server, socket);
        }
        let address = |address: io::Result<SocketAddr>| {
            address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
        };
        if self.server.acl.is_protected() && !is_from_here(&stream) {
            // The connection is closed in any case, so it does not matter if the reply arrives.
            let _ = io::Write::write(&mut stream, DENIED);
            limits::dismiss(self.server);
            return;
        }
        let (peer, local) = match stream.tcp() {
            Some(socket) => (address(socket.peer_addr()), address(socket.local_addr())),
            None => {
                let path = self.server.config.text("unixsocket");
                (format!("{path}:0"), format!("{path}:0"))
            }
        };
        let id = self.server.clients.next_id();
        let shared = Arc::new(ClientShared::new(
            id,
            self.number,
            peer,
            local,
            self.steady_ms,
        ));
        self.server.clients.lock().insert(id, Arc::clone(&shared));
        let mut client = ClientSession::new(shared, true);
        client.welcome(&self.server.acl);
        self.register(RespConnection::new(stream, client));
    }

    /// Serves a connection from here on. Returns its index, or `None` if it cannot be polled and is
    /// closed.
    pub(super) fn register(&mut self, connection: RespConnection) -> Option<usize> {
        let id = connection.client.shared.id;
        let index = self.connections.insert(connection);
        let other = self.by_client.insert(id, index);
        debug_assert!(other.is_none(), "one thread serves a client");
        let state = &mut *self.guard;
        let registered = state.poll.registry().register(
            state.connections[index].source(),
            Token(index),
            Interest::READABLE | Interest::WRITABLE,
        );
        if registered.is_err() {
            self.close(index);
            return None;
        }
        Some(index)
    }
}
