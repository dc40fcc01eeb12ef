//! The state that the parts of a simulation share: nodes, requests, and future events.

use super::node::SimNode;
use super::request::{SimRequest, SimVerb};
use crate::address::{LINE_BYTES, NodeId, WORD_BYTES};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::network::{NetworkParameters, PortAccess};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::task::Waker;

/// The times at which the parts of a verb are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// All parts at one moment: verbs take effect in the order in which they are posted, which is
    /// also the order of arrival. If a client dies in the middle of a verb, its parts are lines.
    Whole,
    /// Each line at a moment of its own, in any order, as over a network.
    Torn,
    /// Each word of 8 bytes at a moment of its own, in any order, as if processors copy the bytes.
    TornWords,
}

impl Delivery {
    /// Returns the atomic unit in bytes.
    pub fn atomic_bytes(self) -> u64 {
        match self {
            Delivery::Whole | Delivery::Torn => LINE_BYTES,
            Delivery::TornWords => WORD_BYTES,
        }
    }
}

/// Time of a node's processor for a call.
const CALL: VirtualTime = VirtualTime::from_nanoseconds(2000);
/// Largest time between the parts of one torn verb: some round trips, so that whole operations of
/// others fit in between.
const TORN: VirtualTime = VirtualTime::from_nanoseconds(8000);
/// Time without a response after which a node counts as lost.
const PATIENCE: VirtualTime = VirtualTime::from_nanoseconds(100_000);

#[derive(Debug)]
pub enum SimEvent {
    /// A part of a verb is done: the bytes of one line or word.
    Part {
        request: usize,
        step: usize,
        bytes: Range<usize>,
    },
    /// The client receives the completion.
    Answer { request: usize },
    /// A sleeping task continues.
    Wake { timer: usize },
    /// A client dies.
    Death { client: u32 },
    /// A node is lost, or comes back.
    Node {
        node: NodeId,
        up: bool,
        forgets: bool,
    },
}

/// An event in the order of time, and at one moment in the order of planning.
#[derive(Debug)]
struct SimPlannedEvent {
    at: VirtualTime,
    number: u64,
    event: SimEvent,
}

