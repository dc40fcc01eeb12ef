//! A placement that a program chooses when it runs.

use super::{Bounds, Local, Placement, always, fallible_reads, sealed};
use crate::{Map, MapForm};
use nearfield_core::{Batch, Direction, Error, OrderedIndex};
use nearfield_radix::{Entry, Radix, ValueRef};
use std::fmt::Debug;
use std::ops::Deref;

#[cfg(feature = "pim")]
use super::pim::Pim;
#[cfg(feature = "pool")]
use super::pool::Pool;

/// One of the placements that this build has, chosen when the program runs. Each call looks once
/// where the map is.
///
/// ```
/// use nearfield::{AnyPlacement, Bytes, Map};
///
/// let map: Map<Bytes, AnyPlacement> = Map::<Bytes>::new()?.into();
/// map.insert(b"ann", b"1")?;
/// assert_eq!(map.get(b"ann")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(map.placement_name(), "local");
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AnyPlacement;

impl sealed::Sealed for AnyPlacement {}

/// The index of a map with a placement chosen at run time.
#[doc(hidden)]
#[derive(Debug)]
#[cfg_attr(
    any(feature = "pool", feature = "pim"),
    expect(
        clippy::large_enum_variant,
        reason = "a program has few maps, and reads of the local one should not follow a pointer"
    )
)]
pub enum AnyIndex<F: MapForm> {
    Local(Radix<F>),
    #[cfg(feature = "pool")]
    Pool(<Pool as Placement<F>>::Index),
    #[cfg(feature = "pim")]
    Pim(<Pim as Placement<F>>::Index),
}

/// Calls the index, whichever it is.
macro_rules! on_index {
    ($any:expr, $index:ident => $call:expr) => {
        match $any {
            AnyIndex::Local($index) => $call,
            #[cfg(feature = "pool")]
            AnyIndex::Pool($index) => $call,
            #[cfg(feature = "pim")]
            AnyIndex::Pim($index) => $call,
        }
    };
}

impl<F: MapForm> OrderedIndex<F> for AnyIndex<F> {
    #[inline]
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        on_index!(self, index => OrderedIndex::execute(index, batch))
    }

    fn len(&self) -> usize {
        on_index!(self, index => OrderedIndex::len(index))
    }

    fn check_invariants(&self) {
        on_index!(self, index => index.check_invariants());
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        on_index!(self, index => OrderedIndex::get(index, key))
    }

    #[inline]
    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<Option<F::OwnedValue>, Error> {
        on_index!(self, index => OrderedIndex::insert(index, key, value))
    }

    #[inline]
    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        on_index!(self, index => OrderedIndex::update(index, key, previous, value))
    }

    #[inline]
    fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        on_index!(self, index => OrderedIndex::remove(index, key))
    }

    #[inline]
    fn remove_if(
        &self,
        key: F::Key<'_>,
        expected: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        on_index!(self, index => OrderedIndex::remove_if(index, key, expected))
    }
}

impl<F: MapForm> Placement<F> for AnyPlacement {
    fallible_reads!();
    type Value<'m> = F::AnyValue<'m>;
    type Index = AnyIndex<F>;

