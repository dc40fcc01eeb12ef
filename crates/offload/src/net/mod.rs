//! Traversals over a network: callers, a switch, and memory nodes that exchange datagrams.
//!
//! [`Caller`], [`Switch`] and [`Node`] are state machines: their input is datagrams and the time,
//! their output datagrams. They open no socket and read no clock, so that a simulator runs the same
//! code as [`udp`], which has the sockets.
//!
//! A request passes through the switch to the node that holds its address. Each time the traversal
//! leaves a node, it passes through the switch to the next. The node at which it ends responds
//! through the switch. If a caller requests it, a node responds with [`Elsewhere`] instead of
//! forwarding a traversal, and the caller sends it on.
//!
//! - *Loss.* The caller repeats its latest request until a response arrives (`caller/timer.rs`).
//! - *Exactly once.* The counter of a request and the number of nodes that have worked on it
//!   identify a piece of work. A node remembers the message that it sent after each piece that may
//!   have stored something, and sends that again instead of working twice (`node/answers.rs`). It
//!   forgets the message when the caller reports that it has the outcome.
//! - *Programs* are identified by their hash. A node that does not know one requests it from the
//!   caller.
//! - *Maps.* A node that receives a request for an address that it does not hold refuses it by
//!   [`StaleMap`], so that a wrong map of the switch causes no cycles. A node whose memory is newer
//!   than a caller accepts refuses its requests by [`MemoryLost`].
//! - *Secrets.* A tag of the tenant's key covers each message, including responses. Messages with
//!   another tag are dropped and counted.
//!
//! [`Elsewhere`]: crate::traversal::Status::Elsewhere
//! [`StaleMap`]: crate::traversal::Status::StaleMap
//! [`MemoryLost`]: crate::traversal::Status::MemoryLost

mod caller;
mod keys;
mod node;
mod switch;
pub mod udp;

pub use caller::{Answer, CallError, Caller, CallerCounters, CallerSettings};
pub use keys::{Keys, KeysError};
pub use node::{Node, NodeCounters, NodeSettings};
pub use switch::{Map, MapError, Switch, SwitchCounters};

use crate::wire::Place;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The destination.
    pub to: Place,
    /// Its bytes.
    pub datagram: Vec<u8>,
}
