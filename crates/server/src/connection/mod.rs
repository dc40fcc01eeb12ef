//! A connection: a socket, received data that is not parsed yet, and replies that are not sent yet.

pub mod balance;
mod clients;
pub mod listen;
mod mailbox;
mod send_queue;
pub mod tls;
mod transport;

pub use clients::ClientRegistry;
pub use mailbox::{IoThreadMessage, Mailbox};
pub use transport::Transport;

use crate::client::{ClientSession, ClientShare, ClientShared};
use crate::observe::Statistics;
use crate::resp::{Parser, Protocol, RespReply};
use nearfield_tiers::ColdPlace;
use send_queue::SendQueue;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;

/// A client's connection.
#[derive(Debug)]
pub struct RespConnection {
    stream: Transport,
    /// The client.
    pub client: ClientSession,
    /// Replies that are sent after the queue.
    pub reply: RespReply,
    /// Replies that wait until the socket takes them.
    waiting_to_be_sent: SendQueue,
    /// The parser of requests.
    pub parser: Parser,
    /// The received part of an incomplete request.
    pub input: Vec<u8>,
    /// True if the client waits in a command (`BLPOP`); its next commands wait, too.
    pub waiting: bool,
    /// Deadline of the wait, by [`steady_ms`](crate::clock::steady_ms).
    pub waits_until_ms: Option<u64>,
    /// Number of bytes of the input for which values were fetched, or are being fetched.
    pub fetched_bytes: usize,
    /// The values that it waits for, and the time at which it gives up, by
    /// [`steady_ms`](crate::clock::steady_ms).
    pub fetching: Option<(u64, Vec<ColdPlace>)>,
    /// True if the client sends nothing after the requests that wait.
    pub ends_after_fetch: bool,
    /// True if there may be more to read, which is postponed until the client's wait ends.
    pub postponed: bool,
    /// True if complete requests stay in the input until others were served.
    pub yields: bool,
    /// True if it is in the list of connections with something to send.
    pub dirty: bool,
    /// True if the socket took less than it was given, so that an event will report when it takes
    /// more.
    stuffed: bool,
    /// True if the system has reported that the client sends no more after the data it has sent.
    pub ends: bool,
    /// Bytes that were sent since the thread last counted them.
    pub sent_bytes: u64,
    /// The time since which more waits to be sent than the soft limit allows, by
    /// [`steady_ms`](crate::clock::steady_ms).
    pub over_soft_limit_since_ms: Option<u64>,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketReadOutcome {
    /// The number of bytes; there may be more at once if the buffer is full.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The end: the client is gone.
    End,
}

impl RespConnection {
    /// Creates a connection of a client that has just been accepted.
    pub fn new(stream: Transport, client: ClientSession) -> RespConnection {
        RespConnection {
            stream,
            client,
            reply: RespReply::new(Protocol::Resp2),
            waiting_to_be_sent: SendQueue::default(),
            parser: Parser::new(),
            input: Vec::new(),
            waiting: false,
            waits_until_ms: None,
            fetched_bytes: 0,
            fetching: None,
            ends_after_fetch: false,
            postponed: false,
            yields: false,
            dirty: false,
            stuffed: false,
            ends: false,
            sent_bytes: 0,
            over_soft_limit_since_ms: None,
        }
    }

    /// Returns the socket, for registration with a poll.
    pub fn source(&mut self) -> &mut Transport {
        &mut self.stream
    }

