//! A run of slots of a leaf, which may wrap around its end.

/// Consecutive slots of a leaf; slot 0 follows the last slot.
///
/// ```
/// use nearfield_pool::layout::LeafSlotRange;
/// let slots = LeafSlotRange::new(6, 4, 8);
/// assert_eq!(slots.iter().collect::<Vec<_>>(), [6, 7, 0, 1]);
/// assert_eq!(slots.distance(0), 2);
/// assert!(slots.contains(1) && !slots.contains(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSlotRange {
    first: usize,
    count: usize,
    span: usize,
}

impl LeafSlotRange {
    /// Creates the run of `count` slots from `first` on, of a leaf of `span` slots.
    ///
    /// # Panics
    /// If the leaf has no slot `first`, or less than `count` slots.
    pub fn new(first: usize, count: usize, span: usize) -> LeafSlotRange {
        assert!(first < span && count <= span, "slots are those of a leaf");
        LeafSlotRange { first, count, span }
    }

    /// Returns the shortest run of slots of this one with all of `slots`, of which there must be
    /// one.
    pub(crate) fn around(&self, slots: &[usize]) -> LeafSlotRange {
        debug_assert!(!slots.is_empty());
        let mut distances: Vec<usize> = slots.iter().map(|&slot| self.distance(slot)).collect();
        distances.sort_unstable();
        let (first, last) = (distances[0], distances[distances.len() - 1]);
        assert!(last < self.count, "the slots are those of the run");
        // The run goes from the first to the last. If this is the whole leaf, it may be shorter
        // around the end, where it leaves out a wider gap between two slots.
        let straight = (self.span - (last - first), first);
        let gaps = distances
            .windows(2)
            .map(|pair| (pair[1] - pair[0], pair[1]));
        let around_end = gaps.filter(|_| self.count == self.span);
        let widest = around_end.fold(straight, |widest, gap| widest.max(gap));
        let (gap, first) = widest;
        LeafSlotRange::new(self.at(first), self.span - gap + 1, self.span)
    }

    /// Returns the first slot.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the distance of a slot from the first one, wrapping around the end.
    pub fn distance(&self, slot: usize) -> usize {
        (slot + self.span - self.first) % self.span
    }

    /// Returns the slot at this distance from the first one.
    pub fn at(&self, distance: usize) -> usize {
        (self.first + distance) % self.span
    }

    /// Returns true for the slots of the run.
    pub fn contains(&self, slot: usize) -> bool {
        // Distances wrap, and a number that was read from memory may be of no slot.
        slot < self.span && self.distance(slot) < self.count
    }

    /// Returns the slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let LeafSlotRange { first, count, span } = *self;
        (0..count).map(move |distance| (first + distance) % span)
    }

    /// Returns the part in front of the leaf's end and the part that wraps, as ranges of slots.
    pub fn ranges(&self) -> (std::ops::Range<usize>, Option<std::ops::Range<usize>>) {
        let end = self.first + self.count;
        if end <= self.span {
            (self.first..end, None)
        } else {
            (self.first..self.span, Some(0..end - self.span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_run_wraps_where_it_may_and_that_is_shorter() {
        for first in 0..8 {
            let whole = LeafSlotRange::new(first, 8, 8);
            assert_eq!(whole.around(&[3]), LeafSlotRange::new(3, 1, 8));
            assert_eq!(whole.around(&[2, 5, 2]), LeafSlotRange::new(2, 4, 8));
            assert_eq!(whole.around(&[1, 6]), LeafSlotRange::new(6, 4, 8));
            assert_eq!(whole.around(&[0, 1, 2, 3, 4, 5, 6, 7]).count(), 8);
        }
        // The run does not wrap through slots outside of it.
        assert_eq!(
            LeafSlotRange::new(0, 7, 8).around(&[6, 0]),
            LeafSlotRange::new(0, 7, 8)
        );
        assert_eq!(
            LeafSlotRange::new(5, 6, 8).around(&[2, 6]),
            LeafSlotRange::new(6, 5, 8)
        );
        let wrapping = LeafSlotRange::new(6, 4, 8);
        assert!(wrapping.contains(1) && !wrapping.contains(9) && !wrapping.contains(14));
        assert_eq!(LeafSlotRange::new(6, 4, 8).ranges(), (6..8, Some(0..2)));
        assert_eq!(LeafSlotRange::new(4, 4, 8).ranges(), (4..8, None));
    }
}
