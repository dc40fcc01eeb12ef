//! The places for the entries of a map, and the return types of reads there.
//!
//! A placement is a type parameter of [`OrderedMap`](crate::OrderedMap). All placements have the
//! same methods. They differ in whether a read can fail: one of this machine's memory cannot, one
//! of a memory node, module or disk can. [`MapPlacement::Read`] states it in the type, so that
//! reads of a local map need no `?`.

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
pub(crate) use pool::ProgramNodes;
#[cfg(feature = "pool")]
pub use pool::{
    PoolNodeContent, PoolNodeStatus, PoolNodeUse, PoolPlacement, PoolUse, RejoinedPoolNode,
};
#[cfg(feature = "tiers")]
pub use tiered::TieredPlacement;

use crate::form::MapForm;
use crate::read_result::MapReadResult;
use nearfield_core::{OperationError, OrderedIndex, ScanDirection};
use nearfield_radix::Entry;
use std::fmt::Debug;
use std::ops::Bound;

/// Module that keeps [`MapPlacement`] closed: only this crate can implement it.
pub(crate) mod sealed {
    /// Marker of the placements of this crate.
    pub trait SealedPlacement {}
}

/// A place for the entries of an [`OrderedMap`](crate::OrderedMap): [`Local`], `PoolPlacement`,
/// `Pim`, for byte strings `TieredPlacement`, or [`AnyPlacement`], which is one of them chosen at
/// run time. The set is closed.
///
/// | placement | `Read<T>` | `Lookup<T>` of words | of byte strings |
/// |---|---|---|---|
/// | [`Local`] | `T` | `T` | a `Result`, as a key may be too long |
/// | all others | a `Result` | a `Result` | a `Result` |
///
/// Code that is generic over placements turns each read into a `Result` by [`MapReadResult`]:
///
/// ```
/// use nearfield::{MapReadResult, AnyPlacement, OperationError, MapPlacement, WordMap, Words};
///
/// fn sum<P: MapPlacement<Words>>(map: &WordMap<P>) -> Result<u64, OperationError> {
///     map.range(..).try_fold(0, |sum, entry| Ok(sum + entry.into_result()?.1))
/// }
/// let local = WordMap::from_sorted([(1, 10), (2, 20)])?;
/// assert_eq!(sum(&local)?, 30);
/// assert_eq!(sum::<AnyPlacement>(&local.into())?, 30);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub trait MapPlacement<F: MapForm>: sealed::SealedPlacement + Sized + Debug + 'static {
    /// The return type of a read without a key, such as [`first`](crate::OrderedMap::first).
    type Read<T>: MapReadResult<T>;
    /// The return type of a lookup of a key, such as [`get`](crate::OrderedMap::get).
    type Lookup<T>: MapReadResult<T>;
    /// A value as [`get`](crate::OrderedMap::get) returns it: lent without a copy, or owned.
    type Value<'m>: Into<F::OwnedValue>;

    /// The index that executes operations.
    #[doc(hidden)]
    type Index: OrderedIndex<F> + Debug;
    /// The error of a read without a key: `Infallible` or [`OperationError`].
    #[doc(hidden)]
    type Failure: Into<OperationError>;
    /// The error of a read of a key.
    #[doc(hidden)]
    type LookupFailure: Into<OperationError> + From<Self::Failure>;

    /// The greatest number of entries that a range reads ahead at once. It is larger where a chunk
    /// costs a round trip, or a round between threads, than in this machine's memory.
    #[doc(hidden)]
    const CHUNK_MAX: usize = 4096;

    #[doc(hidden)]
    fn read_result<T>(result: Result<T, Self::Failure>) -> Self::Read<T>;
    #[doc(hidden)]
    fn lookup_result<T>(result: Result<T, Self::LookupFailure>) -> Self::Lookup<T>;
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
        direction: ScanDirection,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, Self::Failure>;
}

/// The lower and the upper bound of a range.
#[doc(hidden)]
pub type Bounds<'k, F> = (
    Bound<<F as nearfield_core::EntryForm>::Key<'k>>,
    Bound<<F as nearfield_core::EntryForm>::Key<'k>>,
);

/// The common part of the implementations of placements with reads that can fail.
macro_rules! fallible_reads {
    ($form:ty) => {
        type Read<T> = Result<T, OperationError>;
        type Lookup<T> = Result<T, OperationError>;
        type Failure = OperationError;
        type LookupFailure = OperationError;

        #[inline]
        fn read_result<T>(result: Result<T, OperationError>) -> Result<T, OperationError> {
            result
        }

        #[inline]
        fn lookup_result<T>(result: Result<T, OperationError>) -> Result<T, OperationError> {
            result
        }

        #[inline]
        fn map<T, U>(
            read: Result<T, OperationError>,
            change: impl FnOnce(T) -> U,
        ) -> Result<U, OperationError> {
            read.map(change)
        }

        #[inline]
        fn map_lookup<T, U>(
            read: Result<T, OperationError>,
            change: impl FnOnce(T) -> U,
        ) -> Result<U, OperationError> {
            read.map(change)
        }

        #[inline]
        fn check_key(
            key: <$form as nearfield_core::EntryForm>::Key<'_>,
        ) -> Result<(), OperationError> {
            <$form as nearfield_core::EntryForm>::check(key, None)
        }
    };
}
pub(crate) use fallible_reads;
