//! Iteration over a range of a map whose reads can fail, from both ends.

use crate::MapForm;
use nearfield_core::{Batch, Direction, Error, OrderedIndex, Outcome};
use nearfield_radix::Entry;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;
use std::ops::Bound;

/// Entries of the first chunk, and of those that come after some.
const CHUNK_MIN: u32 = 16;
const CHUNK_MAX: u32 = 4096;

/// The entries within a range of a map whose reads can fail, from both ends; see
/// [`PoolMap::range`](crate::PoolMap::range) and [`PimMap::range`](crate::PimMap::range).
///
/// Entries are read ahead in chunks of 16 up to 4096 from either end, as by [`Range`](crate::Range),
/// and what that promises of other writers holds here. After an error there is nothing more.
pub struct FallibleRange<'m, F: MapForm> {
    index: &'m dyn OrderedIndex<F>,
    /// What was not read yet lies between these.
    low: Bound<F::OwnedKey>,
    high: Bound<F::OwnedKey>,
    /// Ascending.
    front: VecDeque<Entry<F>>,
    /// Descending.
    back: VecDeque<Entry<F>>,
    chunk: u32,
    /// Nothing is left between the bounds.
    exhausted: bool,
}

/// Cuts a bound that is longer than any key, and says whether it was.
fn cut<F: MapForm>(bound: Bound<F::OwnedKey>) -> (Bound<F::OwnedKey>, bool) {
    let mut is_longer = false;
    let bound = bound.map(|mut key| {
        is_longer = F::cut(&mut key);
        key
    });
    (bound, is_longer)
}

impl<'m, F: MapForm> FallibleRange<'m, F> {
    pub(crate) fn new(
        index: &'m dyn OrderedIndex<F>,
        low: Bound<F::OwnedKey>,
        high: Bound<F::OwnedKey>,
    ) -> Self {
        // Batches refuse bounds that are longer than a key can be.
        let (low, low_is_cut) = cut::<F>(low);
        let (high, high_is_cut) = cut::<F>(high);
        let low = match low {
            Bound::Included(key) if low_is_cut => Bound::Excluded(key),
            low => low,
        };
        let high = match high {
            Bound::Excluded(key) if high_is_cut => Bound::Included(key),
            high => high,
        };
        FallibleRange {
            index,
            low,
            high,
            front: VecDeque::new(),
            back: VecDeque::new(),
            chunk: CHUNK_MIN,
            exhausted: false,
        }
    }

    /// Reads the next chunk from one end, unless all is read.
    fn read(&mut self, direction: Direction) -> Result<(), Error> {
        if self.exhausted {
            return Ok(());
        }
        let found = match self.read_from(direction) {
            Ok(found) => found,
            Err(error) => {
                self.exhausted = true;
                self.front.clear();
                self.back.clear();
                return Err(error);
            }
        };
        self.exhausted = found.len() < self.chunk as usize;
        self.chunk = (2 * self.chunk).min(CHUNK_MAX);
        let (from, chunk) = match direction {
            Direction::Ascending => (&mut self.low, &mut self.front),
            Direction::Descending => (&mut self.high, &mut self.back),
        };
        chunk.extend(found);
        if let Some((last, _)) = chunk.back() {
            *from = Bound::Excluded(last.clone());
        }
        Ok(())
    }

    /// The entries of the next chunk, from one end.
    fn read_from(&self, direction: Direction) -> Result<Vec<Entry<F>>, Error> {
        let mut batch = Batch::new();
        let (low, high) = (self.low.as_ref(), self.high.as_ref());
        batch.scan(low.map(F::key), high.map(F::key), self.chunk, direction);
        self.index.execute(&mut batch)?;
        if let Outcome::Failed(error) = batch.outcome(0) {
            return Err(error);
        }
        let entries = batch.entries(0);
        Ok(entries
            .map(|(key, value)| (F::own_key(key), F::own_value(value)))
            .collect())
    }
}

impl<F: MapForm> Iterator for FallibleRange<'_, F> {
    type Item = Result<Entry<F>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_empty()
            && let Err(error) = self.read(Direction::Ascending)
        {
            return Some(Err(error));
        }
        self.front
            .pop_front()
            .or_else(|| self.back.pop_back())
            .map(Ok)
    }
}

impl<F: MapForm> DoubleEndedIterator for FallibleRange<'_, F> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty()
            && let Err(error) = self.read(Direction::Descending)
        {
            return Some(Err(error));
        }
        self.back
            .pop_front()
            .or_else(|| self.front.pop_back())
            .map(Ok)
    }
}

impl<F: MapForm> FusedIterator for FallibleRange<'_, F> {}

impl<F: MapForm> Debug for FallibleRange<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallibleRange")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
