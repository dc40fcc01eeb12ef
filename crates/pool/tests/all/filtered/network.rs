//! Callers, a switch and memory nodes in virtual time, with loss, duplicates and late datagrams.

use super::rack::TENANT;
use nearfield_offload::net::{
    CallerSettings, NodeSettings, OffloadCallError, OffloadNode, OutgoingDatagram, QueryCaller,
    Switch, SwitchRangeTable, TenantKeys,
};
use nearfield_offload::node::RackMemory;
use nearfield_offload::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use nearfield_offload::wire::{AuthenticationKey, ProcessAddress};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

const KEY: AuthenticationKey = AuthenticationKey([9; 32]);
const CALLER: ProcessAddress = ProcessAddress(1);
const SWITCH: ProcessAddress = ProcessAddress(2);
const FIRST_NODE: u64 = 100;

pub struct PoolTestNetwork<'n> {
    nodes: Vec<OffloadNode<'n>>,
    switch: Switch,
    caller: QueryCaller,
    /// Share of datagrams that are lost, and of those that arrive twice, and late.
    faults: f64,
    random: SmallRng,
    now: Duration,
    sent: u64,
    /// Datagrams in flight, by the time at which they arrive.
    under_way: BTreeMap<(Duration, u64), (ProcessAddress, OutgoingDatagram)>,
}

impl<'n> PoolTestNetwork<'n> {
    pub fn new(rack: &'n RackMemory<'n>, faults: f64, seed: u64) -> PoolTestNetwork<'n> {
        let mut keys = TenantKeys::new();
        keys.insert(TENANT, KEY);
        let mut map = SwitchRangeTable::default();
        for (node, memory) in (FIRST_NODE..).zip(rack.nodes()) {
            for range in memory.ranges().iter() {
                map.give(range.start, range.bytes, ProcessAddress(node))
                    .expect("no overlap");
            }
        }
        // With turns of one iteration, writers' steps fall between any two iterations.
        let settings = NodeSettings {
            turn_iterations: 1,
            ..NodeSettings::default()
        };
        let node = |memory| OffloadNode::new(memory, keys.clone(), settings);
        PoolTestNetwork {
            nodes: rack.nodes().iter().map(node).collect(),
            switch: Switch::new(map, None),
            caller: QueryCaller::new(CallerSettings::new(CALLER, SWITCH, TENANT, KEY)),
            faults,
            random: SmallRng::seed_from_u64(seed),
            now: Duration::ZERO,
            sent: 0,
            under_way: BTreeMap::new(),
        }
    }

    pub fn repeated(&self) -> u64 {
        self.caller.counters().repeated
    }

    fn send(&mut self, from: ProcessAddress, out: Vec<OutgoingDatagram>) {
        for sent in out {
            if self.random.random_bool(self.faults) {
                continue;
            }
            for _ in 0..1 + u8::from(self.random.random_bool(self.faults)) {
                let is_late = self.random.random_bool(self.faults);
                let most = if is_late { 20_000 } else { 10 };
                let micros = self.random.random_range(3..=most);
                self.sent += 1;
                let at = (self.now + Duration::from_micros(micros), self.sent);
                self.under_way.insert(at, (from, sent.clone()));
            }
        }
    }

    /// Runs one iteration of all traversals in flight.
    fn turn(&mut self) -> bool {
        let mut has_turned = false;
        for node in 0..self.nodes.len() {
            let mut out = Vec::new();
            if self.nodes[node].has_work() {
                self.nodes[node].turn(&mut out);
                has_turned = true;
            }
            self.send(ProcessAddress(FIRST_NODE + node as u64), out);
        }
        has_turned
    }
}

impl QueryRunner for PoolTestNetwork<'_> {
    type Error = OffloadCallError;

    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, OffloadCallError> {
        let mut out = Vec::new();
        let counter = self.caller.ask(self.now, query, iterations, &mut out);
        self.send(CALLER, out);
        loop {
            if self.turn() {
                continue;
            }
            let mut out = Vec::new();
            let due = self.caller.due().unwrap_or(Duration::MAX);
            let is_next = |at: &(Duration, u64)| at.0 <= due;
            let answer = if self.under_way.keys().next().is_some_and(is_next)
                && let Some(((at, _), (from, mut sent))) = self.under_way.pop_first()
            {
                self.now = self.now.max(at);
                let at = sent.to;
                let answer = match at {
                    CALLER => self.caller.receive(self.now, &sent.datagram, &mut out),
                    SWITCH => {
                        if let Some(to) = self.switch.receive(from, &mut sent.datagram) {
                            out.push(OutgoingDatagram { to, ..sent });
                        }
                        None
                    }
                    ProcessAddress(node) => {
                        let node = &mut self.nodes[(node - FIRST_NODE) as usize];
                        node.receive(self.now, from, &sent.datagram, &mut out);
                        None
                    }
                };
                self.send(at, out);
                answer
            } else {
                self.now = self.now.max(due);
                let answer = self.caller.tick(self.now, &mut out);
                self.send(CALLER, out);
                answer
            };
            if let Some(answer) = answer
                && answer.counter == counter
            {
                return answer.outcome;
            }
        }
    }
}
