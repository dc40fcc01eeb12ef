//! What a server keeps on disk, and when: it ties the [log](crate::log) and
//! [snapshots](crate::keyspace::snapshot) to the server's life.

mod start;
mod tasks;

pub use start::{load_log, start};
pub use tasks::{finish, save_now, shut_down, spawn};

use crate::clock::now_ms;
use crate::config::Settings;
use crate::disk::{Disk, RealDisk};
use crate::error::CommandError;
use crate::log::load::Damage;
use crate::log::manifest::Manifest;
use crate::log::{LogFile, Policy};
use crate::server::Server;
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The name of the snapshot that `SAVE` makes.
pub const DUMP: &str = "dump.rdb";

/// What is kept on disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where files lie; `None`: in the working directory, and nothing is kept unless it is asked
    /// for.
    pub directory: Option<PathBuf>,
    /// Whether commands are logged; `None`: if there is a directory.
    pub log: Option<bool>,
    /// When the log goes to the medium.
    pub policy: Option<Policy>,
    /// What is done about damage in the log.
    pub damage: Damage,
    /// When a snapshot is taken; `None`: as Redis does it, if there is a directory and no log.
    pub save: Option<Vec<SavePoint>>,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

/// A snapshot is taken after so many seconds if there were so many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Since the last one.
    pub seconds: u64,
    /// Since the last one.
    pub changes: u64,
}

impl SavePoint {
    /// Reads pairs of seconds and changes, as the configuration has them.
    pub fn parse(text: &str) -> Vec<SavePoint> {
        let numbers = text.split_ascii_whitespace();
        let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
        let (pairs, _) = numbers.as_chunks();
        let point = |&[seconds, changes]: &[u64; 2]| SavePoint { seconds, changes };
        pairs.iter().map(point).collect()
    }

    /// Writes what [`parse`](Self::parse) reads.
    pub fn text(points: &[SavePoint]) -> String {
        let text = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
        points.iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            directory: None,
            log: None,
            policy: None,
            damage: Damage::default(),
            save: None,
            disk: Arc::new(RealDisk),
        }
    }
}

impl Options {
    /// Where files lie.
    pub fn directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }

    /// Whether commands are logged.
    pub fn log(&self) -> bool {
        self.log.unwrap_or(self.directory.is_some())
    }

    /// When the log goes to the medium.
    pub fn policy(&self) -> Policy {
        self.policy.unwrap_or_default()
    }

    /// Takes from a configuration file what is not said otherwise.
    pub fn complete(&mut self, settings: &Settings) {
        if self.directory.is_none() {
            self.directory = settings.value("dir").map(PathBuf::from);
        }
        if self.log.is_none() {
            self.log = settings.value("appendonly").map(|value| value == "yes");
        }
        if self.policy.is_none() {
            self.policy = settings.value("appendfsync").and_then(Policy::from_name);
        }
        if self.save.is_none() {
            self.save = settings.value("save").map(SavePoint::parse);
        }
    }

    /// When a snapshot is taken.
    pub fn save_points(&self) -> Vec<SavePoint> {
        let redis = [(3600, 1), (300, 100), (60, 10_000)];
        let point = |(seconds, changes)| SavePoint { seconds, changes };
        match &self.save {
            Some(points) => points.clone(),
            None if self.directory.is_some() && !self.log() => redis.map(point).to_vec(),
            None => Vec::new(),
        }
    }
}

/// Something that takes a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `BGSAVE`: to the dump.
    Save,
    /// `BGREWRITEAOF`: to a new base.
    Rewrite,
}

/// What became of the wish for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    /// It begins.
    Started,
    /// It begins when the one under way has ended.
    Scheduled,
    /// It is under way already.
    UnderWay,
    /// Another is under way, and it was not asked to be scheduled.
    Busy,
}

/// What a server keeps on disk. See the [module](self).
#[derive(Debug)]
pub struct Persistence {
    /// When snapshots are taken.
    pub save_points: Mutex<Vec<SavePoint>>,
    /// Whether writes are refused because a snapshot failed that a save point asked for.
    save_failing: AtomicBool,
    state: Mutex<State>,
    /// Signalled when a task is wanted.
    wanted: Condvar,
}

