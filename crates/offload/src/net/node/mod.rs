//! A memory node, which runs the traversals of requests and sends their results.

mod counters;
mod partial;
mod programs;
mod replies;

pub use counters::NodeCounters;
pub use programs::{ProgramTranslation, TranslatedProgram};

use super::OutgoingDatagram;
use super::keys::TenantKeys;
use crate::node::{InterleavedTraversals, LocalMemory, SLOTS, Tenant, TraversalEnd, TraversalJob};
use crate::program::TraversalProgram;
use crate::traversal::{AccessError, ProgramEngine, TraversalMemory, TraversalStatus};
use crate::wire::{
    AuthenticationKey, MessageError, MessageFragment, OBJECT_BYTES_MAX, OffloadMessage,
    OffloadMessageKind, ProcessAddress, RequestObject,
};
use parking_lot::FairMutex;
use partial::PartialRequests;
use programs::ProgramCache;
use replies::{ReplyProgress, SentReplies};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a memory node.
#[derive(Clone, Copy, Debug)]
pub struct NodeSettings {
    /// The epoch of its memory: a number that grows with each of its starts.
    pub epoch: u32,
    /// Number of traversals in flight.
    pub slots: usize,
    /// Number of iterations that all of these make in a turn of the node, unless one ends. Others
    /// that access the memory between two turns wait for that long, and the iterations share the
    /// cost of a turn.
    pub turn_iterations: usize,
    /// Largest number of waiting requests. Further ones are refused by `Busy`.
    pub waiting_max: usize,
    /// Number of iterations that a request makes here before its caller must send it again, so that
    /// cycles in data end.
    pub iterations_max: u64,
    /// Number of hops through a switch after which the caller is informed where its request is.
    /// After a loss, the request is repeated from there: of a hundred hops with 1 % loss each, few
    /// runs reach the end.
    pub hops_max: u8,
    /// Largest length of a datagram of a message with an object, which is sent in several if it is
    /// longer. The default is what Ethernet carries without fragments of IP.
    pub datagram_bytes: usize,
    /// The function that creates the engine of a program.
    pub engine: fn(Arc<TraversalProgram>) -> ProgramEngine,
    /// The processor time that other threads spend on engines of a tenant's new programs in each
    /// second; programs are interpreted meanwhile. `None` if an engine is created when the program
    /// arrives, which may take milliseconds.
    pub translation_budget: Option<Duration>,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            epoch: 0,
            slots: SLOTS,
            turn_iterations: 192,
            waiting_max: 1024,
            iterations_max: 1 << 16,
            hops_max: 16,
            datagram_bytes: 1472,
            engine: ProgramEngine::new,
            translation_budget: None,
        }
    }
}

/// The state machine of a memory node.
#[derive(Debug)]
pub struct OffloadNode<'m> {
    memory: &'m LocalMemory<'m>,
    keys: TenantKeys,
    settings: NodeSettings,
    interleaved: InterleavedTraversals<'m, NodeRequest>,
    waiting: VecDeque<(ProgramEngine, NodeRequest)>,
    programs: ProgramCache,
    replies: SentReplies,
    partial: PartialRequests,
    counters: NodeCounters,
    turn: Option<&'m FairMutex<()>>,
}

/// A traversal that waits at a node, and that another thread may run instead: it only reads.
#[derive(Debug)]
pub struct SpareTraversal {
    engine: ProgramEngine,
    work: NodeRequest,
}

/// A traversal that has ended, stopped or left.
struct EndedRequest {
    work: NodeRequest,
    status: TraversalStatus,
    address: u64,
    scratchpad: Vec<u8>,
    iterations: u64,
    /// The address of the object, and the bytes that were read there. There are none if the object
    /// of the request was stored there.
    object: Option<(u64, Result<Vec<u8>, AccessError>)>,
}

/// A request in progress.
#[derive(Debug)]
struct NodeRequest {
    request: OffloadMessage,
    /// The sender: the switch, or the caller itself.
    from: ProcessAddress,
    key: AuthenticationKey,
    changes_memory: bool,
}

