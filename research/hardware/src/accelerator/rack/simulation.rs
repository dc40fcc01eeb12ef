//! The simulation of requests, from event to event.

use super::super::{
    Departure, DepartureReason, HardwareTraversal, Iteration, MemorySpan, RackNode,
    TranslationRefusal,
};
use super::{RackForwarder, RackParameters};
use crate::VirtualTime;
use std::collections::BTreeMap;
use std::ops::Range;

/// The memory nodes behind a switch, and one machine with callers.
pub struct RackSimulation<T, N> {
    parameters: RackParameters,
    rerouting: RackForwarder,
    nodes: Vec<N>,
    /// The ranges of the switch: the beginning and end of each, and its node.
    routes: BTreeMap<u64, (u64, usize)>,
    /// The future events with their times; simultaneous events are in the order in which they were
    /// caused.
    events: BTreeMap<(VirtualTime, u64), RackEvent<T>>,
    caused: u64,
    /// The times at which each direction of the callers' wire and of each node's wire is free.
    caller_out: VirtualTime,
    caller_in: VirtualTime,
    node_in: Vec<VirtualTime>,
    node_out: Vec<VirtualTime>,
    departures: Vec<Departure<RackRequest<T>>>,
    summary: Summary,
}

/// A request in flight. Nodes execute its traversal.
#[derive(Clone, Debug)]
pub struct RackRequest<T> {
    traversal: T,
    /// The time at which its caller began.
    begun: VirtualTime,
    /// Number of times that it was sent to a node.
    visits: u32,
    end: DepartureReason,
}

impl<T: HardwareTraversal> HardwareTraversal for RackRequest<T> {
    fn fetch(&self) -> MemorySpan {
        self.traversal.fetch()
    }

    fn load(&mut self) {
        self.traversal.load();
    }

    fn execute(&mut self) -> Iteration {
        self.traversal.execute()
    }

    fn store(&mut self) {
        self.traversal.store();
    }

    fn request_bytes(&self) -> u32 {
        self.traversal.request_bytes()
    }

    fn reply_bytes(&self) -> u32 {
        self.traversal.reply_bytes()
    }
}

impl<T: HardwareTraversal> RackRequest<T> {
    /// Returns the bytes of its packet, as a request or a reply.
    fn bytes(&self) -> u32 {
        match self.end {
            DepartureReason::Returned => self.reply_bytes(),
            // The caller gets the state, with which it may ask again.
            DepartureReason::Limit | DepartureReason::Refused(_) => self.request_bytes(),
        }
    }

    fn address(&self) -> u64 {
        self.traversal.fetch().address
    }
}

enum RackEvent<T> {
    /// The caller's software has a request for its interface.
    Sends(RackRequest<T>),
    /// A request is at the switch.
    Switched(RackRequest<T>),
    /// A request is at a node.
    Delivered(usize, RackRequest<T>),
    /// A reply is at the callers' side of the switch.
    Answers(RackRequest<T>),
    /// The caller's software has the reply.
    Received(RackRequest<T>),
}

/// The reply that a caller gets.
#[derive(Clone, Debug)]
pub struct RackReply<T> {
    /// The traversal.
    pub traversal: T,
    /// The end of the traversal. A miss means that no node has the address.
    pub end: DepartureReason,
    /// The time at which its caller began.
    pub begun: VirtualTime,
    /// The time at which its caller has the reply.
    pub done: VirtualTime,
    /// Number of times that it moved from one memory node to another.
    pub crossings: u32,
}

/// The sums over all replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of replies.
    pub answers: u64,
    /// The time of the last reply.
    pub end: VirtualTime,
    /// Number of times that requests moved from one memory node to another.
    pub crossings: u64,
    /// Bytes that the callers' wire has carried, in each direction.
    pub caller_bytes: [u64; 2],
}

