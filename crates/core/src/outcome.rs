//! The result of one operation.

use crate::{Error, Form, Words};

/// The result of one operation, borrowed from its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a, F: Form> {
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
    Failed(Error),
}

/// An [`Outcome`] as a batch stores it, written by an index through [`Output`](crate::Output).
// The enum is flat, and long parts are stored elsewhere, because one is written and read for each
// operation.
#[derive(Clone, Debug)]
pub enum StoredOutcome<F: Form> {
    /// The operation has not been executed yet.
    Pending,
    /// An [`Outcome::Value`] of an absent key.
    NoValue,
    /// An [`Outcome::Value`].
    Value(F::StoredValue),
    /// An [`Outcome::Updated`] of a key that was absent before; true if it was applied.
    UpdatedNone(bool),
    /// An [`Outcome::Updated`]; true if it was applied.
    Updated(bool, F::StoredValue),
    /// An [`Outcome::Entry`] that found no entry.
    NoEntry,
    /// An [`Outcome::Entry`], by its position in the batch's list of entries.
    Entry(u32),
    /// An [`Outcome::Entries`], by the position of the first entry in the batch's list, and their
    /// number.
    Entries(u32, u32),
    /// An [`Outcome::Failed`].
    Failed(Box<Error>),
}

const _: () = assert!(size_of::<StoredOutcome<Words>>() == 16);
