//! Debian's redis-server, for comparison, and programs that take its flags.

use super::connection::{PATIENCE, TestkitConnection};
use super::reply::RespReplyValue;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A redis-server with a folder of its own. It is killed when this is dropped.
pub struct RedisPeerProcess {
    /// The address on which it listens.
    pub address: SocketAddr,
    child: Child,
    folder: PathBuf,
}

impl RedisPeerProcess {
    /// Starts a server on a free port, without persistence and with default settings except for
    /// `options` of its command line. Returns `None`, with the reason on the standard error, if it
    /// is not installed or not of version 7.
    pub fn start(options: &[&str]) -> Option<RedisPeerProcess> {
        let version = or_report(version("redis-server"))?;
        if !version.contains("v=7.") {
            return or_report(Err(format!("not version 7: {}", version.trim())));
        }
        Some(RedisPeerProcess::started("redis-server", options))
    }

    /// Starts another program with the flags of redis-server, such as valkey-server. Returns
    /// `None`, with the reason on the standard error, if it is not installed.
    pub fn start_program(program: &str, options: &[&str]) -> Option<RedisPeerProcess> {
        or_report(version(program))?;
        Some(RedisPeerProcess::started(program, options))
    }

    fn started(program: &str, options: &[&str]) -> RedisPeerProcess {
        // Another program may take the port before the server does.
        for _ in 0..5 {
            if let Some(redis) = RedisPeerProcess::try_start(program, options) {
                return redis;
            }
        }
        panic!("{program} is installed and does not start");
    }

    fn try_start(program: &str, options: &[&str]) -> Option<RedisPeerProcess> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfield-redis-{}-{count}", process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let child = Command::new(program)
            .args(["--port", &address.port().to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            // A high rate, so that commands that wait time out promptly.
            .args(["--hz", "500"])
            .args(options)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let mut redis = RedisPeerProcess {
            address,
            child,
            folder,
        };
        let deadline = Instant::now() + PATIENCE;
        // If the process has ended, another program has taken the port.
        while Instant::now() < deadline && matches!(redis.child.try_wait(), Ok(None)) {
            if let Ok(mut connection) = TestkitConnection::open(address)
                && let Ok(RespReplyValue::Simple(_)) = connection.command(&[b"PING"])
            {
                return Some(redis);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

fn version(program: &str) -> Result<String, String> {
    let version = Command::new(program).arg("--version").output();
    let version = version.map_err(|error| format!("no {program}: {error}"))?;
    Ok(String::from_utf8_lossy(&version.stdout).into_owned())
}

/// Returns a value, or `None` after a report that there is nothing to compare with.
pub(super) fn or_report<T>(found: Result<T, String>) -> Option<T> {
    if let Err(reason) = &found {
        // Directly to the standard error, because the harness hides the output of tests that pass.
        let _ = writeln!(io::stderr(), "not compared: {reason}");
    }
    found.ok()
}

impl Drop for RedisPeerProcess {
    fn drop(&mut self) {
        // The server may have ended by itself, and a folder that stays behind is no reason to fail
        // a test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
