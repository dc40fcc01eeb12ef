//! Queries over UDP, one after the other.

use super::serve::send_all;
use super::{DatagramBatch, Datagrams, place, socket_towards};
use crate::net::{
    CallerCounters, CallerSettings, OffloadCallError, OutgoingDatagram, QueryCaller,
    QueryCompletion,
};
use crate::node::Tenant;
use crate::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use crate::wire::{AuthenticationKey, OBJECT_BYTES_MAX};
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
    /// The object of a request is empty or too long.
    #[error(
        "a request carries an object of 1 to {max} bytes, not of {bytes}",
        max = OBJECT_BYTES_MAX
    )]
    ObjectLength {
        /// Number of bytes.
        bytes: usize,
    },
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
        let completion = self.one(counter)?;
        Ok((completion.outcome?, completion.object))
    }

    /// Runs a query for at most `iterations` iterations, and stores an object when its program has
    /// ended: at the address in the word `word` of the scratchpad, or nowhere if that is zero. It
    /// takes no further round trip. The outcome has a status of an error if the object could not be
    /// stored.
    ///
    /// # Errors
    /// The object is empty or longer than [`OBJECT_BYTES_MAX`], or there is no result. The stores
    /// of the program, and that of the object, may have taken effect or not.
    pub fn run_storing(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
        word: u8,
        object: &[u8],
    ) -> Result<TraversalOutcome, ClientError> {
        let now = self.began.elapsed();
        let stored = (word, object);
        let asked = self
            .caller
            .ask_storing(now, query, iterations, stored, &mut self.out);
        let bytes = object.len();
        let counter = asked.ok_or(ClientError::ObjectLength { bytes })?;
        Ok(self.one(counter)?.outcome?)
    }

    fn send(&mut self) -> io::Result<()> {
        send_all(&self.socket, &mut self.out)
    }

    /// Sends and receives until a query is complete.
    fn one(&mut self, counter: u64) -> io::Result<QueryCompletion> {
        let mut found = None;
        self.complete(|answer| {
            // Outcomes of earlier queries, which an error of the socket has cut off, may still
            // arrive.
            if answer.counter == counter {
                found = Some(answer);
            }
            found.is_some()
        })?;
        found.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends and receives until `take` returns true for a completed query.
    fn complete(&mut self, mut take: impl FnMut(QueryCompletion) -> bool) -> io::Result<()> {
        let mut is_done = false;
        while !is_done {
            self.send()?;
            let now = self.began.elapsed();
            let due = self.caller.due().unwrap_or(now + LOOK);
            let wait = due.saturating_sub(now).min(LOOK);
            if self.batch.len() < DATAGRAMS {
                // None was left over, so the next one is on its way at best.
                self.socket.await_datagrams(&mut self.batch, wait)?;
            } else {
                self.socket.receive_datagrams(&mut self.batch, Some(wait))?;
            }
            let now = self.began.elapsed();
            for (datagram, _) in self.batch.iter() {
                if let Some(answer) = self.caller.receive(now, datagram, &mut self.out) {
                    is_done |= take(answer);
                }
            }
            // The timers do not wait for silence, or a flood of foreign datagrams would stop them.
            while !is_done && let Some(answer) = self.caller.tick(now, &mut self.out) {
                is_done |= take(answer);
            }
        }
        Ok(())
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
        Ok(self.one(counter)?.outcome?)
    }

    /// Sends all queries, then waits for their outcomes.
    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, ClientError>> {
        let now = self.began.elapsed();
        let mut counters = Vec::with_capacity(queries.len());
        for query in queries {
            counters.push(self.caller.ask(now, query, iterations, &mut self.out));
        }
        let mut outcomes: Vec<Option<_>> = counters.iter().map(|_| None).collect();
        let mut left = counters.len();
        let mut failure = None;
        if left > 0 {
            let ended = self.complete(|answer| {
                let at = counters
                    .iter()
                    .position(|&counter| counter == answer.counter);
                if let Some(outcome) = at.and_then(|at| outcomes.get_mut(at)) {
                    *outcome = Some(answer.outcome);
                    left -= 1;
                }
                left == 0
            });
            failure = ended.err();
        }
        let outcomes = outcomes.into_iter().map(|outcome| match outcome {
            Some(outcome) => outcome.map_err(ClientError::from),
            // An error of the socket is that of the first query without an outcome.
            None => Err(match failure.take() {
                Some(error) => error.into(),
                None => OffloadCallError::NoAnswer { last: None }.into(),
            }),
        });
        outcomes.collect()
    }
}
