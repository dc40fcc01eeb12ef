//! The placement in this machine's memory.

use super::{Bounds, MapPlacement, sealed};
use crate::form::MapForm;
use crate::read_result::always;
use nearfield_core::{OrderedIndex, ScanDirection};
use nearfield_radix::{Entry, RadixIndex};
use std::convert::Infallible;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// Bytes of keys and values after which a scan stops, so that a chunk of long values stays small.
const SCAN_BYTES_MAX: usize = 64 << 10;

/// The placement in this machine's memory: an adaptive radix tree in this process. Reads cannot
/// fail, and [`get`](crate::OrderedMap::get) lends long values without a copy.
///
/// ```
/// use nearfield::{ByteStrings, Local, OrderedMap};
///
/// // `OrderedMap<ByteStrings>` is short for this type.
/// let map: OrderedMap<ByteStrings, Local> = OrderedMap::new()?;
/// assert_eq!(map.first(), None);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl sealed::SealedPlacement for Local {}

impl<F: MapForm> MapPlacement<F> for Local {
    type Read<T> = T;
    type Lookup<T> = F::Lookup<T>;
    type Value<'m> = F::Lent<'m>;
    type Index = RadixIndex<F>;
    type Failure = Infallible;
    type LookupFailure = F::KeyFailure;
    /// The tree gathers this many entries at once.
    const CHUNK_MAX: usize = 512;

    #[inline]
    fn read_result<T>(result: Result<T, Infallible>) -> T {
        always(result)
    }

    #[inline]
    fn lookup_result<T>(result: Result<T, F::KeyFailure>) -> F::Lookup<T> {
        F::lookup_result(result)
    }

    #[inline]
    fn map<T, U>(read: T, change: impl FnOnce(T) -> U) -> U {
        change(read)
    }

    #[inline]
    fn map_lookup<T, U>(read: F::Lookup<T>, change: impl FnOnce(T) -> U) -> F::Lookup<U> {
        F::map_lookup(read, change)
    }

    #[inline]
    fn check_key(key: F::Key<'_>) -> Result<(), F::KeyFailure> {
        F::check_key(key)
    }

    #[inline]
    fn get<'m>(
        index: &'m RadixIndex<F>,
        key: F::Key<'_>,
    ) -> Result<Option<F::Lent<'m>>, F::KeyFailure> {
        F::lend(index, key)
    }

    fn len(index: &RadixIndex<F>) -> Result<usize, Infallible> {
        Ok(index.len())
    }

    fn scan(
        index: &RadixIndex<F>,
        (low, high): Bounds<'_, F>,
        direction: ScanDirection,
        limit: usize,
        mut found: impl FnMut(Entry<F>),
    ) -> Result<bool, Infallible> {
        if limit == 0 {
            return Ok(false);
        }
        // The tree receives only the start of the scan. The end is checked here.
        let (start, within) = match direction {
            ScanDirection::Ascending => (low, (Bound::Unbounded, high)),
            ScanDirection::Descending => (high, (low, Bound::Unbounded)),
        };
        let (mut count, mut bytes) = (0, 0);
        let mut is_exhausted = true;
        index.scan(start, direction, limit, |key, value| {
            let within = (within.0.map(F::shorten_key), within.1.map(F::shorten_key));
            if !within.contains(&F::shorten_key(key)) {
                return ControlFlow::Break(());
            }
            found((F::own_key(key), F::own_value(value)));
            count += 1;
            bytes += F::entry_bytes(key, value);
            if count < limit && bytes < SCAN_BYTES_MAX {
                return ControlFlow::Continue(());
            }
            // Stopped by a limit, so the range may have more entries.
            is_exhausted = false;
            ControlFlow::Break(())
        });
        Ok(is_exhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;

    #[test]
    fn a_scan_passes_as_many_entries_as_its_limit_allows() {
        let index = RadixIndex::<Words>::new().expect("address space");
        for key in 0..3 {
            index.insert(key, key).expect("room");
        }
        for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
            for (limit, is_whole) in [(0, false), (1, false), (3, false), (4, true)] {
                let mut count = 0;
                let bounds = (Bound::Unbounded, Bound::Unbounded);
                let found = |_entry: Entry<Words>| count += 1;
                let scanned =
                    <Local as MapPlacement<Words>>::scan(&index, bounds, direction, limit, found);
                assert_eq!(scanned, Ok(is_whole), "{direction:?} {limit}");
                assert_eq!(count, limit.min(3), "{direction:?} {limit}");
            }
        }
    }
}
