//! A comparison of an index in modules with a skip list that threads share: both are measured by a
//! clock, in turns, with the same operations.

use super::data::{ExpectedEntries, value};
use super::peers::{STRIDE, calls_for, run_part};
use super::scale::BYTES_PER_KEY;
use super::skew::Skew;
use super::work::RadarSingleOperation;
use crate::error::LabError;
use crate::figures::job::PointError;
use crate::harness::MeasurementSample;
use crate::harness::{Interrupt, MachineProperties, commit};
use crate::memory::check_available;
use crate::report::{self, MeasurementProgress, NumberOrigin};
use crate::workload::random;
use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_peers::{PeerKind, PeerMap, Visitor};
use rand::RngExt;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

/// Number of segments of the sorted keys that Zipf's distribution covers, as in RADAR's paper,
/// which has as many modules.
const SEGMENTS: usize = 2048;
/// Number of batches of operations, which are made before the clock starts. They are repeated when
/// all have run.
const BATCHES: usize = 64;
/// Bytes of a key in the skip list.
const PEER_BYTES_PER_KEY: usize = 80;
/// Bytes of a prepared operation, for both sides.
const BYTES_PER_OPERATION: usize = 64;
const SEED: u64 = 1;

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct PimBenchPlan {
    /// Number of keys that are loaded, at least one.
    pub keys: u64,
    /// Number of operations of a batch, at least one.
    pub batch: usize,
    /// Number of runs of each workload on each side, at least one.
    pub rounds: usize,
    /// Duration of each run; a batch that has begun is finished.
    pub turn: Duration,
}

/// The results of a measurement.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PimBenchReport {
    /// The commit of the working tree.
    pub commit: String,
    /// The machine of the measurement.
    pub machine: MachineProperties,
    /// Number of keys that were loaded.
    pub keys: u64,
    /// Number of operations of a batch.
    pub batch: usize,
    /// Number of threads that share the skip list.
    pub threads: usize,
    /// Number of turns of each side.
    pub rounds: usize,
    /// The length of a turn.
    pub turn_seconds: f64,
    /// Rows: the load first, then workloads in their order.
    pub rows: Vec<Row>,
    /// True if it was not interrupted.
    pub complete: bool,
}

/// A workload on both sides: `peer` is the index, with batches of one caller.
pub type Row = report::ReportRow<PimBenchResult>;

/// The results of both sides.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PimBenchResult {
    /// `load`, or the operations and the hot keys.
    pub workload: String,
    /// The index, with batches of one caller.
    pub modules: PimBenchSide,
    /// The skip list, with all threads.
    pub skip_list: PimBenchSide,
    /// Ratio of the median throughput of the index to that of the skip list.
    pub ratio: f64,
}

/// The results of one side, turn by turn.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PimBenchSide {
    /// Millions of operations a second, the median of its turns.
    pub median_mops: f64,
    /// Difference of the fastest and the slowest turn, as a share of the median.
    pub spread: f64,
    /// Millions of operations a second in each turn.
    pub turns_mops: Vec<f64>,
    /// Operations of all turns.
    pub operations: u64,
}

/// Loads an empty index and a skip list (crossbeam's, with values that are updated in place), runs
/// all workloads on both in turns, and calls `show` with each row when it is finished. After an
/// interrupt, the report has the rows that were finished before.
///
/// The index executes the batches of one caller. One thread for each core shares the skip list, and
/// the threads take the same operations from one list, some hundreds at a time, until the turn
/// ends. Each side continues its operations where its last turn ended.
/// All outcomes of the index are compared with the expected values. Threads write the skip list at
/// the same time, so its values are compared with all possible values of the key.
///
/// # Errors
/// `Lab` for a plan of nothing, or too little memory; `Batch` if the index refuses a batch; `Wrong`
/// for wrong outcomes.
pub fn run<I: OrderedIndex<Words>>(
    index: &I,
    plan: &PimBenchPlan,
    interrupt: &Interrupt,
    show: &mut dyn FnMut(&Row),
) -> Result<PimBenchReport, PointError> {
    plan.check()?;
    let visitor = PimBenchVisitor {
        index,
        plan,
        interrupt,
        show,
    };
    PeerKind::Skiplist.visit_words(visitor)
}

