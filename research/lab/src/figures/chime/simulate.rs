//! Runs an index over a simulated fabric: loads it, warms the caches of its compute nodes, and
//! lets clients work on it in virtual time.

use super::keys::PermutedKeys;
use super::meter::PhaseMeter;
use super::system::{EntryValueForm, IndexLoadEntries, PoolIndexSystem};
use crate::figures::job::PointError;
use crate::figures::result_cache::ResultCache;
use crate::harness::{Interrupt, LatencySummary};
use crate::workload::{Distribution, Mix, Op, OpStream, StreamSpec};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, Image, SimEndpoint};
use nearfield_fabric::{Endpoint, NodeId};
use nearfield_hardware::network::{NetworkParameters, PortTraffic};
use nearfield_pool::{PoolError, PoolIndexClient};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The size of an index, and the nodes and the network that it runs on.
#[derive(Clone, Debug)]
pub(super) struct ChimeSetup {
    pub network: NetworkParameters,
    pub memory_nodes: usize,
    pub compute_nodes: usize,
    /// Number of tasks ("coroutines") of a client, each with one operation in flight.
    pub tasks: usize,
    /// Number of keys that are loaded before clients begin.
    pub loaded: usize,
    /// Limit of the bytes that the index takes of all nodes together.
    pub pool_bytes: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub seed: u64,
}

impl ChimeSetup {
    /// Describes the content of the pool after loading, except for the choice of the index.
    fn pool(&self) -> String {
        let ChimeSetup {
            memory_nodes,
            loaded,
            pool_bytes,
            key_bytes,
            value_bytes,
            seed,
            ..
        } = self;
        format!(
            "{loaded} keys of {key_bytes} bytes with values of {value_bytes}, seed {seed}, \
             {memory_nodes} nodes of {pool_bytes} bytes together"
        )
    }
}

/// The work of clients.
#[derive(Clone, Debug)]
pub(super) struct ChimePhase {
    pub mix: Mix,
    /// The distribution of keys; `None` for that of the mix's authors.
    pub distribution: Option<Distribution>,
    /// Number of clients, of all compute nodes together.
    pub clients: usize,
    /// Number of operations, of all clients together.
    pub operations: usize,
    /// Operations of a compute node that warm the caches before.
    pub warming: CacheWarming,
    /// Another model of the network than the setup's.
    pub network: Option<NetworkParameters>,
}

/// The warming of a compute node's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheWarming {
    /// No warming: the cache is as the phase before has left it.
    None,
    /// This number of reads or scans of keys that are chosen as in the phase.
    Operations(usize),
    /// A read of each key, and then this number of reads as above.
    All(usize),
}

/// The outcome of a phase.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PhaseOutcome {
    /// Millions of operations a second, in virtual time.
    pub rate_mops: f64,
    pub latency: LatencySummary,
    /// Messages at the ports of the memory nodes for each operation: reads, writes, atomics. The
    /// next field has the bytes of all of them.
    pub messages_per_operation: [f64; 3],
    pub bytes_per_operation: f64,
    /// Mean bytes in the cache of a compute node.
    pub cache_bytes: f64,
    /// Bytes of the pool for each key.
    pub pool_bytes_per_key: f64,
    /// The share of speculative reads that were right, if the index has some.
    pub hit_rate: Option<f64>,
}

/// Bytes for the chunks and records of clients: hundreds of clients have some megabytes each at
/// most. Only written pages take memory.
const CLIENTS_BYTES: usize = 4 << 30;
/// Divisor of the keys: after reading this part of them a compute node has cached all inner nodes.
pub(super) const WARM_PART: usize = 4;
/// Timeout in virtual time: clients hang if no operation ends for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// An index on a simulated fabric.
pub(super) struct SimulatedIndex<'s, S: PoolIndexSystem> {
    setup: &'s ChimeSetup,
    interrupt: &'s Interrupt,
    simulation: FabricSimulation,
    nodes: Vec<NodeId>,
    compute_nodes: Vec<Arc<S::ComputeNode>>,
    clients: Vec<Rc<S::Index>>,
    keys: PermutedKeys,
    /// Number of keys that phases have inserted.
    inserted: usize,
}

