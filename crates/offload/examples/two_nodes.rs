//! Memory nodes, a switch and a client together. Two memory nodes announce their addresses to a
//! switch. A hash table has its nodes on both. A client looks keys up, and a lookup that leaves one
//! memory node goes on at the other.
//!
//! All run in one process here. The commands `nearfield memory-node` and `nearfield switch` are
//! processes that do the same for the memory of `nearfield-fabric`.

use nearfield_offload::net::udp::{Announcer, OffloadClient, place, serve_node, serve_switch};
use nearfield_offload::net::{NodeSettings, OffloadNode, Switch, SwitchRangeTable, TenantKeys};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, RackMemory, Tenant};
use nearfield_offload::structures::{NodeArena, OffloadHashTable, entry};
use nearfield_offload::traversal::{QueryRunner, TraversalStatus};
use nearfield_offload::wire::{Announcement, AuthenticationKey, ProcessAddress};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// The tenant whose programs run, its key, and the key by which the switch knows memory nodes.
/// Programs in use read them from files.
const TENANT: Tenant = Tenant(1);
const KEY: AuthenticationKey = AuthenticationKey([1; 32]);
const RACK: AuthenticationKey = AuthenticationKey([2; 32]);
/// Bytes of a memory node.
const BYTES: u64 = 1 << 20;
const KEYS: u64 = 1000;

/// Returns the first address of a memory node.
fn start(node: usize) -> u64 {
    (node as u64 + 1) << 32
}

/// Returns the memory of a node, all of which the tenant may read and write.
fn memory(node: usize, words: &[AtomicU64]) -> Result<LocalMemory<'_>, Failure> {
    let ranges = NodeRanges::new(vec![NodeRange::whole(start(node), BYTES, TENANT)])?;
    Ok(LocalMemory::new(words, ranges)?)
}

fn run_node(
    number: usize,
    memory: &LocalMemory<'_>,
    switch: ProcessAddress,
    stop: &AtomicBool,
) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut keys = TenantKeys::new();
    keys.insert(TENANT, KEY);
    // A node that restarts takes a higher epoch, because its contents are lost.
    let epoch = 1;
    let announcer = Announcer {
        switch,
        key: RACK,
        announcement: Announcement {
            epoch,
            node: place(&socket)?,
            ranges: vec![(start(number), BYTES)],
        },
    };
    let settings = NodeSettings {
        epoch,
        ..NodeSettings::default()
    };
    let mut node = OffloadNode::new(memory, keys, settings);
    serve_node(&mut node, &socket, Some(&announcer), stop)?;
    println!("node {number}: {}", node.counters());
    Ok(())
}

fn run_switch(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    let mut switch = Switch::new(SwitchRangeTable::default(), Some(RACK));
    serve_switch(&mut switch, socket, stop, |_| {})?;
    println!("switch: {}", switch.counters());
    Ok(())
}

/// Looks keys up through the switch, some of which are absent.
fn look_up(table: &OffloadHashTable, switch: ProcessAddress) -> Result<(), Failure> {
    let mut client = OffloadClient::new(switch.into(), TENANT, KEY, |_| {})?;
    let began = Instant::now();
    for key in 0..KEYS + 100 {
        let outcome = loop {
            let outcome = client.run(&table.find(key), 1000)?;
            match outcome.status {
                TraversalStatus::Done => break outcome,
                // The switch does not know both nodes yet.
                TraversalStatus::NoSuchAddress if began.elapsed() < Duration::from_secs(20) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                status => return Err(format!("key {key}: {status:?}").into()),
            }
        };
        let found = entry(&outcome).map(|found| found.value);
        if found != (key < KEYS).then(|| key * key) {
            return Err(format!("key {key}: {found:?} is wrong").into());
        }
    }
    println!("{} look-ups on two memory nodes are right", KEYS + 100);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words = || (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    let words: [Vec<AtomicU64>; 2] = [words(), words()];
    let rack = RackMemory::new(vec![memory(0, &words[0])?, memory(1, &words[1])?], TENANT);
    // The caller builds the table. Its chains go from node to node.
    let parts = (0..2).map(|node| start(node)..start(node) + BYTES);
    let mut arena = NodeArena::new(rack.clone(), parts.collect());
    let mut table = OffloadHashTable::new(&mut arena, 64)?;
    for key in 0..KEYS {
        table.insert(&mut arena, key, key * key)?;
    }
    let stop = &AtomicBool::new(false);
    let socket = &UdpSocket::bind("127.0.0.1:0")?;
    let switch = place(socket)?;
    std::thread::scope(|scope| {
        scope.spawn(move || run_switch(socket, stop));
        for (number, memory) in rack.nodes().iter().enumerate() {
            scope.spawn(move || run_node(number, memory, switch, stop));
        }
        let looked_up = look_up(&table, switch);
        // Also after an error, or the others would go on.
        stop.store(true, Ordering::Relaxed);
        looked_up
    })
}
