//! Runs of a tree of which a memory node is drained and then lost, or to which one is added, over
//! the simulated fabric.

use crate::trees::{compute_node, key};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, NodeId};
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions, ChimeTree, EvenShare};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Number of keys that workers change.
const KEYS: u64 = 60;
/// Number of clients that work before, while and after the node is drained.
const WORKERS: u64 = 4;
/// Number of operations of each worker after the last drainer has ended.
const STEPS_AFTER: u64 = 20;
/// Number of clients that drain the node, or move leaves to it, and may die.
const DRAINERS: u32 = 2;
/// The client numbers behind the workers.
const FIRST_DRAINER: u32 = 20;
const LAST_DRAINER: u32 = 30;
const JUDGE: u32 = 31;
const NODE_BYTES: usize = 4 << 20;
/// Virtual time after which a client counts as hanging.
const LONG: Duration = Duration::from_secs(5);

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct DrainPlan {
    pub options: ChimeOptions,
    pub delivery: Delivery,
    /// Share of the workers and drainers that die. The last drainer lives.
    pub dying: f64,
}

/// The client that dies in a run with one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DyingClient {
    /// The writer, before the node is drained.
    Writer,
    /// The first of two drainers, one after the other.
    Drainer,
    /// The only drainer, before another node is lost and the tree is repaired.
    DrainerBeforeLoss,
    /// The first of two clients that move leaves to a node that was added.
    Mover,
}

/// The values that a key may have.
#[derive(Clone, Debug, Default)]
struct DrainedKeyHistory {
    current: Option<u64>,
    /// The values of changes with an unknown outcome: their worker has died.
    unknown: Vec<Option<u64>>,
}

impl DrainedKeyHistory {
    fn allows(&self, found: Option<u64>) -> bool {
        found == self.current || self.unknown.contains(&found)
    }
}

/// A simulation with a tree.
struct DrainRun {
    simulation: FabricSimulation,
    nodes: Vec<NodeId>,
    /// The node that is drained, or added.
    node: NodeId,
    options: ChimeOptions,
    failure: Rc<RefCell<Option<String>>>,
    /// Number of leaves that were moved.
    moved: Rc<Cell<usize>>,
    /// True once the last drainer has ended.
    is_drained: Rc<Cell<bool>>,
    /// True once workers may end: the drained node is lost, if there is one.
    is_lost: Rc<Cell<bool>>,
    histories: Rc<RefCell<Vec<DrainedKeyHistory>>>,
}

impl DrainRun {
    /// Creates an empty tree on some nodes, of which one will be drained.
    fn new(
        seed: u64,
        nodes: u16,
        node: NodeId,
        options: ChimeOptions,
        delivery: Delivery,
    ) -> Result<DrainRun, String> {
        let mut run = DrainRun::without_tree(seed, nodes, node, options, delivery);
        run.create(usize::from(nodes))?;
        Ok(run)
    }

    /// Creates an empty tree on two nodes, and adds a third one, which gets no leaves yet.
    fn growing(seed: u64, options: ChimeOptions, delivery: Delivery) -> Result<DrainRun, String> {
        let mut run = DrainRun::without_tree(seed, 3, NodeId(2), options, delivery);
        run.create(2)?;
        Ok(run)
    }

    fn without_tree(
        seed: u64,
        nodes: u16,
        node: NodeId,
        options: ChimeOptions,
        delivery: Delivery,
    ) -> DrainRun {
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(seed, network, delivery);
        let nodes: Vec<NodeId> = (0..nodes)
            .map(|_| simulation.add_node(NODE_BYTES))
            .collect();
        let histories = vec![DrainedKeyHistory::default(); KEYS as usize];
        DrainRun {
            simulation,
            nodes,
            node,
            options,
            failure: Rc::default(),
            moved: Rc::default(),
            is_drained: Rc::default(),
            is_lost: Rc::default(),
            histories: Rc::new(RefCell::new(histories)),
        }
    }

