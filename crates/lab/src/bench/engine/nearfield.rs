//! Nearfield: in batches, or one operation at a time.

use super::{Engine, Lane};
use crate::bench::latency::Durations;
use crate::bench::task::{Task, Verb};
use nearfield_core::{Batch, Bytes, Direction, Error, Form, OrderedIndex, Words};
use nearfield_peers::Text;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Bound;
use std::time::Instant;

/// One single operation of so many is timed, as for the peers.
const STRIDE: usize = 64;

/// A form of entries for the lab's keys and values.
pub(in crate::bench) trait LabForm: Form {
    /// The key as the lab has it.
    type Source;

    /// Converts a key.
    fn key_of(source: Self::Source) -> Self::Key<'static>;
    /// Reads a value.
    fn read(value: Self::Value<'_>) -> u64;
    /// Calls `with` with a value.
    fn written<R>(value: u64, with: impl FnOnce(Self::Value<'_>) -> R) -> R;
}

impl LabForm for Words {
    type Source = u64;

    fn key_of(source: u64) -> u64 {
        source
    }

    #[inline]
    fn read(value: u64) -> u64 {
        value
    }

    #[inline]
    fn written<R>(value: u64, with: impl FnOnce(u64) -> R) -> R {
        with(value)
    }
}

impl LabForm for Bytes {
    type Source = Text;

    fn key_of(source: Text) -> &'static [u8] {
        source.bytes()
    }

    #[inline]
    fn read(value: &[u8]) -> u64 {
        value.try_into().map_or(0, u64::from_le_bytes)
    }

    #[inline]
    fn written<R>(value: u64, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&value.to_le_bytes())
    }
}

/// See the module.
pub(in crate::bench) struct NearfieldEngine<F, I> {
    index: I,
    form: PhantomData<F>,
}

impl<F, I> NearfieldEngine<F, I> {
    pub(in crate::bench) fn new(index: I) -> Self {
        NearfieldEngine {
            index,
            form: PhantomData,
        }
    }
}

impl<F: LabForm, I: OrderedIndex<F>> Engine<F::Source> for NearfieldEngine<F, I> {
    type Key = F::Key<'static>;
    type Lane<'e>
        = NearfieldLane<'e, F, I>
    where
        I: 'e;

    fn key(source: F::Source) -> Result<F::Key<'static>, &'static str> {
        Ok(F::key_of(source))
    }

    fn lanes(&mut self, threads: usize, batch: usize) -> Vec<NearfieldLane<'_, F, I>> {
        let lane = || NearfieldLane {
            index: &self.index,
            batch: Batch::new(),
            size: batch,
        };
        (0..threads).map(|_| lane()).collect()
    }
}

/// One thread's batch, used again and again.
pub(in crate::bench) struct NearfieldLane<'e, F: Form, I> {
    index: &'e I,
    batch: Batch<F>,
    size: usize,
}

impl<F: LabForm, I: OrderedIndex<F>> Lane for NearfieldLane<'_, F, I> {
    type Key = F::Key<'static>;

    fn run(
        &mut self,
        tasks: &[Task<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, String> {
        let ran = match self.size {
            1 => self.run_single(tasks, version, durations),
            _ => self.run_batches(tasks, version, durations),
        };
        ran.map_err(|error| error.to_string())
    }
}

impl<F: LabForm, I: OrderedIndex<F>> NearfieldLane<'_, F, I> {
    fn run_batches(
        &mut self,
        tasks: &[Task<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, Error> {
        let mut wrong = 0;
        for chunk in tasks.chunks(self.size) {
            self.batch.clear();
            chunk
                .iter()
                .for_each(|task| push(&mut self.batch, task, version));
            let start = Instant::now();
            self.index.execute(&mut self.batch)?;
            durations.record(start.elapsed());
            wrong += wrong_answers(&self.batch, chunk);
        }
        Ok(wrong)
    }

    fn run_single(
        &mut self,
        tasks: &[Task<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, Error> {
        let mut wrong = 0;
        for stride in tasks.chunks(STRIDE) {
            let start = Instant::now();
            wrong += u64::from(!self.perform(&stride[0], version)?);
            durations.record(start.elapsed());
            for task in &stride[1..] {
                wrong += u64::from(!self.perform(task, version)?);
            }
        }
        Ok(wrong)
    }

    /// Carries out one task by itself; answers whether the map did.
    #[inline]
    fn perform(&mut self, task: &Task<F::Key<'static>>, version: u16) -> Result<bool, Error> {
        match task.verb {
            Verb::Get => self.get(task),
            Verb::Insert => self.insert(task, version).map(|_| true),
            Verb::Update => self.insert(task, version),
            Verb::ReadModifyWrite => Ok(self.get(task)? && self.insert(task, version)?),
            Verb::Scan(_) => {
                self.batch.clear();
                push(&mut self.batch, task, version);
                self.index.execute(&mut self.batch)?;
                Ok(wrong_answers(&self.batch, std::slice::from_ref(task)) == 0)
            }
        }
    }

    #[inline]
    fn get(&self, task: &Task<F::Key<'static>>) -> Result<bool, Error> {
        let value = self.index.get(task.key)?;
        Ok(task.is_answered_by(value.as_ref().map(|value| F::read(F::value(value)))))
    }

    /// Sets a value; answers whether there was one for the key before.
    #[inline]
    fn insert(&self, task: &Task<F::Key<'static>>, version: u16) -> Result<bool, Error> {
        let before = F::written(task.value(version), |value| {
            self.index.insert(task.key, value)
        })?;
        Ok(before.is_some())
    }
}

/// Adds a task to a batch; a read-modify-write makes two operations.
#[inline]
fn push<F: LabForm>(batch: &mut Batch<F>, task: &Task<F::Key<'static>>, version: u16) {
    match task.verb {
        Verb::Get => {
            batch.get(task.key);
        }
        Verb::Update | Verb::Insert => {
            F::written(task.value(version), |value| batch.insert(task.key, value));
        }
        Verb::Scan(limit) => {
            let low = Bound::Included(task.key);
            batch.scan(low, Bound::Unbounded, limit, Direction::Ascending);
        }
        Verb::ReadModifyWrite => {
            batch.get(task.key);
            F::written(task.value(version), |value| batch.insert(task.key, value));
        }
    }
}

/// Reads the outcomes of a batch and counts the tasks that were answered wrongly.
#[inline]
fn wrong_answers<F: LabForm>(batch: &Batch<F>, tasks: &[Task<F::Key<'static>>]) -> u64 {
    let mut wrong = 0;
    let mut position = 0;
    let value = |position| batch.value(position).map(F::read);
    for task in tasks {
        let is_right = match task.verb {
            Verb::Get | Verb::Update => task.is_answered_by(value(position)),
            Verb::Insert => true,
            Verb::Scan(limit) => {
                let entries = batch.entries(position);
                let count = entries.len();
                black_box(entries.fold(0, |sum: u64, (_, value)| sum.wrapping_add(F::read(value))));
                (1..=limit as usize).contains(&count)
            }
            Verb::ReadModifyWrite => {
                position += 1;
                task.is_answered_by(value(position - 1))
            }
        };
        position += 1;
        wrong += u64::from(!is_right);
    }
    wrong
}
