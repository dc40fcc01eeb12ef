//! The state of snapshots and of rewrites of the log, and the requests for them.

use super::ServerCore;
use super::directory_lock::DirectoryLock;
use crate::catalog::{Flags, Spec};
use crate::clock::now_ms;
use crate::config::SavePoint;
use crate::error::CommandError;
use crate::log::manifest::Manifest;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Wait after the first failed attempt. It doubles after each further one.
pub(crate) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(60);

const _: () = assert!(FIRST_PATIENCE.as_secs() < LONGEST_PATIENCE.as_secs());

/// A task that takes a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotTask {
    /// The dump of `BGSAVE`.
    Save,
    /// The new base of `BGREWRITEAOF`.
    Rewrite,
}

/// The outcome of a request for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotRequestOutcome {
    /// The task begins.
    Started,
    /// The task begins when the running one has ended.
    Scheduled,
    /// The task is running already.
    UnderWay,
    /// Another task is running, and the request did not ask to be scheduled.
    Busy,
}

/// The snapshots and rewrites of a server.
#[derive(Debug)]
pub struct Persistence {
    /// The conditions under which snapshots are taken.
    pub save_points: Mutex<Vec<SavePoint>>,
    /// True if writes are refused because a snapshot of a save point failed.
    pub(crate) save_failing: AtomicBool,
    /// True if `min-replicas-to-write` demands replicas that are missing.
    pub(crate) lacks_replicas: AtomicBool,
    pub(crate) state: Mutex<PersistenceState>,
    /// Signal that a task is wanted.
    pub(crate) wanted: Condvar,
    /// The numbers of keys of the last snapshot that was read.
    pub loaded: LoadedKeys,
}

/// Numbers of keys of a snapshot that were loaded, and of those that had expired.
#[derive(Debug, Default)]
pub struct LoadedKeys {
    /// Number of keys that were loaded.
    pub kept: AtomicU64,
    /// Number of keys that had expired.
    pub expired: AtomicU64,
}

/// The status of snapshots and rewrites, for `INFO`.
#[derive(Clone, Debug, Default)]
pub struct PersistenceStatus {
    /// The running task.
    pub running: Option<SnapshotTask>,
    /// The time for which it has run.
    pub running_for: Option<Duration>,
    /// The next task.
    pub scheduled: Option<SnapshotTask>,
    /// The time of the last dump (or of the server's start), in seconds since 1970.
    pub last_save_s: u64,
    /// True if the last attempt at a dump has succeeded.
    pub last_save_ok: bool,
    /// Duration of the last dump.
    pub last_save_time: Option<Duration>,
    /// Number of dumps.
    pub saves: u64,
    /// True if the last attempt at a rewrite has succeeded.
    pub last_rewrite_ok: bool,
    /// Duration of the last rewrite.
    pub last_rewrite_time: Option<Duration>,
    /// Number of rewrites.
    pub rewrites: u64,
    /// Bytes of base and log after the last rewrite.
    pub base_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct PersistenceState {
    pub(crate) status: PersistenceStatus,
    pub(crate) began: Option<Instant>,
    /// Lock that is held as long as the server lives, so that no other uses the directory.
    pub(crate) lock: Option<DirectoryLock>,
    pub(crate) manifest: Manifest,
    pub(crate) next_number: u64,
    pub(crate) last_attempt: Option<Instant>,
    /// Wait until a failed attempt is repeated.
    pub(crate) patience: Duration,
}

impl Default for Persistence {
    fn default() -> Persistence {
        Persistence {
            save_points: Mutex::default(),
            save_failing: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
            state: Mutex::new(PersistenceState {
                status: PersistenceStatus {
                    // As in Redis, the start counts as the first dump.
                    last_save_s: now_ms() / 1000,
                    last_save_ok: true,
                    last_rewrite_ok: true,
                    ..PersistenceStatus::default()
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
    /// Returns the status of snapshots and rewrites.
    pub fn status(&self) -> PersistenceStatus {
        let state = self.state.lock();
        debug_assert_eq!(state.began.is_some(), state.status.running.is_some());
        PersistenceStatus {
            running_for: state.began.map(|began| began.elapsed()),
            ..state.status.clone()
        }
    }

    /// Returns true if writes are refused because snapshots fail.
    pub fn is_save_failing(&self) -> bool {
        self.save_failing.load(Ordering::Relaxed)
    }

    /// Requests a snapshot. If another is running and `schedule` is true, it is taken afterwards.
    pub fn request(&self, task: SnapshotTask, schedule: bool) -> SnapshotRequestOutcome {
        let mut state = self.state.lock();
        match state.status.running {
            Some(running) if running == task => SnapshotRequestOutcome::UnderWay,
            Some(_) if !schedule => SnapshotRequestOutcome::Busy,
            Some(_) => {
                // The thread of snapshots finds it when the running one has ended.
                state.status.scheduled = Some(task);
                SnapshotRequestOutcome::Scheduled
            }
            None if state.status.scheduled == Some(task) => SnapshotRequestOutcome::UnderWay,
            None => {
                state.status.scheduled = Some(task);
                self.wanted.notify_all();
                SnapshotRequestOutcome::Started
            }
        }
    }
}

impl ServerCore {
    /// Returns true if nothing may be changed, because a change could not be made durable.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.log.is_failing()
            || self.persistence.is_save_failing()
            || self.persistence.lacks_replicas.load(Ordering::Relaxed)
    }

    /// Refuses a command that writes while its changes could not be made durable.
    ///
    /// # Errors
    /// `MISCONF`.
    #[inline]
    pub fn admit_write(&self, command: &Spec) -> Result<(), CommandError> {
        if command.flags.has(Flags::WRITE) && self.refuses_writes() {
            return Err(self.write_refusal());
        }
        Ok(())
    }

    /// Returns the error for clients that want to write then.
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
