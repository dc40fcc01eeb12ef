//! A connection to a server.

use super::reply::RespReplyValue;
pub use nearfield_server::resp::encode::request as encode;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Timeout that suffices on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Encodes commands, each of which is a line of words separated by blanks.
pub fn encode_lines<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> Vec<u8> {
    let mut requests = Vec::new();
    for line in lines {
        let words: Vec<&[u8]> = line.as_ref().split(' ').map(str::as_bytes).collect();
        encode(&mut requests, &words);
    }
    requests
}

/// A connection to a server.
#[derive(Debug)]
pub struct TestkitConnection {
    stream: TcpStream,
    /// The received bytes that were not read yet.
    pub(super) input: Vec<u8>,
    /// Number of bytes of `input` that were read.
    pub(super) start: usize,
    /// True if the server has closed it.
    pub(super) ended: bool,
}

impl TestkitConnection {
    /// Connects to a server.
    pub fn open(address: SocketAddr) -> io::Result<TestkitConnection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(TestkitConnection {
            stream,
            input: Vec::new(),
            start: 0,
            ended: false,
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a command.
    pub fn send_words(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        encode(&mut request, words);
        self.send(&request)
    }

    /// Sends a command and reads its reply.
    pub fn command(&mut self, words: &[&[u8]]) -> io::Result<RespReplyValue> {
        self.send_words(words)?;
        self.receive()
    }

    /// Sends a command with words separated by blanks, and reads its reply.
    pub fn run(&mut self, line: &str) -> io::Result<RespReplyValue> {
        self.send(&encode_lines([line]))?;
        self.receive()
    }

    /// Sends requests at once and reads this number of replies.
    ///
    /// # Errors
    /// Those of [`send`](Self::send) and [`receive`](Self::receive).
    pub fn exchange(&mut self, requests: &[u8], replies: usize) -> io::Result<Vec<RespReplyValue>> {
        self.send(requests)?;
        (0..replies).map(|_| self.receive()).collect()
    }

    /// Reads a reply.
    pub fn receive(&mut self) -> io::Result<RespReplyValue> {
        self.receive_within(PATIENCE)
    }

    /// Reads a reply that arrives within some time.
    pub fn receive_within(&mut self, patience: Duration) -> io::Result<RespReplyValue> {
        let deadline = Instant::now() + patience;
        // Number of bytes from which parsing a long reply again is worthwhile.
        let mut enough = 1;
        let mut quiet = false;
        loop {
            let rest = &self.input[self.start..];
            if rest.len() >= enough || quiet {
                let parsed = RespReplyValue::parse(rest);
                let parsed =
                    parsed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.0))?;
                if let Some((value, length)) = parsed {
                    debug_assert!(0 < length && length <= rest.len());
                    self.start += length;
                    return Ok(value);
                }
                if quiet && self.ended {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "the server has closed the connection",
                    ));
                }
                if quiet && Instant::now() >= deadline {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no reply"));
                }
                // A new attempt for each piece would take quadratic time.
                enough = rest.len() * 3 / 2;
            }
            let rest = self.input.len() - self.start;
            let is_long = rest >= 1 << 16;
            if !is_long {
                enough = 1;
            }
            // The reply may be complete earlier.
            let soon = Instant::now() + Duration::from_millis(20);
            let until = if is_long {
                soon.min(deadline)
            } else {
                deadline
            };
            quiet = !self.fill(until)?;
        }
    }

    /// Closes the connection, waits for the server to do so, too, and returns the unread bytes.
    pub fn close(mut self) -> Vec<u8> {
        let _ = self.stream.shutdown(Shutdown::Write);
        let deadline = Instant::now() + Duration::from_secs(2);
        while !self.ended && Instant::now() < deadline {
            if self.fill(deadline).is_err() {
                break;
            }
        }
        self.input.split_off(self.start)
    }

    /// Reads the next bytes before `deadline`. Returns false if none arrive.
    pub(super) fn fill(&mut self, deadline: Instant) -> io::Result<bool> {
        debug_assert!(self.start <= self.input.len());
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        self.stream
            .set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut buffer = [0; 1 << 14];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                return Ok(true);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.ended = true,
                _ => return Err(error),
            },
        }
        Ok(false)
    }
}
