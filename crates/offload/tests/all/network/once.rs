//! Programs that store do so exactly once under all faults of datagrams.

use super::world::{DatagramFaults, KEY, PlantedMistake, SWITCH, World, keys};
use crate::rack::{NODE_BYTES, TENANT, rack, range, start, words};
use nearfield_offload::isa::assemble;
use nearfield_offload::net::{CallerSettings, NodeSettings, OffloadNode, QueryCaller};
use nearfield_offload::node::RackMemory;
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant, TenantPermission};
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::traversal::{
    ProgramEngine, TraversalMemory, TraversalQuery, TraversalStatus,
};
use nearfield_offload::wire::{OffloadMessage, OffloadMessageKind, ProcessAddress};
use nearfield_testkit::seeds;
use parking_lot::FairMutex;
use rand::RngExt;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Assembles and verifies a program.
pub fn program(text: &str, declaration: Declaration) -> Arc<TraversalProgram> {
    let program = TraversalProgram::verify(assemble(text).unwrap(), declaration);
    Arc::new(program.unwrap())
}

/// Returns a program that adds the first word of the scratchpad to the second word of each node of
/// a list.
pub fn adding() -> Arc<TraversalProgram> {
    program(
        "ldxdw r6, [r2]
         ldxdw r7, [r1+8]
         add r7, r6
         stxdw [r1+8], r7
         ldxdw r0, [r1]
         exit",
        Declaration::scratchpad(8),
    )
}

/// Returns a program that pushes the first word of the scratchpad to the front of a list. The
/// list's head is at the current address.
fn pushing() -> Arc<TraversalProgram> {
    program(
        "ldxdw r6, [r1]
         stxdw [r4], r6
         ldxdw r6, [r2]
         stxdw [r4+8], r6
         stxdw [r1], r5
         mov r0, 0
         exit",
        Declaration {
            scratchpad: 32,
            regions_at: Some(8),
        },
    )
}

pub fn write(rack: &RackMemory<'_>, address: u64, word: u64) {
    rack.store(address, &word.to_le_bytes()).unwrap();
}

pub fn read(rack: &RackMemory<'_>, address: u64) -> u64 {
    let mut word = [0; 8];
    rack.load(address, &mut word).unwrap();
    u64::from_le_bytes(word)
}

/// Creates some lists over all nodes. Returns the addresses of their nodes.
fn lists(world: &mut World<'_, '_>, rack: &RackMemory<'_>) -> Vec<Vec<u64>> {
    let count = rack.nodes().len();
    (0..4)
        .map(|list| {
            let nodes: Vec<u64> = (0..world.random().random_range(1..12))
                .map(|at| {
                    let node = world.random().random_range(0..count);
                    start(node) + (list * 100 + at) * 64
                })
                .collect();
            for (at, &address) in nodes.iter().enumerate() {
                write(rack, address, nodes.get(at + 1).copied().unwrap_or(0));
                write(rack, address + 8, 0);
            }
            nodes
        })
        .collect()
}

const CALLERS: usize = 3;

/// Lets several callers add to lists at once. The error names the word that differs.
fn add(seed: u64, nodes: usize, planted: PlantedMistake) -> Result<u64, String> {
    let words = words(nodes);
    let rack = rack(&words);
    let settings = NodeSettings {
        epoch: 1,
        engine: ProgramEngine::Interpreter,
        hops_max: 4,
        iterations_max: 5,
        ..NodeSettings::default()
    };
    let returns = seed % 2 == 1;
    let change = |settings: &mut CallerSettings| {
        settings.returns_to_caller = returns;
        // No query gives up, no matter how much is lost.
        settings.patience = Duration::from_secs(600);
    };
    let mut world = World::of(
        &rack,
        seed,
        DatagramFaults::HEAVY,
        settings,
        CALLERS,
        change,
    );
    world.plant(planted);
    let lists = lists(&mut world, &rack);
    let program = adding();
    let mut sums: HashMap<u64, u64> = HashMap::new();
    let mut pending: Vec<(usize, u64, u64)> = Vec::new();
    let mut repeated = 0;
    for asked in 1..=25 {
        let list = &lists[world.random().random_range(0..lists.len())];
        let amount = world.random().random_range(1..1000);
        let caller = world.random().random_range(0..CALLERS);
        let query = TraversalQuery::new(&program, list[0], &[amount]);
        let counter = world.ask(caller, &query, 1000);
        for &node in list {
            *sums.entry(node + 8).or_default() += amount;
        }
        pending.push((caller, counter, list.len() as u64));
        while asked == 25 && !pending.is_empty()
            || pending.len() > world.random().random_range(0..6)
        {
            assert!(world.step());
            pending.retain(|&(caller, counter, iterations)| {
                let Some(outcome) = world.answer(caller, counter) else {
                    return true;
                };
                let outcome = outcome.unwrap();
                let ended = (outcome.status, outcome.iterations);
                assert_eq!(ended, (TraversalStatus::Done, iterations));
                false
            });
        }
    }
    // Repeats that are still in flight have no effect either.
    while world.step() {}
    for node in 0..nodes {
        repeated += world.node(node).counters().repeated;
    }
    for (address, sum) in sums {
        let found = read(&rack, address);
        if found != sum {
            return Err(format!("{found} instead of {sum} at {address:#x}"));
        }
    }
    Ok(repeated)
}

