//! Batches: a batch of the same operations runs on the records, and then the values in cold tiers
//! are read, all at once.
//!
//! The index executes an operation that compares with a value only if the value is in the index. So
//! the value is brought there before, and does not leave until the batch has ended: a move ends
//! only while no batch [compares](Inner::still).

use super::inner::{Inner, unreadable};
use super::record::{self, END, Record};
use crate::cold::Held;
use crate::place::Place;
use crate::usage::ReadError;
use crossbeam_epoch::pin;
use nearfield_core::{Batch, Bytes, Error, Input, Operation, OrderedIndex, Outcome, Output, Span};
use parking_lot::RwLockReadGuard;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

/// Number of times that values are brought into memory before a batch, if they leave it again.
/// After that nothing moves until they are there.
const TRIES: usize = 8;
/// Number of operations up to which a batch of records is kept for later use.
const KEPT_OPERATIONS: usize = 1 << 14;

thread_local! {
    /// The batch in which the operations on records are built.
    static RECORDS: Cell<Option<Batch<Bytes>>> = const { Cell::new(None) };
}

/// The results of reading the places in a batch's records.
type Values = HashMap<Place, Result<Vec<u8>, ReadError>>;

impl<I: OrderedIndex<Bytes> + Debug> Inner<I> {
    pub(super) fn execute(&self, batch: &mut Batch<Bytes>) -> Result<(), Error> {
        let mut records = RECORDS.take().unwrap_or_default();
        records.clear();
        let executed = self.execute_by(batch, &mut records);
        if records.len() <= KEPT_OPERATIONS {
            RECORDS.set(Some(records));
        }
        executed
    }

    fn execute_by(
        &self,
        batch: &mut Batch<Bytes>,
        records: &mut Batch<Bytes>,
    ) -> Result<(), Error> {
        let input = batch.input()?;
        let compared = self.translate(input, records)?;
        let still = match compared.is_empty() {
            true => None,
            false => Some(self.bring_in(&compared)?),
        };
        let guard = pin();
        self.entries.execute(records)?;
        drop(still);
        let replaced_bytes = batch.replaced_bytes();
        let mut met = Met::default();
        for (position, operation) in input.operations().iter().enumerate() {
            self.meet(
                &mut met,
                (input, records),
                position,
                operation,
                replaced_bytes,
            );
        }
        let held: Vec<Held> = met
            .read
            .iter()
            .map(|&it| Held::new(&self.cold, it))
            .collect();
        drop(guard);
        let values: Values = met.read.iter().copied().zip(self.read_all(&held)).collect();
        let (input, mut output) = batch.begin()?;
        for (position, operation) in input.operations().iter().enumerate() {
            answer((input, &mut output), position, operation, records, &values);
        }
        self.give_up(met.replaced);
        Ok(())
    }

    /// Translates operations into ones on records, and returns the keys whose values are compared
    /// with.
    fn translate<'b>(
        &self,
        input: Input<'b, Bytes>,
        records: &mut Batch<Bytes>,
    ) -> Result<Vec<&'b [u8]>, Error> {
        let mut compared = Vec::new();
        let (mut writes, mut bytes) = (0, 0);
        for operation in input.operations() {
            match *operation {
                Operation::Get { key } => {
                    let key = input.key(key);
                    records.get(key);
                }
                Operation::Insert { key, value } => {
                    let (key, value) = (input.key(key), input.value(value));
                    (writes, bytes) = (writes + 1, bytes + key.len() + value.len());
                    insert(records, key, value)?;
                }
                Operation::Update {
                    key,
                    value,
                    previous,
                } => {
                    let (key, value) = (input.key(key), input.value(value));
                    (writes, bytes) = (writes + 1, bytes + key.len() + value.len());
                    let previous = input.previous(previous).map(record::here);
                    records.update(key, previous.as_deref(), &record::here(value));
                    compared.push(key);
                }
                Operation::Remove { key } => {
                    records.remove(input.key(key));
                }
                Operation::RemoveIf { key, previous } => {
                    let key = input.key(key);
                    let expected = input.previous(previous).map(record::here);
                    records.remove_if(key, &expected.unwrap_or_default());
                    compared.push(key);
                }
                Operation::Predecessor { key } => {
                    records.predecessor(input.key(key));
                }
                Operation::Successor { key } => {
                    records.successor(input.key(key));
                }
                Operation::Scan {
                    range,
                    limit,
                    direction,
                } => {
                    let (low, high) = input.range(range);
                    records.scan(low, high, limit, direction);
                }
                // It has failed already, and keeps its position.
                Operation::Refused => {
                    records.get(&[]);
                }
            }
        }
        if writes > 0 {
            self.make_room(writes, bytes)?;
        }
        Ok(compared)
    }

    /// Keeps the values of keys in memory as long as the result is held, except those that cannot
    /// be read: to compare with such a value fails.
    fn bring_in(&self, keys: &[&[u8]]) -> Result<RwLockReadGuard<'_, ()>, Error> {
        let mut failed = HashSet::new();
        let mut tries = 0;
        loop {
            let still = self.still.read();
            let mut cold = Vec::new();
            for key in keys {
                let stored = self.entries.get(key)?;
                if let Some(Record::There(place)) = stored.as_deref().map(Record::parse)
                    && !failed.contains(&place)
                {
                    cold.push((*key, place));
                }
            }
            if cold.is_empty() {
                return Ok(still);
            }
            // The lock is released, so that other threads do not wait for a disk, unless values
            // leave faster than they come.
            let still = (tries >= TRIES).then_some(still);
            for (key, place) in cold {
                if !self.come(key)? {
                    failed.insert(place);
                }
            }
            if let Some(still) = still {
                return Ok(still);
            }
            tries += 1;
        }
    }

    /// Notes the use of a key, and the places to be read for the outcome of an operation.
    fn meet(
        &self,
        met: &mut Met,
        (input, records): (Input<'_, Bytes>, &Batch<Bytes>),
        position: usize,
        operation: &Operation<Bytes>,
        replaced_bytes: usize,
    ) {
        let stored = records.value(position);
        match *operation {
            Operation::Get { key } => {
                self.note(input.key(key), stored);
                met.add(stored);
            }
            Operation::Update { key, .. } => {
                self.note(input.key(key), None);
                met.add(stored);
            }
            Operation::RemoveIf { .. } => met.add(stored),
            Operation::Insert { key, .. } => {
                self.note(input.key(key), None);
                met.replace(stored, replaced_bytes);
            }
            Operation::Remove { .. } => met.replace(stored, replaced_bytes),
            Operation::Predecessor { .. } | Operation::Successor { .. } => {
                if let Outcome::Entry(Some((_, stored))) = records.outcome(position) {
                    met.add(Some(stored));
                }
            }
            Operation::Scan { .. } => {
                let entries = records.entries(position);
                entries.for_each(|(_, stored)| met.add(Some(stored)));
            }
            Operation::Refused => {}
        }
    }
}

