//! Programs that serve the Redis protocol, and the commands that start them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that listens on this machine's loopback address only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerProgram {
    /// Nearfield's server. The running program must be `nearfield-bench`.
    Own {
        /// Number of threads that serve connections.
        threads: usize,
    },
    /// A program with the flags of redis-server.
    Redis(PathBuf),
}

impl ServerProgram {
    /// Returns the command that starts it on a port. It persists nothing, or logs changes into a
    /// folder and syncs them each second.
    #[must_use]
    pub fn command(&self, port: u16, log: Option<&Path>) -> Command {
        let port = port.to_string();
        match self {
            ServerProgram::Own { threads } => {
                // Finds this very program, even if a new build has taken its name.
                let mut command = Command::new("/proc/self/exe");
                let threads = threads.to_string();
                command.args(["serve", "--port", &port, "--threads", &threads]);
                if let Some(folder) = log {
                    command.arg("--log").arg(folder);
                }
                command
            }
            ServerProgram::Redis(path) => {
                let mut command = Command::new(path);
                command.args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
                if let Some(folder) = log {
                    command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
                    // A child would rewrite the log, and its processor time is not counted.
                    command.args(["--auto-aof-rewrite-percentage", "0"]);
                    command.arg("--dir").arg(folder);
                } else {
                    command.args(["--appendonly", "no"]);
                }
                command
            }
        }
    }
}

/// A folder for the log of a server, which is removed when this value is dropped.
#[derive(Debug)]
pub struct ServerLogFolder(PathBuf);

impl ServerLogFolder {
    /// Creates a folder in the system's temporary one. Each folder of a process needs its own
    /// number.
    pub fn create(number: usize) -> io::Result<ServerLogFolder> {
        let name = format!("nearfield-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(ServerLogFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ServerLogFolder {
    fn drop(&mut self) {
        // A leftover folder does no harm: it is in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
