//! Runs of a tree that loses a memory node and is repaired, over the simulated fabric.

use crate::trees::{compute_node, key};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::{ChimeOptions, ChimeTree};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Number of keys that workers change.
const KEYS: u64 = 60;
/// Number of clients that work while the node is lost and repaired.
const WORKERS: u64 = 4;
/// Number of operations of each worker.
const STEPS: u64 = 50;
/// Number of clients that repair the tree at the same time.
const REPAIRERS: u32 = 2;
/// The client that fills the tree before the workers begin.
const FILLER: u32 = 10;
/// The client numbers behind the workers.
const FIRST_REPAIRER: u32 = 20;
const LAST_REPAIRER: u32 = 30;
const JUDGE: u32 = 31;
const NODE_BYTES: usize = 4 << 20;
/// Virtual time after which a client counts as hanging.
const LONG: Duration = Duration::from_secs(5);

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct RepairPlan {
    pub options: ChimeOptions,
    pub delivery: Delivery,
    /// Share of the workers and repairers that die. The last repairer lives.
    pub dying: f64,
}

/// The values that a key may have.
#[derive(Clone, Debug, Default)]
struct KeyHistory {
    current: Option<u64>,
    /// The values of changes with an unknown outcome.
    unknown: Vec<Option<u64>>,
    /// True if an operation on the key has succeeded that began after the loss: the key is in a
    /// leaf that is not lost.
    is_kept: bool,
}

impl KeyHistory {
    fn allows(&self, found: Option<u64>, is_late: bool) -> bool {
        let is_forgotten = found.is_none() && is_late && !self.is_kept;
        found == self.current || self.unknown.contains(&found) || is_forgotten
    }
}

/// A simulation with a tree.
struct RepairRun {
    simulation: FabricSimulation,
    nodes: Vec<NodeId>,
    options: ChimeOptions,
    failure: Rc<RefCell<Option<String>>>,
    /// Number of leaves that repairs have replaced.
    replaced: Rc<Cell<usize>>,
    histories: Rc<RefCell<Vec<KeyHistory>>>,
    /// Number of keys that repairs have made absent.
    forgotten: Rc<Cell<usize>>,
}

impl RepairRun {
    /// Creates an empty tree.
    fn new(
        seed: u64,
        nodes: u16,
        options: ChimeOptions,
        delivery: Delivery,
    ) -> Result<RepairRun, String> {
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(seed, network, delivery);
        let nodes: Vec<NodeId> = (0..nodes)
            .map(|_| simulation.add_node(NODE_BYTES))
            .collect();
        let mut run = RepairRun {
            simulation,
            nodes: nodes.clone(),
            options,
            failure: Rc::default(),
            replaced: Rc::default(),
            histories: Rc::new(RefCell::new(vec![KeyHistory::default(); KEYS as usize])),
            forgotten: Rc::default(),
        };
        let (endpoint, failure) = (run.simulation.endpoint(0), Rc::clone(&run.failure));
        let node = compute_node(options);
        run.simulation.spawn(0, async move {
            let made = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
            if let Err(error) = made {
                *failure.borrow_mut() = Some(format!("no tree: {error}"));
            }
        });
        run.finish()?;
        Ok(run)
    }

    /// Makes a client open the tree after a time, and work.
    fn client<F: Future<Output = Result<(), String>> + 'static>(
        &mut self,
        client: u32,
        after: Duration,
        work: impl FnOnce(ChimeTree<SimEndpoint>) -> F + 'static,
    ) {
        let endpoint = self.simulation.endpoint(client);
        let (nodes, node) = (self.nodes.clone(), compute_node(self.options));
        let failure = Rc::clone(&self.failure);
        self.simulation.spawn(client, async move {
            endpoint.sleep(after).await;
            let opened = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, node).await;
            let done = match opened {
                Ok(tree) => work(tree).await,
                Err(error) => Err(format!("not opened: {error}")),
            };
            if let Err(error) = done {
                let mut failure = failure.borrow_mut();
                failure.get_or_insert_with(|| format!("client {client}: {error}"));
            }
        });
    }

    fn repairer(&mut self, client: u32, after: Duration) {
        let replaced = Rc::clone(&self.replaced);
        self.client(client, after, move |tree| repair(tree, replaced));
    }

    /// Runs until all living clients are done.
    fn finish(&mut self) -> Result<(), String> {
        let end = self.simulation.now() + LONG;
        let waiting = self.simulation.run_until(|now| now > end);
        if let Some(failure) = self.failure.borrow_mut().take() {
            return Err(failure);
        }
        match waiting {
            0 => Ok(()),
            waiting => Err(format!("{waiting} clients hang")),
        }
    }

    /// Repairs the tree by a client that lives, and checks it.
    fn repair_and_judge(&mut self, knows_values: bool) -> Result<(), String> {
        self.repairer(LAST_REPAIRER, Duration::ZERO);
        self.finish()?;
        let histories = knows_values.then(|| self.histories.take());
        let forgotten = Rc::clone(&self.forgotten);
        self.client(JUDGE, Duration::ZERO, move |tree| {
            judge(tree, histories, forgotten)
        });
        self.finish()
    }
}

