//! The places for the entries of a map, and the return types of reads there.
//!
//! A placement is a type parameter of [`Map`](crate::Map). All placements have the same methods.
//! They differ in whether a read can fail: one of this machine's memory cannot, one of a memory
//! node, module or disk can. [`Placement::Read`] states it in the type, so that reads of a local
//! map need no `?`.

mod any;
#[cfg(any(feature = "pool", feature = "pim", feature = "tiers"))]
mod by_batch;
mod local;
#[cfg(feature = "pim")]
mod pim;
#[cfg(feature = "pool")]
mod pool;
#[cfg(feature = "tiers")]
mod tiered;

pub(crate) use any::AnyIndex;
pub use any::AnyPlacement;
pub use local::Local;
#[cfg(feature = "pim")]
pub use pim::Pim;
#[cfg(feature = "pool")]
pub use pool::Pool;
#[cfg(feature = "pool")]
pub(crate) use pool::ProgramNodes;
#[cfg(feature = "tiers")]
pub use tiered::Tiered;

use crate::answer::Answer;
use crate::form::MapForm;
use nearfield_core::{Direction, Error, OrderedIndex};
use nearfield_radix::Entry;
use std::fmt::Debug;
use std::ops::Bound;

/// Module that keeps [`Placement`] closed: only this crate can implement it.
pub(crate) mod sealed {
    /// Marker of the placements of this crate.
    pub trait Sealed {}
}

/// A place for the entries of a [`Map`](crate::Map): [`Local`], `Pool`, `Pim`, for byte strings
/// `Tiered`, or [`AnyPlacement`], which is one of them chosen at run time. The set is closed.
///
/// | placement | `Read<T>` | `Lookup<T>` of words | of byte strings |
/// |---|---|---|---|
/// | [`Local`] | `T` | `T` | `Result<T, Error>`, as a key may be too long |
/// | all others | `Result<T, Error>` | `Result<T, Error>` | `Result<T, Error>` |
///
/// Code that is generic over placements turns each read into a `Result` by [`Answer`]:
///
/// ```
/// use nearfield::{Answer, AnyPlacement, Error, Placement, WordMap, Words};
///
/// fn sum<P: Placement<Words>>(map: &WordMap<P>) -> Result<u64, Error> {
///     map.range(..).try_fold(0, |sum, entry| Ok(sum + entry.into_result()?.1))
/// }
/// let local = WordMap::from_sorted([(1, 10), (2, 20)])?;
/// assert_eq!(sum(&local)?, 30);
/// assert_eq!(sum::<AnyPlacement>(&local.into())?, 30);
/// # Ok::<(), nearfield::Error>(())
/// ```
pub trait Placement<F: MapForm>: sealed::Sealed + Sized + Debug + 'static {
    /// The return type of a read without a key, such as [`first`](crate::Map::first).
    type Read<T>: Answer<T>;
    /// The return type of a lookup of a key, such as [`get`](crate::Map::get).
    type Lookup<T>: Answer<T>;
    /// A value as [`get`](crate::Map::get) returns it: lent without a copy, or owned.
    type Value<'m>: Into<F::OwnedValue>;

    /// The index that executes operations.
    #[doc(hidden)]
    type Index: OrderedIndex<F> + Debug;
    /// The error of a read without a key: `Infallible` or [`Error`].
    #[doc(hidden)]
    type Failure: Into<Error>;
    /// The error of a read of a key.
    #[doc(hidden)]
    type LookupFailure: Into<Error> + From<Self::Failure>;

    /// The greatest number of entries that a range reads ahead at once. It is larger where a chunk
    /// costs a round trip, or a round between threads, than in this machine's memory.
    #[doc(hidden)]
    const CHUNK_MAX: usize = 4096;

    #[doc(hidden)]
    fn answer<T>(result: Result<T, Self::Failure>) -> Self::Read<T>;
    #[doc(hidden)]
    fn answer_lookup<T>(result: Result<T, Self::LookupFailure>) -> Self::Lookup<T>;
    /// Converts the result of a read, unless it has failed.
    #[doc(hidden)]
    fn map<T, U>(read: Self::Read<T>, change: impl FnOnce(T) -> U) -> Self::Read<U>;
    #[doc(hidden)]
    fn map_lookup<T, U>(read: Self::Lookup<T>, change: impl FnOnce(T) -> U) -> Self::Lookup<U>;

    #[doc(hidden)]
    fn check_key(key: F::Key<'_>) -> Result<(), Self::LookupFailure>;
    #[doc(hidden)]
    fn get<'m>(
        index: &'m Self::Index,
        key: F::Key<'_>,
    ) -> Result<Option<Self::Value<'m>>, Self::LookupFailure>;
    #[doc(hidden)]
    fn len(index: &Self::Index) -> Result<usize, Self::Failure>;
    /// Passes up to `limit` entries between two bounds to `found`, from the end where `direction`
    /// begins. Returns true if the range has no more entries.
    #[doc(hidden)]
    fn scan(
        index: &Self::Index,
        bounds: Bounds<'_, F>,
        direction: Direction,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, Self::Failure>;
}

/// The lower and the upper bound of a range.
#[doc(hidden)]
pub type Bounds<'k, F> = (
    Bound<<F as nearfield_core::Form>::Key<'k>>,
    Bound<<F as nearfield_core::Form>::Key<'k>>,
);

/// The common part of the implementations of placements with reads that can fail.
macro_rules! fallible_reads {
    ($form:ty) => {
        type Read<T> = Result<T, Error>;
        type Lookup<T> = Result<T, Error>;
        type Failure = Error;
        type LookupFailure = Error;

        #[inline]
        fn answer<T>(result: Result<T, Error>) -> Result<T, Error> {
            result
        }

        #[inline]
        fn answer_lookup<T>(result: Result<T, Error>) -> Result<T, Error> {
            result
        }

        #[inline]
        fn map<T, U>(read: Result<T, Error>, change: impl FnOnce(T) -> U) -> Result<U, Error> {
            read.map(change)
        }

        #[inline]
        fn map_lookup<T, U>(
            read: Result<T, Error>,
            change: impl FnOnce(T) -> U,
        ) -> Result<U, Error> {
            read.map(change)
        }

        #[inline]
        fn check_key(key: <$form as nearfield_core::Form>::Key<'_>) -> Result<(), Error> {
            <$form as nearfield_core::Form>::check(key, None)
        }
    };
}
pub(crate) use fallible_reads;