impl PimBenchPlan {
    fn check(&self) -> Result<(), LabError> {
        let least = [
            ("keys", self.keys),
            ("operations of a batch", self.batch as u64),
            ("rounds", self.rounds as u64),
        ];
        if let Some((name, given)) = least.into_iter().find(|&(_, given)| given == 0) {
            return Err(LabError::OutOfRange {
                subject: name,
                given: given.to_string(),
                allowed: "1 and more".to_owned(),
            });
        }
        let per_key = (BYTES_PER_KEY + PEER_BYTES_PER_KEY) as u64;
        let operations = (BATCHES * BYTES_PER_OPERATION) as u64;
        let bytes = self.keys.saturating_mul(per_key);
        let bytes = bytes.saturating_add((self.batch as u64).saturating_mul(operations));
        check_available(|| format!("{} keys, twice", self.keys), bytes)
    }
}

struct PimBenchWorkload {
    name: &'static str,
    skew: Skew,
    /// Number of overwrites in a hundred operations; the others are gets.
    overwrites: u32,
}

impl PimBenchWorkload {
    fn all() -> [PimBenchWorkload; 4] {
        let of = |name, skew, overwrites| PimBenchWorkload {
            name,
            skew,
            overwrites,
        };
        [
            of("gets, uniform", Skew::Keys(0.0), 0),
            of("half updates, seg-fixed:0.99", Skew::Fixed(0.99), 50),
            of("half updates, seg-fixed:1.2", Skew::Fixed(1.2), 50),
            of("half updates, key-zipf:1.2", Skew::Keys(1.2), 50),
        ]
    }

    /// Draws the sequence of operations that all turns go through.
    fn draws(&self, data: &ExpectedEntries, count: usize) -> Vec<PimBenchOperation> {
        let shares = self.skew.shares(SEGMENTS);
        let chooser = self.skew.chooser(&shares, data, 0, SEED);
        let mut random = random(SEED, 0);
        let draw = || PimBenchOperation {
            position: chooser.existing(data, &mut random),
            overwrites: random.random_range(0..100) < self.overwrites,
        };
        std::iter::repeat_with(draw).take(count).collect()
    }
}

/// An operation on the key at a position of the sorted keys.
#[derive(Clone, Copy, Debug)]
struct PimBenchOperation {
    position: usize,
    overwrites: bool,
}

/// The number of operations of a turn, and their time.
struct PimBenchTurn {
    operations: u64,
    took: Duration,
}

impl PimBenchTurn {
    fn mops(&self) -> f64 {
        self.operations as f64 / self.took.as_secs_f64().max(1e-9) / 1e6
    }
}

impl PimBenchSide {
    fn of(turns: &[PimBenchTurn]) -> PimBenchSide {
        let turns_mops: Vec<f64> = turns.iter().map(PimBenchTurn::mops).collect();
        let sample = MeasurementSample::new(turns_mops.clone());
        PimBenchSide {
            median_mops: sample.as_ref().map_or(0.0, MeasurementSample::median),
            spread: sample.as_ref().map_or(0.0, MeasurementSample::spread),
            turns_mops,
            operations: turns.iter().map(|turn| turn.operations).sum(),
        }
    }
}

fn row(workload: &str, modules: &[PimBenchTurn], skip_list: &[PimBenchTurn]) -> Row {
    let (modules, skip_list) = (PimBenchSide::of(modules), PimBenchSide::of(skip_list));
    let detail = PimBenchResult {
        workload: workload.to_owned(),
        ratio: modules.median_mops / skip_list.median_mops,
        modules,
        skip_list,
    };
    Row {
        rate_mops: Some(detail.modules.median_mops),
        ..Row::new("modules", NumberOrigin::Measured, detail)
    }
}

struct PimBenchVisitor<'c, I> {
    index: &'c I,
    plan: &'c PimBenchPlan,
    interrupt: &'c Interrupt,
    show: &'c mut dyn FnMut(&Row),
}

