//! Traversals over a network: callers, a switch, and memory nodes that exchange datagrams.
//!
//! [`Caller`], [`Switch`] and [`Node`] are state machines: datagrams and the time go in, datagrams
//! come out. They open no socket and read no clock, so that a simulator runs the same code as
//! [`udp`], which has the sockets.
//!
//! A request goes through the switch to the node that holds its address, and each time that the
//! traversal leaves a node, through the switch to the next. The node at which it ends answers,
//! through the switch. Where a caller asks for it, a node answers [`Elsewhere`] instead of passing
//! a traversal on, and the caller sends it on.
//!
//! - *Loss.* The caller repeats what it has sent last until an answer comes (`caller/timer.rs`).
//! - *Exactly once.* The counter of a request and the number of nodes that have worked on it name a
//!   piece of work. A node remembers what it has sent after each piece that may have stored
//!   something, and sends that again instead of working twice (`node/answers.rs`). It forgets that
//!   when the caller says that it has the answer.
//! - *Programs* are known by their hash. A node that does not know one asks the caller for it.
//! - *Maps.* A node that is sent an address that it does not hold refuses it by [`StaleMap`], so
//!   that a wrong map of the switch sends nothing in circles. A node whose memory is younger than
//!   what a caller relies on refuses its requests by [`MemoryLost`].
//! - *Secrets.* A tag of the tenant's key covers each message, answers too. What has another tag is
//!   dropped, and counted.
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

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Where it goes.
    pub to: Place,
    /// Its bytes.
    pub datagram: Vec<u8>,
}
