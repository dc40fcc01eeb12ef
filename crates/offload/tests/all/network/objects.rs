//! Tests of replies and requests with objects. An object is whole and of one time. A program that
//! stores is executed once, and the object of a request is stored once.

use super::once::{read, write};
use super::world::{DatagramFaults, KEY, PlantedMistake, SWITCH, World, keys};
use crate::rack::{TENANT, rack, start, words};
use nearfield_offload::isa::assemble;
use nearfield_offload::net::udp::{OffloadClient, place, serve_node};
use nearfield_offload::net::{CallerSettings, NodeSettings, OffloadNode, QueryCaller};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant};
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::traversal::{
    ProgramEngine, TraversalMemory, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use nearfield_offload::wire::{OBJECT_BYTES_MAX, ProcessAddress};
use nearfield_testkit::seeds;
use rand::RngExt;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The place of objects in the memory of a node, behind those of lists.
pub const OBJECTS: u64 = 512 << 10;
/// The words of the scratchpad in which programs leave an object's address and length.
const WORDS: [u8; 2] = [0, 1];

fn verified(code: &str) -> Arc<TraversalProgram> {
    let code = assemble(code).unwrap();
    let program = TraversalProgram::verify(code, Declaration::scratchpad(16));
    program.unwrap().into()
}

/// Returns a program that counts visits in the second word of each node of a list. The third and
/// fourth words of the last node are the address and length of an object.
pub fn counting() -> Arc<TraversalProgram> {
    verified(
        "ldxdw r6, [r1+8]
         add r6, 1
         stxdw [r1+8], r6
         ldxdw r7, [r1+16]
         stxdw [r2], r7
         ldxdw r7, [r1+24]
         stxdw [r2+8], r7
         ldxdw r0, [r1]
         exit",
    )
}

/// Returns a program that finds the object of a node without a change.
fn finding() -> Arc<TraversalProgram> {
    verified(
        "ldxdw r7, [r1+16]
         stxdw [r2], r7
         ldxdw r7, [r1+24]
         stxdw [r2+8], r7
         mov r0, 0
         exit",
    )
}

pub fn bytes(count: usize, seed: u64) -> Vec<u8> {
    (0..count as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 5) as u8)
        .collect()
}

/// Sends a query for an object and waits for both.
fn run(world: &mut World<'_, '_>, query: &TraversalQuery) -> (TraversalOutcome, Vec<u8>) {
    let counter = world.ask_with_object(0, query, 100, WORDS);
    loop {
        if let Some(outcome) = world.answer(0, counter) {
            let object = world.objects.remove(&(0, counter)).unwrap();
            return (outcome.unwrap(), object);
        }
        assert!(world.step(), "no event is left");
    }
}

fn world<'r, 'w>(rack: &'r nearfield_offload::node::RackMemory<'w>, seed: u64) -> World<'r, 'w> {
    let settings = NodeSettings {
        epoch: 1,
        engine: ProgramEngine::Interpreter,
        hops_max: 4,
        datagram_bytes: [300, 1472, 9000][seed as usize % 3],
        ..NodeSettings::default()
    };
    let change = |settings: &mut CallerSettings| {
        settings.returns_to_caller = seed % 2 == 1;
        // No query gives up, no matter how much is lost.
        settings.patience = Duration::from_secs(600);
    };
    World::of(rack, seed, DatagramFaults::HEAVY, settings, 1, change)
}

