//! Queries over UDP, one after the other.

use super::{DatagramBatch, Datagrams, place, socket_towards};
use crate::net::{
    CallerCounters, CallerSettings, OffloadCallError, OutgoingDatagram, QueryCaller,
    QueryCompletion,
};
use crate::node::Tenant;
use crate::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use crate::wire::AuthenticationKey;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest sleep of a caller before it checks its timers.
const LOOK: Duration = Duration::from_millis(100);
/// Largest number of datagrams that a caller receives at once: parts of an answer.
const DATAGRAMS: usize = 8;

/// A caller with a socket.
#[derive(Debug)]
pub struct OffloadClient<S = UdpSocket> {
    socket: S,
    caller: QueryCaller,
    began: Instant,
    batch: DatagramBatch,
    out: Vec<OutgoingDatagram>,
}

/// The reason why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The network returned none.
    #[error(transparent)]
    Call(#[from] OffloadCallError),
    /// The socket is unusable.
    #[error("the socket is unusable: {0}")]
    Socket(#[from] io::Error),
}

impl OffloadClient {
    /// Creates a caller with a socket of its own; `change` may change its settings.
    ///
    /// # Errors
    /// There is no route to the switch.
    pub fn new(
        switch: SocketAddrV4,
        tenant: Tenant,
        key: AuthenticationKey,
        change: impl FnOnce(&mut CallerSettings),
    ) -> io::Result<OffloadClient> {
        let socket = socket_towards(switch.into())?;
        let mut settings = CallerSettings::new(place(&socket)?, switch.into(), tenant, key);
        let clock = SystemTime::now().duration_since(UNIX_EPOCH);
        settings.first = clock.unwrap_or_default().as_micros() as u64;
        change(&mut settings);
        Ok(OffloadClient::with_socket(socket, settings))
    }
}

impl<S: Datagrams> OffloadClient<S> {
    /// Creates a caller with a socket.
    pub fn with_socket(socket: S, settings: CallerSettings) -> OffloadClient<S> {
        OffloadClient {
            socket,
            caller: QueryCaller::new(settings),
            began: Instant::now(),
            batch: DatagramBatch::new(DATAGRAMS),
            out: Vec::new(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &CallerCounters {
        self.caller.counters()
    }

    /// Runs a query for at most `iterations` iterations. Also returns the object to which its
    /// program leads. Its address and length are in two words of the scratchpad when the program
    /// has ended; `words` are their numbers. The object is empty if the traversal has not ended, or
    /// one of the words is zero.
    ///
    /// # Errors
    /// There is no result. Stores of the program may have taken effect or not.
    pub fn run_with_object(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
        words: [u8; 2],
    ) -> Result<(TraversalOutcome, Vec<u8>), ClientError> {
        let now = self.began.elapsed();
        let out = &mut self.out;
        let counter = self
            .caller
            .ask_with_object(now, query, iterations, words, out);
        let completion = self.complete(counter)?;
        Ok((completion.outcome?, completion.object))
    }

    fn send(&mut self) -> io::Result<()> {
        for sent in self.out.drain(..) {
            self.socket.send_datagram(sent.to, &sent.datagram)?;
        }
        Ok(())
    }

    /// Sends and receives until a query is complete.
    fn complete(&mut self, counter: u64) -> io::Result<QueryCompletion> {
        loop {
            self.send()?;
            let now = self.began.elapsed();
            let due = self.caller.due().unwrap_or(now + LOOK);
            let wait = due.saturating_sub(now).min(LOOK);
            self.socket.receive_datagrams(&mut self.batch, Some(wait))?;
            let now = self.began.elapsed();
            // Outcomes of earlier queries, which an error of the socket has cut off, may still
            // arrive.
            let is_its = |answer: &QueryCompletion| answer.counter == counter;
            let mut found = None;
            for (datagram, _) in self.batch.iter() {
                let answer = self.caller.receive(now, datagram, &mut self.out);
                found = found.or(answer.filter(is_its));
            }
            // The timers do not wait for silence, or a flood of foreign datagrams would stop them.
            let ticked = || self.caller.tick(now, &mut self.out).filter(is_its);
            if let Some(answer) = found.or_else(ticked) {
                return Ok(answer);
            }
        }
    }
}

impl<S: Datagrams> QueryRunner for OffloadClient<S> {
    type Error = ClientError;

    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, ClientError> {
        let now = self.began.elapsed();
        let counter = self.caller.ask(now, query, iterations, &mut self.out);
        Ok(self.complete(counter)?.outcome?)
    }
}
