//! PIM-tree (Kang et al., VLDB 2022): a skip list divided into chunks, which hashes assign to
//! modules.
//!
//! ```text
//! upper part          B+-tree of the first keys of level 2, in every module
//! level 2             chunk (first key, 2) ── with copies of its chunks of level 1, its shadows
//! level 1                  chunk (first key, 1)
//! level 0                       chunk (first key, 0)
//! data nodes                         key, value at (key, 0), and in the hash table of that module
//! ```
//!
//! One in 16 keys of a level is also in the next level, and begins a chunk. Hashes spread the
//! chunks of any set of keys, so modules have even loads. If many keys lead to one chunk, the host
//! reads the chunk and searches it itself (push-pull). The host sorts a batch, and requests each
//! key once.
//!
//! A batch is divided into runs, of operations on single keys or of reads that depend on the order
//! of keys. The host combines the operations on one key: it requests the first value of the key,
//! and then sends its last one. Gets and updates take one round, predecessors 4 or 5, scans 5 (more
//! if a limit was reached late), inserts and removes 5 to 7. The published numbers for these are 7
//! to 10; ours prepare in one round and change in the next.
//!
//! Deviations from the published program: heights follow from keys, so the same keys make the same
//! tree; chunks are linked by the first key of the next one, and not by addresses; reads of one
//! chunk by several scans are merged, with or without a pull; and all changes are written in one
//! round.
//!
//! # Failures
//! A change is prepared such that it cannot fail because of missing room, and then made in all
//! modules in one round. A module that fails in that round receives the same tasks again in the
//! next rounds, until it succeeds.

mod address;
mod check;
mod chunk;
mod commit;
mod plan;
mod points;
mod prepare;
mod program;
mod reads;
mod round;
mod scan;
mod search;
mod task;
mod upper;

use address::ModuleAddress;
use nearfield_core::{
    Batch, BatchInput, BatchOutput, IndexOperation, OperationError, OrderedIndex, Words,
};
use nearfield_pim::device::{HostWork, ModuleDevice};
use nearfield_pim::dispatch::plan::refused;
use program::PimTreeProgram;
use round::{Outbox, PimTreeInbox};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use task::ChunkTaskKind;

/// An ordered index with nodes in modules by hashes of their keys.
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::ModulePreset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim_rivals::pim_tree::PimTree;
///
/// let index = PimTree::new(Model::new(64, ModulePreset::UpmemMeasured.parameters()));
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct PimTree<D> {
    host: Mutex<PimTreeHost<D>>,
}

#[derive(Debug)]
struct PimTreeHost<D> {
    device: D,
    /// Number of keys.
    count: usize,
    /// True if there are chunks, at least those that begin with the least key.
    is_built: bool,
    /// Number of chunks that the host has searched itself.
    pulled: u64,
    /// Number of chunks that stay although their first key was removed, because there was no room
    /// to merge them.
    hollow: usize,
    /// Tasks that modules have not confirmed, by module.
    again: HashMap<usize, Vec<u64>>,
    /// Unused blocks of modules.
    garbage: Vec<Garbage>,
}

/// An unused block.
#[derive(Clone, Copy, Debug)]
enum Garbage {
    /// A chunk and its first key.
    Chunk(ModuleAddress, u64),
    /// A data node and its key.
    Data(ModuleAddress, u64),
}

/// The memory of the index in modules, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PimTreeMemory {
    /// Bytes of data nodes.
    pub data: u64,
    /// Bytes of hash tables.
    pub tables: u64,
    /// Bytes of chunks of all levels.
    pub chunks: u64,
    /// Bytes of copies of chunks of level 1, which are stored with those of level 2.
    pub shadows: u64,
    /// Bytes of the upper part, in all modules together.
    pub upper: u64,
}

impl PimTreeMemory {
    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.data + self.tables + self.chunks + self.shadows + self.upper
    }
}

impl<D: ModuleDevice> PimTree<D> {
    /// Creates an empty index in the modules of a device.
    pub fn new(device: D) -> PimTree<D> {
        PimTree {
            host: Mutex::new(PimTreeHost {
                device,
                count: 0,
                is_built: false,
                pulled: 0,
                hollow: 0,
                again: HashMap::new(),
                garbage: Vec::new(),
            }),
        }
    }

    /// Passes the device to `look` and returns its result.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// Returns the number of chunks that the host has searched itself so far, because too many keys
    /// led to them (contention nodes).
    pub fn pulled_nodes(&self) -> u64 {
        self.lock().pulled
    }

    /// Returns the memory of the index in modules. Takes a round of all modules, which counts like
    /// others.
    ///
    /// # Errors
    /// A module failed.
    pub fn memory_bytes(&self) -> Result<PimTreeMemory, OperationError> {
        self.lock().memory()
    }

