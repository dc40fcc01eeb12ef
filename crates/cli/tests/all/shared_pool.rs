//! Three servers over one pool of two memory nodes, which they find by etcd. Each program runs on a
//! machine of its own (here a network namespace) and accesses memory by UCX over TCP.
//!
//! Clients work on all servers while a server is killed and while a memory node's network is cut.
//! Each key must be linearizable over all servers, so that no acknowledged write is lost.
//!
//! Without UCX, etcd or namespaces the test prints the reason and passes, unless
//! `NEARFIELD_REQUIRE_UCX` or `NEARFIELD_REQUIRE_ETCD` is set.

use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_testkit::history::{CallInterval, HistoryRecorder};
use nearfield_testkit::linearizability::{LinearizableOperation, order};
use nearfield_testkit::machines::Machines;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");
const NODES: usize = 2;
const SERVERS: usize = 3;
/// The number of etcd's machine. Nodes come first, then servers, etcd and the clients.
const ETCD: usize = NODES + SERVERS;
const CLIENTS: usize = ETCD + 1;
const MACHINES: usize = CLIENTS + 1;
const PORT: u16 = 6399;
/// A time that nothing here takes unless it hangs.
const LONG: Duration = Duration::from_secs(120);
const KEYS: usize = 6;
/// Number of clients of each server.
const CLIENTS_EACH: usize = 2;

/// A process that is killed when this value is dropped.
struct SharedPoolProcess {
    child: Child,
    log: PathBuf,
}

