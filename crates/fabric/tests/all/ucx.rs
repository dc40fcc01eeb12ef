//! Memory nodes over UCX, with clients and nodes in processes of their own, some of which are
//! killed: this test program executes itself in a role, and once more over chosen transports.
//!
//! Without the library the tests print a note and pass, unless `NEARFIELD_REQUIRE_UCX` is set.

#![cfg(target_os = "linux")]

use crate::suite::{
    LONG, NODE, Role, RoleProcess, SIZE, WORKERS, at, check_counts, check_crossings, output_within,
    read_with_flag, run, scenario, until, word,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nearfield_fabric::transport::ucx::{UcxEndpoint, UcxError, UcxNode};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, MaskedSwap, NodeId};
use nearfield_testkit::machines::{CABLE, Machines};
use nearfield_testkit::polling::block_on;
use nearfield_testkit::stop::AtEnd;
use parking_lot::FairMutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The variable that is set for a process that runs the tests again.
const AGAIN: &str = "NEARFIELD_TEST_AGAIN";

/// Number of connections of a node for each client over TCP, each of which is a file.
const CONNECTION_FILES: usize = 2;
/// The state of a listening socket in `/proc/PID/net/tcp`.
const LISTENS: &str = "0A";
/// Number of threads that open and close endpoints at the same time, and how often each does.
const OPENERS: u64 = 4;
const OPENINGS: u64 = 12;
/// The word in which clients that read until they are killed count their reads.
const READS: u64 = 128;

const LOST: FabricError = FabricError::NodeLost { node: NODE };

/// A node that a thread of this process serves.
struct UcxServedNode {
    address: String,
    does_posts: bool,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl UcxServedNode {
    /// Ends it and returns the number of allocated bytes.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().expect("a node does not panic")
    }
}

impl Drop for UcxServedNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failed test has reported more.
            let _ = thread.join();
        }
    }
}

/// Starts a node at any free port. Returns `None`, and prints a reason, if there is no UCX.
fn node(number: NodeId) -> Option<UcxServedNode> {
    node_in_turn(number, &Arc::default())
}

/// Starts a node that executes posts while it holds `turn`.
fn node_in_turn(number: NodeId, turn: &Arc<FairMutex<()>>) -> Option<UcxServedNode> {
    let turn = Arc::clone(turn);
    let (said, heard) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let node = match UcxNode::listen("127.0.0.1:0", number, SIZE) {
            Ok(node) => node,
            Err(error) => {
                said.send(Err(error)).expect("it is waited for");
                return 0;
            }
        };
        said.send(Ok((node.address(), node.does_posts())))
            .expect("it is waited for");
        node.serve_in_turn(&stopped, &turn);
        node.allocated_bytes()
    });
    match heard.recv().expect("a reply") {
        Ok((address, does_posts)) => Some(UcxServedNode {
            address: address.to_string(),
            does_posts,
            stop,
            thread: Some(thread),
        }),
        Err(error @ (UcxError::Library { .. } | UcxError::Old { .. })) => {
            let required = std::env::var_os("NEARFIELD_REQUIRE_UCX").is_some();
            assert!(!required, "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A thread that holds the turn finds memory as it is between two posts.
#[test]
fn no_post_takes_effect_while_others_have_their_turn() {
    let turn = Arc::new(FairMutex::new(()));
    let Some(served) = node_in_turn(NODE, &turn) else {
        return;
    };
    let address = &served.address;
    let is_one_sided = std::env::var_os("NEARFIELD_UCX_ONE_SIDED").is_some();
    assert_eq!(served.does_posts, !is_one_sided);
    if is_one_sided {
        eprintln!("skipped: UCX does the posts by itself");
        return;
    }
    block_on(connect(address).write(at(64), &[1; 8])).expect("a node");
    let held = turn.lock();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let found = word(&connect(address), 64);
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(found, u64::from_le_bytes([1; 8]));
        });
        std::thread::sleep(Duration::from_millis(100));
        let was_done = is_done.load(Ordering::Relaxed);
        drop(held);
        assert!(!was_done, "it was read meanwhile");
    });
    assert!(is_done.load(Ordering::Relaxed));
}

fn connect(address: &str) -> UcxEndpoint {
    UcxEndpoint::connect([address]).expect("a node")
}

/// Runs many futures at once.
fn drive<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let all: FuturesUnordered<F> = futures.into_iter().collect();
    futures_executor::block_on(all.collect())
}

