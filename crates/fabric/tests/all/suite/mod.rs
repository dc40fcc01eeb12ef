//! The common tests of transports with several processes: memory nodes and clients are processes of
//! their own, some of which are killed. A test program executes itself in a role.

use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, MaskedSwap, NodeId};
use nearfield_testkit::polling::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};
use std::ffi::OsString;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ROLE: &str = "NEARFIELD_TEST_ROLE";
const NAME: &str = "NEARFIELD_TEST_NAME";
const NUMBER: &str = "NEARFIELD_TEST_NUMBER";
const PARENT: &str = "NEARFIELD_TEST_PARENT";

pub const NODE: NodeId = NodeId(3);
pub const SIZE: u64 = 1 << 20;
pub const WORKERS: u64 = 4;

pub fn at(offset: u64) -> GlobalAddress {
    GlobalAddress::new(NODE, offset)
}

/// A limit that only a hanging test reaches, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "it never became true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn word(endpoint: &impl Endpoint, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    block_on(endpoint.read(at(offset), &mut bytes)).expect("a word");
    u64::from_le_bytes(bytes)
}

/// A process in a role. A drop kills it.
pub struct RoleProcess(pub Child);

impl RoleProcess {
    /// Starts a process. `test` is the name of the test that plays the role.
    pub fn start(test: &str, role: &str, name: &str, number: u64) -> RoleProcess {
        RoleProcess::start_by(&[], test, role, name, number)
    }

    /// Starts a process by other programs, such as `ip netns exec there`.
    pub fn start_by(
        others: &[&str],
        test: &str,
        role: &str,
        name: &str,
        number: u64,
    ) -> RoleProcess {
        let program = std::env::current_exe().expect("this program");
        let words: Vec<OsString> = others.iter().map(OsString::from).collect();
        let words = [words, vec![program.into()]].concat();
        let child = RoleProcess::command(&words, test, role, name, number)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        RoleProcess(child.expect("this program runs"))
    }

