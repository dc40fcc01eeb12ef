//! Measurements of rivals and Nearfield's engine on this machine.

use super::entries::DcartEntryForm;
use super::workload::DcartWorkload;
use crate::clock::thread_cpu_time;
use crate::figures::job::PointError;
use crate::harness::{Interrupt, cores, together};
use nearfield_core::OperationError;
use nearfield_core::{Batch, ByteStrings, OrderedIndex, Words};
use nearfield_hardware::accelerator::dcart::DcartAction;
use nearfield_radix::{EngineOptions, RadixCounters, RadixIndex};
use nearfield_radix_rivals::{Art, ArtRowex, Heart, Rival, RivalDesign, Smart};
use std::time::Duration;

/// Number of operations that are timed together, and of a batch of the engine.
const CHUNK: usize = 4096;
/// Number of repetitions, of which the median counts.
const REPETITIONS: usize = 3;
/// Bytes of shortcuts of the data-centric engine, as many as in the accelerator's buffer.
const SHORTCUT_BYTES: usize = 128 << 10;

/// An index that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DcartContender {
    /// The adaptive radix tree with optimistic lock coupling.
    Art,
    /// The same with ROWEX, in which readers never restart.
    Rowex,
    /// SMART for shared memory.
    Smart,
    /// Heart, without persistence.
    Heart,
    /// The paper's processing model in software.
    DataCentric,
    /// Nearfield's engine with its default options.
    Engine,
}

impl DcartContender {
    pub(super) const ALL: [DcartContender; 6] = [
        DcartContender::Art,
        DcartContender::Rowex,
        DcartContender::Smart,
        DcartContender::Heart,
        DcartContender::DataCentric,
        DcartContender::Engine,
    ];

    /// Returns its name in figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            DcartContender::Art => "ART, measured",
            DcartContender::Rowex => "ART with ROWEX, measured",
            DcartContender::Smart => "SMART, measured",
            DcartContender::Heart => "Heart, measured",
            DcartContender::DataCentric => "DCART-C, measured",
            DcartContender::Engine => "Nearfield's engine, measured",
        }
    }

    pub(super) fn measure(
        self,
        load: &DcartWorkload,
        threads: usize,
        interrupt: &Interrupt,
    ) -> Result<MeasuredRates, PointError> {
        match load.is_words() {
            true => self.of_form::<Words>(load, threads, interrupt),
            false => self.of_form::<ByteStrings>(load, threads, interrupt),
        }
    }

    fn of_form<F: DcartEntryForm>(
        self,
        load: &DcartWorkload,
        threads: usize,
        interrupt: &Interrupt,
    ) -> Result<MeasuredRates, PointError> {
        let run = DcartMeasurement {
            load,
            threads,
            interrupt,
        };
        match self {
            DcartContender::Art => run.rival(&Art::<F>::new()),
            DcartContender::Rowex => run.rival(&ArtRowex::<F>::new()),
            DcartContender::Smart => run.rival(&Smart::<F>::new()),
            DcartContender::Heart => run.rival(&Heart::<F>::new()),
            DcartContender::DataCentric => {
                run.engine::<F>(EngineOptions::data_centric(SHORTCUT_BYTES))
            }
            DcartContender::Engine => run.engine::<F>(EngineOptions::default()),
        }
    }
}

/// Returns the number of threads of this machine.
pub(super) fn threads() -> usize {
    cores().len().max(1)
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeasuredRates {
    /// Operations per second of processor time, summed over the threads.
    pub(super) rate: f64,
    /// Partial key matches of an operation.
    pub(super) matches: f64,
    /// Locks that an operation did not get at the first attempt, restarts included.
    pub(super) contentions: f64,
}

struct DcartMeasurement<'r> {
    load: &'r DcartWorkload,
    threads: usize,
    interrupt: &'r Interrupt,
}