impl<T: HardwareTraversal, N: RackNode<Work = RackRequest<T>>> RackSimulation<T, N> {
    /// Creates a rack of nodes, with the addresses that the switch sends to each.
    pub fn new(
        parameters: RackParameters,
        rerouting: RackForwarder,
        nodes: Vec<N>,
        ranges: &[Vec<Range<u64>>],
    ) -> RackSimulation<T, N> {
        let mut routes = BTreeMap::new();
        for (node, ranges) in ranges.iter().enumerate().take(nodes.len()) {
            // Ranges of nodes that do not exist are left out, so the switch has no route to them.
            routes.extend(ranges.iter().map(|range| (range.start, (range.end, node))));
        }
        let wires = vec![VirtualTime::ZERO; nodes.len()];
        RackSimulation {
            parameters,
            rerouting,
            nodes,
            routes,
            events: BTreeMap::new(),
            caused: 0,
            caller_out: VirtualTime::ZERO,
            caller_in: VirtualTime::ZERO,
            node_in: wires.clone(),
            node_out: wires,
            departures: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// Returns the nodes in their state after the run.
    pub fn into_nodes(self) -> Vec<N> {
        self.nodes
    }

    /// Returns the sums so far.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Executes requests, of which up to `under_way` are in flight at the same time, and passes
    /// each reply to `seen`. `next` returns the next request, or `None` when there are no more.
    pub fn run(
        &mut self,
        under_way: usize,
        mut next: impl FnMut() -> Option<T>,
        mut seen: impl FnMut(RackReply<T>),
    ) {
        // A second run continues after the first, because wires and nodes keep their times.
        let start = self.summary.end;
        for _ in 0..under_way {
            if let Some(traversal) = next() {
                self.call(start, traversal);
            }
        }
        while let Some(now) = self.next_event() {
            if let Some(answer) = self.step(now) {
                // A caller sends its next request when it has the reply, so the number in flight
                // stays.
                let done = answer.done;
                seen(answer);
                if let Some(traversal) = next() {
                    self.call(done, traversal);
                }
            }
        }
    }

    fn call(&mut self, now: VirtualTime, traversal: T) {
        let request = RackRequest {
            traversal,
            begun: now,
            visits: 0,
            end: DepartureReason::Limit,
        };
        self.cause(now + self.parameters.caller, RackEvent::Sends(request));
    }

    fn cause(&mut self, at: VirtualTime, event: RackEvent<T>) {
        self.caused += 1;
        self.events.insert((at, self.caused), event);
    }

    fn next_event(&self) -> Option<VirtualTime> {
        let own = self.events.keys().next().map(|&(at, _)| at);
        let nodes = self.nodes.iter().filter_map(RackNode::next_event);
        nodes.chain(own).min()
    }

    fn step(&mut self, now: VirtualTime) -> Option<RackReply<T>> {
        let own = self
            .events
            .first_entry()
            .filter(|first| first.key().0 == now);
        // The rack's own events come first: a packet that arrives at a node takes part in what the
        // node does at this moment.
        if let Some(event) = own {
            let event = event.remove();
            return self.happen(now, event);
        }
        let is_next = |node: &N| node.next_event() == Some(now);
        let node = self.nodes.iter().position(is_next)?;
        // The list is taken out, because departures cause events of the same rack.
        let mut departures = std::mem::take(&mut self.departures);
        self.nodes[node].step(&mut departures);
        for departure in departures.drain(..) {
            self.depart(node, departure);
        }
        self.departures = departures;
        None
    }

    /// Occupies a wire for a packet, and returns the time at which its last byte has passed.
    fn carry(
        parameters: &RackParameters,
        free: &mut VirtualTime,
        now: VirtualTime,
        bytes: u32,
    ) -> VirtualTime {
        *free = now.max(*free) + parameters.carried(bytes);
        *free
    }

    fn happen(&mut self, now: VirtualTime, event: RackEvent<T>) -> Option<RackReply<T>> {
        let parameters = self.parameters;
        match event {
            RackEvent::Sends(request) => {
                let bytes = request.request_bytes();
                self.summary.caller_bytes[0] += u64::from(parameters.wire_bytes(bytes));
                let sent = Self::carry(&parameters, &mut self.caller_out, now, bytes);
                // The packet leaves the interface after its last byte has passed the wire.
                let at = sent + parameters.interface + parameters.switch;
                self.cause(at, RackEvent::Switched(request));
            }
            RackEvent::Switched(mut request) => match self.route(request.address()) {
                Some(node) if request.visits < parameters.visits_max => {
                    // The limit ends requests that nodes send back and forth because the switch and
                    // they disagree.
                    request.visits += 1;
                    let bytes = request.request_bytes();
                    let at = Self::carry(&parameters, &mut self.node_in[node], now, bytes);
                    self.cause(at, RackEvent::Delivered(node, request));
                }
                _ => {
                    request.end = DepartureReason::Refused(TranslationRefusal::Miss);
                    self.cause(now, RackEvent::Answers(request));
                }
            },
            RackEvent::Delivered(node, request) => self.nodes[node].submit(now, request),
            RackEvent::Answers(request) => {
                let bytes = request.bytes();
                self.summary.caller_bytes[1] += u64::from(parameters.wire_bytes(bytes));
                let sent = Self::carry(&parameters, &mut self.caller_in, now, bytes);
                let at = sent + parameters.interface + parameters.caller;
                self.cause(at, RackEvent::Received(request));
            }
            RackEvent::Received(request) => return self.received(now, request),
        }
        None
    }

    /// Sends a request that leaves a node to the switch and another node, or to its caller.
    fn depart(&mut self, node: usize, departure: Departure<RackRequest<T>>) {
        let Departure { at, traversal, end } = departure;
        let mut request = traversal;
        request.end = end;
        let parameters = self.parameters;
        let bytes = request.bytes();
        // All packets of a node share its outward wire, whatever their next station.
        let sent = Self::carry(&parameters, &mut self.node_out[node], at, bytes);
        let at = sent + parameters.switch;
        match (end, self.rerouting) {
            (DepartureReason::Refused(TranslationRefusal::Miss), RackForwarder::Switch) => {
                self.cause(at, RackEvent::Switched(request));
            }
            _ => self.cause(at, RackEvent::Answers(request)),
        }
    }

    fn received(&mut self, now: VirtualTime, request: RackRequest<T>) -> Option<RackReply<T>> {
        let is_elsewhere = request.end == DepartureReason::Refused(TranslationRefusal::Miss)
            && self.rerouting == RackForwarder::Caller
            && request.visits < self.parameters.visits_max
            && self.route(request.address()).is_some();
        // Without forwarding at the switch, the caller itself sends the request to the next node.
        if is_elsewhere {
            self.cause(now + self.parameters.caller, RackEvent::Sends(request));
            return None;
        }
        let crossings = request.visits.saturating_sub(1);
        self.summary.answers += 1;
        self.summary.crossings += u64::from(crossings);
        self.summary.end = now;
        Some(RackReply {
            traversal: request.traversal,
            end: request.end,
            begun: request.begun,
            done: now,
            crossings,
        })
    }

    fn route(&self, address: u64) -> Option<usize> {
        // Ranges do not overlap, so only the last that begins up to the address can contain it.
        let (_, &(end, node)) = self.routes.range(..=address).next_back()?;
        (address < end).then_some(node)
    }
}
