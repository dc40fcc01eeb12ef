//! Modules that are modelled.

use super::counters::Counters;
use super::module::{Module, Program};
use super::{Answered, Bank, Device, ModuleError, RoundError, check, message};
use nearfield_hardware::Time;
use nearfield_hardware::modules::{Account, HostWork, Parameters, Way};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Modules of which programs are run by threads of this machine, and the time of each round is that of the
/// modelled hardware.
#[derive(Debug)]
pub struct Model {
    parameters: Parameters,
    banks: Vec<(Bank, u64)>,
    counters: Counters,
}

/// What came of a program in a module.
type Done = (Answered, Account);

impl Model {
    /// So many modules, with banks as large as the hardware's.
    pub fn new(modules: usize, parameters: Parameters) -> Model {
        let bank = || (Bank::new(parameters.bank_bytes), 0);
        Model {
            parameters,
            banks: (0..modules).map(|_| bank()).collect(),
            counters: Counters::default(),
        }
    }

    /// What the model goes by.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The bytes that are in use in all modules.
    pub fn used_bytes(&self) -> u64 {
        self.banks.iter().map(|(bank, _)| bank.used_bytes()).sum()
    }

    /// What modules and transfers have taken so far, in joules.
    pub fn joules(&self) -> f64 {
        let moved = self.counters.moved_bytes.iter().sum();
        self.parameters.joules(self.counters.kernels, moved)
    }

    /// Runs a program in all modules, by as many threads as there are processors.
    fn run(&mut self, program: &impl Program, inputs: &[Vec<u64>]) -> Vec<Done> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = self.banks.len().div_ceil(threads).max(1);
        let parameters = &self.parameters;
        let run = |first: usize, banks: &mut [(Bank, u64)], inputs: &[Vec<u64>]| -> Vec<Done> {
            let pairs = banks.iter_mut().zip(inputs).enumerate();
            let done = pairs.map(|(number, ((bank, root), input))| {
                let mut account = Account::new(parameters);
                let module = &mut Module::new(bank, root, &mut account);
                let done = run_in(first + number, module, program, input);
                (done, account)
            });
            done.collect()
        };
        if threads == 1 || self.banks.len() <= threads {
            return run(0, &mut self.banks, inputs);
        }
        std::thread::scope(|scope| {
            let parts = self.banks.chunks_mut(each).zip(inputs.chunks(each));
            let threads: Vec<_> = parts
                .enumerate()
                .map(|(part, (banks, inputs))| {
                    let run = &run;
                    scope.spawn(move || run(part * each, banks, inputs))
                })
                .collect();
            let done = threads.into_iter().flat_map(|thread| {
                // Programs that panic are caught within.
                thread.join().unwrap_or_default()
            });
            done.collect()
        })
    }
}

/// Runs a program in a module, also one that panics.
pub(super) fn run_in<M: super::Meter>(
    number: usize,
    module: &mut Module<'_, M>,
    program: &impl Program,
    input: &[u64],
) -> Answered {
    let mut output = Vec::new();
    // A bank whose program has panicked is what that has left; nobody else has it.
    let ran = catch_unwind(AssertUnwindSafe(|| program.run(module, input, &mut output)));
    match ran {
        Ok(Ok(())) => Ok(output),
        Ok(Err(fault)) => Err(ModuleError::Fault {
            module: number,
            fault,
        }),
        Err(panic) => Err(ModuleError::Panic {
            module: number,
            message: message(&*panic),
        }),
    }
}

impl Device for Model {
    fn modules(&self) -> usize {
        self.banks.len()
    }

    fn bank_bytes(&self) -> u64 {
        self.parameters.bank_bytes
    }

    fn round<P: Program>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        check(&inputs, self.banks.len(), self.parameters.bank_bytes)?;
        self.counters.sent(&inputs);
        let done = self.run(&program, &inputs);
        let mut outputs = Vec::with_capacity(done.len());
        let mut longest = Time::ZERO;
        for (output, account) in done {
            outputs.push(output);
            let took = self.parameters.kernel(&account);
            longest = longest.max(took);
            self.counters.kernels += took;
            self.counters.work.add(&account.totals());
        }
        self.counters.kernel += longest;
        self.counters.launch += self.parameters.launch;
        let sent = inputs.iter().map(|words| words.len() as u64 * 8);
        let received = outputs.iter().map(|words| match words {
            Ok(words) => words.len() as u64 * 8,
            Err(_) => 0,
        });
        let moved: [Vec<u64>; 2] = [sent.collect(), received.collect()];
        for (way, number, bytes) in [(Way::In, 0, &moved[0]), (Way::Out, 1, &moved[1])] {
            self.counters.moved_bytes[number] += self.parameters.moved(bytes);
            let took = self.parameters.transfer(way, bytes);
            self.counters.transfer += took;
            if way == Way::Out {
                self.counters.gather += took;
            }
        }
        self.counters.received(&outputs);
        Ok(outputs)
    }

    fn at_host(&mut self, work: &HostWork) {
        self.counters.host += self.parameters.host_time(work);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