/// Makes a run in which clients work while a node is lost, and others repair the tree. Returns the
/// number of keys that a repair has made absent: a repairer that dies reports no replaced leaves.
///
/// # Errors
/// The first violation: a key on a living node that is lost, an operation that fails after the
/// repair, or a client that hangs.
pub fn run(seed: u64, plan: &RepairPlan) -> Result<usize, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut run = RepairRun::new(random.random(), 3, plan.options, plan.delivery)?;
    // Keys on all nodes.
    run.client(FILLER, Duration::ZERO, fill);
    run.finish()?;
    for (number, history) in (0..).zip(&mut *run.histories.borrow_mut()) {
        history.current = Some(number);
    }
    let lost = NodeId(random.random_range(1..3));
    // Most workers have opened the tree by then.
    let until_loss = Duration::from_micros(random.random_range(500..2000));
    let lost_at = run.simulation.now() + until_loss;
    run.simulation.lose_node(lost, lost_at);
    for number in 0..WORKERS {
        let client = number as u32 + 1;
        if random.random_bool(plan.dying) {
            let verb = random.random_range(0..STEPS * 6);
            run.simulation.kill_at_verb(client, verb);
        }
        let (histories, seed) = (Rc::clone(&run.histories), random.random());
        let random = SmallRng::seed_from_u64(seed);
        run.client(client, Duration::ZERO, move |tree| {
            work(tree, number, lost_at, random, histories)
        });
    }
    for repairer in FIRST_REPAIRER..FIRST_REPAIRER + REPAIRERS {
        if random.random_bool(plan.dying) {
            let verb = random.random_range(0..200);
            run.simulation.kill_at_verb(repairer, verb);
        }
        let later = Duration::from_micros(random.random_range(1..1500));
        run.repairer(repairer, until_loss + later);
    }
    run.finish()?;
    run.repair_and_judge(true)?;
    Ok(run.forgotten.get())
}

/// Makes a run in which the only writer dies at a verb, another node than the first is lost then,
/// and the tree is repaired. Returns the number of leaves that were replaced.
///
/// # Errors
/// The first violation, as [`run`].
pub fn run_after_death(
    verb: u64,
    options: ChimeOptions,
    delivery: Delivery,
) -> Result<usize, String> {
    let mut run = RepairRun::new(verb, 2, options, delivery)?;
    run.simulation.kill_at_verb(1, verb);
    run.client(1, Duration::ZERO, fill);
    run.finish()?;
    let now = run.simulation.now();
    run.simulation.lose_node(NodeId(1), now);
    run.finish()?;
    run.repair_and_judge(false)?;
    Ok(run.replaced.get())
}

async fn fill(tree: ChimeTree<SimEndpoint>) -> Result<(), String> {
    for number in 0..KEYS {
        let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
        inserted.map_err(|error| format!("insert of key {number}: {error}"))?;
    }
    Ok(())
}

async fn repair(tree: ChimeTree<SimEndpoint>, replaced: Rc<Cell<usize>>) -> Result<(), String> {
    let repaired = tree.replace_lost_leaves().await;
    let repaired = repaired.map_err(|error| format!("no repair: {error}"))?;
    replaced.set(replaced.get() + repaired.leaves);
    Ok(())
}

