//! Methods of maps in tiers.

use super::OrderedMap;
use crate::placement::TieredPlacement;
use nearfield_core::{ByteStrings, OperationError};
use nearfield_tiers::map::TierUse;

impl OrderedMap<ByteStrings, TieredPlacement> {
    /// Returns the number of the tier that stores the value of a key, 0 for memory; `None` if the
    /// key is absent.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, Tier};
    ///
    /// let tiers = [Tier::memory(64 << 20), Tier::compressed(64 << 20)];
    /// let map = OrderedMap::<ByteStrings>::builder().tiers(tiers).build()?;
    /// map.insert(b"ann", b"1")?;
    /// assert_eq!((map.tier_of(b"ann")?, map.tier_of(b"bob")?), (Some(0), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier_of(&self, key: &[u8]) -> Result<Option<usize>, OperationError> {
        self.index.tier_of(key)
    }

    /// Moves the value of a key to a tier, given by its number. Returns true if it was moved. It
    /// stays if it is there already, if the tier rejects it (it is full, or cannot compress the
    /// value), or if another thread changes the value meanwhile. Later the map may move it again.
    ///
    /// # Errors
    /// `KeyTooLong`; `Unreadable` if the value cannot be read; `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, Tier};
    ///
    /// let tiers = [Tier::memory(64 << 20), Tier::compressed(64 << 20)];
    /// let map = OrderedMap::<ByteStrings>::builder().tiers(tiers).build()?;
    /// let page = "<p>to be or not to be</p>".repeat(100);
    /// map.insert(b"page:1", page.as_bytes())?;
    /// assert!(map.move_to(b"page:1", 1)?);
    /// assert_eq!(map.tier_of(b"page:1")?, Some(1));
    /// assert_eq!(map.get(b"page:1")?, Some(page.into_bytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_to(&self, key: &[u8], tier: usize) -> Result<bool, OperationError> {
        self.index.move_to(key, tier)
    }

    /// Returns the contents and the uses of each tier, the fastest first.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, Tier};
    ///
    /// let tiers = [Tier::memory(64 << 20), Tier::compressed(64 << 20)];
    /// let map = OrderedMap::<ByteStrings>::builder().tiers(tiers).build()?;
    /// map.insert(b"ann", b"1")?;
    /// let values: Vec<u64> = map.tiers().iter().map(|tier| tier.values).collect();
    /// assert_eq!(values, [1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiers(&self) -> Vec<TierUse> {
        self.index.tiers()
    }
}
