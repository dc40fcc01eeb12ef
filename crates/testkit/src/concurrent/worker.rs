//! One thread of a concurrent test.

use super::Violation;
use super::ordered::Ordered;
use super::plan::{Plan, value_key, value_number};
use crate::history::{Action, Event, Interval, Recorder, Session};
use crate::keys::{Random, Sample};
use nearfield_core::{Batch, Error, OrderedIndex, Outcome};
use rand::RngExt;
use std::thread;

/// The greatest number of ordered reads in a batch.
const ORDERED_MAX: usize = 2;

/// Probability that a batch begins with insertions in ascending order.
const ASCENDING: f64 = 0.1;

pub(crate) struct Worker<'t, F: Sample, I> {
    index: &'t I,
    plan: &'t Plan<F>,
    recorder: &'t Recorder,
    number: u64,
    random: Random,
    points: Session,
    /// Sessions of ordered reads. Those of one batch may take effect in any order, and so may their
    /// gets. So the first read of each batch belongs to one session, the second to another.
    ordered: [Session; ORDERED_MAX],
    batch: Batch<F>,
    sequence: u64,
    /// The values found last, by key.
    last_met: Vec<Option<u64>>,
}

/// A point operation on the key with this number, before its outcome is known.
type Planned = (usize, Action);

impl<'t, F: Sample, I: OrderedIndex<F>> Worker<'t, F, I> {
    pub(crate) fn new(
        index: &'t I,
        plan: &'t Plan<F>,
        recorder: &'t Recorder,
        number: usize,
        random: Random,
    ) -> Self {
        Worker {
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

    pub(crate) fn into_events(self) -> Vec<Event> {
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
            self.single(number, Action::Get)?;
        }
        self.batch.clear();
        let (position, everything) = Ordered::everything(self.plan, &mut self.batch);
        let interval = self.execute()?;
        self.observe(interval, 0, position, &everything)?;
        let scanned = self.batch.entries(position).len();
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
            return (self.plan.any_key(&mut self.random), Action::Get);
        }
        let number = self.plan.contended_key(&mut self.random);
        let value = value_number(number, self.number, self.sequence);
        self.sequence += 1;
        let action = if draw < get + insert {
            Action::Insert(value)
        } else if draw < get + insert + update {
            Action::Update {
                previous: self.last_met[number],
                value,
                applied: false,
            }
        } else if draw < get + insert + update + remove {
            Action::Remove
        } else {
            Action::RemoveIf {
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
        let numbers = (first..self.plan.keys.len()).step_by(2).take(size);
        numbers
            .map(|number| {
                let value = value_number(number, self.number, self.sequence);
                self.sequence += 1;
                (number, Action::Insert(value))
            })
            .collect()
    }

    fn single(&mut self, number: usize, action: Action) -> Result<(), Violation> {
        let key = self.plan.key(number);
        let (index, recorder) = (self.index, self.recorder);
        let seal = F::seal;
        let (interval, action, result) = match action {
            Action::Get => {
                let (interval, result) = recorder.call(|| index.get(key));
                (interval, action, result)
            }
            Action::Remove => {
                let (interval, result) = recorder.call(|| index.remove(key));
                (interval, action, result)
            }
            Action::Insert(value) => {
                let sealed = seal(value);
                let (interval, result) = recorder.call(|| index.insert(key, F::value(&sealed)));
                (interval, action, result)
            }
            Action::Update {
                previous, value, ..
            } => {
                let (before, sealed) = (previous.map(seal), seal(value));
                let (interval, result) = recorder
                    .call(|| index.update(key, before.as_ref().map(F::value), F::value(&sealed)));
                let applied = matches!(result, Ok((true, _)));
                let action = Action::Update {
                    previous,
                    value,
                    applied,
                };
                (interval, action, result.map(|(_, met)| met))
            }
            Action::RemoveIf { previous, .. } => {
                let expected = seal(previous);
                let (interval, result) =
                    recorder.call(|| index.remove_if(key, F::value(&expected)));
                let applied = matches!(result, Ok((true, _)));
                let action = Action::RemoveIf { previous, applied };
                (interval, action, result.map(|(_, met)| met))
            }
        };
        let met = self.open(number, result)?;
        self.record(interval, number, action, met)
    }

    fn execute_batch(&mut self, size: usize) -> Result<(), Violation> {
        self.batch.clear();
        let mut points: Vec<(usize, Planned)> = Vec::with_capacity(size);
        let mut ordered: Vec<(usize, Ordered)> = Vec::new();
        let ascending = match self.random.random_bool(ASCENDING) {
            true => self.plan_ascending(size),
            false => Vec::new(),
        };
        for planned in &ascending {
            points.push((self.add(*planned), *planned));
        }
        for _ in ascending.len()..size {
            let chance = self.plan.ordered / size as f64;
            if ordered.len() < ORDERED_MAX && self.random.random_bool(chance) {
                ordered.push(Ordered::add(self.plan, &mut self.batch, &mut self.random));
            } else {
                let planned = self.plan_operation();
                points.push((self.add(planned), planned));
            }
        }
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
            Action::Get => self.batch.get(key),
            Action::Remove => self.batch.remove(key),
            Action::Insert(value) => self.batch.insert(key, F::value(&F::seal(value))),
            Action::Update {
                previous, value, ..
            } => {
                let (previous, sealed) = (previous.map(F::seal), F::seal(value));
                let previous = previous.as_ref().map(F::value);
                self.batch.update(key, previous, F::value(&sealed))
            }
            Action::RemoveIf { previous, .. } => {
                self.batch.remove_if(key, F::value(&F::seal(previous)))
            }
        }
    }

    fn execute(&mut self) -> Result<Interval, Violation> {
        let (interval, result) = self.recorder.call(|| self.index.execute(&mut self.batch));
        match result {
            Ok(()) => Ok(interval),
            Err(error) => wrong(format!("a batch is refused: {error}")),
        }
    }

    fn read_outcome(
        &mut self,
        interval: Interval,
        position: usize,
        (number, action): Planned,
    ) -> Result<(), Violation> {
        let (action, met) = match (action, self.batch.outcome(position)) {
            (
                Action::Update {
                    previous, value, ..
                },
                Outcome::Updated { applied, before },
            ) => {
                let action = Action::Update {
                    previous,
                    value,
                    applied,
                };
                (action, before)
            }
            (Action::RemoveIf { previous, .. }, Outcome::Updated { applied, before }) => {
                (Action::RemoveIf { previous, applied }, before)
            }
            (Action::Update { .. } | Action::RemoveIf { .. }, outcome) => {
                return wrong(format!("{action:?} has the outcome {outcome:?}"));
            }
            (_, Outcome::Value(met)) => (action, met),
            (_, outcome) => return wrong(format!("{action:?} has the outcome {outcome:?}")),
        };
        let met = met
            .map(|value| self.open_value(number, value))
            .transpose()?;
        self.record(interval, number, action, met)
    }

    fn record(
        &mut self,
        interval: Interval,
        number: usize,
        action: Action,
        met: Option<u64>,
    ) -> Result<(), Violation> {
        self.last_met[number] = met;
        if number % 2 == 1 {
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
            "key {key}, which nobody writes, has the value {met:?} in place of {stable:?}"
        ))
    }