/// The test that plays the roles of other processes.
const ROLES: &str = "ucx::process_in_a_role";

/// Plays the role of another process, if this program is executed for one; otherwise does nothing.
#[test]
fn process_in_a_role() {
    let Some(role) = Role::of_this_process() else {
        return;
    };
    match role.role.as_str() {
        "node" => {
            let node = UcxNode::listen(&role.name, NODE, SIZE).expect("a node");
            node.serve(&AtomicBool::new(false));
        }
        "wait for the node" => until("a node", || UcxEndpoint::connect([&role.name]).is_ok()),
        "allocate and park" => {
            let endpoint = connect(&role.name);
            block_on(endpoint.allocate(NODE, 64)).expect("room");
            block_on(endpoint.write(at(64), &[1; 8])).expect("a flag");
            std::thread::park();
        }
        "connect and park" => {
            let _endpoint = connect(&role.name);
            std::thread::park();
        }
        "read until killed" => {
            let endpoint = connect(&role.name);
            drive((0..64).map(|_| read_until_killed(&endpoint)));
        }
        "wait for reads" => {
            let endpoint = connect(&role.name);
            let before = word(&endpoint, READS);
            until("reads", || word(&endpoint, READS) > before + 1000);
        }
        "check counts" => check_counts(&connect(&role.name), role.number),
        "cut the cable" => cut_the_cable(&connect(&role.name)),
        "open and close" => open_and_close(&role.name),
        "park" => loop {
            std::thread::park();
        },
        "leave a child" => {
            std::mem::forget(RoleProcess::start(ROLES, "park", "", 0));
            std::process::abort();
        }
        _ => role.play(&connect(&role.name)),
    }
}

/// Opens and closes endpoints and nodes in several threads. A thread adds while others connect.
fn open_and_close(address: &str) {
    let open = |thread: u64| {
        for opening in 0..OPENINGS {
            let endpoint = connect(address);
            if opening % OPENERS == thread {
                // No client connects to it. See the exception in `ucx/turns.rs`.
                let node = UcxNode::listen("127.0.0.1:0", NODE, SIZE).expect("a node");
                drop(node);
            }
            block_on(endpoint.add(at(64), 1)).expect("a node");
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..OPENERS {
            scope.spawn(move || open(thread));
        }
    });
}

/// UCX 1.13 ends a process that opens sockets in one thread and closes some in another.
#[test]
fn threads_open_and_close_endpoints_and_nodes_at_the_same_time() {
    let Some((_process, address)) = node_process() else {
        return;
    };
    RoleProcess::start(ROLES, "open and close", &address, 0).succeeds();
    assert_eq!(word(&connect(&address), 64), OPENERS * OPENINGS);
}

/// A process that is aborted leaves no other behind, which would keep its output open.
#[test]
fn roles_end_with_their_parents() {
    let program = std::env::current_exe().expect("this program");
    let mut parent = RoleProcess::command(&[program.into()], ROLES, "leave a child", "", 0);
    let (output, is_killed) = output_within(&mut parent, LONG);
    assert!(!is_killed && !output.status.success(), "{output:?}");
}

/// Returns the number of connections of a process that is the only one in its network namespace. A
/// closed connection stays in the table for a while, but no longer has a file (inode).
fn connections(process: &RoleProcess) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", process.0.id()));
    let table = table.expect("a process");
    let is_open = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (state, inode) = (columns[3], columns[9]);
        state != LISTENS && inode != "0"
    };
    table.lines().skip(1).filter(is_open).count()
}

/// Starts a node as a process. Returns it with its address.
fn node_process() -> Option<(RoleProcess, String)> {
    // This prints the reason if there is no UCX.
    node(NODE)?;
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let process = RoleProcess::start(ROLES, "node", &address, 0);
    until("a node", || UcxEndpoint::connect([&address]).is_ok());
    Some((process, address))
}

#[test]
fn it_does_what_every_transport_does() {
    let Some(node) = node(NODE) else { return };
    let endpoint = connect(&node.address);
    assert_eq!(endpoint.atomic_bytes(), 64);
    block_on(scenario(&endpoint, NODE));
    assert_eq!(node.end(), 0);
}

