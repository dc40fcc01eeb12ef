//! The sockets of callers, switches and memory nodes.

mod client;
mod serve;

pub use client::{ClientError, OffloadClient};
pub use serve::{Announcer, serve_node, serve_switch};

use crate::wire::ProcessAddress;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A sender and receiver of datagrams: a socket, or one with faults in a test.
pub trait Datagrams {
    /// Sends a datagram, or loses it.
    ///
    /// # Errors
    /// The socket is unusable.
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()>;

    /// Receives a datagram, and returns its length and its sender. Waits for at most `wait`, or not
    /// at all.
    ///
    /// # Errors
    /// The socket is unusable.
    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>>;
}

impl Datagrams for UdpSocket {
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        let to = SocketAddr::V4(to.into());
        // A full queue, an unreachable host and a port without a listener lose a datagram, as a
        // network does. Senders repeat it.
        match self.send_to(datagram, to) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Err(error),
            _ => Ok(()),
        }
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        self.set_nonblocking(wait.is_none())?;
        if let Some(wait) = wait {
            // Zero would mean no timeout.
            self.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
        }
        match self.recv_from(into) {
            Ok((length, SocketAddr::V4(from))) => Ok(Some((length, from.into()))),
            Ok((_, SocketAddr::V6(_))) => Ok(None),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock
                | ErrorKind::TimedOut
                | ErrorKind::Interrupted
                // The errors of a datagram that was sent before and found no receiver.
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Returns the IPv4 place of a socket.
///
/// # Errors
/// The socket has none.
pub fn place(socket: &UdpSocket) -> io::Result<ProcessAddress> {
    match socket.local_addr()? {
        SocketAddr::V4(address) => Ok(address.into()),
        SocketAddr::V6(address) => Err(io::Error::new(
            ErrorKind::Unsupported,
            format!("{address} is not an IPv4 address"),
        )),
    }
}

/// Creates a socket by which this machine reaches a place, bound to the address at which responses
/// arrive.
///
/// # Errors
/// There is no route to the place.
pub fn socket_towards(place: ProcessAddress) -> io::Result<UdpSocket> {
    let trial = UdpSocket::bind("0.0.0.0:0")?;
    // A connected UDP socket sends nothing. It only chooses the route, and so the own address.
    trial.connect(SocketAddr::V4(place.into()))?;
    UdpSocket::bind((trial.local_addr()?.ip(), 0))
}