/// The places in a batch's records.
#[derive(Debug, Default)]
struct Met {
    /// Places of values that are part of the outcome, each once.
    read: Vec<Place>,
    known: HashSet<Place>,
    /// Places that no record has any more.
    replaced: Vec<Place>,
}

impl Met {
    fn add(&mut self, stored: Option<&[u8]>) {
        if let Some(Record::There(place)) = stored.map(Record::parse)
            && self.known.insert(place)
        {
            self.read.push(place);
        }
    }

    /// Adds the place of a record that was replaced; `wanted` is the number of bytes of its value
    /// that the outcome needs.
    fn replace(&mut self, stored: Option<&[u8]>, wanted: usize) {
        if let Some(Record::There(place)) = stored.map(Record::parse) {
            self.replaced.push(place);
        }
        if wanted > 0 {
            self.add(stored);
        }
    }
}

/// Adds the insert of a record.
fn insert(records: &mut Batch<Bytes>, key: &[u8], value: &[u8]) -> Result<(), Error> {
    let key = records.stage(key)?;
    let start = records.stage(value)?.start();
    records.stage(END)?;
    records.insert_staged(key, Span::new(start, value.len() + END.len()));
    Ok(())
}

/// Returns the value of a record.
fn resolve<'v>(key: &[u8], stored: &'v [u8], values: &'v Values) -> Result<&'v [u8], Error> {
    match Record::parse(stored) {
        Record::Here(value) => Ok(value),
        Record::There(place) => match values.get(&place) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(unreadable(key, error)),
            // The value was replaced, and the outcome does not need it.
            None => Ok(&[]),
        },
    }
}

/// Writes the outcome of an operation that was executed on records.
fn answer(
    (input, output): (Input<'_, Bytes>, &mut Output<'_, Bytes>),
    position: usize,
    operation: &Operation<Bytes>,
    records: &Batch<Bytes>,
    values: &Values,
) {
    let answered = match *operation {
        Operation::Get { key } => {
            let key = input.key(key);
            point(key, position, records, values).map(|value| output.value(position, key, value))
        }
        Operation::Insert { key, .. } | Operation::Remove { key } => {
            let key = input.key(key);
            point(key, position, records, values).map(|value| output.replaced(position, key, value))
        }
        Operation::Update { key, .. } | Operation::RemoveIf { key, .. } => {
            let key = input.key(key);
            match records.outcome(position) {
                Outcome::Updated { applied, before } => before
                    .map(|stored| resolve(key, stored, values))
                    .transpose()
                    .map(|before| output.updated(position, key, applied, before)),
                outcome => failed(outcome),
            }
        }
        Operation::Predecessor { .. } | Operation::Successor { .. } => {
            match records.outcome(position) {
                Outcome::Entry(entry) => entry
                    .map(|(key, stored)| Ok((key, resolve(key, stored, values)?)))
                    .transpose()
                    .map(|entry| output.entry(position, entry)),
                outcome => failed(outcome),
            }
        }
        Operation::Scan { .. } => match records.outcome(position) {
            Outcome::Entries(entries) => entries
                .into_iter()
                .map(|(key, stored)| Ok((key, resolve(key, stored, values)?)))
                .collect::<Result<Vec<_>, Error>>()
                .map(|entries| output.entries(position, entries)),
            outcome => failed(outcome),
        },
        // The refusal is its outcome.
        Operation::Refused => Ok(()),
    };
    if let Err(error) = answered {
        output.fail(position, error);
    }
}

/// Returns the value that a get, an insert or a remove found.
#[inline]
fn point<'v>(
    key: &[u8],
    position: usize,
    records: &'v Batch<Bytes>,
    values: &'v Values,
) -> Result<Option<&'v [u8]>, Error> {
    match records.value(position) {
        Some(stored) => resolve(key, stored, values).map(Some),
        None => failed(records.outcome(position)).map(|()| None),
    }
}

/// Returns the error of an operation on records.
fn failed(outcome: Outcome<'_, Bytes>) -> Result<(), Error> {
    match outcome {
        Outcome::Failed(error) => Err(error),
        _ => Ok(()),
    }
}
