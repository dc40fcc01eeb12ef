//! Runs of batches on an index in modelled modules, with their costs.

use super::contender::{ModelledIndex, ModelledIndexSize, RadarContender, SkewCounters};
use super::data::ExpectedEntries;
use super::front::PipelinedClients;
use super::scale::{Figure, RadarScale};
use super::skew::Skew;
use super::work::{RadarCheckedBatch, ScanLengthRule, Verbs};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::{self, Quantity, Row};
use crate::harness::Interrupt;
use crate::report::{MeasurementSetting, NumberOrigin};
use crate::workload::random;
use nearfield_core::{Batch, Words};
use nearfield_hardware::modules::{ModuleParameters, ModulePreset};
use nearfield_pim::device::{DeviceCounters, Model, ModuleDevice, ProgramWork};
use nearfield_pim::radar::heights::HeightReport;
use std::sync::Arc;
use std::time::Duration;

/// An index with its loaded keys.
pub(super) struct RadarBench {
    index: Arc<dyn ModelledIndex>,
    /// The clients of the index, if it is behind a protocol.
    clients: Option<PipelinedClients>,
    data: ExpectedEntries,
    scale: RadarScale,
    /// The name of the key set.
    keys: &'static str,
    reach: ScanLengthRule,
    /// Number of batches so far.
    made: u64,
    /// Time of the last batch in the protocol, between clients and the index.
    on_the_way: Duration,
}

/// The work of a run.
#[derive(Clone, Debug)]
pub(super) struct RadarWorkload {
    pub verbs: Verbs,
    pub skew: Skew,
    /// Number of batches that count.
    pub batches: usize,
}

/// The totals up to a moment.
#[derive(Clone)]
pub(super) struct Moment {
    /// Parameters of the device, and of each other set, with the counters by them.
    clocks: Vec<(ModuleParameters, DeviceCounters)>,
    moved: SkewCounters,
    /// Measured time in the protocol of the batch before.
    on_the_way: Duration,
}

/// The costs of batches.
pub(super) struct RadarBatchCosts {
    operations: usize,
    batches: usize,
    clocks: Vec<(ModuleParameters, DeviceCounters)>,
    moved: SkewCounters,
    rounds_max: u64,
    modules: usize,
    modules_bytes: u64,
    host_bytes: u64,
    keys: usize,
    setting: MeasurementSetting,
    part: f64,
    /// Measured time of a batch to the index and back: the median.
    on_the_way: Duration,
}

/// The parameters of the device itself. Indexes that decide by time use them.
pub(super) const DEVICE: ModulePreset = ModulePreset::UpmemMeasured;

impl RadarBench {
    /// Loads an index by batches of insertions. Its rounds are also accounted for by the other sets
    /// of parameters.
    ///
    /// # Errors
    /// It cannot be created or loaded; `Interrupted`.
    pub(super) fn load(
        contender: &RadarContender,
        scale: &RadarScale,
        others: &[ModuleParameters],
        keys: RadarKeySet,
        interrupt: &Interrupt,
    ) -> Result<RadarBench, PointError> {
        let mut device = Model::new(scale.modules, DEVICE.parameters());
        for parameters in others {
            device = device.also(*parameters);
        }
        let (keys, name, reach) = match keys {
            RadarKeySet::Anywhere => {
                let keys = ExpectedEntries::anywhere(scale.keys, scale.seed);
                (keys.collect(), "sparse", ScanLengthRule::Space)
            }
            RadarKeySet::These(keys) => (keys, "words", ScanLengthRule::Positions),
        };
        let size = ModelledIndexSize {
            modules: scale.modules,
            keys: keys.len(),
        };
        let index: Arc<dyn ModelledIndex> = contender.make(device, size)?.into();
        for part in keys.chunks(scale.batch) {
            let mut batch = Batch::with_capacity(part.len());
            for &key in part {
                batch.insert(key, super::data::value(key, 0));
            }
            index.execute(&mut batch)?;
            if interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
        }
        // A word that occurs twice in a document is one key.
        let data = ExpectedEntries::new(keys);
        let found = index.len();
        if found != data.len() {
            return Err(PointError::Wrong {
                wrong: found.abs_diff(data.len()) as u64,
                operations: data.len() as u64,
                first: format!("{found} keys after the load"),
            });
        }
        Ok(RadarBench {
            index,
            clients: None,
            data,
            scale: scale.clone(),
            keys: name,
            reach,
            made: 0,
            on_the_way: Duration::ZERO,
        })
    }

