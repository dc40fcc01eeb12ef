//! An index behind the Redis protocol: batches travel as commands over many connections of this
//! machine, are reassembled on the other side, and their replies travel back on the same
//! connections.
//!
//! Sending and reading are real and take real time; the work of modules is modelled. So a trip
//! returns its time without the index, and the time of the index is that of its device.

mod protocol;
mod serving;

use super::contender::ModelledIndex;
use crate::server::ServerError;
use crate::server::lane::{LoadConnection, ignore_interrupts};
use mio::{Events, Poll};
use nearfield_core::{Batch, Words};
use protocol::{RadarReplyReader, request};
use serving::Front;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of connections, each of which pipelines its commands of a batch.
const CONNECTIONS: usize = 32;
/// Timeout of a batch.
const PATIENCE: Duration = Duration::from_secs(300);

/// Clients of a server on one thread, and the server if it serves an index.
pub(super) struct PipelinedClients {
    name: String,
    front: Option<Front>,
    poll: Poll,
    lanes: Vec<LoadConnection>,
}

impl PipelinedClients {
    /// Serves an index, which must have no other caller, and connects to it.
    ///
    /// # Errors
    /// `Broken`: the system grants no connections.
    pub(super) fn of_index(
        name: &str,
        index: Arc<dyn ModelledIndex>,
    ) -> Result<PipelinedClients, ServerError> {
        let front = Front::start(index).map_err(|source| broken(name, source))?;
        let address = front.address;
        Ok(PipelinedClients {
            front: Some(front),
            ..PipelinedClients::of_server(name, address)?
        })
    }

    /// Connects to a running server.
    ///
    /// # Errors
    /// `Broken`.
    pub(super) fn of_server(
        name: &str,
        address: SocketAddr,
    ) -> Result<PipelinedClients, ServerError> {
        let connect = || {
            let poll = Poll::new()?;
            let lanes =
                (0..CONNECTIONS).map(|number| LoadConnection::connect(address, &poll, number));
            let lanes = lanes.collect::<io::Result<_>>()?;
            Ok((poll, lanes))
        };
        let (poll, lanes) = connect().map_err(|source| broken(name, source))?;
        Ok(PipelinedClients {
            name: name.to_owned(),
            front: None,
            poll,
            lanes,
        })
    }

    /// Sends a batch to the server as commands, and returns the time from the first byte sent to
    /// the last byte received, without the time that an index served here executes. Operations on a
    /// key are executed in their order; others in any order.
    ///
    /// # Errors
    /// The server went away (`Broken`) or replies with an error (`ErrorReply`).
    pub(super) fn execute(&mut self, batch: &mut Batch<Words>) -> Result<Duration, ServerError> {
        let mut positions: Vec<Vec<usize>> = vec![Vec::new(); self.lanes.len()];
        let mut requests: Vec<Vec<u8>> = vec![Vec::new(); self.lanes.len()];
        let refused = |error: nearfield_core::OperationError| ServerError::ErrorReply {
            name: self.name.clone(),
            reply: error.to_string(),
        };
        let (input, mut output) = batch.begin().map_err(refused)?;
        for (position, operation) in input.operations().iter().enumerate() {
            // Operations on a key use one connection, so their order is kept.
            let lane = operation.point_key().map_or(position as u64, scatter);
            let lane = (lane % self.lanes.len() as u64) as usize;
            request(&input, operation, &mut requests[lane]).map_err(|reply| {
                let name = self.name.clone();
                ServerError::ErrorReply { name, reply }
            })?;
            positions[lane].push(position);
        }
        // Before the first byte is sent, or the server would execute a part of the batch.
        let before = self.front.as_ref().map(|front| {
            front.expect(input.operations().len());
            front.executing()
        });
        for (lane, (requests, positions)) in
            self.lanes.iter_mut().zip(requests.iter().zip(&positions))
        {
            lane.fill(|out| {
                out.extend_from_slice(requests);
                positions.len()
            });
        }
        let start = Instant::now();
        let replies = self.exchange()?;
        let took = start.elapsed();
        let executing = match (&self.front, before) {
            (Some(front), Some(before)) => front.executing() - before,
            _ => Duration::ZERO,
        };
        for (replies, positions) in replies.iter().zip(&positions) {
            let mut replies = RadarReplyReader::new(replies);
            for &position in positions {
                let operation = &input.operations()[position];
                let read = replies.read(&input, position, operation, &mut output);
                read.map_err(|reply| ServerError::ErrorReply {
                    name: self.name.clone(),
                    reply,
                })?;
            }
        }
        Ok(took.saturating_sub(executing))
    }

