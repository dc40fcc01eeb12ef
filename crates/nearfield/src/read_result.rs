//! The return type of a read: a value, or a `Result` where the read can fail.

use nearfield_core::OperationError;
use std::convert::Infallible;

/// The return type of a read: `T`, or `Result<T, OperationError>` where the read can fail.
///
/// Code that is generic over placements turns both into a `Result`:
///
/// ```
/// use nearfield::{MapReadResult, OperationError, OrderedMap, MapForm, MapPlacement};
///
/// fn count<F: MapForm, P: MapPlacement<F>>(
///     map: &OrderedMap<F, P>,
/// ) -> Result<usize, OperationError> {
///     map.len().into_result()
/// }
/// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
/// assert_eq!(count(&map)?, 1);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub trait MapReadResult<T> {
    /// Returns the value as a `Result`, which is `Ok` where a read cannot fail.
    ///
    /// # Errors
    /// The error of the read.
    ///
    /// ```
    /// use nearfield::{MapReadResult, AnyPlacement, OrderedMap, WordMap, Words};
    ///
    /// let local = WordMap::from_sorted([(1, 10)])?;
    /// assert_eq!(local.get(1).into_result(), Ok(Some(10)));
    /// let any: OrderedMap<Words, AnyPlacement> = local.into();
    /// assert_eq!(any.get(1).into_result(), Ok(Some(10)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    fn into_result(self) -> Result<T, OperationError>;
}

impl<T> MapReadResult<T> for T {
    #[inline]
    fn into_result(self) -> Result<T, OperationError> {
        Ok(self)
    }
}

impl<T> MapReadResult<T> for Result<T, OperationError> {
    #[inline]
    fn into_result(self) -> Result<T, OperationError> {
        self
    }
}

/// Returns the value of a result that cannot be an error.
#[inline]
pub(crate) fn always<T>(result: Result<T, Infallible>) -> T {
    // `Infallible` has no values, so `Err` needs no arm.
    match result {
        Ok(value) => value,
    }
}
