//! Creation of maps in tiers.

use crate::map::Map;
use crate::placement::Tiered;
use nearfield_core::Bytes;
use nearfield_radix::{EngineOptions, Radix};
use nearfield_tiers::map::TieredIndex;
use nearfield_tiers::{OpenError, Specification, Tiers};

/// Builder of a [`Map`] in tiers; from [`Builder::tiers`](crate::Builder::tiers).
///
/// ```
/// use nearfield::{Bytes, Map, Tier};
///
/// let builder = Map::<Bytes>::builder().tiers([Tier::memory(64 << 20)]);
/// assert!(builder.build().unwrap_err().to_string().contains("nothing below it"));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
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
    /// use nearfield::{Bytes, Map, Tier};
    ///
    /// let tiers = ["memory=64M".parse()?, "compressed=256M".parse()?];
    /// let map = Map::<Bytes>::builder().tiers(tiers).build()?;
    /// assert!(map.is_empty()?);
    ///
    /// let tiers = [Tier::memory(64 << 20), Tier::file("/no/such/folder", 1 << 30)];
    /// let error = Map::<Bytes>::builder().tiers(tiers).build().unwrap_err();
    /// assert!(error.to_string().contains("/no/such/folder"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Map<Bytes, Tiered>, OpenError> {
        let tiers = Tiers::open(&self.tiers)?;
        let entries = Radix::<Bytes>::new()?;
        entries.set_options(self.engine_options);
        let used_bytes = |entries: &Radix<Bytes>| entries.memory().total_bytes();
        TieredIndex::new(tiers, entries, used_bytes).map(Map::of)
    }
}
