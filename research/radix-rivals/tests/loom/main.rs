//! The local locks of SMART: requests that threads leave at a lock are executed once, by one thread
//! at a time, and before those threads continue.
//!
//! ```console
//! $ RUSTFLAGS="--cfg loom" cargo test -p nearfield-radix-rivals --release --test loom
//! ```
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use nearfield_radix_rivals::smart::lock::{DelegationLock, DelegationLockRequest};
use std::cell::Cell;

/// Runs a scenario in all interleavings with up to three preemptions, or up to
/// `LOOM_MAX_PREEMPTIONS`.
fn check(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(scenario);
}

/// The data that the lock guards. loom detects concurrent accesses.
#[derive(Default)]
struct LockedSum {
    lock: DelegationLock<SumAddition>,
    sum: UnsafeCell<u32>,
}

// SAFETY: only the holder of the lock accesses the sum, which loom checks.
unsafe impl Sync for LockedSum {}
// SAFETY: as above.
unsafe impl Send for LockedSum {}

struct SumAddition {
    adds: u32,
    /// The sum before this addition.
    before: Cell<u32>,
}

/// The time at which a request is finished.
#[derive(Clone, Copy)]
enum Finish {
    AfterAll,
    BeforeAll,
}

impl LockedSum {
    fn add(&self, adds: u32) -> u32 {
        // SAFETY: the caller holds the lock.
        self.sum.with_mut(|sum| unsafe {
            *sum += adds;
            *sum - adds
        })
    }

    /// Adds a number, in any thread; returns the previous sum.
    fn operate(&self, adds: u32, finish: Finish) -> u32 {
        let before = Cell::new(0);
        let request = DelegationLockRequest::new(SumAddition { adds, before });
        if !self.lock.try_take() && self.lock.wait(&request) {
            return request.wanted.before.get();
        }
        let before = self.add(adds);
        self.lock.serve(|requests| {
            for request in requests {
                match finish {
                    Finish::AfterAll => {
                        request.wanted.before.set(self.add(request.wanted.adds));
                        request.finish();
                    }
                    Finish::BeforeAll => {
                        let adds = request.wanted.adds;
                        request.finish();
                        self.add(adds);
                    }
                }
            }
        });
        before
    }
}

/// Tests two threads that add numbers; each operation is executed once, and sees those before it.
fn both_add(finish: Finish) {
    let guarded = Arc::new(LockedSum::default());
    let other = {
        let guarded = Arc::clone(&guarded);
        thread::spawn(move || [guarded.operate(1, finish), guarded.operate(2, finish)])
    };
    let own = [guarded.operate(16, finish), guarded.operate(32, finish)];
    let other = other.join().unwrap();
    assert_eq!(own[0] & 48, 0);
    assert_eq!(own[1] & 48, 16);
    assert_eq!(other[0] & 3, 0);
    assert_eq!(other[1] & 3, 1);
    // The lock is free, so only this thread adds now.
    assert!(guarded.lock.try_take());
    assert_eq!(guarded.add(0), 51);
}

#[test]
fn operations_are_executed_once_by_one_thread_at_a_time() {
    check(|| both_add(Finish::AfterAll));
}

#[test]
#[should_panic]
fn canary_requests_that_are_finished_too_early_are_caught() {
    check(|| both_add(Finish::BeforeAll));
}