impl DcartMeasurement<'_> {
    /// Returns the part of a thread: consecutive operations.
    fn part(&self, thread: usize) -> &[(u32, DcartAction)] {
        let each = self.load.operations.len().div_ceil(self.threads);
        let all = &self.load.operations;
        debug_assert!(
            each * self.threads >= all.len(),
            "an operation has no thread"
        );
        &all[all.len().min(thread * each)..all.len().min((thread + 1) * each)]
    }

    fn fill<F: DcartEntryForm>(&self, index: &impl OrderedIndex<F>) -> Result<(), PointError> {
        let mut batch = Batch::<F>::new();
        let numbers: Vec<u32> = (0..self.load.loaded()).collect();
        for chunk in numbers.chunks(CHUNK) {
            if self.interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
            batch.clear();
            for number in chunk {
                let value = u64::from(*number).to_le_bytes();
                batch.insert(
                    F::key_of_load(self.load.key(*number)),
                    F::value_of_load(&value),
                );
            }
            index.execute(&mut batch)?;
        }
        Ok(())
    }

    fn batch<F: DcartEntryForm>(&self, batch: &mut Batch<F>, operations: &[(u32, DcartAction)]) {
        batch.clear();
        for (number, action) in operations {
            let key = F::key_of_load(self.load.key(*number));
            let value = u64::from(*number).to_le_bytes();
            match action {
                DcartAction::Insert | DcartAction::Update => {
                    batch.insert(key, F::value_of_load(&value))
                }
                DcartAction::Remove => batch.remove(key),
                DcartAction::Get => batch.get(key),
            };
        }
    }

    /// Repeats `chunk` over all operations, on all threads, and returns the median rate. `chunk`
    /// returns the time that counts, and the number of operations on absent keys. That number must
    /// be 0 if the load keeps its keys.
    fn rate(
        &self,
        chunk: impl Fn(&[(u32, DcartAction)]) -> Result<(Duration, u64), OperationError> + Sync,
    ) -> Result<f64, PointError> {
        let mut rates = Vec::new();
        for _ in 0..REPETITIONS {
            let lanes: Vec<usize> = (0..self.threads).collect();
            let parts = together(lanes, |_, thread| {
                let (mut time, mut wrong) = (Duration::ZERO, 0);
                for operations in self.part(thread).chunks(CHUNK) {
                    if self.interrupt.is_raised() {
                        break;
                    }
                    let (took, bad) = chunk(operations)?;
                    time += took;
                    wrong += bad;
                }
                Ok::<_, OperationError>((time, wrong))
            });
            if self.interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
            let (mut time, mut wrong) = (Duration::ZERO, 0);
            for part in parts {
                let (took, bad) = part?;
                time += took;
                wrong += bad;
            }
            let operations = self.load.operations.len();
            if wrong > 0 && self.load.keeps_keys() {
                return Err(PointError::Wrong {
                    wrong,
                    operations: operations as u64,
                    first: "a key that was loaded is absent".to_owned(),
                });
            }
            // Times are summed over threads, so this is the rate of one, times their number.
            rates.push(operations as f64 / time.as_secs_f64() * self.threads as f64);
        }
        debug_assert_eq!(rates.len(), REPETITIONS);
        rates.sort_by(f64::total_cmp);
        Ok(rates[REPETITIONS / 2])
    }

    /// Executes all operations on all threads, and returns partial key matches and lock contentions
    /// of an operation.
    fn counts<F: DcartEntryForm>(
        &self,
        execute: impl Fn(&mut Batch<F>, &mut RadixCounters) -> Result<(), OperationError> + Sync,
    ) -> Result<[f64; 2], PointError> {
        let lanes: Vec<usize> = (0..self.threads).collect();
        let parts = together(lanes, |_, thread| {
            let (mut counters, mut batch) = (RadixCounters::default(), Batch::<F>::new());
            for operations in self.part(thread).chunks(CHUNK) {
                self.batch(&mut batch, operations);
                execute(&mut batch, &mut counters)?;
            }
            Ok::<_, OperationError>(counters)
        });
        let operations = self.load.operations.len() as f64;
        let (mut matches, mut contentions) = (0, 0);
        for part in parts {
            let counters = part?;
            matches += counters.partial_key_matches;
            contentions += counters.lock_contentions;
        }
        Ok([matches as f64, contentions as f64].map(|count| count / operations))
    }

    /// Measures a rival: one operation after the other, by its fastest calls.
    fn rival<F: DcartEntryForm, D: RivalDesign<F>>(
        &self,
        index: &Rival<F, D>,
    ) -> Result<MeasuredRates, PointError> {
        self.fill::<F>(index)?;
        let rate = self.rate(|operations| {
            let guard = crossbeam_epoch::pin();
            let (begin, mut wrong) = (thread_cpu_time(), 0);
            for (number, action) in operations {
                let key = F::key_of_load(self.load.key(*number));
                let found = match action {
                    DcartAction::Insert | DcartAction::Update => {
                        let value = u64::from(*number).to_le_bytes();
                        index.set_pinned(&guard, key, F::value_of_load(&value), false)
                    }
                    DcartAction::Remove => index.remove_pinned(&guard, key),
                    DcartAction::Get => index
                        .read_pinned(&guard, key, |value| {
                            // The read of an unused value could be left out.
                            std::hint::black_box(value);
                        })
                        .is_some(),
                };
                wrong += u64::from(!found);
            }
            Ok((thread_cpu_time() - begin, wrong))
        })?;
        // Counting takes time, so it has a run of its own.
        let [matches, contentions] =
            self.counts::<F>(|batch, counters| index.execute_counted(batch, counters))?;
        Ok(MeasuredRates {
            rate,
            matches,
            contentions,
        })
    }

    /// Measures Nearfield's engine: in batches, without the time to fill them.
    fn engine<F: DcartEntryForm>(
        &self,
        options: EngineOptions,
    ) -> Result<MeasuredRates, PointError> {
        let index = RadixIndex::<F>::new()?;
        index.set_options(options);
        self.fill::<F>(&index)?;
        let rate = self.rate(|operations| {
            let mut batch = Batch::<F>::with_capacity(operations.len());
            self.batch(&mut batch, operations);
            let begin = thread_cpu_time();
            index.execute(&mut batch)?;
            let took = thread_cpu_time() - begin;
            let absent = (0..batch.len()).filter(|at| batch.value(*at).is_none());
            Ok((took, absent.count() as u64))
        })?;
        let [matches, contentions] =
            self.counts::<F>(|batch, counters| index.execute_counted(batch, counters))?;
        Ok(MeasuredRates {
            rate,
            matches,
            contentions,
        })
    }
}
