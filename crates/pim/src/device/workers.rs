//! Modules that are worker threads.

use super::counters::DeviceCounters;
use super::module::{Module, ModuleProgram, run_in};
use super::{Answered, BANK_BYTES_MAX, ModuleBank, ModuleDevice, ModuleError, RoundError, check};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::thread::JoinHandle;

/// A set of worker threads that own modules. No other thread reaches their memory, and channels
/// connect them with the host. Time is real. Dropping the value ends the threads.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<ModuleWorker>,
    modules: usize,
    bank_bytes: u64,
    counters: DeviceCounters,
}

#[derive(Debug)]
struct ModuleWorker {
    /// The channel to the thread; `None` only while the worker is dropped.
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

/// A task of a worker with its modules.
type Task = Box<dyn FnOnce(&mut WorkerModules) + Send>;

/// The modules of a worker: `first` and every `stride`-th module after it.
#[derive(Debug)]
struct WorkerModules {
    first: usize,
    stride: usize,
    banks: Vec<(ModuleBank, u64)>,
}

impl Workers {
    /// Starts threads as [`start`](Workers::start) does.
    ///
    /// # Panics
    /// If a thread cannot be started.
    pub fn new(modules: usize, bank_bytes: u64, threads: usize) -> Workers {
        match Workers::start(modules, bank_bytes, threads) {
            Ok(workers) => workers,
            Err(error) => panic!("a worker could not be started: {error}"),
        }
    }

    /// Starts threads that own `modules` modules with banks of `bank_bytes` bytes, at most
    /// [`BANK_BYTES_MAX`]. There is at least one thread, and at most one per module.
    ///
    /// # Errors
    /// A thread cannot be started. Those already started have ended.
    pub fn start(modules: usize, bank_bytes: u64, threads: usize) -> std::io::Result<Workers> {
        let threads = threads.clamp(1, modules.max(1));
        let bank_bytes = bank_bytes.min(BANK_BYTES_MAX);
        let mut started = Workers {
            workers: Vec::new(),
            modules,
            bank_bytes,
            counters: DeviceCounters::default(),
        };
        for first in 0..threads {
            let numbers = (first..modules).step_by(threads);
            let banks = numbers.map(|_| (ModuleBank::new(bank_bytes), 0));
            let mut owned = WorkerModules {
                first,
                stride: threads,
                banks: banks.collect(),
            };
            let (tasks, received): (Sender<Task>, Receiver<Task>) = unbounded();
            let work = move || {
                for task in received {
                    task(&mut owned);
                }
            };
            let thread = std::thread::Builder::new().name(format!("module-{first}"));
            // A worker is pushed as soon as its thread runs. If a later thread cannot be started,
            // dropping `started` ends those before it.
            started.workers.push(ModuleWorker {
                tasks: Some(tasks),
                thread: Some(thread.spawn(work)?),
            });
        }
        Ok(started)
    }
}

impl ModuleDevice for Workers {
    fn modules(&self) -> usize {
        self.modules
    }

    fn bank_bytes(&self) -> u64 {
        self.bank_bytes
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        check(&inputs, self.modules, self.bank_bytes)?;
        self.counters.sent(&inputs);
        let threads = self.workers.len();
        debug_assert!(threads > 0, "there is at least one worker");
        let mut parts: Vec<Vec<Vec<u64>>> = (0..threads).map(|_| Vec::new()).collect();
        for (module, input) in inputs.into_iter().enumerate() {
            // Module m belongs to worker m modulo `threads`, as `start` has dealt them out.
            parts[module % threads].push(input);
        }
        let program = std::sync::Arc::new(program);
        let mut waiting: Vec<Option<Receiver<Vec<Answered>>>> = Vec::new();
        for (worker, part) in self.workers.iter().zip(parts) {
            // Each round has its own channel. A reply of an earlier round that was abandoned cannot
            // be taken for one of this round.
            let (answer, answered) = bounded(1);
            let program = std::sync::Arc::clone(&program);
            let task: Task = Box::new(move |owned: &mut WorkerModules| {
                let (first, stride) = (owned.first, owned.stride);
                let pairs = owned.banks.iter_mut().zip(&part).enumerate();
                let done = pairs.map(|(number, ((bank, root), input))| {
                    let mut meter = ();
                    let module = &mut Module::new(bank, root, &mut meter);
                    run_in(first + number * stride, module, &*program, input)
                });
                // If the host has panicked, no thread waits for the result.
                let _ = answer.send(done.collect());
            });
            let sent = worker.tasks.as_ref().map(|tasks| tasks.send(task).is_ok());
            // All workers have their tasks before the first reply is awaited, so that they run at
            // once.
            waiting.push((sent == Some(true)).then_some(answered));
        }
        let gone = |module| Err(ModuleError::Gone { module });
        // Modules of an ended worker keep this error. The others are still heard.
        let mut outputs: Vec<Answered> = (0..self.modules).map(gone).collect();
        for (first, answered) in waiting.into_iter().enumerate() {
            let part = answered.and_then(|answered| answered.recv().ok());
            for (number, output) in part.unwrap_or_default().into_iter().enumerate() {
                outputs[first + number * threads] = output;
            }
        }
        self.counters.received(&outputs);
        Ok(outputs)
    }

    fn counters(&self) -> &DeviceCounters {
        &self.counters
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // All channels are closed before the first thread is joined, so that the threads end
            // together.
            worker.tasks = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A thread that has panicked has ended, too.
                let _ = thread.join();
            }
        }
    }
}
