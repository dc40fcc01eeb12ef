//! Iteration over a range, from both ends, beside writers.
//!
//! Each end has read ahead by a chunk, and the keys between the chunks have not been looked at:
//!
//! ```text
//!   given │ front chunk │        not read yet         │ back chunk │ given
//!                       └ low                    high ┘
//! ```
//!
//! `low` and `high` move past a chunk as it is read, so that no key is met twice; when nothing is
//! left between them, each end goes on with the other's chunk.

use crate::{Map, MapForm};
use nearfield_core::Direction;
use nearfield_radix::Entry;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// Entries of the first chunk, of which the caller may want but one.
const CHUNK_MIN: usize = 16;
/// Entries of a chunk at most, which is as many as the tree gathers at once.
const CHUNK_MAX: usize = 512;
/// Bytes of keys and values after which a chunk ends.
const CHUNK_BYTES: usize = 64 << 10;

/// The entries of a [`Map`] within a range, from both ends; see [`Map::range`].
///
/// Items own their keys and values, for which byte strings are copied once. Entries are read
/// ahead in chunks of 16 up to 512 entries, or until a chunk holds 64 KiB.
///
/// The map may be changed meanwhile, by the caller as well. An entry that is present from the
/// call of [`Map::range`] to the end of the iteration is met exactly once, with a value that it
/// had in between, and keys come in order. An entry that is inserted, changed or removed meanwhile
/// may be met as it was when its chunk was read. Between chunks nothing is held: an iterator that
/// is kept for long delays neither writers nor the reuse of memory.
///
/// ```
/// let map = nearfield::WordMap::from_sorted((0..100).map(|n| (n, n)))?;
/// let mut range = map.range(10..20);
/// assert_eq!((range.next(), range.next_back()), (Some((10, 10)), Some((19, 19))));
/// for (key, _) in range {
///     map.remove(key)?;
/// }
/// assert_eq!(map.len(), 92);
/// # Ok::<(), nearfield::Error>(())
/// ```
pub struct Range<'m, F: MapForm> {
    map: &'m Map<F>,
    low: Bound<F::OwnedKey>,
    high: Bound<F::OwnedKey>,
    /// Ascending.
    front: VecDeque<Entry<F>>,
    /// Descending.
    back: VecDeque<Entry<F>>,
    chunk: usize,
    /// Nothing is left between the bounds.
    exhausted: bool,
}

impl<'m, F: MapForm> Range<'m, F> {
    pub(crate) fn new(map: &'m Map<F>, low: Bound<F::OwnedKey>, high: Bound<F::OwnedKey>) -> Self {
        Range {
            map,
            low,
            high,
            front: VecDeque::new(),
            back: VecDeque::new(),
            chunk: CHUNK_MIN,
            exhausted: false,
        }
    }

    /// Reads the next chunk from one end.
    fn read(&mut self, direction: Direction) {
        let (from, to, chunk) = match direction {
            Direction::Ascending => (&mut self.low, &self.high, &mut self.front),
            Direction::Descending => (&mut self.high, &self.low, &mut self.back),
        };
        let (start, end) = (from.as_ref().map(F::key), to.as_ref().map(F::key));
        let (low, high) = match direction {
            Direction::Ascending => (Bound::Unbounded, end),
            Direction::Descending => (end, Bound::Unbounded),
        };
        let limit = self.chunk;
        let mut bytes = 0;
        let mut exhausted = true;
        self.map.scan(start, direction, limit, |key, value| {
            let within = (low.map(F::shorten_key), high.map(F::shorten_key));
            if !within.contains(&F::shorten_key(key)) {
                return ControlFlow::Break(());
            }
            chunk.push_back((F::own_key(key), F::own_value(value)));
            bytes += F::entry_bytes(key, value);
            if chunk.len() < limit && bytes < CHUNK_BYTES {
                return ControlFlow::Continue(());
            }
            exhausted = false;
            ControlFlow::Break(())
        });
        if let Some((last, _)) = chunk.back() {
            *from = Bound::Excluded(last.clone());
        }
        self.exhausted = exhausted;
        self.chunk = (2 * limit).min(CHUNK_MAX);
    }
}

impl<F: MapForm> Iterator for Range<'_, F> {
    type Item = Entry<F>;

    fn next(&mut self) -> Option<Entry<F>> {
        if self.front.is_empty() && !self.exhausted {
            self.read(Direction::Ascending);
        }
        self.front.pop_front().or_else(|| self.back.pop_back())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let read = self.front.len() + self.back.len();
        (read, self.exhausted.then_some(read))
    }
}

impl<F: MapForm> DoubleEndedIterator for Range<'_, F> {
    fn next_back(&mut self) -> Option<Entry<F>> {
        if self.back.is_empty() && !self.exhausted {
            self.read(Direction::Descending);
        }
        self.back.pop_front().or_else(|| self.front.pop_back())
    }
}

impl<F: MapForm> FusedIterator for Range<'_, F> {}

impl<F: MapForm> Debug for Range<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
