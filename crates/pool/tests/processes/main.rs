//! The tree with real processes: a memory node, and compute processes that are killed at any time and
//! started again, while they run YCSB's mixes. This test program executes itself in a role.
//!
//! `NEARFIELD_SECONDS` says for how long, `NEARFIELD_LEASE_MS` how long leases are.

#![cfg(target_os = "linux")]

mod journal;
mod keys;
mod work;
mod yielding;

use journal::{Entry, History, Journal};
use keys::{NUMBERS, PROCESSES, initial, is_shared, key, scanned, value, version_of, writer};
use nearfield_fabric::shm::{ShmEndpoint, ShmNode};
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId};
use nearfield_pool::layout::Shape;
use nearfield_pool::tree::{ComputeNode, Locks, Options, Tree};
use nearfield_pool::{PoolError, PoolIndex};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use yielding::Yielding;

const NODE: NodeId = NodeId(0);
const NODE_BYTES: u64 = 1 << 30;
const ROOT: GlobalAddress = GlobalAddress::new(NODE, 64);
/// Not zero when all processes are to end.
const STOP: GlobalAddress = GlobalAddress::new(NODE, 2048);
/// Who works longer than this after he was told to stop hangs: a lease or two, on a machine on which
/// others are at work, too.
const LEASES_TO_END: u32 = 10;
const SLACK: Duration = Duration::from_secs(10);

const ROLE: &str = "NEARFIELD_TEST_ROLE";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

fn number_of(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

fn lease() -> Duration {
    Duration::from_millis(number_of("NEARFIELD_LEASE_MS", 100))
}

/// What all processes of a run have to know.
#[derive(Clone, Debug)]
struct Run {
    /// The node's name.
    name: String,
    /// Where the journals are.
    folder: PathBuf,
    is_small: bool,
}

impl Run {
    fn options(&self) -> Options {
        let of_small = |shape| Shape {
            leaf_span: 16,
            internal_span: 8,
            ..shape
        };
        let shape = Shape {
            value_bytes: 16,
            ..Shape::default()
        };
        Options {
            shape: if self.is_small {
                of_small(shape)
            } else {
                shape
            },
            cache_bytes: 1 << 20,
            hotspot_bytes: 1 << 16,
            locks: Locks::Leased(lease()),
            ..Options::nearfield()
        }
    }

    fn compute_node(&self) -> Arc<ComputeNode> {
        Arc::new(ComputeNode::new(self.options()).expect("sizes"))
    }

    fn attach(&self) -> Yielding<ShmEndpoint> {
        Yielding(ShmEndpoint::attach([&self.name]).expect("a node"))
    }

    async fn open(&self) -> Result<Tree<Yielding<ShmEndpoint>>, PoolError> {
        Tree::open(self.attach(), &[NODE], ROOT, self.compute_node()).await
    }

    fn journal(&self, process: u64, incarnation: u64) -> PathBuf {
        self.folder.join(format!("{process}-{incarnation}"))
    }

    /// What the incarnations of a process before this one have written.
    fn history(&self, process: u64, incarnations: u64) -> History {
        let mut history = History::default();
        for incarnation in 1..incarnations {
            let entries = journal::read(&self.journal(process, incarnation));
            history.take(&entries);
        }
        history
    }

    /// Starts this program in a role: "node", or the number of a process and its incarnation.
    fn start(&self, role: &str) -> Process {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "process_in_a_role", "--nocapture"])
            .env(ROLE, role)
            .env("NEARFIELD_TEST_NAME", &self.name)
            .env("NEARFIELD_TEST_FOLDER", &self.folder)
            .env("NEARFIELD_TEST_SMALL", u64::from(self.is_small).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Process(child.expect("this program runs"))
    }

    fn of_this_process() -> Run {
        Run {
            name: std::env::var("NEARFIELD_TEST_NAME").expect("a name"),
            folder: std::env::var_os("NEARFIELD_TEST_FOLDER")
                .expect("a folder")
                .into(),
            is_small: number_of("NEARFIELD_TEST_SMALL", 0) != 0,
        }
    }
}

/// A process, which is killed if it is not waited for.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of the other processes, when this program is executed for it; else nothing.
#[test]
fn process_in_a_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let run = Run::of_this_process();
    if role == "node" {
        let node = ShmNode::create(&run.name, NODE, NODE_BYTES).expect("a node");
        node.serve(&AtomicBool::new(false));
        return;
    }
    let (number, incarnation) = role.split_once('-').expect("two numbers");
    let [number, incarnation] = [number, incarnation].map(|word| word.parse().expect("a number"));
    let journal = Journal::create(&run.journal(number, incarnation));
    let tree = block_on(run.open()).expect("a tree");
    let history = run.history(number, incarnation);
    let stop = (run.attach(), STOP);
    work::Process::new(number, incarnation, tree, stop, journal, history).run();
}

/// Starts a node, and a tree in it with all even numbers.
fn begin(run: &Run) -> Process {
    let node = run.start("node");
    let began = Instant::now();
    while ShmEndpoint::attach([&run.name]).is_err() {
        assert!(began.elapsed() < SLACK, "no node");
        std::thread::sleep(Duration::from_millis(1));
    }
    block_on(async {
        let tree = Tree::create(run.attach(), &[NODE], ROOT, run.compute_node()).await;
        let tree = tree.expect("a tree");
        for number in (0..NUMBERS).filter(|number| initial(*number).is_some()) {
            let before = tree.insert(&key(number), &value(number, 0)).await;
            assert_eq!(before, Ok(None));
        }
    });
    node
}

