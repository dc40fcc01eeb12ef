//! The transport of a connection: a plain socket, or one with TLS.
//!
//! Sockets say once when something has come or can be sent (edge-triggered), so whoever is told
//! reads until there is nothing more. With TLS some of what has come may already lie within the
//! TLS connection, of which the socket says nothing; so a read goes on until the buffer is full or
//! both are empty, and an end that is met behind other bytes is remembered.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// A client's socket.
#[derive(Debug)]
pub enum Transport {
    /// TCP.
    Tcp(TcpStream),
    /// A socket in the file system.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

/// TLS over TCP.
#[derive(Debug)]
pub struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
    /// The other side has ended it.
    ended: bool,
}

impl Transport {
    /// TLS over a connection that has just been accepted.
    pub fn tls(socket: TcpStream, session: ServerConnection) -> Transport {
        Transport::Tls(Box::new(TlsStream {
            socket,
            session,
            ended: false,
        }))
    }

    /// The TCP socket, if it is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Transport::Tcp(socket) => Some(socket),
            Transport::Tls(stream) => Some(&stream.socket),
            Transport::Unix(_) => None,
        }
    }

    /// True if the end was met behind what was read last, so that the socket will not say so.
    pub fn has_ended(&self) -> bool {
        matches!(self, Transport::Tls(stream) if stream.ended)
    }

    /// True if the socket has not taken yet what TLS has for it.
    pub fn wants_write(&self) -> bool {
        matches!(self, Transport::Tls(stream) if stream.session.wants_write())
    }

    /// Says farewell, where the protocol has one.
    pub fn close(&mut self) {
        if let Transport::Tls(stream) = self {
            stream.session.send_close_notify();
            // The client is gone in any case.
            let _ = stream.send();
        }
    }
}

impl TlsStream {
    /// Gives the socket what TLS has for it.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send_some(&mut self) -> io::Result<()> {
        match self.send() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Takes from the socket what has come, and says if there was something.
    fn receive(&mut self) -> io::Result<bool> {
        match self.session.read_tls(&mut self.socket) {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.session.process_new_packets() {
            // The other side is told what is wrong, if it takes it.
            let _ = self.send();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        // An answer of the handshake.
        self.send_some()?;
        Ok(!self.ended)
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match self.session.reader().read(rest) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(count);
                }
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.receive() {
                    Ok(true) => {}
                    Ok(false) if count > 0 || self.ended => return Ok(count),
                    Ok(false) => return Err(ErrorKind::WouldBlock.into()),
                    // What was read before the error is still to be answered.
                    Err(_) if count > 0 => {
                        self.ended = true;
                        return Ok(count);
                    }
                    Err(error) => return Err(error),
                },
                // The other side has ended without farewell.
                Err(_) => {
                    self.ended = true;
                    return Ok(count);
                }
            }
        }
        Ok(count)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // TLS takes only so much before the socket has taken it.
        self.send()?;
        let count = self.session.writer().write(bytes)?;
        self.send_some()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(socket) => socket.read(buffer),
            Transport::Unix(socket) => socket.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(socket) => socket.write(bytes),
            Transport::Unix(socket) => socket.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Tcp(_) | Transport::Unix(_) => Ok(()),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}

impl Source for Transport {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Transport::Tcp(socket) => socket.register(registry, token, on),
            Transport::Unix(socket) => socket.register(registry, token, on),
            Transport::Tls(stream) => stream.socket.register(registry, token, on),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Transport::Tcp(socket) => socket.reregister(registry, token, on),
            Transport::Unix(socket) => socket.reregister(registry, token, on),
            Transport::Tls(stream) => stream.socket.reregister(registry, token, on),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Transport::Tcp(socket) => socket.deregister(registry),
            Transport::Unix(socket) => socket.deregister(registry),
            Transport::Tls(stream) => stream.socket.deregister(registry),
        }
    }
}
