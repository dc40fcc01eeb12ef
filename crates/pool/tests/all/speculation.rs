//! Tests that speculation that turns itself off when it loses, or on when the link is full, is
//! about as fast as the faster of always and never.

use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_hardware::network::{NetworkParameters, NetworkPreset};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions, ChimeTree, Speculation};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);
const KEYS: u64 = 500;
const CLIENTS: u32 = 16;
/// Number of reads of each client: together several dozens of the gate's phases.
const READS: usize = 4000;

/// Returns the virtual time in which clients of one compute node read keys at random.
fn takes(network: NetworkParameters, key: fn(u64) -> u64, options: ChimeOptions) -> Duration {
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes = [simulation.add_node(16 << 20)];
    // Each read is done separately.
    let options = ChimeOptions {
        delegates_reads: false,
        ..options
    };
    let node = Arc::new(ChimeComputeNode::new(options).expect("sizes"));
    let (endpoint, shared) = (simulation.endpoint(0), Arc::clone(&node));
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, ROOT, shared).await;
        let tree = tree.expect("a tree");
        for number in 0..KEYS {
            let key = key(number).to_be_bytes();
            tree.insert(&key, &key).await.expect("inserted");
        }
    });
    assert_eq!(simulation.run(), 0);
    let begin = simulation.now();
    let found = Rc::new(Cell::new(0));
    for client in 1..=CLIENTS {
        let (endpoint, shared) = (simulation.endpoint(client), Arc::clone(&node));
        let found = Rc::clone(&found);
        simulation.spawn(client, async move {
            let tree = ChimeTree::open(endpoint, &nodes, ROOT, shared).await;
            let tree = tree.expect("a tree");
            let random = &mut SmallRng::seed_from_u64(client.into());
            for _ in 0..READS {
                let key = key(random.random_range(0..KEYS)).to_be_bytes();
                let value = tree.get(&key).await.expect("read");
                found.set(found.get() + usize::from(value.as_deref() == Some(&key)));
            }
        });
    }
    assert_eq!(simulation.run(), 0);
    assert_eq!(found.get(), CLIENTS as usize * READS);
    simulation.now() - begin
}

/// Returns the times with speculation never, always, and with this policy.
fn times(
    name: &str,
    network: NetworkParameters,
    key: fn(u64) -> u64,
    options: ChimeOptions,
    choice: Speculation,
) -> [f64; 3] {
    let never = ChimeOptions {
        hotspot_bytes: 0,
        ..options
    };
    let of = |speculation| ChimeOptions {
        speculation,
        ..options
    };
    let times = [never, of(Speculation::Always), of(choice)];
    let times = times.map(|options| takes(network, key, options).as_secs_f64() * 1e3);
    let [never, always, chosen] = times;
    eprintln!("{name}: {never:.2} ms never, {always:.2} always, {chosen:.2} {choice:?}");
    times
}

/// Returns the times of CHIME, with speculation on while it makes searches faster.
fn measured(name: &str, network: NetworkParameters, key: fn(u64) -> u64) -> [f64; 3] {
    times(
        name,
        network,
        key,
        ChimeOptions::chime(),
        Speculation::Adaptive,
    )
}

#[test]
fn it_is_on_where_bytes_are_scarce() {
    let narrow = NetworkParameters {
        bytes_per_second: 0.2e9,
        ..NetworkPreset::ConnectX6.parameters()
    };
    let key = |number| number + 1;
    let [never, always, adaptive] = measured("narrow", narrow, key);
    assert!(always < never * 0.5);
    assert!(adaptive < always * 1.25);
}

#[test]
fn it_is_off_where_guesses_are_wrong() {
    // Hotspots distinguish keys by their last two bytes, which are equal here.
    let key = |number| (number + 1) << 16;
    let [never, always, adaptive] = measured("alike", NetworkPreset::ConnectX6.parameters(), key);
    assert!(always > never * 1.3);
    assert!(adaptive < never * 1.15);
}

#[test]
fn it_is_as_the_load_of_attached_memory_is() {
    let of = |name, bytes_per_second| {
        let network = NetworkParameters {
            bytes_per_second,
            ..NetworkPreset::Cxl.parameters()
        };
        let (key, options): (fn(u64) -> u64, _) = (|number| number + 1, ChimeOptions::attached());
        times(name, network, key, options, options.speculation)
    };
    // Processors are the bottleneck, so looking up hotspots loses.
    let [never, always, by_load] = of("idle", 24e9);
    assert!(always > never * 1.15);
    // One operation in 64 looks up nevertheless.
    assert!(by_load < never * 1.04);
    // The link is the bottleneck, so lines are scarce.
    let [never, always, by_load] = of("full", 0.7e9);
    assert!(always < never * 0.8);
    assert!(by_load < always * 1.15);
}
