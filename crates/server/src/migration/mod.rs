//! The transfer of keys to other servers (`MIGRATE`). This part is independent of the keyspace and
//! of clients.
//!
//! ```text
//! command, in the exclusive phase   packs the values of its keys, and makes its client wait
//! a thread of its own               sends the parcels and reads the target's replies
//! command, in the exclusive phase   deletes the keys that the target has, and replies
//! ```
//!
//! Other clients continue in between, and may change keys that were sent. A key is deleted only if
//! its value is still that of the parcel which the target has acknowledged. Otherwise it is sent
//! again. After [`ATTEMPTS`] the command sends while it holds the keyspace exclusively, so that it
//! ends.
//!
//! Each command opens a new connection.

mod link;

use link::MigrationLink;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of attempts to send keys that others change meanwhile.
pub const ATTEMPTS: usize = 3;
/// Number of commands that send their parcels at a time. *Assumed*: one of several may wait for a
/// target that does not reply.
pub const SENDERS: usize = 4;

/// Another server, and the way to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationTarget {
    /// The name or address.
    pub host: String,
    /// The port, as the client has named it.
    pub port: String,
    /// The number of the database, which the target may not have.
    pub database: i64,
    /// The words after `AUTH`: a password, or a name and a password.
    pub credentials: Vec<Vec<u8>>,
    /// Timeout for each reply, and for each write.
    pub timeout: Duration,
}

/// A key with its value, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The key.
    pub key: Vec<u8>,
    /// The value in the form of `DUMP`.
    pub payload: Vec<u8>,
    /// The time at which the key expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// True if the target must replace an existing key.
    pub replaces: bool,
}

/// The reason why not all parcels were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// The target's address is unknown, or does not respond. The words are Redis's.
    #[error("IOERR error or timeout connecting to the client")]
    Connecting,
    /// The target refuses connections, or takes no more data.
    #[error("IOERR error or timeout writing to target instance")]
    Writing,
    /// The target has gone, does not reply, or sends an invalid reply.
    #[error("IOERR error or timeout reading to target instance")]
    Reading,
    /// The target's first error.
    #[error("ERR Target instance replied with error: {0}")]
    Refused(String),
}

/// The parcels of a command that is being executed.
#[derive(Debug, Default)]
pub struct Shipment {
    /// The parcels to send.
    pub parcels: Vec<Parcel>,
    /// Number of attempts to send parcels of the command.
    pub attempts: usize,
    /// For each parcel with a reply, true if the target has it.
    pub acknowledged: Vec<bool>,
    /// The reason why others were not acknowledged.
    pub failure: Option<MigrationError>,
    /// The connection, which stays open until it is known if the target is this server.
    pub connection: Option<TcpStream>,
}

impl Shipment {
    /// Sends the parcels and waits for the replies, up to the timeout of `target`, or until
    /// `stopping`.
    pub fn send(&mut self, target: &MigrationTarget, stopping: &AtomicBool) {
        self.attempts += 1;
        // An earlier attempt sent other parcels.
        self.acknowledged.clear();
        self.failure = match MigrationLink::open(target, stopping) {
            Err(error) => Some(match error.kind() {
                // Redis notices these errors only when it writes.
                ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::HostUnreachable => MigrationError::Writing,
                _ => MigrationError::Connecting,
            }),
            Ok(mut link) => {
                let failure = link.pass(target, &self.parcels, &mut self.acknowledged);
                debug_assert!(self.acknowledged.len() <= self.parcels.len());
                self.connection = Some(link.into_connection());
                failure.err()
            }
        };
    }
}

/// Shipments that wait to be sent. `W` identifies the waiting client.
#[derive(Debug)]
pub struct Migrations<W> {
    queue: Mutex<VecDeque<(W, MigrationTarget, Shipment)>>,
    wanted: Condvar,
}

impl<W> Default for Migrations<W> {
    fn default() -> Self {
        Migrations {
            queue: Mutex::default(),
            wanted: Condvar::new(),
        }
    }
}

impl<W> Migrations<W> {
    /// Requests that a shipment is sent.
    pub fn ask(&self, who: W, target: MigrationTarget, shipment: Shipment) {
        self.queue.lock().push_back((who, target, shipment));
        self.wanted.notify_one();
    }

    /// Sends shipments, one after the other, until the server stops. `tell` is called with each
    /// that was sent.
    pub fn send(&self, stopping: &AtomicBool, tell: impl Fn(W, Shipment)) {
        while let Some((who, target, mut shipment)) = self.next(stopping) {
            shipment.send(&target, stopping);
            tell(who, shipment);
        }
    }

    /// Waits for the next shipment; `None` if the server stops.
    fn next(&self, stopping: &AtomicBool) -> Option<(W, MigrationTarget, Shipment)> {
        let mut queue = self.queue.lock();
        loop {
            if stopping.load(Ordering::Acquire) {
                return None;
            }
            if let Some(next) = queue.pop_front() {
                return Some(next);
            }
            self.wanted.wait(&mut queue);
        }
    }

    /// Wakes the threads that wait for shipments, because they must stop.
    pub fn stop(&self) {
        // A thread between its check and its wait holds the lock, and would miss the signal.
        let _queue = self.queue.lock();
        self.wanted.notify_all();
    }
}
