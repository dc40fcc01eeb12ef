//! A lock at which threads leave requests for the thread that holds it.
//!
//! The lock is a word: free, taken, or the last of the requests that were left, each of which links
//! to the one before. A thread that finds the lock free takes it. A thread that finds it taken
//! leaves a request and waits until it is done. The holder executes all requests before it frees
//! the lock.
//!
//! A request is on the stack of the waiting thread, so nothing is allocated.

use crate::primitive::{AtomicBool, AtomicPtr, Ordering};
use nearfield_radix::lock::pause;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut, without_provenance_mut};

/// The lock; see the [module](self).
#[derive(Debug)]
pub struct DelegationLock<R>(AtomicPtr<DelegationLockRequest<R>>);

/// A request for another thread to execute an operation.
#[derive(Debug)]
pub struct DelegationLockRequest<R> {
    /// The operation.
    pub wanted: R,
    before: Cell<*mut DelegationLockRequest<R>>,
    done: AtomicBool,
}

impl<R> DelegationLockRequest<R> {
    /// Creates a request that has not been left yet.
    pub fn new(wanted: R) -> Self {
        DelegationLockRequest {
            wanted,
            before: Cell::new(null_mut()),
            done: AtomicBool::new(false),
        }
    }

    /// Marks the request as done. The waiting thread then continues, so no thread may use the
    /// request any more.
    pub fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }
}

/// Returns the word of a lock that is taken, without requests. No request has this address.
fn taken<R>() -> *mut DelegationLockRequest<R> {
    without_provenance_mut(1)
}

impl<R> Default for DelegationLock<R> {
    fn default() -> Self {
        DelegationLock(AtomicPtr::new(null_mut()))
    }
}

impl<R> DelegationLock<R> {
    /// Takes the lock if it is free.
    #[inline]
    pub fn try_take(&self) -> bool {
        let free = null_mut();
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.0
            .compare_exchange(free, taken(), success, failure)
            .is_ok()
    }

    /// Leaves a request and waits until it is done. Returns false if the lock was free by now, and
    /// was taken instead.
    #[cold]
    pub fn wait(&self, request: &DelegationLockRequest<R>) -> bool {
        if !self.leave(request) {
            return false;
        }
        let mut waits = 0;
        while !request.done.load(Ordering::Acquire) {
            pause(&mut waits);
        }
        true
    }

    /// Leaves a request, or takes the lock if it is free. Returns true if the request was left.
    fn leave(&self, request: &DelegationLockRequest<R>) -> bool {
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

    /// Makes `execute` process the requests that other threads have left at a lock that the caller
    /// holds, the oldest first, and frees the lock. `execute`
    /// [finishes](DelegationLockRequest::finish) each request once, and uses none that it has
    /// finished.
    #[inline]
    pub fn serve(&self, mut execute: impl FnMut(Vec<&DelegationLockRequest<R>>)) {
        while let Some(last) = self.free() {
            execute(requests(last));
        }
    }

    /// Frees the lock if there is no request; otherwise returns the last one.
    #[inline]
    fn free(&self) -> Option<NonNull<DelegationLockRequest<R>>> {
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        // The lock is freed only without a request: a thread that leaves one relies on its holder.
        let freed = self
            .0
            .compare_exchange(taken(), null_mut(), success, failure);
        if freed.is_ok() {
            return None;
        }
        NonNull::new(self.0.swap(taken(), Ordering::Acquire))
    }
}

/// Returns all requests up to the last one, the oldest first.
#[cold]
fn requests<'r, R>(last: NonNull<DelegationLockRequest<R>>) -> Vec<&'r DelegationLockRequest<R>> {
    let mut requests = Vec::new();
    let mut next = last.as_ptr();
    while next != taken() {
        // SAFETY: the thread that has left a request waits until it is finished, which the caller
        // does after its last use.
        let request: &DelegationLockRequest<R> = unsafe { &*next };
        requests.push(request);
        next = request.before.get();
    }
    // Each request links to the one before it.
    requests.reverse();
    requests
}
