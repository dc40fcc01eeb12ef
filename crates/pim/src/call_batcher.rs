//! Batching of single operations of concurrent callers.
//!
//! A round takes as long for one operation as for hundreds. If no round is in flight, a caller
//! becomes the leader: it executes all waiting operations in one batch. Callers that arrive
//! meanwhile wait, and the first of them leads the next batch. So n callers take at most two rounds
//! instead of n.

use nearfield_core::{Batch, EntryForm, OperationError, OperationOutcome, OrderedIndex};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An index whose single operations are gathered into batches.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_pim::device::Workers;
/// use nearfield_pim::call_batcher::CallBatcher;
/// use nearfield_pim::radar::{Radar, RadarOptions};
///
/// let radar = Radar::new(Workers::new(4, 1 << 20, 2), RadarOptions::on_workers());
/// let index: CallBatcher<Words, _> = CallBatcher::new(radar);
/// std::thread::scope(|scope| {
///     for key in 0..8 {
///         let index = &index;
///         scope.spawn(move || assert_eq!(index.insert(key, !key), Ok(None)));
///     }
/// });
/// assert_eq!(index.len(), 8);
/// ```
#[derive(Debug)]
pub struct CallBatcher<F: EntryForm, I> {
    index: I,
    line: Mutex<CallerQueue<F>>,
}

/// The queue of waiting callers.
#[derive(Debug)]
struct CallerQueue<F: EntryForm> {
    waiting: Vec<QueuedCall<F>>,
    /// True if a caller is the leader.
    is_led: bool,
}

/// An operation, and the place for its result.
#[derive(Debug)]
struct QueuedCall<F: EntryForm> {
    operation: Single<F>,
    place: Arc<CallSlot<F>>,
}

#[derive(Debug)]
enum Single<F: EntryForm> {
    Get(F::OwnedKey),
    Insert(F::OwnedKey, F::OwnedValue),
    Update(F::OwnedKey, Option<F::OwnedValue>, F::OwnedValue),
    Remove(F::OwnedKey),
    RemoveIf(F::OwnedKey, F::OwnedValue),
}

/// The result of an operation: true if an update or a conditional remove was applied, and the old
/// value.
type Met<F> = (bool, Option<<F as EntryForm>::OwnedValue>);

/// The place where a caller waits.
#[derive(Debug)]
struct CallSlot<F: EntryForm> {
    state: Mutex<CallState<F>>,
    changed: Condvar,
}

#[derive(Debug)]
enum CallState<F: EntryForm> {
    Waits,
    /// The caller must execute all waiting operations, including its own.
    Leads,
    Answered(Result<Met<F>, OperationError>),
}

