//! Modelled modules.

use super::counters::DeviceCounters;
use super::module::{Module, ModuleProgram, WorkMeter, run_in};
use super::{Answered, HostWork, ModuleBank, ModuleDevice, ProgramWork, RoundError, check};
use nearfield_core::VirtualTime;
use nearfield_hardware::modules::{
    ModuleAccount, ModuleHostTimes, ModuleParameters, ModuleTransferDirection,
};

/// Least number of input words of a round for which threads are started. With less, starting them
/// takes longer than the round.
const WORDS_FOR_THREADS: usize = 1024;

/// A model of modules. Threads of this machine run the programs, and the time of each round is
/// computed for the modelled hardware.
#[derive(Debug)]
pub struct Model {
    banks: Vec<(ModuleBank, u64)>,
    clock: RoundClock,
    /// The times of the same rounds by other parameters.
    others: Vec<RoundClock>,
    /// Number of processors. It is stored because querying it takes longer than a small round.
    threads: usize,
}

/// The time of rounds by one set of parameters.
#[derive(Debug)]
struct RoundClock {
    parameters: ModuleParameters,
    counters: DeviceCounters,
    /// The index of the account, among those of each module, that these parameters use.
    account: usize,
}

/// The result of a program in a module: its output, and its accounts, indexed by
/// `RoundClock::account`.
type Done = (Answered, Vec<ProgramAccount>);

/// The work of a program, and its time by one set of parameters.
#[derive(Clone, Debug)]
struct ProgramAccount {
    work: ProgramWork,
    time: ModuleAccount,
}

impl ProgramAccount {
    fn new(parameters: &ModuleParameters) -> ProgramAccount {
        ProgramAccount {
            work: ProgramWork::default(),
            time: ModuleAccount::new(parameters),
        }
    }
}

/// A meter that counts a program's work in several accounts, one for each set of parameters.
impl WorkMeter for Vec<ProgramAccount> {
    const HAS_CACHES: bool = false;

    fn begin(&mut self, number: usize) {
        for account in self {
            account.time.begin(number);
        }
    }

    fn instructions(&mut self, count: u64) {
        for account in self {
            account.work.instructions += count;
            account.time.instructions(count);
        }
    }

    fn read(&mut self, bytes: u64) {
        for account in self {
            account.work.reads += account.time.read(bytes);
            account.work.bytes += bytes;
        }
    }

    fn write(&mut self, bytes: u64) {
        for account in self {
            account.work.writes += account.time.write(bytes);
            account.work.bytes += bytes;
        }
    }

    fn compare(&mut self) {
        for account in self {
            account.work.compares += 1;
        }
    }

    fn hop(&mut self) {
        for account in self {
            account.work.hops += 1;
        }
    }
}

impl HostWork {
    /// Returns the time that the host takes if its threads share the work evenly.
    ///
    /// ```
    /// use nearfield_hardware::modules::ModulePreset;
    /// use nearfield_pim::device::HostWork;
    ///
    /// let parameters = ModulePreset::UpmemMeasured.parameters();
    /// let work = HostWork { probes: 3200, ..HostWork::default() };
    /// assert_eq!(work.time(&parameters.host).as_nanoseconds(), 5500.0);
    /// ```
    pub fn time(&self, host: &ModuleHostTimes) -> VirtualTime {
        let each = [
            (self.probes, host.probe),
            (self.words, host.word),
            (self.sorted, host.sorted),
        ];
        // The product of a count and a time may exceed 64 bits.
        let picoseconds = each.map(|(count, time)| count as f64 * time.as_picoseconds() as f64);
        let shared = picoseconds.iter().sum::<f64>() / host.threads;
        VirtualTime::from_picoseconds(shared.round() as u64)
    }
}

impl RoundClock {
    /// Counts a round: the work of modules, and the bytes that each received and sent back.
    fn round(&mut self, accounts: &[Vec<ProgramAccount>], moved: &[Vec<u64>; 2]) {
        // All modules run at once, so a round takes as long as its slowest. Energy needs the sum.
        let mut longest = VirtualTime::ZERO;
        for account in accounts.iter().filter_map(|of| of.get(self.account)) {
            let took = self.parameters.kernel(&account.time);
            longest = longest.max(took);
            self.counters.kernels += took;
            self.counters.work.add(&account.work);
        }
        self.counters.kernel += longest;
        self.counters.launch += self.parameters.launch;
        for (way, number, bytes) in [
            (ModuleTransferDirection::In, 0, &moved[0]),
            (ModuleTransferDirection::Out, 1, &moved[1]),
        ] {
            // A rank transfers the same length to all of its modules, so more bytes move than are
            // useful.
            self.counters.moved_bytes[number] += self.parameters.moved(bytes);
            let took = self.parameters.transfer(way, bytes);
            self.counters.transfer += took;
            if way == ModuleTransferDirection::Out {
                self.counters.gather += took;
            }
        }
        debug_assert!(self.counters.kernel <= self.counters.kernels);
        debug_assert!(self.counters.gather <= self.counters.transfer);
    }
}

/// Returns true if programs within a module take the same time by both parameters.
fn same_within(one: &ModuleParameters, other: &ModuleParameters) -> bool {
    let within = |parameters: &ModuleParameters| {
        let rates = [
            parameters.cycles_per_second,
            parameters.cycles_per_instruction,
        ];
        let sizes = (parameters.tasklets, parameters.dma_bytes_max);
        (rates, sizes, parameters.dma)
    };
    within(one) == within(other)
}

