//! Memory nodes in shared memory, with clients and nodes in processes of their own, some of which
//! are killed: this test program executes itself in a role.

#![cfg(target_os = "linux")]

use crate::suite::{
    LONG, NODE, Role, RoleProcess, SIZE, WORKERS, at, check_counts, check_crossings,
    read_with_flag, run, scenario, until, word,
};
use nearfield_fabric::transport::shm::{ShmEndpoint, ShmError, ShmNode};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_hardware::network::NetworkPreset;
use nearfield_testkit::polling::block_on;
use nearfield_testkit::stop::AtEnd;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

fn name(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

fn node(test: &str) -> ShmNode {
    ShmNode::create(&name(test), NODE, SIZE).expect("a node")
}

fn attach(name: &str) -> ShmEndpoint {
    ShmEndpoint::attach([name]).expect("a node")
}

/// Serves a node meanwhile.
fn served<T>(node: &ShmNode, act: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = AtEnd(&stop);
        scope.spawn(|| node.serve(&stop));
        act()
    })
}

/// The test that plays the roles of other processes.
const ROLES: &str = "shm::process_in_a_role";

/// Plays the role of another process, if this program is executed for one; otherwise does nothing.
#[test]
fn process_in_a_role() {
    let Some(role) = Role::of_this_process() else {
        return;
    };
    match role.role.as_str() {
        "node" => {
            let node = ShmNode::create(&role.name, NODE, SIZE).expect("a node");
            node.serve(&AtomicBool::new(false));
        }
        "hold" => hold(&attach(&role.name)),
        _ => role.play(&attach(&role.name)),
    }
}

#[test]
fn processes_exclude_each_other_by_swaps_and_add() {
    let node = node("count");
    run(ROLES, "count", node.name(), WORKERS);
    let endpoint = attach(node.name());
    check_counts(&endpoint, WORKERS);
}

#[test]
fn who_sees_a_flag_sees_what_was_written_before() {
    let node = node("flag");
    let writer = RoleProcess::start(ROLES, "write", node.name(), 0);
    read_with_flag(&attach(node.name()));
    writer.succeeds();
}

#[test]
fn of_two_that_write_and_then_read_one_sees_the_other() {
    let node = node("cross");
    run(ROLES, "cross", node.name(), 2);
    let endpoint = attach(node.name());
    check_crossings(&endpoint);
}

#[test]
fn what_processes_allocate_is_theirs_and_comes_back() {
    let node = node("allocate");
    served(&node, || run(ROLES, "allocate", node.name(), WORKERS));
    assert_eq!(node.allocated_bytes(), 0);
}