/// What is known of snapshots and rewrites, for `INFO`.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What is under way.
    pub running: Option<Task>,
    /// Since when.
    pub running_for: Option<Duration>,
    /// What comes next.
    pub scheduled: Option<Task>,
    /// When the last dump was made (or the server started), in seconds since 1970.
    pub last_save_s: u64,
    /// Whether the last attempt at a dump has succeeded.
    pub last_save_ok: bool,
    /// How long it took.
    pub last_save_time: Option<Duration>,
    /// How many dumps were made.
    pub saves: u64,
    /// Whether the last attempt at a rewrite has succeeded.
    pub last_rewrite_ok: bool,
    /// How long it took.
    pub last_rewrite_time: Option<Duration>,
    /// How many rewrites were made.
    pub rewrites: u64,
    /// The length of base and log after the last rewrite.
    pub base_bytes: u64,
}

#[derive(Debug)]
struct State {
    status: Status,
    began: Option<Instant>,
    /// Held as long as the server lives, so that no other uses the directory.
    lock: Option<File>,
    manifest: Manifest,
    next_number: u64,
    last_attempt: Option<Instant>,
    /// How long to wait until an attempt that failed is made again.
    patience: Duration,
}

impl Default for Persistence {
    fn default() -> Persistence {
        Persistence {
            save_points: Mutex::default(),
            save_failing: AtomicBool::new(false),
            state: Mutex::new(State {
                status: Status {
                    last_save_s: now_ms() / 1000,
                    last_save_ok: true,
                    last_rewrite_ok: true,
                    ..Status::default()
                },
                began: None,
                lock: None,
                manifest: Manifest::default(),
                next_number: 1,
                last_attempt: None,
                patience: FIRST_PATIENCE,
            }),
            wanted: Condvar::new(),
        }
    }
}

impl Persistence {
    /// What is known of snapshots and rewrites.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        Status {
            running_for: state.began.map(|began| began.elapsed()),
            ..state.status.clone()
        }
    }

    /// True if writes are refused because snapshots fail.
    pub fn is_save_failing(&self) -> bool {
        self.save_failing.load(Ordering::Relaxed)
    }

    /// Asks for a snapshot. If another is under way it is taken afterwards, if `schedule`.
    pub fn request(&self, task: Task, schedule: bool) -> Requested {
        let mut state = self.state.lock();
        match state.status.running {
            Some(running) if running == task => Requested::UnderWay,
            Some(_) if !schedule => Requested::Busy,
            Some(_) => {
                state.status.scheduled = Some(task);
                Requested::Scheduled
            }
            None if state.status.scheduled == Some(task) => Requested::UnderWay,
            None => {
                state.status.scheduled = Some(task);
                self.wanted.notify_all();
                Requested::Started
            }
        }
    }
}

impl Server {
    /// True if nothing may be changed, because it could not be kept.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.log.is_failing() || self.persistence.is_save_failing()
    }

    /// What clients that want to write are told then.
    #[cold]
    pub fn write_refusal(&self) -> CommandError {
        match self.log.failure() {
            Some((message, _)) => {
                CommandError::owned(format!("MISCONF Errors writing to the AOF file: {message}"))
            }
            None => CommandError::text(
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                 persist to disk. Commands that may modify the data set are disabled, because \
                 this instance is configured to report errors during writes if RDB snapshotting \
                 fails (stop-writes-on-bgsave-error option). Please check the Redis logs for \
                 details about the RDB error.",
            ),
        }
    }
}

/// How long to wait after a failed attempt; the double after each further one.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PATIENCE: Duration = Duration::from_secs(60);

/// Opens a new log.
fn create_log(disk: &dyn Disk, path: PathBuf) -> io::Result<LogFile> {
    Ok(LogFile {
        file: disk.create(&path)?,
        path,
        length: 0,
        synced: 0,
    })
}