    #[inline]
    fn get<'m>(index: &'m AnyIndex<F>, key: F::Key<'_>) -> Result<Option<F::AnyValue<'m>>, Error> {
        match index {
            AnyIndex::Local(radix) => match F::lend(radix, key) {
                Ok(value) => Ok(value.map(<F::AnyValue<'m> as From<F::Lent<'m>>>::from)),
                Err(failure) => Err(failure.into()),
            },
            #[cfg(feature = "pool")]
            AnyIndex::Pool(index) => {
                Ok(OrderedIndex::get(index, key)?
                    .map(<F::AnyValue<'m> as From<F::OwnedValue>>::from))
            }
            #[cfg(feature = "pim")]
            AnyIndex::Pim(index) => {
                Ok(OrderedIndex::get(index, key)?
                    .map(<F::AnyValue<'m> as From<F::OwnedValue>>::from))
            }
        }
    }

    fn len(index: &AnyIndex<F>) -> Result<usize, Error> {
        match index {
            AnyIndex::Local(radix) => Ok(always(<Local as Placement<F>>::len(radix))),
            #[cfg(feature = "pool")]
            AnyIndex::Pool(index) => <Pool as Placement<F>>::len(index),
            #[cfg(feature = "pim")]
            AnyIndex::Pim(index) => <Pim as Placement<F>>::len(index),
        }
    }

    fn scan(
        index: &AnyIndex<F>,
        bounds: Bounds<'_, F>,
        direction: Direction,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, Error> {
        match index {
            AnyIndex::Local(radix) => {
                let scanned = <Local as Placement<F>>::scan(radix, bounds, direction, limit, found);
                Ok(always(scanned))
            }
            #[cfg(feature = "pool")]
            AnyIndex::Pool(index) => {
                <Pool as Placement<F>>::scan(index, bounds, direction, limit, found)
            }
            #[cfg(feature = "pim")]
            AnyIndex::Pim(index) => {
                <Pim as Placement<F>>::scan(index, bounds, direction, limit, found)
            }
        }
    }
}

impl<F: MapForm> Map<F, AnyPlacement> {
    /// The name of the placement: `local`, `pool` or `pim`.
    pub fn placement_name(&self) -> &'static str {
        match &self.index {
            AnyIndex::Local(_) => "local",
            #[cfg(feature = "pool")]
            AnyIndex::Pool(_) => "pool",
            #[cfg(feature = "pim")]
            AnyIndex::Pim(_) => "pim",
        }
    }

    /// The memory that the map takes by kind of node, if it is in this machine's memory.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, Map, WordMap, Words};
    ///
    /// let map: Map<Words, AnyPlacement> = WordMap::from_sorted([(1, 10)])?.into();
    /// assert_eq!(map.local_memory().map(|memory| memory.leaf_bytes), Some(128));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn local_memory(&self) -> Option<crate::MemoryUse> {
        match &self.index {
            AnyIndex::Local(radix) => Some(radix.memory()),
            #[cfg(any(feature = "pool", feature = "pim"))]
            _ => None,
        }
    }
}

impl<F: MapForm> From<Map<F, Local>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Local>) -> Self {
        Map::of(AnyIndex::Local(map.index))
    }
}

#[cfg(feature = "pool")]
impl<F: MapForm> From<Map<F, Pool>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Pool>) -> Self {
        Map::of(AnyIndex::Pool(map.index))
    }
}

#[cfg(feature = "pim")]
impl<F: MapForm> From<Map<F, Pim>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Pim>) -> Self {
        Map::of(AnyIndex::Pim(map.index))
    }
}

/// A byte string that a map of [`AnyPlacement`] has answered: lent by the local index, or owned.
///
/// ```
/// use nearfield::{AnyPlacement, Bytes, Map};
///
/// let map: Map<Bytes, AnyPlacement> = Map::<Bytes>::from_sorted([("ann", "1")])?.into();
/// let value = map.get(b"ann")?.expect("present");
/// assert_eq!((&*value, value.len()), (&b"1"[..], 1));
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub enum AnyValue<'m> {
    /// Lent by the local index; see [`ValueRef`] for how long to hold it.
    Lent(ValueRef<'m>),
    /// Read from elsewhere.
    Owned(Vec<u8>),
}

impl Deref for AnyValue<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            AnyValue::Lent(value) => value,
            AnyValue::Owned(value) => value,
        }
    }
}

impl<'m> From<ValueRef<'m>> for AnyValue<'m> {
    fn from(value: ValueRef<'m>) -> Self {
        AnyValue::Lent(value)
    }
}

impl From<Vec<u8>> for AnyValue<'_> {
    fn from(value: Vec<u8>) -> Self {
        AnyValue::Owned(value)
    }
}

impl From<AnyValue<'_>> for Vec<u8> {
    fn from(value: AnyValue<'_>) -> Vec<u8> {
        match value {
            AnyValue::Lent(value) => value.to_vec(),
            AnyValue::Owned(value) => value,
        }
    }
}
