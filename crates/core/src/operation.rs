//! One request to an index, as a batch stores it.

use crate::{EntryForm, Words};

/// The direction in which a scan lists entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanDirection {
    /// Ascending order, from the lower bound.
    #[default]
    Ascending,
    /// Descending order, from the upper bound.
    Descending,
}

/// The place where a batch stores the value that an update or a conditional remove compares with;
/// [`BatchInput::previous`](crate::BatchInput::previous) reads it.
#[derive(Clone, Copy, Debug)]
pub struct Previous(pub(crate) u32);

/// The place where a batch stores the bounds of a scan;
/// [`BatchInput::range`](crate::BatchInput::range) reads them.
#[derive(Clone, Copy, Debug)]
pub struct ScanBoundsHandle(pub(crate) u32);

/// One request. Keys and values are in the stored form of `F`; [`BatchInput`](crate::BatchInput)
/// reads them.
// Parts that only some kinds have, and long ones, are stored elsewhere. The common kinds, which are
// read millions of times a second, so stay short.
#[derive(Clone, Copy, Debug)]
pub enum IndexOperation<F: EntryForm> {
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
        range: ScanBoundsHandle,
        /// The greatest number of entries.
        limit: u32,
        /// The end from which the entries are counted and listed.
        direction: ScanDirection,
    },
    /// An operation that was refused when it was added to the batch; its outcome holds the error.
    Refused,
}

const _: () = assert!(size_of::<IndexOperation<Words>>() == 24);

impl<F: EntryForm> IndexOperation<F> {
    /// Returns the key, if this is an operation on one key: a get, insert, update, remove or
    /// conditional remove.
    pub fn point_key(&self) -> Option<F::StoredKey> {
        match *self {
            IndexOperation::Get { key }
            | IndexOperation::Insert { key, .. }
            | IndexOperation::Update { key, .. }
            | IndexOperation::Remove { key }
            | IndexOperation::RemoveIf { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns true for operations that can change the index.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            IndexOperation::Insert { .. }
                | IndexOperation::Update { .. }
                | IndexOperation::Remove { .. }
                | IndexOperation::RemoveIf { .. }
        )
    }

    /// Returns true for scan, predecessor and successor.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            IndexOperation::Scan { .. }
                | IndexOperation::Predecessor { .. }
                | IndexOperation::Successor { .. }
        )
    }
}
