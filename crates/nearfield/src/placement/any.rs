//! A placement chosen at run time.

use super::{Bounds, Local, Placement, fallible_reads, sealed};
use crate::answer::always;
use crate::form::MapForm;
use nearfield_core::{Batch, Direction, Error, OrderedIndex};
use nearfield_radix::{Entry, Radix};
use std::fmt::Debug;

#[cfg(feature = "pim")]
use super::Pim;
#[cfg(feature = "pool")]
use super::Pool;

/// One of the placements of this build, chosen at run time. Each call costs one branch more than
/// with a fixed placement.
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
    fallible_reads!(F);
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
