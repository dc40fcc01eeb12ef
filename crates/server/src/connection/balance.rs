//! The number of threads that serve connections: all of them, as long as the machine has cores to
//! run them.
//!
//! Threads that share a core with each other, or with the clients, are switched often and find
//! little to do each time: every switch costs, and batches get smaller. So the threads measure
//! their own times. While they wait for cores and their work would fit into fewer threads, one is
//! *rested*: it gives its connections to the others. When those are busy all the time and cores are
//! idle, it gets its part again. On systems that do not report these times, all threads serve.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval between two decisions.
pub const INTERVAL: Duration = Duration::from_millis(200);
/// Shortest rest of a thread.
const REST: Duration = Duration::from_secs(10);

/// The division of work between the threads of a server.
#[derive(Debug)]
pub struct ThreadBalance {
    /// Number of threads that serve connections, from thread 0 on; the others are rested.
    active: AtomicUsize,
    spent: Box<[ThreadTimes]>,
    last: Mutex<Option<Look>>,
}

/// The times that a thread has spent since it began, in nanoseconds.
#[derive(Debug, Default)]
struct ThreadTimes {
    running: AtomicU64,
    /// Time for which it could have run but had no core.
    delayed: AtomicU64,
}

/// The measurements of the last decision.
#[derive(Debug)]
struct Look {
    at: Instant,
    spent: Vec<(u64, u64)>,
    /// Idle time of all cores of the machine.
    idle: Duration,
    /// The time at which a thread was last rested.
    rested_at: Option<Instant>,
}

/// The load of the active threads in an interval, in cores.
#[derive(Clone, Copy, Debug)]
struct ActiveThreadLoad {
    /// Cores on which the active threads ran, all together.
    running: f64,
    /// The part of a core that the busiest thread used.
    busiest: f64,
    /// Cores that they waited for, all together.
    delayed: f64,
    /// Idle cores.
    idle: f64,
}

/// Returns the number of active threads, of `threads` in all, for the next interval.
fn decide(active: usize, threads: usize, fared: ActiveThreadLoad, may_grow: bool) -> usize {
    /// The part of a core that one thread can use in the long term.
    const FULL: f64 = 0.85;
    debug_assert!((1..=threads).contains(&active), "one thread always serves");
    let fits_fewer = fared.running < FULL * active.saturating_sub(1) as f64;
    let is_crowded = fared.delayed > 0.1 * fared.running && fared.delayed > fared.idle / 4.0;
    if fits_fewer && is_crowded && fared.running > 0.2 {
        return active - 1;
    }
    // A core must be free for the thread, or it would wait for one again.
    if may_grow && active < threads && fared.busiest > FULL && fared.idle > 0.75 {
        return active + 1;
    }
    active
}

impl ThreadBalance {
    /// Creates a balance in which all of `threads` threads serve.
    pub fn new(threads: usize) -> ThreadBalance {
        let threads = threads.max(1);
        ThreadBalance {
            active: AtomicUsize::new(threads),
            spent: (0..threads).map(|_| ThreadTimes::default()).collect(),
            last: Mutex::new(None),
        }
    }

    /// Returns the number of threads that serve connections: those with lower numbers.
    #[inline]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Sets the number of threads that serve, at least one, until the next decision.
    pub fn set_active(&self, active: usize) {
        let active = active.clamp(1, self.spent.len());
        self.active.store(active, Ordering::Relaxed);
    }

    /// Notes the times of the calling thread, which has this number. The first thread then decides.
    pub fn note(&self, number: usize) {
        let Some(spent) = self.spent.get(number) else {
            return;
        };
        let Some((running, delayed)) = spent_by_this_thread() else {
            return;
        };
        spent.running.store(running, Ordering::Relaxed);
        spent.delayed.store(delayed, Ordering::Relaxed);
        if number == 0 {
            self.decide();
        }
    }

