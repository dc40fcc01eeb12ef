//! Tests of the tree with real processes: memory nodes, and compute processes that are killed at
//! any time and started again, while they run YCSB's mixes. This test program executes itself in a
//! role.
//!
//! `NEARFIELD_SECONDS` sets the length of a run, `NEARFIELD_LEASE_MS` that of leases.

#![cfg(target_os = "linux")]

mod content;
mod crew;
mod journal;
mod keys;
mod nodes;
mod over_ucx;
mod run;
mod turns;
mod with_etcd;
mod work;
mod yielding;

use crew::PoolProcessGroup;
use journal::{Journal, ProcessJournalEntry};
use keys::{key, value};
use nearfield_fabric::membership::MembershipChange;
use nearfield_fabric::transport::shm::ShmNode;
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_testkit::polling::block_on;
use nodes::{AllNodesEndpoint, RunMemoryNodes};
use run::{NODE, ProcessRunParameters, time};
use std::io::Write;
use std::sync::RwLock;
use std::time::{Duration, Instant};

/// Lease in milliseconds, if the system knows which posts have begun.
const LEASE: u64 = 100;
/// Lock that tests share if they may run at once: with the processes of all tests, two cores would
/// measure only the scheduler.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs one of the other processes, when this program is executed for it; else nothing.
#[test]
fn process_in_a_role() {
    let began = Instant::now();
    let Some((role, run)) = ProcessRunParameters::of_this_process() else {
        return;
    };
    let mut words = role.split(' ');
    let kind = words.next().expect("a role");
    let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
    if kind == "node" {
        run.nodes.serve(&run.name, numbers[0] as u16);
        return;
    }
    let connected = if run.is_mirrored && kind != "fill" {
        run.nodes.connect_to_rest()
    } else {
        run.nodes.connect(kind == "fill")
    };
    match connected.way {
        AllNodesEndpoint::Shm(_) if kind == "rejoin" => {
            // Unlike the others it waits until the node is served.
            let AllNodesEndpoint::Shm(endpoint) = run.nodes.connect(true).way else {
                panic!("it is in shared memory")
            };
            let joins = NodeId(numbers[0] as u16);
            let copied = block_on(run.mirrored(endpoint).take_in(joins));
            assert!(copied.expect("a copy") > 0);
        }
        AllNodesEndpoint::Shm(endpoint) if run.is_mirrored => {
            play(kind, &numbers, &run, run.mirrored(endpoint), began);
        }
        AllNodesEndpoint::Shm(endpoint) => play(kind, &numbers, &run, endpoint, began),
        AllNodesEndpoint::Ucx(endpoint) => play(kind, &numbers, &run, endpoint, began),
    }
    // Failures of etcd must not count as lost nodes.
    for change in connected.changes.try_iter() {
        assert!(matches!(change, MembershipChange::Found(_)), "{change:?}");
    }
}

fn play(
    kind: &str,
    numbers: &[u64],
    run: &ProcessRunParameters,
    endpoint: impl Endpoint,
    began: Instant,
) {
    match kind {
        "fill" => content::fill(run, endpoint),
        "check" => content::check(run, numbers, endpoint),
        _ => {
            let &[number, incarnation] = numbers else {
                panic!("two numbers")
            };
            let tree = block_on(run.open(endpoint)).expect("a tree");
            let history = run.history(number, incarnation);
            let journal = Journal::create(&run.journal(number, incarnation));
            journal.note(ProcessJournalEntry::Opened {
                nanoseconds: began.elapsed().as_nanos() as u64,
            });
            let outlives = run.is_mirrored;
            let stop = run.stop();
            work::PoolWorkerProcess::new(
                number,
                incarnation,
                tree,
                stop,
                journal,
                history,
                outlives,
            )
            .run();
        }
    }
}

fn killed_and_restarted(test: &str, is_small: bool) {
    let _machine = MACHINE.read();
    let run = ProcessRunParameters::new(test, in_shared_memory, is_small, LEASE);
    let mut crew = PoolProcessGroup::start(&run, None);
    let end = Instant::now() + time();
    while Instant::now() < end {
        crew.go_on();
        crew.kill_one();
    }
    crew.end();
    drop(crew);
    clean(&run);
}

fn in_shared_memory(run: &str) -> RunMemoryNodes {
    RunMemoryNodes::Listed(format!("shm:{run}"))
}