impl PartialEq for SimPlannedEvent {
    fn eq(&self, other: &SimPlannedEvent) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for SimPlannedEvent {}
impl PartialOrd for SimPlannedEvent {
    fn partial_cmp(&self, other: &SimPlannedEvent) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for SimPlannedEvent {
    fn cmp(&self, other: &SimPlannedEvent) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The progress of a client, and its planned death.
#[derive(Debug, Default)]
pub struct SimClient {
    /// The number that identifies it.
    pub number: u32,
    /// Number of verbs that it has posted.
    pub verbs: u64,
    /// Number of the verb at which it dies, which is done in part or not at all.
    pub dies_at_verb: Option<u64>,
    pub dead: bool,
    /// The time at which the last part of the client's posts to each node is done.
    queues: Vec<VirtualTime>,
    /// The time when the client's processor is free.
    processor_free: VirtualTime,
}

impl SimClient {
    fn queue(&mut self, node: NodeId) -> &mut VirtualTime {
        let number = usize::from(node.0);
        if self.queues.len() <= number {
            self.queues.resize(number + 1, VirtualTime::ZERO);
        }
        &mut self.queues[number]
    }
}

/// A task that waits for a time.
#[derive(Debug, Default)]
pub struct SimTimer {
    pub waker: Option<Waker>,
    /// True once the time has come.
    pub rings: bool,
    /// True if the task no longer waits.
    pub abandoned: bool,
}

#[derive(Debug)]
pub struct SimState {
    pub now: VirtualTime,
    pub random: SmallRng,
    pub delivery: Delivery,
    pub network: NetworkParameters,
    pub nodes: Vec<SimNode>,
    pub clients: Vec<SimClient>,
    /// The indices of clients, by their numbers.
    places: HashMap<u32, usize>,
    pub requests: Slab<SimRequest>,
    pub timers: Slab<SimTimer>,
    /// True if a node was lost or will be.
    nodes_fail: bool,
    events: BinaryHeap<Reverse<SimPlannedEvent>>,
    planned: u64,
}

impl SimState {
    pub fn new(seed: u64, network: NetworkParameters, delivery: Delivery) -> SimState {
        SimState {
            now: VirtualTime::ZERO,
            random: SmallRng::seed_from_u64(seed),
            delivery,
            network,
            nodes: Vec::new(),
            clients: Vec::new(),
            places: HashMap::new(),
            requests: Slab::new(),
            timers: Slab::new(),
            nodes_fail: false,
            events: BinaryHeap::new(),
            planned: 0,
        }
    }

    /// Returns the index of the client of a number among the clients.
    pub fn place(&mut self, number: u32) -> usize {
        let clients = &mut self.clients;
        *self.places.entry(number).or_insert_with(|| {
            clients.push(SimClient {
                number,
                ..SimClient::default()
            });
            clients.len() - 1
        })
    }

    /// Returns the client of a number, if there is one.
    pub fn client(&self, number: u32) -> Option<&SimClient> {
        self.clients.get(*self.places.get(&number)?)
    }

    pub fn plan(&mut self, at: VirtualTime, event: SimEvent) {
        // Posts then need requests, because a node may fail between a post and its completion.
        self.nodes_fail |= matches!(event, SimEvent::Node { .. });
        let number = self.planned;
        self.planned += 1;
        self.events
            .push(Reverse(SimPlannedEvent { at, number, event }));
    }

    /// Advances to the next event, if there is one.
    pub fn next_event(&mut self) -> Option<SimEvent> {
        let Reverse(SimPlannedEvent { at, event, .. }) = self.events.pop()?;
        debug_assert!(at >= self.now, "no event is planned for the past");
        self.now = at;
        Some(event)
    }

    pub fn node(&self, node: NodeId) -> Result<&SimNode, FabricError> {
        let found = self.nodes.get(usize::from(node.0));
        found.ok_or(FabricError::NoSuchNode { node })
    }

    pub fn node_mut(&mut self, node: NodeId) -> Result<&mut SimNode, FabricError> {
        let found = self.nodes.get_mut(usize::from(node.0));
        found.ok_or(FabricError::NoSuchNode { node })
    }

    /// Checks that nodes can execute verbs.
    pub fn check(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        verbs.iter().try_for_each(|verb| {
            let node = self.node(verb.node())?;
            verb.check(node.memory.len() as u64)
        })
    }

    /// Executes verbs, which were checked, at this moment.
    pub fn apply(&mut self, verbs: &mut [FabricVerb<'_>]) {
        for verb in verbs {
            if let Some(node) = self.nodes.get_mut(usize::from(verb.node().0)) {
                node.apply(verb);
            }
        }
    }

    /// Plans to wake a task at a time.
    pub fn plan_timer(&mut self, at: VirtualTime) -> usize {
        let timer = self.timers.insert(SimTimer::default());
        self.plan(at, SimEvent::Wake { timer });
        timer
    }

    /// Rings a timer, whose time has come. The waiting task removes it, so that its number is not
    /// reused before.
    pub fn ring(&mut self, timer: usize) {
        let Some(found) = self.timers.get_mut(timer) else {
            return;
        };
        found.rings = true;
        let waker = found.waker.take();
        if found.abandoned {
            self.timers.remove(timer);
        } else if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Marks a timer for which the task no longer waits.
    pub fn abandon_timer(&mut self, timer: usize) {
        let Some(found) = self.timers.get_mut(timer) else {
            return;
        };
        found.abandoned = true;
        if found.rings {
            self.timers.remove(timer);
        }
    }

    /// Makes a client's processor work for a time, after its earlier work. Returns the time of the
    /// end, or `None` if that is now.
    pub fn occupy(&mut self, client: usize, time: VirtualTime) -> Option<VirtualTime> {
        if time == VirtualTime::ZERO {
            return None;
        }
        let client = self.clients.get_mut(client)?;
        client.processor_free = client.processor_free.max(self.now) + time;
        Some(client.processor_free)
    }

    /// Prepares the post of verbs. Returns the time when the client's processor has posted them;
    /// `None` if that takes no time.
    pub fn prepare(&mut self, client: usize, verbs: &[FabricVerb<'_>]) -> Option<VirtualTime> {
        let network = &self.network;
        let moved = verbs
            .iter()
            .map(|verb| network.moved(verb.address().offset(), verb.bytes()));
        let time = network.client.of_post(moved.sum());
        self.occupy(client, time)
    }

    /// Executes checked verbs at their post, and returns the time of their completion; `None` if
    /// they need a request. No client can notice the difference: all verbs travel for the same
    /// time, so they arrive in the order of their posts, and neither client nor node fails in
    /// between.
    pub fn post_at_once(
        &mut self,
        client: usize,
        verbs: &mut [FabricVerb<'_>],
    ) -> Option<VirtualTime> {
        let life = self.clients.get_mut(client)?;
        let fails = self.nodes_fail || life.dead || life.dies_at_verb.is_some();
        if fails || self.delivery != Delivery::Whole {
            return None;
        }
        life.verbs += verbs.len() as u64;
        let travel = self.network.round_trip.half();
        let mut done = self.now;
        for verb in verbs {
            let access = match verb {
                FabricVerb::Read { .. } => PortAccess::Read,
                FabricVerb::Write { .. } => PortAccess::Write,
                FabricVerb::Swap { at, .. } | FabricVerb::Add { at, .. } => {
                    PortAccess::Atomic(at.offset())
                }
            };
            let number = verb.node();
            let node = self.nodes.get_mut(usize::from(number.0))?;
            let moved = self.network.moved(verb.address().offset(), verb.bytes());
            let served = node.port.access(self.now + travel, access, moved);
            // The completions of one client arrive in the order of its requests.
            let queue = life.queue(number);
            *queue = served.max(*queue);
            done = done.max(*queue);
            node.apply(verb);
        }
        Some(done + travel)
    }

    /// Posts a request of a client and returns its number; `None` if the client has died. The steps
    /// were checked.
    pub fn post(
        &mut self,
        client: usize,
        mut steps: Vec<SimVerb>,
        unsignalled: bool,
    ) -> Option<usize> {
        let life = self.clients.get_mut(client)?;
        if life.dead {
            return None;
        }
        debug_assert!(!steps.is_empty());
        let first = life.verbs;
        life.verbs += steps.len() as u64;
        let death = life.dies_at_verb.filter(|&death| death < life.verbs);
        if let Some(death) = death {
            life.dead = true;
            // The client dies before it posts the later steps.
            steps.truncate((death - first) as usize + 1);
        }
        let last = steps.len().saturating_sub(1);
        let request = self.requests.insert(SimRequest {
            client,
            steps,
            error: None,
            answered: false,
            unsignalled,
            waker: None,
        });
        let mut done = self.now;
        for step in 0..=last {
            // The last verb of a client that dies is done in part.
            let partly = death.is_some() && step == last;
            done = done.max(self.plan_step(request, step, partly));
        }
        let travel = self.network.round_trip.half();
        // One completion for all verbs: the client is notified after the last one.
        self.plan(done + travel, SimEvent::Answer { request });
        if death.is_some() {
            let client = self.clients[client].number;
            // The tasks end by an event, because one of them is running.
            self.plan(self.now, SimEvent::Death { client });
        }
        Some(request)
    }

    /// Plans the parts of a step. Returns the time when the last one is done.
    fn plan_step(&mut self, request: usize, step: usize, partly: bool) -> VirtualTime {
        let Some(posted) = self.requests.get(request) else {
            return self.now;
        };
        let client = posted.client;
        let Some(found) = posted.steps.get(step) else {
            return self.now;
        };
        let node = found.address().node();
        let (access, bytes, call) = match found {
            SimVerb::Read { bytes, .. } => (PortAccess::Read, bytes.len() as u64, false),
            SimVerb::Write { bytes, .. } => (PortAccess::Write, bytes.len() as u64, false),
            SimVerb::Swap { at, .. } | SimVerb::Add { at, .. } => {
                (PortAccess::Atomic(at.offset()), 8, false)
            }
            SimVerb::Allocate { .. }
            | SimVerb::AllocateAt { .. }
            | SimVerb::Find { .. }
            | SimVerb::Free { .. } => (PortAccess::Write, 32, true),
        };
        let mut parts = found.parts(self.delivery.atomic_bytes());
        let arrival = self.now + self.network.round_trip.half();
        let moved = match call {
            true => bytes,
            false => self.network.moved(found.address().offset(), bytes),
        };
        let Some(target) = self.node_mut(node).ok().filter(|target| target.up) else {
            if let Some(posted) = self.requests.get_mut(request) {
                posted.error.get_or_insert(FabricError::NodeLost { node });
            }
            // The client cannot distinguish a lost node from a slow one before its patience ends.
            return self.now + PATIENCE;
        };
        let mut start = target.port.access(arrival, access, moved);
        if call {
            start += CALL;
        }
        // Each verb of a client is complete before its next one on the same node begins.
        start = start.max(*self.clients[client].queue(node));
        let mut last = start;
        let torn = self.delivery != Delivery::Whole && !call;
        if !torn && !partly {
            let all = 0..parts.last().map_or(0, |part| part.end);
            parts = vec![all];
        }
        if torn {
            parts.shuffle(&mut self.random);
        }
        if partly {
            let some = self.random.random_range(0..=parts.len());
            parts.truncate(some);
        }
        let apart = if torn && self.random.random_bool(0.5) {
            TORN.as_picoseconds()
        } else {
            0
        };
        for bytes in parts {
            let later = VirtualTime::from_picoseconds(self.random.random_range(0..=apart));
            let at = start + later;
            last = last.max(at);
            self.plan(
                at,
                SimEvent::Part {
                    request,
                    step,
                    bytes,
                },
            );
        }
        *self.clients[client].queue(node) = last;
        last
    }

    /// Executes a part of a step.
    pub fn do_part(&mut self, request: usize, step: usize, part: Range<usize>) {
        let Some(posted) = self.requests.get_mut(request) else {
            return;
        };
        debug_assert!(!posted.answered, "a completion comes after all parts");
        let Some(step) = posted.steps.get_mut(step) else {
            return;
        };
        let node = step.address().node();
        let target = self.nodes.get_mut(usize::from(node.0));
        let Some(target) = target.filter(|target| target.up) else {
            posted.error.get_or_insert(FabricError::NodeLost { node });
            return;
        };
        match step {
            SimVerb::Read { from, bytes } => {
                let there = target.bytes(from.offset() + part.start as u64, part.len());
                bytes[part].copy_from_slice(there);
            }
            SimVerb::Write { to, bytes } => {
                let there = target.bytes(to.offset() + part.start as u64, part.len());
                there.copy_from_slice(&bytes[part]);
            }
            SimVerb::Swap { at, swap, found } => *found = target.swap(at.offset(), swap),
            SimVerb::Add { at, summand, found } => *found = target.add(at.offset(), *summand),
            SimVerb::Allocate { node, bytes, at } => match target.allocate(*node, *bytes) {
                Ok(address) => *at = address,
                Err(error) => {
                    posted.error.get_or_insert(error);
                }
            },
            SimVerb::AllocateAt { at, bytes } => {
                if let Err(error) = target.allocate_at(*at, *bytes) {
                    posted.error.get_or_insert(error);
                }
            }
            SimVerb::Find {
                from,
                is_allocated,
                found,
            } => *found = target.find_memory(*from, *is_allocated),
            SimVerb::Free { at, bytes } => {
                if let Err(error) = target.free(*at, *bytes) {
                    posted.error.get_or_insert(error);
                }
            }
        }
    }

    /// Completes a request for the client, and drops it if no task waits for it any more.
    pub fn answer(&mut self, request: usize) {
        let Some(posted) = self.requests.get_mut(request) else {
            return;
        };
        posted.answered = true;
        if let Some(waker) = posted.waker.take() {
            waker.wake();
        }
        // Otherwise the waiting task removes it, so that its number is not reused before.
        if posted.unsignalled {
            self.requests.remove(request);
        }
    }

    /// Marks a request that no task waits for; it still takes effect.
    pub fn abandon(&mut self, request: usize) {
        let Some(posted) = self.requests.get_mut(request) else {
            return;
        };
        if posted.answered {
            self.requests.remove(request);
        } else {
            posted.unsignalled = true;
            posted.waker = None;
        }
    }

    /// Makes a node lost or brings it back, with or without its old content.
    pub fn change_node(&mut self, node: NodeId, up: bool, forgets: bool) {
        let network = self.network;
        if let Ok(node) = self.node_mut(node) {
            if forgets {
                // A new process: its allocations are gone, too.
                *node = SimNode::new(node.memory.len(), network);
            }
            node.up = up;
        }
    }
}
