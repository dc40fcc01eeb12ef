//! The guard that ends a script or function which takes too long.

use super::watchdog::{KILLED, Watchdog};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Error for a library that takes too long to load.
const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";

/// The guard of a Lua state. A running script asks it periodically whether to end.
#[derive(Debug)]
pub struct ScriptGuard {
    watchdog: Arc<Watchdog>,
    is_loading: AtomicBool,
    /// The time by which the library that is being loaded must be loaded, if there is a limit.
    load_until: Mutex<Option<Instant>>,
}

thread_local! {
    /// The guard of the script that runs on this thread, or that ran last.
    static ATTENDED: RefCell<Option<Arc<ScriptGuard>>> = const { RefCell::new(None) };
    /// True while it runs.
    static IS_ATTENDED: Cell<bool> = const { Cell::new(false) };
}

/// The scope of a run: while it exists, [`verdict`] asks a guard on this thread.
#[derive(Debug)]
pub struct WatchedRun(());

impl Drop for WatchedRun {
    #[inline]
    fn drop(&mut self) {
        IS_ATTENDED.set(false);
    }
}

/// Returns why the script on this thread must end, or `None` if it may continue. Functions that
/// scripts call check this where they take long.
pub fn verdict() -> Option<&'static str> {
    if !IS_ATTENDED.get() {
        // Lua also runs outside of scripts, for example while a state is set up.
        return None;
    }
    ATTENDED.with_borrow(|guard| guard.as_ref()?.verdict())
}

impl ScriptGuard {
    /// Creates a guard that ends a script when the watchdog requests it.
    pub fn new(watchdog: Arc<Watchdog>) -> ScriptGuard {
        ScriptGuard {
            watchdog,
            is_loading: AtomicBool::new(false),
            load_until: Mutex::new(None),
        }
    }

    /// Makes [`verdict`] ask this guard on this thread.
    pub fn attend(self: &Arc<ScriptGuard>) -> WatchedRun {
        debug_assert!(!IS_ATTENDED.get(), "a script runs no other script");
        ATTENDED.with_borrow_mut(|attended| {
            // Mostly it is the same guard again.
            if !attended.as_ref().is_some_and(|it| Arc::ptr_eq(it, self)) {
                *attended = Some(Arc::clone(self));
            }
        });
        IS_ATTENDED.set(true);
        WatchedRun(())
    }

    /// Notes that the loading of a library begins, which may take up to `time_max`.
    pub fn begin_load(&self, time_max: Option<Duration>) {
        debug_assert!(!self.is_loading(), "one library is loaded at a time");
        *self.load_until.lock() = time_max.map(|time| Instant::now() + time);
        self.is_loading.store(true, Ordering::Relaxed);
    }

    /// Notes that the library is loaded or refused.
    pub fn end_load(&self) {
        self.is_loading.store(false, Ordering::Relaxed);
    }

    /// Returns true if a library is being loaded.
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    /// Returns why the script must end, or `None` if it may continue.
    fn verdict(&self) -> Option<&'static str> {
        if self.is_loading.load(Ordering::Relaxed) {
            let until = *self.load_until.lock();
            return until
                .is_some_and(|until| Instant::now() > until)
                .then_some(LOAD_TIMEOUT);
        }
        self.watchdog.is_killed().then_some(KILLED)
    }
}
