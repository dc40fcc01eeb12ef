//! Creation of maps in tiers.

use crate::map::OrderedMap;
use crate::placement::TieredPlacement;
use nearfield_core::ByteStrings;
use nearfield_radix::{EngineOptions, RadixIndex};
use nearfield_tiers::map::TieredIndex;
use nearfield_tiers::{Specification, TierOpenError, Tiers};

/// Builder of an [`OrderedMap`] in tiers; from [`MapBuilder::tiers`](crate::MapBuilder::tiers).
///
/// ```
/// use nearfield::{ByteStrings, OrderedMap, Tier};
///
/// let builder = OrderedMap::<ByteStrings>::builder().tiers([Tier::memory(64 << 20)]);
/// assert!(builder.build().unwrap_err().to_string().contains("no lower tier"));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder has no effect until it builds"]
pub struct TieredBuilder {
    tiers: Vec<Specification>,
    engine_options: EngineOptions,
}

impl TieredBuilder {
    pub(crate) fn new(tiers: Vec<Specification>, engine_options: EngineOptions) -> TieredBuilder {
        TieredBuilder {
            tiers,
            engine_options,
        }
    }

    /// Creates an empty map, and starts its thread.
    ///
    /// # Errors
    /// The order of the tiers is invalid, or they are larger than the machine; a folder cannot be
    /// written to; the system grants no memory or no thread.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, Tier};
    ///
    /// let tiers = ["memory=64mb".parse()?, "compressed=256mb".parse()?];
    /// let map = OrderedMap::<ByteStrings>::builder().tiers(tiers).build()?;
    /// assert!(map.is_empty()?);
    ///
    /// let tiers = [Tier::memory(64 << 20), Tier::file("/no/such/folder", 1 << 30)];
    /// let error = OrderedMap::<ByteStrings>::builder().tiers(tiers).build().unwrap_err();
    /// assert!(error.to_string().contains("/no/such/folder"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<OrderedMap<ByteStrings, TieredPlacement>, TierOpenError> {
        let tiers = Tiers::open(&self.tiers)?;
        let entries = RadixIndex::<ByteStrings>::new()?;
        entries.set_options(self.engine_options);
        let used_bytes = |entries: &RadixIndex<ByteStrings>| entries.memory().total_bytes();
        TieredIndex::new(tiers, entries, used_bytes).map(OrderedMap::of)
    }
}
