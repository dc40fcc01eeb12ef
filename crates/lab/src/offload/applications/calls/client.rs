//! A caller's side of calls.

use super::format::{Call, DATAGRAM_BYTES_MAX};
use nearfield_offload::net::udp::{Datagrams, socket_towards};
use nearfield_offload::wire::Place;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// How long a caller waits at first before it sends a call again.
const WAIT: Duration = Duration::from_millis(20);
/// How long it tries.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum CallError {
    /// The socket is unusable.
    #[error("the socket is unusable: {0}")]
    Socket(#[from] io::Error),
    /// Nobody has answered.
    #[error("the memory node has not answered for {} s", PATIENCE.as_secs())]
    NoAnswer,
    /// The node refuses.
    #[error("the memory node has refused the call")]
    Refused,
    /// There is no such node.
    #[error("no memory node holds the address {0:#x}")]
    NoNode(u64),
}

/// Calls, one after the other.
#[derive(Debug)]
pub(super) struct Client {
    socket: UdpSocket,
    server: Place,
    number: u64,
    buffer: Vec<u8>,
}

impl Client {
    pub(super) fn new(server: SocketAddrV4) -> io::Result<Client> {
        Ok(Client {
            socket: socket_towards(server.into())?,
            server: server.into(),
            number: 0,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// How many calls it has made.
    pub(super) fn calls(&self) -> u64 {
        self.number
    }

    /// Makes a call, and returns what the answer is about.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) fn call(&mut self, call: &Call<'_>) -> Result<&[u8], CallError> {
        self.number += 1;
        let datagram = call.encode(self.number);
        let begun = Instant::now();
        let mut wait = WAIT;
        let length = 'answered: loop {
            if begun.elapsed() >= PATIENCE {
                return Err(CallError::NoAnswer);
            }
            self.socket.send_datagram(self.server, &datagram)?;
            let sent = Instant::now();
            while let Some(left) = wait.checked_sub(sent.elapsed()) {
                let received = self.socket.receive_datagram(&mut self.buffer, Some(left))?;
                if let Some((length, _)) = received
                    && self.buffer.starts_with(&self.number.to_le_bytes())
                {
                    break 'answered length;
                }
            }
            wait *= 2;
        };
        match self.buffer.get(8..length) {
            Some([1, answer @ ..]) => Ok(answer),
            _ => Err(CallError::Refused),
        }
    }
}
