//! Calls of procedures at the memory node by UDP: those of the rivals, and reads and writes of
//! bytes, which all deployments need.
//!
//! A call is one datagram, its reply another. All calls may be repeated: a caller without a reply
//! sends again.

mod client;
mod format;
mod servers;
mod service;

pub(super) use client::NodeCallError;
pub(super) use format::{Follow, NodeCall, TraversalReply};
pub(super) use servers::{NodeCallClients, NodeCallService};
pub(super) use service::serve;

/// Returns a scratchpad without trailing zeros.
pub(super) fn trimmed(scratchpad: &[u8]) -> &[u8] {
    let last = scratchpad.iter().rposition(|&byte| byte != 0);
    let used = last.map_or(0, |last| last + 1);
    scratchpad.get(..used).unwrap_or_default()
}
