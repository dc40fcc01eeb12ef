//! Nearfield as a contestant: in batches, or one operation at a time.

use super::{BenchEngine, BenchLane};
use crate::bench::task::{BenchOperation, BenchOperationKind};
use crate::harness::{Durations, MapCostCounts};
use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex, ScanDirection, Words};
use nearfield_peers::PeerTextKey;
use nearfield_radix::{EngineOptions, RadixCounters, RadixForm, RadixIndex, RadixPinGuard};
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

/// One in this many single operations is timed, and a pin is taken as often, as for the peers.
const STRIDE: usize = 64;

/// A form of entries for the lab's keys and values.
pub(in crate::bench) trait LabForm: RadixForm {
    /// A key of the lab.
    type Source;

    /// Converts a key.
    fn lab_key(source: Self::Source) -> Self::Key<'static>;
    /// Reads a value.
    fn read(value: Self::Value<'_>) -> u64;
    /// Calls `with` with a value.
    fn with_value<R>(value: u64, with: impl FnOnce(Self::Value<'_>) -> R) -> R;
}

impl LabForm for Words {
    type Source = u64;

    fn lab_key(source: u64) -> u64 {
        source
    }

    #[inline]
    fn read(value: u64) -> u64 {
        value
    }

    #[inline]
    fn with_value<R>(value: u64, with: impl FnOnce(u64) -> R) -> R {
        with(value)
    }
}

impl LabForm for ByteStrings {
    type Source = PeerTextKey;

    fn lab_key(source: PeerTextKey) -> &'static [u8] {
        source.bytes()
    }

    #[inline]
    fn read(value: &[u8]) -> u64 {
        value.try_into().map_or(0, u64::from_le_bytes)
    }

    #[inline]
    fn with_value<R>(value: u64, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&value.to_le_bytes())
    }
}

/// The engine of this module.
pub(in crate::bench) struct NearfieldEngine<F: LabForm> {
    index: RadixIndex<F>,
    /// One batch a thread, reused so that its memory stays allocated.
    batches: Vec<Batch<F>>,
}

impl<F: LabForm> NearfieldEngine<F> {
    pub(in crate::bench) fn new(options: EngineOptions) -> Result<Self, OperationError> {
        let index = RadixIndex::new()?;
        index.set_options(options);
        Ok(NearfieldEngine {
            index,
            batches: Vec::new(),
        })
    }
}

impl<F: LabForm> BenchEngine<F::Source> for NearfieldEngine<F> {
    type Key = F::Key<'static>;
    type Lane<'e> = NearfieldLane<'e, F>;

    fn key(source: F::Source) -> Result<F::Key<'static>, &'static str> {
        Ok(F::lab_key(source))
    }

    fn lanes(&mut self, threads: usize, batch: usize) -> Vec<NearfieldLane<'_, F>> {
        debug_assert!(batch > 0);
        self.batches
            .resize_with(threads, || Batch::with_capacity(batch));
        let batches = self.batches.iter_mut();
        batches
            .map(|lent| NearfieldLane {
                index: &self.index,
                batch: lent,
                size: batch,
            })
            .collect()
    }
}

/// One thread's view of the index and its batch.
pub(in crate::bench) struct NearfieldLane<'e, F: LabForm> {
    index: &'e RadixIndex<F>,
    batch: &'e mut Batch<F>,
    size: usize,
}

