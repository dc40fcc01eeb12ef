//! RADAR (Hua et al., TPDS 2024): subranges of keys in modules, divided where they are busy.
//!
//! The host knows of each subrange which module has it, and sends each operation there: one round. In a
//! module a skip list of subranges leads to one of keys for each. Before a batch is sent, the host compares
//! what each module would have to do. If some would have much more than others, their hottest subranges are
//! divided and their pieces go to modules that have little to do, and what cannot be divided any more comes to the host, if
//! by formulas 1 to 5 that is worth what it takes: a round more.
//!
//! Subranges have sizes of powers of two, aligned to these. Those without keys are nowhere. The host finds a
//! key's in an ordered directory of all, where the paper probes a hash table for each size from fine to coarse:
//! predecessors and scans need the order anyway.

mod options;
mod program;
mod redistribute;
mod skew;
mod store;

pub use options::{Options, Placement};
pub use program::Keys;

use crate::batch::{NOBODY, Plan, refused};
use crate::device::Device;
use crate::partition::{Directory, Partition};
use crate::task::{Answer, Task};
use nearfield_core::{Batch, Error, Input, Operation, OrderedIndex, Words};
use program::Tasks;
use redistribute::Moving;
use skew::{Costs, Subrange};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::Store;

/// An ordered index whose subranges follow the load.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::Preset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim::radar::{Options, Radar};
///
/// let model = Model::new(64, Preset::UpmemMeasured.parameters());
/// let index = Radar::new(model, Options::radar(64));
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct Radar<D> {
    host: Mutex<Host<D>>,
}

#[derive(Debug)]
struct Host<D> {
    device: D,
    options: Options,
    directory: Directory,
    /// Of those of `directory`, what the host has.
    store: Store,
    /// Keys of each module, for placing more.
    keys: Vec<u64>,
    /// Subranges without keys that modules have still to forget.
    empty: Vec<(usize, u64)>,
    /// What is moved in this batch.
    moving: Moving,
    moves: Moves,
    /// Batches so far.
    batches: u64,
}

/// What was done about skew so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Subranges that were divided.
    pub divided: u64,
    /// Subranges that came to the host.
    pub pulled: u64,
    /// Groups of subranges that were merged, as nobody asked for them.
    pub merged: u64,
    /// Subranges that have gone back from the host.
    pub returned: u64,
    /// Keys that were moved.
    pub keys: u64,
}

impl<D: Device> Radar<D> {
    /// An empty index in the modules of a device.
    pub fn new(device: D, options: Options) -> Radar<D> {
        let keys = vec![0; device.modules()];
        Radar {
            host: Mutex::new(Host {
                device,
                options,
                directory: Directory::default(),
                store: Store::default(),
                keys,
                empty: Vec::new(),
                moving: Moving::default(),
                moves: Moves::default(),
                batches: 0,
            }),
        }
    }

    /// Looks at the device.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// What was done about skew.
    pub fn moves(&self) -> Moves {
        self.lock().moves
    }

    /// How many subranges there are.
    pub fn subranges(&self) -> usize {
        self.lock().directory.len()
    }

    /// How many keys the host has.
    pub fn keys_of_host(&self) -> usize {
        self.lock().store.len()
    }