#[test]
fn stores_are_made_once() {
    let mut repeated = 0;
    seeds::each(40, |seed| {
        for nodes in [1, 4] {
            repeated += add(seed, nodes, PlantedMistake::Nothing).unwrap();
        }
    });
    assert!(repeated > 0, "no reply was needed twice");
}

/// A canary: without the memory of replies, stores are made twice, and the test above notices it.
#[test]
fn a_node_that_forgets_its_answers_is_found() {
    let found = (0..20).find_map(|seed| add(seed, 4, PlantedMistake::Forgetful).err());
    assert!(found.is_some_and(|found| found.contains(" instead of ")));
}

#[test]
fn entries_are_put_into_lists_once() {
    seeds::each(20, |seed| {
        let words = words(1);
        let rack = rack(&words);
        let mut world = World::new(&rack, seed, DatagramFaults::HEAVY);
        let head = start(0) + 64;
        let program = pushing();
        for value in 1..=20 {
            let region = start(0) + 4096 + value * 256;
            let query = TraversalQuery::new(&program, head, &[value, 1, region]);
            let outcome = world.run(&query, 10).unwrap();
            assert_eq!(
                (outcome.status, outcome.word(1)),
                (TraversalStatus::Done, 0)
            );
        }
        // Without a region there is a status, and no effect.
        let outcome = world
            .run(&TraversalQuery::new(&program, head, &[21, 0]), 10)
            .unwrap();
        assert_eq!(outcome.status, TraversalStatus::OutOfRegions);
        // A region that is in no memory is reported, too.
        let lost = start(0) + NODE_BYTES;
        let outcome = world
            .run(&TraversalQuery::new(&program, head, &[21, 1, lost]), 10)
            .unwrap();
        assert_eq!(
            (outcome.status, outcome.address),
            (TraversalStatus::NoSuchAddress, head)
        );
        while world.step() {}
        let mut values = Vec::new();
        let mut at = read(&rack, head);
        while at != 0 {
            values.push(read(&rack, at + 8));
            at = read(&rack, at);
        }
        assert_eq!(values, (1..=20).rev().collect::<Vec<u64>>());
    });
}

/// Makes a node run a query. Returns the request.
fn request(node: &mut OffloadNode<'_>, query: &TraversalQuery, iterations: u64) -> Vec<u8> {
    let settings = CallerSettings::new(ProcessAddress(1), SWITCH, TENANT, KEY);
    let mut caller = QueryCaller::new(settings);
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    caller.ask(Duration::ZERO, query, iterations, &mut sent);
    node.receive(Duration::ZERO, SWITCH, &sent[0].datagram, &mut out);
    // The caller sends the program only after the node requests it.
    let [refused] = &out[..] else {
        panic!("{out:?}")
    };
    sent.clear();
    caller.receive(Duration::ZERO, &refused.datagram, &mut sent);
    out.clear();
    node.receive(Duration::ZERO, SWITCH, &sent[0].datagram, &mut out);
    assert!(node.has_work() && out.is_empty());
    sent.remove(0).datagram
}

