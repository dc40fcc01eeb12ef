//! The time of day, and the time that passes.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// A time in milliseconds that passes evenly, also if the time of day is set. Durations are
/// measured by it; only its differences mean something.
pub fn steady_ms() -> u64 {
    steady_ms_at(Instant::now())
}

/// The same at an instant.
pub fn steady_ms_at(instant: Instant) -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(Instant::now);
    instant.saturating_duration_since(base).as_millis() as u64
}
