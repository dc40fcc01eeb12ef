//! One thread of a concurrent test.

use super::Violation;
use super::ordered::ConcurrentOrderedRead;
use super::plan::{ConcurrentKeyPlan, value_key, value_number};
use crate::history::{CallInterval, HistoryEvent, HistoryRecorder, HistorySession, PointOperation};
use crate::keys::{Random, SampleForm};
use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex};
use rand::RngExt;
use std::thread;

/// The greatest number of ordered reads in a batch.
const ORDERED_MAX: usize = 2;

/// Probability that a batch begins with insertions in ascending order.
const ASCENDING: f64 = 0.1;

pub(crate) struct ConcurrentTestWorker<'t, F: SampleForm, I> {
    index: &'t I,
    plan: &'t ConcurrentKeyPlan<F>,
    recorder: &'t HistoryRecorder,
    number: u64,
    random: Random,
    points: HistorySession,
    /// Sessions of ordered reads. Those of one batch may take effect in any order, and so may their
    /// gets. So the first read of each batch belongs to one session, the second to another.
    ordered: [HistorySession; ORDERED_MAX],
    batch: Batch<F>,
    sequence: u64,
    /// The values found last, by key.
    last_met: Vec<Option<u64>>,
}

/// A point operation on the key with this number, before its outcome is known.
type Planned = (usize, PointOperation);

impl<'t, F: SampleForm, I: OrderedIndex<F>> ConcurrentTestWorker<'t, F, I> {
    pub(crate) fn new(
        index: &'t I,
        plan: &'t ConcurrentKeyPlan<F>,
        recorder: &'t HistoryRecorder,
        number: usize,
        random: Random,
    ) -> Self {
        ConcurrentTestWorker {
            index,
            plan,
            recorder,
            number: number as u64,
            random,
            points: recorder.session(),
            ordered: [(); ORDERED_MAX].map(|()| recorder.session()),
            batch: Batch::new(),
            sequence: 0,
            last_met: vec![None; plan.keys.len()],
        }
    }

    pub(crate) fn into_events(self) -> Vec<HistoryEvent> {
        let mut events = self.points.into_events();
        for session in self.ordered {
            events.extend(session.into_events());
        }
        events
    }

    /// Inserts the stable keys.
    pub(crate) fn fill(&mut self) -> Result<(), Violation> {
        for number in 0..self.plan.keys.len() {
            if let Some(value) = self.plan.stable_value(number) {
                let value = F::seal(value);
                let result = self.index.insert(self.plan.key(number), F::value(&value));
                self.open(number, result)?;
            }
        }
        Ok(())
    }

    /// Reads all keys one by one and with a scan, without concurrent writers.
    pub(crate) fn read_all(&mut self) -> Result<(), Violation> {
        for number in 0..self.plan.keys.len() {
            self.single(number, PointOperation::Get)?;
        }
        self.batch.clear();
        let (position, everything) = ConcurrentOrderedRead::everything(self.plan, &mut self.batch);
        let interval = self.execute()?;
        self.observe(interval, 0, position, &everything)?;
        let scanned = self.batch.entries(position).len();
        // The length is exact while no thread writes.
        if self.index.len() != scanned {
            let len = self.index.len();
            return wrong(format!("len is {len}, but there are {scanned} entries"));
        }
        self.index.check_invariants();
        Ok(())
    }

    /// Executes random operations.
    pub(crate) fn work(&mut self, operations: usize) -> Result<(), Violation> {
        let mut left = operations;
        while left > 0 {
            if self.random.random_bool(self.plan.yields) {
                // With few processors a thread would otherwise run for long without another.
                thread::yield_now();
            }
            if self.random.random_bool(self.plan.singles) {
                let (number, action) = self.plan_operation();
                self.single(number, action)?;
                left -= 1;
            } else {
                let size_max = self.plan.batch_size_max.min(left);
                let size = self.random.random_range(1..=size_max);
                self.execute_batch(size)?;
                left -= size;
            }
        }
        Ok(())
    }

    fn plan_operation(&mut self) -> Planned {
        let [get, insert, update, remove, remove_if] = self.plan.mix;
        let sum = get + insert + update + remove + remove_if;
        let draw = self.random.random_range(0..sum);
        if draw < get {
            return (self.plan.any_key(&mut self.random), PointOperation::Get);
        }
        let number = self.plan.contended_key(&mut self.random);
        let value = value_number(number, self.number, self.sequence);
        self.sequence += 1;
        let action = if draw < get + insert {
            PointOperation::Insert(value)
        } else if draw < get + insert + update {
            PointOperation::Update {
                // The value found last is often still there, so both results occur.
                previous: self.last_met[number],
                value,
                applied: false,
            }
        } else if draw < get + insert + update + remove {
            PointOperation::Remove
        } else {
            PointOperation::RemoveIf {
                // For a key that was absent last, the removal expects a value that no thread has
                // written.
                previous: self.last_met[number].unwrap_or(value),
                applied: false,
            }
        };
        (number, action)
    }

