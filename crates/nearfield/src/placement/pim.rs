//! The placement in modules, each with a processor of its own.

use super::by_batch::scan_by_batch;
use super::{Bounds, MapPlacement, fallible_reads, sealed};
use crate::form::MapForm;
use nearfield_core::{OperationError, OrderedIndex, ScanDirection};
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_pim::device::Workers;
use nearfield_radix::Entry;
use std::thread::available_parallelism;

/// A placement in modules with processors of their own; its value holds their configuration.
///
/// Modules are worker threads, each with a part of the keys. A batch is sent to all modules at once
/// and takes as long as the busiest module; meanwhile, frequently used keys are spread over
/// modules. Single operations wait for a round between threads, so this placement suits batches of
/// thousands of operations. A key may take up to an eighth of a module's memory, and an entry all
/// of it. Dropping the map ends its threads.
///
/// ```
/// use nearfield::{OrderedMap, Pim, WordMap, Words};
///
/// let map: OrderedMap<Words, Pim> = WordMap::builder().pim(Pim::workers()).build()?;
/// assert_eq!(map.insert_many(&[(1, 10), (2, 20)])?, 2);
/// assert_eq!(map.last()?, Some((2, 20)));
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pim {
    threads: Option<usize>,
    modules_per_thread: usize,
}

/// Default number of modules of a thread. With more modules a thread, differences in their load
/// even out.
const MODULES_PER_THREAD: usize = 4;
/// Divisor of the machine's memory, which gives the default limit of a map.
const SHARE: u64 = 2;

impl Pim {
    /// Creates a placement in worker threads of this process, whose modules each have memory that
    /// no other thread reaches. There is one thread for each core that the process may use, with
    /// four modules each.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// let map = WordMap::builder().pim(Pim::workers()).build()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn workers() -> Pim {
        Pim {
            threads: None,
            modules_per_thread: MODULES_PER_THREAD,
        }
    }

    /// Sets the number of threads, at least one.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// // Leaves the other cores to the rest of the program.
    /// let map = WordMap::builder().pim(Pim::workers().threads(2)).build()?;
    /// # drop(map);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Pim {
        self.threads = Some(threads.max(1));
        self
    }

    /// Sets the number of modules of a thread, four by default, 1 to 1024. Each has the same share
    /// of the memory limit, at most 32 GiB.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// // Eight modules in all.
    /// let pim = Pim::workers().threads(1).modules_per_thread(8);
    /// let map = WordMap::builder().memory_limit(64 << 20).pim(pim).build()?;
    /// # drop(map);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn modules_per_thread(mut self, modules: usize) -> Pim {
        self.modules_per_thread = modules.clamp(1, 1024);
        self
    }

    /// Starts the threads of an empty index, whose modules together take at most `memory_limit`
    /// bytes; `usize::MAX` stands for no limit.
    pub(crate) fn start<F: MapForm>(
        &self,
        memory_limit: usize,
    ) -> Result<<Pim as MapPlacement<F>>::Index, OperationError> {
        let cores = || available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        let modules = threads.saturating_mul(self.modules_per_thread);
        let limit = match memory_limit {
            usize::MAX => memory_bytes() / SHARE,
            bytes => bytes as u64,
        };
        // Equal shares, because a module cannot use the memory of another.
        let workers = Workers::start(modules, limit / modules as u64, threads);
        let workers = workers.map_err(|error| OperationError::OutOfMemory {
            what: format!("no thread for modules: {error}"),
        })?;
        // A round takes as long for one operation as for hundreds, so threads share their rounds.
        Ok(CallBatcher::new(F::on_workers(workers)))
    }
}

impl sealed::SealedPlacement for Pim {}

impl<F: MapForm> MapPlacement<F> for Pim {
    fallible_reads!(F);
    type Value<'m> = F::OwnedValue;
    type Index = CallBatcher<F, F::OnWorkers>;

    fn get(index: &Self::Index, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, OperationError> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &Self::Index) -> Result<usize, OperationError> {
        Ok(OrderedIndex::len(index))
    }

    fn scan(
        index: &Self::Index,
        bounds: Bounds<'_, F>,
        direction: ScanDirection,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, OperationError> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}

/// Returns the number of bytes of this machine's memory.
#[cfg(target_os = "linux")]
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    (system.totalram as u64).saturating_mul(u64::from(system.mem_unit))
}

/// Returns the greatest number of bytes.
#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> u64 {
    // The memory of other systems is not known.
    u64::MAX
}
