//! Three servers over two memory nodes with the same content. Nodes and servers are killed at
//! random moments while clients write through all servers.
//!
//! Each key has one writer, which writes rising numbers and notes those that were acknowledged. A
//! reader must find the last acknowledged number, or one that was sent after it. Other writers
//! measure, through each server that is left, the longest time after a kill without an acknowledged
//! write.
//!
//! A killed node has lost its memory, so each round has new nodes and loses one of them.
//! `NEARFIELD_KILLS` sets the number of kills (8), in rounds of four, and `NEARFIELD_SEED` the
//! seed.

use crate::process::{CliTestProcess, NEARFIELD};
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_testkit::etcd::free_port;
use nearfield_testkit::stop::AtEnd;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 2;
const SERVERS: usize = 3;
const CLIENTS: usize = 4;
/// Number of kills of a round: one of a node, the others of servers.
const KILLS_EACH: u64 = 4;
/// Largest number of keys of a client.
const KEYS: usize = 300;
/// Number of keys that are written through each server while its pauses are measured.
const SAMPLE: usize = 16;
/// Time after a kill in which pauses are measured. Clients notice the loss of a node within 100 ms,
/// and its backup takes over 100 ms later.
const WINDOW: Duration = Duration::from_millis(600);
/// Time after which a server counts as one that does not serve again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest pause of a run for which `NEARFIELD_KILLS` is set. Other runs share the machine with
/// other tests, which may delay a server.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A time that nothing here takes unless it hangs.
const LONG: Duration = Duration::from_secs(60);

// ---- Keys -------------------------------------------------------------------------------------

/// A key with one writer, whose values have rising numbers.
#[derive(Debug)]
struct NumberedKey {
    name: String,
    /// The last number that was acknowledged; 0: none.
    acknowledged: u64,
    /// The last number that was sent.
    sent: u64,
    /// Number of acknowledged writes.
    writes: u64,
}

/// The outcome of a read.
#[derive(Debug)]
enum KeyReadOutcome {
    /// A value that the key may have.
    Valid,
    /// Another value. The text has the numbers.
    Invalid(String),
    /// The error of a server that could not reach a node.
    Refused(String),
}

impl NumberedKey {
    /// Creates a key. The keys of all writers are spread over the same leaves.
    fn new(writer: &str, index: usize) -> NumberedKey {
        let place = (index as u16).wrapping_mul(0x9e37);
        NumberedKey {
            name: format!("{place:04x}:{writer}"),
            acknowledged: 0,
            sent: 0,
            writes: 0,
        }
    }

    /// Writes the next number. Returns true if it was acknowledged, and false if the server could
    /// not reach a node.
    fn write(&mut self, connection: &mut TestkitConnection) -> io::Result<bool> {
        self.sent += 1;
        // Long values are stored outside of the leaves.
        let rest = "x".repeat(self.sent as usize % 4 * 40);
        let reply = connection.run(&format!("SET {} {}:{rest}", self.name, self.sent))?;
        if let RespReplyValue::Simple(_) = reply {
            self.acknowledged = self.sent;
            self.writes += 1;
            return Ok(true);
        }
        refusal(&reply);
        Ok(false)
    }

    /// Reads the key and compares it with the numbers that it may have.
    fn read(&self, connection: &mut TestkitConnection) -> io::Result<KeyReadOutcome> {
        let reply = connection.run(&format!("GET {}", self.name))?;
        let number = match &reply {
            RespReplyValue::NullBulk => 0,
            RespReplyValue::Bulk(value) => number_in(value),
            other => return Ok(KeyReadOutcome::Refused(refusal(other))),
        };
        if (self.acknowledged..=self.sent).contains(&number) {
            return Ok(KeyReadOutcome::Valid);
        }
        Ok(KeyReadOutcome::Invalid(format!(
            "{number} was read, {} acknowledged, {} sent",
            self.acknowledged, self.sent
        )))
    }
}

/// Returns the number of a value, which is followed by a colon.
fn number_in(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    let (number, _) = text.split_once(':').expect("a value of this test");
    number.parse().expect("a number")
}