impl Model {
    /// Creates a model of `modules` modules, with banks as large as the hardware's.
    pub fn new(modules: usize, parameters: ModuleParameters) -> Model {
        let bank = || (ModuleBank::new(parameters.bank_bytes), 0);
        Model {
            banks: (0..modules).map(|_| bank()).collect(),
            clock: RoundClock {
                parameters,
                counters: DeviceCounters::default(),
                account: 0,
            },
            others: Vec::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Makes the model also compute the time of each later round by other parameters. Banks keep
    /// their size.
    ///
    /// ```
    /// use nearfield_hardware::modules::ModulePreset;
    /// use nearfield_pim::device::Model;
    ///
    /// let model = Model::new(64, ModulePreset::UpmemMeasured.parameters());
    /// let model = model.also(ModulePreset::RadarPaper.parameters());
    /// assert_eq!(model.others().count(), 1);
    /// ```
    #[must_use]
    pub fn also(mut self, parameters: ModuleParameters) -> Model {
        // Metering costs more than running most programs. Parameters that agree within a module
        // share one account, and differ only in the times of transfers and launches.
        let clocks = || std::iter::once(&self.clock).chain(&self.others);
        let same = clocks().find(|clock| same_within(&clock.parameters, &parameters));
        let account = same.map_or_else(|| self.accounts(), |clock| clock.account);
        self.others.push(RoundClock {
            parameters,
            counters: DeviceCounters::default(),
            account,
        });
        self
    }

    /// Returns the other sets of parameters and the counters by them, in the order of
    /// [`also`](Model::also).
    pub fn others(&self) -> impl Iterator<Item = (&ModuleParameters, &DeviceCounters)> {
        let others = self.others.iter();
        others.map(|clock| (&clock.parameters, &clock.counters))
    }

    /// Returns the number of accounts kept for a module.
    fn accounts(&self) -> usize {
        let others = self.others.iter().map(|clock| clock.account + 1);
        others.fold(1, usize::max)
    }

    /// Returns the parameters of the model.
    pub fn parameters(&self) -> &ModuleParameters {
        &self.clock.parameters
    }

    /// Returns the number of bytes in use in all modules.
    pub fn used_bytes(&self) -> u64 {
        self.banks.iter().map(|(bank, _)| bank.used_bytes()).sum()
    }

    /// Returns the energy of modules and transfers so far, in joules.
    pub fn joules(&self) -> f64 {
        let RoundClock {
            parameters,
            counters,
            ..
        } = &self.clock;
        let moved = counters.moved_bytes.iter().sum();
        parameters.joules(counters.kernels, moved)
    }

    /// Runs a program in all modules. Uses one thread per processor if the input is long enough for
    /// more than one.
    fn run(&mut self, program: &impl ModuleProgram, inputs: &[Vec<u64>]) -> Vec<Done> {
        let threads = self.threads;
        // Each thread gets adjacent modules, so that inputs can be split into slices without
        // copying.
        let each = self.banks.len().div_ceil(threads).max(1);
        let mut fresh = vec![ProgramAccount::new(&self.clock.parameters)];
        for clock in &self.others {
            // Clocks that share an account have a smaller index here, and add none.
            if clock.account == fresh.len() {
                fresh.push(ProgramAccount::new(&clock.parameters));
            }
        }
        let fresh = &fresh;
        let run =
            |first: usize, banks: &mut [(ModuleBank, u64)], inputs: &[Vec<u64>]| -> Vec<Done> {
                let pairs = banks.iter_mut().zip(inputs).enumerate();
                let done = pairs.map(|(number, ((bank, root), input))| {
                    let mut accounts = fresh.clone();
                    let module = &mut Module::new(bank, root, &mut accounts);
                    let done = run_in(first + number, module, program, input);
                    (done, accounts)
                });
                done.collect()
            };
        let words: usize = inputs.iter().map(Vec::len).sum();
        if threads == 1 || self.banks.len() <= threads || words < WORDS_FOR_THREADS {
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
                // Panics of programs are caught inside the thread.
                thread.join().unwrap_or_default()
            });
            done.collect()
        })
    }
}

impl ModuleDevice for Model {
    fn modules(&self) -> usize {
        self.banks.len()
    }

    fn bank_bytes(&self) -> u64 {
        self.parameters().bank_bytes
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        let bank_bytes = self.clock.parameters.bank_bytes;
        check(&inputs, self.banks.len(), bank_bytes)?;
        let done = self.run(&program, &inputs);
        debug_assert_eq!(done.len(), inputs.len(), "each module has run");
        let (outputs, accounts): (Vec<Answered>, Vec<Vec<ProgramAccount>>) =
            done.into_iter().unzip();
        let sent = inputs.iter().map(|words| words.len() as u64 * 8);
        let received = outputs.iter().map(|words| match words {
            Ok(words) => words.len() as u64 * 8,
            // The hardware would still read back the length of the others, which `moved` adds.
            Err(_) => 0,
        });
        let moved: [Vec<u64>; 2] = [sent.collect(), received.collect()];
        for clock in std::iter::once(&mut self.clock).chain(&mut self.others) {
            clock.counters.sent(&inputs);
            clock.round(&accounts, &moved);
            clock.counters.received(&outputs);
        }
        Ok(outputs)
    }

    fn at_host(&mut self, work: &HostWork) {
        for clock in std::iter::once(&mut self.clock).chain(&mut self.others) {
            clock.counters.host += work.time(&clock.parameters.host);
        }
    }

    fn counters(&self) -> &DeviceCounters {
        &self.clock.counters
    }
}
