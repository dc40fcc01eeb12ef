//! Ends what runs in a Lua state and takes too long.

use super::watchdog::{KILLED, Watchdog};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a library is told that takes too long to load.
const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";

/// Asked every now and then whether what runs in a Lua state is to end.
#[derive(Debug)]
pub struct Guard {
    watchdog: Arc<Watchdog>,
    /// While a library is loaded: until when it has to be.
    load: Mutex<Option<Option<Instant>>>,
}

impl Guard {
    /// A guard that ends what the watchdog has end.
    pub fn new(watchdog: Arc<Watchdog>) -> Guard {
        Guard {
            watchdog,
            load: Mutex::new(None),
        }
    }

    /// A library is loaded, which may take so long.
    pub fn begin_load(&self, time_max: Option<Duration>) {
        *self.load.lock() = Some(time_max.map(|time| Instant::now() + time));
    }

    /// The library is loaded, or refused.
    pub fn end_load(&self) {
        *self.load.lock() = None;
    }

    /// Why what runs is to end, if it is.
    pub fn verdict(&self) -> Option<&'static str> {
        match *self.load.lock() {
            Some(Some(until)) => (Instant::now() > until).then_some(LOAD_TIMEOUT),
            Some(None) => None,
            None => self.watchdog.is_killed().then_some(KILLED),
        }
    }
}