    /// Plans insertions of adjacent contended keys in ascending order: a random number of them, at
    /// most `size`.
    fn plan_ascending(&mut self, size: usize) -> Vec<Planned> {
        let first = self.plan.contended_key(&mut self.random);
        let size = self.random.random_range(0..=size);
        // Every second key is stable, and `first` is contended.
        let numbers = (first..self.plan.keys.len()).step_by(2).take(size);
        numbers
            .map(|number| {
                let value = value_number(number, self.number, self.sequence);
                self.sequence += 1;
                (number, PointOperation::Insert(value))
            })
            .collect()
    }

    fn single(&mut self, number: usize, action: PointOperation) -> Result<(), Violation> {
        let key = self.plan.key(number);
        let (index, recorder) = (self.index, self.recorder);
        let seal = F::seal;
        let (interval, action, result) = match action {
            PointOperation::Get => {
                let (interval, result) = recorder.call(|| index.get(key));
                (interval, action, result)
            }
            PointOperation::Remove => {
                let (interval, result) = recorder.call(|| index.remove(key));
                (interval, action, result)
            }
            PointOperation::Insert(value) => {
                // Sealed before the call: the shorter its interval, the fewer orders explain it.
                let sealed = seal(value);
                let (interval, result) = recorder.call(|| index.insert(key, F::value(&sealed)));
                (interval, action, result)
            }
            PointOperation::Update {
                previous, value, ..
            } => {
                let (before, sealed) = (previous.map(seal), seal(value));
                let (interval, result) = recorder
                    .call(|| index.update(key, before.as_ref().map(F::value), F::value(&sealed)));
                let applied = matches!(result, Ok((true, _)));
                let action = PointOperation::Update {
                    previous,
                    value,
                    applied,
                };
                (interval, action, result.map(|(_, met)| met))
            }
            PointOperation::RemoveIf { previous, .. } => {
                let expected = seal(previous);
                let (interval, result) =
                    recorder.call(|| index.remove_if(key, F::value(&expected)));
                let applied = matches!(result, Ok((true, _)));
                let action = PointOperation::RemoveIf { previous, applied };
                (interval, action, result.map(|(_, met)| met))
            }
        };
        let met = self.open(number, result)?;
        self.record(interval, number, action, met)
    }

    fn execute_batch(&mut self, size: usize) -> Result<(), Violation> {
        self.batch.clear();
        let mut points: Vec<(usize, Planned)> = Vec::with_capacity(size);
        let mut ordered: Vec<(usize, ConcurrentOrderedRead)> = Vec::new();
        let ascending = match self.random.random_bool(ASCENDING) {
            true => self.plan_ascending(size),
            false => Vec::new(),
        };
        for planned in &ascending {
            points.push((self.add(*planned), *planned));
        }
        for _ in ascending.len()..size {
            // The planned probability is that of a batch, whatever its size.
            let chance = self.plan.ordered / size as f64;
            if ordered.len() < ORDERED_MAX && self.random.random_bool(chance) {
                ordered.push(ConcurrentOrderedRead::add(
                    self.plan,
                    &mut self.batch,
                    &mut self.random,
                ));
            } else {
                let planned = self.plan_operation();
                points.push((self.add(planned), planned));
            }
        }
        debug_assert_eq!(self.batch.len(), size, "each operation was added once");
        let interval = self.execute()?;
        for (position, planned) in points {
            self.read_outcome(interval, position, planned)?;
        }
        for (nth, (position, ordered)) in ordered.iter().enumerate() {
            self.observe(interval, nth, *position, ordered)?;
        }
        Ok(())
    }

    fn add(&mut self, (number, action): Planned) -> usize {
        let key = self.plan.key(number);
        match action {
            PointOperation::Get => self.batch.get(key),
            PointOperation::Remove => self.batch.remove(key),
            PointOperation::Insert(value) => self.batch.insert(key, F::value(&F::seal(value))),
            PointOperation::Update {
                previous, value, ..
            } => {
                let (previous, sealed) = (previous.map(F::seal), F::seal(value));
                let previous = previous.as_ref().map(F::value);
                self.batch.update(key, previous, F::value(&sealed))
            }
            PointOperation::RemoveIf { previous, .. } => {
                self.batch.remove_if(key, F::value(&F::seal(previous)))
            }
        }
    }

