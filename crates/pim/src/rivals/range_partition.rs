//! Range partition: as many key ranges as modules, all of the same length, each in a skip list of
//! one module (Choe et al., SPAA 2019, as in RADAR's figures).
//!
//! Each operation takes one round, and goes to the modules that may have its keys. Skewed
//! operations go to few modules. As in the published program, a module has a hash table besides its
//! list, which finds single keys ([`Gets`]).

use crate::device::{Device, Fault, Meter, Module, Program};
use crate::dispatch::directory::{Directory, Partition};
use crate::dispatch::kernel::{self, Lists};
use crate::dispatch::plan::{Plan, Replica, refused};
use crate::dispatch::routing::Routing;
use crate::dispatch::wire::{Replied, Reply, Tagged};
use crate::structures::hashed_skip_list::HashedSkipList;
use crate::structures::list::List;
use crate::structures::skip_list::SkipList;
use nearfield_core::{Batch, Error, OrderedIndex, Words};
use nearfield_hardware::modules::HostWork;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An ordered index with keys in modules by fixed ranges.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::Preset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim::rivals::range_partition::RangePartition;
///
/// let index = RangePartition::new(Model::new(64, Preset::UpmemMeasured.parameters()));
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct RangePartition<D> {
    host: Mutex<Host<D>>,
}

#[derive(Debug)]
struct Host<D> {
    device: D,
    directory: Directory,
    gets: Gets,
}

/// The way in which a module finds a single key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gets {
    /// A hash table of the towers of all its keys, as in the published program.
    #[default]
    Table,
    /// A search of its list, which saves the table.
    Tree,
}

/// The program that executes tasks in the single list of a module.
struct Tasks(Gets);

impl Program for Tasks {
    fn run<M: Meter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        if input.is_empty() {
            return Ok(());
        }
        match self.0 {
            Gets::Tree => {
                let mut one = One(SkipList::of_root(module)?);
                kernel::run(module, input, output, &mut one, Tagged)
            }
            Gets::Table => {
                let mut one = One(HashedSkipList::of_root(module)?);
                kernel::run(module, input, output, &mut one, Tagged)
            }
        }
    }
}

/// The single list of a module.
struct One<L>(L);

impl<L: List> Lists for One<L> {
    type List = L;

    fn find<M: Meter>(&mut self, _: &mut Module<'_, M>, _: u64) -> Result<Option<L>, Fault> {
        Ok(Some(self.0))
    }

    fn build<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        _: u64,
        _: u32,
        entries: &[u64],
    ) -> Result<L, Fault> {
        let entries = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        self.0.build(module, entries)?;
        Ok(self.0)
    }

    fn free<M: Meter>(&mut self, _: &mut Module<'_, M>, _: u64) {}
}

impl<D: Device> RangePartition<D> {
    /// Creates an empty index in the modules of a device that finds single keys by tables.
    pub fn new(device: D) -> RangePartition<D> {
        RangePartition::with_gets(device, Gets::default())
    }

    /// Creates an empty index in the modules of a device.
    pub fn with_gets(device: D, gets: Gets) -> RangePartition<D> {
        let modules = device.modules().max(1) as u128;
        let mut directory = Directory::default();
        let start = |module: u128| ((module << 64) / modules) as u64;
        for module in 0..modules {
            let last = match module + 1 {
                next if next == modules => u64::MAX,
                next => start(next) - 1,
            };
            let partition = Partition {
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
            host: Mutex::new(Host {
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

    fn lock(&self) -> MutexGuard<'_, Host<D>> {
        // A panic never leaves the directory in the middle of a change.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device + Send> OrderedIndex<Words> for RangePartition<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), Error> {
        let host = &mut *self.lock();
        let modules = host.device.modules();
        let mut plan = {
            let input = batch.input()?;
            let inputs = vec![Vec::new(); modules];
            let requests = Routing::new(input, false, &host.directory);
            Plan::new(
                input,
                inputs,
                &requests,
                &mut host.directory,
                |_, _| None,
                |directory, place, _| Replica::first(directory.partition(place)),
            )
        };
        let inputs = std::mem::take(&mut plan.inputs);
        let words: usize = inputs.iter().map(Vec::len).sum();
        let answered = host
            .device
            .round(Tasks(host.gets), inputs)
            .map_err(|error| {
                plan.give_up(&mut host.directory);
                refused(&error)
            })?;
        let back: usize = answered.iter().flatten().map(Vec::len).sum();
        let replied: Vec<Replied> = answered
            .into_iter()
            .map(|answered| answered.map(Reply::tagged))
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
