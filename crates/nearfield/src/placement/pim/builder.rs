//! Which modules a map lies in.

use crate::{Map, MapForm};
use nearfield_core::Error;
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_pim::device::Workers;
use std::marker::PhantomData;
use std::thread::available_parallelism;

/// Modules with processors of their own: what they are, and, as a type, the placement there.
///
/// Modules are worker threads, each with a part of the keys. A batch is sent to all modules at once
/// and takes as long as the module with most to do; keys that are asked for more than others are
/// spread over modules meanwhile. Single operations wait for a round between threads, so batches of
/// thousands are what this placement is good for. A key has up to an eighth of a module's memory,
/// and an entry as much as a module has. Dropping the map ends its threads.
#[derive(Clone, Debug)]
pub struct Pim {
    threads: Option<usize>,
    modules_per_thread: usize,
}

/// Modules of a thread by default. The more there are, the less it shows in their sum that some of
/// them have more to do than others.
const MODULES_PER_THREAD: usize = 4;
/// Without a limit a map takes at most the machine's memory divided by this.
const SHARE: u64 = 2;

impl Pim {
    /// Modules that are threads of this process, each with memory that no other thread reaches.
    /// There are as many threads as the process may use cores, with four modules each.
    pub fn workers() -> Pim {
        Pim {
            threads: None,
            modules_per_thread: MODULES_PER_THREAD,
        }
    }

    /// How many threads there are, at least one.
    pub fn threads(mut self, threads: usize) -> Pim {
        self.threads = Some(threads.max(1));
        self
    }

    /// How many modules a thread has, four by default, 1 to 1024. Each has the same part of the
    /// limit of memory, and up to 32 GiB.
    pub fn modules_per_thread(mut self, modules: usize) -> Pim {
        self.modules_per_thread = modules.clamp(1, 1024);
        self
    }
}

/// What a [`Map`] in modules is created with; from [`Builder::pim`](crate::Builder::pim).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct PimBuilder<F: MapForm> {
    pim: Pim,
    memory_limit: usize,
    form: PhantomData<F>,
}

impl<F: MapForm> PimBuilder<F> {
    pub(crate) fn new(pim: Pim, memory_limit: usize) -> PimBuilder<F> {
        PimBuilder {
            pim,
            memory_limit,
            form: PhantomData,
        }
    }

    /// The greatest number of bytes that keys, values and what leads to them may take in all
    /// modules; half of the machine's memory by default. Writes to a full module fail with
    /// `OutOfMemory`.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Starts the threads of an empty map.
    ///
    /// # Errors
    /// `OutOfMemory` if one cannot be started.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// let map = WordMap::builder().pim(Pim::workers().threads(2)).build()?;
    /// assert_eq!(map.insert(1, 10)?, None);
    /// assert_eq!(map.get(1)?, Some(10));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn build(self) -> Result<Map<F, Pim>, Error> {
        let cores = || available_parallelism().map_or(1, usize::from);
        let threads = self.pim.threads.unwrap_or_else(cores);
        let modules = threads.saturating_mul(self.pim.modules_per_thread);
        let limit = match self.memory_limit {
            usize::MAX => memory_bytes() / SHARE,
            bytes => bytes as u64,
        };
        let workers = Workers::start(modules, limit / modules as u64, threads);
        let workers = workers.map_err(|error| Error::OutOfMemory {
            what: format!("no thread for modules: {error}"),
        })?;
        Ok(Map::of(CallBatcher::new(F::on_workers(workers))))
    }
}

/// The memory of this machine.
#[cfg(target_os = "linux")]
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    (system.totalram as u64).saturating_mul(u64::from(system.mem_unit))
}

/// Nobody says how much there is.
#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> u64 {
    u64::MAX
}
