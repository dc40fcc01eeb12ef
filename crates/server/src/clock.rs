//! The time of day, and a steady clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock that is set before 1970 counts as 1970.
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Returns a time in milliseconds that advances evenly, even if the time of day is set. Use it to
/// measure durations; only its differences have a meaning.
pub fn steady_ms() -> u64 {
    steady_ms_at(Instant::now())
}

/// Returns the same time at an instant.
pub fn steady_ms_at(instant: Instant) -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(Instant::now);
    instant.saturating_duration_since(base).as_millis() as u64
}
