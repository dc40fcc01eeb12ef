//! A connection that sends requests and counts their replies, without blocking.

use super::replies::ReplyStreamParser;
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// One of several connections of a thread.
#[derive(Debug)]
pub struct LoadConnection {
    stream: TcpStream,
    replies: ReplyStreamParser,
    out: Vec<u8>,
    sent: usize,
    /// Number of requests without a reply so far.
    open: usize,
}

impl LoadConnection {
    /// Connects, and registers for events with the token `number`.
    pub fn connect(address: SocketAddr, poll: &Poll, number: usize) -> io::Result<LoadConnection> {
        let mut stream = TcpStream::connect(address)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut stream, Token(number), interest)?;
        // Requests are sent whole.
        let _ = stream.set_nodelay(true);
        Ok(LoadConnection {
            stream,
            replies: ReplyStreamParser::default(),
            out: Vec::new(),
            sent: 0,
            open: 0,
        })
    }

    /// Returns true if there is nothing left to send, and no reply outstanding.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.sent == self.out.len()
    }

    /// Calls `write` to append the next requests and return their number. Call it once all others
    /// are done.
    pub fn fill(&mut self, write: impl FnOnce(&mut Vec<u8>) -> usize) -> usize {
        debug_assert!(self.is_done(), "requests would be lost");
        self.out.clear();
        self.sent = 0;
        self.open = write(&mut self.out);
        self.open
    }

    /// Reads the available bytes through a buffer, and calls `keep` with them; returns the number
    /// of complete replies.
    pub fn receive(&mut self, buffer: &mut [u8], mut keep: impl FnMut(&[u8])) -> io::Result<usize> {
        let mut ended = 0;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let bytes = &buffer[..count];
                    ended += self.replies.feed(bytes);
                    keep(bytes);
                    // A short read has emptied the socket, so the next bytes raise an event.
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // An event reports that the connection is made.
                Err(error) if error.kind() == ErrorKind::NotConnected => break,
                Err(error) => ignore_interrupts(error)?,
            }
        }
        self.open = self.open.saturating_sub(ended);
        Ok(ended)
    }

    /// Returns the first error reply since the last call.
    pub fn take_error(&mut self) -> Option<String> {
        self.replies.error.take()
    }

    /// Sends as much as the system takes.
    pub fn send(&mut self) -> io::Result<()> {
        debug_assert!(self.sent <= self.out.len());
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::NotConnected => break,
                Err(error) => ignore_interrupts(error)?,
            }
        }
        Ok(())
    }

    /// Deregisters from events.
    pub fn leave(&mut self, poll: &Poll) {
        let _ = poll.registry().deregister(&mut self.stream);
    }
}

pub fn ignore_interrupts(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}
