//! The rate of requests to a server, low enough that its users notice nothing.

use std::time::Duration;

/// Multiple of a reply's duration for which the tool sleeps after it. So the survey takes at most a
/// fifth of the time of one of the server's threads.
const REST: u32 = 4;
/// The longest pause between requests.
const REST_MAX: Duration = Duration::from_millis(500);

/// The pacing of requests, and their count.
#[derive(Clone, Copy, Debug, Default)]
pub struct SurveyPacing {
    /// Number of requests so far.
    pub requests: u64,
}

impl SurveyPacing {
    /// Sleeps after replies to `requests` requests, which `took` this time together.
    pub fn rest(&mut self, took: Duration, requests: usize) {
        self.requests += requests as u64;
        std::thread::sleep((took * REST).min(REST_MAX));
    }
}
