//! RADAR (Hua et al., TPDS 2024): subranges of keys in modules, which are divided under load.
//!
//! The host knows the module of each subrange, and sends each operation there: one round. In a
//! module, a skip list of subranges leads to a skip list of keys for each. Before the host sends a
//! batch, it compares the loads of modules. If some have a much greater load than others, their
//! hottest subranges are divided, and the pieces move to modules with little load. Subranges that
//! cannot be divided further are pulled to the host. Formulas 1 to 5 decide if that is worth its
//! cost, an additional round.
//!
//! Subranges have sizes of powers of two, and are aligned to their size. Empty subranges are not
//! stored. The host finds a key's subrange in an ordered directory of all. The paper instead probes
//! a hash table for each size, from fine to coarse; predecessors and scans need the order anyway.

mod demand;
pub mod heights;
mod homes;
mod options;
mod program;
mod redistribute;
mod replicas;
mod skew;
mod store;

pub use options::{RadarOptions, SubrangePlacement};
pub use program::SubrangeStructure;
pub use skew::Price;

use crate::device::{HostWork, ModuleDevice, RoundError};
use crate::dispatch::directory::{PartitionDirectory, PartitionPlace, WordPartition};
use crate::dispatch::plan::{ModuleTaskPlan, NOBODY, refused};
use crate::dispatch::routing::BatchRouting;
use crate::dispatch::task::{ModuleTask, ModuleTaskResult};
use crate::dispatch::wire::{self, ModuleReply, Replied};
use heights::{Classifier, HeightReport, LearningWindow, Predictor};
use homes::{fresh, place};
use nearfield_core::{
    Batch, BatchInput, IndexOperation, OperationError, OperationOutcome, OrderedIndex, Words,
};
use program::RadarProgram;
use redistribute::SubrangeMoves;
use replicas::Replicas;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::PulledSubranges;

/// An ordered index whose subranges follow the load.
///
/// After a write has failed with its module, [`len`](OrderedIndex::len) counts the keys of the
/// subrange again. While the module still fails, the last known number counts.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::ModulePreset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim::radar::{RadarOptions, Radar};
///
/// let model = Model::new(64, ModulePreset::UpmemMeasured.parameters());
/// let index = Radar::new(model, RadarOptions::radar(64));
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct Radar<D> {
    host: Mutex<RadarHost<D>>,
}

#[derive(Debug)]
struct RadarHost<D> {
    device: D,
    options: RadarOptions,
    directory: PartitionDirectory,
    /// The subranges that the host itself stores.
    store: PulledSubranges,
    /// Number of keys of each module, for placing subranges.
    keys: Vec<u64>,
    /// Modules that had no room and have freed nothing since.
    full: BTreeSet<usize>,
    /// The known loads of modules in this batch, in operations.
    loads: Vec<u64>,
    /// The modules chosen for subranges that this batch may create, by their starts.
    homes: HashMap<u64, usize>,
    /// Subranges that modules have yet to remove, as pairs of module and start.
    removals: Vec<(usize, u64)>,
    /// The moves of this batch.
    moving: SubrangeMoves,
    moves: SubrangeMoveCounts,
    /// The copies of frequently read subranges.
    replicas: Replicas,
    /// The sizes of existing subranges as numbers of bits in which their keys differ, from fine to
    /// coarse.
    sizes: Vec<u32>,
    /// The costs of operations in the last batch; `None` if they were not counted.
    averages: Option<Averages>,
    balance: TaskBalance,
    /// The sum of the balances of all batches.
    balances: TaskBalance,
    /// Number of batches so far.
    batches: u64,
    /// The classifier that sets heights by hotness, if any.
    heights: Option<Classifier>,
}

/// Average numbers of pointers that operations followed.
#[derive(Clone, Copy, Debug)]
struct Averages {
    /// Average of an operation on a key.
    point: f64,
    /// Average of a scan.
    range: f64,
}

/// The distribution of a batch over modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskBalance {
    /// Number of tasks of the module with most tasks.
    pub fullest: u64,
    /// Number of tasks of all modules.
    pub all: u64,
    /// Number of tasks that the host executed itself.
    pub host: u64,
}