#[test]
fn endpoints_of_a_process_have_one_clock() {
    let Some(node) = node(NODE) else { return };
    let first = connect(&node.address);
    let before = first.now();
    let second = connect(&node.address);
    let between = second.now();
    assert!(before <= between && between <= first.now());
    drop((first, second));
    node.end();
}

#[test]
fn processes_exclude_each_other_by_swaps_and_add() {
    let Some(node) = node(NODE) else { return };
    run(ROLES, "count", &node.address, WORKERS);
    check_counts(&connect(&node.address), WORKERS);
}

#[test]
fn who_sees_a_flag_sees_what_was_written_before() {
    let Some(node) = node(NODE) else { return };
    let writer = RoleProcess::start(ROLES, "write", &node.address, 0);
    read_with_flag(&connect(&node.address));
    writer.succeeds();
}

#[test]
fn of_two_that_write_and_then_read_one_sees_the_other() {
    let Some(node) = node(NODE) else { return };
    run(ROLES, "cross", &node.address, 2);
    check_crossings(&connect(&node.address));
}

#[test]
fn what_processes_allocate_is_theirs_and_comes_back() {
    let Some(node) = node(NODE) else { return };
    run(ROLES, "allocate", &node.address, WORKERS);
    assert_eq!(node.end(), 0);
}

/// Reads in flight do not see a change of their data by a later verb of the same post. The
/// responses are so long that the node cannot send them at once.
#[test]
fn reads_see_nothing_of_what_their_post_writes_later() {
    let Some(node) = node(NODE) else { return };
    let endpoint = connect(&node.address);
    let length = SIZE as usize - 8192;
    let posts = (0..24_u8).map(|task| {
        let endpoint = &endpoint;
        async move {
            let mut seen = vec![0; length];
            let from = at(4096 + 8);
            // All tasks read the same bytes; each writes its own part of them.
            let own = 4096 + 1000 * u64::from(task);
            for round in 0..3_u8 {
                let written = [round + 1; 900];
                let mut verbs = [
                    FabricVerb::Read {
                        from,
                        into: &mut seen,
                    },
                    FabricVerb::Write {
                        to: at(own + 8),
                        bytes: &written,
                    },
                ];
                endpoint.post(&mut verbs).await.expect("a node");
                let own = &seen[own as usize - 4096..][..900];
                assert!(own.iter().all(|byte| *byte == round), "round {round}");
            }
        }
    });
    drive(posts);
}

/// A reader never sees a line half written.
#[test]
fn lines_are_read_and_written_as_one() {
    let Some(node) = node(NODE) else { return };
    let stop = AtomicBool::new(false);
    let address = &node.address;
    std::thread::scope(|scope| {
        let _stop = AtEnd(&stop);
        for writer in 0..2_u8 {
            let stop = &stop;
            scope.spawn(move || {
                let endpoint = connect(address);
                for round in (0..100_u8).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let bytes = [2 * round + writer; 640];
                    // The write begins and ends within lines.
                    block_on(endpoint.write(at(4096 - 32), &bytes)).expect("a node");
                }
            });
        }
        let endpoint = connect(address);
        let mut seen = std::collections::BTreeSet::new();
        let begin = Instant::now();
        while seen.len() < 100 && begin.elapsed() < LONG {
            let mut bytes = [0; 704];
            block_on(endpoint.read(at(4096 - 64), &mut bytes)).expect("a node");
            let torn = |line: &[u8]| line[32..].iter().any(|byte| *byte != line[32]);
            assert!(!bytes.chunks(64).any(torn), "{bytes:?}");
            seen.insert(bytes[100]);
        }
        assert!(seen.len() >= 100);
    });
}

