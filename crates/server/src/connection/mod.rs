//! A connection: a socket, what has been read from it and not understood yet, and what has not
//! been sent yet.

pub mod balance;
mod clients;
pub mod listen;
mod mailbox;
mod send_queue;
pub mod tls;
mod transport;

pub use clients::Clients;
pub use mailbox::{Mailbox, Message};
pub use transport::Transport;

use crate::client::{Client, ClientShare, ClientShared};
use crate::observe::Statistics;
use crate::resp::{Parser, Protocol, Reply};
use nearfield_tiers::Place;
use send_queue::SendQueue;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    stream: Transport,
    /// The client.
    pub client: Client,
    /// Replies that are sent after the queue.
    pub reply: Reply,
    /// Replies that wait until the socket takes them.
    waiting_to_be_sent: SendQueue,
    /// Finds requests.
    pub parser: Parser,
    /// What came of a request that is not complete yet.
    pub input: Vec<u8>,
    /// Whether the client waits in a command (`BLPOP`); its next commands wait, too.
    pub waiting: bool,
    /// Until when it waits at most, by [`steady_ms`](crate::clock::steady_ms).
    pub waits_until_ms: Option<u64>,
    /// What of the input waits for values to be fetched, or has waited: so many bytes.
    pub fetched_bytes: usize,
    /// The values that it waits for, to be given up at a time of
    /// [`steady_ms`](crate::clock::steady_ms).
    pub fetching: Option<(u64, Vec<Place>)>,
    /// Whether the client sends no more than what waits.
    pub ends_after_fetch: bool,
    /// Whether there may be more to read, which is left until the client waits no more.
    pub postponed: bool,
    /// Whether complete requests are left in the input until others were served.
    pub yields: bool,
    /// Whether it is in the list of those that have something to send.
    pub dirty: bool,
    /// Whether the socket took less than it was given, so that it will say when it takes more.
    stuffed: bool,
    /// Whether the system has said that the client sends no more, behind what it has sent.
    pub ends: bool,
    /// What was sent since the thread last counted it.
    pub sent_bytes: u64,
    /// Since when more waits to be sent than the soft limit allows, by
    /// [`steady_ms`](crate::clock::steady_ms).
    pub over_soft_limit_since_ms: Option<u64>,
}

/// What reading has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes; there may be more at once if the buffer is full.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The client is gone.
    End,
}

impl Connection {
    /// A connection of a client that has just been accepted.
    pub fn new(stream: Transport, client: Client) -> Connection {
        Connection {
            stream,
            client,
            reply: Reply::new(Protocol::Resp2),
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

    /// The socket, to be waited for.
    pub fn source(&mut self) -> &mut Transport {
        &mut self.stream
    }

    /// Reads once into `buffer`.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Received::End,
                Ok(count) => return Received::Bytes(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(_) => return Received::End,
            }
        }
    }

    /// Sends what the socket takes now. False if the client is gone.
    pub fn send(&mut self) -> bool {
        self.stuffed = false;
        for part in self.reply.take_apart() {
            self.waiting_to_be_sent.push(part, 0);
        }
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
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

    /// Lets replies wait apart that the socket does not take now, once there are many of them.
    fn put_by(&mut self) {
        if self.reply.len() >= PART_BYTES {
            self.waiting_to_be_sent.push(self.reply.take(), 0);
        }
    }

    /// The number of bytes that have not been sent.
    pub fn unsent_bytes(&self) -> usize {
        self.waiting_to_be_sent.len() + self.reply.apart_bytes() + self.reply.len()
    }

    /// True if all has been sent.
    pub fn is_all_sent(&self) -> bool {
        self.waiting_to_be_sent.is_empty() && self.reply.apart_bytes() + self.reply.len() == 0
    }

    /// Has at most `most` bytes wait to be sent: a reply that would make them more is cut.
    #[inline]
    pub fn bound_unsent(&mut self, most: usize) {
        let waiting = self.waiting_to_be_sent.len() + self.reply.apart_bytes();
        self.reply.set_bound(most.saturating_sub(waiting));
    }

    /// Counts what was sent, and lets others see what waits.
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

    /// Lets others see what has come and is not understood yet.
    pub fn show_input(&self) {
        let listed = &self.client.shared.listed;
        listed
            .query_bytes
            .store(self.input.len(), Ordering::Relaxed);
    }

    /// Counts what was received.
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
        size_of::<Connection>()
            + size_of::<ClientShared>()
            + self.parser.capacity_bytes()
            + self.client.remembered_bytes()
            + self.input.capacity()
            + self.reply.apart_capacity()
            + self.reply.capacity()
            + self.waiting_to_be_sent.capacity()
    }

    /// Counts what it holds as part of what all clients hold.
    #[inline]
    pub fn note_held(&self, share: &ClientShare) {
        share.note(&self.client.shared, self.held_bytes());
    }

    /// True if there is something to send that the socket will say when it takes.
    pub fn is_stuffed(&self) -> bool {
        self.stuffed || self.stream.wants_write()
    }

    /// True if there is an end to be received, which nobody will tell of again.
    pub fn ends(&self) -> bool {
        self.ends || self.stream.has_ended()
    }
}

/// Sends as many of `bytes` as the socket takes now, and says how many; `None` if the client is
/// gone.
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

/// Replies that wait are put into parts of at least so many bytes.
const PART_BYTES: usize = 64 << 10;

/// What a connection keeps for replies while it has none.
const IDLE_REPLY_BYTES: usize = 16 << 10;
