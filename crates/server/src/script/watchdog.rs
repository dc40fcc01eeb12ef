//! The watchdog of a running script. It ends the script on request. Once the script has run for
//! long, other clients get an error instead of waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Error for a script or function that was killed.
pub const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// Longest time for which a script may continue when the server must stop.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The value of `thread` when there is none.
const NO_THREAD: usize = usize::MAX;

/// The kind of code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRunKind {
    /// A script (`EVAL`).
    Script,
    /// A function of a library (`FCALL`).
    Function,
}

impl ScriptRunKind {
    /// Returns the error sent to other clients while this runs for long.
    pub fn busy(self) -> &'static str {
        match self {
            ScriptRunKind::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                 NOSAVE."
            }
            ScriptRunKind::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
                 NOSAVE."
            }
        }
    }
}

/// The client that calls a script or function.
#[derive(Clone, Copy, Debug)]
pub struct ScriptCaller {
    /// The thread of the client.
    pub thread: usize,
    /// The time at which the command began.
    pub began: Instant,
}

/// The watchdog of the script that runs.
#[derive(Debug)]
pub struct Watchdog {
    epoch: Instant,
    /// The time at which the script began, in milliseconds since `epoch`, plus one; 0 if none runs.
    began_ms: AtomicU64,
    /// The thread of the client that runs the script.
    thread: AtomicUsize,
    is_function: AtomicBool,
    killed: AtomicBool,
    has_written: AtomicBool,
    /// True if the server must stop.
    stopping: AtomicBool,
    /// True if a script was ended after it had written. Nothing that was changed since it began may
    /// be kept or be seen.
    given_up: AtomicBool,
    threshold_ms: AtomicU64,
}

