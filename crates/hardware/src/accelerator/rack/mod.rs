//! A rack: callers, a switch and memory nodes, in virtual time.
//!
//! The switch knows which range of addresses lies at which node, and sends each request where its
//! next address is. A node that meets an address of another node sends the request to the switch,
//! which sends it on ([`Rerouting::Switch`], pulse), or back to its caller, which sends it again
//! ([`Rerouting::Caller`], the paper's pulse-acc, and RPC). Source: pulse, section 5. Nothing is
//! lost.

mod parameters;
mod simulation;
#[cfg(test)]
mod tests;

pub use parameters::{Parameters, Rerouting};
pub use simulation::{Answer, Rack, Request, Summary};
