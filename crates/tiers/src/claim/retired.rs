//! Targets of records that readers may still use after they were given up.

use crate::primitive::{AtomicUsize, Mutex, Ordering};

/// Items to which the index no longer refers, but which readers that found them there may still
/// use. An item is freed when no reader can use it: once an exclusive phase has begun after it was
/// added.
#[derive(Debug)]
pub struct RetiredList<T> {
    list: Mutex<Vec<T>>,
    count: AtomicUsize,
}

impl<T> Default for RetiredList<T> {
    fn default() -> Self {
        RetiredList {
            list: Mutex::default(),
            count: AtomicUsize::default(),
        }
    }
}

impl<T> RetiredList<T> {
    /// Adds an item that was given up.
    pub fn add(&self, given_up: T) {
        self.list.lock().push(given_up);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of items that wait to be freed.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes all items, to be freed. Call it in an exclusive phase.
    pub fn take(&self) -> Vec<T> {
        let taken = std::mem::take(&mut *self.list.lock());
        self.count.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }
}
