//! Traversals over a network: callers, a switch, and memory nodes that exchange datagrams.
//!
//! [`QueryCaller`], [`Switch`] and [`OffloadNode`] are state machines: their input is datagrams and
//! the time, their output datagrams. They open no socket and read no clock, so that a simulator
//! runs the same code as [`udp`], which has the sockets.
//!
//! A request passes through the switch to the node that holds its address. Each time the traversal
//! leaves a node, it passes through the switch to the next. The node at which it ends responds
//! through the switch. If a caller requests it, a node responds with [`Elsewhere`] instead of
//! forwarding a traversal, and the caller sends it on.
//!
//! - *Loss.* The caller repeats its latest request until a response arrives (`caller/timer.rs`).
//! - *Exactly once.* The counter of a request and the number of nodes that have worked on it
//!   identify a piece of work. A node remembers the message that it sent after each piece that may
//!   have stored something, and sends that again instead of working twice (`node/replies.rs`). It
//!   forgets the message when the caller reports that it has the outcome.
//! - *Objects.* A request may ask for the bytes to which its program leads. The node that holds
//!   them adds them to the response, which it sends in parts if it is longer than a datagram
//!   (`wire/fragment.rs`). Or it carries bytes, in parts as well, that the node stores there. A
//!   node keeps the parts of incomplete requests, of each tenant a limited number
//!   (`node/partial.rs`).
//! - *Programs* are identified by their hash. A node that does not know one requests it from the
//!   caller.
//! - *Maps.* A node that receives a request for an address that it does not hold refuses it by
//!   [`StaleMap`], so that a wrong map of the switch causes no cycles. A node whose memory is newer
//!   than a caller accepts refuses its requests by [`MemoryLost`].
//! - *Secrets.* A tag of the tenant's key covers each message, including responses. Messages with
//!   another tag are dropped and counted.
//!
//! [`Elsewhere`]: crate::traversal::TraversalStatus::Elsewhere
//! [`StaleMap`]: crate::traversal::TraversalStatus::StaleMap
//! [`MemoryLost`]: crate::traversal::TraversalStatus::MemoryLost

mod caller;
mod keys;
mod node;
mod switch;
pub mod udp;

pub use caller::{CallerCounters, CallerSettings, OffloadCallError, QueryCaller, QueryCompletion};
pub use keys::{KeysError, TenantKeys};
pub use node::{
    NodeCounters, NodeSettings, OffloadNode, ProgramTranslation, SpareTraversal, TranslatedProgram,
};
pub use switch::{MapError, Switch, SwitchCounters, SwitchRangeTable};

use crate::wire::ProcessAddress;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingDatagram {
    /// The destination.
    pub to: ProcessAddress,
    /// Its bytes.
    pub datagram: Vec<u8>,
}
