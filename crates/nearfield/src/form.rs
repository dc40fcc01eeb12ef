//! The forms of entries that a map can hold.

use crate::any_value::AnyValue;
use crate::read_result::{MapReadResult, always};
use nearfield_core::{ByteStrings, EntryForm, MAX_KEY_BYTES, OperationError, Words};
use nearfield_radix::RadixForm;
use std::convert::Infallible;

#[cfg(feature = "pim")]
pub(crate) use nearfield_pim::PimForm;
#[cfg(feature = "pool")]
pub(crate) use nearfield_pool::store::PoolEntryForm;

/// A bound that every type meets: without the feature `pool`, a form needs no layout for pools.
#[cfg(not(feature = "pool"))]
#[doc(hidden)]
pub trait PoolEntryForm {}
#[cfg(not(feature = "pool"))]
impl<F: EntryForm> PoolEntryForm for F {}

/// A bound that every type meets: without the feature `pim`, a form needs no layout for modules.
#[cfg(not(feature = "pim"))]
#[doc(hidden)]
pub trait PimForm {}
#[cfg(not(feature = "pim"))]
impl<F: EntryForm> PimForm for F {}

/// A form of entries that an [`OrderedMap`](crate::OrderedMap) can hold: [`ByteStrings`] or
/// [`Words`]. The set is closed.
///
/// ```
/// use nearfield::{ByteStrings, OperationError, OrderedMap, MapForm, WordMap};
///
/// fn add<F: MapForm>(
///     map: &OrderedMap<F>,
///     key: F::Key<'_>,
///     value: F::Value<'_>,
/// ) -> Result<bool, OperationError> {
///     Ok(map.insert(key, value)?.is_none())
/// }
/// assert!(add(&WordMap::new()?, 1, 10)?);
/// assert!(add(&OrderedMap::<ByteStrings>::new()?, b"ann", b"1")?);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub trait MapForm: RadixForm + PoolEntryForm + PimForm {
    /// A value as a map of any placement returns it.
    #[doc(hidden)]
    type AnyValue<'m>: Into<Self::OwnedValue> + From<Self::Lent<'m>> + From<Self::OwnedValue>;
    /// The return type of a lookup that fails only if the key is invalid.
    #[doc(hidden)]
    type Lookup<T>: MapReadResult<T>;

    #[doc(hidden)]
    fn lookup_result<T>(result: Result<T, Self::KeyFailure>) -> Self::Lookup<T>;
    #[doc(hidden)]
    fn map_lookup<T, U>(read: Self::Lookup<T>, change: impl FnOnce(T) -> U) -> Self::Lookup<U>;
    #[doc(hidden)]
    fn check_key(key: Self::Key<'_>) -> Result<(), Self::KeyFailure>;

    /// Returns the number of bytes of an entry's key and value.
    #[doc(hidden)]
    fn entry_bytes(key: Self::Key<'_>, value: Self::Value<'_>) -> usize;

    /// Cuts a bound that is longer than any key can be. Returns true if it was. All keys greater
    /// than the cut bound are greater than the given one.
    #[doc(hidden)]
    fn cut(bound: &mut Self::OwnedKey) -> bool;
}

impl MapForm for ByteStrings {
    type AnyValue<'m> = AnyValue<'m>;
    type Lookup<T> = Result<T, OperationError>;

    #[inline]
    fn lookup_result<T>(result: Result<T, OperationError>) -> Result<T, OperationError> {
        result
    }

    #[inline]
    fn map_lookup<T, U>(
        read: Result<T, OperationError>,
        change: impl FnOnce(T) -> U,
    ) -> Result<U, OperationError> {
        read.map(change)
    }

    #[inline]
    fn check_key(key: &[u8]) -> Result<(), OperationError> {
        ByteStrings::check(key, None)
    }

    fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
        key.len() + value.len()
    }

    fn cut(bound: &mut Vec<u8>) -> bool {
        let is_longer = bound.len() > MAX_KEY_BYTES;
        bound.truncate(MAX_KEY_BYTES);
        is_longer
    }
}

impl MapForm for Words {
    type AnyValue<'m> = u64;
    type Lookup<T> = T;

    #[inline]
    fn lookup_result<T>(result: Result<T, Infallible>) -> T {
        always(result)
    }

    #[inline]
    fn map_lookup<T, U>(read: T, change: impl FnOnce(T) -> U) -> U {
        change(read)
    }

    #[inline]
    fn check_key(_key: u64) -> Result<(), Infallible> {
        Ok(())
    }

    #[inline]
    fn entry_bytes(_key: u64, _value: u64) -> usize {
        16
    }

    fn cut(_bound: &mut u64) -> bool {
        false
    }
}
