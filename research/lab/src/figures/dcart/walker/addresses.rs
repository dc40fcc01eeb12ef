//! Addresses of nodes in the memory of the card.
//!
//! The trees that are walked are in the memory of this process, at addresses that differ from run
//! to run. A node gets a place in the card's memory when it is first seen, in a size that the card
//! would allocate, so that a run has the same addresses anywhere.

use nearfield_hardware::accelerator::MemorySpan;
use rustc_hash::FxHashMap;

/// The granularity of places, in bytes: sizes are rounded up to a multiple of this.
const GRAIN: u64 = 16;
const LINE: u64 = 64;

/// The places of nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct CardNodePlaces {
    places: FxHashMap<usize, MemorySpan>,
    /// Free places, by size.
    unused: FxHashMap<u32, Vec<u64>>,
    end: u64,
}

impl CardNodePlaces {
    /// Returns the place of the node that begins at this address and has at most this number of
    /// bytes; allocates one if necessary.
    pub(super) fn of(&mut self, address: usize, bytes: u32) -> MemorySpan {
        if let Some(place) = self.places.get(&address)
            && place.bytes >= bytes
        {
            return *place;
        }
        // The known node at this address was smaller, so this is another node.
        self.free(address);
        let bytes = u64::from(bytes.max(1)).next_multiple_of(GRAIN) as u32;
        let unused = self.unused.get_mut(&bytes).and_then(Vec::pop);
        let card_address = unused.unwrap_or_else(|| {
            let size = u64::from(bytes);
            // A place that fits into a line does not cross a line, and a larger one begins at a
            // line.
            let begins = match self.end % LINE + size <= LINE {
                true => self.end,
                false => self.end.next_multiple_of(LINE),
            };
            self.end = begins + size;
            begins
        });
        let in_line = card_address % LINE + u64::from(bytes) <= LINE;
        debug_assert!(in_line || card_address.is_multiple_of(LINE));
        let place = MemorySpan {
            address: card_address,
            bytes,
        };
        self.places.insert(address, place);
        place
    }

    /// Returns the place of the node that begins at this address, if it has one.
    pub(super) fn get(&self, address: usize) -> Option<MemorySpan> {
        self.places.get(&address).copied()
    }

    /// Frees the place of a node, and returns it.
    pub(super) fn free(&mut self, address: usize) -> Option<MemorySpan> {
        let place = self.places.remove(&address)?;
        self.unused
            .entry(place.bytes)
            .or_default()
            .push(place.address);
        Some(place)
    }

    /// Records that a node has moved from one address to another in this process. It keeps its
    /// place.
    pub(super) fn rename(&mut self, from: usize, to: usize) {
        if from != to
            && let Some(place) = self.places.remove(&from)
        {
            self.free(to);
            self.places.insert(to, place);
        }
    }

    /// Returns the bytes of all places.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_place_and_another_may_take_it() {
        let mut addresses = CardNodePlaces::default();
        let first = addresses.of(1000, 40);
        assert_eq!((first.address, first.bytes), (0, 48));
        assert_eq!(addresses.of(1000, 40), first);
        let second = addresses.of(2000, 40);
        assert_eq!(second.address, 64, "48 bytes more do not fit the line");
        assert_eq!(addresses.of(3000, 16).address, 112);
        assert_eq!(addresses.free(1000), Some(first));
        assert_eq!(addresses.of(4000, 48).address, 0);
        assert_eq!(addresses.bytes(), 128);
    }

    #[test]
    fn a_larger_node_at_an_address_is_another_one() {
        let mut addresses = CardNodePlaces::default();
        let small = addresses.of(1000, 64);
        let large = addresses.of(1000, 200);
        assert_ne!(small.address, large.address);
        assert_eq!(addresses.of(2000, 64), small);
    }
}
