//! The module as a program sees it.

use super::bank::{BankFull, ModuleBank};
use super::{Answered, ModuleError};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The reason why a program failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramFault {
    /// The bank has no room.
    #[error(transparent)]
    Full(#[from] BankFull),
    /// The program does not know the input.
    #[error("word {word} of its input, {value:#x}, is not a task")]
    Input {
        /// Position of the word.
        word: usize,
        /// Value of the word.
        value: u64,
    },
}

/// A program for modules. All modules run the same one, each on the words that it receives.
pub trait ModuleProgram: Send + Sync + 'static {
    /// Runs in one module and writes the words that are sent back to the host. Work before a fault
    /// is not undone.
    ///
    /// # Errors
    /// The reason of a fault.
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault>;
}

/// A counter of the work of a program.
pub trait WorkMeter {
    /// True if the processor has caches, so that fetching the data of several tasks at once pays
    /// off. Modelled modules have no caches.
    const HAS_CACHES: bool;
    /// Attributes the work from here on to task `number`.
    fn begin(&mut self, number: usize);
    /// Counts `count` instructions.
    fn instructions(&mut self, count: u64);
    /// Counts `bytes` copied from the bank.
    fn read(&mut self, bytes: u64);
    /// Counts `bytes` copied to the bank.
    fn write(&mut self, bytes: u64);
    /// Counts the comparison of a key.
    fn compare(&mut self);
    /// Counts a followed pointer.
    fn hop(&mut self);
}

/// A meter that counts nothing.
impl WorkMeter for () {
    const HAS_CACHES: bool = true;

    fn begin(&mut self, _: usize) {}
    fn instructions(&mut self, _: u64) {}
    fn read(&mut self, _: u64) {}
    fn write(&mut self, _: u64) {}
    fn compare(&mut self) {}
    fn hop(&mut self) {}
}

/// A module, as its program accesses it.
#[derive(Debug)]
pub struct Module<'m, M> {
    bank: &'m mut ModuleBank,
    root: &'m mut u64,
    meter: &'m mut M,
}

impl<'m, M: WorkMeter> Module<'m, M> {
    pub(super) fn new(bank: &'m mut ModuleBank, root: &'m mut u64, meter: &'m mut M) -> Self {
        Module { bank, root, meter }
    }

    /// Returns the root word, which the processor keeps outside the bank from round to round;
    /// initially zero.
    pub fn root(&self) -> u64 {
        *self.root
    }

    /// Sets the root word.
    pub fn set_root(&mut self, root: u64) {
        *self.root = root;
    }

    /// Attributes the work from here on to task `number`. Tasks are assigned to the processor's
    /// threads in turn.
    pub fn begin(&mut self, number: usize) {
        self.meter.begin(number);
    }

    /// Counts instructions of the program besides copying.
    pub fn instructions(&mut self, count: u64) {
        self.meter.instructions(count);
    }

    /// Counts the comparison of a key with another.
    pub fn compare(&mut self) {
        self.meter.compare();
    }

    /// Counts a followed pointer.
    pub fn hop(&mut self) {
        self.meter.hop();
    }

    /// Returns words of the bank, and counts copying them.
    pub fn read(&mut self, at: u32, words: usize) -> &[u64] {
        self.meter.read(words as u64 * 8);
        self.bank.words(at, words)
    }

    /// Returns words that the processor has copied earlier and kept, without counting.
    pub fn peek(&self, at: u32, words: usize) -> &[u64] {
        self.bank.words(at, words)
    }

    /// Writes words to the bank.
    pub fn write(&mut self, at: u32, words: &[u64]) {
        // Copies between the processor's memory and the bank are what a module spends its time on,
        // so both directions are counted by bytes.
        self.meter.write(words.len() as u64 * 8);
        self.bank.words_mut(at, words.len()).copy_from_slice(words);
    }

    /// Allocates a block of words, all zero.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room.
    pub fn allocate(&mut self, words: usize) -> Result<u32, ProgramFault> {
        Ok(self.bank.allocate(words)?)
    }

    /// Frees a block that was allocated with this length.
    pub fn free(&mut self, at: u32, words: usize) {
        self.bank.free(at, words);
    }

    /// Returns the number of bytes of the bank in use.
    pub fn used_bytes(&self) -> u64 {
        self.bank.used_bytes()
    }
}

/// Runs a program in a module, and turns its panic into an error.
pub(super) fn run_in<M: WorkMeter>(
    number: usize,
    module: &mut Module<'_, M>,
    program: &impl ModuleProgram,
    input: &[u64],
) -> Answered {
    let mut output = Vec::new();
    // Unwind safety: the bank keeps the state that a panicking program left, and no other code
    // shares it.
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

/// Returns the message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
