//! Ends what runs in a Lua state and takes too long.

use super::watchdog::{KILLED, Watchdog};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a library is told that takes too long to load.
const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";

/// Asked every now and then whether what runs in a Lua state is to end.
#[derive(Debug)]
pub struct Guard {
    watchdog: Arc<Watchdog>,
    is_loading: AtomicBool,
    /// While a library is loaded: until when it has to be, if by any time.
    load_until: Mutex<Option<Instant>>,
}

thread_local! {
    /// The guard of what runs on this thread, or has run last.
    static ATTENDED: RefCell<Option<Arc<Guard>>> = const { RefCell::new(None) };
    /// True while it runs.
    static IS_ATTENDED: Cell<bool> = const { Cell::new(false) };
}

/// While this is there, [`verdict`] asks a guard on this thread.
#[derive(Debug)]
pub struct WatchedRun(());

impl Drop for WatchedRun {
    fn drop(&mut self) {
        IS_ATTENDED.set(false);
    }
}

/// Returns why what runs on this thread is to end, if it is. Functions that scripts call ask this
/// where they take long.
pub fn verdict() -> Option<&'static str> {
    if !IS_ATTENDED.get() {
        return None;
    }
    ATTENDED.with_borrow(|guard| guard.as_ref()?.verdict())
}

impl Guard {
    /// A guard that ends what the watchdog has end.
    pub fn new(watchdog: Arc<Watchdog>) -> Guard {
        Guard {
            watchdog,
            is_loading: AtomicBool::new(false),
            load_until: Mutex::new(None),
        }
    }

    /// Has [`verdict`] ask this guard on this thread.
    pub fn attend(self: &Arc<Guard>) -> WatchedRun {
        ATTENDED.with_borrow_mut(|attended| {
            // Mostly it is the same again.
            if !attended.as_ref().is_some_and(|it| Arc::ptr_eq(it, self)) {
                *attended = Some(Arc::clone(self));
            }
        });
        IS_ATTENDED.set(true);
        WatchedRun(())
    }

    /// A library is loaded, which may take so long.
    pub fn begin_load(&self, time_max: Option<Duration>) {
        *self.load_until.lock() = time_max.map(|time| Instant::now() + time);
        self.is_loading.store(true, Ordering::Relaxed);
    }

    /// The library is loaded, or refused.
    pub fn end_load(&self) {
        self.is_loading.store(false, Ordering::Relaxed);
    }

    /// Says whether a library is being loaded.
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    /// Returns why what runs is to end, if it is.
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
