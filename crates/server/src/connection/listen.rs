//! Sockets that listen, and where they do.

use crate::config::Address;
use mio::net::TcpListener;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;

/// What Linux says of an address of a family that it does not have.
const NO_FAMILY: i32 = 97;

/// Sockets that listen.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For plain TCP.
    pub plain: Vec<TcpListener>,
    /// For TLS.
    pub tls: Vec<TcpListener>,
}

/// A socket that a thread waits for, and what it needs to be opened again.
#[derive(Debug)]
struct Known {
    socket: Socket,
    address: SocketAddr,
    tls: bool,
}

/// Where it is listened for TCP. It changes while the thread waits that has the listeners: they
/// share the sockets with this.
#[derive(Debug, Default)]
pub struct Listening {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Vec<Known>,
    /// The port for plain TCP, also while there is no address.
    port: u16,
}

impl Listening {
    /// Notes that a thread has these listeners.
    ///
    /// # Errors
    /// The system gives no second descriptor.
    pub fn note(&self, sockets: &Sockets) -> io::Result<()> {
        let known = known(sockets)?;
        let plain = known.iter().find(|it| !it.tls);
        let port = plain.map_or(0, |it| it.address.port());
        *self.state.lock() = State { known, port };
        Ok(())
    }

    /// The port for plain TCP, which the system may have chosen; 0: none.
    pub fn port(&self) -> u16 {
        self.state.lock().port
    }

    /// Listens at these addresses, and at no others from now on, at the ports for plain TCP and for
    /// TLS; 0: at none. A thread has to be given the listeners. Connections stay; those that nobody
    /// has accepted are closed.
    ///
    /// # Errors
    /// What the system says, and listeners at the places of before.
    pub fn change(
        &self,
        addresses: &[Address],
        [plain, tls]: [u16; 2],
        backlog: i32,
    ) -> Result<Sockets, (io::Error, Sockets)> {
        let mut state = self.state.lock();
        // Nobody can listen at an address, or at all, while somebody listens at the address.
        for it in &state.known {
            // It listens no more if this fails.
            let _ = it.socket.shutdown(Shutdown::Both);
        }
        let at = |port: u16| {
            let addresses = addresses.iter().filter(move |_| port > 0);
            addresses.map(move |it| (SocketAddr::new(it.ip, port), it.optional))
        };
        let opened = open(at(plain), at(tls), backlog).and_then(|it| Ok((known(&it)?, it)));
        let error = match opened {
            Ok((known, sockets)) => {
                *state = State { known, port: plain };
                return Ok(sockets);
            }
            Err(error) => error,
        };
        let of = |tls| {
            let known = state.known.iter().filter(move |it| it.tls == tls);
            known.map(|it| (it.address, false))
        };
        let again = open(of(false), of(true), backlog).and_then(|it| Ok((known(&it)?, it)));
        match again {
            Ok((known, sockets)) => {
                state.known = known;
                Err((error, sockets))
            }
            Err(lost) => {
                tracing::error!("cannot listen where it was listened before: {lost}");
                Err((error, Sockets::default()))
            }
        }
    }
}

fn known(sockets: &Sockets) -> io::Result<Vec<Known>> {
    let all = [(&sockets.plain, false), (&sockets.tls, true)];
    let all = all
        .iter()
        .flat_map(|(listeners, tls)| listeners.iter().map(move |listener| (listener, *tls)));
    let known = |(listener, tls): (&TcpListener, bool)| {
        Ok(Known {
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
) -> io::Result<Sockets> {
    let mut sockets = Sockets::default();
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

/// Listens at an address, where so many connections may wait to be accepted; `None` if the machine
/// does not have the address, and need not.
///
/// # Errors
/// What the system says of another address.
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

/// Listens at an address, where so many connections may wait to be accepted.
fn tcp(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}