impl<'s, S: PoolIndexSystem> SimulatedIndex<'s, S> {
    /// Creates an index and loads it, or takes the nodes of one that was loaded before and cached.
    ///
    /// # Errors
    /// The error of the index, or `Interrupted`.
    pub(super) fn load(
        system: &'s S,
        setup: &'s ChimeSetup,
        interrupt: &'s Interrupt,
        results: &ResultCache,
    ) -> Result<Self, PointError> {
        let mut simulation = FabricSimulation::new(setup.seed, setup.network, Delivery::Whole);
        let description = format!("{}, {}", system.tree(), setup.pool());
        let image = results.find::<Image>(&description);
        let nodes: Vec<NodeId> = match &image {
            Some(image) => simulation.add_image(image),
            None => {
                let bytes = (setup.pool_bytes + CLIENTS_BYTES) / setup.memory_nodes;
                let nodes = 0..setup.memory_nodes;
                nodes.map(|_| simulation.add_node(bytes)).collect()
            }
        };
        debug_assert_eq!(nodes.len(), setup.memory_nodes);
        debug_assert!(setup.compute_nodes > 0 && setup.tasks > 0);
        let compute_nodes = (0..setup.compute_nodes).map(|_| system.compute_node());
        let compute_nodes: Result<Vec<_>, PoolError> = compute_nodes.collect();
        let mut stage = SimulatedIndex {
            setup,
            interrupt,
            simulation,
            nodes,
            compute_nodes: compute_nodes?,
            clients: Vec::new(),
            keys: PermutedKeys::new(setup.seed, setup.key_bytes, setup.value_bytes),
            inserted: 0,
        };
        if image.is_none() {
            stage.fill(system)?;
            // Many jobs differ only in their caches, and begin with the same nodes.
            results.keep(description, stage.allocated_bytes() as usize, || {
                stage.simulation.image()
            });
        }
        Ok(stage)
    }

    fn fill(&mut self, system: &S) -> Result<(), PointError> {
        // The loader has a compute node of its own, so that loading does not warm the caches that
        // are measured.
        let loader = system.compute_node()?;
        let endpoint = self.simulation.instant_endpoint(0);
        let entries = IndexLoadEntries {
            keys: self.keys,
            count: self.setup.loaded,
            values: EntryValueForm::Inline,
            interrupt: self.interrupt.clone(),
        };
        debug_assert!(
            self.clients.is_empty(),
            "clients would see an index that grows"
        );
        self.at_once(S::load(endpoint, self.nodes.clone(), loader, entries))
    }

    /// Returns the bytes that are allocated on all nodes.
    fn allocated_bytes(&self) -> u64 {
        let nodes = self.nodes.iter();
        nodes
            .map(|&node| self.simulation.allocated_bytes(node))
            .sum()
    }

    /// Runs a task to its end.
    fn at_once(
        &mut self,
        work: impl Future<Output = Result<(), PoolError>> + 'static,
    ) -> Result<(), PointError> {
        let error = Rc::new(RefCell::new(None));
        let failed = Rc::clone(&error);
        self.simulation.spawn(0, async move {
            if let Err(error) = work.await {
                failed.borrow_mut().replace(error);
            }
        });
        let waiting = self.simulation.run();
        if let Some(error) = error.take() {
            return Err(error.into());
        }
        if self.interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        if waiting > 0 {
            return Err(PointError::Hangs { clients: waiting });
        }
        Ok(())
    }

    /// Returns the mean bytes in the cache of a compute node.
    fn cache_bytes(&self) -> f64 {
        let bytes = self
            .compute_nodes
            .iter()
            .map(|node| S::cache_bytes(node) as f64);
        bytes.sum::<f64>() / self.compute_nodes.len() as f64
    }

    /// Returns the numbers of right and wrong guesses of all compute nodes so far.
    fn guesses(&self) -> Option<[u64; 2]> {
        let nodes = self.compute_nodes.iter();
        nodes
            .map(|node| S::guesses(node))
            // An index guesses at all compute nodes or at none.
            .try_fold([0, 0], |sum, node| {
                node.map(|[right, wrong]| [sum[0] + right, sum[1] + wrong])
            })
    }

    fn carried(&self) -> PortTraffic {
        let ports = self.nodes.iter().map(|&node| self.simulation.carried(node));
        ports.fold(PortTraffic::default(), |sum, port| PortTraffic {
            reads: sum.reads + port.reads,
            writes: sum.writes + port.writes,
            atomics: sum.atomics + port.atomics,
            bytes: sum.bytes + port.bytes,
        })
    }

