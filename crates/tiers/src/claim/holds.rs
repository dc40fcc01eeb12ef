//! Places that are read outside of a phase.

use crate::primitive::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;
use std::hash::Hash;

/// Places that are not released while a thread holds them, so that they are not reused for other
/// values. A `F` that was read from a place may be attached to it for other threads to use while
/// the place is held.
#[derive(Debug)]
pub struct Holds<P, F> {
    places: Mutex<HashMap<P, PlaceHold<F>>>,
    /// Number of held places, so that no thread takes the lock while there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
struct PlaceHold<F> {
    holders: usize,
    /// Set if the place was given up meanwhile.
    released: bool,
    fetched: Option<F>,
}

impl<F> Default for PlaceHold<F> {
    fn default() -> Self {
        PlaceHold {
            holders: 0,
            released: false,
            fetched: None,
        }
    }
}

impl<P, F> Default for Holds<P, F> {
    fn default() -> Self {
        Holds {
            places: Mutex::default(),
            count: AtomicUsize::default(),
        }
    }
}

impl<P: Copy + Eq + Hash, F: Clone> Holds<P, F> {
    /// Holds a place. Call it in the phase in which the place was read from the index.
    pub fn hold(&self, place: P) {
        let mut places = self.places.lock();
        places.entry(place).or_default().holders += 1;
        // Stored under the lock, so that of two changes the later one stays.
        self.count.store(places.len(), Ordering::Release);
    }

    /// Ends a [hold](Holds::hold). Returns true if the place was given up meanwhile and this was
    /// its last holder: the caller must release it now.
    #[must_use]
    pub fn release_hold(&self, place: P) -> bool {
        let mut places = self.places.lock();
        let Some(hold) = places.get_mut(&place) else {
            return false;
        };
        debug_assert!(hold.holders > 0, "a place without holders is not listed");
        hold.holders -= 1;
        if hold.holders > 0 {
            return false;
        }
        let released = hold.released;
        places.remove(&place);
        self.count.store(places.len(), Ordering::Release);
        released
    }

    /// Gives up a place to which the index no longer refers. Returns true if the caller must
    /// release it now, false if its last holder does so.
    #[must_use]
    pub fn give_up(&self, place: P) -> bool {
        // A thread begins its hold in the phase in which it found the place, and a place is given
        // up after that phase. So a count of 0 misses no hold.
        if self.count.load(Ordering::Acquire) > 0
            && let Some(hold) = self.places.lock().get_mut(&place)
        {
            debug_assert!(!hold.released, "a place is given up once");
            hold.released = true;
            return false;
        }
        true
    }

    /// Returns what was attached to a place.
    pub fn fetched(&self, place: P) -> Option<F> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.places.lock().get(&place)?.fetched.clone()
    }

    /// Attaches something to a place, if it is held and has nothing attached yet.
    pub fn lay(&self, place: P, fetched: impl FnOnce() -> F) {
        if let Some(hold) = self.places.lock().get_mut(&place) {
            // The first result stays, because other threads may have returned it already.
            hold.fetched.get_or_insert_with(fetched);
        }
    }

    /// Returns true if no place is held.
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }
}
