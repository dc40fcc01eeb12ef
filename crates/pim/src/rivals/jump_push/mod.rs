//! Jump-push (Kang et al., SPAA 2021, as in RADAR's figures): one skip list over all modules, whose
//! nodes are placed by the hash of their key.
//!
//! Each level has half as many nodes as the one below, up to 26. Every module has a copy of the
//! levels above the *lower part*, which has 12 levels with 2048 modules. A node of the lower part
//! keeps with each pointer to the right the key that it leads to, so that its module decides alone
//! whether a query goes to the right or down. That is one step, and takes a round. The start of
//! queries keeps those with a common way from meeting at one node, however skewed they are
//! (`search.rs`): a batch takes hundreds of rounds.
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
//! The published program inserts and finds predecessors. The rest is added here in its spirit: a
//! get is a predecessor and a comparison, updates and removes are searched as inserts are, scans go
//! out from the path to their beginning. `run.rs` executes a batch of all of them; reads are
//! sorted, and not combined.
//!
//! Deviations from the published program: all levels of a key in the lower part are one node, a
//! *tower*, in the module of its key, so going down stays in the module, and is no hop; a query
//! begins below the node that its neighbours' paths share, because it is known to go down from
//! that; heights follow from the keys; with fewer than 2048 modules the lower part has fewer
//! levels, one more than the logarithm of the modules.

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

pub use options::Options;

use crate::device::Device;
use host::Host;
use nearfield_core::{Batch, Error, OrderedIndex, Words};
use run::Run;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An ordered index that is one skip list over all modules.
///
/// If a module comes to nothing while it is to change links, and again when it is asked again, the
/// index is only read from then on: writes fail with [`Error::Unreachable`].
///
/// ```
/// use nearfield_core::OrderedIndex;
/// use nearfield_hardware::modules::Preset;
/// use nearfield_pim::device::Model;
/// use nearfield_pim::rivals::jump_push::{JumpPush, Options};
///
/// let model = Model::new(64, Preset::UpmemMeasured.parameters());
/// let index = JumpPush::new(model, Options::default());
/// assert_eq!(index.insert(7, 70), Ok(None));
/// assert_eq!(index.get(7), Ok(Some(70)));
/// ```
#[derive(Debug)]
pub struct JumpPush<D> {
    host: Mutex<Host<D>>,
}

impl<D: Device> JumpPush<D> {
    /// An empty index in the modules of a device, at least one.
    pub fn new(device: D, options: Options) -> JumpPush<D> {
        JumpPush {
            host: Mutex::new(Host::new(device, options)),
        }
    }

    /// Looks at the device.
    pub fn device<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.lock().device)
    }

    /// The nodes that the host has read so far for several queries at once; 0 without
    /// [`pulls`](Options::pulls).
    pub fn pulled(&self) -> u64 {
        self.lock().pulled
    }

    /// The bytes that keys, values and links take in all modules, all copies of the upper part
    /// included.
    pub fn memory_bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Host<D>> {
        // A link that a panicking thread was about to set was set, or not.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device + Send> OrderedIndex<Words> for JumpPush<D> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), Error> {
        let host = &mut *self.lock();
        let (input, mut output) = batch.begin()?;
        let operations = input.operations();
        let mut start = 0;
        while start < operations.len() {
            let end = run::end(operations, start);
            if let Err(error) = Run::execute(host, input, &mut output, start..end) {
                if start == 0 {
                    host.tell();
                    return Err(error);
                }
                // Those before were executed.
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
