//! Byte strings of any length in modules: ordered partitions that follow the load.
//!
//! As in RADAR the host knows the module of each key, and sends operations there in one round. In a
//! round before that, it divides partitions of busy modules, if that is worth its cost. The
//! differences exist because byte strings have no aligned subranges. A partition can begin at any
//! key, and initially there is only one. A partition with too many keys or bytes is divided at
//! quantiles of its keys and of the inserted ones; one that makes its module busy at quantiles of
//! the operations of the batch. Small cold neighbours are merged. The host pulls nothing because of
//! load: one read of a key serves all operations that read it. The host takes only pieces that a
//! module could not build.
//!
//! In a module each partition is a skip list of [towers](crate::structures::skip_list). The word of
//! a tower is the beginning of the key, and its value is the address of the whole key and value.

mod balance;
mod cut;
mod directory;
mod moving;
mod plan;
mod program;
mod task;

use crate::device::{HostModule, HostWork, ModuleDevice};
use crate::dispatch::plan::{OTHERS, refused};
use balance::BalanceLimits;
use directory::{StringDirectory, StringPartition};
use moving::PartitionMoves;
use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex};
use plan::{Lengths, StringTaskPlan};
use program::PimStringsProgram;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use task::{StringTaskResult, put_build, put_free};

/// The options of an index of byte strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PimStringsOptions {
    /// The greatest number of keys of a partition; 4,096 by default. A search then compares about
    /// 25 keys, and a move costs less than a thousand operations.
    pub partition_keys: u64,
    /// Multiple of the average load above which a module is busy; 1.3 by default.
    pub tolerance: f64,
    /// Number of batches without a request after which small neighbouring partitions are merged; 16
    /// by default.
    pub cools: u64,
}

impl Default for PimStringsOptions {
    fn default() -> PimStringsOptions {
        PimStringsOptions {
            partition_keys: 4096,
            tolerance: 1.3,
            cools: 16,
        }
    }
}

/// An ordered index of byte strings in modules.
///
/// A key has up to [`MAX_KEY_BYTES`](nearfield_core::MAX_KEY_BYTES) bytes and up to an eighth of a
/// bank, and an entry up to the size of a bank and of a transfer. A longer one fails alone with
/// `KeyTooLong` or `ValueTooLong`. An operation for which a module has no room fails with
/// `OutOfMemory`, and one of a failed module with `Unknown`. A batch takes one round, or two if a
/// partition is moved.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_pim::device::Workers;
/// use nearfield_pim::strings::{PimStringsOptions, PimStrings};
///
/// let index = PimStrings::new(Workers::new(4, 1 << 20, 2), PimStringsOptions::default());
/// assert_eq!(index.insert(b"ann", b"1"), Ok(None));
/// assert_eq!(index.get(b"ann"), Ok(Some(b"1".to_vec())));
/// ```
#[derive(Debug)]
pub struct PimStrings<D> {
    host: Mutex<PimStringsHost<D>>,
}

#[derive(Debug)]
struct PimStringsHost<D> {
    device: D,
    options: PimStringsOptions,
    directory: StringDirectory,
    /// The host's own entries, as one more module after those of the device.
    own: HostModule,
    /// The moves of this batch.
    moving: PartitionMoves,
    moves: PartitionMoveCounts,
    /// Partitions that modules must free once they work again, as pairs of module and number.
    garbage: Vec<(usize, u64)>,
    /// Modules that had no room in the last batch.
    full: HashSet<usize>,
    /// Modules that failed in the last batch. They get no partitions.
    failed: HashSet<usize>,
    /// The last number given to a partition.
    numbers: u64,
    /// Number of batches so far.
    batches: u64,
}

/// The moves so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionMoveCounts {
    /// Number of partitions that were divided.
    pub divided: u64,
    /// Number of groups of partitions that were merged.
    pub merged: u64,
    /// Number of partitions that the host took because a module could not build them.
    pub taken: u64,
    /// Number of keys that were moved.
    pub keys: u64,
}