impl<F: LabForm> BenchLane for NearfieldLane<'_, F> {
    type Key = F::Key<'static>;

    fn run(
        &mut self,
        tasks: &[BenchOperation<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, String> {
        let ran = match self.size {
            1 => self.run_single(tasks, version, durations),
            _ => self.run_batches(tasks, version, durations),
        };
        ran.map_err(|error| error.to_string())
    }

    fn count(
        &mut self,
        tasks: &[BenchOperation<F::Key<'static>>],
        version: u16,
    ) -> Option<MapCostCounts> {
        let mut counters = RadixCounters::default();
        for chunk in tasks.chunks(self.size) {
            self.fill(chunk, version);
            self.index.execute_counted(self.batch, &mut counters).ok()?;
        }
        Some(MapCostCounts {
            operations: tasks.len() as u64,
            partial_key_matches: counters.partial_key_matches,
            cache_lines: counters.cache_lines,
            leaves: counters.leaves,
            lock_acquisitions: counters.lock_acquisitions,
            lock_waits: counters.lock_waits,
            restarts: counters.restarts,
            duplicates_merged: counters.duplicates_merged,
            shortcut_hits: counters.shortcut_hits,
            shortcut_misses: counters.shortcut_misses,
        })
    }
}

impl<F: LabForm> NearfieldLane<'_, F> {
    fn run_batches(
        &mut self,
        tasks: &[BenchOperation<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, OperationError> {
        let mut wrong = 0;
        for chunk in tasks.chunks(self.size) {
            self.fill(chunk, version);
            // Latencies are those of the index. Filling counts in the rate, which has all of `run`.
            let start = Instant::now();
            self.index.execute(self.batch)?;
            durations.record(start.elapsed());
            wrong += wrong_outcomes(self.batch, chunk);
        }
        Ok(wrong)
    }

    fn fill(&mut self, tasks: &[BenchOperation<F::Key<'static>>], version: u16) {
        self.batch.clear();
        tasks
            .iter()
            .for_each(|task| push(self.batch, task, version));
    }

    fn run_single(
        &mut self,
        tasks: &[BenchOperation<F::Key<'static>>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, OperationError> {
        let mut wrong = 0;
        for stride in tasks.chunks(STRIDE) {
            let pinned = self.index.pin();
            let start = Instant::now();
            wrong += u64::from(!self.perform(&pinned, &stride[0], version)?);
            durations.record(start.elapsed());
            for task in &stride[1..] {
                wrong += u64::from(!self.perform(&pinned, task, version)?);
            }
        }
        Ok(wrong)
    }

    /// Carries out one task by itself; returns true if its outcome was right.
    #[inline]
    fn perform(
        &self,
        pinned: &RadixPinGuard,
        task: &BenchOperation<F::Key<'static>>,
        version: u16,
    ) -> Result<bool, OperationError> {
        match task.verb {
            BenchOperationKind::Get => Ok(self.get(pinned, task)),
            BenchOperationKind::Insert => self.insert(task, version).map(|_| true),
            BenchOperationKind::Update => self.insert(task, version),
            BenchOperationKind::ReadModifyWrite => {
                Ok(self.get(pinned, task) && self.insert(task, version)?)
            }
            BenchOperationKind::Scan(limit) => Ok(self.scan(task, limit as usize)),
        }
    }

    #[inline]
    fn get(&self, pinned: &RadixPinGuard, task: &BenchOperation<F::Key<'static>>) -> bool {
        task.has_value(self.index.read_pinned(pinned, task.key, F::read))
    }

    /// Sets a value; returns true if the key had one before.
    #[inline]
    fn insert(
        &self,
        task: &BenchOperation<F::Key<'static>>,
        version: u16,
    ) -> Result<bool, OperationError> {
        let before = F::with_value(task.value(version), |value| {
            self.index.insert(task.key, value)
        })?;
        Ok(before.is_some())
    }

    #[inline]
    fn scan(&self, task: &BenchOperation<F::Key<'static>>, limit: usize) -> bool {
        let (mut sum, mut count) = (0_u64, 0);
        let from = Bound::Included(task.key);
        self.index
            .scan(from, ScanDirection::Ascending, limit, |_, value| {
                sum = sum.wrapping_add(F::read(value));
                count += 1;
                if count < limit {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        // A sum without a use would let the compiler leave out the reads of values.
        black_box(sum);
        count > 0
    }
}

/// Adds a task to a batch; a read-modify-write makes two operations.
#[inline]
fn push<F: LabForm>(batch: &mut Batch<F>, task: &BenchOperation<F::Key<'static>>, version: u16) {
    match task.verb {
        BenchOperationKind::Get => {
            batch.get(task.key);
        }
        BenchOperationKind::Update | BenchOperationKind::Insert => {
            F::with_value(task.value(version), |value| batch.insert(task.key, value));
        }
        BenchOperationKind::Scan(limit) => {
            let low = Bound::Included(task.key);
            batch.scan(low, Bound::Unbounded, limit, ScanDirection::Ascending);
        }
        BenchOperationKind::ReadModifyWrite => {
            batch.get(task.key);
            F::with_value(task.value(version), |value| batch.insert(task.key, value));
        }
    }
}

/// Reads the outcomes of a batch and counts the wrong ones.
#[inline]
fn wrong_outcomes<F: LabForm>(batch: &Batch<F>, tasks: &[BenchOperation<F::Key<'static>>]) -> u64 {
    let mut wrong = 0;
    let mut position = 0;
    let value = |position| batch.value(position).map(F::read);
    for task in tasks {
        let is_right = match task.verb {
            // An update returns the value before, which is of any version.
            BenchOperationKind::Get | BenchOperationKind::Update => task.has_value(value(position)),
            BenchOperationKind::Insert => true,
            BenchOperationKind::Scan(limit) => {
                let entries = batch.entries(position);
                let count = entries.len();
                black_box(entries.fold(0, |sum: u64, (_, value)| sum.wrapping_add(F::read(value))));
                (1..=limit as usize).contains(&count)
            }
            BenchOperationKind::ReadModifyWrite => {
                position += 1;
                task.has_value(value(position - 1))
            }
        };
        position += 1;
        wrong += u64::from(!is_right);
    }
    debug_assert_eq!(position, batch.len(), "an outcome belongs to no task");
    wrong
}
