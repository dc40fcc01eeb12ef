//! The result of one operation.

use crate::{Error, Form, Words};

/// The result of one operation, borrowed from its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a, F: Form> {
    /// The batch has not been executed.
    Pending,
    /// Of a get: the value; of an insert or remove: the value before; `None` if the key was
    /// absent.
    Value(Option<F::Value<'a>>),
    /// Of an update or a conditional remove.
    Updated {
        /// Whether the comparison held, and the value was set or the key removed.
        applied: bool,
        /// The value before the operation, `None` if the key was absent.
        before: Option<F::Value<'a>>,
    },
    /// Of a predecessor or successor: the entry found.
    Entry(Option<(F::Key<'a>, F::Value<'a>)>),
    /// Of a scan: the entries in the scan's direction.
    Entries(Vec<(F::Key<'a>, F::Value<'a>)>),
    /// The operation was refused and has changed nothing.
    Failed(Error),
}

/// An [`Outcome`] as a batch stores it, written by an index through [`Output`](crate::Output).
// Flat, and long parts lie apart: one is written for each operation, and read again.
#[derive(Clone, Debug)]
pub enum StoredOutcome<F: Form> {
    /// Not executed yet.
    Pending,
    /// See [`Outcome::Value`]: the key was absent.
    NoValue,
    /// See [`Outcome::Value`].
    Value(F::StoredValue),
    /// See [`Outcome::Updated`]: whether it was applied; the key was absent before.
    UpdatedNone(bool),
    /// See [`Outcome::Updated`].
    Updated(bool, F::StoredValue),
    /// See [`Outcome::Entry`]: nothing was found.
    NoEntry,
    /// See [`Outcome::Entry`]: where it stands in the batch's list.
    Entry(u32),
    /// See [`Outcome::Entries`]: where they stand in the batch's list, and how many they are.
    Entries(u32, u32),
    /// See [`Outcome::Failed`].
    Failed(Box<Error>),
}

const _: () = assert!(size_of::<StoredOutcome<Words>>() == 16);
