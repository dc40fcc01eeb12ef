//! A memory node from the clients' side of a network: the time of one-sided accesses, alone and
//! under load.
//!
//! The model is a *port* in front of a node's memory. An access travels half a round trip, waits
//! until the port takes its message (each kind has a rate of messages), until the link has carried
//! its bytes and, if it is atomic, until earlier atomics on the same word are done; then its reply
//! travels back. Clients' processors take time, too, if the parameters contain it. The model omits
//! losses and congestion within the network. The time of a compute node's own interface is a model
//! of its own, an *adapter*: runs of many compute nodes leave it out, because the port is their
//! limit.

mod adapter;
mod parameters;
mod port;

pub use adapter::{AdapterParameters, NetworkAdapter};
pub use parameters::{ClientTimes, NetworkParameters, NetworkPreset};
pub use port::{Port, PortAccess, PortTraffic};
