//! Nodes whose programs are translated by another thread.

use super::once::write;
use super::world::{KEY, SWITCH, keys};
use crate::rack::{TENANT, rack, start, words};
use nearfield_offload::net::udp::{OffloadClient, place, serve_node};
use nearfield_offload::net::{CallerSettings, NodeSettings, OffloadNode, QueryCaller};
use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::programs::list_find;
use nearfield_offload::traversal::{
    QueryRunner, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use nearfield_offload::wire::ProcessAddress;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NODES: u64 = 50;

/// Writes a list of the values from 1 on.
fn list(rack: &RackMemory<'_>) {
    for number in 1..=NODES {
        let next = if number < NODES {
            start(0) + 64 * (number + 1)
        } else {
            0
        };
        write(rack, start(0) + 64 * number, next);
        write(rack, start(0) + 64 * number + 8, number);
    }
}

/// Returns the query for a value.
fn query(value: u64) -> TraversalQuery {
    TraversalQuery::new(&list_find(0, 8), start(0) + 64, &[value])
}

fn settings() -> NodeSettings {
    NodeSettings {
        translation_budget: Some(Duration::from_millis(100)),
        ..NodeSettings::default()
    }
}

/// Makes a node without a network run a query.
fn run(node: &mut OffloadNode<'_>, value: u64) -> TraversalOutcome {
    let settings = CallerSettings::new(ProcessAddress(1), SWITCH, TENANT, KEY);
    let mut caller = QueryCaller::new(settings);
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    caller.ask(Duration::ZERO, &query(value), 1000, &mut sent);
    loop {
        for datagram in std::mem::take(&mut sent) {
            node.receive(Duration::ZERO, SWITCH, &datagram.datagram, &mut out);
        }
        while node.has_work() {
            node.turn(&mut out);
        }
        for datagram in std::mem::take(&mut out) {
            let done = caller.receive(Duration::ZERO, &datagram.datagram, &mut sent);
            if let Some(done) = done {
                return done.outcome.unwrap();
            }
        }
        assert!(!sent.is_empty(), "the node has not replied");
    }
}

#[test]
fn translated_programs_do_what_interpreted_ones_did() {
    let words = words(1);
    let rack = rack(&words);
    list(&rack);
    let mut node = OffloadNode::new(&rack.nodes()[0], keys(), settings());
    let values = [1, 7, NODES, NODES + 1];
    let before = values.map(|value| run(&mut node, value));
    let job = node.next_translation(Duration::ZERO).unwrap();
    assert!(node.next_translation(Duration::ZERO).is_none());
    // Any thread may translate it.
    let done = std::thread::spawn(move || job.run()).join().unwrap();
    node.take_translated(Duration::ZERO, done, Duration::from_millis(1));
    let after = values.map(|value| run(&mut node, value));
    assert_eq!(before, after);
    assert_eq!(before[1].iterations, 7);
}

#[test]
fn a_served_node_translates_beside_its_work_and_ends() {
    let words = words(1);
    let rack = rack(&words);
    list(&rack);
    let stop = AtomicBool::new(false);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = place(&socket).unwrap();
    let found = std::thread::scope(|scope| {
        let (memory, stop) = (&rack.nodes()[0], &stop);
        scope.spawn(move || {
            let mut node = OffloadNode::new(memory, keys(), settings());
            serve_node(&mut node, &socket, None, stop)
        });
        let client = OffloadClient::new(here.into(), TENANT, KEY, |_| {});
        let found = client.map(|mut client| {
            let values = (0..500).map(|number| number % NODES + 1);
            let found = values.map(|value| (value, client.run(&query(value), 1000)));
            found.collect::<Vec<_>>()
        });
        stop.store(true, Ordering::Relaxed);
        found
    });
    for (value, outcome) in found.unwrap() {
        let outcome = outcome.unwrap();
        let ended = (outcome.status, outcome.iterations);
        assert_eq!(ended, (TraversalStatus::Done, value));
    }
}
