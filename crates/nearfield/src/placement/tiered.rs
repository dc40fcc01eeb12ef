//! The placement in tiers of memory and files.

use super::by_batch::scan_by_batch;
use super::{Bounds, MapPlacement, fallible_reads, sealed};
use nearfield_core::{ByteStrings, OperationError, OrderedIndex, ScanDirection};
use nearfield_radix::{Entry, RadixIndex};
use nearfield_tiers::map::TieredIndex;

/// Tiers of memory and files, for byte strings. Keys, and the values that are used most, are stored
/// in this machine's memory; other values in compressed memory or in files on an SSD. A thread
/// moves values by their use.
///
/// Reads return a `Result`, because a disk may fail to respond, or return other bytes than were
/// written: [`OperationError::Unreadable`]. The files do not persist: they are removed when the map
/// is dropped. Values have up to [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) - 1 bytes.
///
/// ```
/// use nearfield::{ByteStrings, OrderedMap, Tier, TieredPlacement};
///
/// let tiers = [Tier::memory(64 << 20), Tier::compressed(64 << 20)];
/// let builder = OrderedMap::<ByteStrings>::builder().tiers(tiers);
/// let map: OrderedMap<ByteStrings, TieredPlacement> = builder.build()?;
/// assert_eq!(map.insert(b"ann", b"1")?, None);
/// assert_eq!(map.get(b"ann")?, Some(b"1".to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TieredPlacement;

impl sealed::SealedPlacement for TieredPlacement {}

impl MapPlacement<ByteStrings> for TieredPlacement {
    fallible_reads!(ByteStrings);
    type Value<'m> = Vec<u8>;
    type Index = TieredIndex<RadixIndex<ByteStrings>>;
    /// Every value of a chunk may have to be read from a disk.
    const CHUNK_MAX: usize = 512;

    #[inline]
    fn get(index: &Self::Index, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &Self::Index) -> Result<usize, OperationError> {
        Ok(OrderedIndex::len(index))
    }

    fn scan(
        index: &Self::Index,
        bounds: Bounds<'_, ByteStrings>,
        direction: ScanDirection,
        limit: usize,
        found: impl FnMut(Entry<ByteStrings>),
    ) -> Result<bool, OperationError> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}
