//! Execution of a scenario's steps on an index, compared with sequential execution.

use super::request::{Answer, Request, Scan, State, is_key_too_long};
use super::scenario::Step;
use super::show;
use crate::keys::Sample;
use crate::panics;
use nearfield_core::{Batch, Direction, Error, OrderedIndex};
use std::cell::Cell;
use std::mem;
use std::ops::Bound;

/// A fault of an index, and the step that shows it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) step: usize,
    pub(crate) what: String,
}

/// Runs steps on a fresh index. A panic of the index is a failure. Such an index is leaked, because
/// it may panic again when it is dropped.
pub(crate) fn attempt<F: Sample, I: OrderedIndex<F>>(
    steps: &[Step<F>],
    build: impl FnOnce() -> I,
    between: &mut dyn FnMut(&I, u64),
) -> Result<(), Failure> {
    let current = Cell::new(0);
    let mut slot = None;
    let result = panics::catch(|| {
        let mut run = Run {
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
        Ok(result) => panics::catch(|| drop(slot)).and(result),
        Err(message) => {
            mem::forget(slot);
            Err(message)
        }
    };
    result.map_err(|what| Failure {
        step: current.get(),
        what,
    })
}

struct Run<'r, F: Sample, I> {
    index: &'r I,
    between: &'r mut dyn FnMut(&I, u64),
    state: State<F>,
    batch: Batch<F>,
}

impl<F: Sample, I: OrderedIndex<F>> Run<'_, F, I> {
    fn step(&mut self, step: &Step<F>) -> Result<(), String> {
        match step {
            Step::Batch(requests) => self.batch(requests)?,
            Step::Single(request) => self.single(request)?,
            Step::Between(number) => (self.between)(self.index, *number),
            Step::Inspect => self.inspect()?,
        }
        let (len, expected) = (self.index.len(), self.state.len());
        if len == expected {
            Ok(())
        } else {
            Err(format!("len is {len}, expected {expected}"))
        }
    }

    fn batch(&mut self, requests: &[Request<F>]) -> Result<(), String> {
        self.batch.clear();
        for request in requests {
            request.add_to(&mut self.batch);
        }
        let result = self.index.execute(&mut self.batch);
        result.map_err(|error| format!("the batch is refused: {error}"))?;
        for (position, request) in requests.iter().enumerate() {
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

    fn single(&mut self, request: &Request<F>) -> Result<(), String> {
        let expected = request.expected(&mut self.state);
        let result = single(self.index, request);
        let agrees = match (&result, &expected) {
            (Err(error), &Answer::KeyTooLong(bytes)) => is_key_too_long(error, bytes),
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
        let everything = [Direction::Ascending, Direction::Descending].map(|direction| {
            Request::Scan(Scan {
                low: Bound::Unbounded,
                high: Bound::Unbounded,
                limit: u32::MAX,
                direction,
            })
        });
        self.batch(&everything)
    }
}

fn single<F: Sample>(
    index: &impl OrderedIndex<F>,
    request: &Request<F>,
) -> Result<Answer<F>, Error> {
    match request {
        Request::Get(key) => index.get(F::key(key)).map(Answer::Value),
        Request::Insert(key, value) => index
            .insert(F::key(key), F::value(value))
            .map(Answer::Value),
        Request::Update(key, previous, value) => {
            let previous = previous.as_ref().map(F::value);
            let answer = index.update(F::key(key), previous, F::value(value));
            answer.map(|(applied, before)| Answer::Updated(applied, before))
        }
        Request::Remove(key) => index.remove(F::key(key)).map(Answer::Value),
        Request::RemoveIf(key, expected) => {
            let answer = index.remove_if(F::key(key), F::value(expected));
            answer.map(|(applied, before)| Answer::Updated(applied, before))
        }
        Request::Predecessor(_) | Request::Successor(_) | Request::Scan(_) => {
            unreachable!("the trait has no single operation for {request:?}")
        }
    }
}
