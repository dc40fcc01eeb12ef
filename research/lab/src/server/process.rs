//! A server as a process of its own.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Reason why a server could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A folder for its log that cannot be created.
    #[error("cannot create a folder for the log of {name}: {source}")]
    Folder {
        /// The server's name.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A program that is missing, or does not start.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The server's name.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A server that ended before its first reply.
    #[error("{name} exited with {status} before its first reply")]
    Ended {
        /// The server's name.
        name: String,
        /// The exit status.
        status: ExitStatus,
    },
    /// A server that has started and does not reply.
    #[error("no reply from {name} on port {port} within {seconds} s")]
    Silent {
        /// The server's name.
        name: String,
        /// The port.
        port: u16,
        /// The time waited, in seconds.
        seconds: u64,
    },
    /// A connection that broke.
    #[error("the connection to {name} broke: {source}")]
    Broken {
        /// The server's name.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// An error reply to a request.
    #[error("{name} replied with an error: {reply}")]
    ErrorReply {
        /// The server's name.
        name: String,
        /// The reply.
        reply: String,
    },
}

/// Timeout for a server's first reply, in seconds.
const START_SECONDS: u64 = 10;

/// A running server, which ends when this value is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    pub name: String,
    pub address: SocketAddr,
    child: Child,
}

impl ServerProcess {
    /// Starts a server on a free port; `command` creates its command from the port.
    pub fn start(name: &str, command: impl Fn(u16) -> Command) -> Result<Self, ServerError> {
        let start = |source| ServerError::Start {
            name: name.to_owned(),
            source,
        };
        let port = free_port().map_err(start)?;
        let child = command(port)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(start)?;
        let mut server = ServerProcess {
            name: name.to_owned(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            child,
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(START_SECONDS) {
            if server.replies_to_ping() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().map_err(start)? {
                let name = name.to_owned();
                return Err(ServerError::Ended { name, status });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(ServerError::Silent {
            name: name.to_owned(),
            port,
            seconds: START_SECONDS,
        })
    }

    fn replies_to_ping(&self) -> bool {
        let ping = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut reply = [0; 7];
            stream.read_exact(&mut reply)?;
            Ok::<_, io::Error>(&reply == b"+PONG\r\n")
        };
        ping().unwrap_or(false)
    }

    /// Returns its kind and version, as it reports them, such as `valkey 9.1.2`.
    pub fn version(&self) -> Result<String, ServerError> {
        let broken = |source| ServerError::Broken {
            name: self.name.clone(),
            source,
        };
        let page = self.info("server").map_err(broken)?;
        let version = version_in(&page);
        version.ok_or_else(|| {
            broken(io::Error::new(
                ErrorKind::InvalidData,
                "INFO has no version",
            ))
        })
    }

    /// Returns a section of its INFO.
    pub fn info(&self, section: &str) -> io::Result<String> {
        info_at(self.address, section)
    }

    /// Returns the processor time that its threads have taken so far.
    pub fn cpu_time(&self) -> Duration {
        let folder = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(folder).into_iter().flatten().flatten();
        // `schedstat` has nanoseconds, where `stat` has ticks of ten milliseconds.
        let nanoseconds = threads.filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Returns its resident memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kibibytes =
            nearfield_tiers::machine::kibibytes_after(&status.unwrap_or_default(), "VmRSS:");
        kibibytes.unwrap_or(0) * 1024
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The kill fails if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a section of the INFO of the server at an address.
pub fn info_at(address: SocketAddr, section: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(START_SECONDS)))?;
    stream.write_all(format!("INFO {section}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let length = head.trim_end().strip_prefix('$');
    let Some(length) = length.and_then(|length| length.parse().ok()) else {
        return Err(io::Error::new(ErrorKind::InvalidData, head));
    };
    let mut page = String::new();
    reader.take(length).read_to_string(&mut page)?;
    Ok(page)
}

/// Returns a number of a tier in the INFO of a server's tiers; 0 if it is not there.
pub fn tier_number(page: &str, tier: usize, field: &str) -> f64 {
    let line = format!("tier_{tier}:");
    let line = page.lines().find_map(|text| text.strip_prefix(&line));
    let fields = line.unwrap_or_default().split(',');
    let value = fields
        .filter_map(|text| text.split_once('='))
        .find(|(name, _)| *name == field);
    value
        .and_then(|(_, value)| value.trim_end().parse().ok())
        .unwrap_or(0.0)
}

/// Finds the kind and version of a server in its INFO.
fn version_in(page: &str) -> Option<String> {
    // Redis is last, because the others report Redis's version, too.
    ["nearfield", "valkey", "redis"].iter().find_map(|kind| {
        let version = page.lines().find_map(|line| {
            let rest = line.strip_prefix(kind)?;
            rest.strip_prefix("_version:")
        })?;
        Some(format!("{kind} {}", version.trim_end()))
    })
}

fn free_port() -> io::Result<u16> {
    // If another program takes the port before the server does, the server fails to start.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_version_goes_before_that_of_redis() {
        let page = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(version_in(page).as_deref(), Some("valkey 9.1.2"));
        let page = "# Server\r\nredis_version:8.2.3\r\nredis_mode:standalone\r\n";
        assert_eq!(version_in(page).as_deref(), Some("redis 8.2.3"));
        assert_eq!(version_in("# Server\r\n"), None);
    }

    #[test]
    fn numbers_of_tiers_are_found_by_tier_and_name() {
        let page = "tiers:2\r\ntier_0:kind=memory,served=7\r\ntier_1:served=30,moved_in=4\r\n";
        let number = |tier, field| tier_number(page, tier, field);
        assert_eq!((number(0, "served"), number(1, "served")), (7.0, 30.0));
        assert_eq!((number(1, "moved_in"), number(0, "moved_in")), (4.0, 0.0));
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let start = |program: &'static str| {
            let started = ServerProcess::start(program, |_| Command::new(program));
            started.map(drop).map_err(|error| error.to_string())
        };
        let error = start("/nowhere/redis-server").unwrap_err();
        assert!(
            error.contains("cannot start /nowhere/redis-server"),
            "{error}"
        );
        let error = start("false").unwrap_err();
        assert!(
            error.starts_with("false exited with exit status: 1"),
            "{error}"
        );
    }
}