/// Gets an object several times by a program that counts its visits. The error says what is wrong.
fn count(seed: u64, nodes: usize, planted: PlantedMistake) -> Result<u64, String> {
    const TIMES: u64 = 6;
    let words = words(nodes);
    let rack = rack(&words);
    let mut world = world(&rack, seed);
    world.plant(planted);
    let list: Vec<u64> = (1..=3)
        .map(|at| start(world.random().random_range(0..nodes)) + 64 * at)
        .collect();
    let length = match seed % 5 {
        0 => OBJECT_BYTES_MAX,
        _ => world.random().random_range(1..20_000),
    };
    let object = bytes(length, seed);
    let object_at = start(world.random().random_range(0..nodes)) + OBJECTS;
    rack.store(object_at, &object).unwrap();
    for (at, &address) in list.iter().enumerate() {
        write(&rack, address, list.get(at + 1).copied().unwrap_or(0));
        write(&rack, address + 16, object_at);
        write(&rack, address + 24, length as u64);
    }
    let query = TraversalQuery::new(&counting(), list[0], &[]);
    for _ in 0..TIMES {
        let (outcome, found) = run(&mut world, &query);
        if (outcome.status, outcome.iterations) != (TraversalStatus::Done, 3) {
            return Err(format!("{outcome:?}"));
        }
        if found != object {
            return Err(format!("another object of {} bytes", found.len()));
        }
    }
    // Repeats that are still in flight have no effect either.
    while world.step() {}
    for &address in &list {
        let visits = read(&rack, address + 8);
        if visits != TIMES {
            return Err(format!("{visits} instead of {TIMES} visits"));
        }
    }
    let repeated = (0..nodes).map(|node| world.node(node).counters().repeated);
    Ok(repeated.sum())
}

#[test]
fn objects_arrive_whole_and_stores_are_made_once() {
    let mut repeated = 0;
    seeds::each(30, |seed| {
        for nodes in [1, 3] {
            repeated += count(seed, nodes, PlantedMistake::Nothing).unwrap();
        }
    });
    assert!(repeated > 0, "no reply was needed twice");
}

/// A canary: without the memory of replies, the visits are too many.
#[test]
fn a_node_that_forgets_its_objects_is_found() {
    let found = (0..20).find_map(|seed| count(seed, 3, PlantedMistake::Forgetful).err());
    assert!(found.is_some_and(|found| found.contains(" instead of ")));
}

/// Replaces an object several times by requests that carry it, by a program that counts its visits.
/// Another process changes the object after each of them. The error says what is wrong.
fn replace(seed: u64, nodes: usize, planted: PlantedMistake) -> Result<u64, String> {
    const TIMES: u64 = 6;
    let words = words(nodes);
    let rack = rack(&words);
    let mut world = world(&rack, seed);
    world.plant(planted);
    let list: Vec<u64> = (1..=3)
        .map(|at| start(world.random().random_range(0..nodes)) + 64 * at)
        .collect();
    let object_at = start(world.random().random_range(0..nodes)) + OBJECTS;
    for (at, &address) in list.iter().enumerate() {
        write(&rack, address, list.get(at + 1).copied().unwrap_or(0));
        write(&rack, address + 16, object_at);
    }
    let query = TraversalQuery::new(&counting(), list[0], &[]);
    let length = match seed % 5 {
        // A node that forgets everything never has all parts of a request.
        _ if planted != PlantedMistake::Nothing => world.random().random_range(1..64),
        // Each repeat sends all parts, so the shortest datagrams have no object of this length.
        0 if !seed.is_multiple_of(3) => OBJECT_BYTES_MAX,
        _ => world.random().random_range(1..20_000),
    };
    let after = bytes(length, seed);
    for time in 0..TIMES {
        let object = bytes(length, seed + 1 + time);
        let counter = world.ask_storing(0, &query, 100, &object);
        let outcome = loop {
            if let Some(outcome) = world.answer(0, counter) {
                break outcome.map_err(|error| error.to_string())?;
            }
            assert!(world.step(), "no event is left");
        };
        if (outcome.status, outcome.iterations) != (TraversalStatus::Done, 3) {
            return Err(format!("{outcome:?}"));
        }
        let mut found = vec![0; length];
        rack.load(object_at, &mut found).unwrap();
        if found != object {
            return Err(format!("another object of {length} bytes"));
        }
        // A repeat of the request must not replace this.
        rack.store(object_at, &after).unwrap();
        while world.step() {}
        rack.load(object_at, &mut found).unwrap();
        if found != after {
            return Err(format!("a store of {length} bytes too many"));
        }
    }
    for &address in &list {
        let visits = read(&rack, address + 8);
        if visits != TIMES {
            return Err(format!("{visits} instead of {TIMES} visits"));
        }
    }
    let repeated = (0..nodes).map(|node| world.node(node).counters().repeated);
    Ok(repeated.sum())
}

