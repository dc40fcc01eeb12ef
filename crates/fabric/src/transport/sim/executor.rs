//! The executor, which runs tasks and advances time.

use super::endpoint::SimEndpoint;
use super::node::SimNode;
use super::state::{Delivery, SimEvent, SimState};
use crate::address::{GlobalAddress, NodeId};
use nearfield_hardware::VirtualTime;
use nearfield_hardware::network::{NetworkParameters, NetworkPreset, PortTraffic};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The simulation of nodes, clients, and their time. See the [module](super).
#[derive(Debug)]
pub struct FabricSimulation {
    pub(super) state: Rc<RefCell<SimState>>,
    tasks: Vec<SimTask>,
    ready: Arc<Ready>,
}

struct SimTask {
    client: u32,
    waker: Waker,
    /// The future; `None` once it has ended.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl std::fmt::Debug for SimTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = self.future.is_none();
        write!(
            formatter,
            "Task {{ client: {}, ended: {ended} }}",
            self.client
        )
    }
}

/// The numbers of tasks that can run.
#[derive(Debug, Default)]
struct Ready(Mutex<VecDeque<usize>>);

impl Ready {
    fn push(&self, task: usize) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push_back(task);
    }

    fn pop(&self) -> Option<usize> {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ready.pop_front()
    }
}

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.task);
    }
}

impl FabricSimulation {
    /// Creates a simulation without nodes and clients. Equal seeds give equal runs.
    pub fn new(seed: u64, network: NetworkParameters, delivery: Delivery) -> FabricSimulation {
        FabricSimulation {
            state: Rc::new(RefCell::new(SimState::new(seed, network, delivery))),
            tasks: Vec::new(),
            ready: Arc::default(),
        }
    }

    /// Creates a simulation of ConnectX-6 cards with memory nodes of these bytes, all zero.
    pub fn with_nodes<const N: usize>(
        seed: u64,
        delivery: Delivery,
        bytes: [usize; N],
    ) -> (FabricSimulation, [NodeId; N]) {
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(seed, network, delivery);
        let nodes = bytes.map(|bytes| simulation.add_node(bytes));
        (simulation, nodes)
    }

    /// Replaces the network from now on.
    pub fn set_network(&mut self, network: NetworkParameters) {
        let state = &mut *self.state.borrow_mut();
        state.network = network;
        for node in &mut state.nodes {
            node.port.set_parameters(network);
        }
    }

    /// Adds a memory node of `bytes`, all zero.
    pub fn add_node(&mut self, bytes: usize) -> NodeId {
        let mut state = self.state.borrow_mut();
        let number = NodeId(state.nodes.len() as u16);
        debug_assert!(
            state.nodes.len() <= usize::from(u16::MAX),
            "a node has a number"
        );
        let network = state.network;
        state.nodes.push(SimNode::new(bytes, network));
        number
    }

    /// Creates an endpoint of the client with this number.
    pub fn endpoint(&self, client: u32) -> SimEndpoint {
        SimEndpoint {
            state: Rc::clone(&self.state),
            client,
            place: self.state.borrow_mut().place(client),
            instant: false,
        }
    }

    /// Creates an endpoint whose verbs and calls take effect at once, in no time and whole. They do
    /// not use ports, lost nodes execute them, too, and no client's count includes them. It fills
    /// memory and caches before the simulation begins.
    pub fn instant_endpoint(&self, client: u32) -> SimEndpoint {
        SimEndpoint {
            instant: true,
            ..self.endpoint(client)
        }
    }

    /// Adds a task of a client, which ends when the client dies.
    pub fn spawn(&mut self, client: u32, future: impl Future<Output = ()> + 'static) {
        let task = self.tasks.len();
        let ready = Arc::clone(&self.ready);
        let waker = Waker::from(Arc::new(TaskWaker { task, ready }));
        self.tasks.push(SimTask {
            client,
            waker,
            future: Some(Box::pin(future)),
        });
        self.ready.push(task);
    }

    /// Makes a client die at its verb of this number, counted from 0: its earlier posts are done,
    /// of this verb some lines or none, and its tasks stop.
    pub fn kill_at_verb(&mut self, client: u32, verb: u64) {
        let mut state = self.state.borrow_mut();
        let place = state.place(client);
        state.clients[place].dies_at_verb = Some(verb);
    }

