//! A network in virtual time that loses, repeats and reorders datagrams, and whose nodes die. A
//! seed determines everything.

use crate::rack::{NODE_BYTES, TENANT, start};
use nearfield_offload::net::{
    CallerSettings, NodeSettings, OffloadCallError, OffloadNode, OutgoingDatagram, QueryCaller,
    QueryCompletion, Switch, SwitchRangeTable, TenantKeys,
};
use nearfield_offload::node::RackMemory;
use nearfield_offload::traversal::{ProgramEngine, TraversalOutcome, TraversalQuery};
use nearfield_offload::wire::{AuthenticationKey, ProcessAddress};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub const KEY: AuthenticationKey = AuthenticationKey([42; 32]);
pub const SWITCH: ProcessAddress = ProcessAddress(1000);
/// Time of a turn of all traversals of a node.
const TURN: Duration = Duration::from_micros(1);

pub fn node_place(node: usize) -> ProcessAddress {
    ProcessAddress(2000 + node as u64)
}

fn caller_place(caller: usize) -> ProcessAddress {
    ProcessAddress(1 + caller as u64)
}

pub fn keys() -> TenantKeys {
    let mut keys = TenantKeys::new();
    keys.insert(TENANT, KEY);
    keys
}

/// Probabilities of the faults of datagrams.
#[derive(Clone, Copy)]
pub struct DatagramFaults {
    pub loss: f64,
    pub duplication: f64,
    /// Probability of a delay of up to 20 ms, which puts a datagram after others and after repeats.
    pub delay: f64,
}

impl DatagramFaults {
    pub const NONE: DatagramFaults = DatagramFaults {
        loss: 0.0,
        duplication: 0.0,
        delay: 0.0,
    };
    /// Faults of 1 % each, as in the worst networks.
    pub const USUAL: DatagramFaults = DatagramFaults {
        loss: 0.01,
        duplication: 0.01,
        delay: 0.01,
    };
    pub const HEAVY: DatagramFaults = DatagramFaults {
        loss: 0.15,
        duplication: 0.15,
        delay: 0.15,
    };
}

/// Planted mistakes, which tests must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedMistake {
    Nothing,
    /// Nodes forget the replies that they have sent.
    Forgetful,
    /// A node that comes back claims to have its old memory.
    SameEpoch,
}

enum WorldEvent {
    Deliver {
        from: ProcessAddress,
        sent: OutgoingDatagram,
    },
    Turn(usize),
}

/// The simulated processes and the network between them.
pub struct World<'r, 'w> {
    rack: &'r RackMemory<'w>,
    settings: NodeSettings,
    nodes: Vec<Option<OffloadNode<'r>>>,
    has_turn: Vec<bool>,
    epochs: Vec<u32>,
    pub switch: Switch,
    pub callers: Vec<QueryCaller>,
    replies: HashMap<(usize, u64), Result<TraversalOutcome, OffloadCallError>>,
    /// The objects of the replies to queries for one, by caller and number.
    pub objects: HashMap<(usize, u64), Vec<u8>>,
    now: Duration,
    events: BTreeMap<(Duration, u64), WorldEvent>,
    sequence: u64,
    random: SmallRng,
    faults: DatagramFaults,
    planted: PlantedMistake,
}

/// Creates the map of a rack.
pub fn map(nodes: usize) -> SwitchRangeTable {
    let mut map = SwitchRangeTable::default();
    for node in 0..nodes {
        map.give(start(node), NODE_BYTES, node_place(node)).unwrap();
    }
    map
}

impl<'r, 'w> World<'r, 'w> {
    pub fn new(rack: &'r RackMemory<'w>, seed: u64, faults: DatagramFaults) -> World<'r, 'w> {
        let settings = NodeSettings {
            epoch: 1,
            engine: ProgramEngine::Interpreter,
            ..NodeSettings::default()
        };
        World::of(rack, seed, faults, settings, 1, |_| {})
    }

