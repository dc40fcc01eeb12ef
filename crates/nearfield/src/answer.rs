//! The return type of a read: a value, or a `Result` where the read can fail.

use nearfield_core::Error;
use std::convert::Infallible;

/// The return type of a read: `T`, or `Result<T, Error>` where the read can fail.
///
/// Code that is generic over placements turns both into a `Result`:
///
/// ```
/// use nearfield::{Answer, Error, Map, MapForm, Placement};
///
/// fn count<F: MapForm, P: Placement<F>>(map: &Map<F, P>) -> Result<usize, Error> {
///     map.len().into_result()
/// }
/// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
/// assert_eq!(count(&map)?, 1);
/// # Ok::<(), nearfield::Error>(())
/// ```
pub trait Answer<T> {
    /// Returns the value as a `Result`, which is `Ok` where a read cannot fail.
    ///
    /// # Errors
    /// The error of the read.
    ///
    /// ```
    /// use nearfield::{Answer, AnyPlacement, Map, WordMap, Words};
    ///
    /// let local = WordMap::from_sorted([(1, 10)])?;
    /// assert_eq!(local.get(1).into_result(), Ok(Some(10)));
    /// let any: Map<Words, AnyPlacement> = local.into();
    /// assert_eq!(any.get(1).into_result(), Ok(Some(10)));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    fn into_result(self) -> Result<T, Error>;
}

impl<T> Answer<T> for T {
    #[inline]
    fn into_result(self) -> Result<T, Error> {
        Ok(self)
    }
}

impl<T> Answer<T> for Result<T, Error> {
    #[inline]
    fn into_result(self) -> Result<T, Error> {
        self
    }
}

/// Returns the value of a result that cannot be an error.
#[inline]
pub(crate) fn always<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
    }
}
