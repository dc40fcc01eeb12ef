//! Reads for which a thread waits, but not for ever.
//!
//! Each thread that reads so has another thread run its reads. If one does not end in time, that
//! thread is left alone with it, and the next read has a new one. An SSD that never answers thus
//! costs some threads, and at last all reads are answered at once that it does not.

use super::read::Pending;
use crate::usage::ReadError;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Threads that may be left alone with their reads.
const LEFT_MAX: usize = 64;

/// Threads that are left alone now.
static LEFT: AtomicUsize = AtomicUsize::new(0);

type Job = Box<dyn FnOnce() -> Result<Vec<u8>, ReadError> + Send>;

/// A thread that runs reads for another.
struct Runner {
    jobs: SyncSender<Job>,
    results: Receiver<Result<Vec<u8>, ReadError>>,
    /// Set when nobody waits for the thread any more.
    left: Arc<AtomicUsize>,
}

thread_local! {
    static RUNNER: RefCell<Option<Runner>> = const { RefCell::new(None) };
}

impl Runner {
    fn start() -> io::Result<Runner> {
        let (jobs, mine) = sync_channel::<Job>(1);
        let (answers, results) = sync_channel(1);
        let left = Arc::new(AtomicUsize::new(0));
        let is_left = Arc::clone(&left);
        let run = move || {
            // Ends when the other thread does, or has left this one alone.
            for job in mine {
                let is_unheard = answers.send(job()).is_err();
                if is_unheard {
                    break;
                }
            }
            LEFT.fetch_sub(is_left.load(Ordering::Acquire), Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("nearfield-read".to_owned());
        thread.spawn(run)?;
        Ok(Runner {
            jobs,
            results,
            left,
        })
    }
}

fn late() -> ReadError {
    ReadError::Disk(io::Error::new(
        io::ErrorKind::TimedOut,
        "the disk does not answer",
    ))
}

/// Runs a job by another thread, and waits for its result, but no longer than `limit`.
fn run(job: Job, limit: Duration) -> Result<Vec<u8>, ReadError> {
    RUNNER.with_borrow_mut(|kept| {
        if LEFT.load(Ordering::Relaxed) >= LEFT_MAX {
            return Err(late());
        }
        let runner = match kept.take() {
            Some(runner) => runner,
            None => Runner::start()?,
        };
        if runner.jobs.send(job).is_err() {
            return Err(late());
        }
        match runner.results.recv_timeout(limit) {
            Ok(result) => {
                *kept = Some(runner);
                result
            }
            Err(_) => {
                // Counted first, so that the thread, once it sees that it is alone, takes it back.
                LEFT.fetch_add(1, Ordering::Relaxed);
                runner.left.store(1, Ordering::Release);
                Err(late())
            }
        }
    })
}

impl Pending {
    /// As [`run`](Pending::run), but waits no longer than `limit` for the disk.
    ///
    /// # Errors
    /// Those of `run`, or the disk does not answer in time.
    pub fn run_within(&self, limit: Duration, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let pending = self.clone();
        let job = move || {
            let mut value = Vec::new();
            pending.run(&mut value)?;
            Ok(value)
        };
        let value = run(Box::new(job), limit)?;
        out.extend_from_slice(&value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn a_read_that_is_stuck_is_answered_in_time_and_the_next_goes_on() {
        let (release, stuck) = sync_channel::<()>(0);
        let began = Instant::now();
        let job = move || {
            let _ = stuck.recv();
            Ok(vec![1])
        };
        let error = run(Box::new(job), SOON).unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2));
        assert_eq!(LEFT.load(Ordering::Relaxed), 1);
        for number in 0..10 {
            let read = run(Box::new(move || Ok(vec![number])), Duration::from_secs(10));
            assert_eq!(read.unwrap(), [number]);
        }
        // The thread ends once its disk has answered.
        drop(release);
        let deadline = Instant::now() + Duration::from_secs(10);
        while LEFT.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
