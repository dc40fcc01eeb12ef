//! Work of a disk for which a thread waits, with a timeout.
//!
//! Each thread that waits this way has another thread that works for it. If the work does not end
//! in time, that thread is abandoned with it, and a new thread does the next work. An SSD that
//! never responds thus costs some threads, and in the end all reads fail at once. For writes see
//! [`OneAtATime`].

use super::read::PendingTierRead;
use crate::disk::{late, patience};
use crate::usage::ReadError;
use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Maximum number of threads that are abandoned with their work.
const LEFT_MAX: usize = 64;

/// Number of threads that are abandoned now.
static LEFT: AtomicUsize = AtomicUsize::new(0);

type Job = Box<dyn FnOnce() + Send>;

/// A thread that works for another.
struct DiskWorkRunner {
    jobs: SyncSender<Job>,
    /// Set to 1 when no thread waits for this one any more.
    left: Arc<AtomicUsize>,
}

thread_local! {
    static RUNNER: RefCell<Option<DiskWorkRunner>> = const { RefCell::new(None) };
}

impl DiskWorkRunner {
    fn start() -> io::Result<DiskWorkRunner> {
        // Room for one job, because a thread waits for its result before it sends another.
        let (jobs, mine) = sync_channel::<Job>(1);
        let left = Arc::new(AtomicUsize::new(0));
        let is_left = Arc::clone(&left);
        let run = move || {
            // The loop ends when the other thread does, or has abandoned this one.
            mine.into_iter().for_each(|job| job());
            // Only an abandoned thread was counted.
            LEFT.fetch_sub(is_left.load(Ordering::Acquire), Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("nearfield-disk".to_owned());
        thread.spawn(run)?;
        Ok(DiskWorkRunner { jobs, left })
    }
}

/// Runs work on another thread, and waits for its result for `limit` at most.
fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
    limit: Duration,
) -> io::Result<T> {
    RUNNER.with_borrow_mut(|kept| {
        if LEFT.load(Ordering::Relaxed) >= LEFT_MAX {
            // The disk has not responded to any of them, so another thread would be lost, too.
            return Err(late());
        }
        // Taken, and put back if it is in time, so that an abandoned thread is not used again.
        let runner = match kept.take() {
            Some(runner) => runner,
            None => DiskWorkRunner::start()?,
        };
        let (answer, result) = sync_channel(1);
        // The work does not depend on a thread that still waits for it.
        let job = Box::new(move || drop(answer.send(work())));
        if runner.jobs.send(job).is_err() {
            return Err(late());
        }
        match result.recv_timeout(limit) {
            Ok(result) => {
                *kept = Some(runner);
                result
            }
            Err(_) => {
                // The thread is counted before `left` is set, because it subtracts itself once it
                // sees that it is abandoned.
                LEFT.fetch_add(1, Ordering::Relaxed);
                runner.left.store(1, Ordering::Release);
                Err(late())
            }
        }
    })
}

/// Work of one kind, at most one of which is under way. The next waits for it, and gets its result,
/// if no other thread has got that. Once the disk has not responded to the work in time, the next
/// is refused at once. Clones share their state.
#[derive(Debug)]
pub(super) struct OneAtATime<T>(Arc<DiskWorkSlot<T>>);

#[derive(Debug)]
struct DiskWorkSlot<T> {
    state: Mutex<DiskWorkState<T>>,
    /// Notified when work ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
enum DiskWorkState<T> {
    #[default]
    Idle,
    /// The time at which it began.
    UnderWay(Instant),
    Over(io::Result<T>),
}

impl<T> Default for OneAtATime<T> {
    fn default() -> OneAtATime<T> {
        OneAtATime(Arc::new(DiskWorkSlot {
            state: Mutex::default(),
            ended: Condvar::new(),
        }))
    }
}

/// The outcome of work. Stores the state that follows when it is dropped, also if the work never
/// begins.
struct DiskWorkOutcome<T>(Arc<DiskWorkSlot<T>>, DiskWorkState<T>);

impl<T> DiskWorkOutcome<T> {
    fn is(mut self, result: io::Result<T>) {
        self.1 = DiskWorkState::Over(result);
    }
}

impl<T> Drop for DiskWorkOutcome<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        debug_assert!(
            matches!(*state, DiskWorkState::UnderWay(_)),
            "only this work was under way"
        );
        *state = std::mem::take(&mut self.1);
        drop(state);
        self.0.ended.notify_all();
    }
}