/// Returns the error of a server that could not reach a node.
///
/// # Panics
/// If the reply is another one.
fn refusal(reply: &RespReplyValue) -> String {
    if let RespReplyValue::Error(text) = reply {
        let text = String::from_utf8_lossy(text).into_owned();
        let known = ["cannot be reached", "outcome of the operation is unknown"];
        if known.iter().any(|words| text.contains(words)) {
            return text;
        }
    }
    panic!("unexpected reply: {reply}")
}

// ---- Processes --------------------------------------------------------------------------------

/// A process that is killed at a random moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillVictim {
    Node(usize),
    Server(usize),
}

/// A server that may be killed and replaced by another.
#[derive(Debug)]
struct ReplaceableServer {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl ReplaceableServer {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the server is ready. Returns false if it has ended, because another process has
    /// taken its port.
    fn wait_until_ready(&mut self) -> bool {
        let began = Instant::now();
        while !self.text().contains("ready") {
            if let Some(status) = self.child.try_wait().expect("a child") {
                eprintln!("a server has ended with {status}: {}", self.text());
                return false;
            }
            assert!(began.elapsed() < LONG, "no server: {}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ReplaceableServer {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.text());
        }
    }
}

/// Memory nodes and the servers over them.
struct KillablePool {
    names: Vec<String>,
    replicas: u8,
    nodes: Vec<CliTestProcess>,
    servers: Vec<ReplaceableServer>,
    /// Number of servers that were started.
    starts: usize,
    folder: TestkitFolder,
}

impl KillablePool {
    /// Starts all processes. The label distinguishes the nodes from those of other pools.
    fn start(label: &str, replicas: u8) -> KillablePool {
        let name = |node: usize| format!("test-{}-{label}-{node}", std::process::id());
        let mut pool = KillablePool {
            names: (0..NODES).map(name).collect(),
            replicas,
            nodes: Vec::new(),
            servers: Vec::new(),
            starts: 0,
            folder: TestkitFolder::new(),
        };
        for node in 0..NODES {
            let process = pool.start_node(node);
            pool.nodes.push(process);
        }
        for _ in 0..SERVERS {
            let server = pool.start_server();
            pool.servers.push(server);
        }
        pool
    }

    /// Starts a memory node, which is empty.
    fn start_node(&self, node: usize) -> CliTestProcess {
        let (number, listen) = (node.to_string(), format!("shm:{}", self.names[node]));
        let arguments = ["--number", &number, "--listen", &listen, "--size", "128mb"];
        let mut process = CliTestProcess::start(&[&["memory-node"], &arguments[..]].concat());
        process.line("is ready");
        process
    }

    /// Starts a server and waits until it is ready.
    fn start_server(&mut self) -> ReplaceableServer {
        let nodes = self.names.iter().map(|name| format!("shm:{name}"));
        let nodes = nodes.collect::<Vec<String>>().join(",");
        for _ in 0..5 {
            self.starts += 1;
            let log = self.folder.join(format!("server-{}.log", self.starts));
            let port = free_port();
            let child = Command::new(NEARFIELD)
                .current_dir(&self.folder.0)
                .args(["serve", "--threads", "2", "--port", &port.to_string()])
                .args(["--placement", "pool", "--pool", &nodes])
                .args(["--pool-replicas", &self.replicas.to_string()])
                .arg("--logfile")
                .arg(&log)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("the program");
            let mut server = ReplaceableServer {
                child,
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                log,
            };
            if server.wait_until_ready() {
                return server;
            }
        }
        panic!("no server starts");
    }

    fn kill(&mut self, victim: KillVictim, load: &KillRunLoad) {
        match victim {
            KillVictim::Node(node) => self.nodes[node].kill(),
            KillVictim::Server(server) => {
                load.set_address(server, None);
                self.servers[server].kill();
            }
        }
    }
}

impl Drop for KillablePool {
    fn drop(&mut self) {
        self.servers.clear();
        self.nodes.clear();
        // A killed node leaves its memory behind.
        for name in &self.names {
            let _ = std::fs::remove_file(format!("/dev/shm/nearfield-{name}"));
        }
    }
}

// ---- Load -------------------------------------------------------------------------------------

/// The state that the clients of a round share.
struct KillRunLoad {
    /// The address of each server that is not being replaced.
    addresses: Mutex<Vec<Option<SocketAddr>>>,
    is_over: AtomicBool,
}

impl KillRunLoad {
    fn address(&self, server: usize) -> Option<SocketAddr> {
        let addresses = self.addresses.lock();
        addresses.unwrap_or_else(PoisonError::into_inner)[server]
    }

