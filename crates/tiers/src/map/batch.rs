//! Batches: a batch of the same operations runs on the records, and then the values in cold tiers
//! are read, all at once.
//!
//! The index executes an operation that compares with a value only if the value is in the index. So
//! the value is brought there before, and does not leave until the batch has ended: a move ends
//! only while no batch [compares](TieredIndexCore::still).

use super::inner::{TieredIndexCore, unreadable};
use super::record::{self, END, TieredRecord};
use crate::cold::ColdPlaceGuard;
use crate::place::ColdPlace;
use crate::usage::ReadError;
use crossbeam_epoch::pin;
use nearfield_core::{
    ArenaSpan, Batch, BatchInput, BatchOutput, ByteStrings, IndexOperation, OperationError,
    OperationOutcome, OrderedIndex,
};
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
    static RECORDS: Cell<Option<Batch<ByteStrings>>> = const { Cell::new(None) };
}

/// The results of reading the places in a batch's records.
type Values = HashMap<ColdPlace, Result<Vec<u8>, ReadError>>;

impl<I: OrderedIndex<ByteStrings> + Debug> TieredIndexCore<I> {
    pub(super) fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        let mut records = RECORDS.take().unwrap_or_default();
        records.clear();
        let executed = self.execute_by(batch, &mut records);
        // The memory of an unusually large batch is freed: the thread may never need it again.
        if records.len() <= KEPT_OPERATIONS {
            RECORDS.set(Some(records));
        }
        executed
    }

    fn execute_by(
        &self,
        batch: &mut Batch<ByteStrings>,
        records: &mut Batch<ByteStrings>,
    ) -> Result<(), OperationError> {
        let input = batch.input()?;
        let compared = self.translate(input, records)?;
        debug_assert_eq!(
            records.len(),
            input.operations().len(),
            "an operation and its records have one position"
        );
        let still = match compared.is_empty() {
            true => None,
            false => Some(self.bring_in(&compared)?),
        };
        // Pinned until the places are held, so that none of them is released in between.
        let guard = pin();
        self.entries.execute(records)?;
        drop(still);
        let replaced_bytes = batch.replaced_bytes();
        let mut met = BatchPlaces::default();
        for (position, operation) in input.operations().iter().enumerate() {
            self.meet(
                &mut met,
                (input, records),
                position,
                operation,
                replaced_bytes,
            );
        }
        let held: Vec<ColdPlaceGuard> = met
            .read
            .iter()
            .map(|&it| ColdPlaceGuard::new(&self.cold, it))
            .collect();
        drop(guard);
        let values: Values = met.read.iter().copied().zip(self.read_all(&held)).collect();
        let (input, mut output) = batch.begin()?;
        for (position, operation) in input.operations().iter().enumerate() {
            answer((input, &mut output), position, operation, records, &values);
        }
        // Last, because an outcome may need the value that its operation replaced.
        self.give_up(met.replaced);
        Ok(())
    }

    /// Translates operations into ones on records, and returns the keys whose values are compared
    /// with.
    fn translate<'b>(
        &self,
        input: BatchInput<'b, ByteStrings>,
        records: &mut Batch<ByteStrings>,
    ) -> Result<Vec<&'b [u8]>, OperationError> {
        let mut compared = Vec::new();
        let (mut writes, mut bytes) = (0, 0);
        for operation in input.operations() {
            match *operation {
                IndexOperation::Get { key } => {
                    let key = input.key(key);
                    records.get(key);
                }
                IndexOperation::Insert { key, value } => {
                    let (key, value) = (input.key(key), input.value(value));
                    (writes, bytes) = (writes + 1, bytes + key.len() + value.len());
                    insert(records, key, value)?;
                }
                IndexOperation::Update {
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
                IndexOperation::Remove { key } => {
                    records.remove(input.key(key));
                }
                IndexOperation::RemoveIf { key, previous } => {
                    let key = input.key(key);
                    let expected = input.previous(previous).map(record::here);
                    records.remove_if(key, &expected.unwrap_or_default());
                    compared.push(key);
                }
                IndexOperation::Predecessor { key } => {
                    records.predecessor(input.key(key));
                }
                IndexOperation::Successor { key } => {
                    records.successor(input.key(key));
                }
                IndexOperation::Scan {
                    range,
                    limit,
                    direction,
                } => {
                    let (low, high) = input.range(range);
                    records.scan(low, high, limit, direction);
                }
                // It has failed already, and keeps its position.
                IndexOperation::Refused => {
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
    fn bring_in(&self, keys: &[&[u8]]) -> Result<RwLockReadGuard<'_, ()>, OperationError> {
        let mut failed = HashSet::new();
        let mut tries = 0;
        loop {
            let still = self.still.read();
            let mut cold = Vec::new();
            for key in keys {
                let stored = self.entries.get(key)?;
                if let Some(TieredRecord::There(place)) = stored.as_deref().map(TieredRecord::parse)
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
        met: &mut BatchPlaces,
        (input, records): (BatchInput<'_, ByteStrings>, &Batch<ByteStrings>),
        position: usize,
        operation: &IndexOperation<ByteStrings>,
        replaced_bytes: usize,
    ) {
        let stored = records.value(position);
        match *operation {
            IndexOperation::Get { key } => {
                self.note(input.key(key), stored);
                met.add(stored);
            }
            IndexOperation::Update { key, .. } => {
                self.note(input.key(key), None);
                met.add(stored);
            }
            IndexOperation::RemoveIf { .. } => met.add(stored),
            IndexOperation::Insert { key, .. } => {
                self.note(input.key(key), None);
                met.replace(stored, replaced_bytes);
            }
            IndexOperation::Remove { .. } => met.replace(stored, replaced_bytes),
            IndexOperation::Predecessor { .. } | IndexOperation::Successor { .. } => {
                if let OperationOutcome::Entry(Some((_, stored))) = records.outcome(position) {
                    met.add(Some(stored));
                }
            }
            IndexOperation::Scan { .. } => {
                let entries = records.entries(position);
                entries.for_each(|(_, stored)| met.add(Some(stored)));
            }
            IndexOperation::Refused => {}
        }
    }
}

/// The places in a batch's records.
#[derive(Debug, Default)]
struct BatchPlaces {
    /// Places of values that are part of the outcome, each once.
    read: Vec<ColdPlace>,
    known: HashSet<ColdPlace>,
    /// Places that no record has any more.
    replaced: Vec<ColdPlace>,
}

impl BatchPlaces {
    fn add(&mut self, stored: Option<&[u8]>) {
        if let Some(TieredRecord::There(place)) = stored.map(TieredRecord::parse)
            && self.known.insert(place)
        {
            self.read.push(place);
        }
    }

    /// Adds the place of a record that was replaced; `wanted` is the number of bytes of its value
    /// that the outcome needs.
    fn replace(&mut self, stored: Option<&[u8]>, wanted: usize) {
        if let Some(TieredRecord::There(place)) = stored.map(TieredRecord::parse) {
            self.replaced.push(place);
        }
        if wanted > 0 {
            self.add(stored);
        }
    }
}

/// Adds the insert of a record.
fn insert(
    records: &mut Batch<ByteStrings>,
    key: &[u8],
    value: &[u8],
) -> Result<(), OperationError> {
    // The value and the end are staged side by side, so that one span is the record, without a
    // buffer to join them in.
    let key = records.stage(key)?;
    let start = records.stage(value)?.start();
    records.stage(END)?;
    records.insert_staged(key, ArenaSpan::new(start, value.len() + END.len()));
    Ok(())
}

/// Returns the value of a record.
fn resolve<'v>(
    key: &[u8],
    stored: &'v [u8],
    values: &'v Values,
) -> Result<&'v [u8], OperationError> {
    match TieredRecord::parse(stored) {
        TieredRecord::Here(value) => Ok(value),
        TieredRecord::There(place) => match values.get(&place) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(unreadable(key, error)),
            // The value was replaced, and the outcome does not need it.
            None => Ok(&[]),
        },
    }
}

/// Writes the outcome of an operation that was executed on records.
fn answer(
    (input, output): (
        BatchInput<'_, ByteStrings>,
        &mut BatchOutput<'_, ByteStrings>,
    ),
    position: usize,
    operation: &IndexOperation<ByteStrings>,
    records: &Batch<ByteStrings>,
    values: &Values,
) {
    let answered = match *operation {
        IndexOperation::Get { key } => {
            let key = input.key(key);
            point(key, position, records, values).map(|value| output.value(position, key, value))
        }
        IndexOperation::Insert { key, .. } | IndexOperation::Remove { key } => {
            let key = input.key(key);
            point(key, position, records, values).map(|value| output.replaced(position, key, value))
        }
        IndexOperation::Update { key, .. } | IndexOperation::RemoveIf { key, .. } => {
            let key = input.key(key);
            match records.outcome(position) {
                OperationOutcome::Updated { applied, before } => before
                    .map(|stored| resolve(key, stored, values))
                    .transpose()
                    .map(|before| output.updated(position, key, applied, before)),
                outcome => failed(outcome),
            }
        }
        IndexOperation::Predecessor { .. } | IndexOperation::Successor { .. } => {
            match records.outcome(position) {
                OperationOutcome::Entry(entry) => entry
                    .map(|(key, stored)| Ok((key, resolve(key, stored, values)?)))
                    .transpose()
                    .map(|entry| output.entry(position, entry)),
                outcome => failed(outcome),
            }
        }
        IndexOperation::Scan { .. } => match records.outcome(position) {
            OperationOutcome::Entries(entries) => entries
                .into_iter()
                .map(|(key, stored)| Ok((key, resolve(key, stored, values)?)))
                .collect::<Result<Vec<_>, OperationError>>()
                .map(|entries| output.entries(position, entries)),
            outcome => failed(outcome),
        },
        // The refusal is its outcome.
        IndexOperation::Refused => Ok(()),
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
    records: &'v Batch<ByteStrings>,
    values: &'v Values,
) -> Result<Option<&'v [u8]>, OperationError> {
    match records.value(position) {
        Some(stored) => resolve(key, stored, values).map(Some),
        None => failed(records.outcome(position)).map(|()| None),
    }
}

/// Returns the error of an operation on records.
fn failed(outcome: OperationOutcome<'_, ByteStrings>) -> Result<(), OperationError> {
    match outcome {
        OperationOutcome::Failed(error) => Err(error),
        _ => Ok(()),
    }
}
