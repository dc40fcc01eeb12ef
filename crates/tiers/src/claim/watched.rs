//! Slots that are watched for changes.

use crate::primitive::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;
use std::hash::Hash;

/// Slots of objects that are being moved, unless they are changed first.
///
/// A writer changes an object while it holds the lock of its slot, and reports the change under
/// that lock ([`changed`](WatchedSlots::changed)). A mover [begins](WatchedSlots::watch) its watch
/// before it reads the object under the same lock. So the mover either reads the changed object, or
/// finds its watch broken.
#[derive(Debug)]
pub struct WatchedSlots<S> {
    watches: Mutex<SlotWatches<S>>,
    /// Number of watches, so that no thread takes the lock while there are none.
    count: AtomicUsize,
}

#[derive(Debug)]
struct SlotWatches<S> {
    slots: HashMap<S, Watch>,
    next: u64,
}

/// A watch on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch(u64);

impl<S> Default for SlotWatches<S> {
    fn default() -> Self {
        SlotWatches {
            slots: HashMap::new(),
            next: 0,
        }
    }
}

impl<S> Default for WatchedSlots<S> {
    fn default() -> Self {
        WatchedSlots {
            watches: Mutex::default(),
            count: AtomicUsize::default(),
        }
    }
}

impl<S: Copy + Eq + Hash> WatchedSlots<S> {
    /// Watches a slot. An earlier watch on it counts as broken.
    pub fn watch(&self, slot: S) -> Watch {
        let mut watches = self.watches.lock();
        // A number of its own, so that the end of an earlier watch does not end this one.
        let watch = Watch(watches.next);
        watches.next += 1;
        let earlier = watches.slots.insert(slot, watch);
        debug_assert!(earlier.is_none_or(|earlier| earlier.0 < watch.0));
        self.count.store(watches.slots.len(), Ordering::Release);
        watch
    }

    /// Breaks the watch on a slot, if there is one: its object was changed, given up or replaced.
    #[inline]
    pub fn changed(&self, slot: S) {
        // A watch that this load misses begins later, and its mover then reads the changed object.
        if self.count.load(Ordering::Acquire) > 0 {
            let mut watches = self.watches.lock();
            watches.slots.remove(&slot);
            self.count.store(watches.slots.len(), Ordering::Release);
        }
    }

    /// Returns true if the object of a slot is unchanged since the watch began.
    pub fn holds(&self, slot: S, watch: Watch) -> bool {
        self.watches.lock().slots.get(&slot) == Some(&watch)
    }

    /// Ends a watch.
    pub fn end(&self, slot: S, watch: Watch) {
        let mut watches = self.watches.lock();
        if watches.slots.get(&slot) == Some(&watch) {
            watches.slots.remove(&slot);
            self.count.store(watches.slots.len(), Ordering::Release);
        }
    }

    /// Returns true if no slot is watched.
    pub fn is_empty(&self) -> bool {
        self.watches.lock().slots.is_empty()
    }
}