    /// Opens the index for clients that have not opened it yet. They are distributed over the
    /// compute nodes in turn.
    fn open(&mut self, clients: usize) -> Result<(), PointError> {
        while self.clients.len() < clients {
            let number = self.clients.len();
            let node = Arc::clone(&self.compute_nodes[number % self.compute_nodes.len()]);
            // Client 0 is the one that loads and warms.
            let endpoint = self.simulation.endpoint(number as u32 + 1);
            let opening = S::open(endpoint, self.nodes.clone(), node);
            let opened = Rc::new(RefCell::new(None));
            let index = Rc::clone(&opened);
            self.at_once(async move {
                index.replace(Some(opening.await?));
                Ok(())
            })?;
            let index = opened.take().ok_or(PointError::Hangs { clients: 1 })?;
            self.clients.push(Rc::new(index));
        }
        Ok(())
    }

    /// Warms the caches of all compute nodes.
    fn warm(&mut self, phase: &ChimePhase) -> Result<(), PointError> {
        let (all, operations) = match phase.warming {
            CacheWarming::None => return Ok(()),
            CacheWarming::Operations(operations) => (false, operations),
            CacheWarming::All(operations) => (true, operations),
        };
        let scans = phase.mix.shares().scan > 0;
        let distribution = phase.distribution;
        let distribution = distribution.unwrap_or_else(|| phase.mix.distribution_default());
        let spec = StreamSpec {
            mix: if scans { Mix::YcsbE } else { Mix::YcsbC },
            distribution: Some(distribution),
            keys: self.setup.loaded,
            threads: 1,
            operations: operations.max(1),
            seed: self.setup.seed + 1,
            // The same keys are hot as in the phase.
            hot_seed: self.setup.seed,
        };
        // Scans come with inserts, which would have to be held out here.
        let spec = StreamSpec {
            keys: spec.keys + spec.inserts(),
            ..spec
        };
        let streams = spec.generate()?;
        debug_assert_eq!(streams.loaded(), self.setup.loaded);
        let endpoint = self.simulation.instant_endpoint(0);
        let opening = S::open(
            endpoint,
            self.nodes.clone(),
            Arc::clone(&self.compute_nodes[0]),
        );
        let (keys, interrupt) = (self.keys, self.interrupt.clone());
        let loaded = if all { self.setup.loaded } else { 0 };
        self.at_once(async move {
            let index = opening.await?;
            for position in 0..loaded {
                index.get(&keys.key(position)).await?;
                if interrupt.is_raised() {
                    return Ok(());
                }
            }
            for operation in streams.threads().iter().flat_map(OpStream::iter) {
                match operation {
                    Op::Scan(position, length) => {
                        index.scan(&keys.key(position), length).await.map(drop)?;
                    }
                    Op::Read(position) => index.get(&keys.key(position)).await.map(drop)?,
                    _ => {}
                }
                if interrupt.is_raised() {
                    return Ok(());
                }
            }
            Ok(())
        })?;
        // The same keys are hot for all compute nodes, so it suffices to warm one and copy its
        // cache.
        for node in &self.compute_nodes[1..] {
            S::learn_from(node, &self.compute_nodes[0]);
        }
        Ok(())
    }

