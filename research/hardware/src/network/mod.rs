//! A memory node from the clients' side of a network: the time of one-sided accesses, alone and
//! under load.
//!
//! The model is a *port* in front of a node's memory. An access travels half a round trip, waits
//! until the port takes its message (each kind has a rate of messages), until the link has carried
//! its bytes and, if it is atomic, until earlier atomics on the same word are done; then its reply
//! travels back. Clients' processors take time, too, if the parameters contain it. The model omits
//! losses, congestion within the network, and the time of the client's own interface.

mod parameters;
mod port;

pub use parameters::{ClientTimes, NetworkParameters, NetworkPreset};
pub use port::{Port, PortAccess, PortTraffic};