impl SharedPoolProcess {
    fn start(
        machines: &Machines,
        machine: usize,
        name: &str,
        words: &[String],
    ) -> SharedPoolProcess {
        let log = std::env::temp_dir();
        let log = log.join(format!(
            "nearfield-{}-shared-{name}.log",
            std::process::id()
        ));
        let file = std::fs::File::create(&log).expect("a log");
        let on = machines.on(machine);
        let child = Command::new(on[0])
            .args(&on[1..])
            .args(words)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .spawn()
            .expect("the program");
        SharedPoolProcess { child, log }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_for(&mut self, word: &str) {
        let began = Instant::now();
        while !self.text().contains(word) {
            let ended = self.child.try_wait().expect("a child");
            assert!(
                ended.is_none() && began.elapsed() < LONG,
                "no \"{word}\" from {}: {ended:?}\n{}",
                self.log.display(),
                self.text()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for SharedPoolProcess {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.text());
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

/// All machines and the processes on them.
struct SharedPoolCluster {
    servers: Vec<SharedPoolProcess>,
    _nodes: Vec<SharedPoolProcess>,
    _etcd: SharedPoolProcess,
    machines: Machines,
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

impl SharedPoolCluster {
    /// Starts the cluster. Prints the reason and returns `None` if that is impossible.
    fn start() -> Option<SharedPoolCluster> {
        let machines = machines()?;
        let at = |machine| machines.address(machine);
        let members = format!("http://{}:2379", at(ETCD));
        let folder = std::env::temp_dir().join(format!("nearfield-{}-etcd", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let peers = format!("http://{}:2380", at(ETCD));
        let etcd = format!(
            "etcd --name m0 --data-dir {} --listen-client-urls {members} --advertise-client-urls \
             {members} --listen-peer-urls {peers} --initial-advertise-peer-urls {peers} \
             --initial-cluster m0={peers}",
            folder.display()
        );
        let mut etcd = SharedPoolProcess::start(&machines, ETCD, "etcd", &words(&etcd));
        etcd.wait_for("ready to serve client requests");
        let node = |number: usize| {
            let listen = format!("ucx:{}:7000", at(number));
            let node = format!(
                "{NEARFIELD} memory-node --listen {listen} --expose --size 256mb --number {number} \
                 --etcd {members}"
            );
            let name = format!("node-{number}");
            let mut process = SharedPoolProcess::start(&machines, number, &name, &words(&node));
            process.wait_for("is ready");
            process
        };
        let nodes = (0..NODES).map(node).collect();
        let mut cluster = SharedPoolCluster {
            servers: Vec::new(),
            _nodes: nodes,
            _etcd: etcd,
            machines,
        };
        for number in 0..SERVERS {
            let server = cluster.serve(number);
            cluster.servers.push(server);
        }
        Some(cluster)
    }

    /// Starts a server.
    fn serve(&self, number: usize) -> SharedPoolProcess {
        let etcd = self.machines.address(ETCD);
        let line = format!(
            "{NEARFIELD} serve --bind 0.0.0.0 --protected-mode no --threads 2 --placement pool \
             --pool etcd:http://{etcd}:2379 --pool-nodes {NODES}"
        );
        let name = format!("server-{number}");
        let mut process =
            SharedPoolProcess::start(&self.machines, NODES + number, &name, &words(&line));
        process.wait_for("is ready on port");
        process
    }

    fn address(&self, server: usize) -> SocketAddr {
        SocketAddr::new(self.machines.address(NODES + server), PORT)
    }

    /// Runs a program on the clients' machine and returns its output.
    fn run(&self, line: &str) -> String {
        let on = self.machines.on(CLIENTS);
        let output = Command::new(on[0])
            .args(&on[1..])
            .args(line.split(' '))
            .output()
            .expect("ip");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {text}");
        text
    }
}

fn machines() -> Option<Machines> {
    use nearfield_fabric::NodeId;
    use nearfield_fabric::transport::ucx::UcxNode;
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if Command::new("etcd").arg("--version").output().is_err() {
        assert!(!is_set("NEARFIELD_REQUIRE_ETCD"), "etcd is required");
        eprintln!("skipped: etcd is not installed");
        return None;
    }
    let ucx = UcxNode::listen("127.0.0.1:0", NodeId(0), 1 << 20);
    let machines = match ucx {
        Ok(_) => Machines::new(MACHINES as u8),
        Err(error) => Err(error.to_string()),
    };
    match machines {
        Ok(machines) => Some(machines),
        Err(reason) => {
            assert!(!is_set("NEARFIELD_REQUIRE_UCX"), "{reason}");
            eprintln!("skipped: {reason}");
            None
        }
    }
}

// ---- Histories --------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct SharedPoolOperation {
    session: u32,
    interval: CallInterval,
    did: SharedPoolEffect,
}

#[derive(Clone, Copy, Debug)]
enum SharedPoolEffect {
    Read(Option<i64>),
    Set(i64),
    RaisedTo(i64),
    /// An increment; it is unknown if there was a value.
    Raised,
    Deleted(bool),
    /// A removal; it is unknown if there was a value.
    Removed,
}

impl LinearizableOperation for SharedPoolOperation {
    type State = Option<i64>;

    fn session(&self) -> u32 {
        self.session
    }

    fn interval(&self) -> CallInterval {
        self.interval
    }

    fn after(&self, met: &Option<i64>) -> Option<Option<i64>> {
        let raised = Some(met.unwrap_or(0) + 1);
        match self.did {
            SharedPoolEffect::Read(read) => (read == *met).then_some(*met),
            SharedPoolEffect::Set(value) => Some(Some(value)),
            SharedPoolEffect::RaisedTo(value) => (Some(value) == raised).then_some(raised),
            SharedPoolEffect::Raised => Some(raised),
            SharedPoolEffect::Deleted(deleted) => (deleted == met.is_some()).then_some(None),
            SharedPoolEffect::Removed => Some(None),
        }
    }

    fn is_read(&self) -> bool {
        matches!(
            self.did,
            SharedPoolEffect::Read(_) | SharedPoolEffect::Deleted(false)
        )
    }
}

impl Display for SharedPoolOperation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        write!(
            formatter,
            "[{invoked}, {returned}] session {}: {:?}",
            self.session, self.did
        )
    }
}

/// The state that all clients share.
#[derive(Default)]
struct SharedPoolWorkload {
    recorder: HistoryRecorder,
    sessions: AtomicU32,
    values: AtomicI64,
    stop: AtomicBool,
    /// Number of replies of each server other than errors.
    answered: [AtomicU64; SERVERS],
}

#[derive(Clone, Copy, Debug)]
enum SharedPoolRequest {
    Get,
    Set(i64),
    Incr,
    Del,
}

impl SharedPoolRequest {
    fn line(self, key: usize) -> String {
        match self {
            SharedPoolRequest::Get => format!("GET key{key}"),
            SharedPoolRequest::Set(value) => format!("SET key{key} {value}"),
            SharedPoolRequest::Incr => format!("INCR key{key}"),
            SharedPoolRequest::Del => format!("DEL key{key}"),
        }
    }

    /// Returns the effect of the operation if this is the reply.
    fn did(self, reply: &RespReplyValue) -> SharedPoolEffect {
        match (self, reply) {
            (SharedPoolRequest::Get, RespReplyValue::NullBulk) => SharedPoolEffect::Read(None),
            (SharedPoolRequest::Get, RespReplyValue::Bulk(text)) => {
                let text = std::str::from_utf8(text).expect("a number");
                SharedPoolEffect::Read(Some(text.parse().expect("a number")))
            }
            (SharedPoolRequest::Set(value), RespReplyValue::Simple(_)) => {
                SharedPoolEffect::Set(value)
            }
            (SharedPoolRequest::Incr, &RespReplyValue::Integer(value)) => {
                SharedPoolEffect::RaisedTo(value)
            }
            (SharedPoolRequest::Del, &RespReplyValue::Integer(count)) => {
                SharedPoolEffect::Deleted(count == 1)
            }
            _ => panic!("{self:?} received the reply {reply}"),
        }
    }

    /// Returns the possible effect of the operation if there is no reply.
    fn may_have(self) -> Option<SharedPoolEffect> {
        match self {
            SharedPoolRequest::Get => None,
            SharedPoolRequest::Set(value) => Some(SharedPoolEffect::Set(value)),
            SharedPoolRequest::Incr => Some(SharedPoolEffect::Raised),
            SharedPoolRequest::Del => Some(SharedPoolEffect::Removed),
        }
    }
}

/// Returns true if a command was refused, and changed nothing.
fn is_refused(reply: &RespReplyValue) -> bool {
    match reply {
        RespReplyValue::Error(text) => String::from_utf8_lossy(text).contains("cannot be reached"),
        _ => false,
    }
}

/// Works on the keys through one server until the clients must stop. Returns the operations and
/// their keys.
fn client(
    work: &SharedPoolWorkload,
    server: usize,
    address: SocketAddr,
    seed: u64,
) -> Vec<(usize, SharedPoolOperation)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut done = Vec::new();
    let new_session = || work.sessions.fetch_add(1, Ordering::Relaxed);
    let mut session = new_session();
    let mut connection = None;
    while !work.stop.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = TestkitConnection::open(address).ok();
            if connection.is_none() {
                thread::sleep(Duration::from_millis(50));
            }
            continue;
        };
        let key = random.random_range(0..KEYS);
        let value = || work.values.fetch_add(1000, Ordering::Relaxed) + 1000;
        let asked = match random.random_range(0..10) {
            0..4 => SharedPoolRequest::Get,
            4..7 => SharedPoolRequest::Incr,
            7..9 => SharedPoolRequest::Set(value()),
            _ => SharedPoolRequest::Del,
        };
        let (interval, reply) = work.recorder.call(|| open.run(&asked.line(key)));
        let did = match &reply {
            Ok(reply) if is_refused(reply) => {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Ok(RespReplyValue::Error(_)) | Err(_) => {
                if reply.is_err() {
                    connection = None;
                }
                // It may take effect at any time from now on, or never.
                let interval = CallInterval {
                    invoked: interval.invoked,
                    returned: u64::MAX,
                };
                let did = asked.may_have();
                let operation = |did| SharedPoolOperation {
                    session,
                    interval,
                    did,
                };
                done.extend(did.map(|did| (key, operation(did))));
                session = new_session();
                continue;
            }
            Ok(reply) => asked.did(reply),
        };
        work.answered[server].fetch_add(1, Ordering::Relaxed);
        done.push((
            key,
            SharedPoolOperation {
                session,
                interval,
                did,
            },
        ));
    }
    done
}

/// Waits until each of these servers has sent another reply to clients.
fn until_answered(work: &SharedPoolWorkload, servers: &[usize]) {
    let count = |server: usize| work.answered[server].load(Ordering::Relaxed);
    let before: Vec<u64> = (0..SERVERS).map(count).collect();
    let began = Instant::now();
    while servers
        .iter()
        .any(|&server| count(server) < before[server] + 100)
    {
        assert!(
            began.elapsed() < LONG,
            "a server does not reply: {before:?}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_over_three_servers() {
    let Some(mut cluster) = SharedPoolCluster::start() else {
        return;
    };
    let addresses: Vec<SocketAddr> = (0..SERVERS).map(|it| cluster.address(it)).collect();
    if Command::new("redis-benchmark")
        .arg("--version")
        .output()
        .is_ok()
    {
        for address in &addresses {
            let host = address.ip();
            let line =
                format!("redis-benchmark -h {host} -p {PORT} -t set,get,incr,mset -n 2000 -q");
            let text = cluster.run(&line);
            let tasks = ["SET", "GET", "INCR", "MSET"];
            let is_done = |task: &str| {
                text.contains(&format!("{task}: ")) || text.contains(&format!("{task} ("))
            };
            assert!(
                tasks.into_iter().all(is_done) && !text.contains("rror"),
                "{text}"
            );
        }
    } else {
        eprintln!("redis-benchmark is not installed: not run");
    }
    let work = SharedPoolWorkload::default();
    let mut histories = vec![Vec::new(); KEYS];
    thread::scope(|scope| {
        let cut = &cluster.machines;
        let clients: Vec<_> = (0..SERVERS * CLIENTS_EACH)
            .map(|number| {
                let (work, server) = (&work, number % SERVERS);
                let address = addresses[server];
                scope.spawn(move || {
                    cut.enter(CLIENTS);
                    client(work, server, address, number as u64)
                })
            })
            .collect();
        until_answered(&work, &[0, 1, 2]);
        // A server is killed in the middle of its work. The others continue, and it restarts.
        cluster.servers[1].kill();
        until_answered(&work, &[0, 2]);
        cluster.servers[1] = cluster.serve(1);
        until_answered(&work, &[0, 1, 2]);
        // The network of a memory node is cut for longer than servers wait for a reply.
        cluster.machines.set_cable(1, false);
        thread::sleep(Duration::from_secs(7));
        cluster.machines.set_cable(1, true);
        until_answered(&work, &[0, 1, 2]);
        work.stop.store(true, Ordering::Relaxed);
        for client in clients {
            for (key, done) in client.join().expect("a client") {
                histories[key].push(done);
            }
        }
    });
    // Each server reads the final values, by the same clock.
    let last: Vec<Vec<(usize, SharedPoolOperation)>> = thread::scope(|scope| {
        let reader = |server: usize| {
            let (work, machines) = (&work, &cluster.machines);
            let address = addresses[server];
            let session = work.sessions.fetch_add(1, Ordering::Relaxed);
            move || {
                machines.enter(CLIENTS);
                let mut connection = TestkitConnection::open(address).expect("a server");
                let read = |key: usize| {
                    let line = SharedPoolRequest::Get.line(key);
                    // A server serves the keys of one node before it has found the other again.
                    let began = Instant::now();
                    let (interval, reply) = loop {
                        let (interval, reply) = work.recorder.call(|| connection.run(&line));
                        let reply = reply.expect("a reply");
                        if !is_refused(&reply) {
                            break (interval, reply);
                        }
                        assert!(began.elapsed() < LONG, "key{key} stays lost: {reply}");
                        thread::sleep(Duration::from_millis(50));
                    };
                    let did = SharedPoolRequest::Get.did(&reply);
                    (
                        key,
                        SharedPoolOperation {
                            session,
                            interval,
                            did,
                        },
                    )
                };
                (0..KEYS).map(read).collect()
            }
        };
        let readers = (0..SERVERS).map(|server| scope.spawn(reader(server)).join());
        readers.map(|reader| reader.expect("a reader")).collect()
    });
    for (key, done) in last.into_iter().flatten() {
        histories[key].push(done);
    }
    for (key, history) in histories.into_iter().enumerate() {
        assert!(history.len() > 100, "key{key}: {}", history.len());
        order(history).unwrap_or_else(|dead_end| panic!("key{key}: {dead_end}"));
    }
}
