//! The seeds that a test runs, and the command that replays a failure.

use std::convert::Infallible;
use std::env;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time between progress reports of a long run.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Calls `test` with each seed until one fails, and returns the command that replays it with the
/// message of `test`. Environment variables choose the seeds: `NEARFIELD_SEEDS` of them (by default
/// `count`), beginning with `NEARFIELD_FIRST_SEED` (by default 0); or only `NEARFIELD_SEED`. A long
/// run writes its progress and the current seed to stderr.
pub fn first_failure<E: Display>(
    count: u64,
    mut test: impl FnMut(u64) -> Result<(), E>,
) -> Option<String> {
    let mut seeds = range(count);
    let progress = SeedProgress::start(seeds.clone());
    let mut passed = 0;
    let failure = seeds.find_map(|seed| {
        // Before the test, so that the reporter names a seed that hangs.
        progress.current.store(seed, Ordering::Relaxed);
        let Err(failure) = test(seed) else {
            passed += 1;
            return None;
        };
        Some(format!("{}\n{failure}", replay_command(seed)))
    });
    // `xtask soak` adds these up.
    if env::var_os("NEARFIELD_FIRST_SEED").is_some() {
        let _ = writeln!(io::stderr(), "seeds passed: {passed}");
    }
    failure
}

/// Calls `test` with each seed, as [`first_failure`] does. If `test` panics, the command that
/// replays it is written to stderr and the panic continues.
pub fn each(count: u64, mut test: impl FnMut(u64)) {
    let failure = first_failure(count, |seed| {
        let replay = ReplayOnPanic(seed);
        test(seed);
        drop(replay);
        Ok::<(), Infallible>(())
    });
    debug_assert!(failure.is_none(), "there are no errors, only panics");
}

/// A guard that prints the replay command of a seed if it is dropped during a panic.
struct ReplayOnPanic(u64);

impl Drop for ReplayOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(io::stderr(), "{}", replay_command(self.0));
        }
    }
}

/// Returns the command that runs the current test with one seed.
fn replay_command(seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
    let thread = thread::current();
    // The harness names the thread of a test after it, unless the test runs on the main thread.
    let test = thread.name().filter(|&name| name != "main");
    format!(
        "NEARFIELD_SEED={seed} cargo test{} {}",
        package.unwrap_or_default(),
        test.unwrap_or_default()
    )
}

fn range(count: u64) -> Range<u64> {
    match variable("NEARFIELD_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = variable("NEARFIELD_FIRST_SEED").unwrap_or(0);
            first..first + variable("NEARFIELD_SEEDS").unwrap_or(count)
        }
    }
}

fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    match text.parse() {
        Ok(value) => Some(value),
        // A mistyped number must not run other seeds without notice.
        Err(error) => panic!("{name}={text}: {error}"),
    }
}

/// A reporter in a thread of its own, so that it also reports the seed of a test that hangs.
struct SeedProgress {
    current: Arc<AtomicU64>,
    reporter: thread::JoinHandle<()>,
}

impl SeedProgress {
    fn start(seeds: Range<u64>) -> Self {
        let current = Arc::new(AtomicU64::new(seeds.start));
        let name = thread::current().name().unwrap_or("test").to_owned();
        let watched = Arc::downgrade(&current);
        let start = Instant::now();
        let reporter = thread::spawn(move || {
            loop {
                thread::park_timeout(PROGRESS_INTERVAL);
                let Some(current) = watched.upgrade() else {
                    return;
                };
                // `eprintln` is not used because the test harness holds its output until the test
                // ends.
                let _ = writeln!(
                    io::stderr(),
                    "{name}: seed {} of {seeds:?} after {} s",
                    current.load(Ordering::Relaxed),
                    start.elapsed().as_secs()
                );
            }
        });
        SeedProgress { current, reporter }
    }
}

impl Drop for SeedProgress {
    fn drop(&mut self) {
        // Without this reference the reporter finds that the run has ended.
        self.current = Arc::default();
        self.reporter.thread().unpark();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_failure_is_replayed_with_its_seed_and_test() {
        let command = super::replay_command(7);
        assert!(
            command.starts_with("NEARFIELD_SEED=7 cargo test"),
            "{command}"
        );
    }

    #[test]
    fn each_runs_all_seeds_and_lets_panics_go_on() {
        let mut run = Vec::new();
        super::each(3, |seed| run.push(seed));
        assert_eq!(run, [0, 1, 2]);
        let caught = std::panic::catch_unwind(|| super::each(3, |seed| assert!(seed < 1)));
        assert!(caught.is_err());
    }
}