    fn execute(&mut self) -> Result<CallInterval, Violation> {
        let (interval, result) = self.recorder.call(|| self.index.execute(&mut self.batch));
        match result {
            Ok(()) => Ok(interval),
            Err(error) => wrong(format!("a batch is refused: {error}")),
        }
    }

    fn read_outcome(
        &mut self,
        interval: CallInterval,
        position: usize,
        (number, action): Planned,
    ) -> Result<(), Violation> {
        let (action, met) = match (action, self.batch.outcome(position)) {
            (
                PointOperation::Update {
                    previous, value, ..
                },
                OperationOutcome::Updated { applied, before },
            ) => {
                let action = PointOperation::Update {
                    previous,
                    value,
                    applied,
                };
                (action, before)
            }
            (
                PointOperation::RemoveIf { previous, .. },
                OperationOutcome::Updated { applied, before },
            ) => (PointOperation::RemoveIf { previous, applied }, before),
            (PointOperation::Update { .. } | PointOperation::RemoveIf { .. }, outcome) => {
                return wrong(format!("{action:?} has the outcome {outcome:?}"));
            }
            (_, OperationOutcome::Value(met)) => (action, met),
            (_, outcome) => return wrong(format!("{action:?} has the outcome {outcome:?}")),
        };
        let met = met
            .map(|value| self.open_value(number, value))
            .transpose()?;
        self.record(interval, number, action, met)
    }

    fn record(
        &mut self,
        interval: CallInterval,
        number: usize,
        action: PointOperation,
        met: Option<u64>,
    ) -> Result<(), Violation> {
        self.last_met[number] = met;
        if number % 2 == 1 {
            debug_assert_eq!(action, PointOperation::Get, "stable keys are only read");
            return self.check_stable(number, met);
        }
        self.points.record(interval, number as u64, action, met);
        Ok(())
    }

    fn check_stable(&self, number: usize, met: Option<u64>) -> Result<(), Violation> {
        let stable = self.plan.stable_value(number);
        if met == stable {
            return Ok(());
        }
        let key = F::show_key(self.plan.key(number));
        wrong(format!(
            "key {key}, which no thread writes, has the value {met:?} in place of {stable:?}"
        ))
    }

    /// Checks an ordered read and records the states that it reports for contended keys.
    fn observe(
        &mut self,
        interval: CallInterval,
        nth: usize,
        position: usize,
        ordered: &ConcurrentOrderedRead,
    ) -> Result<(), Violation> {
        let found = match self.batch.outcome(position) {
            OperationOutcome::Entries(entries) => entries,
            OperationOutcome::Entry(entry) => entry.into_iter().collect(),
            outcome => return wrong(format!("{ordered:?} has the outcome {outcome:?}")),
        };
        let mut numbers = Vec::with_capacity(found.len());
        // By the number of the key, so that absent keys have a state, too.
        let mut values = vec![None; self.plan.keys.len()];
        for (key, value) in found {
            let search = self
                .plan
                .keys
                .binary_search_by(|known| F::key(known).cmp(&key));
            let Ok(number) = search else {
                let key = F::show_key(key);
                return wrong(format!("{ordered:?} found {key}, which no thread inserted"));
            };
            numbers.push(number);
            values[number] = Some(self.open_value(number, value)?);
        }
        // A covered key that was not found was absent, which must be true at some instant as well.
        for number in ordered.covered(&numbers).or_else(wrong)? {
            match number % 2 {
                1 => self.check_stable(number, values[number])?,
                _ => {
                    let session = &mut self.ordered[nth];
                    session.record(interval, number as u64, PointOperation::Get, values[number]);
                }
            }
        }
        Ok(())
    }

    fn open(
        &self,
        number: usize,
        result: Result<Option<F::OwnedValue>, OperationError>,
    ) -> Result<Option<u64>, Violation> {
        match result {
            Ok(None) => Ok(None),
            Ok(Some(value)) => self.open_value(number, F::value(&value)).map(Some),
            Err(error) => wrong(format!("a point operation failed: {error}")),
        }
    }

    fn open_value(&self, number: usize, value: F::Value<'_>) -> Result<u64, Violation> {
        let complain = |what| {
            let key = F::show_key(self.plan.key(number));
            wrong(format!(
                "key {key} has the value {}, {what}",
                F::show_value(value)
            ))
        };
        match F::open(value) {
            None => complain("which no thread wrote: it is torn"),
            Some(value) if value_key(value) != number => complain("which belongs to another key"),
            Some(value) => Ok(value),
        }
    }
}

fn wrong<T>(what: String) -> Result<T, Violation> {
    Err(Violation::Wrong(what))
}
