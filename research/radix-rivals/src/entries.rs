//! The number of entries of a tree, counted in several places so that writers do not contend for
//! one.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

const PLACES: usize = 16;

/// The count; see the [module](self).
#[derive(Debug, Default)]
pub struct EntryCount([CachePadded<AtomicI64>; PLACES]);

impl EntryCount {
    /// Counts entries that were added or, if negative, removed.
    #[inline]
    pub fn add(&self, change: i64) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        let place = PLACE.with(|place| {
            if place.get() == usize::MAX {
                place.set(THREADS.fetch_add(1, Ordering::Relaxed) % PLACES);
            }
            place.get()
        });
        self.0[place].fetch_add(change, Ordering::Relaxed);
    }

    /// Returns the number of entries; exact while no thread writes.
    pub fn sum(&self) -> usize {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        counts.sum::<i64>().max(0) as usize
    }
}
