//! Iteration over a range, from both ends, while other threads write.
//!
//! Each end reads ahead by a chunk. The keys between the chunks have not been read:
//!
//! ```text
//!   given │ front chunk │        not read yet         │ back chunk │ given
//!                       └ low                    high ┘
//! ```
//!
//! `low` and `high` move past a chunk when it is read, so that no key is returned twice. When
//! nothing is left between them, each end continues with the other's chunk.

use super::OrderedMap;
use crate::form::MapForm;
use crate::placement::{Local, MapPlacement};
use nearfield_core::ScanDirection;
use nearfield_radix::Entry;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;
use std::ops::Bound;

/// The lower and the upper bound of a range.
#[cfg(feature = "pool")]
type Bounds<F> = (
    Bound<<F as nearfield_core::EntryForm>::OwnedKey>,
    Bound<<F as nearfield_core::EntryForm>::OwnedKey>,
);

/// Number of entries of the first chunk. It is small because the caller may want only one.
const CHUNK_MIN: usize = 16;

/// The entries of an [`OrderedMap`] within a range, from both ends; see [`OrderedMap::range`].
///
/// Items are entries, or `Result`s where reads can fail: [`MapPlacement::Read`]. They own their
/// keys and values, so byte strings are copied once. Entries are read ahead in chunks from either
/// end: of 16 entries up to 512, or 64 KiB, in this machine's memory, and up to 4096 elsewhere.
/// After an error the iterator yields nothing more.
///
/// The map may be changed meanwhile, by the caller as well. An entry that is present from the call
/// of [`OrderedMap::range`] to the end of the iteration is returned exactly once, with a value that
/// it had in between, and keys come in order. An entry that is inserted, changed or removed
/// meanwhile may be returned as it was when its chunk was read. Between chunks the iterator holds
/// no lock and no pin: one that is kept for long delays neither writers nor the reuse of memory.
///
/// ```
/// let map = nearfield::WordMap::from_sorted((0..100).map(|n| (n, n)))?;
/// let mut range = map.range(10..20);
/// assert_eq!((range.next(), range.next_back()), (Some((10, 10)), Some((19, 19))));
/// for (key, _) in range {
///     map.remove(key)?;
/// }
/// assert_eq!(map.len(), 92);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub struct MapRange<'m, F: MapForm, P: MapPlacement<F> = Local> {
    map: &'m OrderedMap<F, P>,
    low: Bound<F::OwnedKey>,
    high: Bound<F::OwnedKey>,
    /// Entries read ahead from the front, in ascending order.
    front: VecDeque<Entry<F>>,
    /// Entries read ahead from the back, in descending order.
    back: VecDeque<Entry<F>>,
    chunk: usize,
    /// True if nothing is left between the bounds.
    exhausted: bool,
}

impl<'m, F: MapForm, P: MapPlacement<F>> MapRange<'m, F, P> {
    pub(crate) fn new(
        map: &'m OrderedMap<F, P>,
        low: Bound<F::OwnedKey>,
        high: Bound<F::OwnedKey>,
    ) -> Self {
        MapRange {
            map,
            low,
            high,
            front: VecDeque::new(),
            back: VecDeque::new(),
            chunk: CHUNK_MIN,
            exhausted: false,
        }
    }

    /// Returns the map, and the bounds of the entries that were not returned yet; `None` if there
    /// are none.
    #[cfg(feature = "pool")]
    pub(crate) fn into_rest(self) -> (&'m OrderedMap<F, P>, Option<Bounds<F>>) {
        let key = |entry: Option<&Entry<F>>| entry.map(|(key, _)| Bound::Included(key.clone()));
        let ends = |chunk: &VecDeque<Entry<F>>| (key(chunk.front()), key(chunk.back()));
        let ((front, front_end), (back_end, back)) = (ends(&self.front), ends(&self.back));
        let (low, high) = match self.exhausted {
            true => (None, None),
            false => (Some(self.low), Some(self.high)),
        };
        // Entries read ahead are read again. Each end may be in either chunk, or between them.
        let low = front.or(low).or(back);
        let high = back_end.or(high).or(front_end);
        (self.map, low.zip(high))
    }

    /// Reads the next chunk from one end, unless nothing is left.
    fn read(&mut self, direction: ScanDirection) -> Result<(), P::Failure> {
        if self.exhausted {
            return Ok(());
        }
        let chunk = match direction {
            ScanDirection::Ascending => &mut self.front,
            ScanDirection::Descending => &mut self.back,
        };
        let bounds = (
            self.low.as_ref().map(F::key),
            self.high.as_ref().map(F::key),
        );
        let found = |entry| chunk.push_back(entry);
        match P::scan(&self.map.index, bounds, direction, self.chunk, found) {
            Ok(exhausted) => self.exhausted = exhausted,
            Err(failure) => {
                // The range ends: entries behind the gap would look like the next ones.
                self.exhausted = true;
                self.front.clear();
                self.back.clear();
                return Err(failure);
            }
        }
        debug_assert!(
            self.exhausted || !chunk.is_empty(),
            "a scan that finds nothing has reached the end"
        );
        if let Some((last, _)) = chunk.back() {
            // By key, so that it does not matter if other threads have removed the entry.
            let last = Bound::Excluded(last.clone());
            match direction {
                ScanDirection::Ascending => self.low = last,
                ScanDirection::Descending => self.high = last,
            }
        }
        // Many ranges are left after a few entries, so the first chunks are short.
        self.chunk = (2 * self.chunk).min(P::CHUNK_MAX);
        Ok(())
    }

    /// Returns the next entry from the front, or the error of reading it.
    pub(crate) fn next_entry(&mut self) -> Option<Result<Entry<F>, P::Failure>> {
        if self.front.is_empty()
            && let Err(failure) = self.read(ScanDirection::Ascending)
        {
            return Some(Err(failure));
        }
        // Once the ends have met, the last entries may have been read from the other side.
        let entry = self.front.pop_front().or_else(|| self.back.pop_back());
        entry.map(Ok)
    }

    /// Returns the next entry from the back, or the error of reading it.
    fn next_back_entry(&mut self) -> Option<Result<Entry<F>, P::Failure>> {
        if self.back.is_empty()
            && let Err(failure) = self.read(ScanDirection::Descending)
        {
            return Some(Err(failure));
        }
        let entry = self.back.pop_front().or_else(|| self.front.pop_back());
        entry.map(Ok)
    }
}

impl<F: MapForm, P: MapPlacement<F>> Iterator for MapRange<'_, F, P> {
    type Item = P::Read<Entry<F>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().map(P::read_result)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let read = self.front.len() + self.back.len();
        // Entries between the bounds are counted when they are read, so there is no upper bound
        // yet.
        (read, self.exhausted.then_some(read))
    }
}

impl<F: MapForm, P: MapPlacement<F>> DoubleEndedIterator for MapRange<'_, F, P> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_back_entry().map(P::read_result)
    }
}

impl<F: MapForm, P: MapPlacement<F>> FusedIterator for MapRange<'_, F, P> {}

impl<F: MapForm, P: MapPlacement<F>> Debug for MapRange<'_, F, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