fn run(test: &str, is_small: bool) -> Run {
    let name = format!("test-{}-{test}", std::process::id());
    let folder = std::env::temp_dir().join(format!("nearfield-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    Run {
        name,
        folder,
        is_small,
    }
}

/// Kills processes and starts them again for a time; answers how many incarnations each has had.
fn kill_for(run: &Run, time: Duration) -> Vec<u64> {
    let random = &mut SmallRng::seed_from_u64(number_of("NEARFIELD_SEED", 1));
    let mut incarnations = vec![1; PROCESSES as usize];
    let start = |process: usize, incarnation: u64| run.start(&format!("{process}-{incarnation}"));
    let mut processes: Vec<Process> = (0..PROCESSES as usize).map(|at| start(at, 1)).collect();
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(random.random_range(500..1500)));
        let victim = random.random_range(0..processes.len());
        for process in &mut processes {
            let ended = process.0.try_wait().expect("a process");
            assert!(ended.is_none(), "{ended:?}, as its output says");
        }
        processes[victim].0.kill().expect("it lives");
        processes[victim].0.wait().expect("it ends");
        incarnations[victim] += 1;
        processes[victim] = start(victim, incarnations[victim]);
    }
    block_on(run.attach().write(STOP, &[1; 8])).expect("a node");
    let until = Instant::now() + lease() * LEASES_TO_END + SLACK;
    for (number, process) in processes.iter_mut().enumerate() {
        loop {
            if let Some(ended) = process.0.try_wait().expect("a process") {
                assert!(ended.success(), "{ended:?}, as its output says");
                break;
            }
            assert!(Instant::now() < until, "process {number} hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    incarnations
}

/// Checks, as one who comes later, that all is there that was acknowledged.
async fn check(run: &Run, incarnations: &[u64]) {
    let mut histories = Vec::new();
    let mut shared = BTreeSet::from([0]);
    for (process, incarnations) in (0..).zip(incarnations) {
        histories.push(run.history(process, incarnations + 1));
        for incarnation in 1..=*incarnations {
            let entries = journal::read(&run.journal(process, incarnation));
            shared.extend(entries.iter().filter_map(|entry| match entry {
                Entry::Put { number, version } if is_shared(*number) => Some(*version),
                _ => None,
            }));
        }
    }
    let tree = run.open().await.expect("a tree");
    let mut all = Vec::new();
    for number in 0..NUMBERS {
        let found = tree.get(&key(number)).await.expect("the node lives");
        let found = found.map(|value| version_of(number, &value));
        all.extend(found.map(|version| (number, version)));
        if is_shared(number) {
            let begun = found.is_some_and(|version| shared.contains(&version));
            assert!(begun, "{number} is {found:x?}, which nobody has written");
            continue;
        }
        let possible = histories[writer(number).0 as usize].of(number);
        assert!(
            possible.allows(found),
            "{number} is {found:x?}, and not of {possible:x?}"
        );
    }
    let count = NUMBERS as usize;
    let whole = tree.scan(&[0; 8], count).await.expect("the node lives");
    assert_eq!(scanned(&whole, 0, count), all);
    let mut back = tree
        .scan_back(&[255; 8], count)
        .await
        .expect("the node lives");
    back.reverse();
    assert_eq!(back, whole);
    // All of it can be changed: no lock is left behind.
    for (number, version) in all {
        let before = tree.update(&key(number), &value(number, version)).await;
        let before = before.expect("the node lives").expect("it is there");
        assert_eq!(version_of(number, &before), version);
    }
    let sum = |of: fn(&History) -> u64| histories.iter().map(of).sum::<u64>();
    let longest = histories.iter().map(|history| history.longest).max();
    let longest = longest.unwrap_or_default();
    let restarts: u64 = incarnations.iter().sum::<u64>() - PROCESSES;
    eprintln!(
        "{restarts} kills; {} operations; {} writes acknowledged, {} not; longest operation {longest:?}, lease {:?}",
        sum(|history| history.operations),
        sum(|history| history.acknowledged),
        sum(|history| history.unacknowledged),
        lease(),
    );
    // Two of the dead may be in the way one after the other; a process may not get a processor.
    assert!(longest < lease() * LEASES_TO_END + Duration::from_secs(2));
}

fn killed_and_restarted(test: &str, is_small: bool) {
    let run = run(test, is_small);
    let node = begin(&run);
    let incarnations = kill_for(&run, Duration::from_secs(number_of("NEARFIELD_SECONDS", 5)));
    block_on(check(&run, &incarnations));
    drop(node);
    clean(&run);
}

/// Takes away what a node that was killed has left, and the journals.
fn clean(run: &Run) {
    drop(ShmNode::create(&run.name, NODE, 1 << 20).expect("a node"));
    remove(&run.folder);
}

fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn no_acknowledged_write_is_lost_when_processes_are_killed() {
    killed_and_restarted("large", false);
}

#[test]
fn nor_while_nodes_are_divided_and_merged() {
    killed_and_restarted("small", true);
}

#[test]
fn a_node_that_is_killed_is_named() {
    let run = run("lost", true);
    let node = begin(&run);
    let tree = block_on(run.open()).expect("a tree");
    let number = 2 * keys::NUMBERS / 4;
    assert!(
        block_on(tree.get(&key(number)))
            .expect("it lives")
            .is_some()
    );
    drop(node);
    let lost = PoolError::Fabric(FabricError::NodeLost { node: NODE });
    let began = Instant::now();
    let error = loop {
        if let Err(error) = block_on(tree.insert(&key(number), &value(number, 1))) {
            break error;
        }
        assert!(began.elapsed() < Duration::from_secs(1), "nobody notices");
    };
    assert_eq!(error, lost);
    assert_eq!(block_on(tree.get(&key(number))), Err(lost.clone()));
    assert_eq!(block_on(tree.scan(&key(number), 10)), Err(lost));
    clean(&run);
}
