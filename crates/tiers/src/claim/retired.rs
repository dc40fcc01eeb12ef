//! What was given up while readers may be at it.

use crate::primitive::{AtomicUsize, Mutex, Ordering};

/// What the index refers to no more, but readers who have met it there may still be at. It is freed
/// when none is: once an exclusive phase has begun after it was given up.
#[derive(Debug)]
pub struct Retired<T> {
    list: Mutex<Vec<T>>,
    count: AtomicUsize,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Retired {
            list: Mutex::default(),
            count: AtomicUsize::default(),
        }
    }
}

impl<T> Retired<T> {
    /// Gives something up.
    pub fn add(&self, given_up: T) {
        self.list.lock().push(given_up);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// How much waits to be freed.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes all that was given up, to be freed. To be called in an exclusive phase.
    pub fn take(&self) -> Vec<T> {
        let taken = std::mem::take(&mut *self.list.lock());
        self.count.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }
}