    pub fn of(
        rack: &'r RackMemory<'w>,
        seed: u64,
        faults: DatagramFaults,
        settings: NodeSettings,
        callers: usize,
        change: impl Fn(&mut CallerSettings),
    ) -> World<'r, 'w> {
        let caller = |caller| {
            let mut settings = CallerSettings::new(caller_place(caller), SWITCH, TENANT, KEY);
            (settings.map_epoch, settings.first) = (1, 1_000_000);
            change(&mut settings);
            QueryCaller::new(settings)
        };
        let count = rack.nodes().len();
        // Nodes die, and datagrams arrive, between any two iterations, or only between longer
        // turns.
        let settings = NodeSettings {
            turn_iterations: if seed.is_multiple_of(4) { 24 } else { 1 },
            ..settings
        };
        World {
            rack,
            settings,
            nodes: rack
                .nodes()
                .iter()
                .map(|memory| Some(OffloadNode::new(memory, keys(), settings)))
                .collect(),
            has_turn: vec![false; count],
            epochs: vec![settings.epoch; count],
            switch: Switch::new(map(count), None),
            callers: (0..callers).map(caller).collect(),
            replies: HashMap::new(),
            objects: HashMap::new(),
            now: Duration::from_secs(1),
            events: BTreeMap::new(),
            sequence: 0,
            random: SmallRng::seed_from_u64(seed),
            faults,
            planted: PlantedMistake::Nothing,
        }
    }

    pub fn plant(&mut self, planted: PlantedMistake) {
        self.planted = planted;
    }

    pub fn random(&mut self) -> &mut SmallRng {
        &mut self.random
    }