    /// Checks an ordered read and records the states that it reports for contended keys.
    fn observe(
        &mut self,
        interval: Interval,
        nth: usize,
        position: usize,
        ordered: &Ordered,
    ) -> Result<(), Violation> {
        let found = match self.batch.outcome(position) {
            Outcome::Entries(entries) => entries,
            Outcome::Entry(entry) => entry.into_iter().collect(),
            outcome => return wrong(format!("{ordered:?} has the outcome {outcome:?}")),
        };
        let mut numbers = Vec::with_capacity(found.len());
        let mut values = vec![None; self.plan.keys.len()];
        for (key, value) in found {
            let search = self
                .plan
                .keys
                .binary_search_by(|known| F::key(known).cmp(&key));
            let Ok(number) = search else {
                let key = F::show_key(key);
                return wrong(format!("{ordered:?} met {key}, which nobody has inserted"));
            };
            numbers.push(number);
            values[number] = Some(self.open_value(number, value)?);
        }
        for number in ordered.covered(&numbers).or_else(wrong)? {
            match number % 2 {
                1 => self.check_stable(number, values[number])?,
                _ => {
                    let session = &mut self.ordered[nth];
                    session.record(interval, number as u64, Action::Get, values[number]);
                }
            }
        }
        Ok(())
    }

    fn open(
        &self,
        number: usize,
        result: Result<Option<F::OwnedValue>, Error>,
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
            None => complain("which nobody has written: it is torn"),
            Some(value) if value_key(value) != number => complain("which is another key's"),
            Some(value) => Ok(value),
        }
    }
}

fn wrong<T>(what: String) -> Result<T, Violation> {
    Err(Violation::Wrong(what))
}