/// Swaps that compare one bit of a word succeed while its other bits change all the time.
#[test]
fn masked_swaps_succeed_whatever_the_other_bits_are() {
    let Some(node) = node(NODE) else { return };
    let address = &node.address;
    const ROUNDS: u64 = 100;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let endpoint = connect(address);
                let lock = MaskedSwap {
                    expected: 0,
                    compare_mask: 1 << 63,
                    desired: u64::MAX,
                    swap_mask: 1 << 63,
                };
                for _ in 0..ROUNDS {
                    let begin = Instant::now();
                    let before = loop {
                        assert!(begin.elapsed() < LONG, "the lock is never released");
                        let mut count = [0; 8];
                        // The read after the swap returns later data, even if both are repeated.
                        let mut verbs = [
                            FabricVerb::Swap {
                                at: at(64),
                                swap: lock,
                                found: 0,
                            },
                            FabricVerb::Read {
                                from: at(128),
                                into: &mut count,
                            },
                        ];
                        block_on(endpoint.post(&mut verbs)).expect("a node");
                        if lock.succeeds(verbs[0].found().expect("a word")) {
                            break u64::from_le_bytes(count);
                        }
                        // The lower bits count failed attempts.
                        block_on(endpoint.add(at(64), 1)).expect("a word");
                    };
                    let after = (before + 1).to_le_bytes();
                    block_on(endpoint.write(at(128), &after)).expect("a word");
                    // This releases the lock, and leaves the other bits.
                    block_on(endpoint.add(at(64), 1 << 63)).expect("a word");
                }
            });
        }
    });
    let endpoint = connect(address);
    assert_eq!(word(&endpoint, READS), 3 * ROUNDS);
    assert_eq!(word(&endpoint, 64) >> 63, 0);
}

#[test]
fn many_posts_of_a_client_are_under_way_at_once_on_several_nodes() {
    let (Some(one), Some(other)) = (node(NodeId(1)), node(NodeId(7))) else {
        return;
    };
    let endpoint = UcxEndpoint::connect([&other.address, &one.address]).expect("two nodes");
    assert_eq!(endpoint.nodes(), [NodeId(1), NodeId(7)]);
    let tasks = (0..64_u64).map(|task| {
        let endpoint = endpoint.clone();
        async move {
            let on = |node, offset| nearfield_fabric::GlobalAddress::new(NodeId(node), offset);
            for round in 0..50_u64 {
                let bytes = (task << 32 | round).to_le_bytes();
                let own = 4096 + 64 * task;
                let (mut first, mut second) = ([0; 8], [0; 8]);
                let mut verbs = [
                    FabricVerb::Write {
                        to: on(1, own),
                        bytes: &bytes,
                    },
                    FabricVerb::Write {
                        to: on(7, own),
                        bytes: &bytes,
                    },
                    FabricVerb::Read {
                        from: on(7, own),
                        into: &mut first,
                    },
                    FabricVerb::Read {
                        from: on(1, own),
                        into: &mut second,
                    },
                    FabricVerb::Add {
                        at: on(7, 64),
                        summand: 1,
                        found: 0,
                    },
                ];
                endpoint.post(&mut verbs).await.expect("two nodes");
                assert_eq!((first, second), (bytes, bytes));
                endpoint
                    .write_unsignalled(on(1, own), &[9; 8])
                    .expect("a node");
                endpoint.read(on(1, own), &mut first).await.expect("a node");
                assert_eq!(first, [9; 8]);
            }
        }
    });
    drive(tasks);
    let sum = block_on(endpoint.add(nearfield_fabric::GlobalAddress::new(NodeId(7), 64), 0));
    assert_eq!(sum, Ok(64 * 50));
    let same = UcxEndpoint::connect([&one.address, &one.address]).unwrap_err();
    assert!(matches!(same, UcxError::SameNumber { .. }), "{same}");
}

/// Futures that are dropped at any time leave nothing behind, and no later write reaches the
/// buffers that they borrowed.
#[test]
fn dropped_posts_and_calls_keep_nothing() {
    let Some(node) = node(NODE) else { return };
    let endpoint = connect(&node.address);
    block_on(endpoint.write(at(1 << 16), &[7; 10_000])).expect("a node");
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..200_u64 {
        let mut buffer = vec![0; 10_000];
        let mut call = Box::pin(endpoint.allocate(NODE, 64));
        let mut read = Box::pin(endpoint.read(at(1 << 16), &mut buffer));
        let mut is_read = false;
        for _ in 0..round % 5 {
            if call.as_mut().poll(&mut context).is_ready() {
                break;
            }
            is_read = is_read || read.as_mut().poll(&mut context).is_ready();
        }
        drop(read);
        drop(call);
        let expected = if is_read { 7 } else { 0 };
        assert!(buffer.iter().all(|byte| *byte == expected));
        // A future that has been polled and is kept blocks no other.
        let mut kept = Box::pin(endpoint.add(at(64), 1));
        let done = kept.as_mut().poll(&mut context).is_ready();
        let freed = block_on(endpoint.free(at(1 << 19), 64));
        assert!(matches!(freed, Err(FabricError::NotAllocated { .. })));
        if !done {
            block_on(kept).expect("a word");
        }
    }
    assert_eq!(word(&endpoint, 64), 200);
    drop(endpoint);
    // The memory of calls that completed before they were dropped stays until the client leaves.
    let left = node.end();
    assert!(left.is_multiple_of(64) && left < 200 * 64, "{left}");
}