    /// Creates an empty tree on the first nodes, and adds the others.
    fn create(&mut self, founders: usize) -> Result<(), String> {
        let (endpoint, failure) = (self.simulation.endpoint(0), Rc::clone(&self.failure));
        let (nodes, node) = (self.nodes.clone(), compute_node(self.options));
        self.simulation.spawn(0, async move {
            let made = create_tree(endpoint, nodes.split_at(founders), node).await;
            if let Err(error) = made {
                *failure.borrow_mut() = Some(format!("no tree: {error}"));
            }
        });
        self.finish()
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

    fn drainer(&mut self, client: u32, after: Duration) {
        let (node, moved) = (self.node, Rc::clone(&self.moved));
        let is_lost = Rc::clone(&self.is_lost);
        let is_drained = Rc::clone(&self.is_drained);
        self.client(client, after, move |tree| async move {
            match tree.drain_leaves(node).await {
                Ok(count) => moved.set(moved.get() + count),
                // Another drainer was faster.
                Err(_) if is_lost.get() => return Ok(()),
                Err(error) => return Err(format!("no drain: {error}")),
            }
            if client == LAST_DRAINER {
                is_drained.set(true);
            }
            Ok(())
        });
    }

    /// Makes a client move a third of the leaves to the node that was added.
    fn mover(&mut self, client: u32, after: Duration) {
        let (node, moved) = (self.node, Rc::clone(&self.moved));
        let others: Vec<NodeId> = self
            .nodes
            .iter()
            .copied()
            .filter(|&it| it != node)
            .collect();
        let is_drained = Rc::clone(&self.is_drained);
        self.client(client, after, move |tree| async move {
            let opened = tree.close_node(node, false).await;
            opened.map_err(|error| format!("not opened for leaves: {error}"))?;
            let share = EvenShare::new(1, 3);
            let count = tree.move_leaves(&others, node, share, async |_| true).await;
            moved.set(moved.get() + count.map_err(|error| format!("no moves: {error}"))?);
            if client == LAST_DRAINER {
                is_drained.set(true);
            }
            Ok(())
        });
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

    /// Runs until the last drainer is done, and then loses the node.
    fn lose_when_drained(&mut self) -> Result<(), String> {
        self.wait_for_last()?;
        let now = self.simulation.now();
        self.simulation.lose_node(self.node, now);
        self.is_lost.set(true);
        Ok(())
    }

    /// Runs until the last drainer is done.
    fn wait_for_last(&mut self) -> Result<(), String> {
        let end = self.simulation.now() + LONG;
        let (is_drained, failure) = (Rc::clone(&self.is_drained), Rc::clone(&self.failure));
        let is_enough = |now: Duration| is_drained.get() || failure.borrow().is_some() || now > end;
        self.simulation.run_until(is_enough);
        if let Some(failure) = self.failure.borrow_mut().take() {
            return Err(failure);
        }
        match self.is_drained.get() {
            true => Ok(()),
            false => Err("the last drainer hangs".to_owned()),
        }
    }

    /// Starts the workers, of which some die.
    fn work(&mut self, random: &mut SmallRng, dying: f64) {
        for number in 0..WORKERS {
            let client = number as u32 + 1;
            if random.random_bool(dying) {
                self.simulation
                    .kill_at_verb(client, random.random_range(0..800));
            }
            let (histories, seed) = (Rc::clone(&self.histories), random.random());
            let (random, is_lost) = (SmallRng::seed_from_u64(seed), Rc::clone(&self.is_lost));
            self.client(client, Duration::ZERO, move |tree| {
                work(tree, number, random, is_lost, histories)
            });
        }
    }

    /// Returns the drainers with the times at which they start. Some die, and the last one lives.
    fn drainers(&mut self, random: &mut SmallRng, dying: f64) -> Vec<(u32, Duration)> {
        let mut drainers = Vec::new();
        for drainer in (FIRST_DRAINER..FIRST_DRAINER + DRAINERS).chain([LAST_DRAINER]) {
            if drainer != LAST_DRAINER && random.random_bool(dying) {
                self.simulation
                    .kill_at_verb(drainer, random.random_range(0..600));
            }
            let later = Duration::from_micros(random.random_range(500..3000));
            drainers.push((drainer, later));
        }
        drainers
    }

    /// Checks the tree without the node. Returns the number of moved leaves.
    fn judge(mut self, knows_values: bool) -> Result<usize, String> {
        self.finish()?;
        let histories = knows_values.then(|| self.histories.take());
        self.client(JUDGE, Duration::ZERO, move |tree| judge(tree, histories));
        self.finish()?;
        Ok(self.moved.get())
    }
}

/// Makes a run in which clients work while others drain a node, which is lost afterwards. Returns
/// the number of leaves that were moved.
///
/// # Errors
/// The first violation: an operation that fails or returns a wrong value, a key with a wrong value,
/// or a client that hangs.
pub fn run(seed: u64, plan: &DrainPlan) -> Result<usize, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let node = NodeId(random.random_range(1..3));
    let mut run = DrainRun::new(random.random(), 3, node, plan.options, plan.delivery)?;
    run.work(&mut random, plan.dying);
    for (drainer, later) in run.drainers(&mut random, plan.dying) {
        run.drainer(drainer, later);
    }
    run.lose_when_drained()?;
    run.judge(true)
}

/// Makes a run in which clients work while others move leaves to a node that was added. Returns the
/// number of leaves that were moved.
///
/// # Errors
/// The first violation, as [`run`].
pub fn run_growing(seed: u64, plan: &DrainPlan) -> Result<usize, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut run = DrainRun::growing(random.random(), plan.options, plan.delivery)?;
    run.work(&mut random, plan.dying);
    for (mover, later) in run.drainers(&mut random, plan.dying) {
        run.mover(mover, later);
    }
    run.wait_for_last()?;
    run.is_lost.set(true);
    run.judge(true)
}

