//! Memory nodes in shared memory, with clients and nodes in processes of their own, some of which
//! are killed: this test program executes itself in a role.

#![cfg(target_os = "linux")]

use nearfield_fabric::shm::{ShmEndpoint, ShmError, ShmNode};
use nearfield_fabric::sim::{Delivery, Simulation};
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, MaskedSwap, NodeId, Verb};
use nearfield_hardware::network::Preset;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::{Pin, pin};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const ROLE: &str = "NEARFIELD_SHM_ROLE";
const NAME: &str = "NEARFIELD_SHM_NAME";
const NUMBER: &str = "NEARFIELD_SHM_NUMBER";

const NODE: NodeId = NodeId(3);
const SIZE: u64 = 1 << 20;
const WORKERS: u64 = 4;

fn at(offset: u64) -> GlobalAddress {
    GlobalAddress::new(NODE, offset)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

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
    /// Also if a test fails.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| node.serve(&stop));
        act()
    })
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn word(endpoint: &ShmEndpoint, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    block_on(endpoint.read(at(offset), &mut bytes)).expect("a word");
    u64::from_le_bytes(bytes)
}

/// A process in a role, which is killed if it is not waited for.
struct Process(Child);

impl Process {
    fn start(role: &str, name: &str, number: u64) -> Process {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "process_in_a_role", "--nocapture"])
            .env(ROLE, role)
            .env(NAME, name)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Process(child.expect("this program runs"))
    }

    /// Has it do nothing any more, until it is killed.
    fn stop(&self) {
        let id = Pid::from_raw(self.0.id() as i32);
        let id = id.expect("a process");
        kill_process(id, Signal::STOP).expect("it lives");
        waitpid(Some(id), WaitOptions::UNTRACED).expect("it stops");
    }

    fn succeeds(mut self) {
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of the other processes, when this program is executed for it; else nothing.
#[test]
fn process_in_a_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let name = std::env::var(NAME).expect("a name");
    let number: u64 = std::env::var(NUMBER)
        .expect("a number")
        .parse()
        .expect("one");
    if role == "node" {
        let node = ShmNode::create(&name, NODE, SIZE).expect("a node");
        node.serve(&AtomicBool::new(false));
        return;
    }
    let endpoint = attach(&name);
    match role.as_str() {
        "count" => block_on(count(&endpoint)),
        "write" => block_on(write_with_flag(&endpoint)),
        "allocate" => block_on(allocate_and_free(&endpoint, number)),
        "cross" => block_on(cross(&endpoint, number)),
        "hold" => hold(&endpoint),
        other => panic!("no role {other}"),
    }
}

/// Runs a role in several processes at once until all have succeeded.
fn run(role: &str, name: &str, count: u64) {
    let start = |number| Process::start(role, name, number);
    let processes: Vec<Process> = (0..count).map(start).collect();
    processes.into_iter().for_each(Process::succeeds);
}

const COUNTS: u64 = 2000;

async fn count(endpoint: &impl Endpoint) {
    for _ in 0..COUNTS {
        while endpoint.compare_swap(at(64), 0, 1).await.expect("a lock") != 0 {
            endpoint.sleep(Duration::from_micros(3)).await;
        }
        let mut count = [0; 8];
        endpoint.read(at(256), &mut count).await.expect("a count");
        let count = u64::from_le_bytes(count) + 1;
        endpoint
            .write(at(256), &count.to_le_bytes())
            .await
            .expect("a count");
        endpoint
            .write_unsignalled(at(64), &[0; 8])
            .expect("a lock that is given back");
        endpoint.add(at(320), 2).await.expect("a sum");
    }
}

#[test]
fn processes_exclude_each_other_by_swaps_and_add() {
    let node = node("count");
    run("count", node.name(), WORKERS);
    let endpoint = attach(node.name());
    assert_eq!(word(&endpoint, 64), 0);
    assert_eq!(word(&endpoint, 256), WORKERS * COUNTS);
    assert_eq!(word(&endpoint, 320), 2 * WORKERS * COUNTS);
}

/// Data that begin and end within words, then a flag, until the reader has enough.
async fn write_with_flag(endpoint: &impl Endpoint) {
    let mut round = 0_u64;
    while endpoint.add(at(128), 0).await.expect("a word") == 0 {
        round += 1;
        let data = [(round % 251) as u8; 301];
        let (flag, before) = (round.to_le_bytes(), (2 * round).to_le_bytes());
        let mut verbs = [
            Verb::Write {
                to: at(72),
                bytes: &before,
            },
            Verb::Write {
                to: at(4099),
                bytes: &data,
            },
            Verb::Write {
                to: at(64),
                bytes: &flag,
            },
        ];
        endpoint.post(&mut verbs).await.expect("a node");
    }
}

