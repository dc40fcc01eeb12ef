//! The watchdog of a running script. It ends the script on request. Once the script has run for
//! long, other clients get an error instead of waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a script or function is told that was killed.
pub const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// How long a script may go on when the server is to stop, at most.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Stands for no thread.
const NO_THREAD: usize = usize::MAX;

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// A script (`EVAL`).
    Script,
    /// A function of a library (`FCALL`).
    Function,
}

impl Running {
    /// What other clients are told while it runs for long.
    pub fn busy(self) -> &'static str {
        match self {
            Running::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                 NOSAVE."
            }
            Running::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
                 NOSAVE."
            }
        }
    }
}

/// Who has a script or function run.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The thread of the client.
    pub thread: usize,
    /// When the command began.
    pub began: Instant,
}

/// Looks after the script that runs.
#[derive(Debug)]
pub struct Watchdog {
    epoch: Instant,
    /// When the script began, in milliseconds since `epoch`, plus one; 0 if none runs.
    began_ms: AtomicU64,
    /// The thread of the client whose script runs.
    thread: AtomicUsize,
    is_function: AtomicBool,
    killed: AtomicBool,
    has_written: AtomicBool,
    /// Whether the server is to stop.
    stopping: AtomicBool,
    /// Whether a script was ended that has written. Nothing that was changed since it began may
    /// be kept or be seen.
    given_up: AtomicBool,
    threshold_ms: AtomicU64,
}

/// Why a script is not killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKilled {
    /// None runs.
    #[error("NOTBUSY No scripts in execution right now.")]
    NotRunning,
    /// It would be seen in part.
    #[error(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
         either wait the script termination or kill the server in a hard way using the SHUTDOWN \
         NOSAVE command."
    )]
    HasWritten,
    /// What runs is of the other kind.
    #[error("{}", .0.busy())]
    Other(Running),
}

impl Default for Watchdog {
    fn default() -> Self {
        Watchdog {
            epoch: Instant::now(),
            began_ms: AtomicU64::new(0),
            thread: AtomicUsize::new(NO_THREAD),
            is_function: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            threshold_ms: AtomicU64::new(5000),
        }
    }
}

impl Watchdog {
    /// A time as `began_ms` has it.
    fn ms(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.epoch).as_millis() as u64 + 1
    }

    /// How long the script has run, in milliseconds; `None` if none runs.
    fn runs_for_ms(&self) -> Option<u64> {
        let began = self.began_ms.load(Ordering::Acquire);
        (began > 0).then(|| self.ms(Instant::now()).saturating_sub(began))
    }

    /// Sets after how long a script counts as slow (`busy-reply-threshold`).
    pub fn set_threshold(&self, threshold: Duration) {
        let milliseconds = threshold.as_millis() as u64;
        self.threshold_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// After how long a script counts as slow.
    pub fn threshold(&self) -> Duration {
        Duration::from_millis(self.threshold_ms.load(Ordering::Relaxed))
    }

    /// A script of this caller begins.
    pub(super) fn begin(&self, running: Running, caller: Caller) {
        let is_function = running == Running::Function;
        self.is_function.store(is_function, Ordering::Relaxed);
        self.thread.store(caller.thread, Ordering::Relaxed);
        self.killed.store(false, Ordering::Relaxed);
        self.has_written.store(false, Ordering::Relaxed);
        self.began_ms
            .store(self.ms(caller.began), Ordering::Release);
    }

    /// The script has ended.
    pub(super) fn end(&self) {
        self.began_ms.store(0, Ordering::Release);
    }

    /// The script has changed something.
    pub fn note_write(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// True if the script is to end. Asked every now and then while it runs.
    pub(super) fn is_killed(&self) -> bool {
        if self.killed.load(Ordering::Relaxed) {
            return true;
        }
        if !self.stopping.load(Ordering::Relaxed) {
            return false;
        }
        let patience = self.threshold().min(LAST_PATIENCE).as_millis() as u64;
        let is_over = self.runs_for_ms().is_some_and(|ms| ms > patience);
        if is_over {
            if self.has_written.load(Ordering::Relaxed) {
                self.given_up.store(true, Ordering::Release);
            }
            self.killed.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// True if the script has run for long and goes on. One that was killed ends soon, and others
    /// wait for it as for one that is quick.
    #[inline]
    pub fn is_slow(&self) -> bool {
        let threshold = self.threshold_ms.load(Ordering::Relaxed);
        let (killed, stopping) = (&self.killed, &self.stopping);
        self.began_ms.load(Ordering::Relaxed) > 0
            && (!killed.load(Ordering::Relaxed) || stopping.load(Ordering::Relaxed))
            && self.runs_for_ms().is_some_and(|ms| ms > threshold)
    }

    /// True if this runs.
    pub(super) fn runs(&self, running: Running) -> bool {
        self.began_ms.load(Ordering::Acquire) > 0 && self.running() == running
    }

    /// The thread whose script has run for long.
    pub fn slow_thread(&self) -> Option<usize> {
        self.is_slow().then(|| self.thread.load(Ordering::Relaxed))
    }

    /// What runs, or has run last.
    pub fn running(&self) -> Running {
        match self.is_function.load(Ordering::Relaxed) {
            true => Running::Function,
            false => Running::Script,
        }
    }

    /// What clients are told while a script runs for long.
    pub fn busy(&self) -> &'static str {
        self.running().busy()
    }

    /// Has what runs end, if it is this.
    ///
    /// # Errors
    /// None runs, it has changed something, or it is another.
    pub fn kill(&self, running: Running) -> Result<(), NotKilled> {
        if self.runs_for_ms().is_none() {
            return Err(NotKilled::NotRunning);
        }
        if self.has_written.load(Ordering::Relaxed) {
            return Err(NotKilled::HasWritten);
        }
        if self.running() != running {
            return Err(NotKilled::Other(self.running()));
        }
        self.killed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Has scripts end that run for long, as the server is to stop, also those that have changed
    /// something.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// True if a script was ended that has changed something. What it has changed is not logged,
    /// and nobody may see it.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}