    /// Sends the requests of all lanes, and returns the complete replies on each.
    fn exchange(&mut self) -> Result<Vec<Vec<u8>>, ServerError> {
        let broken = |source| broken(&self.name, source);
        let mut replies = vec![Vec::new(); self.lanes.len()];
        let mut events = Events::with_capacity(256);
        let mut buffer = vec![0; 256 << 10];
        for lane in &mut self.lanes {
            lane.send().map_err(broken)?;
        }
        while self.lanes.iter().any(|lane| !lane.is_done()) {
            self.poll
                .poll(&mut events, Some(PATIENCE))
                .or_else(ignore_interrupts)
                .map_err(broken)?;
            if events.is_empty() {
                return Err(broken(ErrorKind::TimedOut.into()));
            }
            for event in &events {
                let number = event.token().0;
                let lane = &mut self.lanes[number];
                lane.receive(&mut buffer, |bytes| {
                    replies[number].extend_from_slice(bytes);
                })
                .map_err(broken)?;
                if let Some(reply) = lane.take_error() {
                    let name = self.name.clone();
                    return Err(ServerError::ErrorReply { name, reply });
                }
                lane.send().map_err(broken)?;
            }
        }
        Ok(replies)
    }
}

/// Hashes a key, so that neighbouring keys have unrelated numbers.
fn scatter(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

fn broken(name: &str, source: io::Error) -> ServerError {
    ServerError::Broken {
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender;
    use super::*;
    use crate::workload::random;
    use nearfield_core::ScanDirection;
    use nearfield_hardware::modules::ModulePreset;
    use nearfield_pim::device::Model;
    use rand::RngExt;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::ops::Bound;

    fn index() -> Arc<dyn ModelledIndex> {
        let device = Model::new(16, ModulePreset::UpmemMeasured.parameters());
        let size = contender::ModelledIndexSize {
            modules: 16,
            keys: 1000,
        };
        contender::NEARFIELD.make(device, size).unwrap().into()
    }

    /// Creates a batch of operations on few keys, so that their order matters.
    fn batch(number: u64) -> Batch<Words> {
        let mut batch = Batch::new();
        let mut random = random(11, number);
        for _ in 0..3000 {
            let (key, value) = (random.random_range(0..400), random.random());
            match random.random_range(0..4) {
                0 => batch.get(key),
                1 => batch.insert(key, value),
                2 => batch.remove(key),
                _ => batch.insert(key + 1000, value),
            };
        }
        batch
    }

    fn ranges() -> Batch<Words> {
        let mut batch = Batch::new();
        for key in 0..2000 {
            batch.predecessor(key);
            let (low, high) = (Bound::Included(key), Bound::Excluded(key + 30));
            batch.scan(low, high, u32::MAX, ScanDirection::Ascending);
        }
        let all = (Bound::Excluded(3), Bound::Unbounded);
        batch.scan(all.0, all.1, u32::MAX, ScanDirection::Ascending);
        batch
    }

    #[test]
    fn commands_have_the_outcomes_of_direct_calls() {
        let (served, called) = (index(), index());
        let mut clients = PipelinedClients::of_index("front", Arc::clone(&served)).unwrap();
        // A SET is unconditional, so only updates with a comparison that succeeds can be sent.
        for number in [1, 3, 5] {
            let (mut sent, mut executed) = (batch(number), batch(number));
            let took = clients.execute(&mut sent).unwrap();
            called.execute(&mut executed).unwrap();
            assert!(took > Duration::ZERO);
            for position in 0..sent.len() {
                assert_eq!(
                    sent.outcome(position),
                    executed.outcome(position),
                    "{position}"
                );
            }
            let (mut sent, mut executed) = (ranges(), ranges());
            clients.execute(&mut sent).unwrap();
            called.execute(&mut executed).unwrap();
            for position in 0..sent.len() {
                assert_eq!(
                    sent.outcome(position),
                    executed.outcome(position),
                    "{position}"
                );
            }
        }
        assert_eq!(served.len(), called.len());
        let mut before = Batch::new();
        before.insert(7, 1);
        before.update(7, Some(1), 2);
        clients.execute(&mut before).unwrap();
        let expected = nearfield_core::OperationOutcome::Updated {
            applied: true,
            before: Some(1),
        };
        assert_eq!(before.outcome(1), expected);
    }

    #[test]
    fn an_operation_without_a_command_is_refused_before_anything_is_sent() {
        let index = index();
        let mut clients = PipelinedClients::of_index("front", Arc::clone(&index)).unwrap();
        let mut batch = Batch::new();
        batch.insert(1, 1);
        batch.successor(7);
        let refused = clients.execute(&mut batch).unwrap_err().to_string();
        assert!(refused.contains("Successor"), "{refused}");
        assert!(index.is_empty());
    }

    #[test]
    fn a_front_reports_an_unknown_command_and_continues() {
        let front = Front::start(index()).unwrap();
        let mut strange = TcpStream::connect(front.address).unwrap();
        let mut other = TcpStream::connect(front.address).unwrap();
        strange.write_all(b"FLUSHALL\r\nPING\r\n").unwrap();
        let mut reply = [0; 20];
        strange.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"-ERR cannot do 'FLUS");
        // A connection that speaks another protocol is closed, and the others stay.
        strange.write_all(b"*1\r\n:7\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = strange.read_to_end(&mut rest);
        assert!(rest.ends_with(b"+PONG\r\n"));
        other.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        other.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
}
