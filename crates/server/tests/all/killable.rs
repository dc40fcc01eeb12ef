//! A server in a process of its own, which is killed with SIGKILL. This test program executes
//! itself.

use nearfield_server::config::{Durability, ListenPort, ServerOptions};
use nearfield_server::log::LogSyncPolicy;
use nearfield_server::net;
use nearfield_server_testkit::faulty::{FaultyDisk, RandomDiskFaults};
use nearfield_server_testkit::nearfield::UnservedServer;
use nearfield_server_testkit::stir::{TierMoveCounts, small_tiers, stir};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FOLDER: &str = "NEARFIELD_CRASH_FOLDER";
const FAULTS: &str = "NEARFIELD_CRASH_FAULTS";
const TIERS: &str = "NEARFIELD_CRASH_TIERS";

/// Runs the server if this program is executed for it; otherwise does nothing.
#[test]
fn server_process() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let disk = FaultyDisk::default();
    let faults = Arc::clone(&disk.faults);
    let has_tiers = std::env::var(TIERS).is_ok();
    let server = UnservedServer::new(ServerOptions {
        tiers: has_tiers.then(|| small_tiers(&Path::new(&folder).join("tiers"))),
        port: ListenPort::Free,
        threads: 2,
        persistence: Durability {
            directory: Some(folder.into()),
            policy: Some(LogSyncPolicy::Always),
            disk: Arc::new(disk),
            ..Durability::default()
        },
        ..ServerOptions::default()
    });
    let stop = AtomicBool::new(false);
    let ready = |addresses: &[SocketAddr]| {
        if let Ok(seed) = std::env::var(FAULTS) {
            let seed = seed.parse().expect("a seed");
            faults.lock().chance = Some(RandomDiskFaults::new(seed));
        }
        println!("\nlistening {}", addresses[0]);
        std::io::stdout().flush().expect("the test listens");
    };
    let served = std::thread::scope(|scope| {
        if has_tiers {
            scope.spawn(|| stir(&server.keyspace, &stop, &TierMoveCounts::default()));
        }
        let served = net::serve(&server, ready);
        stop.store(true, Ordering::Relaxed);
        served
    });
    if let Err(error) = served {
        println!("\nrefused {error}");
    }
}

/// A server that logs under `always` into a folder. It is killed when this is dropped.
pub struct KillableServer {
    child: Child,
    /// The address on which it listens.
    pub address: SocketAddr,
}

impl KillableServer {
    /// Starts a server on the files of a folder. `faults`: the seed of a disk that fails; `tiers`:
    /// true if values move between tiers.
    pub fn start(folder: &Path, faults: Option<u64>, tiers: bool) -> KillableServer {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "killable::server_process", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(seed) = faults {
            command.env(FAULTS, seed.to_string());
        }
        if tiers {
            command.env(TIERS, "yes");
        }
        let child = command.spawn().expect("this program runs");
        let mut process = KillableServer {
            child,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
        };
        let stdout = process.child.stdout.take().expect("a pipe");
        for line in BufReader::new(stdout).lines() {
            let line = line.expect("a line");
            if let Some(address) = line.strip_prefix("listening ") {
                process.address = address.parse().expect("an address");
                return process;
            }
            assert!(!line.starts_with("refused"), "{line}");
        }
        panic!("the server did not start");
    }

    /// Kills it and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }
}

/// Returns true if this program is executed for the server, so that tests have nothing to do.
pub fn is_server() -> bool {
    std::env::var(FOLDER).is_ok()
}

impl Drop for KillableServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