#[test]
fn objects_of_requests_are_stored_whole_and_once() {
    let mut repeated = 0;
    // Seed 10 is the second with the longest object.
    seeds::each(12, |seed| {
        for nodes in [1, 3] {
            repeated += replace(seed, nodes, PlantedMistake::Nothing).unwrap();
        }
    });
    assert!(repeated > 0, "no reply was needed twice");
}

/// A canary: without the memory of replies, objects are stored again.
#[test]
fn a_node_that_forgets_its_stores_is_found() {
    let found = (0..20).filter_map(|seed| replace(seed, 3, PlantedMistake::Forgetful).err());
    let mut found = found.filter(|found| found.ends_with(" too many"));
    assert!(found.next().is_some());
}

/// Other processes replace the object at any time, also between the replies to a repeated request.
#[test]
fn an_object_is_that_of_one_time() {
    const OBJECT: usize = 4000;
    let mut changes = 0;
    seeds::each(30, |seed| {
        let words = words(1);
        let rack = rack(&words);
        let mut world = world(&rack, seed);
        let (node, object_at) = (start(0) + 64, start(0) + OBJECTS);
        let mut version = 1;
        let replace = |version: u8| rack.store(object_at, &[version; OBJECT]).unwrap();
        replace(version);
        write(&rack, node + 16, object_at);
        write(&rack, node + 24, OBJECT as u64);
        let query = TraversalQuery::new(&finding(), node, &[]);
        for _ in 0..20 {
            let counter = world.ask_with_object(0, &query, 100, WORDS);
            let first = version;
            let object = loop {
                if world
                    .answer(0, counter)
                    .is_some_and(|outcome| outcome.is_ok())
                {
                    break world.objects.remove(&(0, counter)).unwrap();
                }
                if version < 250 && world.random().random_bool(0.01) {
                    version += 1;
                    replace(version);
                    changes += 1;
                }
                assert!(world.step(), "no event is left");
            };
            assert_eq!(object.len(), OBJECT);
            let found = object[0];
            assert!(object.iter().all(|byte| *byte == found), "seed {seed}");
            assert!((first..=version).contains(&found), "{found}");
        }
    });
    assert!(changes > 0, "no object was replaced");
}

/// Makes a node without a network run a query for an object.
fn answer(node: &mut OffloadNode<'_>, address: u64) -> (TraversalStatus, Vec<u8>) {
    let settings = CallerSettings::new(ProcessAddress(1), SWITCH, TENANT, KEY);
    let mut caller = QueryCaller::new(settings);
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    let query = TraversalQuery::new(&finding(), address, &[]);
    caller.ask_with_object(Duration::ZERO, &query, 9, WORDS, &mut sent);
    loop {
        for datagram in std::mem::take(&mut sent) {
            node.receive(Duration::ZERO, SWITCH, &datagram.datagram, &mut out);
        }
        node.turn(&mut out);
        for datagram in std::mem::take(&mut out) {
            let done = caller.receive(Duration::ZERO, &datagram.datagram, &mut sent);
            if let Some(done) = done {
                return (done.outcome.unwrap().status, done.object);
            }
        }
        assert!(!sent.is_empty(), "the node has not replied");
    }
}

