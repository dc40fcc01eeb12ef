//! The clock that measurements use.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that the calling thread has used so far (`CLOCK_THREAD_CPUTIME_ID`).
///
/// Unlike wall-clock time it stands still while the thread is not on a core, so that other work on
/// the machine does not count; neither does time asleep on a lock.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    debug_assert!(time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advances_with_work_and_not_with_sleep() {
        let start = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(50));
        let slept = thread_cpu_time() - start;
        assert!(slept < Duration::from_millis(25), "{slept:?}");
        while thread_cpu_time() - start < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
    }
}