    /// Returns the command that starts the process by these words.
    pub fn command(words: &[OsString], test: &str, role: &str, name: &str, number: u64) -> Command {
        let (program, arguments) = words.split_first().expect("a program");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, role)
            .env(NAME, name)
            .env(NUMBER, number.to_string())
            .env(PARENT, std::process::id().to_string());
        command
    }

    /// Stops its work until it is killed.
    pub fn stop(&self) {
        let id = Pid::from_raw(self.0.id() as i32);
        let id = id.expect("a process");
        kill_process(id, Signal::STOP).expect("it lives");
        waitpid(Some(id), WaitOptions::UNTRACED).expect("it stops");
    }

    /// Waits for longer than a role waits for anything, so that the role reports first which event
    /// never came.
    pub fn succeeds(mut self) {
        let begin = Instant::now();
        while self.0.try_wait().expect("a process").is_none() {
            assert!(begin.elapsed() < 2 * LONG, "a process hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        // It may have ended by itself, so ignore an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program until it has ended, and all processes that have inherited its output. Returns
/// their output, and true if the program had to be killed after `time`.
pub fn output_within(command: &mut Command, time: Duration) -> (Output, bool) {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let id = Pid::from_raw(child.id() as i32).expect("a process");
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || said.send(child.wait_with_output()));
    let in_time = heard.recv_timeout(time);
    let is_killed = in_time.is_err();
    let output = in_time.or_else(|_| {
        // The program may have ended, but not the process that has its output.
        let _ = kill_process(id, Signal::KILL);
        heard.recv_timeout(time)
    });
    let output = output.expect("another process has its output and does not end");
    (output.expect("it is read"), is_killed)
}

/// Runs a role in several processes at once until all have succeeded.
pub fn run(test: &str, role: &str, name: &str, count: u64) {
    let start = |number| RoleProcess::start(test, role, name, number);
    let processes: Vec<RoleProcess> = (0..count).map(start).collect();
    processes.into_iter().for_each(RoleProcess::succeeds);
}

/// The role of a process.
pub struct Role {
    pub role: String,
    /// The node's name.
    pub name: String,
    /// The process's number among several in the same role.
    pub number: u64,
}

impl Role {
    /// Returns the role of this process, if it has one.
    pub fn of_this_process() -> Option<Role> {
        let role = std::env::var(ROLE).ok()?;
        // A parent that is aborted drops nothing. A process that waits for the end of the parent's
        // output would wait for this process, which has inherited the output.
        set_parent_process_death_signal(Some(Signal::KILL)).expect("Linux has it");
        let parent = std::env::var(PARENT).expect("a parent");
        if std::os::unix::process::parent_id().to_string() != parent {
            // The parent has ended before that.
            std::process::exit(1);
        }
        let name = std::env::var(NAME).expect("a name");
        let number = std::env::var(NUMBER).expect("a number");
        let number = number.parse().expect("a number");
        Some(Role { role, name, number })
    }

    /// Plays the roles that transports have in common.
    pub fn play(&self, endpoint: &impl Endpoint) {
        match self.role.as_str() {
            "count" => block_on(count(endpoint)),
            "write" => block_on(write_with_flag(endpoint)),
            "allocate" => block_on(allocate_and_free(endpoint, self.number)),
            "cross" => block_on(cross(endpoint, self.number)),
            other => panic!("no role {other}"),
        }
    }
}

const COUNTS: u64 = 500;

async fn count(endpoint: &impl Endpoint) {
    for _ in 0..COUNTS {
        let begin = Instant::now();
        while endpoint.compare_swap(at(64), 0, 1).await.expect("a lock") != 0 {
            assert!(begin.elapsed() < LONG, "the lock is never released");
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
            .expect("a lock that is released");
        endpoint.add(at(320), 2).await.expect("a sum");
    }
}

/// Checks the final state after processes had the role `count`.
pub fn check_counts(endpoint: &impl Endpoint, processes: u64) {
    assert_eq!(word(endpoint, 64), 0);
    assert_eq!(word(endpoint, 256), processes * COUNTS);
    assert_eq!(word(endpoint, 320), 2 * processes * COUNTS);
}

/// Writes data that begin and end within words, then a flag, until the reader has enough.
async fn write_with_flag(endpoint: &impl Endpoint) {
    let mut round = 0_u64;
    let begin = Instant::now();
    while endpoint.add(at(128), 0).await.expect("a word") == 0 {
        assert!(begin.elapsed() < 2 * LONG, "the reader has stopped");
        round += 1;
        let data = [(round % 251) as u8; 301];
        let (flag, before) = (round.to_le_bytes(), (2 * round).to_le_bytes());
        let mut verbs = [
            FabricVerb::Write {
                to: at(72),
                bytes: &before,
            },
            FabricVerb::Write {
                to: at(4099),
                bytes: &data,
            },
            FabricVerb::Write {
                to: at(64),
                bytes: &flag,
            },
        ];
        endpoint.post(&mut verbs).await.expect("a node");
    }
}

/// Checks that a client that reads a flag reads the data written before it, and that an earlier
/// read is not newer than the flag. Meanwhile another process has the role `write`.
pub fn read_with_flag(endpoint: &impl Endpoint) {
    let (mut flag, mut data, mut after) = ([0; 8], [0; 301], [0; 8]);
    let mut seen = std::collections::BTreeSet::new();
    let begin = Instant::now();
    // If processes share a core, a reader sees few values in each time slice of the scheduler.
    while seen.len() < 200 {
        assert!(begin.elapsed() < LONG, "the writer has stopped");
        let mut verbs = [
            FabricVerb::Read {
                from: at(64),
                into: &mut flag,
            },
            FabricVerb::Read {
                from: at(4099),
                into: &mut data,
            },
            FabricVerb::Read {
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
}

const CROSSINGS: u64 = 2000;

/// Writes a word and reads the other's at once, and counts the reads that have seen nothing.
async fn cross(endpoint: &impl Endpoint, number: u64) {
    for round in 0..CROSSINGS {
        endpoint.add(at(128), 1).await.expect("a count");
        let mut arrived = [0; 8];
        let begin = Instant::now();
        for turn in 0.. {
            assert!(begin.elapsed() < LONG, "the other never arrives");
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
            FabricVerb::Write {
                to: word(number),
                bytes: &[1; 8],
            },
            FabricVerb::Read {
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

/// Checks the final state after two processes had the role `cross`.
pub fn check_crossings(endpoint: &impl Endpoint) {
    for round in 0..CROSSINGS {
        let blind = word(endpoint, 8192 + 8 * round);
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

/// Tests the common behaviour of all transports.
pub async fn scenario(endpoint: &impl Endpoint, number: NodeId) {
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
        FabricVerb::Add {
            at: at(512),
            summand: 5,
            found: 0,
        },
        FabricVerb::Swap {
            at: at(512),
            swap,
            found: 0,
        },
        FabricVerb::compare_swap(at(512), 5, 6),
        FabricVerb::Add {
            at: at(512),
            summand: u64::MAX,
            found: 0,
        },
    ];
    endpoint.post(&mut verbs).await.expect("a node");
    let found = verbs.each_ref().map(FabricVerb::found);
    assert_eq!(found, [Some(0), Some(5), Some(0xab05), Some(0xab05)]);
    assert_eq!(endpoint.add(at(512), 0).await, Ok(0xab04));

    // A post is not executed in part if a verb of it is invalid.
    let mut verbs = [
        FabricVerb::Write {
            to: at(600),
            bytes: &[1],
        },
        FabricVerb::compare_swap(at(604), 0, 1),
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
    // Another node may have chosen the place.
    let place = chunk.plus(4096);
    endpoint.allocate_at(place, 100).await.expect("free bytes");
    let bytes = 64;
    let taken = endpoint.allocate_at(place, bytes).await;
    assert_eq!(taken, Err(FabricError::OutOfMemory { node, bytes }));
    assert_eq!(endpoint.find_memory(place, true).await, Ok(Some(place)));
    let end = place.plus(128);
    assert_eq!(endpoint.find_memory(place, false).await, Ok(Some(end)));
    endpoint.free(place, 100).await.expect("a chunk");
    let before = endpoint.now();
    endpoint.sleep(Duration::from_micros(700)).await;
    assert!(endpoint.now() - before >= Duration::from_micros(700));
}
