//! A rack: callers, a switch and memory nodes, in virtual time.
//!
//! The switch knows which range of addresses is at which node, and sends each request to the node
//! of its next address. A node that encounters an address of another node sends the request to the
//! switch, which forwards it ([`RackForwarder::Switch`], pulse), or back to its caller, which sends
//! it again ([`RackForwarder::Caller`], the paper's pulse-acc, and RPC). Source: pulse, section 5.
//! No packets are lost.

mod parameters;
mod simulation;
#[cfg(test)]
mod tests;

pub use parameters::{RackForwarder, RackParameters};
pub use simulation::{RackReply, RackRequest, RackSimulation, Summary};
