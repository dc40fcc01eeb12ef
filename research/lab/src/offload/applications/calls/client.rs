//! The caller's side of calls.

use super::format::{DATAGRAM_BYTES_MAX, NodeCall};
use nearfield_offload::net::udp::{Datagrams, socket_towards};
use nearfield_offload::wire::ProcessAddress;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// The first interval after which a caller sends a call again.
const WAIT: Duration = Duration::from_millis(20);
/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reason why a call has no reply.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum NodeCallError {
    /// A socket that is unusable.
    #[error("the socket is unusable: {0}")]
    Socket(#[from] io::Error),
    /// A timeout: no node has replied.
    #[error("no reply from the memory node for {} s", PATIENCE.as_secs())]
    NoReply,
    /// A refusal of the node.
    #[error("the memory node has refused the call")]
    Refused,
    /// An address that no node holds.
    #[error("no memory node holds the address {0:#x}")]
    NoNode(u64),
}

/// A client that makes calls one after the other.
#[derive(Debug)]
pub(super) struct NodeCallClient {
    socket: UdpSocket,
    server: ProcessAddress,
    number: u64,
    buffer: Vec<u8>,
}

impl NodeCallClient {
    pub(super) fn new(server: SocketAddrV4) -> io::Result<NodeCallClient> {
        Ok(NodeCallClient {
            socket: socket_towards(server.into())?,
            server: server.into(),
            number: 0,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// Returns the number of its calls.
    pub(super) fn calls(&self) -> u64 {
        self.number
    }

    /// Makes a call, and returns the payload of the reply.
    ///
    /// # Errors
    /// See [`NodeCallError`].
    pub(super) fn call(&mut self, call: &NodeCall<'_>) -> Result<&[u8], NodeCallError> {
        self.number += 1;
        let datagram = call.encode(self.number);
        let begun = Instant::now();
        let mut wait = WAIT;
        let length = 'replied: loop {
            if begun.elapsed() >= PATIENCE {
                return Err(NodeCallError::NoReply);
            }
            self.socket.send_datagram(self.server, &datagram)?;
            let sent = Instant::now();
            while let Some(left) = wait.checked_sub(sent.elapsed()) {
                let received = self.socket.receive_datagram(&mut self.buffer, Some(left))?;
                // A late reply to an earlier call has that call's number.
                if let Some((length, _)) = received
                    && self.buffer.starts_with(&self.number.to_le_bytes())
                {
                    break 'replied length;
                }
            }
            // The node may be busy, and more copies of the call would only delay it.
            wait *= 2;
        };
        match self.buffer.get(8..length) {
            Some([1, reply @ ..]) => Ok(reply),
            _ => Err(NodeCallError::Refused),
        }
    }
}
