//! Listening sockets and their addresses.

use crate::config::BindAddress;
use mio::net::TcpListener;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;

/// The error of Linux for an address of a family that the machine lacks.
const NO_FAMILY: i32 = 97;

/// Listening sockets.
#[derive(Debug, Default)]
pub struct ListenerSockets {
    /// Sockets for plain TCP.
    pub plain: Vec<TcpListener>,
    /// Sockets for TLS.
    pub tls: Vec<TcpListener>,
}

/// A socket that a thread waits for, and the data that is needed to open it again.
#[derive(Debug)]
struct OpenListenerSocket {
    socket: Socket,
    address: SocketAddr,
    tls: bool,
}

/// The TCP addresses on which the server listens. They can change while a thread waits on the
/// listeners: it shares the sockets with this.
#[derive(Debug, Default)]
pub struct TcpListenAddresses {
    state: Mutex<TcpListenState>,
}

#[derive(Debug, Default)]
struct TcpListenState {
    known: Vec<OpenListenerSocket>,
    /// The port for plain TCP, even if there is no address.
    port: u16,
}

impl TcpListenAddresses {
    /// Notes that a thread has these listeners.
    ///
    /// # Errors
    /// The system does not duplicate a descriptor.
    pub fn note(&self, sockets: &ListenerSockets) -> io::Result<()> {
        let known = known(sockets)?;
        let plain = known.iter().find(|it| !it.tls);
        let port = plain.map_or(0, |it| it.address.port());
        *self.state.lock() = TcpListenState { known, port };
        Ok(())
    }

    /// Returns the port for plain TCP, which the system may have chosen; 0: none.
    pub fn port(&self) -> u16 {
        self.state.lock().port
    }

    /// Listens at these addresses, and only these from now on, on the ports for plain TCP and for
    /// TLS; 0: not at all. The caller must pass the listeners to a thread. Connections stay; those
    /// that were not accepted yet are closed.
    ///
    /// # Errors
    /// The system's error, and listeners at the previous addresses.
    pub fn change(
        &self,
        addresses: &[BindAddress],
        [plain, tls]: [u16; 2],
        backlog: i32,
    ) -> Result<ListenerSockets, (io::Error, ListenerSockets)> {
        let mut state = self.state.lock();
        // Neither an address nor the wildcard address can be bound while a socket listens on it.
        for it in &state.known {
            // If this fails, the socket does not listen any more.
            let _ = it.socket.shutdown(Shutdown::Both);
        }
        let at = |port: u16| {
            let addresses = addresses.iter().filter(move |_| port > 0);
            addresses.map(move |it| (SocketAddr::new(it.ip, port), it.optional))
        };
        let opened = open(at(plain), at(tls), backlog).and_then(|it| Ok((known(&it)?, it)));
        let error = match opened {
            Ok((known, sockets)) => {
                *state = TcpListenState { known, port: plain };
                return Ok(sockets);
            }
            Err(error) => error,
        };
        let of = |tls| {
            let known = state.known.iter().filter(move |it| it.tls == tls);
            // The machine had these addresses, so that none of them is optional.
            known.map(|it| (it.address, false))
        };
        let again = open(of(false), of(true), backlog).and_then(|it| Ok((known(&it)?, it)));
        match again {
            Ok((known, sockets)) => {
                state.known = known;
                Err((error, sockets))
            }
            Err(lost) => {
                tracing::error!("cannot listen on the previous addresses: {lost}");
                Err((error, ListenerSockets::default()))
            }
        }
    }
}

fn known(sockets: &ListenerSockets) -> io::Result<Vec<OpenListenerSocket>> {
    let all = [(&sockets.plain, false), (&sockets.tls, true)];
    let all = all
        .iter()
        .flat_map(|(listeners, tls)| listeners.iter().map(move |listener| (listener, *tls)));
    let known = |(listener, tls): (&TcpListener, bool)| {
        Ok(OpenListenerSocket {
            socket: Socket::from(listener.as_fd().try_clone_to_owned()?),
            address: listener.local_addr()?,
            tls,
        })
    };
    all.map(known).collect()
}

fn open(
    plain: impl Iterator<Item = (SocketAddr, bool)>,
    tls: impl Iterator<Item = (SocketAddr, bool)>,
    backlog: i32,
) -> io::Result<ListenerSockets> {
    let mut sockets = ListenerSockets::default();
    for (address, optional) in plain {
        sockets
            .plain
            .extend(unless_missing(address, optional, backlog)?);
    }
    for (address, optional) in tls {
        sockets
            .tls
            .extend(unless_missing(address, optional, backlog)?);
    }
    Ok(sockets)
}

/// Listens at an address, where `backlog` connections may wait to be accepted. Returns `None` if
/// the address is optional and the machine lacks it.
///
/// # Errors
/// The system's error for another address.
pub fn unless_missing(
    address: SocketAddr,
    optional: bool,
    backlog: i32,
) -> io::Result<Option<TcpListener>> {
    match tcp(address, backlog) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if optional && is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(NO_FAMILY)
}

/// Listens at an address, where `backlog` connections may wait to be accepted.
fn tcp(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    // Otherwise a server could not start while connections of the last one linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // The wildcard address would take the port of IPv4, too.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}
