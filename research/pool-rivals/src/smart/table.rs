//! The table of cached nodes: their places by their addresses.

/// Places by packed addresses: open addressing, with linear probing.
#[derive(Clone, Debug, Default)]
pub struct SmartCacheTable {
    places: Vec<u32>,
    used: usize,
}

/// The mark of an unused place.
pub const NO_PLACE: u32 = u32::MAX;

impl SmartCacheTable {
    /// Creates an empty table of this many places.
    pub fn of(places: usize) -> SmartCacheTable {
        SmartCacheTable {
            places: vec![NO_PLACE; places],
            used: 0,
        }
    }

    /// Returns the number of places.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of used places.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the bytes of this many places.
    pub fn bytes(&self, places: usize) -> usize {
        places * size_of::<u32>()
    }

    /// Returns the number of places needed for one more node: at most seven eighths are used.
    pub fn next_place_count(&self) -> usize {
        let places = self.places.len();
        if (self.used + 1) * 8 <= places * 7 {
            places
        } else {
            // A quarter more and not twice as many, because the table counts against the budget.
            places + (places / 4).max(16)
        }
    }

    fn home(&self, packed: u64) -> usize {
        let mut mixed = packed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        // The upper half of the product spreads over any number of places, not only powers of two.
        ((u128::from(mixed) * self.places.len() as u128) >> 64) as usize
    }

    fn after(&self, number: usize) -> usize {
        if number + 1 == self.places.len() {
            0
        } else {
            number + 1
        }
    }

    fn position(&self, packed: u64, address: impl Fn(u32) -> u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        debug_assert!(
            self.used < self.places.len(),
            "an unused place ends each probe"
        );
        let mut number = self.home(packed);
        loop {
            match self.places[number] {
                NO_PLACE => return None,
                place if address(place) == packed => return Some(number),
                _ => number = self.after(number),
            }
        }
    }

    /// Returns the place of an address, where `address` returns the address of a place.
    pub fn find(&self, packed: u64, address: impl Fn(u32) -> u64) -> Option<u32> {
        Some(self.places[self.position(packed, address)?])
    }

    /// Inserts an address. There must be room, and the address must be absent.
    pub fn insert(&mut self, packed: u64, place: u32) {
        debug_assert!(self.used < self.places.len() && place != NO_PLACE);
        let mut number = self.home(packed);
        while self.places[number] != NO_PLACE {
            number = self.after(number);
        }
        self.places[number] = place;
        self.used += 1;
    }

    /// Removes an address, and moves those behind it, so that no gap is left on their probe
    /// sequences.
    pub fn remove(&mut self, packed: u64, address: impl Fn(u32) -> u64) {
        let Some(mut gap) = self.position(packed, &address) else {
            return;
        };
        self.used -= 1;
        let mut number = gap;
        loop {
            number = self.after(number);
            let place = self.places[number];
            if place == NO_PLACE {
                break;
            }
            let length = self.places.len();
            let home = self.home(address(place));
            let behind_home = (number + length - home) % length;
            let behind_gap = (number + length - gap) % length;
            // An entry may fill the gap only if its probe sequence passes it.
            if behind_home >= behind_gap {
                self.places[gap] = place;
                gap = number;
            }
        }
        self.places[gap] = NO_PLACE;
    }
}
