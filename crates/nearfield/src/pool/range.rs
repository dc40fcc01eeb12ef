//! Iteration over a range of a map in the pool, from both ends.

use super::PoolMap;
use crate::MapForm;
use nearfield_core::{Direction, Error};
use nearfield_radix::Entry;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;
use std::ops::Bound;

/// Entries of the first chunk, and of those that come after some.
const CHUNK_MIN: u32 = 16;
const CHUNK_MAX: u32 = 4096;

/// The entries of a [`PoolMap`] within a range, from both ends; see [`PoolMap::range`].
///
/// Entries are read ahead in chunks of 16 up to 4096 from either end, as by [`Range`](crate::Range),
/// and what that promises of other writers holds here. After an error there is nothing more.
pub struct PoolRange<'m, F: MapForm> {
    map: &'m PoolMap<F>,
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

impl<'m, F: MapForm> PoolRange<'m, F> {
    pub(super) fn new(
        map: &'m PoolMap<F>,
        low: Bound<F::OwnedKey>,
        high: Bound<F::OwnedKey>,
    ) -> Self {
        PoolRange {
            map,
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
        let (low, high) = (self.low.as_ref(), self.high.as_ref());
        let found = match self.map.scan(low, high, self.chunk, direction) {
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
}

impl<F: MapForm> Iterator for PoolRange<'_, F> {
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

impl<F: MapForm> DoubleEndedIterator for PoolRange<'_, F> {
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

impl<F: MapForm> FusedIterator for PoolRange<'_, F> {}

impl<F: MapForm> Debug for PoolRange<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolRange")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