    fn set_address(&self, server: usize, address: Option<SocketAddr>) {
        let addresses = self.addresses.lock();
        addresses.unwrap_or_else(PoisonError::into_inner)[server] = address;
    }
}

/// The keys of a client, and the values that it has read and should not have: each with its key.
type ClientLedger = (Vec<NumberedKey>, Vec<(String, String)>);

/// Writes and reads keys through all servers until the round ends.
fn client(load: &KillRunLoad, number: usize, seed: u64) -> ClientLedger {
    let mut random = SmallRng::seed_from_u64(seed);
    let writer = format!("client{number}");
    let mut connections: Vec<Option<TestkitConnection>> = (0..SERVERS).map(|_| None).collect();
    let (mut keys, mut invalid) = (Vec::new(), Vec::new());
    while !load.is_over.load(Ordering::Relaxed) {
        let server = random.random_range(0..SERVERS);
        if connections[server].is_none() {
            let address = load.address(server);
            connections[server] = address.and_then(|at| TestkitConnection::open(at).ok());
        }
        let Some(connection) = connections[server].as_mut() else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let index = random.random_range(0..=keys.len()).min(KEYS - 1);
        if index == keys.len() {
            keys.push(NumberedKey::new(&writer, index));
        }
        let key = &mut keys[index];
        let is_served = if random.random_range(0..4) == 0 {
            key.read(connection).map(|outcome| match outcome {
                KeyReadOutcome::Valid => true,
                KeyReadOutcome::Invalid(what) => {
                    invalid.push((key.name.clone(), format!("server {server}: {what}")));
                    true
                }
                KeyReadOutcome::Refused(_) => false,
            })
        } else {
            key.write(connection)
        };
        match is_served {
            Ok(true) => {}
            Ok(false) => thread::sleep(Duration::from_millis(1)),
            Err(error) => {
                let hangs = [ErrorKind::TimedOut, ErrorKind::WouldBlock];
                assert!(
                    !hangs.contains(&error.kind()) && error.kind() != ErrorKind::InvalidData,
                    "server {server}: {error}"
                );
                connections[server] = None;
            }
        }
    }
    (keys, invalid)
}

/// Writes keys through a server until the window after a kill has passed, and each key once more.
/// Returns the longest time between two acknowledged writes; `None` if a write fails for longer
/// than `patience`.
fn longest_pause(
    connection: &mut TestkitConnection,
    keys: &mut [NumberedKey],
    is_over: &AtomicBool,
    patience: Duration,
    is_warm: impl FnOnce(),
) -> Option<Duration> {
    for key in keys.iter_mut() {
        key.write(connection).expect("a reply");
    }
    is_warm();
    let (mut latest, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        // Before the pass, so that the last one begins after the window.
        let is_last = is_over.load(Ordering::Relaxed);
        for key in keys.iter_mut() {
            while !key.write(connection).expect("a reply") {
                if latest.elapsed() > patience {
                    return None;
                }
                thread::sleep(Duration::from_millis(1));
            }
            longest = longest.max(latest.elapsed());
            latest = Instant::now();
        }
        if is_last {
            return Some(longest);
        }
    }
}

/// Kills processes and returns the longest pause of a server that is left; `None` if one does not
/// serve again.
fn kill(
    pool: &mut KillablePool,
    load: &KillRunLoad,
    victims: &[KillVictim],
    samples: &mut [Vec<NumberedKey>],
    patience: Duration,
) -> Option<Duration> {
    let is_over = AtomicBool::new(false);
    let (sender, warm) = mpsc::channel();
    thread::scope(|scope| {
        let _end = AtEnd(&is_over);
        let mut writers = Vec::new();
        for (server, keys) in samples.iter_mut().enumerate() {
            if victims.contains(&KillVictim::Server(server)) {
                continue;
            }
            let address = pool.servers[server].address;
            let (sender, is_over) = (sender.clone(), &is_over);
            writers.push(scope.spawn(move || {
                let mut connection = TestkitConnection::open(address).expect("a server");
                longest_pause(&mut connection, keys, is_over, patience, || {
                    let _ = sender.send(());
                })
            }));
        }
        for _ in &writers {
            warm.recv_timeout(LONG).expect("a server replies");
        }
        for &victim in victims {
            pool.kill(victim, load);
        }
        thread::sleep(WINDOW);
        is_over.store(true, Ordering::Relaxed);
        let mut longest = Some(Duration::ZERO);
        for writer in writers {
            let pause = writer.join().expect("a writer");
            longest = longest.zip(pause).map(|(one, other)| one.max(other));
        }
        longest
    })
}

// ---- Rounds -----------------------------------------------------------------------------------

/// The results of a run.
#[derive(Debug, Default)]
struct KillRunReport {
    kills: usize,
    /// Number of acknowledged writes.
    writes: u64,
    /// The keys that have lost an acknowledged write, and a value that was read, or an error.
    lost: BTreeMap<String, String>,
    /// The longest pause after each kill of a node.
    node_pauses: Vec<Duration>,
    /// The longest pause after each kill of a server alone.
    server_pauses: Vec<Duration>,
    /// The times from the start of a server until it is ready.
    starts: Vec<Duration>,
    /// Number of kills after which a server did not serve again.
    unserved: usize,
}

impl KillRunReport {
    fn lines(&self, seed: u64) -> Vec<String> {
        let row = |name: &str, times: &[Duration]| {
            let mut times = times.to_vec();
            times.sort();
            let shown = |time: Option<&Duration>| match time {
                Some(time) => format!("{} ms", time.as_millis()),
                None => "-".to_owned(),
            };
            let (median, longest) = (shown(times.get(times.len() / 2)), shown(times.last()));
            format!("{name:<26}{:>8}{median:>12}{longest:>12}", times.len())
        };
        vec![
            format!("{:<26}{:>8}{:>12}{:>12}", "", "number", "median", "longest"),
            row("pause, a node is killed", &self.node_pauses),
            row("pause, a server is killed", &self.server_pauses),
            row("start of a server", &self.starts),
            format!(
                "seed {seed}: {} kills, {} acknowledged writes, {} keys lost, {} kills without \
                 return",
                self.kills,
                self.writes,
                self.lost.len(),
                self.unserved
            ),
        ]
    }