impl<I: OrderedIndex<Words>> Visitor<u64> for PimBenchVisitor<'_, I> {
    type Output = Result<PimBenchReport, PointError>;

    fn visit<P: PeerMap<u64> + 'static>(self) -> Result<PimBenchReport, PointError> {
        let plan = self.plan;
        let mut report = PimBenchReport {
            commit: commit(),
            machine: MachineProperties::here(),
            keys: plan.keys,
            batch: plan.batch,
            threads: available_parallelism().map_or(1, usize::from),
            rounds: plan.rounds,
            turn_seconds: plan.turn.as_secs_f64(),
            rows: Vec::new(),
            complete: true,
        };
        let workloads = PimBenchWorkload::all();
        let turns = 2 * (1 + workloads.len() * plan.rounds);
        let mut sides = PimBenchPair::<I, P> {
            index: self.index,
            peer: P::new(),
            data: ExpectedEntries::new(Vec::new()),
            plan,
            interrupt: self.interrupt,
            threads: report.threads,
            progress: MeasurementProgress::new("turn", turns),
        };
        let mut add = |sides: &PimBenchPair<I, P>, row: Row| {
            sides.progress.aside(|| (self.show)(&row));
            report.rows.push(row);
        };
        let mut measure = || {
            let row = sides.load()?;
            add(&sides, row);
            for workload in &workloads {
                let row = sides.row(workload)?;
                add(&sides, row);
            }
            Ok(())
        };
        match measure() {
            Ok(()) => {}
            Err(PointError::Interrupted) => report.complete = false,
            Err(error) => return Err(error),
        }
        Ok(report)
    }
}

/// Both sides, with the same keys.
struct PimBenchPair<'s, I, P> {
    index: &'s I,
    peer: P,
    /// The content of the index.
    data: ExpectedEntries,
    plan: &'s PimBenchPlan,
    interrupt: &'s Interrupt,
    threads: usize,
    progress: MeasurementProgress,
}

