//! Threads that start together, each on a core of its own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Barrier;
use std::thread;

/// Returns the cores that this process may run on.
pub(crate) fn cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&core| set.is_set(core))
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Runs `body` once for each lane, each on a thread of its own. The threads are pinned to the cores
/// in turn and released by a barrier.
///
/// A panic of a lane is resumed in the caller.
pub(crate) fn together<L: Send, R: Send>(
    lanes: Vec<L>,
    body: impl Fn(usize, L) -> R + Sync,
) -> Vec<R> {
    let cores = cores();
    let barrier = Barrier::new(lanes.len());
    let (barrier, body, cores) = (&barrier, &body, &cores);
    thread::scope(|scope| {
        let start = |(number, lane): (usize, L)| {
            scope.spawn(move || {
                if !cores.is_empty() {
                    // With more lanes than cores, lanes share a core.
                    pin(cores[number % cores.len()]);
                }
                // A lane that began earlier would have the machine to itself for a while.
                barrier.wait();
                body(number, lane)
            })
        };
        let threads: Vec<_> = lanes.into_iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Binds the calling thread to a core, if the system permits it.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    debug_assert!(core < CpuSet::MAX_CPU);
    set.set(core);
    // A refusal costs only precision, because rates are of CPU time.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_runs_once_on_its_core() {
        let cores = cores();
        assert!(!cores.is_empty());
        let seen = together(vec![10, 20, 30], |number, lane| {
            (number, lane, super::cores())
        });
        for (number, (index, lane, on)) in seen.into_iter().enumerate() {
            assert_eq!((index, lane), (number, (number + 1) * 10));
            assert_eq!(on, [cores[number % cores.len()]]);
        }
    }
}
