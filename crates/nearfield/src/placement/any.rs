//! A placement chosen at run time.

use super::{Bounds, Local, MapPlacement, fallible_reads, sealed};
use crate::form::MapForm;
use crate::read_result::always;
use nearfield_core::{
    Batch, ComparisonResult, OperationError, OrderedIndex, PointResult, ScanDirection,
};
use nearfield_radix::{Entry, RadixIndex};
use std::fmt::Debug;

#[cfg(feature = "pim")]
use super::Pim;
#[cfg(feature = "pool")]
use super::PoolPlacement;

/// One of the placements of this build, chosen at run time. Each call costs one branch more than
/// with a fixed placement.
///
/// ```
/// use nearfield::{AnyPlacement, ByteStrings, OrderedMap};
///
/// let map: OrderedMap<ByteStrings, AnyPlacement> = OrderedMap::<ByteStrings>::new()?.into();
/// map.insert(b"ann", b"1")?;
/// assert_eq!(map.get(b"ann")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(map.placement_name(), "local");
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AnyPlacement;

impl sealed::SealedPlacement for AnyPlacement {}

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
    Local(RadixIndex<F>),
    #[cfg(feature = "pool")]
    Pool(<PoolPlacement as MapPlacement<F>>::Index),
    #[cfg(feature = "pim")]
    Pim(<Pim as MapPlacement<F>>::Index),
}

/// A call of a method of the index, for any placement.
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
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        on_index!(self, index => OrderedIndex::execute(index, batch))
    }

    fn len(&self) -> usize {
        on_index!(self, index => OrderedIndex::len(index))
    }

    fn check_invariants(&self) {
        on_index!(self, index => index.check_invariants());
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        on_index!(self, index => OrderedIndex::get(index, key))
    }

    #[inline]
    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        on_index!(self, index => OrderedIndex::insert(index, key, value))
    }

    #[inline]
    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        on_index!(self, index => OrderedIndex::update(index, key, previous, value))
    }

    #[inline]
    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        on_index!(self, index => OrderedIndex::remove(index, key))
    }

    #[inline]
    fn remove_if(&self, key: F::Key<'_>, expected: F::Value<'_>) -> ComparisonResult<F> {
        on_index!(self, index => OrderedIndex::remove_if(index, key, expected))
    }
}

impl<F: MapForm> MapPlacement<F> for AnyPlacement {
    fallible_reads!(F);
    type Value<'m> = F::AnyValue<'m>;
    type Index = AnyIndex<F>;

    #[inline]
    fn get<'m>(
        index: &'m AnyIndex<F>,
        key: F::Key<'_>,
    ) -> Result<Option<F::AnyValue<'m>>, OperationError> {
        match index {
            // Only the local index lends values; others return copies.
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

    fn len(index: &AnyIndex<F>) -> Result<usize, OperationError> {
        match index {
            AnyIndex::Local(radix) => Ok(always(<Local as MapPlacement<F>>::len(radix))),
            #[cfg(feature = "pool")]
            AnyIndex::Pool(index) => <PoolPlacement as MapPlacement<F>>::len(index),
            #[cfg(feature = "pim")]
            AnyIndex::Pim(index) => <Pim as MapPlacement<F>>::len(index),
        }
    }

    fn scan(
        index: &AnyIndex<F>,
        bounds: Bounds<'_, F>,
        direction: ScanDirection,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, OperationError> {
        match index {
            AnyIndex::Local(radix) => {
                let scanned =
                    <Local as MapPlacement<F>>::scan(radix, bounds, direction, limit, found);
                Ok(always(scanned))
            }
            #[cfg(feature = "pool")]
            AnyIndex::Pool(index) => {
                <PoolPlacement as MapPlacement<F>>::scan(index, bounds, direction, limit, found)
            }
            #[cfg(feature = "pim")]
            AnyIndex::Pim(index) => {
                <Pim as MapPlacement<F>>::scan(index, bounds, direction, limit, found)
            }
        }
    }
}
