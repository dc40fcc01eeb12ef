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
    pub(super) connections: Connections,
    /// The connection of each client.
    pub(super) by_client: hashbrown::HashMap<u64, usize>,
    /// The connections with something to do.
    pub(super) ready: ReadyConnections,
    /// The commands that are executed together.
    pub(super) round: CommandRound,
    /// The time of day at the start of the round, which decides about the expiry of keys.
    pub(super) now_ms: u64,
    /// The time at the start of the round by [`steady_ms`], which durations are measured with.
    pub(super) steady_ms: u64,
    /// The buffer into which sockets are read.
    pub(super) scratch: Vec<u8>,
    /// The prefetch of keys of scripts.
    pub(super) ahead: Ahead,
    pub(super) disk_waits: DiskWaits,
    /// The deadlines of waiting clients, the soonest first.
    pub(super) deadlines: BTreeSet<ClientDeadline>,
    pub(super) paused: PausedClients,
    /// Messages that were taken out of the mailbox.
    pub(super) mail: VecDeque<IoThreadMessage>,
    pub(super) lent: LentConnection,
    pub(super) accepting: AcceptProgress,
    pub(super) balance_seen: SeenBalance,
    pub(super) checks: CheckTimes,
    /// The requests for memory that this thread has followed.
    pub(super) followed: FollowedRequests,
    /// The deletion of expired keys, on the first thread.
    pub(super) expiry: Expiry,
}

/// The numbers of the connections with something to do.
#[derive(Default)]
pub(super) struct ReadyConnections {
    /// Connections with something to send.
    pub(super) to_send: Vec<usize>,
    /// Connections from which more can be read at once.
    pub(super) to_read: Vec<usize>,
    /// Connections with requests that wait until others were served.
    pub(super) to_process: Vec<usize>,
}

/// The waits of clients for values on a disk.
#[derive(Default)]
pub(super) struct DiskWaits {
    /// The prefetch of values for received requests.
    pub(super) scout: Scout,
    /// The reads of values in files, if the kernel provides rings.
    pub(super) reads: Option<ParkedReads>,
    /// The times at which waits are given up, the soonest first.
    pub(super) deadlines: VecDeque<ClientDeadline>,
}

/// The time at which the wait of a client ends. It is ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientDeadline {
    /// The time by [`steady_ms`].
    pub(super) until_ms: u64,
    /// The client's number.
    pub(super) client: u64,
}

/// The clients with commands that `CLIENT PAUSE` holds back, or that wait for room in memory.
#[derive(Default)]
pub(super) struct PausedClients {
    /// Clients with held-back commands.
    pub(super) held: Vec<u64>,
    /// Clients with commands that were held back and now continue.
    pub(super) released: VecDeque<u64>,
}

/// The connection that is away while its script runs.
#[derive(Default)]
pub(super) struct LentConnection {
    /// Its client, if there is one.
    pub(super) client: Option<u64>,
    /// The messages for the client that have arrived since.
    pub(super) messages: Vec<IoThreadMessage>,
    /// True if another thread has served the other connections since.
    pub(super) was_served: bool,
}

/// The acceptance of connections, on the first thread.
#[derive(Default)]
pub(super) struct AcceptProgress {
    pub(super) listeners: Vec<ClientListener>,
    /// The thread that got the last connection.
    pub(super) last_thread: usize,
    /// Time of the last attempt to accept connections for which no event arrived.
    pub(super) tried_at_ms: u64,
    /// Time of the last log line about connections that cannot be accepted.
    pub(super) failure_logged_at: Option<Instant>,
}

/// The number of threads that serve connections, as a thread has seen it last.
pub(super) struct SeenBalance {
    pub(super) active: usize,
    /// Time of the last decision about the number, by [`steady_ms`].
    pub(super) noted_at_ms: u64,
}

/// The times of the last periodic checks, by [`steady_ms`].
#[derive(Default)]
pub(super) struct CheckTimes {
    /// The count of the memory that connections hold.
    pub(super) connections_ms: u64,
    /// The check of the resident memory.
    pub(super) process_ms: u64,
    /// The search for idle clients.
    pub(super) idle_ms: u64,
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
            connections: Connections::default(),
            by_client: hashbrown::HashMap::new(),
            ready: ReadyConnections::default(),
            round: CommandRound::new(server.keyspace.is_shared()),
            now_ms: now_ms(),
            steady_ms: steady_ms(),
            scratch: Vec::new(),
            ahead: Ahead::default(),
            disk_waits: DiskWaits {
                reads,
                ..DiskWaits::default()
            },
            deadlines: BTreeSet::new(),
            paused: PausedClients::default(),
            mail: VecDeque::new(),
            lent: LentConnection::default(),
            accepting: AcceptProgress {
                listeners,
                ..AcceptProgress::default()
            },
            balance_seen: SeenBalance {
                active: server.balance.active(),
                noted_at_ms: 0,
            },
            checks: CheckTimes::default(),
            followed: FollowedRequests::default(),
            expiry: Expiry::default(),
        }
    }
}