#[test]
fn objects_that_cannot_be_sent_have_a_status() {
    let words = words(1);
    let part = |start: u64, tenant: Tenant| NodeRange {
        offset: start,
        ..NodeRange::whole((1 << 32) + start, OBJECTS, tenant)
    };
    let ranges = NodeRanges::new(vec![part(0, TENANT), part(OBJECTS, Tenant(1))]).unwrap();
    let memory = LocalMemory::new(&words[0], ranges).unwrap();
    let mut node = OffloadNode::new(&memory, keys(), NodeSettings::default());
    let own = memory.of(TENANT);
    let first = start(0) + 64;
    let mut status = |object: u64, bytes: u64| {
        for (at, word) in [(16, object), (24, bytes)] {
            own.store(first + at, &word.to_le_bytes()).unwrap();
        }
        answer(&mut node, first)
    };
    let longest = OBJECT_BYTES_MAX as u64;
    let object_at = start(0) + 4096;
    own.store(object_at, &bytes(OBJECT_BYTES_MAX, 1)).unwrap();
    let whole = (TraversalStatus::Done, bytes(OBJECT_BYTES_MAX, 1));
    assert!(status(object_at, longest) == whole);
    assert!(status(object_at, 1) == (TraversalStatus::Done, whole.1[..1].to_vec()));
    let nothing = |status| (status, Vec::new());
    assert_eq!(status(object_at, 0), nothing(TraversalStatus::Done));
    assert_eq!(status(0, 100), nothing(TraversalStatus::Done));
    let long = status(object_at, longest + 1);
    assert_eq!(long, nothing(TraversalStatus::Split));
    let across = status(start(0) + OBJECTS - 8, 16);
    assert_eq!(across, nothing(TraversalStatus::Split));
    let other = status(start(0) + OBJECTS, 16);
    assert_eq!(other, nothing(TraversalStatus::Denied));
}

#[test]
fn an_object_that_no_node_holds_has_a_status() {
    let words = words(2);
    let rack = rack(&words);
    let mut world = World::new(&rack, 1, DatagramFaults::USUAL);
    let node = start(0) + 64;
    write(&rack, node + 16, 1 << 50);
    write(&rack, node + 24, 8);
    let query = TraversalQuery::new(&finding(), node, &[]);
    let (outcome, object) = run(&mut world, &query);
    assert_eq!(outcome.status, TraversalStatus::NoSuchAddress);
    assert_eq!((outcome.address, outcome.iterations), (1 << 50, 1));
    assert!(object.is_empty());
}

/// Makes a node without a network run a query with an object. Returns the status, and the number
/// of datagrams to the node.
fn stored(node: &mut OffloadNode<'_>, address: u64, object: &[u8]) -> (TraversalStatus, u64) {
    let settings = CallerSettings::new(ProcessAddress(2), SWITCH, TENANT, KEY);
    let mut caller = QueryCaller::new(settings);
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    let query = TraversalQuery::new(&finding(), address, &[]);
    let asked = caller.ask_storing(Duration::ZERO, &query, 9, (WORDS[0], object), &mut sent);
    assert!(asked.is_some());
    loop {
        for datagram in std::mem::take(&mut sent) {
            node.receive(Duration::ZERO, SWITCH, &datagram.datagram, &mut out);
        }
        node.turn(&mut out);
        for datagram in std::mem::take(&mut out) {
            let done = caller.receive(Duration::ZERO, &datagram.datagram, &mut sent);
            if let Some(done) = done {
                return (done.outcome.unwrap().status, caller.counters().sent);
            }
        }
        assert!(!sent.is_empty(), "the node has not replied");
    }
}

