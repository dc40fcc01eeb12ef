//! Load: several connections in one thread, each of which sends so many requests at once and,
//! when all are answered, sends the next.

use super::lane::{Lane, ignore_interrupts};
use super::process::{ServerError, ServerProcess};
use crate::harness::{Durations, Latency};
use mio::{Events, Poll};
use std::io::ErrorKind;
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
        let lane = Lane::connect(server.address, &poll, number).map_err(broken)?;
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
            if let Some(answer) = lane.take_error() {
                let name = server.name.clone();
                return Err(ServerError::Answer { name, answer });
            }
            operations += ended as u64;
            if ended > 0 && lane.is_done() {
                durations.record(since.elapsed());
            }
            if lane.is_done() {
                let filled = lane.fill(|out| next(shape.pipeline, out));
                *since = Instant::now();
                if filled == 0 {
                    live -= 1;
                    // It would be counted again if the server closed the connection.
                    lane.leave(&poll);
                }
            }
            lane.send().map_err(broken)?;
        }
    }
    Ok(Slice {
        operations,
        wall: start.elapsed(),
        latency: durations.percentiles().unwrap_or_default(),
    })
}