/// Removes the files of killed nodes, and the journals.
fn clean(run: &ProcessRunParameters) {
    for name in run.nodes.shared_names(&run.name) {
        drop(ShmNode::create(&name, NODE, 1 << 20).expect("a node"));
    }
    std::fs::remove_dir_all(&run.folder).expect("a folder");
}

#[test]
fn no_acknowledged_write_is_lost_when_processes_are_killed() {
    killed_and_restarted("large", false);
}

#[test]
fn nor_while_nodes_are_divided_and_merged() {
    killed_and_restarted("small", true);
}

/// Returns the longest time of the next two seconds in which a process records no operation.
fn longest_pause(crew: &PoolProcessGroup<'_>) -> Duration {
    let began = Instant::now();
    let mut noted = crew.noted();
    let mut since = vec![began; noted.len()];
    let mut longest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
        for (process, length) in crew.noted().into_iter().enumerate() {
            longest = longest.max(since[process].elapsed());
            if length != noted[process] {
                noted[process] = length;
                since[process] = Instant::now();
            }
        }
    }
    longest
}

/// One of two nodes with the same content is killed while processes work, and are killed, too.
#[test]
fn no_acknowledged_write_is_lost_when_one_of_two_replicas_is_killed() {
    let _machine = MACHINE.read();
    for victim in [0, 1] {
        let pair = |run: &str| RunMemoryNodes::Listed(format!("shm:{run}-0,shm:{run}-1"));
        let run = ProcessRunParameters {
            is_mirrored: true,
            ..ProcessRunParameters::new(&format!("mirror{victim}"), pair, true, LEASE)
        };
        let mut crew = PoolProcessGroup::start(&run, None);
        crew.go_on();
        crew.kill_one();
        crew.go_on();
        crew.nodes.remove(victim).kill();
        let paused = longest_pause(&crew);
        // The test harness would capture `println`.
        let _ = writeln!(
            std::io::stderr(),
            "without node {victim} processes paused for up to {paused:?}"
        );
        let end = Instant::now() + time();
        while Instant::now() < end {
            crew.go_on();
            crew.kill_one();
        }
        crew.end();
        drop(crew);
        clean(&run);
    }
}

/// One of two nodes is killed and comes back empty, and is taken in while processes work, and are
/// killed, too. Then the other one is killed.
#[test]
fn no_acknowledged_write_is_lost_when_a_node_comes_back_and_the_other_is_killed() {
    let _machine = MACHINE.read();
    for victim in [0, 1] {
        let pair = |run: &str| RunMemoryNodes::Listed(format!("shm:{run}-0,shm:{run}-1"));
        let run = ProcessRunParameters {
            is_mirrored: true,
            ..ProcessRunParameters::new(&format!("rejoin{victim}"), pair, true, LEASE)
        };
        let mut crew = PoolProcessGroup::start(&run, None);
        crew.go_on();
        crew.kill_node(victim);
        crew.go_on();
        crew.kill_one();
        crew.rejoin(victim);
        crew.go_on();
        crew.kill_one();
        crew.go_on();
        crew.kill_node(1 - victim);
        let end = Instant::now() + time();
        while Instant::now() < end {
            crew.go_on();
            crew.kill_one();
        }
        crew.end();
        drop(crew);
        clean(&run);
    }
}

#[test]
fn a_node_that_is_killed_is_named() {
    let _machine = MACHINE.read();
    let run = ProcessRunParameters::new("lost", in_shared_memory, true, LEASE);
    let mut node = run.start(&[], "node 0");
    let AllNodesEndpoint::Shm(endpoint) = run.nodes.connect(true).way else {
        panic!("it is in shared memory")
    };
    content::fill(&run, endpoint.clone());
    let tree = block_on(run.open(endpoint)).expect("a tree");
    let number = 2 * keys::NUMBERS / 4;
    let found = block_on(tree.get(&key(number)));
    assert!(found.expect("it lives").is_some());
    node.kill();
    let lost = PoolError::Fabric(FabricError::NodeLost { node: NODE });
    let began = Instant::now();
    let error = loop {
        if let Err(error) = block_on(tree.insert(&key(number), &value(number, 1))) {
            break error;
        }
        assert!(began.elapsed() < crew::LONG, "no check fails");
    };
    assert_eq!(error, lost);
    assert_eq!(block_on(tree.get(&key(number))), Err(lost.clone()));
    assert_eq!(block_on(tree.scan(&key(number), 10)), Err(lost));
    clean(&run);
}