/// Who reads a flag reads the data behind it, and what was read first is not newer than what was
/// announced before that was written.
#[test]
fn who_sees_a_flag_sees_what_was_written_before() {
    let node = node("flag");
    let writer = Process::start("write", node.name(), 0);
    let endpoint = attach(node.name());
    let (mut flag, mut data, mut after) = ([0; 8], [0; 301], [0; 8]);
    let mut seen = std::collections::BTreeSet::new();
    // Few are seen for each turn of the scheduler where a core is shared.
    while seen.len() < 200 {
        let mut verbs = [
            Verb::Read {
                from: at(64),
                into: &mut flag,
            },
            Verb::Read {
                from: at(4099),
                into: &mut data,
            },
            Verb::Read {
                from: at(72),
                into: &mut after,
            },
        ];
        block_on(endpoint.post(&mut verbs)).expect("a node");
        let [first, last] = [flag, after].map(u64::from_le_bytes);
        let last = last / 2;
        let rounds = first..=last;
        assert!(!rounds.is_empty(), "{first} was after {last}");
        if last - first < 250 {
            let possible = |byte: &u8| rounds.clone().any(|round| round % 251 == u64::from(*byte));
            assert!(data.iter().all(possible), "{rounds:?}: {data:?}");
        }
        seen.insert(first);
    }
    block_on(endpoint.add(at(128), 1)).expect("a word");
    writer.succeeds();
}

const CROSSINGS: u64 = 7000;

/// Writes a word and reads the other's at once, and counts who has seen nothing.
async fn cross(endpoint: &impl Endpoint, number: u64) {
    for round in 0..CROSSINGS {
        endpoint.add(at(128), 1).await.expect("a count");
        let mut arrived = [0; 8];
        for turn in 0.. {
            endpoint.read(at(128), &mut arrived).await.expect("a count");
            if u64::from_le_bytes(arrived) >= 2 * (round + 1) {
                break;
            }
            if turn % 1000 == 999 {
                std::thread::yield_now();
            }
        }
        let word = |number| at(65_536 + 128 * round + 64 * number);
        let mut seen = [0; 8];
        let mut verbs = [
            Verb::Write {
                to: word(number),
                bytes: &[1; 8],
            },
            Verb::Read {
                from: word(1 - number),
                into: &mut seen,
            },
        ];
        endpoint.post(&mut verbs).await.expect("two words");
        if seen == [0; 8] {
            let blind = at(8192 + 8 * round);
            endpoint.add(blind, 1).await.expect("a count");
        }
    }
}

#[test]
fn of_two_that_write_and_then_read_one_sees_the_other() {
    let node = node("cross");
    run("cross", node.name(), 2);
    let endpoint = attach(node.name());
    for round in 0..CROSSINGS {
        let blind = word(&endpoint, 8192 + 8 * round);
        assert!(blind < 2, "neither saw the other in round {round}");
    }
}

async fn allocate_and_free(endpoint: &impl Endpoint, number: u64) {
    let random = &mut SmallRng::seed_from_u64(number);
    let mut held: Vec<(GlobalAddress, u64, u8)> = Vec::new();
    for round in 0..400 {
        if held.len() < 10 && random.random_bool(0.6) {
            let bytes = random.random_range(0..5000);
            let chunk = endpoint.allocate(NODE, bytes).await.expect("room");
            assert!(chunk.offset() >= 4096 && chunk.offset().is_multiple_of(64));
            let fill = (number * 64 + round % 64) as u8;
            let all = vec![fill; bytes as usize];
            endpoint.write(chunk, &all).await.expect("a chunk");
            held.push((chunk, bytes, fill));
        } else if !held.is_empty() {
            let (chunk, bytes, fill) = held.swap_remove(random.random_range(0..held.len()));
            let mut all = vec![0; bytes as usize];
            endpoint.read(chunk, &mut all).await.expect("a chunk");
            assert!(all.iter().all(|byte| *byte == fill), "{chunk} is another's");
            endpoint.free(chunk, bytes).await.expect("a chunk");
        }
    }
    for (chunk, bytes, _) in held {
        endpoint.free(chunk, bytes).await.expect("a chunk");
    }
}

#[test]
fn what_processes_allocate_is_theirs_and_comes_back() {
    let node = node("allocate");
    served(&node, || run("allocate", node.name(), WORKERS));
    assert_eq!(node.allocated_bytes(), 0);
}

/// All calls that can be under way, made and never attended to.
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
        let holder = Process::start("hold", node.name(), 0);
        let endpoint = attach(node.name());
        until("calls", || word(&endpoint, 64) != 0);
        if !answered {
            // Before the node has looked at its calls.
            drop(holder);
            served(&node, || allocate_within_a_second(&endpoint));
        } else {
            served(&node, || {
                until("answers", || node.allocated_bytes() == 64 * 64);
                drop(holder);
                allocate_within_a_second(&endpoint);
            });
        }
        assert_eq!(node.allocated_bytes(), 128, "answered: {answered}");
    }
}

fn allocate_within_a_second(endpoint: &ShmEndpoint) {
    let begin = Instant::now();
    block_on(endpoint.allocate(NODE, 100)).expect("a slot");
    assert!(begin.elapsed() < Duration::from_secs(1));
}

/// Calls that nobody waits for any longer, made before the node looks and after it has answered.
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
            // There is a slot again as soon as the node has looked.
            let chunk = block_on(endpoint.allocate(NODE, 64)).unwrap();
            answered.clear();
            block_on(endpoint.free(chunk, 64)).unwrap();
            until("what was dropped", || node.allocated_bytes() == 0);
        });
    }
}