/// Makes a run in which a writer fills a tree, of which the second node is drained, or to which a
/// third one is added, and in which a client dies at a verb. Returns the number of leaves that were
/// moved.
///
/// # Errors
/// The first violation, as [`run`].
pub fn run_after_death(
    dying: DyingClient,
    verb: u64,
    options: ChimeOptions,
    delivery: Delivery,
) -> Result<usize, String> {
    let mut run = match dying {
        DyingClient::Writer | DyingClient::Drainer => {
            DrainRun::new(verb, 2, NodeId(1), options, delivery)?
        }
        DyingClient::DrainerBeforeLoss => DrainRun::new(verb, 3, NodeId(1), options, delivery)?,
        DyingClient::Mover => DrainRun::growing(verb, options, delivery)?,
    };
    let is_writer = dying == DyingClient::Writer;
    let client = if is_writer { 1 } else { FIRST_DRAINER };
    run.simulation.kill_at_verb(client, verb);
    run.client(1, Duration::ZERO, fill);
    run.finish()?;
    if !is_writer {
        for (number, history) in (0..).zip(run.histories.borrow_mut().iter_mut()) {
            history.current = Some(number);
        }
        match dying {
            DyingClient::Mover => run.mover(FIRST_DRAINER, Duration::ZERO),
            _ => run.drainer(FIRST_DRAINER, Duration::ZERO),
        }
        run.finish()?;
    }
    if dying == DyingClient::Mover {
        run.mover(LAST_DRAINER, Duration::ZERO);
        return run.judge(true);
    }
    if dying == DyingClient::DrainerBeforeLoss {
        let now = run.simulation.now();
        run.simulation.lose_node(NodeId(2), now);
        run.client(LAST_DRAINER, Duration::ZERO, repair);
        return run.judge(false);
    }
    run.drainer(LAST_DRAINER, Duration::ZERO);
    run.lose_when_drained()?;
    run.judge(!is_writer)
}