    fn decide(&self) {
        let Some(idle) = idle_cores_time() else {
            return;
        };
        let spent = |spent: &ThreadTimes| {
            let time = |of: &AtomicU64| of.load(Ordering::Relaxed);
            (time(&spent.running), time(&spent.delayed))
        };
        let mut last = self.last.lock();
        let mut look = Look {
            at: Instant::now(),
            spent: self.spent.iter().map(spent).collect(),
            idle,
            rested_at: None,
        };
        if let Some(before) = &*last {
            look.rested_at = before.rested_at;
            let active = self.active();
            let fared = look.since(before, active);
            // Connections must not move to and fro.
            let may_grow = before.rested_at.is_none_or(|at| at.elapsed() > REST);
            let next = decide(active, self.spent.len(), fared, may_grow);
            if next != active {
                tracing::debug!(threads = next, ?fared, "connections are redistributed");
                self.set_active(next);
            }
            if next < active {
                look.rested_at = Some(look.at);
            }
        }
        *last = Some(look);
    }
}

impl Look {
    /// Returns the load of the first `active` threads since an earlier measurement.
    fn since(&self, before: &Look, active: usize) -> ActiveThreadLoad {
        let wall = (self.at - before.at).as_nanos().max(1) as f64;
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / wall;
        debug_assert_eq!(self.spent.len(), before.spent.len());
        let threads = self.spent.iter().zip(&before.spent).take(active);
        let mut fared = ActiveThreadLoad {
            running: 0.0,
            busiest: 0.0,
            delayed: 0.0,
            // The kernel documents that the time of waiting for disks may decrease.
            idle: self.idle.saturating_sub(before.idle).as_nanos() as f64 / wall,
        };
        for (now, then) in threads {
            let running = part(now.0, then.0);
            fared.running += running;
            fared.busiest = fared.busiest.max(running);
            fared.delayed += part(now.1, then.1);
        }
        fared
    }
}

/// Returns the times for which the calling thread has run, and for which it has waited for a core,
/// in nanoseconds. `None` where the system does not report them.
fn spent_by_this_thread() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the idle time of all cores of the machine together since it started. `None` where the
/// system does not report it.
fn idle_cores_time() -> Option<Duration> {
    /// The unit of the system's times, which is the same on all Linux systems that are in use.
    const TICK_MS: u64 = 10;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times = text.lines().next()?.strip_prefix("cpu ")?;
    // Time for which cores only waited for disks is idle time, too.
    let mut times = times.split_whitespace().map(str::parse::<u64>).skip(3);
    let (idle, waiting) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis(
        TICK_MS.saturating_mul(idle.saturating_add(waiting)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fared(running: f64, busiest: f64, delayed: f64, idle: f64) -> ActiveThreadLoad {
        ActiveThreadLoad {
            running,
            busiest,
            delayed,
            idle,
        }
    }

    #[test]
    fn threads_that_share_cores_become_fewer() {
        // As measured with two threads and redis-benchmark on two cores.
        assert_eq!(decide(2, 2, fared(0.74, 0.37, 0.35, 0.22), true), 1);
        assert_eq!(decide(2, 2, fared(0.78, 0.44, 0.34, 0.39), true), 1);
        // The last thread is never rested.
        assert_eq!(decide(1, 2, fared(0.74, 0.74, 0.35, 0.0), true), 1);
    }

    #[test]
    fn threads_that_have_cores_stay() {
        assert_eq!(decide(2, 2, fared(0.9, 0.5, 0.01, 1.0), true), 2);
        assert_eq!(decide(4, 4, fared(0.1, 0.05, 0.05, 0.0), true), 4);
        // Their work does not fit into fewer threads, even if other processes compete for the
        // cores.
        assert_eq!(decide(4, 4, fared(2.7, 0.7, 1.3, 0.0), true), 4);
    }

    #[test]
    fn busy_threads_become_more_where_cores_are_idle() {
        assert_eq!(decide(1, 4, fared(0.97, 0.97, 0.01, 6.0), true), 2);
        assert_eq!(decide(1, 4, fared(0.97, 0.97, 0.01, 6.0), false), 1);
        assert_eq!(decide(1, 2, fared(0.97, 0.97, 0.01, 0.1), true), 1);
        assert_eq!(decide(1, 2, fared(0.5, 0.5, 0.01, 1.4), true), 1);
        assert_eq!(decide(2, 2, fared(1.9, 0.97, 0.01, 6.0), true), 2);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_tells() {
        let (ran, delayed) = spent_by_this_thread().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let (after, later) = spent_by_this_thread().unwrap();
        assert!(after > ran && later >= delayed);
        let idle = idle_cores_time().unwrap();
        assert!(idle_cores_time().unwrap() >= idle);
    }
}
