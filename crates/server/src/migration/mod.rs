//! Moving keys to other servers (`MIGRATE`), as far as it knows nothing of keys and clients.
//!
//! ```text
//! command, in the exclusive phase   packs the values of its keys, and has its client wait
//! a thread of its own               sends the parcels and hears what the target says
//! command, in the exclusive phase   deletes the keys that the target has, and answers
//! ```
//!
//! Other clients go on in between, and may change what was sent. A key is deleted only if its value
//! is still that of the parcel which the target has acknowledged. Otherwise it is sent again. After
//! [`ATTEMPTS`] the command sends while it has the keyspace to itself, so that it ends.
//!
//! Each command connects anew.

mod link;

use link::Link;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often keys are sent that others change meanwhile.
pub const ATTEMPTS: usize = 3;
/// Commands whose parcels are sent at a time. *Assumed*: of several, one may wait for a target that
/// does not answer.
pub const SENDERS: usize = 4;

/// Another server, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name or address.
    pub host: String,
    /// Its port, as the client has named it.
    pub port: String,
    /// The number of its database, which it may not have.
    pub database: i64,
    /// What is said behind `AUTH`: a password, or a name and a password.
    pub credentials: Vec<Vec<u8>>,
    /// How long is waited for each answer, and until something can be sent.
    pub timeout: Duration,
}

/// A key with its value, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The key.
    pub key: Vec<u8>,
    /// What `DUMP` answers.
    pub payload: Vec<u8>,
    /// When the key expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// Whether the target is to replace a key that it has.
    pub replaces: bool,
}

/// Why not all parcels were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The target's address is not known, or does not answer. The words are Redis's.
    #[error("IOERR error or timeout connecting to the client")]
    Connecting,
    /// The target refuses connections, or takes nothing more.
    #[error("IOERR error or timeout writing to target instance")]
    Writing,
    /// The target has gone, says nothing, or says what is no answer.
    #[error("IOERR error or timeout reading to target instance")]
    Reading,
    /// The target's first error.
    #[error("ERR Target instance replied with error: {0}")]
    Refused(String),
}

/// Parcels on their way.
#[derive(Debug, Default)]
pub struct Shipment {
    /// What is sent.
    pub parcels: Vec<Parcel>,
    /// How often something was sent for the command.
    pub attempts: usize,
    /// Of each parcel that was answered, whether the target has it.
    pub acknowledged: Vec<bool>,
    /// Why others were not.
    pub failure: Option<Failure>,
    /// Stays open until it is known whether the target is this server.
    pub connection: Option<TcpStream>,
}

impl Shipment {
    /// Sends the parcels and waits for the answers, as long as `target` says, or until `stopping`.
    pub fn send(&mut self, target: &Target, stopping: &AtomicBool) {
        self.attempts += 1;
        self.acknowledged.clear();
        self.failure = match Link::open(target, stopping) {
            Err(error) => Some(match error.kind() {
                // Which Redis learns when it writes.
                ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::HostUnreachable => Failure::Writing,
                _ => Failure::Connecting,
            }),
            Ok(mut link) => {
                let failure = link.pass(target, &self.parcels, &mut self.acknowledged);
                self.connection = Some(link.into_connection());
                failure.err()
            }
        };
    }
}

/// Shipments that are to be sent. `W` says for whom.
#[derive(Debug)]
pub struct Migrations<W> {
    queue: Mutex<VecDeque<(W, Target, Shipment)>>,
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
    /// Has a shipment be sent.
    pub fn ask(&self, who: W, target: Target, shipment: Shipment) {
        self.queue.lock().push_back((who, target, shipment));
        self.wanted.notify_one();
    }

    /// Sends shipments, one after the other, until it is to stop. `tell` is called with each that
    /// was sent.
    pub fn send(&self, stopping: &AtomicBool, tell: impl Fn(W, Shipment)) {
        while let Some((who, target, mut shipment)) = self.next(stopping) {
            shipment.send(&target, stopping);
            tell(who, shipment);
        }
    }

    /// Waits for the next; `None` if it is to stop.
    fn next(&self, stopping: &AtomicBool) -> Option<(W, Target, Shipment)> {
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

    /// Wakes those who wait for something to send, as they are to stop.
    pub fn stop(&self) {
        let _queue = self.queue.lock();
        self.wanted.notify_all();
    }
}
