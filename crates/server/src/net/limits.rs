//! The limits of clients: their number, their idle time, and the bytes that wait to be parsed or
//! sent.

use crate::config::ClientClass;
use crate::connection::{RespConnection, Transport};
use crate::resp::RequestLimits;
use crate::server::ServerCore;
use mio::net::TcpStream;
use std::io::Write;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Counts a connection that was accepted, and returns it unless there are too many.
pub fn admit(server: &ServerCore, mut stream: Transport) -> Option<Transport> {
    let most = server.config.hot.maxclients.load(Relaxed);
    if server.connected.load(Relaxed) >= most {
        server.statistics.rejected_connections.fetch_add(1, Relaxed);
        // The buffer of a new connection takes this text at once; if it does not, no client is
        // there to read it.
        let _ = stream.write(b"-ERR max number of clients reached\r\n");
        return None;
    }
    // Only the first thread accepts connections, so the number has not grown meanwhile.
    server.statistics.connections.fetch_add(1, Relaxed);
    server.connected.fetch_add(1, Relaxed);
    Some(stream)
}

/// Stops counting a connection that was admitted.
pub fn dismiss(server: &ServerCore) {
    let before = server.connected.fetch_sub(1, Relaxed);
    debug_assert!(before > 0, "each connection was admitted once");
}

/// Makes the system check if an idle client is still connected.
pub fn keep_alive(server: &ServerCore, stream: &TcpStream) {
    let seconds = server.config.hot.tcp_keepalive_s.load(Relaxed);
    if seconds > 0 {
        let every = Duration::from_secs(seconds);
        let settings = socket2::TcpKeepalive::new()
            .with_time(every)
            .with_interval((every / 3).max(Duration::from_secs(1)));
        // Without this, a dead client is noticed later.
        let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&settings);
    }
}

/// Returns the limits of requests.
pub fn of_requests(server: &ServerCore) -> RequestLimits {
    RequestLimits {
        argument_bytes: server.config.hot.argument_bytes_max.load(Relaxed) as usize,
        ..RequestLimits::default()
    }
}

/// Most bytes that may wait to be sent to a client that has not logged in. Such a client gets only
/// errors and replies about logging in.
const STRANGER_OUTPUT_BYTES: usize = 16 << 10;
/// Bytes of replies to it from which they are sent before all of its commands are executed.
const STRANGER_REPLY_BYTES: usize = 4 << 10;
/// Most bytes of its requests that may wait to be parsed: the largest request that it may send.
const STRANGER_QUERY_BYTES: u64 = 256 << 10;
/// Bytes of replies from which they are sent before all commands are executed.
pub(super) const REPLY_BYTES: usize = 1 << 20;

impl RespConnection {
    /// Returns true if another client, or a limit on memory, has ended the connection.
    pub fn is_killed(&self) -> bool {
        self.client.shared.killed.load(Acquire)
    }

    /// Returns true if the client has sent nothing for longer than it may.
    pub fn is_idle(&self, server: &ServerCore, steady_ms: u64) -> bool {
        let seconds = server.config.hot.timeout_s.load(Relaxed);
        let shared = &self.client.shared;
        let idle_ms = steady_ms.saturating_sub(shared.active_at_ms.load(Relaxed));
        seconds > 0
            && idle_ms > seconds.saturating_mul(1000)
            && !self.waiting
            && !self.client.subscriptions.any()
            && !shared.listed.monitoring.load(Relaxed)
    }

    /// Returns true if more bytes wait to be parsed than may.
    pub fn is_over_query_limit(&self, server: &ServerCore) -> bool {
        let mut most = server.config.hot.query_bytes_max.load(Relaxed);
        if !self.client.authenticated {
            most = most.min(STRANGER_QUERY_BYTES);
        }
        let is_over = self.input.len() as u64 > most;
        if is_over {
            server.statistics.query_limit_closed.fetch_add(1, Relaxed);
        }
        is_over
    }

    /// Returns the class that decides about the client's output limits.
    fn class(&self) -> ClientClass {
        match self.client.subscriptions.any() {
            true => ClientClass::PubSub,
            false => ClientClass::Normal,
        }
    }

    /// Cuts replies that are written from now on where too many bytes would wait to be sent.
    #[inline]
    pub fn bound_output(&mut self, server: &ServerCore) {
        let limit = server.config.hot.output_limit(self.class());
        let most = match limit.hard_bytes.load(Relaxed) {
            0 => usize::MAX,
            hard => hard as usize,
        };
        self.bound_unsent(match self.client.authenticated {
            false => most.min(STRANGER_OUTPUT_BYTES),
            true if self.client.shared.listed.no_evict.load(Relaxed) => most,
            // More than all clients together may hold would close the connection in any case.
            true => most.min(server.clients.share.most()),
        });
    }

    /// Returns true if replies must be sent before more commands are executed.
    #[inline]
    pub fn has_much_to_send(&self) -> bool {
        let most = match self.client.authenticated {
            true => REPLY_BYTES,
            false => STRANGER_REPLY_BYTES,
        };
        self.reply.apart_bytes() + self.reply.len() > most || self.reply.is_cut()
    }

    /// Returns true if more bytes wait to be sent than may, or for longer.
    pub fn is_over_output_limit(&mut self, server: &ServerCore, steady_ms: u64) -> bool {
        let waiting = self.unsent_bytes() as u64;
        let limit = server.config.hot.output_limit(self.class());
        let (hard, soft) = (
            limit.hard_bytes.load(Relaxed),
            limit.soft_bytes.load(Relaxed),
        );
        let mut is_over = self.reply.is_cut() || hard > 0 && waiting > hard;
        is_over |= !self.client.authenticated && waiting > STRANGER_OUTPUT_BYTES as u64;
        if soft > 0 && waiting > soft {
            let since_ms = *self.over_soft_limit_since_ms.get_or_insert(steady_ms);
            let most_ms = limit.soft_s.load(Relaxed).saturating_mul(1000);
            is_over |= steady_ms.saturating_sub(since_ms) > most_ms;
        } else {
            self.over_soft_limit_since_ms = None;
        }
        if is_over {
            server.statistics.output_limit_closed.fetch_add(1, Relaxed);
        }
        is_over
    }
}
