//! Debian's redis-server, for comparison, and programs that take its flags.

use super::connection::{PATIENCE, TestkitConnection};
use super::reply::RespReplyValue;
use std::fs;
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
    /// `options` of its command line.
    ///
    /// # Errors
    /// The reason why it is not available: it is not installed, or not of version 7.
    pub fn start(options: &[&str]) -> Result<RedisPeerProcess, String> {
        let version = Command::new("redis-server").arg("--version").output();
        let version = version.map_err(|error| format!("no redis-server: {error}"))?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        if !version.contains("v=7.") {
            return Err(format!("not version 7: {}", version.trim()));
        }
        Ok(RedisPeerProcess::started("redis-server", options))
    }

    /// Starts another program with the flags of redis-server, such as valkey-server.
    ///
    /// # Errors
    /// It is not installed.
    pub fn start_program(program: &str, options: &[&str]) -> Result<RedisPeerProcess, String> {
        let version = Command::new(program).arg("--version").output();
        version.map_err(|error| format!("no {program}: {error}"))?;
        Ok(RedisPeerProcess::started(program, options))
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

impl Drop for RedisPeerProcess {
    fn drop(&mut self) {
        // The server may have ended by itself, and a folder that stays behind is no reason to fail
        // a test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