/// Makes the largest number of calls in flight, and never polls them again.
fn hold(endpoint: &ShmEndpoint) {
    let call = || Box::pin(endpoint.allocate(NODE, 64)) as Pin<Box<dyn Future<Output = _>>>;
    let mut calls: Vec<_> = (0..64).map(|_| call()).collect();
    for call in &mut calls {
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    endpoint.write_unsignalled(at(64), &[1; 8]).expect("a flag");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_client_holds_up_nobody_and_keeps_nothing() {
    for answered in [false, true] {
        let node = node("hold");
        let holder = RoleProcess::start(ROLES, "hold", node.name(), 0);
        let endpoint = attach(node.name());
        until("calls", || word(&endpoint, 64) != 0);
        if !answered {
            // The calls are dropped before the node has seen them.
            drop(holder);
            served(&node, || allocate_soon(&endpoint));
        } else {
            served(&node, || {
                until("replies", || node.allocated_bytes() == 64 * 64);
                drop(holder);
                allocate_soon(&endpoint);
            });
        }
        assert_eq!(node.allocated_bytes(), 128, "replies: {answered}");
    }
}

fn allocate_soon(endpoint: &ShmEndpoint) {
    let begin = Instant::now();
    block_on(endpoint.allocate(NODE, 100)).expect("a slot");
    assert!(begin.elapsed() < LONG);
}

/// Calls whose clients no longer wait keep nothing, whether the node has replied before or not.
#[test]
fn dropped_calls_keep_nothing() {
    let node = node("drop");
    let endpoint = attach(node.name());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        for _ in 0..100 {
            let mut call = Box::pin(endpoint.allocate(NODE, 64));
            assert!(call.as_mut().poll(&mut context).is_pending());
            drop(call);
        }
        let mut call = Box::pin(endpoint.allocate(NODE, 64));
        let _ = call.as_mut().poll(&mut context);
        let mut answered = Vec::from([call]);
        served(&node, || {
            // A slot is free again as soon as the node has checked its calls.
            let chunk = block_on(endpoint.allocate(NODE, 64)).unwrap();
            answered.clear();
            block_on(endpoint.free(chunk, 64)).unwrap();
            until("what was dropped", || node.allocated_bytes() == 0);
        });
    }
}

/// Returns the size of the large pages in `/proc/self/smaps` of an object that this process maps,
/// in KiB.
fn mapped_large(name: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a process has maps");
    let mut is_it = false;
    let large = maps.lines().filter_map(|line| {
        if line.contains('/') {
            is_it = line.contains(name);
        }
        let large = line.strip_prefix("ShmemPmdMapped:").filter(|_| is_it)?;
        let large = large.trim().trim_end_matches(" kB").parse::<u64>();
        Some(large.expect("a number"))
    });
    large.sum()
}

/// Pages become large while they are written; nothing is lost, and clients see them as large.
#[test]
fn what_is_written_stays_while_pages_become_large() {
    const PIECE: u64 = 1 << 16;
    let name = name("pages");
    let node = ShmNode::create(&name, NODE, 32 << 20).expect("a node");
    assert!(node.large_page_bytes() <= 2 << 20);
    let endpoint = attach(&name);
    served(&node, || {
        let mut pieces = Vec::new();
        for number in 0..128_u64 {
            let piece = block_on(endpoint.allocate(NODE, PIECE)).expect("there is room");
            pieces.push(piece);
            for (number, piece) in pieces.iter().enumerate() {
                let at = piece.plus(8 * number as u64);
                block_on(endpoint.add(at, number as u64 + 1)).expect("it is served");
            }
            let bytes = vec![number as u8; 4096];
            block_on(endpoint.write(piece.plus(PIECE - 4096), &bytes)).expect("it is served");
        }
        // The system may be out of large pages.
        let mut before = u64::MAX;
        until("no more pages become large", || {
            std::thread::sleep(Duration::from_millis(100));
            before == std::mem::replace(&mut before, node.large_page_bytes())
        });
        for (number, piece) in pieces.iter().enumerate() {
            let mut sum = [0; 8];
            block_on(endpoint.read(piece.plus(8 * number as u64), &mut sum)).expect("as before");
            let times = 128 - number as u64;
            assert_eq!(u64::from_le_bytes(sum), times * (number as u64 + 1));
            let mut bytes = vec![0; 4096];
            block_on(endpoint.read(piece.plus(PIECE - 4096), &mut bytes)).expect("as before");
            assert!(bytes.iter().all(|&byte| byte == number as u8));
        }
    });
    // The object is mapped twice: by the node and by the client.
    assert_eq!(mapped_large(&name) > 0, node.large_page_bytes() > 0);
    assert!(node.large_page_bytes() <= 128 * PIECE + (4 << 20));
}

#[test]
fn a_killed_node_is_lost_and_can_be_replaced() {
    let name = &name("lost");
    let process = RoleProcess::start(ROLES, "node", name, 0);
    let mut attached = None;
    until("a node", || {
        attached = ShmEndpoint::attach([name]).ok();
        attached.is_some()
    });
    let endpoint = attached.unwrap();
    block_on(endpoint.write(at(64), &[7; 8])).unwrap();
    block_on(endpoint.allocate(NODE, 64)).unwrap();
    let refused = ShmNode::create(name, NODE, SIZE).unwrap_err();
    let id = process.0.id();
    assert!(matches!(refused, ShmError::InUse { process, .. } if process == id));

    // The node is killed with a call in flight.
    process.stop();
    let mut call = Box::pin(endpoint.allocate(NODE, 64));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    drop(process);
    let begin = Instant::now();
    let lost = FabricError::NodeLost { node: NODE };
    assert_eq!(block_on(call), Err(lost.clone()));
    assert!(begin.elapsed() < LONG);
    assert_eq!(block_on(endpoint.free(at(4096), 64)), Err(lost.clone()));
    let read = block_on(endpoint.read(at(64), &mut [0; 8]));
    assert_eq!(read, Err(lost.clone()));
    let gone = ShmEndpoint::attach([name]).unwrap_err();
    assert!(matches!(gone, ShmError::Lost { .. }), "{gone}");

    let node = ShmNode::create(name, NODE, SIZE).unwrap();
    assert_eq!(word(&attach(name), 64), 0);
    assert_eq!(endpoint.write_unsignalled(at(64), &[1; 8]), Err(lost));
    assert_eq!(word(&attach(name), 64), 0);
    drop(node);
    let gone = ShmEndpoint::attach([name]).unwrap_err();
    assert!(matches!(gone, ShmError::Absent { .. }), "{gone}");
}

#[test]
fn verbs_notice_a_killed_node_by_themselves() {
    let name = &name("notice");
    let process = RoleProcess::start(ROLES, "node", name, 0);
    until("a node", || ShmEndpoint::attach([name]).is_ok());
    let endpoint = attach(name);
    drop(process);
    let begin = Instant::now();
    let read = || block_on(endpoint.read(at(64), &mut [0; 8]));
    until("the loss", || read().is_err());
    assert!(begin.elapsed() < LONG);
    // Removes the object.
    drop(ShmNode::create(name, NODE, SIZE).unwrap());
}

#[test]
fn a_node_that_is_dropped_is_lost_at_once() {
    let node = node("dropped");
    let endpoint = attach(node.name());
    drop(node);
    let read = block_on(endpoint.read(at(64), &mut [0; 8]));
    assert_eq!(read, Err(FabricError::NodeLost { node: NODE }));
}

#[test]
fn clients_see_how_much_of_a_node_is_allocated() {
    let node = node("allocated");
    let endpoint = attach(node.name());
    let allocated = || {
        let memory = endpoint.memory_of(NODE).expect("a node");
        assert_eq!(memory.bytes, node.bytes());
        memory.allocated_bytes
    };
    served(&node, || {
        assert_eq!(allocated(), Some(0));
        let chunk = block_on(endpoint.allocate(NODE, 1000)).unwrap();
        until("the sum", || allocated() == Some(1024));
        block_on(endpoint.free(chunk, 512)).unwrap();
        until("the sum", || allocated() == Some(512));
    });
    assert_eq!(endpoint.memory_of(NodeId(NODE.0 + 1)), None);
}

#[test]
fn nodes_that_are_not_served_are_left_out() {
    let names = [name("left-in"), name("left-out")];
    let left = ShmNode::create(&names[0], NodeId(0), SIZE).unwrap();
    let right = ShmNode::create(&names[1], NodeId(1), SIZE).unwrap();
    let both = ShmEndpoint::attach_reachable(&names).unwrap();
    assert_eq!(both.nodes(), [NodeId(0), NodeId(1)]);
    assert_eq!(both.number_of(&names[1]), Some(NodeId(1)));
    drop(right);
    let reached = [0, 1, 2].map(|number| both.is_reachable(NodeId(number)));
    assert_eq!(reached, [true, false, false]);
    assert_eq!(block_on(both.settle()), Ok(()));
    let one = ShmEndpoint::attach_reachable(&names).unwrap();
    assert_eq!(one.nodes(), [NodeId(0)]);
    assert_eq!(one.number_of(&names[1]), None);
    drop(left);
    let gone = ShmEndpoint::attach_reachable(&names).unwrap_err();
    assert!(matches!(gone, ShmError::Absent { .. }), "{gone}");
}

/// Returns the message with which a node is refused after its object was changed at an offset.
fn refused(offset: u64, bytes: &[u8]) -> String {
    let node = node("changed");
    let path = format!("/dev/shm/nearfield-{}", node.name());
    let file = File::options().write(true).open(path).expect("an object");
    file.write_all_at(bytes, offset).expect("a header");
    let error = ShmEndpoint::attach([node.name()]).expect_err("it was changed");
    error.to_string().replace(node.name(), "NAME")
}

#[test]
fn what_is_not_such_a_node_is_refused_by_name() {
    let all = SIZE + 24576;
    assert_eq!(
        refused(8, b"other"),
        "/dev/shm/nearfield-NAME is not a memory node"
    );
    assert_eq!(
        refused(16, &[9]),
        "memory node NAME has a layout of version 9, and this program has version 3"
    );
    assert_eq!(
        refused(all, &[0]),
        format!(
            "memory node NAME must have {all} bytes with its header, but has {}",
            all + 1
        )
    );
    assert_eq!(refused(0, &[0]), "memory node NAME is not ready yet");
    let error = ShmEndpoint::attach(["none-such"]).unwrap_err();
    assert!(matches!(error, ShmError::Absent { .. }));
    for name in ["", "a/b", "../a", "ä"] {
        let error = ShmNode::create(name, NODE, SIZE).unwrap_err();
        assert!(matches!(error, ShmError::Name { .. }));
    }
    for bytes in [0, 4096, 1 << 48, u64::MAX] {
        let error = ShmNode::create(&name("size"), NODE, bytes).unwrap_err();
        assert!(matches!(error, ShmError::Size { .. }), "{bytes}: {error}");
    }
    let (one, other) = (node("one"), node("other"));
    let error = ShmEndpoint::attach([one.name(), other.name()]).unwrap_err();
    assert!(matches!(error, ShmError::SameNumber { node: NODE, .. }));
}

#[test]
fn transports_do_the_same() {
    for delivery in [Delivery::Whole, Delivery::Torn, Delivery::TornWords] {
        let mut simulation =
            FabricSimulation::new(1, NetworkPreset::ConnectX6.parameters(), delivery);
        let number = simulation.add_node(SIZE as usize);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move { scenario(&endpoint, number).await });
        assert_eq!(simulation.run(), 0);
        assert_eq!(simulation.allocated_bytes(number), 0);
    }
    let node = node("scenario");
    let endpoint = attach(node.name());
    assert_eq!(endpoint.atomic_bytes(), 8);
    served(&node, || block_on(scenario(&endpoint, NODE)));
    assert_eq!(node.allocated_bytes(), 0);
}
