//! A switch and two memory nodes as processes: traversals through shared memory that a program has
//! written, and refusals.

#![cfg(target_os = "linux")]

use crate::process::{CliTestProcess, NEARFIELD, file};
use nearfield::{OperationError, PoolPlacement, ScanAggregates, ValueFilter, WordMap};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxNode;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_offload::isa::assemble;
use nearfield_offload::net::udp::{ClientError, OffloadClient};
use nearfield_offload::net::{CallerSettings, OffloadCallError};
use nearfield_offload::node::Tenant;
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::traversal::{QueryRunner, TraversalQuery, TraversalStatus};
use nearfield_offload::wire::AuthenticationKey;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_testkit::polling::block_on;
use std::net::SocketAddrV4;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn traversals_go_from_node_to_node_through_the_switch() {
    let folder = TestkitFolder::new();
    let rack = &file(&folder.0, "rack.key", &"0c".repeat(32));
    let (key, text) = (AuthenticationKey([0x0a; 32]), "0a".repeat(32));
    let lines = format!("1 {text} rest\n2 {}\n", "0b".repeat(32));
    let tenants = &file(&folder.0, "tenants", &lines);
    let mut switch =
        CliTestProcess::start(&["switch", "--listen", "127.0.0.1:0", "--rack-key", rack]);
    let ready = switch.line("The switch is ready at ");
    let address = ready.split_whitespace().nth(5).expect("a place");
    let address = address.trim_end_matches('.');
    let names = [0, 1].map(|number| format!("offload-{}-{number}", std::process::id()));
    let nodes = [0, 1].map(|number: usize| {
        let listen = format!("shm:{}", names[number]);
        let mut node = CliTestProcess::start(&[
            "memory-node",
            "--listen",
            &listen,
            "--size",
            "1mb",
            "--number",
            &(number + 1).to_string(),
            "--offload",
            "127.0.0.1:0",
            "--offload-threads",
            "2",
            "--tenants",
            tenants,
            "--switch",
            address,
            "--rack-key",
            rack,
        ]);
        node.line("Traversal programs run on it");
        node
    });
    let endpoint = ShmEndpoint::attach(&names).expect("two nodes");
    // A list that alternates between the nodes; each step adds a word.
    let at = |number: u16, place: u64| GlobalAddress::new(NodeId(number), 4096 + 64 * place);
    let list: Vec<GlobalAddress> = (0..10)
        .map(|place| at(1 + place as u16 % 2, place))
        .collect();
    for (place, &here) in list.iter().enumerate() {
        let next = list.get(place + 1).map_or(0, |next| next.to_bits());
        let words = [next, 1 << place];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        block_on(endpoint.write(here, &bytes)).expect("a node");
    }
    let code = assemble(
        "ldxdw r6, [r1+8]
         ldxdw r7, [r2]
         add r7, r6
         stxdw [r2], r7
         ldxdw r0, [r1]
         exit",
    );
    let program = TraversalProgram::verify(code.expect("code"), Declaration::scratchpad(8));
    let program = program.expect("a program").into();
    let place: SocketAddrV4 = address.parse().expect("a place");
    let mut client = OffloadClient::new(place, Tenant(1), key, |_| {}).expect("a socket");
    // Nodes announce themselves every second, and datagrams may be lost.
    let began = Instant::now();
    let query = TraversalQuery::new(&program, list[0].to_bits(), &[0]);
    let outcome = loop {
        let outcome = client.run(&query, 100).expect("a reply");
        if outcome.status == TraversalStatus::Done {
            break outcome;
        }
        assert_eq!(outcome.status, TraversalStatus::NoSuchAddress);
        assert!(began.elapsed() < Duration::from_secs(20), "{outcome:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((outcome.word(0), outcome.iterations), (0x3ff, 10));
    // The line of the other tenant grants nothing.
    let other = AuthenticationKey([0x0b; 32]);
    let mut other = OffloadClient::new(place, Tenant(2), other, |_| {}).expect("a socket");
    let outcome = other.run(&query, 100).expect("a reply");
    assert_eq!(outcome.status, TraversalStatus::Denied);
    assert_eq!((outcome.word(0), outcome.iterations), (0, 0));
    // The node's own page belongs to no tenant.
    let own = GlobalAddress::new(NodeId(1), 8).to_bits();
    let outcome = client
        .run(&TraversalQuery::new(&program, own, &[0]), 100)
        .expect("a reply");
    assert_eq!(outcome.status, TraversalStatus::NoSuchAddress);
    for mut node in nodes {
        let done = node.end("-INT");
        assert!(done.contains(" pieces of work with "), "{done}");
    }
    let done = switch.end("-INT");
    assert!(done.contains(" requests, "), "{done}");
}

/// Starts a memory node over UCX that runs programs. Returns the process, its address, and that of
/// the programs. Returns `None` and prints the reason if UCX is missing.
fn ucx_node(tenants: &str) -> Option<(CliTestProcess, PoolPlacement, SocketAddrV4)> {
    if let Err(reason) = UcxNode::listen("127.0.0.1:0", NodeId(0), 1 << 20) {
        let is_required = std::env::var_os("NEARFIELD_REQUIRE_UCX").is_some();
        assert!(!is_required, "{reason}");
        eprintln!("skipped: {reason}");
        return None;
    }
    let listen = [
        "memory-node",
        "--listen",
        "ucx:127.0.0.1:0",
        "--size",
        "64mb",
    ];
    let offload = ["--offload", "127.0.0.1:0", "--tenants", tenants];
    let mut node = CliTestProcess::start(&[&listen[..], &offload].concat());
    let connect = node.line("UcxEndpoint::connect");
    let address = connect.split('"').nth(1).expect("an address");
    let pool = format!("ucx:{address}").parse().expect("an address");
    let programs = node.programs_address();
    Some((node, pool, programs))
}

/// Aggregates over UCX are those of the present entries, also while others are inserted and
/// removed. For a tenant that may not read the map, the client reads it. A dead node is an error.
#[test]
fn maps_over_ucx_are_aggregated_at_their_node() {
    let folder = TestkitFolder::new();
    let keys = [0x0a, 0x0b].map(|byte| AuthenticationKey([byte; 32]));
    let text = |byte: &str| byte.repeat(32);
    let lines = format!("1 {}\n2 {} 4096-8192:read\n", text("0a"), text("0b"));
    let lines = lines.replace(&text("0a"), &format!("{} 8192-67108864", text("0a")));
    let tenants = &file(&folder.0, "tenants", &lines);
    let Some((node, pool, place)) = ucx_node(tenants) else {
        return;
    };
    let open = |tenant: u16| {
        let map = WordMap::builder().pool(pool.clone());
        let key = keys[usize::from(tenant) - 1];
        map.programs(place, Tenant(tenant), key)
            .build()
            .expect("a map")
    };
    let map = open(1);
    let entries: Vec<(u64, u64)> = (0..5_000)
        .map(|number| (4 * number, number % 100))
        .collect();
    map.insert_many(&entries).expect("room");
    let values = entries.iter().map(|(_, value)| *value);
    let expected: ScanAggregates = values.filter(|value| *value >= 10).collect();
    let aggregate = |map: &WordMap<PoolPlacement>| {
        map.range(..)
            .filter(ValueFilter::between(10..100))
            .aggregate()
    };
    assert_eq!(aggregate(&map), Ok(expected));
    let reads = map.leaf_reads();
    assert!(reads.at_nodes > 50 && reads.refused == 0, "{reads:?}");
    // Other entries are inserted and removed, which moves entries to other leaves meanwhile.
    let (is_done, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let number = writes.fetch_add(1, Ordering::Relaxed);
                let key = |number: u64| 4 * (number * 7919 % 5_000) + 1 + number % 3;
                map.insert(key(number), 1_000).expect("room");
                map.remove(key(number.saturating_sub(100))).expect("a node");
            }
        });
        let mut found = Vec::new();
        while found.len() < 20 || writes.load(Ordering::Relaxed) < 1_000 {
            found.push(aggregate(&map));
        }
        is_done.store(true, Ordering::Relaxed);
        found
    });
    assert_eq!(found, vec![Ok(expected); found.len()]);
    // A program of the other tenant has no access.
    let other = open(2);
    assert_eq!(aggregate(&other), Ok(expected));
    let reads = other.leaf_reads();
    assert!(reads.at_nodes == 0 && reads.refused > 0, "{reads:?}");
    let code = assemble("ldxdw r0, [r1]\n exit").expect("code");
    let program = TraversalProgram::verify(code, Declaration::scratchpad(8)).expect("a program");
    let program = Arc::new(program);
    let status = |tenant: u16, address: u64, limit: u64| {
        let key = keys[usize::from(tenant) - 1];
        let hurry = |settings: &mut CallerSettings| settings.patience = Duration::from_millis(300);
        let mut client = OffloadClient::new(place, Tenant(tenant), key, hurry).expect("a socket");
        match client.run(&TraversalQuery::new(&program, address, &[0]), limit) {
            Ok(outcome) => Some(outcome.status),
            Err(ClientError::Call(OffloadCallError::NoAnswer { last })) => last,
            Err(error) => panic!("{error}"),
        }
    };
    let at = |offset: u64| GlobalAddress::new(NodeId(0), offset).to_bits();
    assert_eq!(status(1, at(1 << 40), 9), Some(TraversalStatus::StaleMap));
    assert_eq!(status(1, at(4096), 9), Some(TraversalStatus::Denied));
    assert_eq!(status(2, at(8192), 9), Some(TraversalStatus::Denied));
    assert_eq!(
        status(1, at(8192), 0),
        Some(TraversalStatus::IterationLimit)
    );
    drop(other);
    // Dropping the node kills its process.
    drop(node);
    let error = aggregate(&map).expect_err("there is no node");
    assert!(
        matches!(error, OperationError::Unreachable { .. }),
        "{error}"
    );
}