/// The reason why a script is not killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKilled {
    /// No script runs.
    #[error("NOTBUSY No scripts in execution right now.")]
    NotRunning,
    /// The script has written: its changes would be seen in part.
    #[error(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
         either wait the script termination or kill the server in a hard way using the SHUTDOWN \
         NOSAVE command."
    )]
    HasWritten,
    /// A script runs but a function should be killed, or the reverse.
    #[error("{}", .0.busy())]
    Other(ScriptRunKind),
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
    /// Converts a time to the form of `began_ms`.
    fn ms(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.epoch).as_millis() as u64 + 1
    }

    /// Returns for how many milliseconds the script has run; `None` if none runs.
    fn runs_for_ms(&self) -> Option<u64> {
        let began = self.began_ms.load(Ordering::Acquire);
        (began > 0).then(|| self.ms(Instant::now()).saturating_sub(began))
    }

    /// Sets the time after which a script counts as slow (`busy-reply-threshold`). With zero none
    /// ever does, as in Redis.
    pub fn set_threshold(&self, threshold: Duration) {
        let milliseconds = match threshold.as_millis() as u64 {
            0 => u64::MAX,
            milliseconds => milliseconds,
        };
        self.threshold_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Returns the time after which a script counts as slow.
    pub fn threshold(&self) -> Duration {
        Duration::from_millis(self.threshold_ms.load(Ordering::Relaxed))
    }

    /// Returns the time until a script can count as slow: the rest of the running script's, or all
    /// of the threshold if none runs. At least a millisecond.
    pub fn until_slow(&self) -> Duration {
        let ran_ms = self.runs_for_ms().unwrap_or(0);
        let threshold_ms = self.threshold_ms.load(Ordering::Relaxed);
        // A script is slow once it has run for longer than the threshold.
        let slow_after_ms = threshold_ms.saturating_add(1);
        Duration::from_millis(slow_after_ms.saturating_sub(ran_ms).max(1))
    }

    /// Notes that a script of this caller begins.
    pub(super) fn begin(&self, running: ScriptRunKind, caller: ScriptCaller) {
        let is_function = running == ScriptRunKind::Function;
        self.is_function.store(is_function, Ordering::Relaxed);
        self.thread.store(caller.thread, Ordering::Relaxed);
        self.killed.store(false, Ordering::Relaxed);
        self.has_written.store(false, Ordering::Relaxed);
        // Last, so that a thread that sees the script run sees the fields above, too.
        self.began_ms
            .store(self.ms(caller.began), Ordering::Release);
    }

    /// Notes that the script has ended.
    pub(super) fn end(&self) {
        self.began_ms.store(0, Ordering::Release);
    }

    /// Notes that the script has changed something.
    pub fn note_write(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Returns true if the script must end. It is asked periodically while it runs.
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

    /// Returns true if the script has run for long and continues. A killed script ends soon, and
    /// other clients wait for it as for a quick one.
    #[inline]
    pub fn is_slow(&self) -> bool {
        let threshold = self.threshold_ms.load(Ordering::Relaxed);
        let (killed, stopping) = (&self.killed, &self.stopping);
        self.began_ms.load(Ordering::Relaxed) > 0
            && (!killed.load(Ordering::Relaxed) || stopping.load(Ordering::Relaxed))
            && self.runs_for_ms().is_some_and(|ms| ms > threshold)
    }

    /// Returns true if code of this kind runs.
    pub(super) fn runs(&self, running: ScriptRunKind) -> bool {
        self.began_ms.load(Ordering::Acquire) > 0 && self.running() == running
    }

    /// Returns the thread of a script that has run for long.
    pub fn slow_thread(&self) -> Option<usize> {
        self.is_slow().then(|| self.thread.load(Ordering::Relaxed))
    }

    /// Returns the kind of the code that runs, or that ran last.
    pub fn running(&self) -> ScriptRunKind {
        match self.is_function.load(Ordering::Relaxed) {
            true => ScriptRunKind::Function,
            false => ScriptRunKind::Script,
        }
    }

    /// Returns the error sent to clients while a script runs for long.
    pub fn busy(&self) -> &'static str {
        self.running().busy()
    }

    /// Ends the running script or function, if it is of this kind.
    ///
    /// # Errors
    /// None runs, it has changed something, or it is of the other kind.
    pub fn kill(&self, running: ScriptRunKind) -> Result<(), NotKilled> {
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

    /// Ends scripts that run for long, also those that have changed something, because the server
    /// must stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns true if a script was ended that had changed something. Its changes are not logged,
    /// and no client may see them.
    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began_before(milliseconds: u64) -> ScriptCaller {
        let began = Instant::now();
        ScriptCaller {
            thread: 0,
            began: began
                .checked_sub(Duration::from_millis(milliseconds))
                .unwrap(),
        }
    }

    fn started_long_ago() -> Watchdog {
        let long_ago = Instant::now()
            .checked_sub(Duration::from_secs(1000))
            .unwrap();
        Watchdog {
            epoch: long_ago,
            ..Watchdog::default()
        }
    }

    #[test]
    fn the_time_until_a_script_is_slow_ends_with_the_threshold() {
        let watchdog = started_long_ago();
        watchdog.set_threshold(Duration::from_secs(50));
        assert_eq!(watchdog.until_slow(), Duration::from_millis(50_001));
        watchdog.begin(ScriptRunKind::Script, began_before(30_000));
        assert!(!watchdog.is_slow());
        let rest = watchdog.until_slow();
        assert!(rest <= Duration::from_millis(20_001), "{rest:?}");
        watchdog.begin(ScriptRunKind::Script, began_before(60_000));
        assert!(watchdog.is_slow());
        assert_eq!(watchdog.until_slow(), Duration::from_millis(1));
        watchdog.end();
        assert_eq!(watchdog.until_slow(), Duration::from_millis(50_001));
    }

    #[test]
    fn no_script_is_slow_without_a_threshold() {
        let watchdog = started_long_ago();
        watchdog.begin(ScriptRunKind::Function, began_before(900_000));
        assert!(watchdog.is_slow());
        watchdog.set_threshold(Duration::ZERO);
        assert!(!watchdog.is_slow());
        assert!(watchdog.until_slow() > Duration::from_secs(1_000_000));
    }
}