/// Creates an empty tree on founding nodes, and adds others, which are closed.
async fn create_tree(
    endpoint: SimEndpoint,
    (founders, added): (&[NodeId], &[NodeId]),
    node: Arc<ChimeComputeNode>,
) -> Result<(), PoolError> {
    let tree = ChimeTree::create(endpoint, founders, INDEX_ROOT, node).await?;
    for &added in added {
        tree.close_node(added, true).await?;
        tree.add_node(added).await?;
    }
    Ok(())
}

async fn repair(tree: ChimeTree<SimEndpoint>) -> Result<(), String> {
    let repaired = tree.replace_lost_leaves().await;
    repaired.map_err(|error| format!("no repair: {error}"))?;
    Ok(())
}

async fn fill(tree: ChimeTree<SimEndpoint>) -> Result<(), String> {
    for number in 0..KEYS {
        let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
        inserted.map_err(|error| format!("insert of key {number}: {error}"))?;
    }
    Ok(())
}

/// Executes operations on the keys of a worker, which are its own, until some time after the loss.
async fn work(
    tree: ChimeTree<SimEndpoint>,
    worker: u64,
    mut random: SmallRng,
    is_lost: Rc<Cell<bool>>,
    histories: Rc<RefCell<Vec<DrainedKeyHistory>>>,
) -> Result<(), String> {
    let (mut step, mut left) = (0, STEPS_AFTER);
    while left > 0 {
        left -= u64::from(is_lost.get());
        step += 1;
        let number = random.random_range(0..KEYS / WORKERS) * WORKERS + worker;
        let place = number as usize;
        let pause = Duration::from_micros(random.random_range(0..300));
        tree.endpoint().sleep(pause).await;
        // No two writes have the same value.
        let value = worker << 32 | step;
        let change = match random.random_range(0..10) {
            0..=4 => Some(Some(value)),
            5..=6 => Some(None),
            _ => None,
        };
        if let Some(new) = change {
            histories.borrow_mut()[place].unknown.push(new);
        }
        let met = match change {
            Some(Some(value)) => tree.insert(&key(number), &value.to_le_bytes()).await,
            Some(None) => tree.remove(&key(number)).await,
            None => tree.get(&key(number)).await,
        };
        let met = met.map_err(|error| format!("key {number}, step {step}: {error}"))?;
        let met = met.map(|bytes| number_of(&bytes));
        let mut histories = histories.borrow_mut();
        let history = &mut histories[place];
        if change.is_some() {
            history.unknown.pop();
        }
        if met != history.current {
            return Err(format!("key {number} was {met:x?}, but {history:x?}"));
        }
        history.current = change.unwrap_or(met);
    }
    Ok(())
}

/// Checks that the keys have values that they may have, if these are known, and that all keys can
/// be written, read and removed.
async fn judge(
    tree: ChimeTree<SimEndpoint>,
    histories: Option<Vec<DrainedKeyHistory>>,
) -> Result<(), String> {
    if let Some(histories) = histories {
        read_all(&tree, &histories).await?;
    }
    rewrite(&tree).await
}

async fn read_all(
    tree: &ChimeTree<SimEndpoint>,
    histories: &[DrainedKeyHistory],
) -> Result<(), String> {
    let mut there = Vec::new();
    for (number, history) in (0..).zip(histories) {
        let found = tree.get(&key(number)).await;
        let found = found.map_err(|error| format!("get of key {number}: {error}"))?;
        let found = found.map(|bytes| number_of(&bytes));
        if !history.allows(found) {
            return Err(format!("key {number} is {found:x?}, but {history:x?}"));
        }
        if found.is_some() {
            there.push(key(number).to_vec());
        }
    }
    for forth in [true, false] {
        let mut scanned = all_keys(tree, forth).await?;
        if !forth {
            scanned.reverse();
        }
        if scanned != there {
            return Err(format!("scanned {scanned:?}, but got {there:?}: {forth}"));
        }
    }
    Ok(())
}

/// Writes twice the number of keys, so that leaves are divided, reads them, and removes them, so
/// that leaves are merged.
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
