//! Execution of a scenario's steps on an index, compared with sequential execution.

use super::request::{OwnedOperation, OwnedOutcome, OwnedScan, State, is_key_too_long};
use super::scenario::ScenarioStep;
use super::show;
use crate::keys::SampleForm;
use crate::panics;
use nearfield_core::{Batch, OperationError, OrderedIndex, ScanDirection};
use std::cell::Cell;
use std::mem;
use std::ops::Bound;

/// A fault of an index, and the step that shows it.
#[derive(Clone, Debug)]
pub(crate) struct ScenarioFailure {
    pub(crate) step: usize,
    pub(crate) what: String,
}

/// Runs steps on a fresh index. A panic of the index is a failure.
pub(crate) fn attempt<F: SampleForm, I: OrderedIndex<F>>(
    steps: &[ScenarioStep<F>],
    build: impl FnOnce() -> I,
    between: &mut dyn FnMut(&I, u64),
) -> Result<(), ScenarioFailure> {
    // Outside of the closure, so that the step is known after a panic, too.
    let current = Cell::new(0);
    let mut slot = None;
    let result = panics::catch(|| {
        let mut run = ScenarioRun {
            index: &*slot.insert(build()),
            between,
            state: State::<F>::new(),
            batch: Batch::new(),
        };
        steps.iter().enumerate().try_for_each(|(position, step)| {
            current.set(position);
            run.step(step)
        })
    });
    let result = match result {
        // A panic of the destructor is a fault of the index, too.
        Ok(result) => panics::catch(|| drop(slot)).and(result),
        Err(message) => {
            // Leaked, because a broken index may panic again when it is dropped.
            mem::forget(slot);
            Err(message)
        }
    };
    result.map_err(|what| ScenarioFailure {
        step: current.get(),
        what,
    })
}

struct ScenarioRun<'r, F: SampleForm, I> {
    index: &'r I,
    between: &'r mut dyn FnMut(&I, u64),
    state: State<F>,
    batch: Batch<F>,
}

impl<F: SampleForm, I: OrderedIndex<F>> ScenarioRun<'_, F, I> {
    fn step(&mut self, step: &ScenarioStep<F>) -> Result<(), String> {
        match step {
            ScenarioStep::Batch(requests) => self.batch(requests)?,
            ScenarioStep::Single(request) => self.single(request)?,
            ScenarioStep::Between(number) => (self.between)(self.index, *number),
            ScenarioStep::Inspect => self.inspect()?,
        }
        let (len, expected) = (self.index.len(), self.state.len());
        if len == expected {
            Ok(())
        } else {
            Err(format!("len is {len}, expected {expected}"))
        }
    }

    fn batch(&mut self, requests: &[OwnedOperation<F>]) -> Result<(), String> {
        // One batch for all steps, so that leftovers of the last one would show.
        self.batch.clear();
        for request in requests {
            request.add_to(&mut self.batch);
        }
        debug_assert_eq!(
            self.batch.len(),
            requests.len(),
            "a request has one position"
        );
        let result = self.index.execute(&mut self.batch);
        result.map_err(|error| format!("the batch is refused: {error}"))?;
        for (position, request) in requests.iter().enumerate() {
            // One after the other, which is what the batch must be equivalent to.
            let expected = request.expected(&mut self.state);
            let outcome = self.batch.outcome(position);
            if !expected.agrees(&outcome) {
                return Err(format!(
                    "position {position}, {}: {}, expected {}",
                    show::call("batch", request),
                    show::outcome(&outcome),
                    show::answer(&expected)
                ));
            }
        }
        Ok(())
    }

    fn single(&mut self, request: &OwnedOperation<F>) -> Result<(), String> {
        let expected = request.expected(&mut self.state);
        let result = single(self.index, request);
        let agrees = match (&result, &expected) {
            (Err(error), &OwnedOutcome::KeyTooLong(bytes)) => is_key_too_long(error, bytes),
            (Err(_), _) => false,
            (Ok(answer), expected) => answer == expected,
        };
        if agrees {
            return Ok(());
        }
        Err(format!(
            "{}: {}, expected {}",
            show::call("index", request),
            result
                .as_ref()
                .map_or_else(ToString::to_string, show::answer),
            show::answer(&expected)
        ))
    }

    fn inspect(&mut self) -> Result<(), String> {
        self.index.check_invariants();
        if self.index.is_empty() != self.state.is_empty() {
            return Err(format!("is_empty is {}", self.index.is_empty()));
        }
        // Both directions, because indexes have separate code for them.
        let everything = [ScanDirection::Ascending, ScanDirection::Descending].map(|direction| {
            OwnedOperation::Scan(OwnedScan {
                low: Bound::Unbounded,
                high: Bound::Unbounded,
                limit: u32::MAX,
                direction,
            })
        });
        self.batch(&everything)
    }
}

fn single<F: SampleForm>(
    index: &impl OrderedIndex<F>,
    request: &OwnedOperation<F>,
) -> Result<OwnedOutcome<F>, OperationError> {
    match request {
        OwnedOperation::Get(key) => index.get(F::key(key)).map(OwnedOutcome::Value),
        OwnedOperation::Insert(key, value) => index
            .insert(F::key(key), F::value(value))
            .map(OwnedOutcome::Value),
        OwnedOperation::Update(key, previous, value) => {
            let previous = previous.as_ref().map(F::value);
            let answer = index.update(F::key(key), previous, F::value(value));
            answer.map(|(applied, before)| OwnedOutcome::Updated(applied, before))
        }
        OwnedOperation::Remove(key) => index.remove(F::key(key)).map(OwnedOutcome::Value),
        OwnedOperation::RemoveIf(key, expected) => {
            let answer = index.remove_if(F::key(key), F::value(expected));
            answer.map(|(applied, before)| OwnedOutcome::Updated(applied, before))
        }
        OwnedOperation::Predecessor(_) | OwnedOperation::Successor(_) | OwnedOperation::Scan(_) => {
            unreachable!("the trait has no single operation for {request:?}")
        }
    }
}
