//! State in 16 copies shared by all threads, so that the lock of each copy is hardly ever
//! contended.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const STRIPES: usize = 16;

/// The copies; see the [module](self). A panic while a lock is held can only come from a failed
/// allocation of a `Vec`, which leaves the state valid.
#[derive(Debug)]
pub struct StripedState<T>(Box<[CachePadded<Mutex<T>>]>);

impl<T> StripedState<T> {
    pub fn new(stripe: impl Fn() -> T) -> Self {
        let stripe = |_| CachePadded::new(Mutex::new(stripe()));
        StripedState((0..STRIPES).map(stripe).collect())
    }

    /// Returns the stripe of this thread.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        let stripe = STRIPE.with(|stripe| {
            if stripe.get() == usize::MAX {
                stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
            }
            stripe.get()
        });
        self.0[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all stripes, one after another.
    pub fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        let stripes = self.0.iter();
        stripes.map(|stripe| stripe.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the stripes whose lock is free; the caller may hold its own.
    pub fn others(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().filter_map(|stripe| stripe.try_lock().ok())
    }
}