#[test]
fn invalid_options_are_refused() {
    let folder = TestkitFolder::new();
    let tenants = &file(&folder.0, "tenants", "1 no-key\n");
    let listen = &format!("shm:refused-{}", std::process::id());
    let error = |arguments: &[&str]| {
        let output = Command::new(NEARFIELD).args(arguments).output();
        let output = output.expect("the program");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    let node = ["memory-node", "--size", "1mb", "--listen"];
    let offload = ["--offload", "127.0.0.1:0", "--tenants"];
    let wrong = error(&[&node[..], &[listen], &offload, &[tenants]].concat());
    assert!(
        wrong.contains("tenants: line 1: a key is 64 hexadecimal digits"),
        "{wrong}"
    );
    let key = "0a".repeat(32);
    let twice = &file(
        &folder.0,
        "twice",
        &format!("1 {key} 4096-8192\n2 {key} 8000-9000\n"),
    );
    let wrong = error(&[&node[..], &[listen], &offload, &[twice]].concat());
    assert!(
        wrong.contains("twice: line 2: 8000-9000 overlaps a part of line 1"),
        "{wrong}"
    );
    // No machine has this address, so the node ends after the warning.
    let bare = &file(&folder.0, "bare", &format!("1 {key}\n"));
    let nowhere = ["--expose", "--offload", "192.0.2.1:9", "--tenants", bare];
    let warned = error(&[&node[..], &[listen], &nowhere].concat());
    assert!(
        warned.contains("bare: tenant 1 is granted no part of the memory"),
        "{warned}"
    );
    let exposed = [
        "--listen",
        "shm:no-such",
        "--offload",
        "0.0.0.0:0",
        "--tenants",
        tenants,
    ];
    let exposed = [
        error(&[&["memory-node", "--size", "1mb"], &exposed[..]].concat()),
        error(&["memory-node", "--size", "1mb", "--listen", "ucx:0.0.0.0:0"]),
        error(&["switch", "--listen", "0.0.0.0:0", "--rack-key", "/nowhere"]),
    ];
    for refusal in exposed {
        assert!(refusal.contains("--expose"), "{refusal}");
    }
    let map = error(&["switch", "--listen", "127.0.0.1:0", "--map", "5"]);
    assert!(map.contains("5 is not an entry such as"), "{map}");
    let key = error(&[
        "switch",
        "--listen",
        "127.0.0.1:0",
        "--rack-key",
        "/nowhere",
    ]);
    assert!(key.contains("cannot read /nowhere"), "{key}");
}
