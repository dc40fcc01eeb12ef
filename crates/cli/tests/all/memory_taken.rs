//! The memory of the process as the operating system counts it, with the program's own allocator.

use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::process::status_bytes;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");
const PATIENCE: Duration = Duration::from_secs(30);
const LIMIT_BYTES: u64 = 150 << 20;
/// Bytes that a process may take besides its keys.
const MORE_BYTES: u64 = 64 << 20;

struct MemoryTestServer {
    child: Child,
    address: SocketAddr,
}

impl MemoryTestServer {
    /// Starts a server with these arguments. If another process has taken the free port meanwhile,
    /// the server ends and is started again.
    fn start(arguments: &[&str]) -> MemoryTestServer {
        for _ in 0..5 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let address = listener.local_addr().expect("an address");
            drop(listener);
            let mut child = Command::new(NEARFIELD)
                // Saved files must not be left in the source tree.
                .current_dir(env!("CARGO_TARGET_TMPDIR"))
                .args(["serve", "--threads", "2"])
                .args(["--port", &address.port().to_string()])
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program");
            let output = child.stdout.take().expect("its output");
            let ready = BufReader::new(output).lines().next();
            let program = MemoryTestServer { child, address };
            if ready.is_some() {
                return program;
            }
        }
        panic!("no server starts");
    }

    fn resident_bytes(&self) -> u64 {
        status_bytes(self.child.id(), "VmRSS:").expect("a process")
    }
}

impl Drop for MemoryTestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes lists whose one element has `length` bytes, and returns the greatest memory of the
/// process.
fn write_lists(
    program: &MemoryTestServer,
    client: &mut TestkitConnection,
    name: &str,
    length: usize,
    bytes: usize,
) -> u64 {
    const BATCH: usize = 64;
    let element = vec![b'e'; length];
    let mut most = 0;
    for batch in 0..bytes / length / BATCH {
        let mut requests = Vec::new();
        for i in 0..BATCH {
            let key = format!("{name}:{}", batch * BATCH + i);
            encode(&mut requests, &[b"RPUSH", key.as_bytes(), &element]);
        }
        client.exchange(&requests, BATCH).expect("replies");
        most = most.max(program.resident_bytes());
    }
    most
}

/// Pages of the first lists are almost never free until nearly all of these lists are evicted.
#[test]
fn the_process_stays_near_its_limit_though_pages_are_partly_free() {
    for policy in ["allkeys-lfu", "noeviction"] {
        let limit = LIMIT_BYTES.to_string();
        let program =
            MemoryTestServer::start(&["--maxmemory", &limit, "--maxmemory-policy", policy]);
        let mut client = TestkitConnection::open(program.address).expect("a server");
        let mut most = 0;
        for length in [1500, 20_000] {
            let name = length.to_string();
            let bytes = LIMIT_BYTES as usize * 5 / 4;
            most = most.max(write_lists(&program, &mut client, &name, length, bytes));
        }
        let bound = LIMIT_BYTES * 6 / 5 + MORE_BYTES;
        eprintln!("{policy}: {} of {} MiB", most >> 20, bound >> 20);
        assert!(most < bound, "{policy}: {most} bytes of {bound}");
    }
}

#[test]
fn memory_of_flushed_keys_returns_to_the_system() {
    let program = MemoryTestServer::start(&[]);
    let mut client = TestkitConnection::open(program.address).expect("a server");
    let before = program.resident_bytes();
    for (kind, length, count) in [
        ("SET", 200, 200_000),
        ("SET", 1 << 20, 60),
        ("RPUSH", 2000, 20_000),
    ] {
        let value = vec![b'v'; length];
        let mut left = count;
        while left > 0 {
            let batch = usize::min(left, (1 << 20) / length);
            let mut requests = Vec::new();
            for i in 0..batch {
                let key = format!("{kind}:{length}:{}", left - i);
                encode(&mut requests, &[kind.as_bytes(), key.as_bytes(), &value]);
            }
            client.exchange(&requests, batch).expect("replies");
            left -= batch;
        }
        let full = program.resident_bytes();
        assert!(full > before + (45 << 20), "{kind} {length}: {full}");
        client.command(&[b"FLUSHALL"]).expect("a reply");
        let begun = Instant::now();
        while program.resident_bytes() > before + (30 << 20) {
            let resident = program.resident_bytes();
            assert!(
                begun.elapsed() < PATIENCE,
                "{kind} {length}: {resident} of {full} are still resident"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