    fn lock(&self) -> MutexGuard<'_, Host<D>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device + Send> OrderedIndex<Words> for Radar<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), Error> {
        self.lock().execute(batch)
    }

    fn len(&self) -> usize {
        self.lock().directory.keys() as usize
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

impl<D: Device> Host<D> {
    /// The number that stands for the host among modules.
    fn host(&self) -> usize {
        self.device.modules()
    }

    fn execute(&mut self, batch: &mut Batch<Words>) -> Result<(), Error> {
        let modules = self.device.modules();
        // What modules do before the operations' tasks.
        let mut inputs = vec![Vec::new(); modules + 1];
        let input = batch.input()?;
        if self.options.redistributes && input.operations().len() > 1 {
            self.redistribute(input, &mut inputs)
                .inspect_err(|_| self.undo())?;
        }
        self.batches += 1;
        for &(module, start) in &self.empty {
            Task::Free { start }.encode(0, NOBODY, &mut inputs[module]);
        }
        let mut created: Vec<(usize, u64, u64)> = Vec::new();
        let Host {
            directory,
            options,
            keys,
            batches,
            ..
        } = self;
        let tasks = vec![Vec::new(); modules + 1];
        let combines = options.combines_reads;
        // What a new subrange will have, as far as one knows: as many keys as others.
        let mean = keys.iter().sum::<u64>() / (directory.len() as u64).max(1);
        let mut plan = Plan::new(input, tasks, combines, directory, |directory, key| {
            directory.of(key).or_else(|| {
                let (start, last) = fresh(directory, options, modules, key);
                let module = place(start, options.placement, keys);
                keys[module] += mean.max(1);
                let partition = Partition {
                    last,
                    module,
                    count: 0,
                    list: 0,
                    used: *batches,
                };
                directory.insert(start, partition);
                created.push((module, start, last));
                Some((start, partition))
            })
        });
        for (module, start, last) in created {
            self.moving.build(start, last, &[], &mut inputs[module]);
        }
        for (words, tasks) in inputs.iter_mut().zip(&mut plan.inputs) {
            words.append(tasks);
        }
        let own = inputs.pop().unwrap_or_default();
        let mut answered = match self.device.round(Tasks(self.options.keys), inputs) {
            Ok(answered) => answered,
            Err(error) => {
                plan.give_up(&mut self.directory);
                self.undo();
                self.forget_empty();
                return Err(refused(&error));
            }
        };
        self.empty.clear();
        answered.push(Ok(self.run_here(&own)));
        let (input, mut output) = batch.begin()?;
        let mut lists = HashMap::new();
        let others = |tag: u32, answer: &Answer<'_>| {
            if let Answer::Value(list) = *answer {
                lists.insert(tag, list as u32);
            }
        };
        plan.finish(input, &mut output, &answered, &mut self.directory, others);
        self.settle(&lists);
        self.forget_empty();
        Ok(())
    }

    /// Does the tasks of subranges that the host has.
    fn run_here(&mut self, mut words: &[u64]) -> Vec<u64> {
        let mut output = Vec::new();
        while let Some((task, _, tag)) = Task::decode(&mut words) {
            let key = match task {
                Task::Get { key }
                | Task::Insert { key, .. }
                | Task::Update { key, .. }
                | Task::Remove { key } => key,
                Task::Floor { start, .. }
                | Task::Scan { start, .. }
                | Task::Build { start, .. }
                | Task::Free { start } => start,
            };
            let start = self.directory.of(key).map_or(key, |(start, _)| start);
            self.store.run(start, &task, tag, &mut output);
        }
        output
    }

    /// Takes subranges out that have no keys.
    fn forget_empty(&mut self) {
        let host = self.host();
        let empty = self.directory.take_empty();
        for (start, partition) in empty {
            if partition.module == host {
                self.store.remove(start);
            } else {
                self.empty.push((partition.module, start));
            }
        }
        self.keys.fill(0);
        for (_, partition) in self.directory.iter() {
            if let Some(keys) = self.keys.get_mut(partition.module) {
                *keys += partition.count;
            }
        }
    }

    /// What the operations of a batch would have modules do, by subranges and their pieces.
    fn skew(&mut self, input: Input<'_, Words>) -> (Vec<u64>, Vec<Subrange>, Costs) {
        let modules = self.device.modules();
        let mut loads = vec![0; modules];
        let mut found: HashMap<u64, Subrange> = HashMap::new();
        let finest = self.options.finest(modules);
        let (mut points, mut ranges) = (0_u64, 0_u64);
        // A write between two reads of a key counts by itself.
        let mut read: HashSet<u64> = HashSet::new();
        for operation in input.operations() {
            let key = match operation.point_key() {
                Some(key) => {
                    points += 1;
                    key
                }
                None => match *operation {
                    Operation::Predecessor { key } | Operation::Successor { key } => {
                        points += 1;
                        key
                    }
                    Operation::Scan { range, .. } => {
                        ranges += 1;
                        match input.range(range).0 {
                            std::ops::Bound::Included(key) | std::ops::Bound::Excluded(key) => key,
                            std::ops::Bound::Unbounded => 0,
                        }
                    }
                    _ => continue,
                },
            };
            let Some((start, partition)) = self.directory.of(key) else {
                continue;
            };
            if partition.used != self.batches {
                self.directory.touch(start, self.batches);
            }
            if partition.module == self.host() {
                continue;
            }
            if self.options.combines_reads
                && let Operation::Get { key } = *operation
                && !read.insert(key)
            {
                continue;
            }
            loads[partition.module] += 1;
            let width = partition.last - start;
            let subrange = found.entry(start).or_insert_with(|| {
                let is_finest = width.checked_shr(finest).unwrap_or(0) == 0;
                let pieces = if is_finest { 1 } else { self.options.fanout };
                Subrange {
                    start,
                    module: partition.module,
                    keys: partition.count,
                    pieces: vec![0; pieces],
                }
            });
            let (offset, pieces) = (u128::from(key - start), subrange.pieces.len() as u128);
            let piece = offset * pieces / (u128::from(width) + 1);
            subrange.pieces[piece as usize] += 1;
        }
        let height = (self.directory.keys() as f64 / modules as f64)
            .max(2.0)
            .log2();
        let costs = Costs {
            point: 1.5 * height,
            range: 1.5 * height + 500.0,
            points: points as f64 / ((points + ranges) as f64).max(1.0),
            height,
            tolerance: self.options.tolerance,
            per_key: self.options.per_key(),
        };
        let mut subranges: Vec<Subrange> = found.into_values().collect();
        subranges.sort_by_key(|subrange| subrange.start);
        (loads, subranges, costs)
    }
}

/// The subrange that a key without one gets: the largest of those sizes that there are at first, or that
/// come by dividing, that overlaps no other.
fn fresh(directory: &Directory, options: &Options, modules: usize, key: u64) -> (u64, u64) {
    let mut bits = options.coarsest(modules);
    loop {
        let size = 1_u128 << bits;
        let start = (u128::from(key) / size * size) as u64;
        let last = start + (size - 1) as u64;
        let overlaps = directory.overlaps(start, last);
        if !overlaps || bits == 0 {
            return (start, last);
        }
        bits = bits.saturating_sub(options.fanout.trailing_zeros());
    }
}

/// The module that a subrange goes to.
fn place(start: u64, placement: Placement, keys: &[u64]) -> usize {
    let hash = |seed: u64| {
        let mixed = (start ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((mixed ^ mixed >> 29) as u32 as u64 * keys.len() as u64) >> 32) as usize
    };
    let [one, other] = [hash(1), hash(2)];
    match placement {
        Placement::TwoChoices if keys[other] < keys[one] => other,
        _ => one,
    }
}
