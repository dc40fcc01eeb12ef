//! A lock at which threads leave requests for the thread that holds it.
//!
//! The lock is a word: free, taken, or the last of the requests that were left, each of which leads
//! to the one before. Whoever finds it free takes it. Whoever finds it taken leaves a request and
//! waits until it is done. Who frees the lock executes what was left before.
//!
//! A request lies on the stack of the thread that waits, so that nothing is allocated.

use crate::lock::pause;
use crate::primitive::{AtomicBool, AtomicPtr, Ordering};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut, without_provenance_mut};

/// See the [module](self).
#[derive(Debug)]
pub struct Lock<R>(AtomicPtr<Request<R>>);

/// What another thread is to execute.
#[derive(Debug)]
pub struct Request<R> {
    /// What that is.
    pub wanted: R,
    before: Cell<*mut Request<R>>,
    done: AtomicBool,
}

impl<R> Request<R> {
    /// A request that was not left yet.
    pub fn new(wanted: R) -> Self {
        Request {
            wanted,
            before: Cell::new(null_mut()),
            done: AtomicBool::new(false),
        }
    }

    /// Says that it is done. The thread that waits goes on, and so nobody may use it any more.
    pub fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }
}

/// The word of a lock that is taken, without requests. No request has this address.
fn taken<R>() -> *mut Request<R> {
    without_provenance_mut(1)
}

impl<R> Default for Lock<R> {
    fn default() -> Self {
        Lock(AtomicPtr::new(null_mut()))
    }
}

impl<R> Lock<R> {
    /// Takes the lock if it is free.
    #[inline]
    pub fn try_take(&self) -> bool {
        let free = null_mut();
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.0
            .compare_exchange(free, taken(), success, failure)
            .is_ok()
    }

    /// Leaves a request and waits until it is done; false if the lock was free by now, and was
    /// taken instead.
    #[cold]
    pub fn wait(&self, request: &Request<R>) -> bool {
        if !self.leave(request) {
            return false;
        }
        let mut waits = 0;
        while !request.done.load(Ordering::Acquire) {
            pause(&mut waits);
        }
        true
    }

    /// Leaves a request, or takes the lock if it is free; true if it was left.
    fn leave(&self, request: &Request<R>) -> bool {
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            let next = match last.is_null() {
                true => taken(),
                false => {
                    request.before.set(last);
                    std::ptr::from_ref(request).cast_mut()
                }
            };
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.0.compare_exchange_weak(last, next, success, failure) {
                Ok(_) => return !last.is_null(),
                Err(now) => last = now,
            }
        }
    }

    /// Has `execute` do what other threads have left at a lock that the caller holds, the oldest
    /// first, and frees the lock. `execute` [finishes](Request::finish) each request once, and uses
    /// none that it has finished.
    #[inline]
    pub fn serve(&self, mut execute: impl FnMut(Vec<&Request<R>>)) {
        while let Some(last) = self.free() {
            execute(requests(last));
        }
    }

    /// Frees the lock if there is no request; else answers the last one.
    #[inline]
    fn free(&self) -> Option<NonNull<Request<R>>> {
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let freed = self
            .0
            .compare_exchange(taken(), null_mut(), success, failure);
        if freed.is_ok() {
            return None;
        }
        NonNull::new(self.0.swap(taken(), Ordering::Acquire))
    }
}

/// All requests up to the last one, the oldest first.
#[cold]
fn requests<'r, R>(last: NonNull<Request<R>>) -> Vec<&'r Request<R>> {
    let mut requests = Vec::new();
    let mut next = last.as_ptr();
    while next != taken() {
        // SAFETY: whoever has left a request waits until it is finished, which the caller does
        // after its last use.
        let request: &Request<R> = unsafe { &*next };
        requests.push(request);
        next = request.before.get();
    }
    requests.reverse();
    requests
}
