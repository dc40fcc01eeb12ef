//! The memory nodes that a caller connects to.

use super::client::{NodeCallClient, NodeCallError};
use super::format::NodeCall;
use std::io;
use std::net::SocketAddrV4;
use std::ops::Range;

/// The address of a memory node's service of calls.
#[derive(Clone, Debug)]
pub(in super::super) struct NodeCallService {
    /// The addresses that it holds.
    pub addresses: Range<u64>,
    pub at: SocketAddrV4,
}

/// A caller's connections to all memory nodes.
#[derive(Debug)]
pub(in super::super) struct NodeCallClients(Vec<(Range<u64>, NodeCallClient)>);

impl NodeCallClients {
    pub(in super::super) fn new(servers: &[NodeCallService]) -> io::Result<NodeCallClients> {
        let client = |server: &NodeCallService| {
            Ok((server.addresses.clone(), NodeCallClient::new(server.at)?))
        };
        Ok(NodeCallClients(
            servers.iter().map(client).collect::<io::Result<_>>()?,
        ))
    }

    pub(in super::super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the number of its calls.
    pub(in super::super) fn calls(&self) -> u64 {
        self.0.iter().map(|(_, client)| client.calls()).sum()
    }

    /// Makes a call at the memory node that holds its address, and returns the payload of the
    /// reply.
    ///
    /// # Errors
    /// See [`NodeCallError`].
    pub(in super::super) fn call(&mut self, call: &NodeCall<'_>) -> Result<&[u8], NodeCallError> {
        let address = call.address();
        let holds =
            |(addresses, _): &&mut (Range<u64>, NodeCallClient)| addresses.contains(&address);
        let holder = self.0.iter_mut().find(holds);
        let (_, client) = holder.ok_or(NodeCallError::NoNode(address))?;
        client.call(call)
    }
}
