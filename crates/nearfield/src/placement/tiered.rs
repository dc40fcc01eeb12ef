//! The placement in tiers of memory and files.

use super::by_batch::scan_by_batch;
use super::{Bounds, Placement, fallible_reads, sealed};
use nearfield_core::{Bytes, Direction, Error, OrderedIndex};
use nearfield_radix::{Entry, Radix};
use nearfield_tiers::map::TieredIndex;

/// Tiers of memory and files, for byte strings. Keys, and the values that are used most, are stored
/// in this machine's memory; other values in compressed memory or in files on an SSD. A thread
/// moves values by their use.
///
/// Reads return a `Result`, because a disk may fail to respond, or return other bytes than were
/// written: [`Error::Unreadable`]. The files do not persist: they are removed when the map is
/// dropped. Values have up to [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) - 1 bytes.
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
    /// Every value of a chunk may have to be read from a disk.
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