    fn lock(&self) -> MutexGuard<'_, PimTreeHost<D>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ModuleDevice + Send> OrderedIndex<Words> for PimTree<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        self.lock().execute(batch)
    }

    fn len(&self) -> usize {
        self.lock().count
    }

    fn check_invariants(&self) {
        self.lock().check();
    }
}

/// The kind of operations that are executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PimTreeRun {
    /// Gets, and operations that depend on the order of keys.
    Reads,
    /// Operations on single keys.
    Points,
}

/// Returns the longest run that begins at `start`.
fn run(operations: &[IndexOperation<Words>], start: usize) -> (PimTreeRun, Range<usize>) {
    let mut run = None;
    for (number, operation) in operations.iter().enumerate().skip(start) {
        let other = match operation {
            operation if operation.is_write() => PimTreeRun::Points,
            operation if operation.is_ordered() => PimTreeRun::Reads,
            // These operations belong to runs of either kind.
            _ => continue,
        };
        // Reads see all writes before them only after these are carried out, so the run ends here.
        if *run.get_or_insert(other) != other {
            return (other.before(), start..number);
        }
    }
    (run.unwrap_or(PimTreeRun::Points), start..operations.len())
}

impl PimTreeRun {
    /// Returns the other kind.
    fn before(self) -> PimTreeRun {
        match self {
            PimTreeRun::Reads => PimTreeRun::Points,
            PimTreeRun::Points => PimTreeRun::Reads,
        }
    }
}

impl<D: ModuleDevice> PimTreeHost<D> {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn execute(&mut self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        let (input, mut output) = batch.begin()?;
        let operations = input.operations();
        let mut start = 0;
        while start < operations.len() {
            let (run, range) = run(operations, start);
            let done = self.run(input, &mut output, run, range.clone());
            match done {
                // Nothing has been executed yet.
                Err(error) if start == 0 => return Err(error),
                Err(error) => {
                    for number in range.clone() {
                        if !matches!(operations[number], IndexOperation::Refused) {
                            output.fail(number, error.clone());
                        }
                    }
                }
                Ok(()) => {}
            }
            start = range.end;
        }
        Ok(())
    }

    /// Executes a run. A failure after its first round fails only the operations concerned.
    ///
    /// # Errors
    /// Its first round was refused, and nothing was done.
    fn run(
        &mut self,
        input: BatchInput<'_, Words>,
        output: &mut BatchOutput<'_, Words>,
        run: PimTreeRun,
        range: Range<usize>,
    ) -> Result<(), OperationError> {
        match run {
            PimTreeRun::Points => self.points(input, output, range),
            PimTreeRun::Reads => self.reads(input, output, range),
        }
    }

    /// Executes a round. Modules first repeat the unconfirmed tasks of earlier rounds.
    ///
    /// # Errors
    /// The round was refused, and nothing was done.
    fn round(&mut self, mut outbox: Outbox) -> Result<PimTreeInbox, OperationError> {
        for (&module, words) in &self.again {
            let mut before = vec![ChunkTaskKind::Again.header(1, 0), 1];
            before.extend_from_slice(words);
            before.extend([ChunkTaskKind::Again.header(1, 0), 0]);
            // Unconfirmed tasks come first, since the new ones may depend on them.
            before.append(&mut outbox.inputs[module]);
            outbox.inputs[module] = before;
        }
        for &garbage in &self.garbage {
            let (module, words) = match garbage {
                Garbage::Chunk(chunk, first) => (
                    chunk.module(),
                    [
                        ChunkTaskKind::FreeChunk.header(1, 0),
                        chunk.local().into(),
                        first,
                    ],
                ),
                Garbage::Data(node, key) => (
                    node.module(),
                    [
                        ChunkTaskKind::FreeData.header(1, 0),
                        node.local().into(),
                        key,
                    ],
                ),
            };
            outbox.inputs[module].splice(0..0, words);
        }
        // Starting the modules for nothing would cost as much as a round with tasks.
        if outbox.is_empty() {
            return Ok(PimTreeInbox::new(vec![Ok(Vec::new()); self.modules()]));
        }
        let words = outbox.words();
        let answered = self.device.round(PimTreeProgram, outbox.inputs);
        let inbox = PimTreeInbox::new(answered.map_err(|error| refused(&error))?);
        // The list is cleared even if a module failed: the blocks are unused, so at most their
        // memory is lost.
        self.garbage.clear();
        self.again
            .retain(|&module, _| inbox.error(module).is_some());
        self.device.at_host(&HostWork {
            words: words + inbox.words(),
            ..HostWork::default()
        });
        Ok(inbox)
    }

    /// Reports that the host sorted this many keys.
    fn sorted(&mut self, sorted: usize) {
        self.device.at_host(&HostWork {
            sorted: sorted as u64,
            ..HostWork::default()
        });
    }

    /// Reports that the host searched this many keys in pulled chunks.
    fn searched(&mut self, keys: usize) {
        self.device.at_host(&HostWork {
            probes: keys as u64,
            ..HostWork::default()
        });
    }
}
