//! A switch and two memory nodes as processes: traversals through shared memory that a program has
//! written, and what is refused.

#![cfg(target_os = "linux")]

use nearfield::{Aggregates, Filter, Pool, WordMap};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxNode;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_offload::isa::assemble;
use nearfield_offload::net::udp::Client;
use nearfield_offload::node::Tenant;
use nearfield_offload::program::{Declaration, Program};
use nearfield_offload::traversal::{Query, Runner, Status};
use nearfield_offload::wire::Key;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddrV4;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// A process whose output is read, and which is killed if a test fails.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut child = Command::new(NEARFIELD)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Process { child, output }
    }

    /// The next line that contains a text.
    fn line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("text");
            assert!(length > 0, "it has ended without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Ends it as Ctrl-C does; the rest of its output.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill").success());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        rest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already if all went well.
        let _ = self.child.kill();
    }
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a folder");
    path.to_str().expect("text").to_owned()
}

#[test]
fn traversals_go_from_node_to_node_through_the_switch() {
    let folder = std::env::temp_dir().join(format!("nearfield-offload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let rack = &file(&folder, "rack.key", &"0c".repeat(32));
    let (key, text) = (Key([0x0a; 32]), "0a".repeat(32));
    let tenants = &file(&folder, "tenants", &format!("1 {text}\n"));
    let mut switch = Process::start(&["switch", "--listen", "127.0.0.1:0", "--rack-key", rack]);
    let ready = switch.line("The switch is ready at ");
    let address = ready.split_whitespace().nth(5).expect("a place");
    let address = address.trim_end_matches('.');
    let names = [0, 1].map(|number| format!("offload-{}-{number}", std::process::id()));
    let nodes = [0, 1].map(|number: usize| {
        let listen = format!("shm:{}", names[number]);
        let mut node = Process::start(&[
            "memory-node",
            "--listen",
            &listen,
            "--size",
            "1mb",
            "--number",
            &(number + 1).to_string(),
            "--offload",
            "127.0.0.1:0",
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
    // A list from node to node; each step adds a word.
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
    let program = Program::verify(code.expect("code"), Declaration::scratchpad(8));
    let program = program.expect("a program").into();
    let place: SocketAddrV4 = address.parse().expect("a place");
    let mut client = Client::new(place, Tenant(1), key, |_| {}).expect("a socket");
    // Nodes announce themselves every second, and datagrams may be lost.
    let began = Instant::now();
    let query = Query::new(&program, list[0].to_bits(), &[0]);
    let outcome = loop {
        let outcome = client.run(&query, 100).expect("an answer");
        if outcome.status == Status::Done {
            break outcome;
        }
        assert_eq!(outcome.status, Status::NoSuchAddress);
        assert!(began.elapsed() < Duration::from_secs(20), "{outcome:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((outcome.word(0), outcome.iterations), (0x3ff, 10));
    // The node's own page is nobody's.
    let own = GlobalAddress::new(NodeId(1), 8).to_bits();
    let outcome = client
        .run(&Query::new(&program, own, &[0]), 100)
        .expect("an answer");
    assert_eq!(outcome.status, Status::NoSuchAddress);
    for node in nodes {
        let done = node.end();
        assert!(done.contains(" pieces of work with "), "{done}");
    }
    let done = switch.end();
    assert!(done.contains(" requests, "), "{done}");
    std::fs::remove_dir_all(&folder).expect("the folder");
}

/// Needs UCX; says so if it is missing.
#[test]
fn maps_over_ucx_are_aggregated_at_their_node() {
    if let Err(reason) = UcxNode::listen("127.0.0.1:0", NodeId(0), 1 << 20) {
        let is_required = std::env::var_os("NEARFIELD_REQUIRE_UCX").is_some();
        assert!(!is_required, "{reason}");
        eprintln!("skipped: {reason}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("nearfield-ucx-map-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (key, text) = (Key([0x0b; 32]), "0b".repeat(32));
    let tenants = &file(&folder, "tenants", &format!("1 {text}\n"));
    let listen = ["memory-node", "--listen", "ucx:127.0.0.1:0", "--size", "64mb"];
    let offload = ["--offload", "127.0.0.1:0", "--tenants", tenants];
    let mut node = Process::start(&[&listen[..], &offload].concat());
    let connect = node.line("UcxEndpoint::connect");
    let address = connect.split('"').nth(1).expect("an address");
    let ready = node.line("Traversal programs run on it");
    let programs = ready.split_whitespace().find_map(|word| {
        let word = word.trim_end_matches('.');
        word.parse::<SocketAddrV4>().ok()
    });
    let pool: Pool = format!("ucx:{address}").parse().expect("an address");
    let map = WordMap::builder().pool(pool);
    let map = map.programs(programs.expect("a place"), Tenant(1), key).build();
    let map = map.expect("a map");
    let entries: Vec<(u64, u64)> = (0..5_000).map(|number| (3 * number, number % 100)).collect();
    map.insert_many(&entries).expect("room");
    let values = entries.iter().map(|(_, value)| *value);
    let expected: Aggregates = values.filter(|value| *value >= 10).collect();
    let found = map.range(..).filter(Filter::at_least(10)).aggregate();
    assert_eq!(found, Ok(expected));
    let reads = map.leaf_reads();
    assert!(reads.at_nodes > 50 && reads.refused == 0, "{reads:?}");
    drop(map);
    node.end();
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = std::env::temp_dir().join(format!("nearfield-refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let tenants = &file(&folder, "tenants", "1 no-key\n");
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
    let map = error(&["switch", "--listen", "127.0.0.1:0", "--map", "5"]);
    assert!(map.contains("5 is no entry such as"), "{map}");
    let key = error(&[
        "switch",
        "--listen",
        "127.0.0.1:0",
        "--rack-key",
        "/nowhere",
    ]);
    assert!(key.contains("cannot read /nowhere"), "{key}");
    std::fs::remove_dir_all(&folder).expect("the folder");
}