    /// Makes all later batches come as commands of a protocol.
    ///
    /// # Errors
    /// The system grants no connections.
    pub(super) fn serve(&mut self) -> Result<(), PointError> {
        let index = Arc::clone(&self.index);
        self.clients = Some(PipelinedClients::of_index("the front of an index", index)?);
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch<Words>) -> Result<(), PointError> {
        match &mut self.clients {
            Some(clients) => self.on_the_way = clients.execute(batch)?,
            None => self.index.execute(batch)?,
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        let mut clocks = Vec::new();
        self.index.look(&mut |device| {
            clocks.push((*device.parameters(), device.counters().clone()));
            let others = device.others();
            clocks.extend(others.map(|(parameters, counters)| (*parameters, counters.clone())));
        });
        Moment {
            clocks,
            moved: self.index.moved(),
            on_the_way: self.on_the_way,
        }
    }

    /// Executes batches: some that do not count, then those that do. Returns the totals before the
    /// first of all and after each.
    ///
    /// # Errors
    /// The error of the index; wrong outcomes; `Interrupted`.
    pub(super) fn run(
        &mut self,
        phase: &RadarWorkload,
        interrupt: &Interrupt,
    ) -> Result<Vec<Moment>, PointError> {
        let shares = phase.skew.shares(self.scale.modules);
        let operations = phase.verbs.operations(self.scale.batch);
        let mut moments = vec![self.moment()];
        for _ in 0..self.scale.warming + phase.batches {
            let number = self.made;
            self.made += 1;
            let chooser = phase
                .skew
                .chooser(&shares, &self.data, number, self.scale.seed);
            // The number of the batch is its seed, so that all contenders get the same batches.
            let mut random = random(self.scale.seed, number);
            let mut work = RadarCheckedBatch::make(
                &mut self.data,
                &chooser,
                &phase.verbs,
                self.reach,
                operations,
                &mut random,
            );
            self.execute(&mut work.batch)?;
            if let Some((wrong, first)) = work.check() {
                return Err(PointError::Wrong {
                    wrong,
                    operations: operations as u64,
                    first,
                });
            }
            // After the check: positions change, and expected outcomes refer to the old ones.
            self.data.settle();
            moments.push(self.moment());
            if interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
        }
        Ok(moments)
    }

    /// Executes batches, and returns the costs of those that count.
    ///
    /// # Errors
    /// See [`run`](RadarBench::run).
    pub(super) fn outcome(
        &mut self,
        phase: &RadarWorkload,
        interrupt: &Interrupt,
    ) -> Result<RadarBatchCosts, PointError> {
        let moments = self.run(phase, interrupt)?;
        let counted = &moments[self.scale.warming..];
        // Also of the batches that do not count: the bound holds for any batch.
        let rounds = moments.windows(2).map(|pair| rounds(&pair[0], &pair[1]));
        Ok(RadarBatchCosts {
            rounds_max: rounds.max().unwrap_or(0),
            ..self.between(phase, counted)
        })
    }

    /// Returns the report of heights by hotness, if the index has them. It first learns from all
    /// observations so far.
    pub(super) fn heights(&self) -> Option<HeightReport> {
        self.index.heights()
    }

    /// Computes the costs of the batches between the first and the last moment.
    pub(super) fn between(&self, phase: &RadarWorkload, moments: &[Moment]) -> RadarBatchCosts {
        debug_assert!(moments.len() > 1, "no batch counts");
        let (first, last) = (&moments[0], &moments[moments.len() - 1]);
        debug_assert_eq!(first.clocks.len(), last.clocks.len());
        let batches = moments.len() - 1;
        let each = phase.verbs.operations(self.scale.batch);
        let mut modules_bytes = 0;
        self.index
            .look(&mut |device| modules_bytes = device.used_bytes());
        let clocks = first.clocks.iter().zip(&last.clocks);
        let host = DEVICE.parameters().host;
        let mut on_the_way: Vec<_> = moments[1..].iter().map(|one| one.on_the_way).collect();
        on_the_way.sort_unstable();
        RadarBatchCosts {
            operations: each * batches,
            batches,
            clocks: clocks
                .map(|((parameters, before), (_, after))| (*parameters, since(after, before)))
                .collect(),
            moved: SkewCounters {
                pulled: last.moved.pulled - first.moved.pulled,
                divided: last.moved.divided - first.moved.divided,
                keys: last.moved.keys - first.moved.keys,
                tasks: last.moved.tasks - first.moved.tasks,
                fullest: last.moved.fullest - first.moved.fullest,
            },
            rounds_max: rounds(first, last),
            modules: self.scale.modules,
            modules_bytes,
            host_bytes: self.index.host_bytes(),
            keys: self.data.len(),
            setting: MeasurementSetting {
                keys: self.keys.to_owned(),
                count: self.data.len(),
                mix: phase.verbs.name.to_owned(),
                distribution: phase.skew.to_string(),
                threads: host.threads as usize,
                batch: each,
            },
            part: self.scale.part(),
            on_the_way: on_the_way[batches / 2],
        }
    }
}

/// Creates a job of `phases` phases that loads an index with keys anywhere and works with it.
pub(super) fn job<W>(
    figure: &Figure,
    scale: &RadarScale,
    contender: RadarContender,
    phases: usize,
    work: W,
) -> FigureJob
where
    W: FnOnce(&mut RadarBench, &mut RunningJob<'_>) -> Result<(), PointError> + Send + 'static,
{
    let own = scale.clone();
    let job = FigureJob::new(figure.name, contender.name, phases, move |run| {
        let mut bench =
            RadarBench::load(&contender, &own, &[], RadarKeySet::Anywhere, run.interrupt)?;
        work(&mut bench, run)
    });
    FigureJob {
        bytes: scale.bytes(),
        ..job
    }
}

/// The keys that an index is loaded with.
pub(super) enum RadarKeySet {
    /// Keys anywhere in their space, as many as in the scale.
    Anywhere,
    /// These keys, in any order and possibly with duplicates.
    These(Vec<u64>),
}

fn rounds(first: &Moment, last: &Moment) -> u64 {
    let rounds = |moment: &Moment| moment.clocks.first().map_or(0, |(_, of)| of.rounds);
    rounds(last) - rounds(first)
}

fn since(after: &DeviceCounters, before: &DeviceCounters) -> DeviceCounters {
    let bytes = |after: [u64; 2], before: [u64; 2]| [after[0] - before[0], after[1] - before[1]];
    let (work, old) = (after.work, before.work);
    DeviceCounters {
        rounds: after.rounds - before.rounds,
        work: ProgramWork {
            instructions: work.instructions - old.instructions,
            reads: work.reads - old.reads,
            writes: work.writes - old.writes,
            bytes: work.bytes - old.bytes,
            compares: work.compares - old.compares,
            hops: work.hops - old.hops,
        },
        useful_bytes: bytes(after.useful_bytes, before.useful_bytes),
        moved_bytes: bytes(after.moved_bytes, before.moved_bytes),
        fullest_words: after.fullest_words - before.fullest_words,
        average_words: after.average_words - before.average_words,
        kernel: after.kernel - before.kernel,
        kernels: after.kernels - before.kernels,
        transfer: after.transfer - before.transfer,
        gather: after.gather - before.gather,
        launch: after.launch - before.launch,
        host: after.host - before.host,
    }
}

impl RadarBatchCosts {
    /// Returns the number of parameter sets that costs are accounted for by.
    pub(super) fn clocks(&self) -> usize {
        self.clocks.len()
    }

    /// Returns the words of the fullest module divided by the mean. Words that stay on the host do
    /// not count.
    pub(super) fn imbalance_of_words(&self) -> f64 {
        let counters = &self.clocks[0].1;
        counters.fullest_words as f64 / counters.average_words.max(1.0)
    }

    /// Returns the tasks of the fullest module divided by the mean.
    pub(super) fn imbalance_of_tasks(&self) -> f64 {
        match self.moved.tasks {
            0 => self.imbalance_of_words(),
            tasks => self.moved.fullest as f64 * self.modules as f64 / tasks as f64,
        }
    }

    /// Returns millions of operations a second by the parameter set of this number.
    pub(super) fn rate_mops(&self, clock: usize) -> f64 {
        // Without the time in a protocol, because it is measured and this one is modelled.
        let seconds = self.clocks[clock].1.time().as_seconds();
        self.operations as f64 / seconds.max(1e-12) / 1e6
    }

    /// Returns the work by the parameter set of this number.
    pub(super) fn work(&self, clock: usize) -> row::ModuleWorkCounts {
        let (parameters, counters) = &self.clocks[clock];
        let operations = self.operations as f64;
        let batches = self.batches as f64;
        debug_assert!(self.batches > 0 && self.operations > 0);
        let each = |count: u64| count as f64 / operations;
        let bytes = |count: [u64; 2]| count.map(each);
        let moved = counters.moved_bytes.iter().sum();
        let joules = parameters.joules(counters.kernels, moved);
        // The mean over all modules, including those without work.
        let kernels = counters.kernels.as_nanoseconds() / self.modules as f64;
        row::ModuleWorkCounts {
            batches: self.batches as u64,
            rounds: counters.rounds as f64 / batches,
            rounds_between: counters.rounds as f64 / batches - 1.0,
            rounds_max: self.rounds_max,
            hops: each(counters.work.hops),
            compares: each(counters.work.compares),
            copies: each(counters.work.copies()),
            copied_bytes: each(counters.work.bytes),
            instructions: each(counters.work.instructions),
            useful_bytes: bytes(counters.useful_bytes),
            moved_bytes: bytes(counters.moved_bytes),
            modules_ns: counters.kernel.as_nanoseconds() / batches,
            transfer_ns: counters.transfer.as_nanoseconds() / batches,
            launch_ns: counters.launch.as_nanoseconds() / batches,
            host_ns: counters.host.as_nanoseconds() / batches,
            on_the_way_ns: self.on_the_way.as_secs_f64() * 1e9,
            host_idle_ns: counters.host_idle().as_nanoseconds() / batches,
            modules_idle_ns: counters.modules_idle().as_nanoseconds() / batches,
            imbalance: self.imbalance_of_words(),
            imbalance_ns: counters.kernel.as_nanoseconds() / kernels.max(1e-3),
            microjoules: joules * 1e6 / operations,
            pulled: self.moved.pulled as f64 / batches,
            divided: self.moved.divided as f64 / batches,
            moved_keys: self.moved.keys as f64 / batches,
            modules_bytes: self.modules_bytes,
            host_bytes: self.host_bytes,
        }
    }

    /// Creates a point of a figure, by the parameter set of this number.
    pub(super) fn row(&self, figure: &str, peer: &str, clock: usize, x: Quantity) -> Row {
        let rate = self.rate_mops(clock);
        let bytes = (self.modules_bytes + self.host_bytes) as f64;
        let mut row = Row::rated(figure, peer, x, rate, NumberOrigin::Modelled);
        row.setting = Some(self.setting.clone());
        row.bytes_per_key = Some(bytes / self.keys as f64);
        row.detail = row::FigurePoint {
            panel: self.setting.mix.clone(),
            scale: Some(self.part),
            device: Some(self.clocks[clock].0.name.to_owned()),
            modules: Some(self.modules),
            work: Some(self.work(clock)),
            ..row.detail
        };
        row
    }
}
