//! A caller, which turns queries into requests and repeats these until responses arrive.

mod timer;

use super::OutgoingDatagram;
use crate::node::Tenant;
use crate::program::TraversalProgram;
use crate::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use crate::wire::{
    AuthenticationKey, MessageFragment, MessageParts, OBJECT_BYTES_MAX, OffloadMessage,
    OffloadMessageKind, PartsProgress, ProcessAddress, RequestObject,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use timer::RetransmissionTimer;

/// The settings of a caller.
#[derive(Clone, Copy, Debug)]
pub struct CallerSettings {
    /// The place where it receives datagrams.
    pub place: ProcessAddress,
    /// The place to which it sends them: the switch, or the only memory node.
    pub switch: ProcessAddress,
    /// The tenant of its programs.
    pub tenant: Tenant,
    /// The tenant's key.
    pub key: AuthenticationKey,
    /// The number of its first request. It must be above those of an earlier caller at the same
    /// place: microseconds of the clock are.
    pub first: u64,
    /// The newest epoch of memory that the caller accepts, because its addresses refer to the
    /// contents of that memory. 0 if it accepts any.
    pub map_epoch: u32,
    /// True if a traversal that leaves a memory node returns to the caller, which sends it on. It
    /// saves nothing; pulse's paper compares with it (`pulse-acc`).
    pub returns_to_caller: bool,
    /// Largest length of a datagram of a request with an object, which is sent in several if it is
    /// longer. The usual length is what Ethernet carries without fragments of IP.
    pub datagram_bytes: usize,
    /// The shortest time after which a request is repeated.
    pub wait_min: Duration,
    /// The longest time after which a request is repeated.
    pub wait_max: Duration,
    /// The time without any progress after which a request is given up.
    pub patience: Duration,
}

impl CallerSettings {
    /// Creates settings with the usual times.
    pub const fn new(
        place: ProcessAddress,
        switch: ProcessAddress,
        tenant: Tenant,
        key: AuthenticationKey,
    ) -> CallerSettings {
        CallerSettings {
            place,
            switch,
            tenant,
            key,
            first: 0,
            map_epoch: 0,
            returns_to_caller: false,
            datagram_bytes: 1472,
            wait_min: Duration::from_millis(5),
            wait_max: Duration::from_secs(1),
            patience: Duration::from_secs(10),
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryCompletion {
    /// The number of the request.
    pub counter: u64,
    /// The outcome, or the reason why there is none.
    pub outcome: Result<TraversalOutcome, OffloadCallError>,
    /// The object, if the query was for one and its program has ended.
    pub object: Vec<u8>,
}

/// The reason why the outcome of a query is unknown. Stores of its program may have taken effect or
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadCallError {
    /// No response has arrived, or only temporary refusals, of which this is the last.
    #[error("no reply from a memory node{}", refusal(*last))]
    NoAnswer {
        /// The last refusal.
        last: Option<TraversalStatus>,
    },
}

fn refusal(last: Option<TraversalStatus>) -> String {
    last.map_or(String::new(), |last| {
        format!("; the last refusal was {last:?}")
    })
}

/// Counters of a caller since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerCounters {
    /// Number of queries.
    pub asked: u64,
    /// Number of datagrams that were sent.
    pub sent: u64,
    /// Number of these that were sent again without a response in time.
    pub repeated: u64,
    /// Number of these that continued a traversal which had returned to the caller.
    pub sent_on: u64,
    /// Number of these that carried the program, because a node did not know it.
    pub with_program: u64,
    /// Number of received datagrams that are not messages of the tenant for this caller.
    pub foreign: u64,
    /// Number of received parts of replies.
    pub parts: u64,
    /// Number of received messages and parts without news.
    pub late: u64,
    /// Number of queries that were given up.
    pub given_up: u64,
}

/// The state machine of a caller.
#[derive(Debug)]
pub struct QueryCaller {
    settings: CallerSettings,
    timer: RetransmissionTimer,
    next: u64,
    calls: BTreeMap<u64, PendingQuery>,
    counters: CallerCounters,
}

/// A query without an outcome so far.
#[derive(Debug)]
struct PendingQuery {
    program: Arc<TraversalProgram>,
    /// The request of the latest known state, which is sent repeatedly.
    request: OffloadMessage,
    sent: Duration,
    repeats: u32,
    due: Duration,
    /// The time of the last progress.
    heard: Duration,
    /// True if the present state was refused because of its hops.
    hops_were_reset: bool,
    /// True if the request was refused for now since it was sent last.
    was_refused: bool,
    last: Option<TraversalStatus>,
    /// The parts of replies with an object, and of a request that was returned.
    parts: MessageParts,
}

impl PendingQuery {
    /// Returns the time at which the query is given up, unless there is progress before.
    fn end(&self, patience: Duration) -> Duration {
        self.heard.saturating_add(patience)
    }

    /// Returns true if a message is of a later visit to a node than the latest known state.
    fn is_further(&self, message: &OffloadMessage) -> bool {
        message.visit > self.request.visit
    }

    /// Continues from the state in a message: the next request has that state, and `body`.
    fn advance(&mut self, now: Duration, message: OffloadMessage, map_epoch: u32, body: Vec<u8>) {
        if self.is_further(&message) && message.left < self.request.left {
            // Only iterations are progress, of which there is a limit. Neither a refusal nor visits
            // without iterations must keep a request alive for ever.
            self.heard = now;
        }
        self.last = Some(message.status);
        self.hops_were_reset = message.status == TraversalStatus::HopLimit;
        self.request = OffloadMessage {
            kind: OffloadMessageKind::Request,
            status: TraversalStatus::Done,
            hops: 0,
            map_epoch,
            // Responses do not have it.
            carried: std::mem::take(&mut self.request.carried),
            body,
            ..message
        };
    }
}

impl QueryCaller {
    /// Creates a caller without queries.
    pub fn new(settings: CallerSettings) -> QueryCaller {
        QueryCaller {
            settings,
            timer: RetransmissionTimer::new(settings.wait_min, settings.wait_max),
            next: settings.first,
            calls: BTreeMap::new(),
            counters: CallerCounters::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &CallerCounters {
        &self.counters
    }

    /// Returns the number of queries without an outcome.
    pub fn pending(&self) -> usize {
        self.calls.len()
    }

    /// Returns the time at which [`tick`](QueryCaller::tick) has work to do, unless a response
    /// arrives before.
    pub fn due(&self) -> Option<Duration> {
        let patience = self.settings.patience;
        let calls = self.calls.values();
        calls.map(|call| call.due.min(call.end(patience))).min()
    }

    /// Sends a query that may make `iterations` iterations, and returns the number of the request.
    /// Appends the datagrams to send to `out`.
    pub fn ask(
        &mut self,
        now: Duration,
        query: &TraversalQuery,
        iterations: u64,
        out: &mut Vec<OutgoingDatagram>,
    ) -> u64 {
        self.ask_for(now, query, iterations, (None, &[]), out)
    }

    /// Sends a query as [`ask`](QueryCaller::ask) does. The answer has an object, too: at most
    /// [`OBJECT_BYTES_MAX`] bytes, whose address and length are in two words of the scratchpad when
    /// the program has ended. `words` are their numbers.
    pub fn ask_with_object(
        &mut self,
        now: Duration,
        query: &TraversalQuery,
        iterations: u64,
        words: [u8; 2],
        out: &mut Vec<OutgoingDatagram>,
    ) -> u64 {
        let [address, length] = words;
        let object = RequestObject {
            address,
            length,
            is_next: false,
        };
        self.ask_for(now, query, iterations, (Some(object), &[]), out)
    }

    /// Sends a query as [`ask`](QueryCaller::ask) does, with an object that is stored when the
    /// program has ended: at the address in the word `word` of the scratchpad, or nowhere if that
    /// is zero. The object is stored once, or not at all if the outcome has a status of an error.
    ///
    /// Returns `None`, and sends nothing, if the object is empty or has more than
    /// [`OBJECT_BYTES_MAX`] bytes.
    pub fn ask_storing(
        &mut self,
        now: Duration,
        query: &TraversalQuery,
        iterations: u64,
        (word, object): (u8, &[u8]),
        out: &mut Vec<OutgoingDatagram>,
    ) -> Option<u64> {
        if object.is_empty() || object.len() > OBJECT_BYTES_MAX {
            return None;
        }
        let place = RequestObject {
            address: word,
            length: 0,
            is_next: false,
        };
        Some(self.ask_for(now, query, iterations, (Some(place), object), out))
    }

    fn ask_for(
        &mut self,
        now: Duration,
        query: &TraversalQuery,
        iterations: u64,
        (object, carried): (Option<RequestObject>, &[u8]),
        out: &mut Vec<OutgoingDatagram>,
    ) -> u64 {
        let counter = self.next;
        self.next += 1;
        self.counters.asked += 1;
        let request = OffloadMessage {
            kind: OffloadMessageKind::Request,
            status: TraversalStatus::Done,
            returns_to_caller: self.settings.returns_to_caller,
            object,
            hops: 0,
            caller: self.settings.place,
            counter,
            // `send` sets the bound each time, because it grows while a request is repeated.
            settled: 0,
            visit: 0,
            tenant: self.settings.tenant,
            map_epoch: self.settings.map_epoch,
            address: query.start,
            made: 0,
            left: iterations,
            program: query.program.hash(),
            scratchpad: query.scratchpad.clone(),
            carried: carried.to_vec(),
            body: Vec::new(),
        };
        let call = PendingQuery {
            program: Arc::clone(&query.program),
            request,
            sent: now,
            repeats: 0,
            due: now,
            heard: now,
            hops_were_reset: false,
            was_refused: false,
            last: None,
            parts: MessageParts::default(),
        };
        debug_assert!(
            self.calls
                .keys()
                .next_back()
                .is_none_or(|&last| last < counter)
        );
        self.calls.insert(counter, call);
        self.send(now, counter, out);
        counter
    }

    /// Receives a datagram. Returns the result of a query if the datagram ends one.
    pub fn receive(
        &mut self,
        now: Duration,
        datagram: &[u8],
        out: &mut Vec<OutgoingDatagram>,
    ) -> Option<QueryCompletion> {
        if MessageFragment::is_one(datagram) {
            let answer = self.join(datagram)?;
            return self.read(now, answer, out);
        }
        let CallerSettings {
            place, tenant, key, ..
        } = self.settings;
        let decoded = OffloadMessage::decode(datagram, |other| (other == tenant).then_some(key));
        let Some(message) = decoded.ok().filter(|message| message.caller == place) else {
            self.counters.foreign += 1;
            return None;
        };
        self.read(now, message, out)
    }

    /// Adds a part of an answer, or of a request that the switch returned. Returns the message if
    /// it is complete.
    fn join(&mut self, datagram: &[u8]) -> Option<OffloadMessage> {
        let CallerSettings {
            place, tenant, key, ..
        } = self.settings;
        let decoded = MessageFragment::decode(datagram, |other| (other == tenant).then_some(key));
        let Some(part) = decoded.ok().filter(|part| part.caller == place) else {
            self.counters.foreign += 1;
            return None;
        };
        let Some(call) = self.calls.get_mut(&part.counter) else {
            self.counters.late += 1;
            return None;
        };
        self.counters.parts += 1;
        let bytes = match call.parts.add(&part) {
            PartsProgress::Known => {
                self.counters.late += 1;
                return None;
            }
            PartsProgress::Added => return None,
            PartsProgress::Whole(bytes) => bytes,
        };
        // The parts had the tenant's tags, but a node may have put another message into them.
        let answer = OffloadMessage::decode_joined(&bytes).ok().filter(|answer| {
            let names = (answer.caller, answer.tenant, answer.counter);
            answer.kind == part.kind && names == (place, tenant, part.counter)
        });
        if answer.is_none() {
            self.counters.foreign += 1;
        }
        answer
    }

    /// Reacts to a message of the tenant for this caller.
    fn read(
        &mut self,
        now: Duration,
        message: OffloadMessage,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Option<QueryCompletion> {
        let map_epoch = self.settings.map_epoch;
        let counter = message.counter;
        let Some(call) = self.calls.get_mut(&counter) else {
            self.counters.late += 1;
            return None;
        };
        let reaction = CallerReaction::to(&message, call);
        // The response to a repeated request may belong to any of its datagrams, so its time is
        // not noted.
        if call.repeats == 0 && !matches!(reaction, CallerReaction::Ignore) {
            self.timer.note(now.saturating_sub(call.sent));
        }
        match reaction {
            CallerReaction::Ignore => self.counters.late += 1,
            CallerReaction::End(status) => {
                // A request that the switch returned may have a program as its body.
                let is_object = call.request.object.is_some()
                    && message.kind == OffloadMessageKind::Response
                    && status == TraversalStatus::Done;
                let object = match is_object {
                    true => message.body,
                    false => Vec::new(),
                };
                let mut scratchpad = message.scratchpad;
                // Zeros at its end were not sent.
                scratchpad.resize(call.program.scratchpad_bytes(), 0);
                self.calls.remove(&counter);
                let outcome = Ok(TraversalOutcome {
                    status,
                    address: message.address,
                    scratchpad,
                    iterations: message.made,
                });
                return Some(QueryCompletion {
                    counter,
                    outcome,
                    object,
                });
            }
            CallerReaction::Wait => {
                let body = match call.is_further(&message) {
                    true => Vec::new(),
                    // The node that refused it for now may still need the program.
                    false => std::mem::take(&mut call.request.body),
                };
                call.advance(now, message, map_epoch, body);
                call.was_refused = true;
                call.repeats += 1;
                call.due = now.saturating_add(self.timer.wait(call.repeats));
            }
            CallerReaction::SendOn => {
                call.advance(now, message, map_epoch, Vec::new());
                call.repeats = 0;
                self.counters.sent_on += 1;
                self.send(now, counter, out);
            }
            CallerReaction::SendProgram => {
                let body = call.program.encode();
                call.advance(now, message, map_epoch, body);
                call.repeats = 0;
                self.counters.with_program += 1;
                self.send(now, counter, out);
            }
        }
        None
    }

    /// Repeats requests without a response in time, and gives up those without progress for too
    /// long. Returns one that was given up, if there is one; call it until there is none.
    pub fn tick(
        &mut self,
        now: Duration,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Option<QueryCompletion> {
        let patience = self.settings.patience;
        // Some refusals make a request due later, and the caller gives up all the same.
        let is_due = |call: &PendingQuery| call.due <= now || call.end(patience) <= now;
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        // The loop changes the calls, so it cannot borrow them.
        let due: Vec<u64> = due.map(|(&counter, _)| counter).collect();
        for counter in due {
            let Some(call) = self.calls.get_mut(&counter) else {
                continue;
            };
            if call.end(patience) <= now {
                let last = call.last;
                self.calls.remove(&counter);
                self.counters.given_up += 1;
                let outcome = Err(OffloadCallError::NoAnswer { last });
                return Some(QueryCompletion {
                    counter,
                    outcome,
                    object: Vec::new(),
                });
            }
            call.repeats += 1;
            self.counters.repeated += 1;
            self.send(now, counter, out);
        }
        None
    }

    /// Sends the present state of a query.
    fn send(&mut self, now: Duration, counter: u64, out: &mut Vec<OutgoingDatagram>) {
        // All requests below the oldest pending one have their outcomes.
        let settled = self.calls.keys().next().copied().unwrap_or(self.next);
        let Some(call) = self.calls.get_mut(&counter) else {
            return;
        };
        // Nodes refuse requests below the bound as outdated.
        debug_assert!(settled <= counter);
        // A repeat of a request with an object has the same bytes, so that a node can join parts of
        // both. With an earlier bound, a node only remembers for longer.
        if call.repeats == 0 || call.request.carried.is_empty() {
            call.request.settled = settled;
        }
        call.sent = now;
        call.was_refused = false;
        call.due = now.saturating_add(self.timer.wait(call.repeats));
        let (to, key) = (self.settings.switch, &self.settings.key);
        if call.request.carried.is_empty() {
            self.counters.sent += 1;
            let datagram = call.request.encode(key);
            out.push(OutgoingDatagram { to, datagram });
            return;
        }
        let datagram_bytes = self.settings.datagram_bytes;
        for datagram in call.request.encode_in_parts(key, datagram_bytes) {
            self.counters.sent += 1;
            out.push(OutgoingDatagram { to, datagram });
        }
    }
}

/// The reaction of a caller to a message.
enum CallerReaction {
    /// No news: nothing to do.
    Ignore,
    /// The query has its outcome.
    End(TraversalStatus),
    /// The traversal must be sent on.
    SendOn,
    /// The traversal must be sent again, with the program.
    SendProgram,
    /// A temporary refusal: the same request may be accepted later.
    Wait,
}

impl CallerReaction {
    /// Returns the reaction to a message about a query.
    fn to(message: &OffloadMessage, call: &PendingQuery) -> CallerReaction {
        if message.visit < call.request.visit {
            // The message is of an earlier state: it was repeated or delayed.
            return CallerReaction::Ignore;
        }
        if message.kind == OffloadMessageKind::Request {
            // The switch returned the request, because no node holds its address.
            return CallerReaction::End(TraversalStatus::NoSuchAddress);
        }
        // The message is of the present state, perhaps not for the first time, or of a later visit.
        let is_further = call.is_further(message);
        match message.status {
            TraversalStatus::Elsewhere if is_further => CallerReaction::SendOn,
            TraversalStatus::IterationLimit if message.left > 0 && is_further => {
                CallerReaction::SendOn
            }
            // The limit is on hops since the last reset. A second refusal of one state is a repeat,
            // which needs no new request.
            TraversalStatus::HopLimit if is_further || !call.hops_were_reset => {
                CallerReaction::SendOn
            }
            // With a body, the program was sent already, and may be on its way.
            TraversalStatus::UnknownProgram if is_further || call.request.body.is_empty() => {
                CallerReaction::SendProgram
            }
            // A second refusal of one request must not delay the next repeat again: somebody may
            // replay the first one for ever.
            TraversalStatus::Busy | TraversalStatus::StaleMap
                if is_further || !call.was_refused =>
            {
                CallerReaction::Wait
            }
            TraversalStatus::Elsewhere
            | TraversalStatus::HopLimit
            | TraversalStatus::UnknownProgram
            | TraversalStatus::Busy
            | TraversalStatus::StaleMap => CallerReaction::Ignore,
            TraversalStatus::IterationLimit if message.left > 0 => CallerReaction::Ignore,
            status => CallerReaction::End(status),
        }
    }
}