/// Counts of the moves against skew so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubrangeMoveCounts {
    /// Number of subranges that were divided.
    pub divided: u64,
    /// Number of copies of subranges that were made.
    pub copied: u64,
    /// Number of subranges that were pulled to the host.
    pub pulled: u64,
    /// Number of groups of subranges that were merged because they had no requests.
    pub merged: u64,
    /// Number of subranges that the host returned to modules.
    pub returned: u64,
    /// Number of keys that were moved.
    pub keys: u64,
}

impl<D: ModuleDevice> Radar<D> {
    /// Creates an empty index in the modules of a device.
    pub fn new(device: D, options: RadarOptions) -> Radar<D> {
        let keys = vec![0; device.modules()];
        Radar {
            host: Mutex::new(RadarHost {
                device,
                options,
                directory: PartitionDirectory::default(),
                store: PulledSubranges::default(),
                keys,
                full: BTreeSet::new(),
                loads: Vec::new(),
                homes: HashMap::new(),
                removals: Vec::new(),
                moving: SubrangeMoves::default(),
                moves: SubrangeMoveCounts::default(),
                replicas: Replicas::default(),
                sizes: Vec::new(),
                averages: None,
                balance: TaskBalance::default(),
                balances: TaskBalance::default(),
                batches: 0,
                heights: options.heights.classifier(),
            }),
        }
    }

    /// Creates an empty index with heights by a predictor, which replaces the option for heights. A
    /// separate thread trains the predictor, and ends with the index.
    pub fn with_predictor(
        device: D,
        options: RadarOptions,
        window: LearningWindow,
        predictor: Box<dyn Predictor>,
    ) -> Radar<D> {
        let index = Radar::new(device, options);
        index.lock().heights = Some(Classifier::new(window, predictor));
        index
    }

    /// Returns the report on heights, if they are set by hotness; waits until the predictor has
    /// learnt from all observations.
    pub fn heights(&self) -> Option<HeightReport> {
        self.lock().heights.as_mut().map(Classifier::report)
    }

    /// Passes the device to `look` and returns its result.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// Returns the moves against skew.
    pub fn moves(&self) -> SubrangeMoveCounts {
        self.lock().moves
    }

    /// Returns the distribution of the last batch over modules.
    pub fn balance(&self) -> TaskBalance {
        self.lock().balance
    }

    /// Returns the sum of the distributions of all batches so far.
    pub fn balances(&self) -> TaskBalance {
        self.lock().balances
    }

    /// Returns the number of subranges.
    pub fn subranges(&self) -> usize {
        self.lock().directory.len()
    }

    /// Returns the number of keys that the host stores.
    pub fn keys_of_host(&self) -> usize {
        self.lock().store.len()
    }

    fn lock(&self) -> MutexGuard<'_, RadarHost<D>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ModuleDevice + Send> OrderedIndex<Words> for Radar<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        self.lock().execute(batch)
    }

    fn len(&self) -> usize {
        let mut host = self.lock();
        host.recount();
        host.directory.keys() as usize
    }

    fn check_invariants(&self) {
        let host = self.lock();
        let mut end = None;
        for (start, partition) in host.directory.iter() {
            assert!(end.is_none_or(|end| start > end), "subranges overlap");
            assert!(partition.last >= start && partition.count > 0);
            end = Some(partition.last);
        }
    }
}

impl<D: ModuleDevice> RadarHost<D> {
    /// Returns the number that stands for the host among modules.
    fn host(&self) -> usize {
        self.device.modules()
    }

