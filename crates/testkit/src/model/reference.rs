//! The simplest index.

use super::request::{OwnedOperation, OwnedOutcome, State};
use nearfield_core::{Batch, BatchOutput, EntryForm, OperationError, OrderedIndex};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `BTreeMap` behind a lock: the simplest [`OrderedIndex`]. Whole batches exclude each other, so
/// it guarantees more than the trait requires.
#[derive(Debug, Default)]
pub struct Reference<F: EntryForm> {
    state: Mutex<State<F>>,
}

impl<F: EntryForm> Reference<F> {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the entries.
    pub(crate) fn state(&self) -> MutexGuard<'_, State<F>> {
        // A poisoned lock is fine, because no code that holds it leaves the entries half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: EntryForm> OrderedIndex<F> for Reference<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        let (input, mut output) = batch.begin()?;
        let mut state = self.state();
        for (position, operation) in input.operations().iter().enumerate() {
            // Operations that were refused have their outcomes already.
            if let Some(request) = OwnedOperation::read(operation, &input) {
                let answer = request.apply(&mut state);
                write(&mut output, position, &request, &answer);
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.state().len()
    }
}

/// Writes the result of a request as an outcome.
pub(crate) fn write<F: EntryForm>(
    output: &mut BatchOutput<'_, F>,
    position: usize,
    request: &OwnedOperation<F>,
    answer: &OwnedOutcome<F>,
) {
    let entry = |(key, value)| (F::key(key), F::value(value));
    let key = || F::key(request.keys().next().expect("a point operation has a key"));
    match answer {
        OwnedOutcome::Value(value) => output.value(position, key(), value.as_ref().map(F::value)),
        OwnedOutcome::Updated(applied, before) => {
            output.updated(position, key(), *applied, before.as_ref().map(F::value));
        }
        OwnedOutcome::Entry(found) => {
            output.entry(
                position,
                found.as_ref().map(|(key, value)| entry((key, value))),
            );
        }
        OwnedOutcome::Entries(found) => {
            output.entries(
                position,
                found.iter().map(|(key, value)| entry((key, value))),
            );
        }
        OwnedOutcome::KeyTooLong(_) => {
            unreachable!("a batch refuses long keys as they are added")
        }
    }
}
