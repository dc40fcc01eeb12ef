//! The host, and its rounds.

use super::options::JumpPushOptions;
use super::program::JumpPushProgram;
use super::task::JumpPushTask;
use super::tower::{Pointer, lower_levels, words};
use nearfield_core::OperationError;
use nearfield_pim::device::{Answered, HostWork, ModuleDevice, ModuleProgram};
use nearfield_pim::dispatch::plan::{refused, unknown};

/// Number of tries of a step without which the list would be inconsistent.
const TRIES: usize = 4;

#[derive(Debug)]
pub struct JumpPushHost<D> {
    pub device: D,
    pub options: JumpPushOptions,
    /// Number of levels of the lower part.
    pub levels: usize,
    /// The first tower of the lower part, which has no key; null before it is built.
    pub head: Pointer,
    /// Number of stored keys.
    pub keys: u64,
    /// Bytes of lower towers and of the copies of upper ones.
    pub bytes: u64,
    /// Number of nodes that were pulled.
    pub pulled: u64,
    /// The error because of which nothing is written any more.
    pub broken: Option<String>,
    /// The host's work since the last report to the device.
    pub work: HostWork,
}

/// The words for each module in a round.
#[derive(Clone, Debug)]
pub struct Inputs(Vec<Vec<u64>>);

/// The outputs of a round, which are taken piece by piece from each module's.
#[derive(Debug)]
pub struct JumpPushOutputs {
    answered: Vec<Answered>,
    taken: Vec<u32>,
}

impl Inputs {
    pub fn new(modules: usize) -> Inputs {
        Inputs(vec![Vec::new(); modules])
    }

    /// Adds a task for an existing module.
    pub fn add(&mut self, module: usize, task: &JumpPushTask<'_>) {
        // A module that does not exist has no output either, so its reply is missing.
        if let Some(words) = self.0.get_mut(module) {
            task.encode(words);
        }
    }

    /// Adds words for an existing module.
    pub fn extend(&mut self, module: usize, words: impl IntoIterator<Item = u64>) {
        if let Some(input) = self.0.get_mut(module) {
            input.extend(words);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    fn words(&self) -> u64 {
        self.0.iter().map(|words| words.len() as u64).sum()
    }
}

impl JumpPushOutputs {
    fn new(answered: Vec<Answered>) -> JumpPushOutputs {
        let taken = vec![0; answered.len()];
        JumpPushOutputs { answered, taken }
    }

    /// Takes the next words of a module.
    ///
    /// # Errors
    /// The module failed.
    pub fn take(&mut self, module: usize, count: usize) -> Result<&[u64], OperationError> {
        let missing = || OperationError::Unknown {
            what: format!("module {module} has not replied"),
        };
        let answered = self.answered.get(module).ok_or_else(missing)?;
        let words = answered.as_ref().map_err(unknown)?;
        let taken = self.taken.get_mut(module).ok_or_else(missing)?;
        let start = *taken as usize;
        // A shorter output means that the module did not execute all tasks. Later takes from it
        // fail, too.
        let part = words.get(start..start + count).ok_or_else(missing)?;
        *taken += count as u32;
        Ok(part)
    }

    fn words(&self) -> u64 {
        self.answered
            .iter()
            .flatten()
            .map(|words| words.len() as u64)
            .sum()
    }
}

impl<D: ModuleDevice> JumpPushHost<D> {
    pub fn new(device: D, options: JumpPushOptions) -> JumpPushHost<D> {
        debug_assert!(device.modules() > 0, "the first tower needs a module");
        JumpPushHost {
            levels: lower_levels(device.modules()),
            device,
            options,
            head: Pointer::NULL,
            keys: 0,
            bytes: 0,
            pulled: 0,
            broken: None,
            work: HostWork::default(),
        }
    }

    pub fn inputs(&self) -> Inputs {
        Inputs::new(self.device.modules())
    }

    /// Runs a program in all modules.
    ///
    /// # Errors
    /// The round was refused, and nothing was done.
    pub fn round(
        &mut self,
        program: impl ModuleProgram,
        inputs: Inputs,
    ) -> Result<JumpPushOutputs, OperationError> {
        self.work.words += inputs.words();
        let answered = self.device.round(program, inputs.0);
        let answers = JumpPushOutputs::new(answered.map_err(|error| refused(&error))?);
        self.work.words += answers.words();
        Ok(answers)
    }

    /// Makes modules execute idempotent tasks, and repeats those of modules that fail.
    ///
    /// # Errors
    /// The round was refused each time, and nothing was done.
    pub fn insist(&mut self, mut inputs: Inputs) -> Result<JumpPushOutputs, OperationError> {
        let mut result = self.round(JumpPushProgram, inputs.clone());
        for _ in 1..TRIES {
            match &mut result {
                Err(_) => result = self.round(JumpPushProgram, inputs.clone()),
                Ok(answers) => {
                    let pairs = inputs.0.iter_mut().zip(&answers.answered);
                    for (input, answered) in pairs {
                        // Modules that have replied need not repeat their tasks. Their outputs are
                        // kept.
                        if answered.is_ok() {
                            input.clear();
                        }
                    }
                    if answers.answered.iter().all(Result::is_ok) {
                        break;
                    }
                    let Ok(again) = self.round(JumpPushProgram, inputs.clone()) else {
                        // A refused round changes nothing. The next try has the same inputs.
                        continue;
                    };
                    for (answered, again) in answers.answered.iter_mut().zip(again.answered) {
                        if answered.is_err() {
                            *answered = again;
                        }
                    }
                }
            }
        }
        result
    }

    /// Builds the first tower of the lower part, if there is none yet.
    ///
    /// # Errors
    /// Its module has no room, or failed.
    pub fn begin(&mut self) -> Result<(), OperationError> {
        if !self.head.is_null() {
            return Ok(());
        }
        let mut inputs = self.inputs();
        // The first tower has all levels, so that each search has a node to begin at. Its key is
        // never compared.
        let links = vec![0; self.levels * 2];
        let (key, value) = (0, 0);
        inputs.add(
            0,
            &JumpPushTask::Make {
                key,
                value,
                links: &links,
            },
        );
        let at = self.round(JumpPushProgram, inputs)?.take(0, 1)?[0];
        if at == 0 {
            let what = "the first module has no room for the first tower".to_owned();
            return Err(OperationError::OutOfMemory { what });
        }
        self.head = Pointer::new(0, at as u32);
        self.bytes += words(self.levels) as u64 * 8;
        Ok(())
    }

    /// Reports the host's own work to the device.
    pub fn tell(&mut self) {
        let work = std::mem::take(&mut self.work);
        self.device.at_host(&work);
    }
}
