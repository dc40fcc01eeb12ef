//! One request to an index, as a batch stores it.

use crate::{Form, Words};

/// Which way a scan walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the lower bound upwards.
    #[default]
    Ascending,
    /// From the upper bound downwards.
    Descending,
}

/// Where a batch keeps the value that an update or a conditional remove compares with;
/// [`Input::previous`](crate::Input::previous) reads it.
#[derive(Clone, Copy, Debug)]
pub struct Previous(pub(crate) u32);

/// Where a batch keeps the bounds of a scan; [`Input::range`](crate::Input::range) reads them.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange(pub(crate) u32);

/// One request. Keys and values are in the stored form of `F`; [`Input`](crate::Input) reads them.
// Parts that only some kinds have, and long ones, lie apart: the common kinds are read a million
// times a second, and stay short.
#[derive(Clone, Copy, Debug)]
pub enum Operation<F: Form> {
    /// Reads the value of a key.
    Get {
        /// The key.
        key: F::StoredKey,
    },
    /// Sets the value of a key, present or not, and answers the old one.
    Insert {
        /// The key.
        key: F::StoredKey,
        /// The value from now on.
        value: F::StoredValue,
    },
    /// Sets the value of a key if its value now is `previous`, and answers the value now.
    Update {
        /// The key.
        key: F::StoredKey,
        /// The value from then on.
        value: F::StoredValue,
        /// The value to compare with, which may be none: then the key must be absent.
        previous: Previous,
    },
    /// Removes a key and answers its value.
    Remove {
        /// The key.
        key: F::StoredKey,
    },
    /// Removes a key if its value now is `previous`, and answers the value now.
    RemoveIf {
        /// The key.
        key: F::StoredKey,
        /// The value to compare with, which is never none.
        previous: Previous,
    },
    /// Finds the entry with the greatest key at or below `key`.
    Predecessor {
        /// The key.
        key: F::StoredKey,
    },
    /// Finds the entry with the least key at or above `key`.
    Successor {
        /// The key.
        key: F::StoredKey,
    },
    /// Reads the entries between two bounds, at most `limit` of them, in `direction`.
    Scan {
        /// The bounds. A range that ends before it begins is empty.
        range: ScanRange,
        /// The greatest number of entries.
        limit: u32,
        /// Which end the entries are counted and listed from.
        direction: Direction,
    },
    /// An operation that was refused as it was added to the batch; its outcome says why.
    Refused,
}

const _: () = assert!(size_of::<Operation<Words>>() == 24);

impl<F: Form> Operation<F> {
    /// The key, if this is an operation on one key: a get, insert, update, remove or conditional
    /// remove.
    pub fn point_key(&self) -> Option<F::StoredKey> {
        match *self {
            Operation::Get { key }
            | Operation::Insert { key, .. }
            | Operation::Update { key, .. }
            | Operation::Remove { key }
            | Operation::RemoveIf { key, .. } => Some(key),
            _ => None,
        }
    }

    /// True for operations that can change the index.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Operation::Insert { .. }
                | Operation::Update { .. }
                | Operation::Remove { .. }
                | Operation::RemoveIf { .. }
        )
    }

    /// True for scan, predecessor and successor.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            Operation::Scan { .. } | Operation::Predecessor { .. } | Operation::Successor { .. }
        )
    }
}
