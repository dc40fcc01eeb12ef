//! The same tests with separate machines, which are network namespaces here, and UCX over TCP
//! between them.
//!
//! Without UCX or namespaces this prints a notice and passes, unless `NEARFIELD_REQUIRE_UCX` is
//! set.

use crate::MACHINE;
use crate::crew::PoolProcessGroup;
use crate::keys::PROCESSES;
use crate::nodes::RunMemoryNodes;
use crate::run::{NODE, PoolTestProcess, ProcessRunParameters, time};
use nearfield_fabric::transport::ucx::{UcxError, UcxNode};
use nearfield_testkit::etcd::until;
use nearfield_testkit::machines::Machines;
use std::time::Instant;

/// Lease in milliseconds. Here a client cannot know if others' posts have begun: half of this must
/// be longer than any interruption of a process, on a machine with two cores for all of them.
const LEASE: u64 = 400;

/// Creates a machine for the node and one for each process; prints the reason and returns `None` if
/// that is impossible.
fn machines() -> Option<Machines> {
    let reason = match UcxNode::listen("127.0.0.1:0", NODE, 1 << 20) {
        Ok(_) => match Machines::new(1 + PROCESSES as u8) {
            Ok(machines) => return Some(machines),
            Err(reason) => reason,
        },
        Err(error @ (UcxError::Library { .. } | UcxError::Old { .. })) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    let required = std::env::var_os("NEARFIELD_REQUIRE_UCX").is_some();
    assert!(!required, "{reason}");
    eprintln!("skipped: {reason}");
    None
}

#[test]
fn no_acknowledged_write_is_lost_over_ucx() {
    let Some(machines) = machines() else { return };
    let _machine = MACHINE.write();
    let address = machines.address(0);
    let nodes = |_: &str| RunMemoryNodes::Listed(format!("ucx:{address}:7000"));
    let run = ProcessRunParameters::new("ucx", nodes, false, LEASE);
    let mut crew = PoolProcessGroup::start(&run, Some(&machines));
    let before = files(&crew.nodes[0]);
    let end = Instant::now() + time();
    while Instant::now() < end {
        crew.go_on();
        crew.kill_one();
    }
    crew.end();
    // The node has closed all connections of dead clients.
    until("connections that are closed", || {
        files(&crew.nodes[0]) <= before
    });
    drop(crew);
    std::fs::remove_dir_all(&run.folder).expect("a folder");
}

/// Returns the number of files and connections that a process has open.
fn files(process: &PoolTestProcess) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.id()));
    open.expect("a process").count()
}