    /// Makes a node lost from a time on, or at once if the time has passed. It does nothing then,
    /// and does not respond.
    pub fn lose_node(&mut self, node: NodeId, from: Duration) {
        self.plan_node(node, from, false, false);
    }

    /// Makes a node come back, with or without its old content.
    pub fn restore_node(&mut self, node: NodeId, from: Duration, forgets: bool) {
        self.plan_node(node, from, true, forgets);
    }

    fn plan_node(&mut self, node: NodeId, from: Duration, up: bool, forgets: bool) {
        let at = VirtualTime::from_nanoseconds(from.as_nanos() as u64);
        let event = SimEvent::Node { node, up, forgets };
        let mut state = self.state.borrow_mut();
        // The present itself has passed by up to a nanosecond when it is given as a duration.
        let at = at.max(state.now);
        state.plan(at, event);
    }

    /// Runs until no event is left. Returns the number of unfinished tasks of living clients: they
    /// wait for an event that never comes.
    pub fn run(&mut self) -> usize {
        self.run_until(|_| false)
    }

    /// Runs until `is_enough` of the time, called before each event, returns true, or until no
    /// event is left. Returns the same as [`run`](FabricSimulation::run).
    pub fn run_until(&mut self, mut is_enough: impl FnMut(Duration) -> bool) -> usize {
        loop {
            // All tasks run before time advances, because their steps take no time.
            while let Some(task) = self.ready.pop() {
                self.poll(task);
            }
            if is_enough(self.now()) {
                break;
            }
            let event = self.state.borrow_mut().next_event();
            let Some(event) = event else { break };
            self.happen(event);
        }
        let waits = |task: &&SimTask| task.future.is_some();
        self.tasks.iter().filter(waits).count()
    }

    fn poll(&mut self, number: usize) {
        let Some(task) = self.tasks.get_mut(number) else {
            return;
        };
        let Some(future) = &mut task.future else {
            return;
        };
        let mut context = Context::from_waker(&task.waker);
        if let Poll::Ready(()) = future.as_mut().poll(&mut context) {
            task.future = None;
        }
    }

    fn happen(&mut self, event: SimEvent) {
        let mut state = self.state.borrow_mut();
        match event {
            SimEvent::Part {
                request,
                step,
                bytes,
            } => state.do_part(request, step, bytes),
            SimEvent::Answer { request } => state.answer(request),
            SimEvent::Wake { timer } => state.ring(timer),
            SimEvent::Death { client } => {
                drop(state);
                // The tasks' values release the state when they are dropped.
                for task in self.tasks.iter_mut().filter(|task| task.client == client) {
                    task.future = None;
                }
            }
            SimEvent::Node { node, up, forgets } => state.change_node(node, up, forgets),
        }
    }

    /// Returns the virtual time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state.borrow().now.as_picoseconds() / 1000)
    }

    /// Returns true if a client has died.
    pub fn is_dead(&self, client: u32) -> bool {
        let state = self.state.borrow();
        state.client(client).is_some_and(|client| client.dead)
    }

    /// Returns the number of verbs that a client has posted.
    pub fn verbs_of(&self, client: u32) -> u64 {
        let state = self.state.borrow();
        state.client(client).map_or(0, |client| client.verbs)
    }

    /// Returns the present word of a node's memory; 0 if there is no such word.
    pub fn word(&self, at: GlobalAddress) -> u64 {
        let state = self.state.borrow();
        let node = state.node(at.node()).ok();
        let fits = |node: &&SimNode| at.offset() + 8 <= node.memory.len() as u64;
        node.filter(fits).map_or(0, |node| node.word(at.offset()))
    }

    /// Returns the traffic that the port of a node has served so far; zero if there is no such
    /// node.
    pub fn carried(&self, node: NodeId) -> PortTraffic {
        let state = self.state.borrow();
        let node = state.node(node);
        node.map_or(PortTraffic::default(), |node| node.port.carried())
    }

    /// Returns the number of allocated bytes of a node.
    pub fn allocated_bytes(&self, node: NodeId) -> u64 {
        let state = self.state.borrow();
        let node = state.node(node);
        node.map_or(0, |node| node.chunks.allocated_bytes())
    }
}
