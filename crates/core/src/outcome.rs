//! The result of one operation.

use crate::{EntryForm, OperationError, Words};

/// The result of one operation, borrowed from its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationOutcome<'a, F: EntryForm> {
    /// The batch has not been executed.
    Pending,
    /// The value of a get, or the old value of an insert or remove; `None` if the key was absent.
    Value(Option<F::Value<'a>>),
    /// The result of an update or a conditional remove.
    Updated {
        /// True if the comparison held, so that the value was set or the key removed.
        applied: bool,
        /// The value before the operation, `None` if the key was absent.
        before: Option<F::Value<'a>>,
    },
    /// The entry that a predecessor or successor found.
    Entry(Option<(F::Key<'a>, F::Value<'a>)>),
    /// The entries of a scan, in its direction.
    Entries(Vec<(F::Key<'a>, F::Value<'a>)>),
    /// The operation was refused and changed nothing.
    Failed(OperationError),
}

/// An [`OperationOutcome`] as a batch stores it, written by an index through
/// [`BatchOutput`](crate::BatchOutput).
// The enum is flat, and long parts are stored elsewhere, because one is written and read for each
// operation.
#[derive(Clone, Debug)]
pub enum StoredOutcome<F: EntryForm> {
    /// The operation has not been executed yet.
    Pending,
    /// An [`OperationOutcome::Value`] of an absent key.
    NoValue,
    /// An [`OperationOutcome::Value`].
    Value(F::StoredValue),
    /// An [`OperationOutcome::Updated`] of a key that was absent before; true if it was applied.
    UpdatedNone(bool),
    /// An [`OperationOutcome::Updated`]; true if it was applied.
    Updated(bool, F::StoredValue),
    /// An [`OperationOutcome::Entry`] that found no entry.
    NoEntry,
    /// An [`OperationOutcome::Entry`], by its position in the batch's list of entries.
    Entry(u32),
    /// An [`OperationOutcome::Entries`], by the position of the first entry in the batch's list,
    /// and their number.
    Entries(u32, u32),
    /// An [`OperationOutcome::Failed`].
    Failed(Box<OperationError>),
}

const _: () = assert!(size_of::<StoredOutcome<Words>>() == 16);
