//! How fast a server is asked, so that its users notice nothing.

use std::time::Duration;

/// After a reply, the server has rest for so many times as long as the reply took. So at most a
/// fifth of the time of one of its threads is taken.
const REST: u32 = 4;
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(500);

/// How fast a server is asked, and how often it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// The requests so far.
    pub requests: u64,
}

impl Pace {
    /// Waits after requests that were answered together.
    pub fn rest(&mut self, took: Duration, requests: usize) {
        self.requests += requests as u64;
        std::thread::sleep((took * REST).min(REST_MAX));
    }
}
