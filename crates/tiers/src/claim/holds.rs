//! Places that are read outside of a phase.

use crate::primitive::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;
use std::hash::Hash;

/// Places that are not released while anybody holds them, so that they do not become other values'.
/// What was read from a place, an `F`, may be laid beside it for all that come while it is held.
#[derive(Debug)]
pub struct Holds<P, F> {
    places: Mutex<HashMap<P, Hold<F>>>,
    /// How many there are, so that nobody takes the lock while there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Hold<F> {
    holders: usize,
    /// It was given up meanwhile.
    released: bool,
    fetched: Option<F>,
}

impl<F> Default for Hold<F> {
    fn default() -> Self {
        Hold {
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
    /// Holds a place. To be called in the phase in which it was read from the index.
    pub fn hold(&self, place: P) {
        let mut places = self.places.lock();
        places.entry(place).or_default().holders += 1;
        self.count.store(places.len(), Ordering::Release);
    }

    /// Ends a [hold](Holds::hold). True if the place was given up meanwhile and this was the last
    /// who held it: it is to be released now.
    #[must_use]
    pub fn let_go(&self, place: P) -> bool {
        let mut places = self.places.lock();
        let Some(hold) = places.get_mut(&place) else {
            return false;
        };
        hold.holders -= 1;
        if hold.holders > 0 {
            return false;
        }
        let released = hold.released;
        places.remove(&place);
        self.count.store(places.len(), Ordering::Release);
        released
    }

    /// Gives up a place to which the index refers no more. True if it is to be released now, false
    /// if the last who holds it does so.
    #[must_use]
    pub fn give_up(&self, place: P) -> bool {
        if self.count.load(Ordering::Acquire) > 0
            && let Some(hold) = self.places.lock().get_mut(&place)
        {
            hold.released = true;
            return false;
        }
        true
    }

    /// What was laid beside a place.
    pub fn fetched(&self, place: P) -> Option<F> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.places.lock().get(&place)?.fetched.clone()
    }

    /// Lays something beside a place, if it is held and nothing lies there yet.
    pub fn lay(&self, place: P, fetched: impl FnOnce() -> F) {
        if let Some(hold) = self.places.lock().get_mut(&place) {
            hold.fetched.get_or_insert_with(fetched);
        }
    }

    /// True if nobody holds a place.
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }
}
