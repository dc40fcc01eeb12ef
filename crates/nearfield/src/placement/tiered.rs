//! The placement in tiers of memory and files.

use super::by_batch::scan_by_batch;
use super::{Bounds, Placement, fallible_reads, sealed};
use nearfield_core::{Bytes, Direction, Error, OrderedIndex};
use nearfield_radix::{Entry, Radix};
use nearfield_tiers::map::TieredIndex;

/// Tiers of memory and files, of byte strings: keys and the values that are used most lie in
/// this machine's memory, others in compressed memory or in files on an SSD. A thread moves values
/// by their use.
///
/// Reads return a `Result`, as a disk may not answer, or answer other bytes than were written:
/// [`Error::Unreadable`]. The files survive nothing: they are gone when the map is dropped. Values
/// have up to [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) - 1 bytes.
///
/// ```
/// use nearfield::{Bytes, Map, Tier, Tiered};
///
/// let tiers = [Tier::memory(64 << 20), Tier::compressed(64 << 20)];
/// let map: Map<Bytes, Tiered> = Map::<Bytes>::builder().tiers(tiers).build()?;
/// assert_eq!(map.insert(b"ann", b"1")?, None);
/// assert_eq!(map.get(b"ann")?, Some(b"1".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tiered;

impl sealed::Sealed for Tiered {}

impl Placement<Bytes> for Tiered {
    fallible_reads!(Bytes);
    type Value<'m> = Vec<u8>;
    type Index = TieredIndex<Radix<Bytes>>;
    /// A chunk may be read from a disk as a whole.
    const CHUNK_MAX: usize = 512;

    #[inline]
    fn get(index: &Self::Index, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &Self::Index) -> Result<usize, Error> {
        Ok(OrderedIndex::len(index))
    }

    fn scan(
        index: &Self::Index,
        bounds: Bounds<'_, Bytes>,
        direction: Direction,
        limit: usize,
        found: impl FnMut(Entry<Bytes>),
    ) -> Result<bool, Error> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}
