//! Load: several connections in one thread, each of which sends so many requests at once and,
//! when all are answered, sends the next.

use super::process::{ServerError, ServerProcess};
use super::replies::Replies;
use crate::bench::Latency;
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub connections: usize,
    /// Requests of a connection that are sent before the first of them is answered.
    pub pipeline: usize,
}

/// What a load has met.
#[derive(Clone, Debug)]
pub struct Slice {
    pub operations: u64,
    pub wall: Duration,
    /// From sending requests to the last of their answers.
    pub latency: Latency,
}

/// Longer than this counts as this: ten minutes.
const NANOSECONDS_MAX: u64 = 600_000_000_000;

struct Lane {
    stream: TcpStream,
    replies: Replies,
    out: Vec<u8>,
    sent: usize,
    /// Requests that are not answered yet.
    open: usize,
    since: Instant,
}

/// Sends requests until `next` writes no more; `next` appends up to so many requests and answers
/// how many.
pub fn drive(
    server: &ServerProcess,
    shape: Shape,
    mut next: impl FnMut(usize, &mut Vec<u8>) -> usize,
) -> Result<Slice, ServerError> {
    let broken = |source| ServerError::Broken {
        name: server.name.clone(),
        source,
    };
    let mut poll = Poll::new().map_err(broken)?;
    let mut events = Events::with_capacity(256);
    let mut lanes = Vec::new();
    for number in 0..shape.connections {
        let mut stream = TcpStream::connect(server.address).map_err(broken)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = poll
            .registry()
            .register(&mut stream, Token(number), interest);
        registered.map_err(broken)?;
        // Requests are sent whole.
        let _ = stream.set_nodelay(true);
        lanes.push(Lane {
            stream,
            replies: Replies::default(),
            out: Vec::new(),
            sent: 0,
            open: 0,
            since: Instant::now(),
        });
    }
    let mut durations: Histogram<u64> = Histogram::new_with_max(NANOSECONDS_MAX, 2)
        .expect("the constants are within the library's bounds");
    let (start, mut operations, mut live) = (Instant::now(), 0, lanes.len());
    let mut buffer = vec![0; 256 << 10];
    while live > 0 {
        poll.poll(&mut events, Some(Duration::from_secs(30)))
            .or_else(ignore_interrupts)
            .map_err(broken)?;
        if events.is_empty() {
            return Err(broken(ErrorKind::TimedOut.into()));
        }
        for event in &events {
            let lane = &mut lanes[event.token().0];
            let ended = lane.receive(&mut buffer).map_err(broken)?;
            if let Some(answer) = lane.replies.error.take() {
                let name = server.name.clone();
                return Err(ServerError::Answer { name, answer });
            }
            operations += ended as u64;
            if ended > 0 && lane.open == 0 {
                durations.saturating_record(lane.since.elapsed().as_nanos() as u64);
            }
            if lane.open == 0 && lane.sent == lane.out.len() {
                lane.out.clear();
                lane.sent = 0;
                lane.open = next(shape.pipeline, &mut lane.out);
                lane.since = Instant::now();
                if lane.open == 0 {
                    live -= 1;
                    // It would be counted again if the server closed the connection.
                    let _ = poll.registry().deregister(&mut lane.stream);
                }
            }
            lane.send().map_err(broken)?;
        }
    }
    Ok(Slice {
        operations,
        wall: start.elapsed(),
        latency: Latency {
            p50: durations.value_at_quantile(0.5),
            p99: durations.value_at_quantile(0.99),
            p999: durations.value_at_quantile(0.999),
        },
    })
}

fn ignore_interrupts(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

impl Lane {
    /// Reads what has come; answers how many replies have ended.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ended = 0;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    ended += self.replies.feed(&buffer[..count]);
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::NotConnected => break,
                Err(error) => ignore_interrupts(error)?,
            }
        }
        self.open = self.open.saturating_sub(ended);
        Ok(ended)
    }

    fn send(&mut self) -> io::Result<()> {
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
}
