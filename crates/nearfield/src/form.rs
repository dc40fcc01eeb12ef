//! The forms of entries that a map can hold.

use crate::answer::{Answer, always};
use crate::any_value::AnyValue;
use nearfield_core::{Bytes, Error, Form, MAX_KEY_BYTES, Words};
use nearfield_radix::RadixForm;
use std::convert::Infallible;

#[cfg(feature = "pim")]
pub(crate) use nearfield_pim::PimForm;
#[cfg(feature = "pool")]
pub(crate) use nearfield_pool::store::StoreForm;

/// A bound that every type meets: without the feature `pool`, a form needs no layout for pools.
#[cfg(not(feature = "pool"))]
#[doc(hidden)]
pub trait StoreForm {}
#[cfg(not(feature = "pool"))]
impl<F: Form> StoreForm for F {}

/// A bound that every type meets: without the feature `pim`, a form needs no layout for modules.
#[cfg(not(feature = "pim"))]
#[doc(hidden)]
pub trait PimForm {}
#[cfg(not(feature = "pim"))]
impl<F: Form> PimForm for F {}

/// A form of entries that a [`Map`](crate::Map) can hold: [`Bytes`] or [`Words`]. The set is
/// closed.
///
/// ```
/// use nearfield::{Bytes, Error, Map, MapForm, WordMap};
///
/// fn add<F: MapForm>(map: &Map<F>, key: F::Key<'_>, value: F::Value<'_>) -> Result<bool, Error> {
///     Ok(map.insert(key, value)?.is_none())
/// }
/// assert!(add(&WordMap::new()?, 1, 10)?);
/// assert!(add(&Map::<Bytes>::new()?, b"ann", b"1")?);
/// # Ok::<(), nearfield::Error>(())
/// ```
pub trait MapForm: RadixForm + StoreForm + PimForm {
    /// A value as a map of any placement returns it.
    #[doc(hidden)]
    type AnyValue<'m>: Into<Self::OwnedValue> + From<Self::Lent<'m>> + From<Self::OwnedValue>;
    /// The return type of a lookup that fails only if the key is invalid.
    #[doc(hidden)]
    type Lookup<T>: Answer<T>;

    #[doc(hidden)]
    fn answer_lookup<T>(result: Result<T, Self::KeyFailure>) -> Self::Lookup<T>;
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

impl MapForm for Bytes {
    type AnyValue<'m> = AnyValue<'m>;
    type Lookup<T> = Result<T, Error>;

    #[inline]
    fn answer_lookup<T>(result: Result<T, Error>) -> Result<T, Error> {
        result
    }

    #[inline]
    fn map_lookup<T, U>(read: Result<T, Error>, change: impl FnOnce(T) -> U) -> Result<U, Error> {
        read.map(change)
    }

    #[inline]
    fn check_key(key: &[u8]) -> Result<(), Error> {
        Bytes::check(key, None)
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
    fn answer_lookup<T>(result: Result<T, Infallible>) -> T {
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
