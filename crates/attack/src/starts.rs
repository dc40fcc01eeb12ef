//! Servers that start with damaged files. Each must serve, or refuse them with a reason.

use crate::outcome::ServerFault;
use crate::samples::AttackSamples;
use crate::streams::damaged_file;
use crate::target::free_ports;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::reply::RespReplyValue;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two starts.
const PAUSE: Duration = Duration::from_millis(500);

/// The starts of a campaign.
#[derive(Debug)]
pub(crate) struct DamagedStarts<'s> {
    pub(crate) program: &'s Path,
    pub(crate) samples: &'s AttackSamples,
    pub(crate) seed: u64,
    /// The number of the first start.
    pub(crate) first: u64,
    /// True if there will be only one.
    pub(crate) single: bool,
    /// Longest time until a server serves, refuses or ends.
    pub(crate) patience: Duration,
    /// Folder for the files of a start that fails.
    pub(crate) kept: &'s Path,
}

impl DamagedStarts<'_> {
    /// Starts servers until `stop` is set. Returns their number, or the first fault.
    pub(crate) fn run(&self, stop: &AtomicBool) -> Result<u64, ServerFault> {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) && (count == 0 || !self.single) {
            let number = self.first + count;
            self.start(number)
                .map_err(|what| ServerFault::Start { number, what })?;
            count += 1;
            thread::sleep(PAUSE);
        }
        Ok(count)
    }

    fn start(&self, number: u64) -> Result<(), String> {
        let folder = TestkitFolder::new();
        let failed = |error: io::Error| format!("a file of the test: {error}");
        let logs = self.write_files(&folder.0, number).map_err(failed)?;
        let log = folder.join("server.log");
        let output = File::create(&log).map_err(failed)?;
        let [port, _] = free_ports().map_err(failed)?;
        let child = Command::new(self.program)
            .args(["serve", "--port", &port.to_string(), "--threads", "1"])
            .args(["--appendonly", if logs { "yes" } else { "no" }])
            .arg("--dir")
            .arg(folder.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let mut server = StartedServer(child);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let result = self.watch(&mut server, address);
        let text = fs::read_to_string(&log).unwrap_or_default();
        // A thread may panic although the process ends in a usual way.
        let result = result.and_then(|()| match text.contains("panicked at") {
            true => Err("a thread panicked".to_owned()),
            false => Ok(()),
        });
        result.map_err(|what| {
            let kept = self.kept.join(format!("start-{number}"));
            let copied = copy(&folder.0, &kept);
            let where_to = match copied {
                Ok(()) => format!("its files are in {}", kept.display()),
                Err(error) => format!("its files could not be kept: {error}"),
            };
            format!("{what}; {where_to}")
        })
    }

    /// Waits until a server serves or has refused its files, and ends it.
    fn watch(&self, server: &mut StartedServer, address: SocketAddr) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(status) = server.ended() {
                return match status.code() {
                    // The server has refused its files, with the reason in its log, or another
                    // server has taken its port.
                    Some(1 | 2) => Ok(()),
                    _ => Err(format!("it exited with {status}")),
                };
            }
            if let Ok(mut connection) = TestkitConnection::open(address)
                && let Ok(RespReplyValue::Simple(_)) = connection.command(&[b"PING"])
            {
                // A server that is shutting down sends no reply.
                let _ = connection.command(&[b"DBSIZE"]);
                let _ = connection.command(&[b"SHUTDOWN", b"NOSAVE"]);
                break;
            }
            if Instant::now() > deadline {
                return Err("it neither serves nor refuses".to_owned());
            }
            thread::sleep(Duration::from_millis(5));
        }
        let deadline = Instant::now() + self.patience;
        loop {
            match server.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("it exited with {status} on shutdown")),
                None if Instant::now() > deadline => return Err("it does not end".to_owned()),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Writes damaged files. Returns true if they are a log.
    fn write_files(&self, folder: &Path, number: u64) -> io::Result<bool> {
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        let random = &mut SmallRng::seed_from_u64(self.seed ^ number.rotate_left(32));
        let files = &self.samples.files;
        let logs: bool = random.random();
        if !logs {
            // The numbers themselves are those of snapshots that a server reads while it serves.
            let snapshot = damaged_file(&self.samples.snapshot, self.seed, !number);
            fs::write(data.join("dump.rdb"), snapshot)?;
            return Ok(false);
        }
        let damaged = random.random_range(0..files.len());
        for (at, (name, bytes)) in files.iter().enumerate() {
            let bytes = match at == damaged {
                true => damaged_file(bytes, self.seed, !number),
                false => bytes.clone(),
            };
            fs::write(data.join(name), bytes)?;
        }
        Ok(true)
    }
}

/// A server that is killed when this value is dropped.
struct StartedServer(Child);

impl StartedServer {
    fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
