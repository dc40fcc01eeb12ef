//! A cache that evicts by second chance, as a kernel evicts pages.

use std::collections::HashMap;

/// The cached pages, by number.
#[derive(Debug)]
pub(super) struct ClockPageCache {
    capacity: usize,
    slots: Vec<(u64, bool)>,
    places: HashMap<u64, usize>,
    hand: usize,
}

impl ClockPageCache {
    pub(super) fn new(capacity: usize) -> ClockPageCache {
        ClockPageCache {
            capacity,
            slots: Vec::new(),
            places: HashMap::new(),
            hand: 0,
        }
    }

    /// Uses a page. Returns true if it was cached; otherwise inserts it.
    pub(super) fn touch(&mut self, page: u64) -> bool {
        if self.capacity == 0 {
            return false;
        }
        if let Some(&slot) = self.places.get(&page) {
            self.slots[slot].1 = true;
            return true;
        }
        debug_assert_eq!(self.places.len(), self.slots.len());
        debug_assert!(self.slots.len() <= self.capacity);
        if self.slots.len() < self.capacity {
            self.places.insert(page, self.slots.len());
            self.slots.push((page, false));
            return false;
        }
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.capacity;
            // One pass over all slots takes every second chance, so the loop ends.
            let (old, used) = &mut self.slots[slot];
            if std::mem::take(used) {
                continue;
            }
            self.places.remove(old);
            self.places.insert(page, slot);
            self.slots[slot] = (page, false);
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_pages_stay_and_others_leave() {
        let mut clock = ClockPageCache::new(3);
        for page in [1, 2, 3] {
            assert!(!clock.touch(page));
        }
        assert!(clock.touch(1));
        // 1 has a second chance, 2 is evicted.
        assert!(!clock.touch(4));
        assert!(clock.touch(1) && clock.touch(3) && clock.touch(4));
        assert!(!clock.touch(2));
        assert_eq!(clock.places.len(), 3);
        assert!(!ClockPageCache::new(0).touch(1));
    }
}
