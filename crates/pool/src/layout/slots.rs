//! A run of slots of a leaf, which may wrap around its end.

/// Some slots of a leaf, one behind the other; behind the last slot comes slot 0.
///
/// ```
/// use nearfield_pool::layout::Slots;
/// let slots = Slots::new(6, 4, 8);
/// assert_eq!(slots.iter().collect::<Vec<_>>(), [6, 7, 0, 1]);
/// assert_eq!(slots.distance(0), 2);
/// assert!(slots.contains(1) && !slots.contains(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    first: usize,
    count: usize,
    span: usize,
}

impl Slots {
    /// `count` slots from `first` on, of a leaf of `span` slots.
    ///
    /// # Panics
    /// The leaf has no slot `first`, or not as many as `count`.
    pub fn new(first: usize, count: usize, span: usize) -> Slots {
        assert!(first < span && count <= span, "slots are those of a leaf");
        Slots { first, count, span }
    }

    /// The shortest run with all of these slots, of which there has to be one.
    pub(crate) fn around(slots: &[usize], span: usize) -> Slots {
        let mut sorted = slots.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        // The run begins behind the widest gap.
        let gaps = (0..sorted.len()).map(|index| {
            let before = sorted[(index + sorted.len() - 1) % sorted.len()];
            let gap = (sorted[index] + span - before - 1) % span + 1;
            (gap, sorted[index])
        });
        let (gap, first) = gaps.max().expect("there is a slot");
        Slots::new(first, span - gap + 1, span)
    }

    /// The first slot.
    pub fn first(&self) -> usize {
        self.first
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How far behind the first slot a slot lies, around the end if need be.
    pub fn distance(&self, slot: usize) -> usize {
        (slot + self.span - self.first) % self.span
    }

    /// The slot that lies so far behind the first one.
    pub fn at(&self, distance: usize) -> usize {
        (self.first + distance) % self.span
    }

    /// True of the slots of the run.
    pub fn contains(&self, slot: usize) -> bool {
        self.distance(slot) < self.count
    }

    /// The slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let Slots { first, count, span } = *self;
        (0..count).map(move |distance| (first + distance) % span)
    }

    /// The part in front of the leaf's end and the part that wraps, as ranges of slots.
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
    fn the_shortest_run_wraps_where_that_is_shorter() {
        assert_eq!(Slots::around(&[3], 8), Slots::new(3, 1, 8));
        assert_eq!(Slots::around(&[2, 5, 2], 8), Slots::new(2, 4, 8));
        assert_eq!(Slots::around(&[1, 6], 8), Slots::new(6, 4, 8));
        assert_eq!(Slots::around(&[0, 1, 2, 3], 4).count(), 4);
        assert_eq!(Slots::new(6, 4, 8).ranges(), (6..8, Some(0..2)));
        assert_eq!(Slots::new(4, 4, 8).ranges(), (4..8, None));
    }
}
