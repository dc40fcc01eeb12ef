//! A connection to another server, over which keys are sent.
//!
//! All requests are written before the first reply is read. Replies are lines: `+` and a word, or
//! `-` and the reason.

use super::{MigrationError, MigrationTarget, Parcel};
use crate::carried;
use crate::clock::now_ms;
use crate::resp::encode;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait without a check for the server's stop.
const SLICE: Duration = Duration::from_millis(50);
/// Least number of bytes of one write.
const WRITE_BYTES: usize = 64 << 10;
/// Longest reply.
const LINE_BYTES_MAX: usize = 1024;

/// A connection to a target.
#[derive(Debug)]
pub struct MigrationLink<'s> {
    stream: TcpStream,
    timeout: Duration,
    stopping: &'s AtomicBool,
    received: Vec<u8>,
}

impl<'s> MigrationLink<'s> {
    /// Connects.
    ///
    /// # Errors
    /// The system's error; `TimedOut` also if the server stops.
    pub fn open(
        target: &MigrationTarget,
        stopping: &'s AtomicBool,
    ) -> io::Result<MigrationLink<'s>> {
        let port: u16 = target
            .port
            .parse()
            .map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let mut result = Err(ErrorKind::AddrNotAvailable.into());
        for address in (target.host.as_str(), port).to_socket_addrs()? {
            result = connect(address, target.timeout, stopping);
            if result.is_ok() {
                break;
            }
        }
        let stream = result?;
        stream.set_nodelay(true)?;
        // A longer wait could not end when the server stops.
        let slice = SLICE.min(target.timeout);
        stream.set_read_timeout(Some(slice))?;
        stream.set_write_timeout(Some(slice))?;
        Ok(MigrationLink {
            stream,
            timeout: target.timeout,
            stopping,
            received: Vec::new(),
        })
    }

    /// Returns the connection, which the caller only keeps open.
    pub fn into_connection(self) -> TcpStream {
        self.stream
    }

    /// Sends parcels. Adds to `acknowledged`, for each parcel, true if the target has it.
    ///
    /// # Errors
    /// The reason why replies are missing, or the target's first error.
    pub fn pass(
        &mut self,
        target: &MigrationTarget,
        parcels: &[Parcel],
        acknowledged: &mut Vec<bool>,
    ) -> Result<(), MigrationError> {
        self.write(target, parcels)
            .map_err(|_| MigrationError::Writing)?;
        let mut refused = None;
        // Without a login or the database, no parcel counts as acknowledged, whatever the later
        // replies are.
        for _ in 0..usize::from(!target.credentials.is_empty()) + 1 {
            let answer = self.answer().map_err(|_| MigrationError::Reading)?;
            refused = refused.or(answer.err());
        }
        let is_admitted = refused.is_none();
        for _ in parcels {
            match self.answer() {
                Ok(answer) => {
                    acknowledged.push(is_admitted && answer.is_ok());
                    refused = refused.or(answer.err());
                }
                // An error that the target has reported is more specific.
                Err(_) => {
                    return Err(refused.map_or(MigrationError::Reading, MigrationError::Refused));
                }
            }
        }
        refused.map_or(Ok(()), |refused| Err(MigrationError::Refused(refused)))
    }

    fn write(&mut self, target: &MigrationTarget, parcels: &[Parcel]) -> io::Result<()> {
        let mut bytes = Vec::new();
        if !target.credentials.is_empty() {
            let words = target.credentials.iter().map(Vec::as_slice);
            let words: Vec<&[u8]> = std::iter::once(&b"AUTH"[..]).chain(words).collect();
            encode::words(&mut bytes, &words);
        }
        encode::words(
            &mut bytes,
            &[&b"SELECT"[..], target.database.to_string().as_bytes()],
        );
        for parcel in parcels {
            // 0 means that the key does not expire.
            let time_to_live = parcel
                .expires_at_ms
                .map_or(0, |time_ms| time_ms.saturating_sub(now_ms()).max(1));
            let time_to_live = time_to_live.to_string();
            let mut words = vec![
                &b"RESTORE"[..],
                &parcel.key,
                time_to_live.as_bytes(),
                &parcel.payload,
            ];
            if parcel.replaces {
                words.push(b"REPLACE");
            }
            encode::words(&mut bytes, &words);
            if bytes.len() >= WRITE_BYTES {
                self.write_all(&bytes)?;
                bytes.clear();
            }
        }
        self.write_all(&bytes)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.patiently(|stream| stream.write(bytes))?;
            debug_assert!(written <= bytes.len());
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads the next reply: success, or the text of an error.
    fn answer(&mut self) -> io::Result<Result<(), String>> {
        let line = loop {
            if let Some(line) = take_line(&mut self.received)? {
                break line;
            }
            let mut bytes = [0; 4096];
            let length = self.patiently(|stream| stream.read(&mut bytes))?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received
                .extend_from_slice(bytes.get(..length).unwrap_or_default());
        };
        match line.split_first() {
            Some((b'+', _)) => Ok(Ok(())),
            Some((b'-', error)) => Ok(Err(carried::text(error))),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Repeats an action that waits for a slice of time, until the timeout has passed.
    fn patiently<R>(
        &mut self,
        mut act: impl FnMut(&mut TcpStream) -> io::Result<R>,
    ) -> io::Result<R> {
        let began = Instant::now();
        loop {
            match act(&mut self.stream) {
                Err(error) if is_early(&error) => wait_on(began, self.timeout, self.stopping)?,
                result => return result,
            }
        }
    }
}

/// Returns true if nothing has happened yet.
fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Fails if the wait must end.
fn wait_on(began: Instant, timeout: Duration, stopping: &AtomicBool) -> io::Result<()> {
    match began.elapsed() >= timeout || stopping.load(Ordering::Acquire) {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(()),
    }
}

/// Takes the first line of the received bytes; `None` if its end has not arrived.
fn take_line(received: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(end) = received.iter().position(|&byte| byte == b'\n') else {
        return match received.len() > LINE_BYTES_MAX {
            true => Err(ErrorKind::InvalidData.into()),
            false => Ok(None),
        };
    };
    let mut line: Vec<u8> = received.drain(..=end).collect();
    line.truncate(end);
    // A server that sends only the line feed is understood, too.
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(line))
}

fn connect(address: SocketAddr, timeout: Duration, stopping: &AtomicBool) -> io::Result<TcpStream> {
    // `TcpStream::connect_timeout` of the standard library would not notice that the server stops.
    let mut stream = mio::net::TcpStream::connect(address)?;
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1);
    poll.registry()
        .register(&mut stream, Token(0), Interest::WRITABLE)?;
    let began = Instant::now();
    loop {
        match poll.poll(&mut events, Some(SLICE.min(timeout))) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        // An event alone does not mean that the connection is established.
        if !events.is_empty() && stream.peer_addr().is_ok() {
            break;
        }
        wait_on(began, timeout, stopping)?;
    }
    poll.registry().deregister(&mut stream)?;
    let stream = TcpStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_wherever_they_are_cut() {
        let all = b"+OK\r\n-ERR x\n\r\n+";
        for cut in 0..=all.len() {
            let (mut received, mut lines) = (all[..cut].to_vec(), Vec::new());
            let mut take = |received: &mut Vec<u8>| {
                while let Some(line) = take_line(received).unwrap() {
                    lines.push(line);
                }
            };
            take(&mut received);
            received.extend_from_slice(&all[cut..]);
            take(&mut received);
            assert_eq!(lines, [&b"+OK"[..], b"-ERR x", b""], "cut at {cut}");
            assert_eq!(received, b"+");
        }
    }

    #[test]
    fn lines_without_an_end_are_refused() {
        let mut received = vec![b'-'; LINE_BYTES_MAX];
        assert!(matches!(take_line(&mut received), Ok(None)));
        received.push(b'x');
        let refused = take_line(&mut received).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
    }
}
