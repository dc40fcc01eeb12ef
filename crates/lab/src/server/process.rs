//! A server as a process of its own.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why a server could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not there, or does not start.
    #[error("cannot start {name}: {source}")]
    Start {
        /// Its name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// It started and does not answer.
    #[error("{name} does not answer on port {port} within {seconds} s")]
    Silent {
        /// Its name.
        name: String,
        /// The port.
        port: u16,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A connection broke.
    #[error("the connection to {name} broke: {source}")]
    Broken {
        /// The server's name.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// It answered a request with an error.
    #[error("{name} answers with an error: {answer}")]
    Answer {
        /// The server's name.
        name: String,
        /// The answer.
        answer: String,
    },
}

/// How long a server has to answer for the first time.
const START_SECONDS: u64 = 10;

/// A server that runs, and ends with this value.
#[derive(Debug)]
pub struct ServerProcess {
    pub name: String,
    pub address: SocketAddr,
    child: Child,
}

impl ServerProcess {
    /// Starts a server on a free port; `command` makes its command from the port.
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
        let server = ServerProcess {
            name: name.to_owned(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            child,
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(START_SECONDS) {
            if server.answers() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(ServerError::Silent {
            name: name.to_owned(),
            port,
            seconds: START_SECONDS,
        })
    }

    fn answers(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 7];
            stream.read_exact(&mut answer)?;
            Ok::<_, io::Error>(&answer == b"+PONG\r\n")
        };
        ask().unwrap_or(false)
    }

    /// The processor time that its threads have taken so far.
    pub fn cpu_time(&self) -> Duration {
        let folder = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let nanoseconds = threads.filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// The memory that it has in use, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kibibytes = crate::memory::kibibytes_after(&status.unwrap_or_default(), "VmRSS:");
        kibibytes.unwrap_or(0) * 1024
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
