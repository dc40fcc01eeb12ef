//! The state of snapshots and of rewrites of the log, and requests for them.

use super::Server;
use super::directory_lock::DirectoryLock;
use crate::catalog::{Flags, Spec};
use crate::clock::now_ms;
use crate::config::SavePoint;
use crate::error::CommandError;
use crate::log::manifest::Manifest;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long to wait after a failed attempt; the double after each further one.
pub(crate) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(60);

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

/// The snapshots and rewrites of a server.
#[derive(Debug)]
pub struct Persistence {
    /// When snapshots are taken.
    pub save_points: Mutex<Vec<SavePoint>>,
    /// Whether writes are refused because a snapshot failed that a save point asked for.
    pub(crate) save_failing: AtomicBool,
    /// True if `min-replicas-to-write` asks for replicas that are missing.
    pub(crate) lacks_replicas: AtomicBool,
    pub(crate) state: Mutex<State>,
    /// Signalled when a task is wanted.
    pub(crate) wanted: Condvar,
    /// The keys of the snapshot that was read last.
    pub loaded: LoadedKeys,
}

/// Numbers of keys of a snapshot that were loaded and that had expired.
#[derive(Debug, Default)]
pub struct LoadedKeys {
    /// Those that were kept.
    pub kept: AtomicU64,
    /// Those that had expired.
    pub expired: AtomicU64,
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
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) began: Option<Instant>,
    /// Held as long as the server lives, so that no other uses the directory.
    pub(crate) lock: Option<DirectoryLock>,
    pub(crate) manifest: Manifest,
    pub(crate) next_number: u64,
    pub(crate) last_attempt: Option<Instant>,
    /// How long to wait until an attempt that failed is made again.
    pub(crate) patience: Duration,
}

impl Default for Persistence {
    fn default() -> Persistence {
        Persistence {
            save_points: Mutex::default(),
            save_failing: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
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
            loaded: LoadedKeys::default(),
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
        self.log.is_failing()
            || self.persistence.is_save_failing()
            || self.persistence.lacks_replicas.load(Ordering::Relaxed)
    }

    /// Refuses a command that writes while what it does could not be kept.
    ///
    /// # Errors
    /// `MISCONF`.
    pub fn admit_write(&self, command: &Spec) -> Result<(), CommandError> {
        if command.flags.has(Flags::WRITE) && self.refuses_writes() {
            return Err(self.write_refusal());
        }
        Ok(())
    }

    /// What clients that want to write are told then.
    #[cold]
    fn write_refusal(&self) -> CommandError {
        match self.log.failure() {
            Some((message, _)) => {
                CommandError::owned(format!("MISCONF Errors writing to the AOF file: {message}"))
            }
            None if !self.persistence.is_save_failing() => {
                CommandError::text("NOREPLICAS Not enough good replicas to write.")
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