/// A node runs programs only in its turns.
#[test]
fn programs_wait_for_their_turn() {
    let words = words(1);
    let rack = rack(&words);
    let address = start(0) + 64;
    let (turn, is_done) = (FairMutex::new(()), AtomicBool::new(false));
    let mut node =
        OffloadNode::new(&rack.nodes()[0], keys(), NodeSettings::default()).in_turn(&turn);
    let mut out = Vec::new();
    request(&mut node, &TraversalQuery::new(&adding(), address, &[5]), 9);
    let held = turn.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while node.has_work() {
                node.turn(&mut out);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        std::thread::sleep(Duration::from_millis(50));
        let was_done = is_done.load(Ordering::Relaxed) || read(&rack, address + 8) != 0;
        drop(held);
        assert!(!was_done, "it has run meanwhile");
    });
    assert_eq!(read(&rack, address + 8), 5);
}

/// A turn makes the configured number of iterations at most. A range that was taken away from the
/// tenant, or may no longer be written, is refused from the next turn on.
#[test]
fn revoked_ranges_are_refused_after_one_turn() {
    let address = start(0) + 64;
    let whole = range(0);
    let others = Tenant(TENANT.0 + 1);
    let read_only = NodeRange {
        permission: TenantPermission::Read,
        ..whole
    };
    let of_other = NodeRange {
        tenant: others,
        ..whole
    };
    let elsewhere = NodeRange {
        start: start(1),
        ..whole
    };
    let circling = program("ldxdw r0, [r1]\n exit", Declaration::scratchpad(8));
    for (program, changed, status) in [
        (adding(), whole, None),
        (adding(), read_only, Some(TraversalStatus::Denied)),
        (adding(), of_other, Some(TraversalStatus::Denied)),
        (circling.clone(), read_only, None),
        (circling.clone(), of_other, Some(TraversalStatus::Denied)),
        (circling, elsewhere, Some(TraversalStatus::StaleMap)),
    ] {
        for slots in [1, 24] {
            let words = words(1);
            let rack = rack(&words);
            // A cycle of one node.
            rack.store(address, &address.to_le_bytes()).unwrap();
            let changed = NodeRanges::new(vec![changed]).unwrap();
            let changed = LocalMemory::new(&words[0], changed).unwrap();
            let settings = NodeSettings {
                slots,
                ..NodeSettings::default()
            };
            let a_turn = settings.turn_iterations as u64;
            let mut node = OffloadNode::new(&rack.nodes()[0], keys(), settings);
            let query = TraversalQuery::new(&program, address, &[5]);
            let again = request(&mut node, &query, 1 << 16);
            let mut out = Vec::new();
            node.turn(&mut out);
            assert!(out.is_empty(), "{out:?}");
            let before = read(&rack, address + 8);
            assert!(before == 0 || before == 5 * a_turn, "{before}");
            node.change_memory(&changed);
            node.turn(&mut out);
            let Some(status) = status else {
                assert!(out.is_empty(), "{out:?}");
                continue;
            };
            assert_eq!(read(&rack, address + 8), before);
            let [sent] = &out[..] else { panic!("{out:?}") };
            let sent = OffloadMessage::decode(&sent.datagram, |_| Some(KEY)).unwrap();
            assert_eq!((sent.made, sent.address), (a_turn, address));
            if status == TraversalStatus::StaleMap {
                // The traversal continues, by the switch, at the node that has the range now.
                assert_eq!(sent.kind, OffloadMessageKind::Request);
            } else {
                assert_eq!(
                    (sent.kind, sent.status),
                    (OffloadMessageKind::Response, status)
                );
            }
            // A request that has stored gets the same response as before, and is not executed
            // again. Otherwise it is refused again.
            let first = out.remove(0).datagram;
            node.receive(Duration::ZERO, SWITCH, &again, &mut out);
            while node.has_work() {
                node.turn(&mut out);
            }
            assert_eq!(out.len(), 1);
            assert_eq!(read(&rack, address + 8), before);
            if program.changes_memory() {
                assert_eq!(out[0].datagram, first);
            } else {
                let sent = OffloadMessage::decode(&out[0].datagram, |_| Some(KEY)).unwrap();
                assert_eq!((sent.made, sent.status), (0, status));
            }
        }
    }
}
