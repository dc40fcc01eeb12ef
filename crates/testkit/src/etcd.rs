//! Real etcd processes, which are started, killed and started again.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A time that nothing here takes unless it hangs.
const LONG: Duration = Duration::from_secs(30);

/// The members of one cluster, each with a directory that outlives its process. They are stopped
/// when this value is dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    directory: PathBuf,
    members: Vec<EtcdProcess>,
}

#[derive(Debug)]
struct EtcdProcess {
    name: String,
    client: String,
    peer: String,
    child: Option<Child>,
}

/// Returns a port that was free a moment ago.
///
/// # Panics
/// If the machine has no free port.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

impl EtcdCluster {
    /// Starts a cluster and waits until it is ready. Returns `None` and prints the reason if etcd
    /// (Debian's etcd-server) is not installed.
    ///
    /// # Panics
    /// If etcd does not start, or is not installed while `NEARFIELD_REQUIRE_ETCD` is 1.
    pub fn start(count: usize) -> Option<EtcdCluster> {
        if Command::new("etcd").arg("--version").output().is_err() {
            let required = std::env::var("NEARFIELD_REQUIRE_ETCD").is_ok_and(|value| value == "1");
            assert!(!required, "etcd is required and not installed");
            println!("skipped: etcd is not installed");
            return None;
        }
        static CLUSTERS: AtomicU32 = AtomicU32::new(0);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfield-etcd-{}-{number}", std::process::id());
        let url = || format!("http://127.0.0.1:{}", free_port());
        let member = |number| EtcdProcess {
            name: format!("m{number}"),
            client: url(),
            peer: url(),
            child: None,
        };
        let mut cluster = EtcdCluster {
            directory: std::env::temp_dir().join(name),
            members: (0..count).map(member).collect(),
        };
        std::fs::create_dir_all(&cluster.directory).expect("a directory");
        for place in 0..count {
            cluster.run(place);
        }
        // After all were started, because none responds before a majority has a leader.
        cluster.wait_ready();
        Some(cluster)
    }

    /// Starts a member with its existing data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn run(&mut self, place: usize) {
        let peers: Vec<_> = self
            .members
            .iter()
            .map(|member| format!("{}={}", member.name, member.peer))
            .collect();
        let member = &mut self.members[place];
        debug_assert!(member.child.is_none(), "a member runs once");
        let log = self.directory.join(format!("{}.log", member.name));
        // Appended to, so that the output from before a kill stays.
        let log = File::options().create(true).append(true).open(log);
        let child = Command::new("etcd")
            .args(["--name", &member.name, "--data-dir"])
            .arg(self.directory.join(&member.name))
            .args(["--listen-client-urls", &member.client])
            .args(["--advertise-client-urls", &member.client])
            .args(["--listen-peer-urls", &member.peer])
            .args(["--initial-advertise-peer-urls", &member.peer])
            .args(["--initial-cluster", &peers.join(",")])
            // Half of the defaults, so that tests wait less for elections.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        member.child = Some(child.expect("etcd runs"));
    }

    /// Waits until all started members respond, which they do once they have a leader.
    ///
    /// # Panics
    /// If they do not within 30 s.
    pub fn wait_ready(&self) {
        until("etcd is ready", || {
            let key = r#"{"key":"YQ=="}"#;
            self.members
                .iter()
                .filter(|member| member.child.is_some())
                .all(|member| post(&member.client, "kv/range", key).contains("revision"))
        });
    }

    /// Kills a member as kill -9 does.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill(&mut self, place: usize) {
        let mut child = self.members[place].child.take().expect("it runs");
        child.kill().expect("it is killed");
        // Only then the lock on its data is free for the next process.
        child.wait().expect("it ends");
    }

    /// Removes the data of all members. None may be running.
    ///
    /// # Panics
    /// If the data cannot be removed.
    pub fn forget_all(&self) {
        for member in &self.members {
            debug_assert!(member.child.is_none(), "a running member uses its data");
            let directory = self.directory.join(&member.name);
            std::fs::remove_dir_all(directory).expect("its data");
        }
    }

    /// Returns the number of the member that leads.
    ///
    /// # Panics
    /// If there is no leader.
    pub fn leader(&self) -> usize {
        let ids = self.members.iter().map(|member| {
            let status = post(&member.client, "maintenance/status", "{}");
            (field(&status, "member_id"), field(&status, "leader"))
        });
        let leads = |(member, leader): (String, String)| member == leader;
        ids.map(leads).position(|leads| leads).expect("a leader")
    }

    /// Returns the URL of a member for clients.
    pub fn url(&self, place: usize) -> &str {
        &self.members[place].client
    }

    /// Returns the URLs of all members, separated by commas.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.members.iter().map(|one| &one.client[..]).collect();
        urls.join(",")
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut child) = member.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // Only a test that failed needs the output.
        if std::thread::panicking() {
            println!("the output of etcd is in {}", self.directory.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Returns the response of a member at a URL to a request; empty if it does not respond.
///
/// # Panics
/// If the URL does not begin with `http://`.
pub fn post(url: &str, request: &str, body: &str) -> String {
    let authority = url.strip_prefix("http://").expect("a URL");
    // Written by hand, so that faults of a client under test are not mistaken for faults of etcd.
    // With HTTP/1.0 the end of the connection is the end of the response.
    let length = body.len();
    let request = format!(
        "POST /v3/{request} HTTP/1.0\r\nHost: {authority}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(authority) {
        // A member without a leader may take long, and the caller asks again.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// Returns the string value of a field.
fn field(json: &str, name: &str) -> String {
    let behind = json.split_once(&format!("\"{name}\":\""));
    let value = behind.and_then(|(_, behind)| behind.split_once('"'));
    value
        .unwrap_or_else(|| panic!("no {name} in {json}"))
        .0
        .to_owned()
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not within 30 s.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "not in {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
