//! The sockets that clients connect to: plain TCP, TCP with TLS, or a socket in the file system.

use super::ServeError;
use crate::config::{BIND_ADDRESSES_MAX, BindAddress, ListenPort};
use crate::connection::listen::ListenerSockets;
use crate::connection::tls::{AuthClients, Tls, TlsFiles};
use crate::connection::{Transport, listen};
use crate::server::ServerCore;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A socket to which clients connect.
#[derive(Debug)]
pub enum ClientListener {
    /// TCP.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener),
    /// A socket in the file system, which is deleted at the end.
    Unix(UnixListener, PathBuf),
}

/// Listens on the ports and sockets of the configuration.
///
/// # Errors
/// See [`ServeError`].
pub fn listen(server: &ServerCore) -> Result<Vec<ClientListener>, ServeError> {
    let count = server.options.bind.len();
    // A file and `CONFIG SET` are checked earlier, flags and the callers of a library are not.
    if count > BIND_ADDRESSES_MAX {
        return Err(ServeError::TooManyAddresses { count });
    }
    let mut sockets = ListenerSockets::default();
    let backlog = server.config.backlog();
    let port = match server.options.port {
        ListenPort::Off => None,
        // The system takes 0 as any free port.
        ListenPort::Free => Some(0),
        ListenPort::At(port) => Some(port),
    };
    if let Some(port) = port {
        sockets.plain = plain(&server.options.bind, port, backlog)?;
    }
    let config = &server.config;
    let tls_port = u16::try_from(config.integer("tls-port")).unwrap_or(0);
    if tls_port != 0 {
        let roots = config.text("tls-ca-cert-file");
        let files = TlsFiles {
            certificates: server.path(&config.text("tls-cert-file")),
            key: server.path(&config.text("tls-key-file")),
            client_roots: (!roots.is_empty()).then(|| server.path(&roots)),
        };
        let clients = match config.text("tls-auth-clients").as_str() {
            "no" => AuthClients::No,
            "optional" => AuthClients::Optional,
            _ => AuthClients::Yes,
        };
        let tls = Tls::new(files, clients)?;
        server.tls.get_or_init(|| tls);
        for &address in &server.options.bind {
            sockets.tls.extend(tcp(address, tls_port, backlog)?);
        }
    }
    let system = |source| ServeError::System {
        what: "a second descriptor of a socket",
        source,
    };
    // By a second descriptor of each, `CONFIG SET` can end the listening later.
    server.listening.note(&sockets).map_err(system)?;
    let plain = sockets.plain.into_iter().map(ClientListener::Tcp);
    let tls = sockets.tls.into_iter().map(ClientListener::Tls);
    let mut listeners: Vec<_> = plain.chain(tls).collect();
    let path = config.text("unixsocket");
    if !path.is_empty() {
        let mode = config.text("unixsocketperm");
        let path = server.path(&path);
        let listener = unix(&path, &mode).map_err(|source| ServeError::Socket {
            path: path.clone(),
            source,
        })?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err(ServeError::Nowhere);
    }
    Ok(listeners)
}

/// Listens at all addresses, without TLS.
fn plain(
    addresses: &[BindAddress],
    mut port: u16,
    backlog: i32,
) -> Result<Vec<TcpListener>, ServeError> {
    let mut listeners = Vec::new();
    for &address in addresses {
        let Some(listener) = tcp(address, port, backlog)? else {
            continue;
        };
        if let Ok(local) = listener.local_addr() {
            // A free port is chosen once, for all addresses.
            port = local.port();
        }
        listeners.push(listener);
    }
    if let Some(&first) = addresses.first()
        && listeners.is_empty()
    {
        // The server must listen somewhere; this attempt returns the error.
        listeners.extend(tcp(BindAddress::from(first.ip), port, backlog)?);
    }
    Ok(listeners)
}

/// Listens at an address. Returns `None` if the machine lacks the address and it is optional.
fn tcp(address: BindAddress, port: u16, backlog: i32) -> Result<Option<TcpListener>, ServeError> {
    let (address, optional) = (SocketAddr::new(address.ip, port), address.optional);
    let listener = listen::unless_missing(address, optional, backlog);
    let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
    if listener.is_none() {
        tracing::warn!("the machine does not have the address {address}");
    }
    Ok(listener)
}

fn unix(path: &Path, mode: &str) -> io::Result<ClientListener> {
    // A killed server leaves its socket file behind.
    if let Ok(found) = std::fs::symlink_metadata(path)
        && found.file_type().is_socket()
    {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    match u32::from_str_radix(mode, 8) {
        Ok(mode) if mode != 0 => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        _ => {}
    }
    Ok(ClientListener::Unix(listener, path.to_owned()))
}

impl ClientListener {
    /// Returns the address and port, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            ClientListener::Tcp(listener) | ClientListener::Tls(listener) => {
                listener.local_addr().ok()
            }
            ClientListener::Unix(..) => None,
        }
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// `WouldBlock` if none waits; otherwise the system's error.
    pub fn accept(&self, server: &ServerCore) -> io::Result<Transport> {
        loop {
            let accepted = match self {
                ClientListener::Tcp(listener) => listener.accept().map(|it| Transport::Tcp(it.0)),
                ClientListener::Unix(listener, _) => {
                    listener.accept().map(|it| Transport::Unix(it.0))
                }
                ClientListener::Tls(listener) => listener.accept().and_then(|(socket, _)| {
                    let tls = server.tls.get().ok_or(ErrorKind::Interrupted)?;
                    // A configuration that allows no session ends this connection.
                    let session = tls.accept().map_err(|_| ErrorKind::Interrupted)?;
                    Ok(Transport::tls(socket, session))
                }),
            };
            match accepted {
                // The peer may have closed the connection before it was accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                other => return other,
            }
        }
    }

    /// Registers the listener's socket with a poll.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let on = Interest::READABLE;
        match self {
            ClientListener::Tcp(listener) | ClientListener::Tls(listener) => {
                listener.register(registry, token, on)
            }
            ClientListener::Unix(listener, _) => listener.register(registry, token, on),
        }
    }
}

impl ClientListener {
    /// Removes the listener's socket from a poll.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            ClientListener::Tcp(listener) | ClientListener::Tls(listener) => {
                listener.deregister(registry)
            }
            ClientListener::Unix(listener, _) => listener.deregister(registry),
        }
    }
}

impl Drop for ClientListener {
    fn drop(&mut self) {
        if let ClientListener::Unix(_, path) = self {
            // If the file was deleted already, nothing is left to do.
            let _ = std::fs::remove_file(path);
        }
    }
}
