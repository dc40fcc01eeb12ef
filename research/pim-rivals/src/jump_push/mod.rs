//! Jump-push (Kang et al., SPAA 2021, as in RADAR's figures): one skip list over all modules. Nodes
//! are placed by the hash of their key.
//!
//! There are up to 26 levels, each with half as many nodes as the one below. Every module has a
//! copy of the levels above the *lower part*, which has 12 levels with 2048 modules. A node of the
//! lower part stores with each pointer to the right the key of that neighbour, so that its module
//! alone decides if a query goes to the right or down. That is one step, and takes a round. Queries
//! begin at different nodes, so that those with a common path do not gather at one node, however
//! skewed they are (`search.rs`). A batch takes hundreds of rounds.
//!
//! ```text
//! search  upper part, each module a share of the keys       1 round
//!         every 2^k-th key, then every 2^(k-1)-th ... 16th  about 2 rounds for each level
//!         all others, from the paths of their neighbours    the same
//!         keys and values                                    1
//! write   read removed, make new, change the upper part, link new to new, link, free:
//!                                                           1 each, if needed
//! scan    from the path of an end outwards                   about 2 for each level
//! ```
//!
//! The published program inserts and finds predecessors. The other operations are added here in its
//! spirit: a get is a predecessor and a comparison, updates and removes are searched like inserts,
//! and scans begin from the path to their start. `run.rs` executes a batch of all of them. Reads
//! are sorted, but not combined.
//!
//! Deviations from the published program: all levels of a key in the lower part are one node, a
//! *tower*, in the module of its key, so going down stays in the module, and is no hop. A query
//! begins below the node that its neighbours' paths share, because it certainly goes down from
//! there. Heights follow from the keys. With fewer than 2048 modules the lower part has fewer
//! levels: one more than the logarithm of the number of modules.

mod change;
mod host;
mod invariants;
mod options;
mod program;
mod run;
mod scan;
mod search;
mod task;
mod tower;

pub use options::JumpPushOptions;

use host::JumpPushHost;
use nearfield_core::{Batch, OperationError, OrderedIndex, Words};
use nearfield_pim::device::ModuleDevice;
use run::JumpPushRun;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An ordered index that is one skip list over all modules.
///
/// If a module fails while it must change links, and fails again in all retries, the index becomes
/// read-only: writes fail with [`OperationError::Unreachable`].
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::ModulePreset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim_rivals::jump_push::{JumpPush, JumpPushOptions};
///
/// let model = Model::new(64, ModulePreset::UpmemMeasured.parameters());
/// let index = JumpPush::new(model, JumpPushOptions::default());
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct JumpPush<D> {
    host: Mutex<JumpPushHost<D>>,
}

impl<D: ModuleDevice> JumpPush<D> {
    /// Creates an empty index in the modules of a device, of which there must be at least one.
    pub fn new(device: D, options: JumpPushOptions) -> JumpPush<D> {
        JumpPush {
            host: Mutex::new(JumpPushHost::new(device, options)),
        }
    }

    /// Passes the device to `look` and returns its result.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// Returns the number of nodes that the host has read so far for several queries at once; 0
    /// without [`pulls`](JumpPushOptions::pulls).
    pub fn pulled(&self) -> u64 {
        self.lock().pulled
    }

    /// Returns the number of bytes of keys, values and links in all modules, including all copies
    /// of the upper part.
    pub fn memory_bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, JumpPushHost<D>> {
        // A panic does not leave a link half set.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ModuleDevice + Send> OrderedIndex<Words> for JumpPush<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        let host = &mut *self.lock();
        let (input, mut output) = batch.begin()?;
        let operations = input.operations();
        let mut start = 0;
        while start < operations.len() {
            let end = run::end(operations, start);
            if let Err(error) = JumpPushRun::execute(host, input, &mut output, start..end) {
                // Nothing was done, so the batch as a whole is refused.
                if start == 0 {
                    host.tell();
                    return Err(error);
                }
                // Earlier operations were executed.
                for position in start..end {
                    output.fail(position, error.clone());
                }
            }
            start = end;
        }
        host.tell();
        Ok(())
    }

    fn len(&self) -> usize {
        self.lock().keys as usize
    }

    fn check_invariants(&self) {
        self.lock().check();
    }
}
