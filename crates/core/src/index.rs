//! The trait that all placements implement.

use crate::{Batch, EntryForm, OperationError, OperationOutcome};

/// The result of an operation that reads, sets or removes the value of a key: the value that it
/// had, if any.
pub type PointResult<F> = Result<Option<<F as EntryForm>::OwnedValue>, OperationError>;

/// The result of an operation that first compares the value of a key: true if it was applied, and
/// the value that the key had.
pub type ComparisonResult<F> = Result<(bool, Option<<F as EntryForm>::OwnedValue>), OperationError>;

/// An ordered index: a map from keys to values that executes batches.
///
/// A placement implements [`execute`](OrderedIndex::execute), and overrides the single operations
/// where it has a shorter path than a batch of one. Any number of threads may call all methods at
/// once; the crate's documentation states the guarantees.
pub trait OrderedIndex<F: EntryForm>: Send + Sync {
    /// Executes a batch and writes an outcome for each of its operations. The batch is serially
    /// equivalent to its operations in order (see the crate's documentation).
    ///
    /// # Errors
    /// Nothing has been executed. Operations that fail alone have an [`OperationOutcome::Failed`].
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError>;

    /// Returns the number of entries; exact while no writer is active.
    fn len(&self) -> usize;

    /// Returns true if there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every invariant of the structure, for tests and simulators.
    ///
    /// # Panics
    /// If an invariant is broken. Call it only while no writer is active.
    fn check_invariants(&self) {}

    /// Reads the value of a key.
    ///
    /// # Errors
    /// Those of the operation.
    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        let mut batch = Batch::new();
        batch.get(key);
        self.execute(&mut batch)?;
        only_value(&batch)
    }

    /// Sets the value of a key and returns the old one.
    ///
    /// # Errors
    /// Those of the operation.
    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        let mut batch = Batch::new();
        batch.insert(key, value);
        self.execute(&mut batch)?;
        only_value(&batch)
    }

    /// Sets the value of a key if the old one equals `previous` (`None`: absent). Returns true if
    /// it was set, and the old value.
    ///
    /// # Errors
    /// Those of the operation.
    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        let mut batch = Batch::new();
        batch.update(key, previous, value);
        self.execute(&mut batch)?;
        only_updated(&batch)
    }

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// Those of the operation.
    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        let mut batch = Batch::new();
        batch.remove(key);
        self.execute(&mut batch)?;
        only_value(&batch)
    }

    /// Removes a key if its value equals `expected`. Returns true if it was removed, and the old
    /// value.
    ///
    /// # Errors
    /// Those of the operation.
    fn remove_if(&self, key: F::Key<'_>, expected: F::Value<'_>) -> ComparisonResult<F> {
        let mut batch = Batch::new();
        batch.remove_if(key, expected);
        self.execute(&mut batch)?;
        only_updated(&batch)
    }
}

fn only_value<F: EntryForm>(batch: &Batch<F>) -> PointResult<F> {
    match batch.outcome(0) {
        OperationOutcome::Value(value) => Ok(value.map(F::own_value)),
        OperationOutcome::Failed(error) => Err(error),
        outcome => unreachable!("a point operation had the outcome {outcome:?}"),
    }
}

fn only_updated<F: EntryForm>(batch: &Batch<F>) -> ComparisonResult<F> {
    match batch.outcome(0) {
        OperationOutcome::Updated { applied, before } => Ok((applied, before.map(F::own_value))),
        OperationOutcome::Failed(error) => Err(error),
        outcome => unreachable!("a comparing operation had the outcome {outcome:?}"),
    }
}