impl<T: Send + 'static> OneAtATime<T> {
    /// Runs work on another thread and waits for it as long as this thread [waits for a
    /// disk](patience); returns the result of earlier work instead, if there is some.
    ///
    /// # Errors
    /// The error of the work, or the disk does not respond in time.
    pub(super) fn run(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut state = self.0.state.lock();
        if let DiskWorkState::UnderWay(since) = *state {
            // Counted from its beginning, so that a disk that hangs is waited for once.
            let deadline = since + patience();
            while matches!(*state, DiskWorkState::UnderWay(_)) {
                if self.0.ended.wait_until(&mut state, deadline).timed_out() {
                    break;
                }
            }
        }
        match std::mem::take(&mut *state) {
            DiskWorkState::Idle => *state = DiskWorkState::UnderWay(Instant::now()),
            DiskWorkState::UnderWay(since) => {
                *state = DiskWorkState::UnderWay(since);
                return Err(late());
            }
            DiskWorkState::Over(result) => return result,
        }
        // The work locks the state to store its outcome.
        drop(state);
        let outcome = DiskWorkOutcome(Arc::clone(&self.0), DiskWorkState::Idle);
        let work = move || {
            outcome.is(work());
            Ok(())
        };
        run(work, patience())?;
        let mut state = self.0.state.lock();
        match std::mem::take(&mut *state) {
            DiskWorkState::Over(result) => result,
            // Another thread has got the result, and may have begun other work.
            other => {
                *state = other;
                Err(late())
            }
        }
    }
}

impl PendingTierRead {
    /// Reads like [`run`](PendingTierRead::run), but waits for the disk for `limit` at most.
    ///
    /// # Errors
    /// As for `run`, and if the disk does not respond in time.
    pub fn run_within(&self, limit: Duration, out: &mut Vec<u8>) -> Result<(), ReadError> {
        // The work may outlive this call, so it owns what it reads.
        let pending = self.clone();
        let work = move || {
            let mut value = Vec::new();
            Ok(pending.run(&mut value).map(|()| value))
        };
        let value = run(work, limit)??;
        out.extend_from_slice(&value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::with_patience;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(10);

    fn eventually(is: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !is() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The lock of these tests, which count the abandoned threads, so that one runs at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_read_that_is_stuck_is_answered_in_time_and_the_next_goes_on() {
        let _alone = ALONE.lock();
        let (release, stuck) = sync_channel::<()>(0);
        let began = Instant::now();
        let work = move || {
            let _ = stuck.recv();
            Ok(1)
        };
        let error = run(work, SOON).unwrap_err();
        assert!(error.to_string().contains("does not respond"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2));
        assert_eq!(LEFT.load(Ordering::Relaxed), 1);
        for number in 0..10 {
            assert_eq!(run(move || Ok(number), LONG).unwrap(), number);
        }
        // The thread ends once its disk has responded.
        drop(release);
        eventually(|| LEFT.load(Ordering::Relaxed) == 0);
    }

    /// Runs work, for which this thread waits briefly.
    fn run_soon<T: Send + 'static>(
        one: &OneAtATime<T>,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (result, is_late) = with_patience(SOON, || one.run(work));
        assert_eq!(is_late, result.is_err());
        result
    }

    #[test]
    fn work_is_refused_while_one_is_stuck_whose_result_the_next_has() {
        let _alone = ALONE.lock();
        let one = OneAtATime::default();
        let (release, stuck) = sync_channel::<()>(0);
        let work = move || {
            let _ = stuck.recv();
            Ok(1)
        };
        assert_eq!(one.run(|| Ok(0)).unwrap(), 0);
        for error in [run_soon(&one, work), run_soon(&one, || Ok(2))] {
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        drop(release);
        eventually(|| matches!(*one.0.state.lock(), DiskWorkState::Over(_)));
        assert_eq!(one.run(|| Ok(3)).unwrap(), 1);
        assert_eq!(one.run(|| Ok(4)).unwrap(), 4);
        eventually(|| LEFT.load(Ordering::Relaxed) == 0);
        let failed = one.run(|| Err(io::Error::other("broken")));
        assert_eq!(failed.unwrap_err().to_string(), "broken");
        assert_eq!(one.run(|| Ok(5)).unwrap(), 5);
    }

    /// The first thread goes on to serve others. Without the wait, the second would take a disk
    /// that is only slow for one that hangs.
    #[test]
    fn work_that_one_thread_has_left_is_waited_for_by_another() {
        let _alone = ALONE.lock();
        let one = OneAtATime::default();
        let (release, stuck) = sync_channel::<()>(0);
        let work = move || {
            let _ = stuck.recv();
            Ok(1)
        };
        let left = run_soon(&one, work).unwrap_err();
        assert!(left.to_string().contains("does not respond"), "{left}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| one.run(|| Ok(2)));
            std::thread::sleep(SOON);
            assert!(!waits.is_finished());
            drop(release);
            assert_eq!(waits.join().unwrap().unwrap(), 1);
        });
        eventually(|| LEFT.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn work_that_never_began_does_not_refuse_the_next() {
        let _alone = ALONE.lock();
        let one = OneAtATime::default();
        LEFT.fetch_add(LEFT_MAX, Ordering::Relaxed);
        assert!(one.run(|| Ok(1)).is_err());
        LEFT.fetch_sub(LEFT_MAX, Ordering::Relaxed);
        assert_eq!(one.run(|| Ok(2)).unwrap(), 2);
    }
}