impl<D: ModuleDevice> PimStrings<D> {
    /// Creates an empty index in the modules of a device.
    pub fn new(device: D, options: PimStringsOptions) -> PimStrings<D> {
        let mut host = PimStringsHost {
            device,
            options,
            directory: StringDirectory::default(),
            own: HostModule::new(),
            moving: PartitionMoves::default(),
            moves: PartitionMoveCounts::default(),
            garbage: Vec::new(),
            full: HashSet::new(),
            failed: HashSet::new(),
            numbers: 0,
            batches: 0,
        };
        // The first partition covers all possible keys. It moves to a module with the first batch.
        let number = host.next_number();
        let mut words = Vec::new();
        // The host builds it, because a device has no round without a batch.
        put_build(number, OTHERS, 0, &[], &mut words);
        let module = host.host();
        let _ = host.own.run(module, &PimStringsProgram, &words);
        let everything = StringPartition::new(Vec::new(), module, 0, 0, 0);
        host.directory.insert(number, everything);
        PimStrings {
            host: Mutex::new(host),
        }
    }

    /// Passes the device to `look` and returns its result.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// Returns the moves so far.
    pub fn moves(&self) -> PartitionMoveCounts {
        self.lock().moves
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> usize {
        self.lock().directory.len()
    }

    fn lock(&self) -> MutexGuard<'_, PimStringsHost<D>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ModuleDevice + Send> OrderedIndex<ByteStrings> for PimStrings<D> {
    fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.lock().execute(batch)
    }

    fn len(&self) -> usize {
        self.lock().directory.keys() as usize
    }

    fn check_invariants(&self) {
        let host = self.lock();
        let first = host.directory.iter().next();
        assert!(first.is_some_and(|(_, partition)| partition.start.is_empty()));
        assert!(
            host.directory
                .iter()
                .all(|(_, of)| of.module <= host.host())
        );
        assert_eq!(host.directory.iter().count(), host.directory.len());
    }
}

impl<D: ModuleDevice> PimStringsHost<D> {
    /// Returns the number that stands for the host among modules.
    fn host(&self) -> usize {
        self.device.modules()
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn sizes(&self) -> BalanceLimits {
        let mean = self.directory.keys() as f64 / self.device.modules().max(1) as f64;
        let bank_bytes = self.device.bank_bytes();
        BalanceLimits {
            partition_keys: self.options.partition_keys,
            partition_bytes: (bank_bytes / 16).max(1),
            bank_bytes,
            tolerance: self.options.tolerance,
            height: mean.max(2.0).log2(),
        }
    }

    fn execute(&mut self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        let modules = self.device.modules();
        let input = batch.input()?;
        self.batches += 1;
        // The tasks that modules execute before those of the operations.
        let mut inputs = vec![Vec::new(); modules + 1];
        for &(module, number) in &self.garbage {
            put_free(number, crate::dispatch::plan::NOBODY, &mut inputs[module]);
        }
        self.redistribute(input, &mut inputs)
            .inspect_err(|_| self.undo())?;
        let lengths = Lengths::new(self.device.bank_bytes());
        let mut plan = StringTaskPlan::new(input, modules, lengths, &mut self.directory);
        for (words, tasks) in inputs.iter_mut().zip(&mut plan.inputs) {
            // Moves come first, since the tasks of operations are for the partitions after them.
            words.append(tasks);
        }
        let own = inputs.pop().unwrap_or_default();
        let sent: usize = inputs.iter().map(Vec::len).sum();
        let mut answered = match self.device.round(PimStringsProgram, inputs) {
            Ok(answered) => answered,
            Err(error) => {
                plan.give_up(&mut self.directory);
                self.undo();
                return Err(refused(&error));
            }
        };
        debug_assert_eq!(answered.len(), modules, "the host's output is the last");
        answered.push(self.own.run(modules, &PimStringsProgram, &own));
        let received: usize = answered.iter().flatten().map(Vec::len).sum();
        self.device.at_host(&HostWork {
            probes: input.operations().len() as u64,
            words: (sent + received) as u64,
            sorted: 0,
        });
        let (input, mut output) = batch.begin()?;
        let mut done = HashSet::new();
        let others = |tag: u32, answer: &StringTaskResult<'_>| {
            // A piece that was built has an empty result. One without room has another.
            if *answer == StringTaskResult::Nothing {
                done.insert(tag);
            }
        };
        self.full = plan.finish(input, &mut output, &answered, &mut self.directory, others);
        self.settle(&done, &answered);
        let failed = answered.iter().enumerate();
        let failed = failed.filter(|(_, answered)| answered.is_err());
        self.failed = failed.map(|(module, _)| module).collect();
        Ok(())
    }
}