    pub fn node(&self, node: usize) -> &OffloadNode<'r> {
        self.nodes[node].as_ref().unwrap()
    }

    /// Kills a node, which loses its memory and all its state.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
        for word in self.rack.nodes()[node].words() {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Restarts a node with empty memory.
    pub fn revive(&mut self, node: usize) {
        if self.planted != PlantedMistake::SameEpoch {
            self.epochs[node] += 1;
        }
        self.nodes[node] = Some(self.fresh(node));
    }

    fn fresh(&self, node: usize) -> OffloadNode<'r> {
        let settings = NodeSettings {
            epoch: self.epochs[node],
            ..self.settings
        };
        OffloadNode::new(&self.rack.nodes()[node], keys(), settings)
    }

    pub fn ask(&mut self, caller: usize, query: &TraversalQuery, iterations: u64) -> u64 {
        let mut out = Vec::new();
        let counter = self.callers[caller].ask(self.now, query, iterations, &mut out);
        self.send(caller_place(caller), out);
        counter
    }

    pub fn ask_with_object(
        &mut self,
        caller: usize,
        query: &TraversalQuery,
        iterations: u64,
        words: [u8; 2],
    ) -> u64 {
        let mut out = Vec::new();
        let asked = &mut self.callers[caller];
        let counter = asked.ask_with_object(self.now, query, iterations, words, &mut out);
        self.send(caller_place(caller), out);
        counter
    }

    /// Sends a query with an object to store at the address in the first word of the scratchpad.
    pub fn ask_storing(
        &mut self,
        caller: usize,
        query: &TraversalQuery,
        iterations: u64,
        object: &[u8],
    ) -> u64 {
        let mut out = Vec::new();
        let asked = &mut self.callers[caller];
        let counter = asked.ask_storing(self.now, query, iterations, (0, object), &mut out);
        self.send(caller_place(caller), out);
        counter.unwrap()
    }

    /// Sends a query and waits for its outcome.
    pub fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, OffloadCallError> {
        let counter = self.ask(0, query, iterations);
        loop {
            if let Some(outcome) = self.replies.remove(&(0, counter)) {
                return outcome;
            }
            assert!(self.step(), "no event is left");
        }
    }

    /// Returns the outcome of a query, if it has arrived.
    pub fn answer(
        &mut self,
        caller: usize,
        counter: u64,
    ) -> Option<Result<TraversalOutcome, OffloadCallError>> {
        self.replies.remove(&(caller, counter))
    }

    /// Sends a datagram that no process here has made.
    pub fn inject(&mut self, from: ProcessAddress, to: ProcessAddress, datagram: Vec<u8>) {
        self.send(from, vec![OutgoingDatagram { to, datagram }]);
    }

    fn send(&mut self, from: ProcessAddress, out: Vec<OutgoingDatagram>) {
        for sent in out {
            let DatagramFaults {
                loss,
                duplication,
                delay,
            } = self.faults;
            if self.random.random_bool(loss) {
                continue;
            }
            let copies = 1 + usize::from(self.random.random_bool(duplication));
            for _ in 0..copies {
                let mut micros = self.random.random_range(3..10);
                if self.random.random_bool(delay) {
                    micros += self.random.random_range(0..20_000);
                }
                let at = self.now + Duration::from_micros(micros);
                let sent = sent.clone();
                self.at(at, WorldEvent::Deliver { from, sent });
            }
        }
    }

    fn at(&mut self, when: Duration, event: WorldEvent) {
        self.sequence += 1;
        self.events.insert((when, self.sequence), event);
    }

    /// Handles the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let due = self.callers.iter().filter_map(QueryCaller::due).min();
        let next = self.events.first_key_value().map(|(&(when, _), _)| when);
        match (next, due) {
            (None, None) => return false,
            (next, Some(due)) if next.is_none_or(|next| due < next) => {
                self.now = self.now.max(due);
                self.tick();
            }
            _ => {
                if let Some(((when, _), event)) = self.events.pop_first() {
                    self.now = self.now.max(when);
                    self.event(event);
                }
            }
        }
        true
    }

    fn tick(&mut self) {
        for caller in 0..self.callers.len() {
            let mut out = Vec::new();
            while let Some(answer) = self.callers[caller].tick(self.now, &mut out) {
                self.answered(caller, answer);
            }
            self.send(caller_place(caller), out);
        }
    }

    fn answered(&mut self, caller: usize, answer: QueryCompletion) {
        let before = self
            .replies
            .insert((caller, answer.counter), answer.outcome);
        self.objects.insert((caller, answer.counter), answer.object);
        assert_eq!(before, None, "two replies to one query");
    }

    fn event(&mut self, event: WorldEvent) {
        let (from, mut sent) = match event {
            WorldEvent::Deliver { from, sent } => (from, sent),
            WorldEvent::Turn(node) => return self.turn(node),
        };
        let mut out = Vec::new();
        if sent.to == SWITCH {
            if let Some(to) = self.switch.receive(from, &mut sent.datagram) {
                out.push(OutgoingDatagram { to, ..sent });
            }
            self.send(SWITCH, out);
        } else if sent.to.0 >= node_place(0).0 {
            let number = (sent.to.0 - node_place(0).0) as usize;
            if self.planted == PlantedMistake::Forgetful
                && self.nodes[number]
                    .as_ref()
                    .is_some_and(|node| !node.has_work())
            {
                self.nodes[number] = Some(self.fresh(number));
            }
            let Some(node) = self.nodes.get_mut(number).and_then(Option::as_mut) else {
                return;
            };
            node.receive(self.now, from, &sent.datagram, &mut out);
            self.send(sent.to, out);
            self.plan_turn(number);
        } else {
            let caller = (sent.to.0 - 1) as usize;
            let Some(receiver) = self.callers.get_mut(caller) else {
                return;
            };
            let answer = receiver.receive(self.now, &sent.datagram, &mut out);
            if let Some(answer) = answer {
                self.answered(caller, answer);
            }
            self.send(sent.to, out);
        }
    }

    fn plan_turn(&mut self, node: usize) {
        let has_work = self.nodes[node].as_ref().is_some_and(OffloadNode::has_work);
        if has_work && !self.has_turn[node] {
            self.has_turn[node] = true;
            self.at(self.now + TURN, WorldEvent::Turn(node));
        }
    }

    fn turn(&mut self, number: usize) {
        self.has_turn[number] = false;
        let mut out = Vec::new();
        if let Some(node) = &mut self.nodes[number] {
            node.turn(&mut out);
        }
        self.send(node_place(number), out);
        self.plan_turn(number);
    }
}
