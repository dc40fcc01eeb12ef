//! Limits of clients: their number, their idle time, and the bytes that wait to be parsed or sent.

use crate::client::Client;
use crate::config::ClientClass;
use crate::connection::{Connection, Transport};
use crate::resp::{Reply, RequestLimits};
use crate::server::Server;
use mio::net::TcpStream;
use std::io::Write;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// Counts a connection that was accepted, and gives it back unless there are too many.
pub fn admit(server: &Server, mut stream: Transport) -> Option<Transport> {
    let most = server.config.hot.maxclients.load(Relaxed);
    if server.connected.load(Relaxed) >= most {
        server.statistics.rejected_connections.fetch_add(1, Relaxed);
        // A new connection takes so little at once; if it does not, nobody is there to read it.
        let _ = stream.write(b"-ERR max number of clients reached\r\n");
        return None;
    }
    server.statistics.connections.fetch_add(1, Relaxed);
    server.connected.fetch_add(1, Relaxed);
    Some(stream)
}

/// Counts a connection no more that was admitted.
pub fn dismiss(server: &Server) {
    server.connected.fetch_sub(1, Relaxed);
}

/// Has the system look whether an idle client is still there.
pub fn keep_alive(server: &Server, stream: &TcpStream) {
    let seconds = server.config.hot.tcp_keepalive_s.load(Relaxed);
    if seconds > 0 {
        let every = Duration::from_secs(seconds);
        let settings = socket2::TcpKeepalive::new()
            .with_time(every)
            .with_interval((every / 3).max(Duration::from_secs(1)));
        // Without it a dead client is noticed later.
        let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&settings);
    }
}

/// What requests may be at most.
pub fn of_requests(server: &Server) -> RequestLimits {
    RequestLimits {
        argument_bytes: server.config.hot.argument_bytes_max.load(Relaxed) as usize,
        ..RequestLimits::default()
    }
}

/// True if a client that is answered without being sent anything in between is over its limit. It
/// need not be answered any more, as its connection will be closed.
#[inline]
pub fn is_too_much(server: &Server, client: &Client, reply: &Reply) -> bool {
    let limit = server.config.hot.output_limit(ClientClass::Normal);
    let most = limit.hard_bytes.load(Relaxed);
    let is_over = most > 0 && reply.len() as u64 > most;
    if is_over && !client.shared.killed.swap(true, AcqRel) {
        server.statistics.output_limit_closed.fetch_add(1, Relaxed);
    }
    is_over
}

impl Connection {
    /// True if it was ended by another client, or for what it is sent.
    pub fn is_killed(&self) -> bool {
        self.client.shared.killed.load(Acquire)
    }

    /// True if the client has sent nothing for longer than it may.
    pub fn is_idle(&self, server: &Server, now_ms: u64) -> bool {
        let seconds = server.config.hot.timeout_s.load(Relaxed);
        let shared = &self.client.shared;
        let idle_ms = now_ms.saturating_sub(shared.active_at_ms.load(Relaxed));
        seconds > 0
            && idle_ms > seconds.saturating_mul(1000)
            && !self.waiting
            && !self.client.subscriptions.any()
            && !shared.listed.monitoring.load(Relaxed)
    }

    /// True if more waits to be understood than may.
    pub fn is_over_query_limit(&self, server: &Server) -> bool {
        let most = server.config.hot.query_bytes_max.load(Relaxed);
        let is_over = self.input.len() as u64 > most;
        if is_over {
            server.statistics.query_limit_closed.fetch_add(1, Relaxed);
        }
        is_over
    }

    /// True if more waits to be sent than may, or for longer.
    pub fn is_over_output_limit(&mut self, server: &Server, now_ms: u64) -> bool {
        let waiting = self.reply.len() as u64;
        let class = if self.client.subscriptions.any() {
            ClientClass::PubSub
        } else {
            ClientClass::Normal
        };
        let limit = server.config.hot.output_limit(class);
        let (hard, soft) = (
            limit.hard_bytes.load(Relaxed),
            limit.soft_bytes.load(Relaxed),
        );
        let mut is_over = hard > 0 && waiting > hard;
        if soft > 0 && waiting > soft {
            let since_ms = *self.over_soft_limit_since_ms.get_or_insert(now_ms);
            let most_ms = limit.soft_s.load(Relaxed).saturating_mul(1000);
            is_over |= now_ms.saturating_sub(since_ms) > most_ms;
        } else {
            self.over_soft_limit_since_ms = None;
        }
        if is_over {
            server.statistics.output_limit_closed.fetch_add(1, Relaxed);
        }
        is_over
    }
}