    /// Notes the keys that cannot be read through all servers as they must be. Reads that are
    /// refused are repeated until `patience` has passed.
    fn check(&mut self, pool: &KillablePool, keys: &[NumberedKey], patience: Duration) {
        for (number, server) in pool.servers.iter().enumerate() {
            let mut connection = TestkitConnection::open(server.address).expect("a server");
            let began = Instant::now();
            for key in keys {
                let what = loop {
                    match key.read(&mut connection).expect("a reply") {
                        KeyReadOutcome::Valid => break None,
                        KeyReadOutcome::Invalid(what) => break Some(what),
                        KeyReadOutcome::Refused(what) if began.elapsed() > patience => {
                            break (key.acknowledged > 0).then_some(what);
                        }
                        KeyReadOutcome::Refused(_) => thread::sleep(Duration::from_millis(1)),
                    }
                };
                if let Some(what) = what {
                    self.lost
                        .insert(key.name.clone(), format!("server {number}: {what}"));
                }
            }
        }
    }
}

/// Returns the kills of a round, in their order. Those of one element follow each other at once.
fn plan(random: &mut SmallRng, node: usize) -> Vec<Vec<KillVictim>> {
    let mut events = Vec::new();
    for _ in 1..KILLS_EACH {
        events.push(vec![KillVictim::Server(random.random_range(0..SERVERS))]);
    }
    let at = random.random_range(0..=events.len());
    // The server may have changed one node, and the other one not yet.
    if at < events.len() && random.random_bool(0.5) {
        events[at].push(KillVictim::Node(node));
    } else {
        events.insert(at, vec![KillVictim::Node(node)]);
    }
    events
}

/// Starts a pool, kills processes under load, and checks all keys.
fn kill_round(
    label: &str,
    replicas: u8,
    events: &[Vec<KillVictim>],
    patience: Duration,
    random: &mut SmallRng,
    report: &mut KillRunReport,
) {
    let mut pool = KillablePool::start(label, replicas);
    let addresses = pool.servers.iter().map(|server| Some(server.address));
    let load = KillRunLoad {
        addresses: Mutex::new(addresses.collect()),
        is_over: AtomicBool::new(false),
    };
    let mut samples: Vec<Vec<NumberedKey>> = Vec::new();
    for server in 0..SERVERS {
        let writer = format!("sample{server}");
        let key = |index: usize| NumberedKey::new(&writer, index * KEYS / SAMPLE);
        samples.push((0..SAMPLE).map(key).collect());
    }
    let mut keys: Vec<NumberedKey> = Vec::new();
    thread::scope(|scope| {
        let _end = AtEnd(&load.is_over);
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (load, seed) = (&load, random.random::<u64>());
            clients.push(scope.spawn(move || client(load, number, seed)));
        }
        for victims in events {
            thread::sleep(Duration::from_millis(random.random_range(50..250)));
            let pause = kill(&mut pool, &load, victims, &mut samples, patience);
            let has_node = victims
                .iter()
                .any(|victim| matches!(victim, KillVictim::Node(_)));
            report.kills += victims.len();
            match pause {
                Some(pause) if has_node => report.node_pauses.push(pause),
                Some(pause) => report.server_pauses.push(pause),
                None => report.unserved += 1,
            }
            for &victim in victims {
                match victim {
                    KillVictim::Server(server) => {
                        let began = Instant::now();
                        let started = pool.start_server();
                        report.starts.push(began.elapsed());
                        load.set_address(server, Some(started.address));
                        pool.servers[server] = started;
                    }
                    // Servers must leave out a node that is back without its memory.
                    KillVictim::Node(node) if replicas == 2 && random.random_bool(0.5) => {
                        pool.nodes[node] = pool.start_node(node);
                    }
                    KillVictim::Node(_) => {}
                }
            }
        }
        thread::sleep(Duration::from_millis(100));
        load.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            let (written, invalid) = client.join().expect("a client");
            keys.extend(written);
            report.lost.extend(invalid);
        }
    });
    keys.extend(samples.into_iter().flatten());
    report.writes += keys.iter().map(|key| key.writes).sum::<u64>();
    report.check(&pool, &keys, patience);
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_when_nodes_and_servers_are_killed() {
    let kills = variable("NEARFIELD_KILLS");
    let seed = variable("NEARFIELD_SEED").unwrap_or_else(rand::random);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut report = KillRunReport::default();
    for round in 0..kills.unwrap_or(2 * KILLS_EACH).div_ceil(KILLS_EACH) {
        let events = plan(&mut random, round as usize % NODES);
        let label = format!("pair{round}");
        kill_round(&label, 2, &events, PATIENCE, &mut random, &mut report);
    }
    for line in report.lines(seed) {
        // The test harness would capture `println`, and `xtask soak` shows these lines.
        let _ = writeln!(io::stderr(), "soak: {line}");
    }
    let replay = format!(
        "NEARFIELD_SEED={seed} NEARFIELD_KILLS={} cargo test -p nearfield-cli --test all \
         node_kills::nothing",
        report.kills
    );
    assert!(
        report.lost.is_empty() && report.unserved == 0,
        "\n{replay}\n{report:#?}"
    );
    let pauses = report.node_pauses.iter().chain(&report.server_pauses);
    let longest = pauses.max().copied().unwrap_or_default();
    assert!(
        kills.is_none() || longest <= PAUSE_MAX,
        "\n{replay}\na server has paused for {longest:?}"
    );
    // Otherwise the kills meet no work.
    assert!(
        report.writes > 100 * report.kills as u64,
        "\n{replay}\n{report:#?}"
    );
}

/// The run finds keys that are lost, if each is at one node only.
#[test]
fn keys_without_a_second_replica_are_found_to_be_lost() {
    let mut report = KillRunReport::default();
    kill_round(
        "single",
        1,
        &[vec![KillVictim::Node(0)]],
        Duration::from_millis(500),
        &mut SmallRng::seed_from_u64(1),
        &mut report,
    );
    assert!(
        !report.lost.is_empty() && report.unserved == 1,
        "{report:#?}"
    );
}
