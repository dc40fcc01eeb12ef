//! The same tests while etcd, through which the processes find the nodes, is killed and comes back.
//! A process that has found the nodes no longer needs etcd.
//!
//! Without etcd this prints a notice and passes, unless `NEARFIELD_REQUIRE_ETCD=1`.

use crate::crew::{LONG, PoolProcessGroup};
use crate::nodes::RunMemoryNodes;
use crate::run::{ProcessRunParameters, time};
use crate::{LEASE, MACHINE, clean};
use nearfield_testkit::etcd::EtcdCluster;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of memory nodes, all of which hold the tree.
const NODES: usize = 2;

fn registered(cluster: &EtcdCluster) -> RunMemoryNodes {
    RunMemoryNodes::Registered {
        count: NODES,
        members: cluster.urls().parse().expect("URLs"),
    }
}

/// Waits until a process that was started has found the nodes; returns the time that it took.
fn until_found(journal: &Path) -> Duration {
    let began = Instant::now();
    while !journal.exists() {
        assert!(began.elapsed() < LONG, "the nodes are not found");
        std::thread::sleep(Duration::from_millis(1));
    }
    began.elapsed()
}

/// Lets the processes continue; all except one must make progress meanwhile.
fn all_but_one_go_on(crew: &mut PoolProcessGroup<'_>, one: usize) {
    let before = crew.noted();
    crew.go_on();
    let began = Instant::now();
    let has_gone_on = |now: Vec<u64>| {
        let mut processes = before.iter().zip(now).enumerate();
        processes.all(|(process, (before, now))| process == one || now > *before)
    };
    while !has_gone_on(crew.noted()) {
        assert!(began.elapsed() < LONG, "a process waits for etcd");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_acknowledged_write_is_lost_while_etcd_loses_its_leader() {
    let _machine = MACHINE.write();
    let Some(mut cluster) = EtcdCluster::start(3) else {
        return;
    };
    let run = ProcessRunParameters::new("leader", |_| registered(&cluster), false, LEASE);
    let mut crew = PoolProcessGroup::start(&run, None);
    let end = Instant::now() + time();
    let (mut elections, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        crew.go_on();
        let leader = cluster.leader();
        cluster.kill(leader);
        elections += 1;
        // The kill follows at once, while there is no leader.
        let victim = crew.kill_one();
        longest = longest.max(until_found(&crew.journal(victim)));
        all_but_one_go_on(&mut crew, victim);
        crew.kill_one();
        cluster.run(leader);
        cluster.wait_ready();
    }
    eprintln!("{elections} leaders of etcd killed; nodes were found within {longest:?}");
    crew.end();
    drop(crew);
    clean(&run);
}

#[test]
fn no_acknowledged_write_is_lost_while_etcd_is_away() {
    let _machine = MACHINE.write();
    let Some(mut cluster) = EtcdCluster::start(1) else {
        return;
    };
    let run = ProcessRunParameters::new("away", |_| registered(&cluster), true, LEASE);
    let mut crew = PoolProcessGroup::start(&run, None);
    let end = Instant::now() + time();
    let (mut outages, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        crew.go_on();
        crew.kill_one();
        crew.go_on();
        cluster.kill(0);
        let victim = crew.kill_one();
        all_but_one_go_on(&mut crew, victim);
        let journal = crew.journal(victim);
        assert!(!journal.exists(), "the nodes are not registered");
        // Each second time, etcd restarts without its former data.
        outages += 1;
        if outages % 2 == 0 {
            cluster.forget_all();
        }
        cluster.run(0);
        cluster.wait_ready();
        longest = longest.max(until_found(&journal));
    }
    eprintln!("etcd was away {outages} times; nodes were found {longest:?} after it at the latest");
    crew.end();
    drop(crew);
    clean(&run);
}