#[test]
fn a_killed_node_is_lost_and_can_be_replaced() {
    let name = &name("lost");
    let process = Process::start("node", name, 0);
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

    // With a call under way.
    process.stop();
    let mut call = Box::pin(endpoint.allocate(NODE, 64));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    drop(process);
    let begin = Instant::now();
    let lost = FabricError::NodeLost { node: NODE };
    assert_eq!(block_on(call), Err(lost.clone()));
    assert!(begin.elapsed() < Duration::from_secs(1));
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
    let process = Process::start("node", name, 0);
    until("a node", || ShmEndpoint::attach([name]).is_ok());
    let endpoint = attach(name);
    drop(process);
    let begin = Instant::now();
    let read = || block_on(endpoint.read(at(64), &mut [0; 8]));
    until("the loss", || read().is_err());
    assert!(begin.elapsed() < Duration::from_secs(1));
    // Takes the object away.
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

/// The message with which a node is refused whose object was changed at an offset.
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
    let all = SIZE + 8192;
    assert_eq!(
        refused(8, b"other"),
        "/dev/shm/nearfield-NAME is not a memory node"
    );
    assert_eq!(
        refused(16, &[9]),
        "memory node NAME is laid out in version 9, which is not 1"
    );
    assert_eq!(
        refused(all, &[0]),
        format!(
            "memory node NAME should have {all} bytes with its header, and has {}",
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

/// What every transport does alike.
async fn scenario(endpoint: &impl Endpoint, number: NodeId) {
    assert_eq!(endpoint.nodes(), [number]);
    let at = |offset| GlobalAddress::new(number, offset);
    let bytes: Vec<u8> = (0..100).collect();
    endpoint.write(at(205), &bytes).await.expect("a node");
    let mut back = [9; 102];
    endpoint.read(at(204), &mut back).await.expect("a node");
    assert_eq!((back[0], &back[1..101], back[101]), (0, &bytes[..], 0));

    let swap = MaskedSwap {
        expected: 5,
        compare_mask: 0xff,
        desired: 0xab00,
        swap_mask: 0xff00,
    };
    let mut verbs = [
        Verb::Add {
            at: at(512),
            summand: 5,
            found: 0,
        },
        Verb::Swap {
            at: at(512),
            swap,
            found: 0,
        },
        Verb::compare_swap(at(512), 5, 6),
        Verb::Add {
            at: at(512),
            summand: u64::MAX,
            found: 0,
        },
    ];
    endpoint.post(&mut verbs).await.expect("a node");
    let found = verbs.each_ref().map(Verb::found);
    assert_eq!(found, [Some(0), Some(5), Some(0xab05), Some(0xab05)]);
    assert_eq!(endpoint.add(at(512), 0).await, Ok(0xab04));

    // Nothing of a post is done if some of it cannot be.
    let mut verbs = [
        Verb::Write {
            to: at(600),
            bytes: &[1],
        },
        Verb::compare_swap(at(604), 0, 1),
    ];
    let misaligned = FabricError::Misaligned { address: at(604) };
    assert_eq!(endpoint.post(&mut verbs).await, Err(misaligned));
    assert_eq!(endpoint.add(at(600), 0).await, Ok(0));
    for (offset, length) in [(SIZE - 7, 8), (SIZE, 1), ((1 << 48) - 1, 3)] {
        let bytes = vec![0; length as usize];
        let beyond = FabricError::OutOfRange {
            address: at(offset),
            bytes: length,
            size: SIZE,
        };
        let written = endpoint.write_unsignalled(at(offset), &bytes);
        assert_eq!(written, Err(beyond));
    }
    assert_eq!(endpoint.read(at(SIZE - 8), &mut [0; 8]).await, Ok(()));
    assert_eq!(endpoint.read(at(SIZE), &mut []).await, Ok(()));
    let node = NodeId(77);
    let nowhere = endpoint.read(GlobalAddress::new(node, 0), &mut []).await;
    assert_eq!(nowhere, Err(FabricError::NoSuchNode { node }));

    let chunk = endpoint.allocate(number, 1000).await.expect("room");
    let bytes = 2 * SIZE;
    let much = endpoint.allocate(number, bytes).await;
    let node = number;
    assert_eq!(much, Err(FabricError::OutOfMemory { node, bytes }));
    endpoint.free(chunk, 1000).await.expect("a chunk");
    let again = endpoint.free(chunk, 1000).await;
    let (address, bytes) = (chunk, 1000);
    assert_eq!(again, Err(FabricError::NotAllocated { address, bytes }));
    let before = endpoint.now();
    endpoint.sleep(Duration::from_micros(700)).await;
    assert!(endpoint.now() - before >= Duration::from_micros(700));
}

#[test]
fn transports_do_the_same() {
    for delivery in [Delivery::Whole, Delivery::Torn, Delivery::TornWords] {
        let mut simulation = Simulation::new(1, Preset::ConnectX6.parameters(), delivery);
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
