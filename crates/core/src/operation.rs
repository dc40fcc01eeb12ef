//! One request to an index, as a batch stores it.

use crate::{Form, Words};

/// The direction in which a scan lists entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Ascending order, from the lower bound.
    #[default]
    Ascending,
    /// Descending order, from the upper bound.
    Descending,
}

/// The place where a batch stores the value that an update or a conditional remove compares with;
/// [`Input::previous`](crate::Input::previous) reads it.
#[derive(Clone, Copy, Debug)]
pub struct Previous(pub(crate) u32);

/// The place where a batch stores the bounds of a scan; [`Input::range`](crate::Input::range) reads
/// them.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange(pub(crate) u32);

/// One request. Keys and values are in the stored form of `F`; [`Input`](crate::Input) reads them.
// Parts that only some kinds have, and long ones, are stored elsewhere. The common kinds, which are
// read millions of times a second, so stay short.
#[derive(Clone, Copy, Debug)]
pub enum Operation<F: Form> {
    /// A read of the value of a key.
    Get {
        /// The key.
        key: F::StoredKey,
    },
    /// A write of the value of a key, present or not. The outcome is the old value.
    Insert {
        /// The key.
        key: F::StoredKey,
        /// The new value.
        value: F::StoredValue,
    },
    /// A write of the value of a key if the old value equals `previous`. The outcome holds the old
    /// value.
    Update {
        /// The key.
        key: F::StoredKey,
        /// The new value.
        value: F::StoredValue,
        /// The value to compare with, which may be `None`: the key must then be absent.
        previous: Previous,
    },
    /// A removal of a key. The outcome is its value.
    Remove {
        /// The key.
        key: F::StoredKey,
    },
    /// A removal of a key if its value equals `previous`. The outcome holds its value.
    RemoveIf {
        /// The key.
        key: F::StoredKey,
        /// The value to compare with, which is never `None`.
        previous: Previous,
    },
    /// A search for the entry with the greatest key at or below `key`.
    Predecessor {
        /// The key.
        key: F::StoredKey,
    },
    /// A search for the entry with the least key at or above `key`.
    Successor {
        /// The key.
        key: F::StoredKey,
    },
    /// A read of the entries between two bounds, at most `limit` of them, in `direction`.
    Scan {
        /// The bounds. A range that ends before it begins is empty.
        range: ScanRange,
        /// The greatest number of entries.
        limit: u32,
        /// The end from which the entries are counted and listed.
        direction: Direction,
    },
    /// An operation that was refused when it was added to the batch; its outcome holds the error.
    Refused,
}

const _: () = assert!(size_of::<Operation<Words>>() == 24);

impl<F: Form> Operation<F> {
    /// Returns the key, if this is an operation on one key: a get, insert, update, remove or
    /// conditional remove.
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

    /// Returns true for operations that can change the index.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Operation::Insert { .. }
                | Operation::Update { .. }
                | Operation::Remove { .. }
                | Operation::RemoveIf { .. }
        )
    }

    /// Returns true for scan, predecessor and successor.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            Operation::Scan { .. } | Operation::Predecessor { .. } | Operation::Successor { .. }
        )
    }
}