/// Locks a mutex, even if it is poisoned: the protected state is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: EntryForm> CallSlot<F> {
    fn set(&self, state: CallState<F>) {
        *lock(&self.state) = state;
        self.changed.notify_one();
    }

    /// Waits for the result and returns it; `None` if the caller must lead.
    fn wait(&self) -> Option<Result<Met<F>, OperationError>> {
        let mut state = lock(&self.state);
        loop {
            // The state is checked before the first wait, because the leader may have set it
            // already. Taking it leaves `Waits`, so that a spurious wakeup finds nothing to return.
            match std::mem::replace(&mut *state, CallState::Waits) {
                CallState::Answered(answer) => return Some(answer),
                CallState::Leads => return None,
                CallState::Waits => {}
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<F: EntryForm> Single<F> {
    fn add(&self, batch: &mut Batch<F>) {
        match self {
            Single::Get(key) => batch.get(F::key(key)),
            Single::Insert(key, value) => batch.insert(F::key(key), F::value(value)),
            Single::Update(key, previous, value) => {
                let previous = previous.as_ref().map(F::value);
                batch.update(F::key(key), previous, F::value(value))
            }
            Single::Remove(key) => batch.remove(F::key(key)),
            Single::RemoveIf(key, expected) => batch.remove_if(F::key(key), F::value(expected)),
        };
    }
}

/// The callers whose operations are being executed. When this is dropped, even by a panic, each of
/// them has a result, and another caller leads.
struct LeaderBatch<'g, F: EntryForm> {
    line: &'g Mutex<CallerQueue<F>>,
    taken: Vec<QueuedCall<F>>,
    answers: Vec<Result<Met<F>, OperationError>>,
}

impl<F: EntryForm> Drop for LeaderBatch<'_, F> {
    fn drop(&mut self) {
        let mut line = lock(self.line);
        // The next leader is named before the results are handed out, so that its round begins
        // while these callers still wake up.
        match line.waiting.first() {
            Some(next) => next.place.set(CallState::Leads),
            None => line.is_led = false,
        }
        // The next leader takes this lock first, so it is not held while results are handed out.
        drop(line);
        let mut answers = self.answers.drain(..);
        for waiting in &self.taken {
            // After a panic there are fewer results than callers. It is unknown which of their
            // operations took effect.
            let answer = answers.next().unwrap_or_else(|| {
                let what = "the thread that executed it panicked".to_owned();
                Err(OperationError::Unknown { what })
            });
            waiting.place.set(CallState::Answered(answer));
        }
    }
}

impl<F: EntryForm, I: OrderedIndex<F>> CallBatcher<F, I> {
    /// Creates a batcher of the single operations of an index. Batches are passed to the index
    /// unchanged.
    pub fn new(index: I) -> CallBatcher<F, I> {
        let line = CallerQueue {
            waiting: Vec::new(),
            is_led: false,
        };
        CallBatcher {
            index,
            line: Mutex::new(line),
        }
    }

    /// Returns the index.
    pub fn index(&self) -> &I {
        &self.index
    }

    fn ask(&self, operation: Single<F>) -> Result<Met<F>, OperationError> {
        let place = Arc::new(CallSlot {
            state: Mutex::new(CallState::Waits),
            changed: Condvar::new(),
        });
        let mut line = lock(&self.line);
        line.waiting.push(QueuedCall {
            operation,
            place: Arc::clone(&place),
        });
        // The flag is read and set under the lock under which the operation was queued. So either a
        // leader will still take the operation, or this caller is the leader.
        let is_led = std::mem::replace(&mut line.is_led, true);
        drop(line);
        if is_led && let Some(answer) = place.wait() {
            return answer;
        }
        let mut turn = LeaderBatch {
            line: &self.line,
            // The queue is taken as late as possible, because callers that arrived since also share
            // this round.
            taken: std::mem::take(&mut lock(&self.line).waiting),
            answers: Vec::new(),
        };
        debug_assert!(!turn.taken.is_empty(), "the leader's own operation waits");
        turn.answers = self.answers(&turn.taken);
        debug_assert_eq!(turn.answers.len(), turn.taken.len());
        // Dropping hands out all results, including this caller's own.
        drop(turn);
        let answer = place.wait();
        answer.unwrap_or_else(|| {
            let what = "no thread executed it".to_owned();
            Err(OperationError::Unknown { what })
        })
    }

    fn answers(&self, waiting: &[QueuedCall<F>]) -> Vec<Result<Met<F>, OperationError>> {
        let mut batch = Batch::with_capacity(waiting.len());
        for waiting in waiting {
            waiting.operation.add(&mut batch);
        }
        match self.index.execute(&mut batch) {
            Ok(()) => (0..waiting.len())
                .map(|position| met(&batch, position))
                .collect(),
            Err(error) if waiting.len() == 1 => vec![Err(error)],
            // If the batch was too large, each caller executes its operation alone.
            Err(_) => waiting
                .iter()
                .flat_map(|waiting| self.answers(std::slice::from_ref(waiting)))
                .collect(),
        }
    }
}

/// Returns the outcome of a point operation of a batch.
fn met<F: EntryForm>(batch: &Batch<F>, position: usize) -> Result<Met<F>, OperationError> {
    match batch.outcome(position) {
        OperationOutcome::Value(value) => Ok((false, value.map(F::own_value))),
        OperationOutcome::Updated { applied, before } => Ok((applied, before.map(F::own_value))),
        OperationOutcome::Failed(error) => Err(error),
        outcome => Err(OperationError::Unknown {
            what: format!("a point operation had the outcome {outcome:?}"),
        }),
    }
}

impl<F: EntryForm, I: OrderedIndex<F>> OrderedIndex<F> for CallBatcher<F, I> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.index.execute(batch)
    }

    fn len(&self) -> usize {
        self.index.len()
    }

    fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn check_invariants(&self) {
        self.index.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, OperationError> {
        let (_, value) = self.ask(Single::Get(F::own_key(key)))?;
        Ok(value)
    }

    fn insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<Option<F::OwnedValue>, OperationError> {
        let operation = Single::Insert(F::own_key(key), F::own_value(value));
        let (_, value) = self.ask(operation)?;
        Ok(value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), OperationError> {
        let previous = previous.map(F::own_value);
        self.ask(Single::Update(
            F::own_key(key),
            previous,
            F::own_value(value),
        ))
    }

    fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, OperationError> {
        let (_, value) = self.ask(Single::Remove(F::own_key(key)))?;
        Ok(value)
    }

    fn remove_if(
        &self,
        key: F::Key<'_>,
        expected: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), OperationError> {
        self.ask(Single::RemoveIf(F::own_key(key), F::own_value(expected)))
    }
}