    /// Runs the clients. The first fifth of the operations and the last tenth do not count.
    ///
    /// # Errors
    /// The error of the index, wrong outcomes, clients that hang, `Interrupted`.
    pub(super) fn run(&mut self, phase: &ChimePhase) -> Result<PhaseOutcome, PointError> {
        self.warm(phase)?;
        self.open(phase.clients)?;
        self.simulation
            .set_network(phase.network.unwrap_or(self.setup.network));
        let spec = StreamSpec {
            mix: phase.mix,
            distribution: phase.distribution,
            // Insertions are counted first; their number does not depend on the keys.
            keys: usize::MAX >> 10,
            threads: phase.clients * self.setup.tasks,
            operations: phase.operations,
            // Another number of clients must not repeat operations that the caches have just seen.
            seed: self.setup.seed ^ (self.inserted as u64) << 20 ^ phase.clients as u64,
            hot_seed: self.setup.seed,
        };
        let inserts = spec.inserts();
        let spec = StreamSpec {
            keys: self.setup.loaded + inserts,
            ..spec
        };
        let streams = Rc::new(spec.generate()?);
        debug_assert_eq!(streams.loaded(), self.setup.loaded);
        debug_assert_eq!(streams.threads().len(), phase.clients * self.setup.tasks);
        let meter = Rc::new(PhaseMeter::new(phase.operations));
        let started = self.simulation.now();
        let before = self.carried();
        let guessed = self.guesses();
        let shared = PhaseTaskContext {
            keys: self.keys,
            loaded: self.setup.loaded,
            inserted: self.inserted,
            meter: Rc::clone(&meter),
        };
        self.inserted += inserts;
        for number in 0..phase.clients {
            for task in 0..self.setup.tasks {
                let index = Rc::clone(&self.clients[number]);
                let endpoint = self.simulation.endpoint(number as u32 + 1);
                let (streams, shared) = (Rc::clone(&streams), shared.clone());
                let place = number * self.setup.tasks + task;
                self.simulation.spawn(number as u32 + 1, async move {
                    let stream = &streams.threads()[place];
                    work(&*index, &endpoint, stream, &shared).await;
                });
            }
        }
        // No virtual time has passed: tasks run only within the simulation.
        meter.start(started);
        let interrupt = self.interrupt.clone();
        let watched = Rc::clone(&meter);
        // Clients that wait for each other would let virtual time pass for ever.
        let waiting = self.simulation.run_until(|now| {
            interrupt.is_raised() || watched.is_over() || now > watched.last() + PATIENCE
        });
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        let after = self.carried();
        debug_assert!(before.reads <= after.reads && before.writes <= after.writes);
        debug_assert!(before.atomics <= after.atomics && before.bytes <= after.bytes);
        let operations = phase.operations as f64;
        let keys = (self.setup.loaded + self.inserted) as f64;
        let pool = self.allocated_bytes();
        let (rate_mops, latency) = meter.result(waiting)?;
        let hit_rate = self.guesses().and_then(|after| {
            let before = guessed.unwrap_or_default();
            let [right, wrong] = [0, 1].map(|part| (after[part] - before[part]) as f64);
            (right + wrong > 0.0).then(|| right / (right + wrong))
        });
        Ok(PhaseOutcome {
            rate_mops,
            latency,
            messages_per_operation: [
                after.reads - before.reads,
                after.writes - before.writes,
                after.atomics - before.atomics,
            ]
            .map(|messages| messages as f64 / operations),
            bytes_per_operation: (after.bytes - before.bytes) as f64 / operations,
            cache_bytes: self.cache_bytes(),
            pool_bytes_per_key: pool as f64 / keys,
            hit_rate,
        })
    }
}

/// The state that the tasks of a phase share.
#[derive(Clone)]
struct PhaseTaskContext {
    keys: PermutedKeys,
    loaded: usize,
    /// Number of keys that earlier phases have inserted.
    inserted: usize,
    meter: Rc<PhaseMeter>,
}

impl PhaseTaskContext {
    /// Returns the key at a position of the workload: positions behind the loaded keys are new
    /// keys.
    fn position(&self, position: usize) -> usize {
        if position < self.loaded {
            position
        } else {
            position + self.inserted
        }
    }
}

/// Executes operations one after the other, and checks their outcomes.
async fn work(
    index: &impl PoolIndexClient,
    endpoint: &SimEndpoint,
    stream: &OpStream,
    shared: &PhaseTaskContext,
) {
    let PhaseTaskContext { keys, meter, .. } = shared;
    for (number, operation) in stream.iter().enumerate() {
        let begin = endpoint.now();
        endpoint.begin_operation().await;
        let done = async {
            Ok(match operation {
                Op::Read(position) => {
                    let position = shared.position(position);
                    let value = index.get(&keys.key(position)).await?;
                    keys.is_value(position, value.as_deref())
                }
                Op::Update(position) => {
                    let position = shared.position(position);
                    let value = keys.value(position, number);
                    index.overwrite(&keys.key(position), &value).await?
                }
                Op::Insert(position) => {
                    let position = shared.position(position);
                    let value = keys.value(position, number);
                    index.put(&keys.key(position), &value).await?;
                    true
                }
                Op::Scan(position, length) => {
                    let position = shared.position(position);
                    let key = keys.key(position);
                    let found = index.scan(&key, length).await?;
                    // Other clients insert meanwhile, so only the first key must be a certain one.
                    let first = found.first().is_some_and(|(first, value)| {
                        *first == key && keys.is_value(position, Some(value))
                    });
                    first
                        && found.len() <= length
                        && found.is_sorted_by(|one, other| one.0 < other.0)
                }
                Op::ReadModifyWrite(position) => {
                    let position = shared.position(position);
                    let key = keys.key(position);
                    let value = index.get(&key).await?;
                    let new = keys.value(position, number);
                    index.overwrite(&key, &new).await?;
                    keys.is_value(position, value.as_deref())
                }
            })
        };
        let done: Result<bool, PoolError> = done.await;
        if !meter.note(begin, endpoint.now(), done, || format!("{operation:?}")) {
            return;
        }
    }
}
