//! A memory node as its clients see it over a network: the time of one-sided accesses, alone and
//! when there are many.
//!
//! The model is a *port* in front of a node's memory. An access travels half a round trip, waits
//! until the port takes its message (each kind has a rate of messages), until the link has carried
//! its bytes and, if it is atomic, until earlier atomics on the same word are done; then its answer
//! travels back. Clients' processors take time, too, where the parameters say so. The model omits
//! losses, congestion within the network, and the time of the client's own interface.

mod parameters;
mod port;

pub use parameters::{ClientTimes, Parameters, Preset};
pub use port::{Access, Carried, Port};
