//! A value read from a map whose placement is chosen at run time.

use nearfield_radix::ValueRef;
use std::ops::Deref;

/// A byte string read from a map of [`AnyPlacement`](crate::AnyPlacement): lent by the local index,
/// or owned.
///
/// ```
/// use nearfield::{AnyPlacement, ByteStrings, OrderedMap};
///
/// let map = OrderedMap::<ByteStrings>::from_sorted([("ann", "1")])?;
/// let map: OrderedMap<ByteStrings, AnyPlacement> = map.into();
/// let value = map.get(b"ann")?.expect("present");
/// assert_eq!((&*value, value.len()), (&b"1"[..], 1));
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Debug)]
pub enum AnyValue<'m> {
    /// Value lent by the local index; see [`ValueRef`] for how long to hold it.
    Lent(ValueRef<'m>),
    /// Value copied from elsewhere.
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