#[test]
fn a_new_client_sees_how_much_of_a_node_is_allocated() {
    let Some(node) = node(NODE) else { return };
    let allocated = |endpoint: &UcxEndpoint| {
        let memory = endpoint.memory_of(NODE).expect("a node");
        assert_eq!(memory.bytes, SIZE);
        memory.allocated_bytes
    };
    let first = connect(&node.address);
    assert_eq!(allocated(&first), Some(0));
    block_on(first.allocate(NODE, 1000)).expect("room");
    assert_eq!(allocated(&connect(&node.address)), Some(1024));
    assert_eq!(allocated(&first), Some(0), "it was connected before");
}

#[test]
fn what_a_killed_client_has_written_and_allocated_stays() {
    let Some(node) = node(NODE) else { return };
    let client = RoleProcess::start(ROLES, "allocate and park", &node.address, 0);
    let endpoint = connect(&node.address);
    until("its flag", || word(&endpoint, 64) != 0);
    drop(client);
    for _ in 0..100 {
        let chunk = block_on(endpoint.allocate(NODE, 64)).expect("room");
        block_on(endpoint.free(chunk, 64)).expect("a chunk");
    }
    assert_eq!(node.end(), 64);
}

/// Posts verbs with long responses, so that the node always has responses to send when a client is
/// killed.
async fn read_until_killed(endpoint: &UcxEndpoint) {
    let mut seen = [0; 3000];
    loop {
        let mut verbs = [
            FabricVerb::Add {
                at: at(READS),
                summand: 1,
                found: 0,
            },
            FabricVerb::Read {
                from: at(4096),
                into: &mut seen,
            },
        ];
        endpoint.post(&mut verbs).await.expect("a node");
    }
}

