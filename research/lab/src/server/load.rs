//! Load: several connections in one thread. Each sends a number of requests at once and, after all
//! their replies, the next requests.

use super::lane::{LoadConnection, ignore_interrupts};
use super::process::{ServerError, ServerProcess};
use crate::harness::{Durations, LatencySummary};
use mio::{Events, Poll};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The number of connections, and their pipelining.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionShape {
    pub connections: usize,
    /// Number of requests of a connection that are sent before the first of their replies.
    pub pipeline: usize,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct ServerLoadResult {
    pub operations: u64,
    pub wall: Duration,
    /// Latency from sending requests to the last of their replies.
    pub latency: LatencySummary,
}

/// Sends requests until `next` writes no more. `next` appends at most as many requests as its
/// argument, and returns their number.
pub fn drive(
    server: &ServerProcess,
    shape: ConnectionShape,
    mut next: impl FnMut(usize, &mut Vec<u8>) -> usize,
) -> Result<ServerLoadResult, ServerError> {
    let broken = |source| ServerError::Broken {
        name: server.name.clone(),
        source,
    };
    let mut poll = Poll::new().map_err(broken)?;
    let mut events = Events::with_capacity(256);
    let mut lanes = Vec::new();
    for number in 0..shape.connections {
        let lane = LoadConnection::connect(server.address, &poll, number).map_err(broken)?;
        lanes.push((lane, Instant::now()));
    }
    let mut durations = Durations::new();
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
            let (lane, since) = &mut lanes[event.token().0];
            let ended = lane.receive(&mut buffer, |_| ()).map_err(broken)?;
            if let Some(reply) = lane.take_error() {
                let name = server.name.clone();
                return Err(ServerError::ErrorReply { name, reply });
            }
            operations += ended as u64;
            // The first event of a connection has no replies, so it is no latency.
            if ended > 0 && lane.is_done() {
                durations.record(since.elapsed());
            }
            if lane.is_done() {
                let filled = lane.fill(|out| next(shape.pipeline, out));
                debug_assert!(filled <= shape.pipeline);
                *since = Instant::now();
                if filled == 0 {
                    live -= 1;
                    // If the server closed the connection, an event would count the lane a second
                    // time.
                    lane.leave(&poll);
                }
            }
            lane.send().map_err(broken)?;
        }
    }
    Ok(ServerLoadResult {
        operations,
        wall: start.elapsed(),
        latency: durations.percentiles().unwrap_or_default(),
    })
}
