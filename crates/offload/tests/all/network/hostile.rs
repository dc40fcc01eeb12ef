//! Bad datagrams, programs, pointers and maps lead to a typed error, or are dropped and counted.

use super::once::{program, write};
use super::world::{DatagramFaults, KEY, SWITCH, World, keys, node_place};
use crate::rack::{NODE_BYTES, TENANT, rack, range, start, words};
use nearfield_offload::net::{
    CallerSettings, NodeSettings, OffloadCallError, OffloadNode, QueryCaller, Switch,
    SwitchRangeTable,
};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant, TenantPermission};
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::structures::programs::list_find;
use nearfield_offload::traversal::{
    InMemory, ProgramEngine, QueryRunner, TraversalMemory, TraversalOutcome, TraversalQuery,
    TraversalStatus,
};
use nearfield_offload::wire::{
    Announcement, AuthenticationKey, MessageFragment, OffloadMessage, OffloadMessageKind,
    ProcessAddress, RequestObject,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

/// Returns a program that follows the first word of each node, and counts nodes in the scratchpad.
fn counting() -> Arc<TraversalProgram> {
    program(
        "ldxdw r6, [r2]
         add r6, 1
         stxdw [r2], r6
         ldxdw r0, [r1]
         exit",
        Declaration::scratchpad(8),
    )
}

/// Counts nodes from an address on.
fn count(world: &mut World<'_, '_>, address: u64, iterations: u64) -> TraversalOutcome {
    let query = TraversalQuery::new(&counting(), address, &[0]);
    world.run(&query, iterations).unwrap()
}

/// Returns a request of a caller to count nodes.
fn counting_request() -> OffloadMessage {
    let program = counting();
    OffloadMessage {
        kind: OffloadMessageKind::Request,
        status: TraversalStatus::Done,
        returns_to_caller: false,
        object: None,
        hops: 0,
        caller: ProcessAddress(1),
        counter: 1,
        settled: 1,
        visit: 0,
        tenant: TENANT,
        map_epoch: 1,
        address: start(0),
        made: 0,
        left: 10,
        program: program.hash(),
        scratchpad: vec![0; 8],
        carried: Vec::new(),
        body: program.encode(),
    }
}

fn settings() -> NodeSettings {
    NodeSettings {
        epoch: 1,
        engine: ProgramEngine::Interpreter,
        ..NodeSettings::default()
    }
}

#[test]
fn circles_end_at_the_limit_of_iterations() {
    let words = words(2);
    let rack = rack(&words);
    write(&rack, start(0) + 64, start(1) + 64);
    write(&rack, start(1) + 64, start(0) + 64);
    let mut world = World::new(&rack, 1, DatagramFaults::USUAL);
    // More iterations than a node makes at once, and more hops than a switch allows.
    let outcome = count(&mut world, start(0) + 64, 501);
    let state = (
        outcome.status,
        outcome.address,
        outcome.word(0),
        outcome.iterations,
    );
    assert_eq!(
        state,
        (TraversalStatus::IterationLimit, start(1) + 64, 501, 501)
    );
    let refused = |node| world.node(node).counters().of(TraversalStatus::HopLimit);
    assert!(refused(0) + refused(1) >= 3);
    // A cycle within one node is interrupted in favour of others.
    write(&rack, start(0) + 64, start(0) + 64);
    let limited = NodeSettings {
        iterations_max: 10,
        ..settings()
    };
    let mut world = World::of(&rack, 1, DatagramFaults::USUAL, limited, 1, |_| {});
    let outcome = count(&mut world, start(0) + 64, 501);
    assert_eq!(
        (outcome.status, outcome.word(0)),
        (TraversalStatus::IterationLimit, 501)
    );
    assert!(world.node(0).counters().of(TraversalStatus::IterationLimit) >= 51);
}

#[test]
fn pointers_to_nowhere_are_told_with_their_state() {
    let words = words(2);
    let rack = rack(&words);
    let nowhere = [7, start(0) + NODE_BYTES, start(9), u64::MAX];
    for returns in [false, true] {
        let change = |settings: &mut CallerSettings| settings.returns_to_caller = returns;
        let mut world = World::of(&rack, 1, DatagramFaults::USUAL, settings(), 1, change);
        for address in nowhere {
            write(&rack, start(0) + 64, start(1) + 64);
            write(&rack, start(1) + 64, address);
            let outcome = count(&mut world, start(0) + 64, 99);
            let state = (outcome.status, outcome.address, outcome.word(0));
            assert_eq!(state, (TraversalStatus::NoSuchAddress, address, 2));
            let outcome = count(&mut world, address, 99);
            assert_eq!(
                (outcome.status, outcome.iterations),
                (TraversalStatus::NoSuchAddress, 0)
            );
        }
        // The node's bytes exceed its range.
        let last = start(1) + NODE_BYTES - 4;
        let outcome = count(&mut world, last, 99);
        assert_eq!(
            (outcome.status, outcome.address),
            (TraversalStatus::Split, last)
        );
    }
}

#[test]
fn a_wrong_map_sends_nothing_in_circles() {
    let words = words(2);
    let rack = rack(&words);
    write(&rack, start(0) + 64, start(1) + 64);
    let mut world = World::new(&rack, 1, DatagramFaults::NONE);
    let mut map = SwitchRangeTable::default();
    map.give(start(0), 2 << 32, node_place(0)).unwrap();
    world.switch = Switch::new(map, None);
    let outcome = world.run(&TraversalQuery::new(&counting(), start(0) + 64, &[0]), 99);
    let last = Some(TraversalStatus::StaleMap);
    assert_eq!(outcome, Err(OffloadCallError::NoAnswer { last }));
    assert!(world.node(0).counters().of(TraversalStatus::StaleMap) > 1);
    // The map is corrected while the caller retries.
    let counter = world.ask(
        0,
        &TraversalQuery::new(&counting(), start(0) + 64, &[0]),
        99,
    );
    for _ in 0..20 {
        world.step();
    }
    world.switch = Switch::new(super::world::map(2), None);
    let outcome = loop {
        if let Some(outcome) = world.answer(0, counter) {
            break outcome.unwrap();
        }
        assert!(world.step());
    };
    assert_eq!(
        (outcome.status, outcome.word(0)),
        (TraversalStatus::Done, 2)
    );
}

/// Two tenants share a node; each has a part, and a part that it may only read.
#[test]
fn programs_of_a_tenant_never_see_anothers_memory() {
    const OTHER: Tenant = Tenant(8);
    const OTHER_KEY: AuthenticationKey = AuthenticationKey([43; 32]);
    let words = words(1);
    let part = |number: u64, tenant, permission| NodeRange {
        start: start(0) + number * 0x1000,
        bytes: 0x1000,
        offset: number * 0x1000,
        tenant,
        permission,
    };
    let ranges = NodeRanges::new(vec![
        part(1, TENANT, TenantPermission::Write),
        part(2, OTHER, TenantPermission::Write),
        part(3, TENANT, TenantPermission::Read),
        part(4, OTHER, TenantPermission::Read),
    ]);
    let memory = LocalMemory::new(&words[0], ranges.unwrap()).unwrap();
    let secret = 0x5ec2_e7ed_0000_0001_u64;
    for tenant in [TENANT, OTHER] {
        let number = if tenant == TENANT { 1 } else { 2 };
        let address = start(0) + number * 0x1000;
        let of = memory.of(tenant);
        of.store(address, &secret.to_le_bytes()).unwrap();
    }
    let mut keys = keys();
    keys.insert(OTHER, OTHER_KEY);
    let mut node = OffloadNode::new(&memory, keys, settings());
    let word = Declaration::scratchpad(8);
    let reading = program("ldxdw r6, [r1]\n stxdw [r2], r6\n mov r0, 0\n exit", word);
    let writing = program("stdw [r1], 1\n mov r0, 0\n exit", word);
    // The tenant tries to reach the other's memory by a new allocation.
    let regions = Declaration {
        scratchpad: 16,
        regions_at: Some(0),
    };
    let allocating = program("stdw [r4], 1\n mov r0, 0\n exit", regions);
    let here = ProcessAddress(1);
    let mut first = 0;
    let mut ask = |tenant: Tenant,
                   key: AuthenticationKey,
                   program: &Arc<TraversalProgram>,
                   part: u64,
                   words: &[u64]| {
        let mut settings = CallerSettings::new(here, node_place(0), tenant, key);
        // Each is a new caller at the same place.
        first += 1;
        settings.first = first;
        let mut caller = QueryCaller::new(settings);
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        let query = TraversalQuery::new(program, start(0) + part * 0x1000, words);
        caller.ask(Duration::ZERO, &query, 10, &mut out);
        loop {
            let datagram = out.pop()?.datagram;
            node.receive(Duration::ZERO, here, &datagram, &mut sent);
            while node.has_work() {
                node.turn(&mut sent);
            }
            let answer = caller.receive(Duration::ZERO, &sent.pop()?.datagram, &mut out);
            if let Some(answer) = answer {
                let outcome = answer.outcome.unwrap();
                return Some((outcome.status, outcome.word(0)));
            }
        }
    };
    // Each tenant reaches its own memory; the other's is denied, and nothing of it is returned.
    for (tenant, key, own, others) in [
        (TENANT, KEY, [1, 3], [2, 4]),
        (OTHER, OTHER_KEY, [2, 4], [1, 3]),
    ] {
        let denied = (TraversalStatus::Denied, 0);
        for (program, part, expected) in [
            (&reading, own[0], (TraversalStatus::Done, secret)),
            (&reading, own[1], (TraversalStatus::Done, 0)),
            (&writing, own[1], denied),
            (&reading, others[0], denied),
            (&writing, others[0], denied),
            (&reading, others[1], denied),
            (&writing, others[1], denied),
        ] {
            let told = ask(tenant, key, program, part, &[0]);
            assert_eq!(told, Some(expected), "part {part}");
        }
        for other in others {
            let region = start(0) + other * 0x1000;
            let told = ask(tenant, key, &allocating, own[0], &[1, region]);
            // The list of regions is as before.
            assert_eq!(told, Some((TraversalStatus::Denied, 1)));
        }
    }
    // Requests with another tenant's key, or of a tenant that does not exist, get no response.
    assert_eq!(ask(OTHER, KEY, &reading, 2, &[0]), None);
    assert_eq!(ask(TENANT, OTHER_KEY, &reading, 1, &[0]), None);
    assert_eq!(ask(Tenant(9), KEY, &reading, 1, &[0]), None);
    assert_eq!(node.counters().foreign, 3);
    for number in [1, 2] {
        let mut word = [0; 8];
        let owner = if number == 1 { TENANT } else { OTHER };
        memory
            .of(owner)
            .load(start(0) + number * 0x1000, &mut word)
            .unwrap();
        assert_eq!(u64::from_le_bytes(word), secret);
    }
}

#[test]
fn refusals_have_their_status() {
    let words = words(1);
    let rack = rack(&words);
    let small = NodeSettings {
        waiting_max: 2,
        ..settings()
    };
    let mut node = OffloadNode::new(&rack.nodes()[0], keys(), small);
    let request = counting_request();
    let mut status = |request: &OffloadMessage| {
        let mut out = Vec::new();
        node.receive(Duration::ZERO, SWITCH, &request.encode(&KEY), &mut out);
        let sent = out.pop()?;
        assert!(out.is_empty() && sent.to == SWITCH);
        let answer = OffloadMessage::decode(&sent.datagram, |_| Some(KEY)).unwrap();
        assert_eq!(
            (answer.kind, answer.counter),
            (OffloadMessageKind::Response, request.counter)
        );
        assert_eq!(
            (answer.address, answer.left),
            (request.address, request.left)
        );
        Some(answer.status)
    };
    type MessageChange = fn(&mut OffloadMessage);
    let refusals: [(MessageChange, TraversalStatus); 5] = [
        (|it| it.body.clear(), TraversalStatus::UnknownProgram),
        (
            |it| it.body = vec![1, 2, 3],
            TraversalStatus::RefusedProgram,
        ),
        (
            |it| it.body = list_find(0, 8).encode(),
            TraversalStatus::RefusedProgram,
        ),
        (|it| it.hops = 129, TraversalStatus::HopLimit),
        (|it| it.address = start(1), TraversalStatus::StaleMap),
    ];
    for (change, expected) in refusals {
        let mut request = request.clone();
        change(&mut request);
        assert_eq!(status(&request), Some(expected));
    }
    assert_eq!(status(&request), None);
    assert_eq!(status(&request), None);
    assert_eq!(status(&request), Some(TraversalStatus::Busy));
    let mut out = Vec::new();
    while node.has_work() {
        node.turn(&mut out);
    }
    assert_eq!(out.len(), 2);
    // A node ignores a response, and reports that memory was lost.
    let response = OffloadMessage {
        kind: OffloadMessageKind::Response,
        ..request.clone()
    };
    node.receive(
        Duration::ZERO,
        SWITCH,
        &response.encode(&KEY),
        &mut Vec::new(),
    );
    assert_eq!(node.counters().unexpected, 1);
    let young = NodeSettings {
        epoch: 2,
        ..settings()
    };
    let mut node = OffloadNode::new(&rack.nodes()[0], keys(), young);
    let mut out = Vec::new();
    node.receive(Duration::ZERO, SWITCH, &request.encode(&KEY), &mut out);
    let answer = OffloadMessage::decode(&out[0].datagram, |_| Some(KEY)).unwrap();
    assert_eq!(
        (answer.status, answer.map_epoch),
        (TraversalStatus::MemoryLost, 2)
    );
}

/// A request in parts that have correct tags, of a caller that does not keep to the format, is
/// neither executed nor mixed with another request.
#[test]
fn hostile_parts_of_requests_have_no_effect() {
    let words = words(1);
    let rack = rack(&words);
    let other = Tenant(9);
    let other_key = AuthenticationKey([9; 32]);
    let mut known = keys();
    known.insert(other, other_key);
    let mut node = OffloadNode::new(&rack.nodes()[0], known, settings());
    let request = OffloadMessage {
        // The program has ended at another node, so that only the object is left.
        object: Some(RequestObject {
            address: 1,
            length: 0,
            is_next: true,
        }),
        scratchpad: [0, start(0) + 4096].map(u64::to_le_bytes).concat(),
        carried: vec![7; 5000],
        body: Vec::new(),
        ..counting_request()
    };
    let mut send = |datagram: &[u8]| {
        let mut out = Vec::new();
        node.receive(Duration::ZERO, SWITCH, datagram, &mut out);
        let counters = node.counters();
        (
            out.len(),
            counters.works,
            counters.malformed,
            counters.foreign,
        )
    };
    let parts = request.encode_in_parts(&KEY, 1472);
    let decode = |datagram: &[u8], key| MessageFragment::decode(datagram, |_| Some(key)).unwrap();
    // Never complete: the last part is missing, and the others come again and again.
    for _ in 0..100 {
        for part in &parts[1..] {
            assert_eq!(send(part), (0, 0, 0, 0));
        }
    }
    // The missing part comes from another tenant, by whose key it is sealed.
    let mut first = decode(&parts[0], KEY);
    first.tenant = other;
    assert_eq!(send(&first.encode(&other_key)), (0, 0, 0, 0));
    // It is sealed by a wrong key, and overlaps others.
    assert_eq!(
        send(&decode(&parts[0], KEY).encode(&other_key)),
        (0, 0, 0, 1)
    );
    let mut overlapping = decode(&parts[1], KEY);
    overlapping.position -= 8;
    assert_eq!(send(&overlapping.encode(&KEY)), (0, 0, 1, 1));
    // All parts are of one tenant, but the message in them is of another.
    for part in &parts {
        let mut part = decode(part, KEY);
        part.tenant = other;
        assert_eq!(send(&part.encode(&other_key)).0, 0);
    }
    let mut word = [0; 8];
    rack.load(start(0) + 4096, &mut word).unwrap();
    assert_eq!(word, [0; 8]);
    // Too many: those that have been incomplete for longest make room.
    for counter in 0..2000 {
        let mut part = decode(&parts[1], KEY);
        part.counter = 1000 + counter;
        assert_eq!(send(&part.encode(&KEY)).0, 0);
    }
    // The right parts have the effect, even so.
    let sent: usize = parts.iter().map(|part| send(part).0).sum();
    assert_eq!(sent, 1);
    rack.load(start(0) + 4096, &mut word).unwrap();
    assert_eq!(word, [7; 8]);
    // As a repeat they only get the reply again, one for the first part.
    rack.store(start(0) + 4096, &[8; 8]).unwrap();
    for (number, part) in parts.iter().enumerate() {
        let (sent, works, ..) = send(part);
        assert_eq!((sent, works), (usize::from(number == 0), 1), "{number}");
    }
    rack.load(start(0) + 4096, &mut word).unwrap();
    assert_eq!(word, [8; 8]);
}

#[test]
fn a_switch_serves_its_nodes_and_no_strangers() {
    const RACK: AuthenticationKey = AuthenticationKey([1; 32]);
    let (node, caller, stranger) = (ProcessAddress(50), ProcessAddress(60), ProcessAddress(70));
    let mut switch = Switch::new(SwitchRangeTable::default(), Some(RACK));
    let announcement = Announcement {
        epoch: 3,
        node,
        ranges: vec![(range(0).start, range(0).bytes)],
    };
    let mut forged = announcement.encode(&AuthenticationKey([2; 32]));
    assert_eq!(switch.receive(stranger, &mut forged), None);
    assert_eq!(
        (switch.counters().refused, switch.map().find(start(0))),
        (1, None)
    );
    assert_eq!(switch.receive(node, &mut announcement.encode(&RACK)), None);
    assert_eq!(switch.map().find(start(0)), Some(node));
    // A switch without a key accepts no announcement.
    let mut plain = Switch::new(SwitchRangeTable::default(), None);
    assert_eq!(plain.receive(node, &mut announcement.encode(&RACK)), None);
    assert_eq!(plain.counters().refused, 1);
    let mut message = |kind, address, from: ProcessAddress| {
        let message = OffloadMessage {
            kind,
            caller,
            address,
            scratchpad: Vec::new(),
            body: Vec::new(),
            ..counting_request()
        };
        switch.receive(from, &mut message.encode(&KEY))
    };
    let (request, response) = (OffloadMessageKind::Request, OffloadMessageKind::Response);
    for (kind, address, from, to) in [
        (request, start(0), caller, Some(node)),
        (response, start(0), node, Some(caller)),
        (request, start(1), caller, Some(caller)),
        (request, start(1), node, Some(caller)),
        // No other sender can make the switch send something to the caller.
        (request, start(1), stranger, None),
        (response, start(0), stranger, None),
    ] {
        assert_eq!(message(kind, address, from), to, "{kind:?} from {from:?}");
    }
    assert_eq!(switch.counters().dropped, 2);
    // Parts go where their messages go.
    let carried = OffloadMessage {
        object: Some(RequestObject {
            address: 0,
            length: 0,
            is_next: false,
        }),
        carried: vec![7; 5000],
        caller,
        ..counting_request()
    };
    let mut parts = carried.encode_in_parts(&KEY, 1472);
    assert!(parts.len() > 3);
    for part in &mut parts {
        assert_eq!(switch.receive(caller, part), Some(node));
    }
    let nowhere = OffloadMessage {
        address: start(1),
        ..carried
    };
    for mut part in nowhere.encode_in_parts(&KEY, 1472) {
        assert_eq!(switch.receive(caller, &mut part), Some(caller));
        assert_eq!(switch.receive(stranger, &mut part), None);
    }
    for length in 0..200 {
        switch.receive(stranger, &mut vec![0xff; length]);
    }
    assert_eq!(switch.counters().malformed, 200);
}

/// A traversal over 300 nodes in turn reaches its end, although hardly any run of that many
/// datagrams is without loss.
#[test]
fn long_ways_are_repeated_in_parts() {
    let words = words(2);
    let rack = rack(&words);
    let place = |at: u64| start((at % 2) as usize) + at * 64;
    for at in 0..300 {
        write(&rack, place(at), if at < 299 { place(at + 1) } else { 0 });
    }
    let mut world = World::new(&rack, 1, DatagramFaults::USUAL);
    for _ in 0..20 {
        let outcome = count(&mut world, place(0), 1000);
        assert_eq!(
            (outcome.status, outcome.word(0)),
            (TraversalStatus::Done, 300)
        );
    }
}

/// Random changes of real datagrams, and random datagrams, do no harm.
#[test]
fn noise_changes_no_answer() {
    let words = words(2);
    let rack = rack(&words);
    let count = 30;
    for at in 0..count {
        let node = (at % 2) as usize;
        let next = if at + 1 < count {
            start(1 - node) + (at + 1) * 64
        } else {
            0
        };
        write(&rack, start(node) + at * 64, next);
    }
    let query = TraversalQuery::new(&counting(), start(0), &[0]);
    let Ok(expected) = InMemory::new(rack.clone()).run(&query, 1000);
    assert_eq!(expected.word(0), count);
    let mut world = World::new(&rack, 3, DatagramFaults::USUAL);
    let mut random = SmallRng::seed_from_u64(3);
    let mut caller = QueryCaller::new(CallerSettings::new(ProcessAddress(1), SWITCH, TENANT, KEY));
    let mut out = Vec::new();
    caller.ask(Duration::ZERO, &query, 1000, &mut out);
    let real = out.pop().unwrap().datagram;
    for _ in 0..100 {
        for to in [SWITCH, node_place(0), node_place(1), ProcessAddress(1)] {
            let mut datagram = real.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..datagram.len());
                datagram[at] = random.random();
            }
            datagram.truncate(random.random_range(0..datagram.len() + 1));
            world.inject(ProcessAddress(1), to, datagram);
        }
        assert_eq!(world.run(&query, 1000), Ok(expected.clone()));
    }
}
