//! The watchdog of a running script. It kills the script on request. Once the script has run for
//! long, other clients get an error instead of waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a script is told that was killed.
pub const KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";

/// Looks after the script that runs.
#[derive(Debug)]
pub struct Watchdog {
    epoch: Instant,
    /// When the script began, in milliseconds since `epoch`, plus one; 0 if none runs.
    began_ms: AtomicU64,
    killed: AtomicBool,
    has_written: AtomicBool,
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
}

impl Default for Watchdog {
    fn default() -> Self {
        Watchdog {
            epoch: Instant::now(),
            began_ms: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            threshold_ms: AtomicU64::new(5000),
        }
    }
}

impl Watchdog {
    fn elapsed_ms(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64 + 1
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

    /// A script begins.
    pub(super) fn begin(&self) {
        self.killed.store(false, Ordering::Relaxed);
        self.has_written.store(false, Ordering::Relaxed);
        self.began_ms.store(self.elapsed_ms(), Ordering::Release);
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
        self.killed.load(Ordering::Relaxed)
    }

    /// True if the script has run for long.
    pub fn is_slow(&self) -> bool {
        let began = self.began_ms.load(Ordering::Relaxed);
        let threshold = self.threshold_ms.load(Ordering::Relaxed);
        began > 0 && self.elapsed_ms().saturating_sub(began) > threshold
    }

    /// Has the script end that runs.
    ///
    /// # Errors
    /// None runs, or it has changed something.
    pub fn kill(&self) -> Result<(), NotKilled> {
        if self.began_ms.load(Ordering::Acquire) == 0 {
            return Err(NotKilled::NotRunning);
        }
        if self.has_written.load(Ordering::Relaxed) {
            return Err(NotKilled::HasWritten);
        }
        self.killed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What clients are told while a script runs for long.
pub const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
    SHUTDOWN NOSAVE.";