impl<I: OrderedIndex<Words>, P: PeerMap<u64>> PimBenchPair<'_, I, P> {
    /// Loads the same keys in the same order, which is random.
    fn load(&mut self) -> Result<Row, PointError> {
        let keys: Vec<u64> = ExpectedEntries::anywhere(self.plan.keys as usize, SEED).collect();
        self.progress.step("modules: load".to_owned());
        let modules = self.load_index(&keys)?;
        self.progress.part();
        self.progress.step("skip list: load".to_owned());
        let calls = keys
            .iter()
            .map(|&key| RadarSingleOperation::Insert(key, value(key, 0)));
        let calls = calls_for::<P>(calls)?;
        let skip_list = self.peer_turn(&calls, &AtomicUsize::new(0), None)?;
        self.progress.part();
        // The expected entries need the same memory.
        drop(calls);
        self.data = ExpectedEntries::new(keys);
        Ok(row("load", &[modules], &[skip_list]))
    }

    fn load_index(&self, keys: &[u64]) -> Result<PimBenchTurn, PointError> {
        let start = Instant::now();
        let mut batch = Batch::with_capacity(self.plan.batch);
        for part in keys.chunks(self.plan.batch) {
            self.go_on()?;
            batch.clear();
            for &key in part {
                batch.insert(key, value(key, 0));
            }
            self.index.execute(&mut batch)?;
        }
        // The count of keys is a check, and no part of the load.
        let took = start.elapsed();
        let found = self.index.len();
        if found != keys.len() {
            return Err(PointError::Wrong {
                wrong: found.abs_diff(keys.len()) as u64,
                operations: keys.len() as u64,
                first: format!("the index has {found} keys after the load"),
            });
        }
        Ok(PimBenchTurn {
            operations: keys.len() as u64,
            took,
        })
    }

    /// Runs a workload on both, in turns.
    fn row(&mut self, workload: &PimBenchWorkload) -> Result<Row, PointError> {
        self.progress
            .step(format!("{}: generating operations", workload.name));
        let draws = workload.draws(&self.data, BATCHES * self.plan.batch);
        let calls = draws.iter().enumerate().map(|(number, draw)| {
            let key = self.data.key(draw.position);
            match draw.overwrites {
                true => RadarSingleOperation::Update(key, value(key, number as u8)),
                false => RadarSingleOperation::Get(key),
            }
        });
        let calls = calls_for::<P>(calls)?;
        let (mut next, next_stride) = (0, AtomicUsize::new(0));
        let (mut modules, mut skip_list) = (Vec::new(), Vec::new());
        for _ in 0..self.plan.rounds {
            self.progress.step(format!("{}: modules", workload.name));
            modules.push(self.index_turn(&draws, &mut next)?);
            self.progress.part();
            self.progress.step(format!("{}: skip list", workload.name));
            skip_list.push(self.peer_turn(&calls, &next_stride, Some(self.plan.turn))?);
            self.progress.part();
        }
        Ok(row(workload.name, &modules, &skip_list))
    }

    /// Executes batches until the turn ends. The expected outcomes of a batch are computed while
    /// the clock is stopped.
    fn index_turn(
        &mut self,
        draws: &[PimBenchOperation],
        next: &mut usize,
    ) -> Result<PimBenchTurn, PointError> {
        let size = self.plan.batch;
        let mut batch = Batch::with_capacity(size);
        let mut expected = Vec::with_capacity(size);
        let mut turn = PimBenchTurn {
            operations: 0,
            took: Duration::ZERO,
        };
        // At least one batch, because a turn without operations has no rate.
        while turn.operations == 0 || turn.took < self.plan.turn {
            self.go_on()?;
            expected.clear();
            // Draws are a whole number of batches.
            debug_assert!(*next + size <= draws.len());
            for draw in &draws[*next..*next + size] {
                let (before, after) = match draw.overwrites {
                    true => {
                        let (before, after) = self.data.update(draw.position);
                        (before, Some(after))
                    }
                    false => (self.data.value(draw.position), None),
                };
                expected.push((self.data.key(draw.position), before, after));
            }
            *next = (*next + size) % draws.len();
            // The caller's work counts, too: filling the batch, and a look at each outcome.
            let start = Instant::now();
            batch.clear();
            for &(key, _, after) in &expected {
                match after {
                    Some(value) => batch.insert(key, value),
                    None => batch.get(key),
                };
            }
            self.index.execute(&mut batch)?;
            let outcomes = expected.iter().enumerate();
            let mut wrong = outcomes.filter(|&(at, &(_, before, _))| batch.value(at) != before);
            let first = wrong.next();
            turn.took += start.elapsed();
            turn.operations += size as u64;
            if let Some((at, &(key, before, _))) = first {
                let found = batch.outcome(at);
                return Err(PointError::Wrong {
                    wrong: 1 + wrong.count() as u64,
                    operations: size as u64,
                    first: format!("key {key:#x} must have {before:x?}, found {found:x?}"),
                });
            }
        }
        Ok(turn)
    }

    /// Makes all threads take calls, some hundreds at a time, until the time has passed; without a
    /// time, makes them take all calls once.
    fn peer_turn(
        &mut self,
        calls: &[(P::Key, RadarSingleOperation)],
        next_stride: &AtomicUsize,
        time: Option<Duration>,
    ) -> Result<PimBenchTurn, PointError> {
        debug_assert!(!calls.is_empty(), "threads would have nothing to take");
        let strides = calls.len().div_ceil(STRIDE);
        let sessions = self.peer.sessions(self.threads);
        let interrupt = self.interrupt;
        let start = Instant::now();
        let mut work = Vec::new();
        thread::scope(|scope| {
            let threads = sessions.into_iter().map(|mut session| {
                scope.spawn(move || {
                    let (mut operations, mut wrong) = (0, 0);
                    while !interrupt.is_raised() {
                        let number = next_stride.fetch_add(1, Ordering::Relaxed);
                        if time.is_none() && number >= strides {
                            break;
                        }
                        // The next turn goes on behind this one, so the number only grows.
                        let first = number % strides * STRIDE;
                        let part = &calls[first..calls.len().min(first + STRIDE)];
                        wrong += run_part(&mut session, part);
                        operations += part.len() as u64;
                        if time.is_some_and(|time| start.elapsed() >= time) {
                            break;
                        }
                    }
                    (operations, wrong)
                })
            });
            let threads: Vec<_> = threads.collect();
            // A thread that has panicked counts as a wrong outcome.
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or((0, 1)));
            work.extend(ended);
        });
        let took = start.elapsed();
        // An interrupted turn is shorter than the others, and no result.
        self.go_on()?;
        let operations = work.iter().map(|(operations, _)| operations).sum();
        match work.iter().map(|(_, wrong)| wrong).sum() {
            0 => Ok(PimBenchTurn { operations, took }),
            wrong => Err(PointError::Wrong {
                wrong,
                operations,
                first: "the skip list lacks a key, or has a value that was never written"
                    .to_owned(),
            }),
        }
    }

    fn go_on(&self) -> Result<(), PointError> {
        match self.interrupt.is_raised() {
            true => Err(PointError::Interrupted),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::{OperationError, OperationOutcome};
    use nearfield_hardware::modules::ModulePreset;
    use nearfield_pim::device::Model;
    use nearfield_pim_rivals::range_partition::RangePartition;

    fn index() -> RangePartition<Model> {
        RangePartition::new(Model::new(4, ModulePreset::UpmemMeasured.parameters()))
    }

    fn plan() -> PimBenchPlan {
        PimBenchPlan {
            keys: 5000,
            batch: 500,
            rounds: 2,
            turn: Duration::from_millis(5),
        }
    }

    #[test]
    fn both_sides_do_every_workload_in_all_turns() {
        let (index, mut shown) = (index(), Vec::new());
        let mut show = |row: &Row| shown.push(row.detail.workload.clone());
        let report = run(&index, &plan(), &Interrupt::default(), &mut show).unwrap();
        assert!(report.complete);
        let rows = report.rows.iter().map(|row| row.detail.workload.clone());
        assert_eq!(rows.collect::<Vec<_>>(), shown);
        assert_eq!(shown.len(), 5);
        for row in report.rows.iter().map(|row| &row.detail) {
            let turns = if row.workload == "load" { 1 } else { 2 };
            for side in [&row.modules, &row.skip_list] {
                assert_eq!(side.turns_mops.len(), turns, "{}", row.workload);
                assert!(side.median_mops > 0.0 && side.operations >= 500);
            }
            let ratio = row.modules.median_mops / row.skip_list.median_mops;
            assert_eq!(row.ratio, ratio);
        }
        let load = &report.rows[0].detail;
        assert_eq!(
            (load.modules.operations, load.skip_list.operations),
            (5000, 5000)
        );
    }

    #[test]
    fn an_interrupt_keeps_the_rows_before() {
        let interrupt = Interrupt::default();
        let mut show = |_: &Row| interrupt.raise();
        let report = run(&index(), &plan(), &interrupt, &mut show).unwrap();
        assert!(!report.complete);
        assert_eq!(report.rows.len(), 1);
    }

    #[test]
    fn a_plan_without_keys_is_refused() {
        let plan = PimBenchPlan { keys: 0, ..plan() };
        let refused = run(&index(), &plan, &Interrupt::default(), &mut |_| ());
        assert!(matches!(
            refused,
            Err(PointError::Lab(LabError::OutOfRange {
                subject: "keys",
                ..
            }))
        ));
    }

    /// An index that loses writes after its load.
    struct WriteLosingIndex(RangePartition<Model>);

    impl OrderedIndex<Words> for WriteLosingIndex {
        fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
            self.0.execute(batch)?;
            if let OperationOutcome::Value(Some(_)) = batch.outcome(0) {
                self.0
                    .remove(ExpectedEntries::anywhere(1, SEED).next().unwrap())?;
            }
            Ok(())
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn check_invariants(&self) {}
    }

    #[test]
    fn a_key_that_is_lost_is_noticed() {
        let lost = run(
            &WriteLosingIndex(index()),
            &PimBenchPlan { keys: 20, ..plan() },
            &Interrupt::default(),
            &mut |_| (),
        );
        assert!(matches!(lost, Err(PointError::Wrong { .. })), "{lost:?}");
    }
}
