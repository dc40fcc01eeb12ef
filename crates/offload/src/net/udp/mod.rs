//! The sockets of callers, switches and memory nodes.

mod batch;
mod client;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "calls the system with pointers to datagrams")]
mod many;
mod serve;

pub use batch::DatagramBatch;
pub use client::{ClientError, OffloadClient};
pub use serve::{Announcer, serve_node, serve_node_with_workers, serve_switch};

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

    /// Sends datagrams in their order, or loses some.
    ///
    /// # Errors
    /// The socket is unusable.
    fn send_datagrams(&self, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<()> {
        for (to, datagram) in datagrams {
            self.send_datagram(*to, datagram)?;
        }
        Ok(())
    }

    /// Receives the datagrams that have arrived, as many as the batch has room for, in place of
    /// those in the batch. Waits for the first one for at most `wait`, or not at all.
    ///
    /// # Errors
    /// The socket is unusable.
    fn receive_datagrams(
        &self,
        batch: &mut DatagramBatch,
        mut wait: Option<Duration>,
    ) -> io::Result<()> {
        batch.clear();
        while let Some(buffer) = batch.free() {
            let Some((length, from)) = self.receive_datagram(buffer, wait)? else {
                break;
            };
            batch.push(length, from);
            wait = None;
        }
        Ok(())
    }

    /// Receives datagrams like [`receive_datagrams`](Datagrams::receive_datagrams), with a wait. It
    /// is likely that none has arrived so far, as after a request.
    ///
    /// # Errors
    /// The socket is unusable.
    fn await_datagrams(&self, batch: &mut DatagramBatch, wait: Duration) -> io::Result<()> {
        self.receive_datagrams(batch, Some(wait))
    }
}

/// Returns true for errors of a socket that loses a datagram, as a network does, and for those that
/// say that none has arrived.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            // The errors of a datagram that was sent before and found no receiver.
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

/// Replaces passing errors by success.
#[cfg(target_os = "linux")]
fn unless_passing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

impl Datagrams for UdpSocket {
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        let to = SocketAddr::V4(to.into());
        // A full queue, an unreachable host and a port without a listener lose a datagram, as a
        // network does. Senders repeat it. So does an invalid address, such as one with port 0:
        // others choose it, and must not be able to end this process.
        let _ = self.send_to(datagram, to);
        Ok(())
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
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[cfg(target_os = "linux")]
    fn send_datagrams(&self, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<()> {
        let mut rest = datagrams;
        while !rest.is_empty() {
            // An error is that of the first one, which is lost.
            let sent = many::send(self, rest).unwrap_or(1);
            rest = rest.get(sent.max(1)..).unwrap_or_default();
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn receive_datagrams(
        &self,
        batch: &mut DatagramBatch,
        wait: Option<Duration>,
    ) -> io::Result<()> {
        // A busy process finds datagrams by one call. Only an idle one needs the others.
        unless_passing(many::receive(self, batch))?;
        match wait.filter(|_| batch.is_empty()) {
            Some(wait) => self.await_datagrams(batch, wait),
            None => Ok(()),
        }
    }

    #[cfg(target_os = "linux")]
    fn await_datagrams(&self, batch: &mut DatagramBatch, wait: Duration) -> io::Result<()> {
        unless_passing(many::wait(self, wait))?;
        unless_passing(many::receive(self, batch))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;

    /// Others choose the addresses: of callers in requests, and of the senders of datagrams.
    #[test]
    fn datagrams_to_invalid_addresses_are_lost() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let here = place(&receiver).expect("IPv4");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut batch = DatagramBatch::new(4);
        for invalid in ["127.0.0.1:0", "0.0.0.0:0", "0.1.2.3:4", "255.255.255.255:9"] {
            let invalid: SocketAddrV4 = invalid.parse().expect("an address");
            let sent = sender.send_datagram(invalid.into(), &[1]);
            assert!(sent.is_ok(), "{invalid}: {sent:?}");
            // The one behind it arrives.
            let both: [(ProcessAddress, &[u8]); 2] = [(invalid.into(), &[1]), (here, &[2])];
            let sent = sender.send_datagrams(&both);
            assert!(sent.is_ok(), "{invalid}: {sent:?}");
            let wait = Some(Duration::from_secs(5));
            receiver
                .receive_datagrams(&mut batch, wait)
                .expect("a socket");
            let all: Vec<&[u8]> = batch.iter().map(|(datagram, _)| datagram).collect();
            assert_eq!(all, [&[2_u8][..]]);
        }
    }
}
