//! A memory node as its clients see it over a network: how long one-sided accesses take, alone and
//! when there are many.
//!
//! The model is a *port* in front of a node's memory. An access travels half a round trip, waits
//! until the port takes its message (each kind has a rate of messages), until the link has carried
//! its bytes and, if it is atomic, until earlier atomics on the same word are done; then its answer
//! travels back. What the model leaves out: losses, congestion within the network, and what the
//! client's own interface takes.

mod parameters;
mod port;

pub use parameters::{Parameters, Preset};
pub use port::{Access, Carried, Port};