    /// Reads once into `buffer`.
    pub fn receive(&mut self, buffer: &mut [u8]) -> SocketReadOutcome {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return SocketReadOutcome::End,
                Ok(count) => return SocketReadOutcome::Bytes(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return SocketReadOutcome::Nothing;
                }
                // A broken connection is treated like one that was closed.
                Err(_) => return SocketReadOutcome::End,
            }
        }
    }

    /// Sends as much as the socket takes now. Returns false if the client is gone.
    pub fn send(&mut self) -> bool {
        self.stuffed = false;
        // They were written before what is left in the reply.
        for part in self.reply.take_apart() {
            self.waiting_to_be_sent.push(part, 0);
        }
        // TLS may have data that the socket has not taken.
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // No reply may overtake that data.
                self.stuffed = true;
                self.put_by();
                return true;
            }
            Err(_) => return false,
            Ok(()) => {}
        }
        while let Some(bytes) = self.waiting_to_be_sent.first() {
            let Some(sent) = send_some(&mut self.stream, bytes) else {
                return false;
            };
            self.stuffed = sent < bytes.len();
            self.waiting_to_be_sent.consume(sent);
            self.sent_bytes += sent as u64;
            if self.stuffed {
                self.put_by();
                return true;
            }
        }
        debug_assert!(
            self.waiting_to_be_sent.is_empty(),
            "replies keep their order"
        );
        let bytes = self.reply.bytes();
        let Some(sent) = send_some(&mut self.stream, bytes) else {
            return false;
        };
        self.stuffed = sent < bytes.len();
        self.sent_bytes += sent as u64;
        if self.stuffed {
            self.waiting_to_be_sent.push(self.reply.take(), sent);
        } else {
            self.reply.clear();
            self.reply.shrink(IDLE_REPLY_BYTES);
        }
        true
    }

    /// Moves replies that the socket does not take now into the queue, once there are many of them.
    fn put_by(&mut self) {
        if self.reply.len() >= PART_BYTES {
            self.waiting_to_be_sent.push(self.reply.take(), 0);
        }
    }

    /// Returns the number of bytes that have not been sent.
    pub fn unsent_bytes(&self) -> usize {
        self.waiting_to_be_sent.len() + self.reply.apart_bytes() + self.reply.len()
    }

    /// Returns true if all has been sent.
    pub fn is_all_sent(&self) -> bool {
        self.waiting_to_be_sent.is_empty() && self.reply.apart_bytes() + self.reply.len() == 0
    }

    /// Bounds the bytes that wait to be sent: a reply that would exceed `most` bytes is cut.
    #[inline]
    pub fn bound_unsent(&mut self, most: usize) {
        // The bound of the reply is for the bytes that are not set apart.
        let waiting = self.waiting_to_be_sent.len() + self.reply.apart_bytes();
        self.reply.set_bound(most.saturating_sub(waiting));
    }

    /// Counts the bytes that were sent, and publishes the number of those that wait.
    pub fn show(&mut self, statistics: &Statistics) {
        let sent = std::mem::take(&mut self.sent_bytes);
        let listed = &self.client.shared.listed;
        statistics.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        listed.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        listed
            .output_bytes
            .store(self.unsent_bytes(), Ordering::Relaxed);
        self.show_input();
    }

    /// Publishes the number of received bytes that are not parsed yet.
    pub fn show_input(&self) {
        let listed = &self.client.shared.listed;
        listed
            .query_bytes
            .store(self.input.len(), Ordering::Relaxed);
    }

    /// Counts the bytes that were received.
    pub fn count_received(&self, statistics: &Statistics, bytes: usize) {
        let bytes = bytes as u64;
        statistics
            .received_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let listed = &self.client.shared.listed;
        listed.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that it holds: input, output, and the state of its client.
    pub fn held_bytes(&self) -> usize {
        size_of::<RespConnection>()
            + size_of::<ClientShared>()
            + self.parser.capacity_bytes()
            + self.client.remembered_bytes()
            + self.input.capacity()
            + self.reply.apart_capacity()
            + self.reply.capacity()
            + self.waiting_to_be_sent.capacity()
    }

    /// Counts its memory as part of the memory that all clients hold.
    #[inline]
    pub fn note_held(&self, share: &ClientShare) {
        share.note(&self.client.shared, self.held_bytes());
    }

    /// Returns true if data waits for the socket, which will report when it takes more.
    pub fn is_stuffed(&self) -> bool {
        self.stuffed || self.stream.wants_write()
    }

    /// Returns true if there is an end to be received that no further event will report.
    pub fn ends(&self) -> bool {
        self.ends || self.stream.has_ended()
    }
}

/// Sends as many of `bytes` as the socket takes now, and returns their number; `None` if the client
/// is gone.
fn send_some(stream: &mut Transport, bytes: &[u8]) -> Option<usize> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(0) => return None,
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(sent)
}

/// Least number of bytes of a part into which waiting replies are put.
const PART_BYTES: usize = 64 << 10;

/// Bytes of memory that a connection keeps for replies while it has none.
const IDLE_REPLY_BYTES: usize = 16 << 10;