/// Returns the number of files and connections that a process has open, and its memory in
/// kilobytes.
fn held(process: &RoleProcess) -> (usize, u64) {
    let of = |what| format!("/proc/{}/{what}", process.0.id());
    let files = std::fs::read_dir(of("fd")).expect("a process").count();
    let status = std::fs::read_to_string(of("status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    (files, word.expect("a size").parse().expect("kilobytes"))
}

/// Clients that are killed at any time, even while they connect, leave nothing at their node.
#[test]
fn clients_that_are_killed_leave_nothing_at_their_node() {
    // UCX itself ends the process of a node that owes a dead client several responses; and a client
    // that dies while it writes a message into shared memory blocks all later ones.
    let is = |name: &str| std::env::var(name).is_ok_and(|value| value == "y");
    if is("NEARFIELD_UCX_ONE_SIDED") || is("UCX_MM_ERROR_HANDLING") {
        return;
    }
    let Some((process, address)) = node_process() else {
        return;
    };
    // They leave nothing in the machine either: UCX's files in /dev/shm would stay there if their
    // process is killed meanwhile.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.0.id()));
    assert!(!maps.expect("a process").contains("ucx_shm"));
    let endpoint = connect(&address);
    let random = &mut SmallRng::seed_from_u64(1);
    let mut before = (0, 0);
    for round in 0..30 {
        let clients = [0, 1, 2]
            .map(|number| RoleProcess::start(ROLES, "read until killed", &address, number));
        // In each fourth round the processes work before the kill.
        let done = word(&endpoint, READS);
        until("some work", || {
            round % 4 != 0 || word(&endpoint, READS) > done + 1000
        });
        std::thread::sleep(Duration::from_millis(random.random_range(0..80)));
        drop(clients);
        // The node serves others meanwhile.
        block_on(endpoint.add(at(64), 1)).expect("a node");
        if round == 10 {
            // The memory that the node keeps for later clients is allocated by now.
            before = held(&process);
        }
    }
    let mut now = before;
    until("connections that are closed", || {
        now = held(&process);
        now.0 <= before.0 + 2
    });
    assert!(now.1 < before.1 + 20_000, "{before:?} became {now:?}");
}

#[test]
fn a_killed_node_is_lost_with_what_is_under_way() {
    let Some((process, address)) = node_process() else {
        return;
    };
    let endpoint = connect(&address);
    block_on(endpoint.write(at(64), &[7; 8])).expect("a node");
    // Stop the process so that the verbs are certainly in flight.
    process.stop();
    let mut buffers = [[0; 64]; 16];
    let mut context = Context::from_waker(Waker::noop());
    let reads = buffers.iter_mut().map(|into| endpoint.read(at(64), into));
    let mut reads: Vec<_> = reads.map(Box::pin).collect();
    for read in &mut reads {
        assert!(read.as_mut().poll(&mut context).is_pending());
    }
    let mut call = Box::pin(endpoint.allocate(NODE, 64));
    assert!(call.as_mut().poll(&mut context).is_pending());
    drop(process);
    let begin = Instant::now();
    for ended in drive(reads) {
        assert_eq!(ended, Err(LOST));
    }
    assert_eq!(block_on(call), Err(LOST));
    assert!(begin.elapsed() < LONG);
    assert_eq!(endpoint.write_unsignalled(at(64), &[1; 8]), Err(LOST));
    assert_eq!(block_on(endpoint.add(at(64), 1)), Err(LOST));
    assert_eq!(block_on(endpoint.free(at(4096), 64)), Err(LOST));
    drop(endpoint);
    let error = UcxEndpoint::connect([&address]).unwrap_err();
    assert!(matches!(error, UcxError::Absent { .. }), "{error}");
}

/// A node that stands still, as when its machine is cut off, breaks no connection and is lost after
/// five seconds.
#[test]
fn a_node_that_stands_still_is_lost_after_five_seconds() {
    let Some((process, address)) = node_process() else {
        return;
    };
    let endpoint = connect(&address);
    process.stop();
    let begin = Instant::now();
    assert_eq!(block_on(endpoint.add(at(64), 1)), Err(LOST));
    let waited = begin.elapsed();
    let expected = Duration::from_secs(5)..LONG;
    assert!(expected.contains(&waited), "{waited:?}");
    assert_eq!(block_on(endpoint.add(at(64), 1)), Err(LOST));
}

#[test]
fn a_node_that_ends_is_lost() {
    let Some(node) = node(NODE) else { return };
    let endpoint = connect(&node.address);
    node.end();
    let begin = Instant::now();
    assert_eq!(block_on(endpoint.add(at(64), 1)), Err(LOST));
    assert!(begin.elapsed() < LONG);
}

#[test]
fn what_cannot_be_served_or_connected_to_is_refused_by_name() {
    let Some(node) = node(NODE) else { return };
    let error = UcxEndpoint::connect(["nowhere"]).unwrap_err();
    assert!(matches!(error, UcxError::Address { .. }), "{error}");
    for bytes in [0, 4096, 1 << 49, u64::MAX] {
        let error = UcxNode::listen("127.0.0.1:0", NODE, bytes).unwrap_err();
        assert!(matches!(error, UcxError::Size { .. }), "{bytes}: {error}");
    }
    let error = UcxNode::listen("127.0.0.1:0", NODE, 1 << 47).unwrap_err();
    assert!(matches!(error, UcxError::Memory { .. }), "{error}");
    let error = UcxNode::listen(&node.address, NODE, SIZE).unwrap_err();
    let text = format!("UCX cannot listen at {}: ", node.address);
    assert!(error.to_string().starts_with(&text), "{error}");
    // A server of another protocol.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = other.local_addr().expect("an address");
    let error = UcxEndpoint::connect([address.to_string()]).unwrap_err();
    assert!(matches!(error, UcxError::Absent { .. }), "{error}");
}

/// Creates `count` machines. Returns `None`, and prints a reason, if this user may not.
fn machines(count: u8) -> Option<Machines> {
    match Machines::new(count) {
        Ok(machines) => Some(machines),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

/// Starts a process on a machine; the node's machine is the second.
fn start_on(machines: &Machines, machine: usize, role: &str, number: u64) -> RoleProcess {
    let address = format!("{}:7000", machines.address(1));
    RoleProcess::start_by(&machines.on(machine), ROLES, role, &address, number)
}

#[test]
fn nodes_of_another_machine_are_reached_until_the_cable_is_cut() {
    // Shared memory needs no cable.
    if std::env::var_os(AGAIN).is_some() || node(NODE).is_none() {
        return;
    }
    let Some(machines) = machines(2) else { return };
    let _node = start_on(&machines, 1, "node", 0);
    start_on(&machines, 0, "wait for the node", 0).succeeds();
    let counting = [0, 1].map(|number| start_on(&machines, 0, "count", number));
    counting.into_iter().for_each(RoleProcess::succeeds);
    start_on(&machines, 0, "check counts", 2).succeeds();
    start_on(&machines, 0, "cut the cable", 0).succeeds();
}

/// A node drops clients that die while their machine is cut off. It notices only when the system
/// gives up, which is set to happen sooner here.
#[test]
fn a_node_parts_with_clients_that_vanish() {
    if std::env::var_os(AGAIN).is_some() || node(NODE).is_none() {
        return;
    }
    let Some(machines) = machines(3) else { return };
    let on_node = machines.on(1);
    // The settings are for clients with a response in flight, and for others.
    let retries = "echo 3 > /proc/sys/net/ipv4/tcp_retries2";
    let told = Command::new("ip")
        .args(&on_node[1..])
        .args(["sh", "-c", retries])
        .status();
    assert!(told.expect("ip").success());
    let sooner = ["env", "UCX_TCP_KEEPIDLE=1s", "UCX_TCP_KEEPINTVL=1s"];
    let words = [&on_node[..], &sooner].concat();
    let address = format!("{}:7000", machines.address(1));
    let node = RoleProcess::start_by(&words, ROLES, "node", &address, 0);
    start_on(&machines, 0, "wait for the node", 0).succeeds();
    // The client that has waited for the node has ended, but the node may not have noticed: if its
    // connections were counted here, two clients would never be enough below.
    until("no clients", || connections(&node) == 0);
    let before = held(&node).0;
    let busy = start_on(&machines, 2, "read until killed", 0);
    let idle = start_on(&machines, 2, "connect and park", 0);
    until("two clients", || connections(&node) == 2 * CONNECTION_FILES);
    start_on(&machines, 0, "wait for reads", 0).succeeds();
    let cut = Command::new("ip")
        .args(&machines.on(2)[1..])
        .args(["ip", "link", "set", CABLE, "down"])
        .status();
    assert!(cut.expect("ip").success());
    drop((busy, idle));
    // The node serves others meanwhile.
    let counting = [0, 1].map(|number| start_on(&machines, 0, "count", number));
    counting.into_iter().for_each(RoleProcess::succeeds);
    start_on(&machines, 0, "check counts", 2).succeeds();
    until("connections that are closed", || held(&node).0 <= before);
}

/// Cuts the network while a verb is in flight.
fn cut_the_cable(endpoint: &UcxEndpoint) {
    assert_eq!(block_on(endpoint.add(at(64), 1)), Ok(0));
    let cut = Command::new("ip")
        .args(["link", "set", CABLE, "down"])
        .status();
    assert!(cut.expect("ip").success());
    let begin = Instant::now();
    assert_eq!(block_on(endpoint.add(at(64), 1)), Err(LOST));
    assert!(begin.elapsed() < LONG);
}

/// All other tests pass again over TCP alone; over shared memory, which UCX uses only on request,
/// because it does not notice at once that another process has ended; and by the requests for
/// adapters, which UCX executes by messages of its own if there are none.
#[test]
fn all_of_this_holds_over_chosen_transports() {
    if std::env::var_os(AGAIN).is_some() || node(NODE).is_none() {
        return;
    }
    let chosen = [
        [("UCX_TLS", "tcp,self"), ("UCX_MM_ERROR_HANDLING", "n")],
        [("UCX_TLS", "tcp,self,sm"), ("UCX_MM_ERROR_HANDLING", "y")],
        [("UCX_TLS", "tcp,self"), ("NEARFIELD_UCX_ONE_SIDED", "y")],
    ];
    // They wait for timeouts most of the time.
    std::thread::scope(|scope| {
        for environment in chosen {
            scope.spawn(move || {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.arg("ucx::").env(AGAIN, "1").envs(environment);
                let (output, is_killed) = output_within(&mut command, 5 * LONG);
                // If UCX ends a process, it prints the reason to standard error. The program prints
                // which tests take more than a minute.
                let [text, errors] =
                    [&output.stdout, &output.stderr].map(|all| String::from_utf8_lossy(all));
                let success = output.status.success();
                let ended = if is_killed { "hangs" } else { "fails" };
                assert!(success, "{environment:?} {ended}:\n{text}\n{errors}");
            });
        }
    });
}
