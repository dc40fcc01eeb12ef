//! Range partition: as many key ranges as modules, all of the same length, each in a skip list of
//! one module (Choe et al., SPAA 2019, as in RADAR's figures).
//!
//! Each operation takes one round, and goes to the modules that may have its keys. Skewed
//! operations go to few modules. As in the published program, a module has a hash table besides its
//! list, which finds single keys ([`RangePartitionLookup`]).

use crate::hashed_skip_list::HashedSkipList;
use nearfield_core::{Batch, OperationError, OrderedIndex, Words};
use nearfield_pim::device::{
    HostWork, Module, ModuleDevice, ModuleProgram, ProgramFault, WorkMeter,
};
use nearfield_pim::dispatch::directory::{PartitionDirectory, WordPartition};
use nearfield_pim::dispatch::kernel::{self, PartitionLists};
use nearfield_pim::dispatch::plan::{ModuleTaskPlan, Replica, refused};
use nearfield_pim::dispatch::routing::BatchRouting;
use nearfield_pim::dispatch::wire::{ModuleReply, Replied, TaggedEncoding};
use nearfield_pim::structures::list::OrderedKeyList;
use nearfield_pim::structures::skip_list::PimSkipList;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An ordered index with keys in modules by fixed ranges.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::ModulePreset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim_rivals::range_partition::RangePartition;
///
/// let index = RangePartition::new(Model::new(64, ModulePreset::UpmemMeasured.parameters()));
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct RangePartition<D> {
    host: Mutex<RangePartitionHost<D>>,
}

#[derive(Debug)]
struct RangePartitionHost<D> {
    device: D,
    directory: PartitionDirectory,
    gets: RangePartitionLookup,
}

/// The way in which a module finds a single key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangePartitionLookup {
    /// A hash table of the towers of all its keys, as in the published program.
    #[default]
    Table,
    /// A search of its list, which saves the table.
    Tree,
}

/// The program that executes tasks in the single list of a module.
struct RangePartitionProgram(RangePartitionLookup);

impl ModuleProgram for RangePartitionProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if input.is_empty() {
            return Ok(());
        }
        match self.0 {
            RangePartitionLookup::Tree => {
                let mut one = One(PimSkipList::of_root(module)?);
                kernel::run(module, input, output, &mut one, TaggedEncoding)
            }
            RangePartitionLookup::Table => {
                let mut one = One(HashedSkipList::of_root(module)?);
                kernel::run(module, input, output, &mut one, TaggedEncoding)
            }
        }
    }
}

/// The single list of a module.
struct One<L>(L);

impl<L: OrderedKeyList> PartitionLists for One<L> {
    type List = L;

    fn find<M: WorkMeter>(
        &mut self,
        _: &mut Module<'_, M>,
        _: u64,
    ) -> Result<Option<L>, ProgramFault> {
        Ok(Some(self.0))
    }

    fn build<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        _: u64,
        _: u32,
        entries: &[u64],
    ) -> Result<L, ProgramFault> {
        let entries = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        self.0.build(module, entries)?;
        Ok(self.0)
    }

    fn free<M: WorkMeter>(&mut self, _: &mut Module<'_, M>, _: u64) {}
}

impl<D: ModuleDevice> RangePartition<D> {
    /// Creates an empty index in the modules of a device that finds single keys by tables.
    pub fn new(device: D) -> RangePartition<D> {
        RangePartition::with_gets(device, RangePartitionLookup::default())
    }

    /// Creates an empty index in the modules of a device.
    pub fn with_gets(device: D, gets: RangePartitionLookup) -> RangePartition<D> {
        let modules = device.modules().max(1) as u128;
        let mut directory = PartitionDirectory::default();
        // Ranges of one length are cut with 128 bits, because 2^64 need not be a multiple of the
        // number of modules.
        let start = |module: u128| ((module << 64) / modules) as u64;
        for module in 0..modules {
            let last = match module + 1 {
                next if next == modules => u64::MAX,
                next => start(next) - 1,
            };
            let partition = WordPartition {
                last,
                module: module as usize,
                count: 0,
                list: 0,
                used: 0,
                least: None,
                lowest: start(module),
            };
            directory.insert(start(module), partition);
        }
        RangePartition {
            host: Mutex::new(RangePartitionHost {
                device,
                directory,
                gets,
            }),
        }
    }

    /// Passes the device to `look` and returns its result.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    fn lock(&self) -> MutexGuard<'_, RangePartitionHost<D>> {
        // A panic never leaves the directory in the middle of a change.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ModuleDevice + Send> OrderedIndex<Words> for RangePartition<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        let host = &mut *self.lock();
        let modules = host.device.modules();
        let mut plan = {
            let input = batch.input()?;
            let inputs = vec![Vec::new(); modules];
            // Reads are not combined, as in the published program.
            let requests = BatchRouting::new(input, false, &host.directory);
            ModuleTaskPlan::new(
                input,
                inputs,
                &requests,
                &mut host.directory,
                // All keys have a partition, so none is created.
                |_, _| None,
                |directory, place, _| Replica::first(directory.partition(place)),
            )
        };
        let inputs = std::mem::take(&mut plan.inputs);
        let words: usize = inputs.iter().map(Vec::len).sum();
        let answered = host
            .device
            .round(RangePartitionProgram(host.gets), inputs)
            .map_err(|error| {
                plan.give_up(&mut host.directory);
                refused(&error)
            })?;
        let back: usize = answered.iter().flatten().map(Vec::len).sum();
        let replied: Vec<Replied> = answered
            .into_iter()
            .map(|answered| answered.map(ModuleReply::tagged))
            .collect();
        let (input, mut output) = batch.begin()?;
        host.device.at_host(&HostWork {
            probes: input.operations().len() as u64,
            words: (words + back) as u64,
            sorted: 0,
        });
        plan.finish(input, &mut output, &replied, &mut host.directory, |_, _| {});
        Ok(())
    }

    fn len(&self) -> usize {
        self.lock().directory.keys() as usize
    }
}