/// Executes operations on the keys of a worker, which are its own.
async fn work(
    tree: ChimeTree<SimEndpoint>,
    worker: u64,
    lost_at: Duration,
    mut random: SmallRng,
    histories: Rc<RefCell<Vec<KeyHistory>>>,
) -> Result<(), String> {
    for step in 1..=STEPS {
        let number = random.random_range(0..KEYS / WORKERS) * WORKERS + worker;
        let place = number as usize;
        let pause = Duration::from_micros(random.random_range(0..300));
        tree.endpoint().sleep(pause).await;
        // No two writes have the same value, and none has one of the first values.
        let value = (worker + 1) << 32 | step;
        let change = match random.random_range(0..10) {
            0..=4 => Some(Some(value)),
            5..=6 => Some(None),
            _ => None,
        };
        if let Some(new) = change {
            histories.borrow_mut()[place].unknown.push(new);
        }
        let began_late = tree.endpoint().now() >= lost_at;
        let met = match change {
            Some(Some(value)) => tree.insert(&key(number), &value.to_le_bytes()).await,
            Some(None) => tree.remove(&key(number)).await,
            None => tree.get(&key(number)).await,
        };
        let met = match met {
            Ok(met) => met.map(|bytes| number_of(&bytes)),
            Err(
                PoolError::Fabric(FabricError::NodeLost { .. })
                | PoolError::Undetermined(FabricError::NodeLost { .. }),
            ) => {
                // As a store does. The cached parents may lead to leaves that were replaced.
                tree.forget_routes();
                continue;
            }
            Err(error) => return Err(format!("key {number}: {error}")),
        };
        let is_late = tree.endpoint().now() >= lost_at;
        let mut histories = histories.borrow_mut();
        let history = &mut histories[place];
        if change.is_some() {
            history.unknown.pop();
        }
        if !history.allows(met, is_late) {
            return Err(format!("key {number} was {met:x?}, but {history:x?}"));
        }
        history.current = change.unwrap_or(met);
        history.is_kept |= began_late;
    }
    Ok(())
}

/// Checks that the keys have values that they may have, if these are known, and that all keys can
/// be written, read and removed.
async fn judge(
    tree: ChimeTree<SimEndpoint>,
    histories: Option<Vec<KeyHistory>>,
    forgotten: Rc<Cell<usize>>,
) -> Result<(), String> {
    if let Some(histories) = histories {
        forgotten.set(read_all(&tree, &histories).await?);
    }
    rewrite(&tree).await
}

/// Checks the values of all keys. Returns the number of keys that a repair has made absent.
async fn read_all(
    tree: &ChimeTree<SimEndpoint>,
    histories: &[KeyHistory],
) -> Result<usize, String> {
    let (mut there, mut forgotten) = (Vec::new(), 0);
    for (number, history) in (0..).zip(histories) {
        let found = tree.get(&key(number)).await;
        let found = found.map_err(|error| format!("get of key {number}: {error}"))?;
        let found = found.map(|bytes| number_of(&bytes));
        if !history.allows(found, true) {
            return Err(format!("key {number} is {found:x?}, but {history:x?}"));
        }
        if found.is_some() {
            there.push(key(number).to_vec());
        } else if !history.allows(None, false) {
            forgotten += 1;
        }
    }
    let mut scanned = all_keys(tree, true).await?;
    if scanned != there {
        return Err(format!("scanned {scanned:?}, but got {there:?}"));
    }
    scanned = all_keys(tree, false).await?;
    scanned.reverse();
    if scanned != there {
        return Err(format!("scanned back {scanned:?}, but got {there:?}"));
    }
    Ok(forgotten)
}

/// Writes twice the former number of keys, so that leaves are divided, reads them, and removes
/// them, so that leaves are merged.
async fn rewrite(tree: &ChimeTree<SimEndpoint>) -> Result<(), String> {
    for number in 0..2 * KEYS {
        let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
        inserted.map_err(|error| format!("insert of key {number}: {error}"))?;
    }
    for number in 0..2 * KEYS {
        let found = tree.get(&key(number)).await;
        let found = found.map_err(|error| format!("get of inserted key {number}: {error}"))?;
        if found != Some(number.to_le_bytes().to_vec()) {
            return Err(format!("inserted key {number} is {found:?}"));
        }
    }
    for forth in [true, false] {
        let count = all_keys(tree, forth).await?.len();
        if count as u64 != 2 * KEYS {
            return Err(format!("{count} keys are left, forth: {forth}"));
        }
    }
    for number in 0..2 * KEYS {
        let removed = tree.remove(&key(number)).await;
        let removed = removed.map_err(|error| format!("removal of key {number}: {error}"))?;
        if removed.is_none() {
            return Err(format!("key {number} was not there"));
        }
    }
    match all_keys(tree, true).await?.len() {
        0 => Ok(()),
        count => Err(format!("{count} keys are left of none")),
    }
}

async fn all_keys(tree: &ChimeTree<SimEndpoint>, forth: bool) -> Result<Vec<Vec<u8>>, String> {
    let found: Result<Vec<Entry>, PoolError> = match forth {
        true => tree.scan(&[0; 8], 1000).await,
        false => tree.scan_back(&[0xff; 8], 1000).await,
    };
    let found = found.map_err(|error| format!("scan: {error}"))?;
    Ok(found.into_iter().map(|(key, _)| key).collect())
}

fn number_of(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(value);
    u64::from_le_bytes(bytes)
}