    fn execute(&mut self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        let modules = self.device.modules();
        // The tasks that modules execute before those of the operations. Removals come first,
        // because a removed subrange may be rebuilt.
        let mut inputs = vec![Vec::new(); modules + 1];
        for &(module, start) in &self.removals {
            ModuleTask::Free { start }.encode(0, NOBODY, &mut inputs[module]);
        }
        let input = batch.input()?;
        let mut requests = BatchRouting::new(input, self.options.combines_reads, &self.directory);
        self.forget_written(input, &requests, &mut inputs);
        // Nothing is learnt from single operations.
        let learns = input.operations().len() > 1;
        if let (true, Some(heights)) = (learns, &mut self.heights) {
            heights.begin(self.device.counters());
        }
        self.homes.clear();
        // A single operation cannot make a module busy, and would pay for the look at all subranges
        // alone.
        if self.options.redistributes && input.operations().len() > 1 {
            let changed = self.redistribute(input, &requests, &mut inputs);
            if changed.inspect_err(|_| self.undo())? {
                // Places of the table may belong to subranges that have been divided or merged.
                requests.find(input, &self.directory);
            }
            self.find_homes(input, &requests);
        }
        self.batches += 1;
        let plan = self.plan(input, &requests, &mut inputs, learns);
        // The last input is that of the host, which the device does not take.
        let own = inputs.pop().unwrap_or_default();
        let hops = self.device.counters().work.hops;
        let mut replied = match self.round(inputs) {
            Ok(replied) => replied,
            Err(error) => {
                plan.give_up(&mut self.directory);
                self.undo();
                self.forget_empty();
                return Err(refused(&error));
            }
        };
        if let (true, Some(heights)) = (learns, &mut self.heights) {
            heights.after_round();
        }
        let (answers, mut work) = self.run_here(&own);
        work.probes += self.probes(input);
        self.device.at_host(&work);
        debug_assert_eq!(replied.len(), self.host(), "the host's reply is the last");
        replied.push(Ok(ModuleReply::tagged(answers)));
        let (input, mut output) = batch.begin()?;
        let mut lists = HashMap::new();
        let others = |tag: u32, answer: &ModuleTaskResult<'_>| {
            if let ModuleTaskResult::Value(list) = *answer {
                lists.insert(tag, list as u32);
            }
        };
        let finished = plan.finish(input, &mut output, &replied, &mut self.directory, others);
        self.full.extend(finished.full);
        self.device.at_host(&HostWork {
            words: finished.words_again,
            ..HostWork::default()
        });
        self.settle(&lists, &replied);
        self.forget_empty();
        let hops = self.device.counters().work.hops - hops;
        self.averages = average(hops, batch);
        if let (true, Some(heights)) = (learns, &mut self.heights) {
            heights.end(self.device.counters());
        }
        Ok(())
    }

    /// Executes a round: encodes tasks that have their own headers in the chosen format, sends them
    /// to modules, and returns the modules' replies.
    fn round(&mut self, inputs: Vec<Vec<u64>>) -> Result<Vec<Replied>, RoundError> {
        let RadarOptions { keys, packs, .. } = self.options;
        let (inputs, tags): (Vec<Vec<u64>>, Vec<Option<Vec<u32>>>) = match packs {
            true => {
                let packed = inputs.iter().map(|words| wire::pack(words));
                packed.map(|(words, tags)| (words, Some(tags))).unzip()
            }
            false => inputs.into_iter().map(|words| (words, None)).unzip(),
        };
        let count = |words: &[u64]| words.len() as u64;
        let sent: u64 = inputs.iter().map(|words| count(words)).sum();
        let tasks = RadarProgram {
            keys,
            packed: packs,
        };
        let answered = self.device.round(tasks, inputs)?;
        let back: u64 = answered.iter().flatten().map(|words| count(words)).sum();
        self.device.at_host(&HostWork {
            words: sent + back,
            ..HostWork::default()
        });
        let replied = answered.into_iter().zip(tags).map(|(answered, tags)| {
            answered.map(|words| match tags {
                Some(tags) => ModuleReply::of_runs(words, tags),
                None => ModuleReply::tagged(words),
            })
        });
        Ok(replied.collect())
    }

    /// Removes the copies of subranges that the batch will write.
    fn forget_written(
        &mut self,
        input: BatchInput<'_, Words>,
        requests: &BatchRouting,
        inputs: &mut [Vec<u64>],
    ) {
        if self.replicas.is_empty() {
            return;
        }
        for (position, operation) in input.operations().iter().enumerate() {
            if operation.is_write()
                && let Some(key) = operation.point_key()
                && let Some(place) = requests.place(position, key, &self.directory)
            {
                self.forget_copies(self.directory.start(place), inputs);
            }
        }
    }

    /// Appends the tasks of operations, and those that build new subranges for them.
    fn plan(
        &mut self,
        input: BatchInput<'_, Words>,
        requests: &BatchRouting,
        inputs: &mut [Vec<u64>],
        learns: bool,
    ) -> ModuleTaskPlan {
        let modules = self.device.modules();
        let mut created: Vec<(usize, u64, u64)> = Vec::new();
        let RadarHost {
            directory,
            options,
            keys,
            batches,
            replicas,
            full,
            homes,
            ..
        } = self;
        let tasks = vec![Vec::new(); modules + 1];
        // The expected number of keys of a new subrange: the average.
        let mean = keys.iter().sum::<u64>() / (directory.len() as u64).max(1);
        let create = |directory: &mut PartitionDirectory, key| -> Option<PartitionPlace> {
            let (start, last) = fresh(directory, options, modules, key);
            let home = homes.get(&start).copied();
            let home = home.filter(|module| !full.contains(module));
            let module = home.unwrap_or_else(|| place(start, options.placement, keys, full));
            // The expected keys are counted at once, so that the subranges of a batch do not all go
            // to the module that is emptiest before it.
            keys[module] += mean.max(1);
            let partition = WordPartition {
                last,
                module,
                count: 0,
                list: 0,
                used: *batches,
                least: None,
                lowest: u64::MAX,
            };
            directory.insert(start, partition);
            created.push((module, start, last));
            directory.find(start)
        };
        let read =
            |directory: &PartitionDirectory, place, number| replicas.read(directory, place, number);
        let mut plan = ModuleTaskPlan::new(input, tasks, requests, directory, create, read);
        for (module, start, last) in created {
            // The task precedes those of the operations, which need the list.
            self.moving.build(start, last, &[], &mut inputs[module]);
        }
        if let (true, Some(heights)) = (learns, &mut self.heights) {
            let (tasks, built) = (plan.tasks(), self.moving.starts());
            let counters = self.device.counters();
            heights.before_round(tasks, built, &self.directory, inputs, counters);
        }
        for (words, tasks) in inputs.iter_mut().zip(&mut plan.inputs) {
            words.append(tasks);
        }
        let tasks = plan.tasks_by_module(modules + 1);
        let (of_modules, of_host) = tasks.split_at(modules);
        self.balance = TaskBalance {
            fullest: of_modules.iter().copied().max().unwrap_or(0),
            all: of_modules.iter().sum(),
            host: of_host.iter().sum(),
        };
        self.balances.fullest += self.balance.fullest;
        self.balances.all += self.balance.all;
        self.balances.host += self.balance.host;
        plan
    }

    /// Returns the number of tables that the host would probe for the operations of a batch: one
    /// for each size of subranges from the finest to that of the key's (section IV-A), or only the
    /// directory if it stores the lists' addresses.
    fn probes(&self, input: BatchInput<'_, Words>) -> u64 {
        let operations = input.operations();
        if self.options.sends_lists {
            return operations.len() as u64;
        }
        let probes = operations.iter().map(|operation| {
            let key = operation.point_key();
            let found = key.and_then(|key| self.directory.of(key));
            found.map_or(1, |(start, partition)| {
                let bits = size(start, partition.last);
                1 + self.sizes.iter().filter(|&&other| other < bits).count() as u64
            })
        });
        probes.sum()
    }

    /// Executes the tasks of subranges on the host. Also returns their cost: a probe for each level
    /// of a tree.
    fn run_here(&mut self, mut words: &[u64]) -> (Vec<u64>, HostWork) {
        let mut output = Vec::new();
        let mut probes = 0;
        while let Some((task, _, tag)) = ModuleTask::decode(&mut words) {
            let key = match task {
                ModuleTask::Get { key }
                | ModuleTask::Insert { key, .. }
                | ModuleTask::Update { key, .. }
                | ModuleTask::Updates { key, .. }
                | ModuleTask::Remove { key } => key,
                ModuleTask::Floor { start, .. }
                | ModuleTask::Scan { start, .. }
                | ModuleTask::Build { start, .. }
                | ModuleTask::Height { start, .. }
                | ModuleTask::Free { start } => start,
            };
            let start = self.directory.of(key).map_or(key, |(start, _)| start);
            probes += self.store.levels(start);
            self.store.run(start, &task, tag, &mut output);
        }
        let work = HostWork {
            probes,
            words: output.len() as u64,
            ..HostWork::default()
        };
        (output, work)
    }

    /// Counts the keys of subranges again whose modules failed in a write. Takes a round if there
    /// are any. The number of keys of a module that still fails stays the last known one.
    fn recount(&mut self) {
        let uncounted = self.directory.uncounted();
        if uncounted.is_empty() {
            return;
        }
        let mut reads = vec![Vec::new(); self.device.modules()];
        for (tag, &(start, partition)) in uncounted.iter().enumerate() {
            // The host's own subranges do not fail.
            if let Some(words) = reads.get_mut(partition.module) {
                let task = ModuleTask::Scan {
                    start,
                    from: start,
                    to: partition.last,
                    limit: u64::MAX,
                    descends: false,
                };
                task.encode(partition.list, tag as u32, words);
            }
        }
        let Ok(replied) = self.round(reads) else {
            return;
        };
        for reply in replied.iter().flatten() {
            reply.each(|answer, tag| {
                if let ModuleTaskResult::Entries(entries) = answer
                    && let Some(&(start, _)) = uncounted.get(tag as usize)
                {
                    let (count, least) = (entries.len() as u64 / 2, entries.first().copied());
                    self.directory.count_again(start, count, least);
                }
            });
        }
        self.forget_empty();
    }

    /// Removes subranges without keys from the directory.
    fn forget_empty(&mut self) {
        let host = self.host();
        let empty = self.directory.take_empty();
        for (start, partition) in empty {
            if partition.module == host {
                self.store.remove(start);
            } else {
                // The module frees it in the next batch, because the round of this one has ended.
                self.removals.push((partition.module, start));
                self.full.remove(&partition.module);
            }
            for copy in self.replicas.remove(start) {
                self.removals.push((copy.module, start));
            }
        }
        // The counts of keys are taken from the directory again. Estimates made while planning, and
        // changes of failed modules, would add up otherwise.
        self.keys.fill(0);
        let mut sizes = 0_u128;
        for (start, partition) in self.directory.iter() {
            sizes |= 1 << size(start, partition.last);
            if let Some(keys) = self.keys.get_mut(partition.module) {
                *keys += partition.count;
            }
        }
        let bits = 0..=u64::BITS;
        self.sizes = bits.filter(|bits| sizes >> bits & 1 == 1).collect();
    }
}

/// Returns the average hops of a batch's operations, if they were counted.
fn average(hops: u64, batch: &Batch<Words>) -> Option<Averages> {
    let operations = batch.input().ok()?.operations();
    // Worker threads count no hops. The formulas then use an estimate by the number of keys.
    if hops == 0 || operations.is_empty() {
        return None;
    }
    let is_scan =
        |operation: &IndexOperation<Words>| matches!(operation, IndexOperation::Scan { .. });
    let (mut scans, mut entries) = (0, 0);
    for (position, operation) in operations.iter().enumerate() {
        if is_scan(operation) {
            scans += 1;
            if let OperationOutcome::Entries(found) = batch.outcome(position) {
                entries += found.len() as u64;
            }
        }
    }
    // Each entry of a scan is one pointer; the other hops are shared by all operations.
    let point = hops.saturating_sub(entries) as f64 / operations.len() as f64;
    let range = point + entries as f64 / f64::max(scans.into(), 1.0);
    Some(Averages { point, range })
}

/// Returns the number of bits in which keys of a subrange differ.
fn size(start: u64, last: u64) -> u32 {
    u64::BITS - (last - start).leading_zeros()
}