impl<'m> OffloadNode<'m> {
    /// Creates a node without work.
    pub fn new(
        memory: &'m LocalMemory<'m>,
        keys: TenantKeys,
        settings: NodeSettings,
    ) -> OffloadNode<'m> {
        OffloadNode {
            memory,
            keys,
            settings,
            interleaved: InterleavedTraversals::new(memory, settings.slots.max(1)),
            waiting: VecDeque::new(),
            programs: ProgramCache::new(settings.engine, settings.translation_budget),
            replies: SentReplies::default(),
            partial: PartialRequests::default(),
            counters: NodeCounters::default(),
            turn: None,
        }
    }

    /// Makes the node hold `turn` while programs access its memory.
    pub fn in_turn(self, turn: &'m FairMutex<()>) -> OffloadNode<'m> {
        let turn = Some(turn);
        OffloadNode { turn, ..self }
    }

    /// Replaces the memory of programs from the next turn on, including those in progress: the same
    /// words with other ranges or permissions. A traversal whose node is no longer in a range of
    /// its tenant stops there, with the status that it would have had initially.
    pub fn change_memory(&mut self, memory: &'m LocalMemory<'m>) {
        self.memory = memory;
        self.interleaved.change_memory(memory);
    }

    /// Returns true if there are traversals to run.
    pub fn has_work(&self) -> bool {
        self.interleaved.active() + self.waiting.len() > 0
    }

    /// Returns true if all traversals of the node can be in flight, and another one.
    pub fn has_room(&self) -> bool {
        self.interleaved.active() + self.waiting.len() < self.settings.slots.max(1)
    }

    /// Returns a waiting traversal that another node on the same memory may run in its place, if
    /// this one has as many in flight as it can. Only those that read are given away: they need no
    /// memory of replies.
    pub fn spare(&mut self) -> Option<SpareTraversal> {
        if self.interleaved.has_room() {
            return None;
        }
        let only_reads = |(_, work): &(ProgramEngine, NodeRequest)| !work.changes_memory;
        let at = self.waiting.iter().position(only_reads)?;
        let (engine, work) = self.waiting.remove(at)?;
        Some(SpareTraversal { engine, work })
    }

    /// Takes over a traversal of another node on the same memory, with the same settings.
    pub fn adopt(&mut self, spare: SpareTraversal) {
        self.waiting.push_back((spare.engine, spare.work));
    }

    /// Returns true if other threads create the engines of its programs.
    pub fn translates_apart(&self) -> bool {
        self.settings.translation_budget.is_some()
    }

    /// Returns the next program whose engine another thread must create, if there is one within
    /// its tenant's budget.
    pub fn next_translation(&mut self, now: Duration) -> Option<ProgramTranslation> {
        self.programs.next_translation(now)
    }

    /// Uses a translated program from its next request on. `time` was spent on it.
    pub fn take_translated(&mut self, now: Duration, done: TranslatedProgram, time: Duration) {
        self.programs.take_translated(now, done, time);
    }

    /// Returns the counters.
    pub fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Receives a datagram. Appends the datagrams to send to `out`.
    pub fn receive(
        &mut self,
        now: Duration,
        from: ProcessAddress,
        datagram: &[u8],
        out: &mut Vec<OutgoingDatagram>,
    ) {
        self.counters.received += 1;
        let mut key = None;
        let decoded = match MessageFragment::is_one(datagram) {
            true => self.join(now, from, datagram, &mut key, out),
            false => {
                let decoded = OffloadMessage::decode(datagram, |tenant| {
                    key = self.keys.get(tenant);
                    key
                });
                decoded.map(Some)
            }
        };
        let (request, key) = match (decoded, key) {
            (Ok(Some(request)), Some(key)) => (request, key),
            (Ok(None), _) => return,
            (Err(MessageError::Tag { .. }), _) => return self.counters.foreign += 1,
            _ => return self.counters.malformed += 1,
        };
        if request.kind != OffloadMessageKind::Request {
            return self.counters.unexpected += 1;
        }
        if let Err((request, status)) = self.admit(now, from, request, key, out) {
            self.counters.count(status);
            let state = (request.address, request.scratchpad.clone());
            let answer = self.message(&request, OffloadMessageKind::Response, status, state);
            let datagram = answer.encode(&key);
            out.push(OutgoingDatagram { to: from, datagram });
        }
    }

    /// Adds a part of a request. Returns the request if it is complete. `key` becomes the key of
    /// its tenant. If the work is done, the message that was sent after it is sent again.
    fn join(
        &mut self,
        now: Duration,
        from: ProcessAddress,
        datagram: &[u8],
        key: &mut Option<AuthenticationKey>,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Result<Option<OffloadMessage>, MessageError> {
        let part = MessageFragment::decode(datagram, |tenant| {
            *key = self.keys.get(tenant);
            *key
        })?;
        if part.kind != OffloadMessageKind::Request {
            self.counters.unexpected += 1;
            return Ok(None);
        }
        self.counters.parts += 1;
        // The repeat may have lost parts. Its first one is enough for the message, and the others
        // take no room.
        let is_first = part.position == 0;
        match self.replies.find_part(now, &part) {
            ReplyProgress::New => {}
            ReplyProgress::Done(datagram) if is_first => {
                self.counters.repeated += 1;
                let datagram = datagram.to_vec();
                out.push(OutgoingDatagram { to: from, datagram });
                return Ok(None);
            }
            ReplyProgress::DoneInParts(parts) if is_first => {
                self.counters.repeated += 1;
                out.extend(parts.iter().map(|part| OutgoingDatagram {
                    to: from,
                    datagram: part.clone(),
                }));
                return Ok(None);
            }
            ReplyProgress::Done(_)
            | ReplyProgress::DoneInParts(_)
            | ReplyProgress::UnderWay
            | ReplyProgress::Outdated => return Ok(None),
        }
        let Some(bytes) = self.partial.add(&part) else {
            return Ok(None);
        };
        let request = OffloadMessage::decode_joined(&bytes)?;
        // The parts had the tenant's tags, but a caller may have put another request into them.
        let names = (request.caller, request.tenant, request.counter);
        let is_named = names == (part.caller, part.tenant, part.counter);
        if !is_named || (request.visit, request.address) != (part.visit, part.address) {
            self.counters.malformed += 1;
            return Ok(None);
        }
        // All parts took the same way, unless the switch's map has changed meanwhile.
        let hops = part.hops;
        Ok(Some(OffloadMessage { hops, ..request }))
    }

    /// Queues a request, repeats the message that was sent after it, or refuses it.
    #[expect(
        clippy::result_large_err,
        reason = "it is the request that was passed in"
    )]
    fn admit(
        &mut self,
        now: Duration,
        from: ProcessAddress,
        request: OffloadMessage,
        key: AuthenticationKey,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Result<(), (OffloadMessage, TraversalStatus)> {
        // A repeat of finished work gets the same message as before, even if memory, epoch or map
        // have changed since.
        match self.replies.find(now, &request) {
            ReplyProgress::New => {}
            ReplyProgress::UnderWay => {
                self.counters.under_way += 1;
                return Ok(());
            }
            ReplyProgress::Done(datagram) => {
                self.counters.repeated += 1;
                let datagram = datagram.to_vec();
                out.push(OutgoingDatagram { to: from, datagram });
                return Ok(());
            }
            ReplyProgress::DoneInParts(parts) => {
                self.counters.repeated += 1;
                out.extend(parts.iter().map(|part| OutgoingDatagram {
                    to: from,
                    datagram: part.clone(),
                }));
                return Ok(());
            }
            ReplyProgress::Outdated => return Err((request, TraversalStatus::Outdated)),
        }
        // The cheap checks are first. Programs are last, because a new one is verified and
        // translated.
        if request.map_epoch != 0 && request.map_epoch < self.settings.epoch {
            return Err((request, TraversalStatus::MemoryLost));
        }
        if request.hops > self.settings.hops_max {
            return Err((request, TraversalStatus::HopLimit));
        }
        if self.memory.ranges().find(request.address).is_none() {
            return Err((request, TraversalStatus::StaleMap));
        }
        if self.waiting.len() >= self.settings.waiting_max {
            return Err((request, TraversalStatus::Busy));
        }
        if request.object.is_some_and(|object| object.is_next) {
            let sent = match request.carried.is_empty() {
                true => self.send_object(from, &request, &key, out),
                false => self.store_object(now, from, &request, &key, out),
            };
            return sent.map_err(|status| (request, status));
        }
        let (tenant, hash) = (request.tenant, request.program);
        let engine = match self.programs.find(tenant, hash, &request.body) {
            Ok(engine) => engine.clone(),
            Err(status) => return Err((request, status)),
        };
        let changes_memory = engine.program().changes_memory() || !request.carried.is_empty();
        // Work that only reads may be repeated, so it takes no room among the replies.
        if changes_memory && !self.replies.begin(now, &request) {
            return Err((request, TraversalStatus::Busy));
        }
        self.counters.works += 1;
        let work = NodeRequest {
            request,
            from,
            key,
            changes_memory,
        };
        self.waiting.push_back((engine, work));
        Ok(())
    }

    /// Makes [iterations](NodeSettings::turn_iterations) of the traversals in flight in turn, until
    /// one ends. Appends the datagrams to send to `out`.
    pub fn turn(&mut self, out: &mut Vec<OutgoingDatagram>) {
        while self.interleaved.has_room()
            && let Some((engine, mut work)) = self.waiting.pop_front()
        {
            // The slot has its own copy, and the message at the end gets that.
            let scratchpad = std::mem::take(&mut work.request.scratchpad);
            let job = TraversalJob {
                engine: &engine,
                tenant: work.request.tenant,
                address: work.request.address,
                scratchpad: &scratchpad,
                iterations: work.request.left.min(self.settings.iterations_max),
                tag: work,
            };
            // The loop has found room.
            let admitted = self.interleaved.admit(job);
            debug_assert!(admitted.is_ok());
        }
        let mut ended = Vec::new();
        let memory = self.memory;
        let mut left = self.settings.turn_iterations.max(1);
        // All iterations of the turn share the cost of the lock.
        let turn = self.turn.map(FairMutex::lock);
        while left > 0 && ended.is_empty() && self.interleaved.active() > 0 {
            let made = self.interleaved.turn_alone(left, |end| {
                let TraversalEnd {
                    tag,
                    status,
                    address,
                    scratchpad,
                    iterations,
                } = end;
                let work: NodeRequest = tag;
                // The object is accessed in the turn in which its program has ended.
                let object = match status {
                    TraversalStatus::Done => access_object(memory, &work.request, scratchpad),
                    _ => None,
                };
                ended.push(EndedRequest {
                    work,
                    status,
                    address,
                    scratchpad: scratchpad.to_vec(),
                    iterations,
                    object,
                });
            });
            left = left.saturating_sub(made);
        }
        drop(turn);
        for ended in ended {
            self.end(ended, out);
        }
    }

    /// Sends the result of a traversal that ended here, or forwards one that left.
    fn end(&mut self, ended: EndedRequest, out: &mut Vec<OutgoingDatagram>) {
        let EndedRequest {
            work,
            mut status,
            mut address,
            scratchpad,
            iterations,
            object,
        } = ended;
        let NodeRequest {
            mut request,
            from,
            key,
            changes_memory,
        } = work;
        debug_assert!(iterations <= request.left);
        self.counters.iterations += iterations;
        let visit = request.visit;
        request.made = request.made.saturating_add(iterations);
        request.left = request.left.saturating_sub(iterations);
        let mut body = Vec::new();
        match object {
            None => {}
            Some((_, Ok(object))) => body = object,
            // The rest of the work is the object. If it is at another node, the request goes there.
            Some((at, Err(error))) => {
                (status, address) = (error.into(), at);
                let next = |object| RequestObject {
                    is_next: true,
                    ..object
                };
                request.object = request.object.map(next);
            }
        }
        // The status has a second cause: a region of the list may be absent. Then the node itself
        // is here.
        let leaves = status == TraversalStatus::NoSuchAddress
            && self.memory.ranges().find(address).is_none();
        let goes_on = leaves || status == TraversalStatus::IterationLimit && request.left > 0;
        // A traversal that continues is a new piece of work, here or at another node.
        request.visit = visit.saturating_add(goes_on.into());
        let (kind, status) = match (leaves, request.returns_to_caller) {
            (true, false) => (OffloadMessageKind::Request, TraversalStatus::Done),
            (true, true) => (OffloadMessageKind::Response, TraversalStatus::Elsewhere),
            (false, _) => (OffloadMessageKind::Response, status),
        };
        match kind {
            OffloadMessageKind::Request => self.counters.passed_on += 1,
            OffloadMessageKind::Response => self.counters.count(status),
        }
        let carried = std::mem::take(&mut request.carried);
        let mut message = self.message(&request, kind, status, (address, scratchpad));
        if kind == OffloadMessageKind::Request {
            // Nothing has stored it so far.
            message.carried = carried;
        }
        if !body.is_empty() || !message.carried.is_empty() {
            let parts = match body.is_empty() {
                true => message.encode_in_parts(&key, self.settings.datagram_bytes),
                false => self.in_parts(message, body, &key),
            };
            if changes_memory {
                self.replies.end_in_parts(&request, visit, &parts);
            }
            let parts = parts.into_iter();
            out.extend(parts.map(|datagram| OutgoingDatagram { to: from, datagram }));
            return;
        }
        let datagram = message.encode(&key);
        if changes_memory {
            self.replies.end(&request, visit, &datagram);
        }
        out.push(OutgoingDatagram { to: from, datagram });
    }

    /// Sends the object that the scratchpad of an ended program names. The node does not keep the
    /// reply: a repeated request reads the object again.
    fn send_object(
        &mut self,
        from: ProcessAddress,
        request: &OffloadMessage,
        key: &AuthenticationKey,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Result<(), TraversalStatus> {
        let place = request
            .object
            .and_then(|object| object.of(&request.scratchpad));
        let body = match place {
            None => Vec::new(),
            Some((at, bytes)) => {
                // Others that access the memory wait, as in a turn.
                let turn = self.turn.map(FairMutex::lock);
                let object = load_object(self.memory, request.tenant, at, bytes);
                drop(turn);
                object?
            }
        };
        self.counters.works += 1;
        self.counters.count(TraversalStatus::Done);
        let state = (request.address, request.scratchpad.clone());
        let kind = OffloadMessageKind::Response;
        let message = self.message(request, kind, TraversalStatus::Done, state);
        let parts = self.in_parts(message, body, key).into_iter();
        out.extend(parts.map(|datagram| OutgoingDatagram { to: from, datagram }));
        Ok(())
    }

    /// Stores the object of a request, whose program has ended at another node. The node keeps the
    /// reply, so that a delayed repeat of the request does not replace what others store later.
    fn store_object(
        &mut self,
        now: Duration,
        from: ProcessAddress,
        request: &OffloadMessage,
        key: &AuthenticationKey,
        out: &mut Vec<OutgoingDatagram>,
    ) -> Result<(), TraversalStatus> {
        let object = request.object;
        let place = object.and_then(|object| object.address_in(&request.scratchpad));
        let memory = self.memory.of(request.tenant);
        if let Some(at) = place {
            // A refused request leaves no reply behind.
            memory.check_store(at, request.carried.len())?;
        }
        if !self.replies.begin(now, request) {
            return Err(TraversalStatus::Busy);
        }
        if let Some(at) = place {
            // Others that access the memory wait, as in a turn.
            let turn = self.turn.map(FairMutex::lock);
            let stored = memory.store(at, &request.carried);
            drop(turn);
            debug_assert!(stored.is_ok(), "the store was checked");
        }
        self.counters.works += 1;
        self.counters.count(TraversalStatus::Done);
        let state = (request.address, request.scratchpad.clone());
        let kind = OffloadMessageKind::Response;
        let message = self.message(request, kind, TraversalStatus::Done, state);
        let datagram = message.encode(key);
        self.replies.end(request, request.visit, &datagram);
        out.push(OutgoingDatagram { to: from, datagram });
        Ok(())
    }

    /// Encodes a response with an object.
    fn in_parts(
        &self,
        message: OffloadMessage,
        object: Vec<u8>,
        key: &AuthenticationKey,
    ) -> Vec<Vec<u8>> {
        let message = OffloadMessage {
            body: object,
            // These differ between repeats of a request. Without them, equal replies to repeats are
            // equal bytes, so that a caller can join their parts.
            settled: 0,
            hops: 0,
            ..message
        };
        message.encode_in_parts(key, self.settings.datagram_bytes)
    }

    /// Returns the message that a request becomes.
    fn message(
        &self,
        request: &OffloadMessage,
        kind: OffloadMessageKind,
        status: TraversalStatus,
        (address, scratchpad): (u64, Vec<u8>),
    ) -> OffloadMessage {
        OffloadMessage {
            kind,
            status,
            map_epoch: match kind {
                OffloadMessageKind::Request => request.map_epoch,
                OffloadMessageKind::Response => self.settings.epoch,
            },
            address,
            scratchpad,
            // The next node may know the program. If it does not, it asks the caller.
            body: Vec::new(),
            carried: Vec::new(),
            ..request.clone()
        }
    }
}

/// Reads the object to which a program has led, or stores the object of its request there. Returns
/// its address, and the bytes that were read; `None` if there is no object.
fn access_object(
    memory: &LocalMemory<'_>,
    request: &OffloadMessage,
    scratchpad: &[u8],
) -> Option<(u64, Result<Vec<u8>, AccessError>)> {
    let (object, tenant) = (request.object?, request.tenant);
    if request.carried.is_empty() {
        let (at, bytes) = object.of(scratchpad)?;
        return Some((at, load_object(memory, tenant, at, bytes)));
    }
    let at = object.address_in(scratchpad)?;
    let stored = memory.of(tenant).store(at, &request.carried);
    Some((at, stored.map(|()| Vec::new())))
}

/// Reads an object on behalf of a tenant.
fn load_object(
    memory: &LocalMemory<'_>,
    tenant: Tenant,
    address: u64,
    bytes: u64,
) -> Result<Vec<u8>, AccessError> {
    // Checked before memory is allocated, because programs choose the number.
    if bytes > OBJECT_BYTES_MAX as u64 {
        return Err(AccessError::Split);
    }
    let mut object = vec![0; bytes as usize];
    memory.of(tenant).load(address, &mut object)?;
    Ok(object)
}
