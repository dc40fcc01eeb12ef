//! The memory node as a process: what it prints, what it refuses, and what signals leave behind.

#![cfg(target_os = "linux")]

use nearfield_fabric::shm::ShmEndpoint;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command, Output, Stdio};
use std::task::{Context, Poll, Waker};

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

fn memory_node(name: &str, size: &str) -> Command {
    let mut command = Command::new(NEARFIELD);
    let listen = format!("shm:{name}");
    command
        .args(["memory-node", "--number", "2", "--listen", &listen])
        .args(["--size", size])
        .stdin(Stdio::null());
    command
}

fn refused(name: &str, size: &str) -> String {
    let Output { status, stderr, .. } = memory_node(name, size).output().expect("the program");
    assert!(!status.success());
    String::from_utf8(stderr).expect("text")
}

/// A node that has said that it is ready.
fn start(name: &str) -> Child {
    let mut child = memory_node(name, "1mb")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.starts_with("Memory node 2 is ready with 1048576 bytes."));
    child
}

#[test]
fn signals_end_it_and_leave_nothing() {
    for signal in ["-INT", "-TERM"] {
        let name = &format!("test-{}{signal}", std::process::id());
        let object = PathBuf::from(format!("/dev/shm/nearfield-{name}"));
        let mut child = start(name);
        let endpoint = ShmEndpoint::attach([name]).expect("a node");
        let chunk = block_on(endpoint.allocate(NodeId(2), 100)).expect("room");
        assert_eq!(chunk, GlobalAddress::new(NodeId(2), 4096));
        assert!(object.exists());
        let already = refused(name, "1mb");
        let process = child.id();
        assert_eq!(
            already,
            format!("error: memory node {name} is served by process {process} already\n")
        );
        let id = process.to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill").success());
        assert!(child.wait().expect("it ends").success());
        assert!(!object.exists());
        assert!(block_on(endpoint.read(chunk, &mut [0; 8])).is_err());
    }
}

#[test]
fn what_it_cannot_be_is_refused() {
    let name = &format!("test-{}-refused", std::process::id());
    let size = refused(name, "8 apples");
    assert!(size.contains("is no amount of memory"), "{size}");
    let size = refused(name, "1kb");
    assert_eq!(
        size,
        format!("error: memory node {name} cannot have 1024 bytes\n")
    );
    let much = refused(name, "100000gb");
    assert!(
        much.starts_with(&format!(
            "error: cannot reserve the memory of memory node {name}: "
        )),
        "{much}"
    );
    assert!(!PathBuf::from(format!("/dev/shm/nearfield-{name}")).exists());
    let listen = Command::new(NEARFIELD)
        .args(["memory-node", "--listen", "pool", "--size", "1mb"])
        .output()
        .expect("the program");
    let text = String::from_utf8(listen.stderr).expect("text");
    assert!(text.contains("has to begin with shm:"), "{text}");
}
