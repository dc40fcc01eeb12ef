//! The state of a thread that serves connections.

use super::ahead::Ahead;
use super::connections::Connections;
use super::expiry::Expiry;
use super::listener::ClientListener;
use super::parked::Scout;
use super::reads::ParkedReads;
use super::round::CommandRound;
use crate::allocator::FollowedRequests;
use crate::clock::{now_ms, steady_ms};
use crate::connection::IoThreadMessage;
use crate::server::ServerCore;
use mio::Poll;
use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

/// The connections and the state of a thread. It is behind a mutex that the thread holds, except
/// while a command runs that may take long (see [`relief`](super::relief)).
pub(super) struct IoThreadState {
    pub(super) poll: Poll,
    /// The listeners, on the first thread.
    pub(super) listeners: Vec<ClientListener>,
    pub(super) connections: Connections,
    /// The connection of each client.
    pub(super) by_client: hashbrown::HashMap<u64, usize>,
    pub(super) round: CommandRound,
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
    pub(super) scratch: Vec<u8>,
    /// The time of day at the start of the round, which decides about the expiry of keys.
    pub(super) now_ms: u64,
    /// The time at the start of the round by [`steady_ms`], which durations are measured with.
    pub(super) steady_ms: u64,
    /// Time of the last log line about connections that cannot be accepted.
    pub(super) not_accepted_at: Option<Instant>,
    /// Time of the last attempt to accept connections for which no event arrived.
    pub(super) accepted_at_ms: u64,
    /// Time of the last count of the memory that connections hold.
    pub(super) held_counted_ms: u64,
    /// Time of the last check of the resident memory.
    pub(super) process_ms: u64,
    /// The requests for memory that this thread has followed.
    pub(super) followed: FollowedRequests,
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
    pub(super) expiry: Expiry,
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