#[test]
fn objects_that_cannot_be_stored_have_a_status_and_no_effect() {
    let words = words(1);
    let part = |start: u64, tenant: Tenant| NodeRange {
        offset: start,
        ..NodeRange::whole((1 << 32) + start, OBJECTS, tenant)
    };
    let ranges = NodeRanges::new(vec![part(0, TENANT), part(OBJECTS, Tenant(1))]).unwrap();
    let memory = LocalMemory::new(&words[0], ranges).unwrap();
    let own = memory.of(TENANT);
    let first = start(0) + 64;
    let object = bytes(OBJECT_BYTES_MAX, 5);
    let status = |at: u64, length: usize| {
        // Each node is a new one, because each caller counts from the same number.
        let mut node = OffloadNode::new(&memory, keys(), NodeSettings::default());
        own.store(first + 16, &at.to_le_bytes()).unwrap();
        stored(&mut node, first, &object[..length]).0
    };
    let object_at = start(0) + 4096;
    for length in [1, 1000, OBJECT_BYTES_MAX] {
        own.store(object_at, &vec![0; OBJECT_BYTES_MAX]).unwrap();
        assert_eq!(status(object_at, length), TraversalStatus::Done);
        let mut found = vec![0; OBJECT_BYTES_MAX];
        own.load(object_at, &mut found).unwrap();
        assert!(found[..length] == object[..length]);
        assert!(found[length..].iter().all(|byte| *byte == 0));
    }
    // A program that finds no place stores nothing.
    assert_eq!(status(0, 16), TraversalStatus::Done);
    let end = start(0) + OBJECTS;
    assert_eq!(status(end - 8, 16), TraversalStatus::Split);
    assert_eq!(status(end, 16), TraversalStatus::Denied);
    let mut last = [0; 8];
    own.load(end - 8, &mut last).unwrap();
    assert_eq!(last, [0; 8]);
    memory.of(Tenant(1)).load(end, &mut last).unwrap();
    assert_eq!(last, [0; 8]);
    // The first request is one datagram for a short object, and the second has the program.
    let mut node = OffloadNode::new(&memory, keys(), NodeSettings::default());
    own.store(first + 16, &object_at.to_le_bytes()).unwrap();
    assert_eq!(stored(&mut node, first, &object[..8]).1, 2);
    // An empty object and one that is too long are not sent.
    let settings = CallerSettings::new(ProcessAddress(2), SWITCH, TENANT, KEY);
    let mut caller = QueryCaller::new(settings);
    let query = TraversalQuery::new(&finding(), first, &[]);
    for wrong in [0, OBJECT_BYTES_MAX + 1] {
        let (wrong, mut out) = (vec![1; wrong], Vec::new());
        let asked = caller.ask_storing(Duration::ZERO, &query, 9, (WORDS[0], &wrong), &mut out);
        assert_eq!((asked, out.len()), (None, 0));
    }
}

#[test]
fn the_object_of_a_request_for_no_node_has_a_status() {
    let words = words(2);
    let rack = rack(&words);
    let mut world = World::new(&rack, 1, DatagramFaults::USUAL);
    let node = start(0) + 64;
    write(&rack, node + 16, 1 << 50);
    let query = TraversalQuery::new(&finding(), node, &[]);
    let counter = world.ask_storing(0, &query, 100, &bytes(8192, 1));
    let outcome = loop {
        if let Some(outcome) = world.answer(0, counter) {
            break outcome.unwrap();
        }
        assert!(world.step(), "no event is left");
    };
    assert_eq!(outcome.status, TraversalStatus::NoSuchAddress);
    assert_eq!((outcome.address, outcome.iterations), (1 << 50, 1));
}

#[test]
fn objects_arrive_over_udp() {
    let words = words(1);
    let rack = rack(&words);
    let node = start(0) + 64;
    let object = bytes(OBJECT_BYTES_MAX, 3);
    rack.store(start(0) + OBJECTS, &object).unwrap();
    write(&rack, node + 16, start(0) + OBJECTS);
    let stop = AtomicBool::new(false);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = place(&socket).unwrap();
    let lengths = [1, 1000, 8192, 20_000, OBJECT_BYTES_MAX];
    let found = std::thread::scope(|scope| {
        let (memory, stop) = (&rack.nodes()[0], &stop);
        scope.spawn(move || {
            let mut node = OffloadNode::new(memory, keys(), NodeSettings::default());
            serve_node(&mut node, &socket, None, stop)
        });
        let client = OffloadClient::new(here.into(), TENANT, KEY, |_| {});
        let found = client.map(|mut client| {
            lengths.map(|length| {
                write(&rack, node + 24, length as u64);
                let query = TraversalQuery::new(&finding(), node, &[]);
                client.run_with_object(&query, 100, WORDS)
            })
        });
        stop.store(true, Ordering::Relaxed);
        found
    });
    for (length, found) in lengths.into_iter().zip(found.unwrap()) {
        let (outcome, found) = found.unwrap();
        assert_eq!(outcome.status, TraversalStatus::Done);
        assert!(found == object[..length], "{length}");
    }
}
