//! The transport of a connection: a plain socket, or one with TLS.
//!
//! Sockets report once when data has arrived or can be sent (edge-triggered), so a reader must read
//! until there is nothing more. With TLS, some received data may already be in the TLS session,
//! about which the socket reports nothing. A read therefore continues until the buffer is full or
//! both are empty. An end that is found after other bytes is remembered.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// A client's socket.
#[derive(Debug)]
pub enum Transport {
    /// Plain TCP.
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
    /// True if the peer has ended it.
    ended: bool,
}

impl Transport {
    /// Creates TLS over a connection that has just been accepted.
    pub fn tls(socket: TcpStream, session: ServerConnection) -> Transport {
        Transport::Tls(Box::new(TlsStream {
            socket,
            session,
            ended: false,
        }))
    }

    /// Returns the TCP socket, if there is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Transport::Tcp(socket) => Some(socket),
            Transport::Tls(stream) => Some(&stream.socket),
            Transport::Unix(_) => None,
        }
    }

    /// Returns true if the end was found after the last bytes that were read, so that the socket
    /// will not report it.
    pub fn has_ended(&self) -> bool {
        matches!(self, Transport::Tls(stream) if stream.ended)
    }

    /// Returns true if the socket has not yet taken all data that TLS has for it.
    pub fn wants_write(&self) -> bool {
        matches!(self, Transport::Tls(stream) if stream.session.wants_write())
    }

    /// Sends the closing message, if the protocol has one.
    pub fn close(&mut self) {
        if let Transport::Tls(stream) = self {
            stream.session.send_close_notify();
            // The client is gone in any case.
            let _ = stream.send();
        }
    }
}

impl TlsStream {
    /// Sends the data that TLS has for the socket.
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
            // The rest is sent once the socket reports that it takes more.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Receives data from the socket. Returns true if there was some.
    fn receive(&mut self) -> io::Result<bool> {
        match self.session.read_tls(&mut self.socket) {
            // Records that arrived before the end are still processed below.
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.session.process_new_packets() {
            // The peer gets an alert about the error, if its socket takes it.
            let _ = self.send();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        // A reply of the handshake.
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
                    // The bytes before the end come first. It is reported afterwards.
                    self.ended = true;
                    return Ok(count);
                }
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.receive() {
                    Ok(true) => {}
                    Ok(false) if count > 0 || self.ended => return Ok(count),
                    Ok(false) => return Err(ErrorKind::WouldBlock.into()),
                    // The bytes that were read before the error must still be processed.
                    Err(_) if count > 0 => {
                        self.ended = true;
                        return Ok(count);
                    }
                    Err(error) => return Err(error),
                },
                // The peer has ended the connection without a closing message.
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
        // TLS accepts only a limited amount before the socket has taken it.
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
            // The system sends what a plain socket has taken.
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
