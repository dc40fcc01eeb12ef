//! Nodes with several threads: traversals that only read run on any of them, and stores are made
//! once.

use super::once::{adding, read, write};
use super::world::{KEY, keys};
use crate::rack::{TENANT, rack, start, words};
use nearfield_offload::net::udp::{OffloadClient, place, serve_node_with_workers};
use nearfield_offload::net::{NodeSettings, OffloadNode};
use nearfield_offload::structures::programs::list_find;
use nearfield_offload::traversal::{QueryRunner, TraversalQuery, TraversalStatus};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

const NODES: u64 = 100;
const CALLERS: u64 = 8;
const QUERIES: u64 = 60;

/// Lets several callers look values up and add to the nodes of a list at the same time, at a node
/// that has one traversal in flight. Returns the number of iterations that workers have made.
fn run(workers: usize) -> u64 {
    let words = words(1);
    let rack = rack(&words);
    // Two lists: one is only read, each node of the other has a sum.
    let (values, sums) = (start(0), start(0) + (512 << 10));
    for number in 1..=NODES {
        for list in [values, sums] {
            let next = list + 64 * (number + 1);
            write(
                &rack,
                list + 64 * number,
                if number < NODES { next } else { 0 },
            );
        }
        write(&rack, values + 64 * number + 8, number);
    }
    let settings = NodeSettings {
        slots: 1,
        turn_iterations: 1,
        ..NodeSettings::default()
    };
    let stop = AtomicBool::new(false);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = place(&socket).unwrap();
    let (memory, stop) = (&rack.nodes()[0], &stop);
    let (served, called) = std::thread::scope(|scope| {
        let served = scope.spawn(move || {
            let create = || OffloadNode::new(memory, keys(), settings);
            serve_node_with_workers(&mut create(), workers, create, &socket, None, stop)
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                scope.spawn(move || {
                    let client = OffloadClient::new(here.into(), TENANT, KEY, |_| {});
                    let mut client = client.map_err(|error| error.to_string())?;
                    let (find, add) = (list_find(0, 8), adding());
                    for query in 0..QUERIES {
                        let value = (caller * 31 + query * 7) % NODES + 1;
                        let find = TraversalQuery::new(&find, values + 64, &[value]);
                        let add = TraversalQuery::new(&add, sums + 64, &[value]);
                        for (query, expected) in [(find, value), (add, NODES)] {
                            let outcome = client.run(&query, 1000);
                            let outcome = outcome.map_err(|error| error.to_string())?;
                            let ended = (outcome.status, outcome.iterations);
                            if ended != (TraversalStatus::Done, expected) {
                                return Err(format!("{ended:?} instead of {expected}"));
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let called: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
        stop.store(true, Ordering::Relaxed);
        (served.join(), called)
    });
    for called in called {
        assert_eq!(called.unwrap(), Ok(()));
    }
    let all = (0..CALLERS).flat_map(|caller| (0..QUERIES).map(move |query| (caller, query)));
    let sum: u64 = all
        .map(|(caller, query)| (caller * 31 + query * 7) % NODES + 1)
        .sum();
    for number in 1..=NODES {
        assert_eq!(read(&rack, sums + 64 * number + 8), sum, "node {number}");
    }
    served.unwrap().unwrap().iterations
}

#[test]
fn traversals_that_read_run_on_several_threads() {
    assert!(run(3) > 0, "the node has given nothing away");
}

#[test]
fn a_node_without_workers_gives_nothing_away() {
    assert_eq!(run(0), 0);
}
