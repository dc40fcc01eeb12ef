//! A program's view of its module.

use super::bank::{Bank, Full};
use nearfield_hardware::modules::Account;

/// The reason why a program has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The bank has no room.
    #[error(transparent)]
    Full(#[from] Full),
    /// The input is unknown to the program.
    #[error("word {word} of its input, {value:#x}, is no task")]
    Input {
        /// Which word.
        word: usize,
        /// The input's value.
        value: u64,
    },
}

/// A program for modules: the same in all of them, over the words that each is sent.
pub trait Program: Send + Sync + 'static {
    /// Runs in one module, and writes the words that the host takes back. Work before a fault stays
    /// done.
    ///
    /// # Errors
    /// The reason of a fault.
    fn run<M: Meter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), Fault>;
}

/// Counts the work of a program.
pub trait Meter {
    /// Whether the processor has caches, so that fetching the data of several tasks at once pays.
    /// Modelled modules have none.
    const HAS_CACHES: bool;
    /// From now on task `number` is done.
    fn begin(&mut self, number: usize);
    /// Counts `count` instructions.
    fn instructions(&mut self, count: u64);
    /// Counts `bytes` copied from the bank.
    fn read(&mut self, bytes: u64);
    /// Counts `bytes` copied to the bank.
    fn write(&mut self, bytes: u64);
    /// A key is compared.
    fn compare(&mut self);
    /// A pointer is followed.
    fn hop(&mut self);
}

impl Meter for Account {
    const HAS_CACHES: bool = false;

    fn begin(&mut self, number: usize) {
        Account::begin(self, number);
    }

    fn instructions(&mut self, count: u64) {
        Account::instructions(self, count);
    }

    fn read(&mut self, bytes: u64) {
        Account::read(self, bytes);
    }

    fn write(&mut self, bytes: u64) {
        Account::write(self, bytes);
    }

    fn compare(&mut self) {
        Account::compare(self);
    }

    fn hop(&mut self) {
        Account::hop(self);
    }
}

/// Counts nothing.
impl Meter for () {
    const HAS_CACHES: bool = true;

    fn begin(&mut self, _: usize) {}
    fn instructions(&mut self, _: u64) {}
    fn read(&mut self, _: u64) {}
    fn write(&mut self, _: u64) {}
    fn compare(&mut self) {}
    fn hop(&mut self) {}
}

/// A module, from within.
#[derive(Debug)]
pub struct Module<'m, M> {
    bank: &'m mut Bank,
    root: &'m mut u64,
    meter: &'m mut M,
}

impl<'m, M: Meter> Module<'m, M> {
    pub(super) fn new(bank: &'m mut Bank, root: &'m mut u64, meter: &'m mut M) -> Self {
        Module { bank, root, meter }
    }

    /// A word that the processor keeps by itself from round to round; zero at first.
    pub fn root(&self) -> u64 {
        *self.root
    }

    /// Sets it.
    pub fn set_root(&mut self, root: u64) {
        *self.root = root;
    }

    /// From now on task `number` is done; tasks are dealt out to the processor's threads in turn.
    pub fn begin(&mut self, number: usize) {
        self.meter.begin(number);
    }

    /// Counts instructions of the program besides copying.
    pub fn instructions(&mut self, count: u64) {
        self.meter.instructions(count);
    }

    /// A key is compared with another.
    pub fn compare(&mut self) {
        self.meter.compare();
    }

    /// A pointer is followed.
    pub fn hop(&mut self) {
        self.meter.hop();
    }

    /// Words of the bank, copied.
    pub fn read(&mut self, at: u32, words: usize) -> &[u64] {
        self.meter.read(words as u64 * 8);
        self.bank.words(at, words)
    }

    /// Words that the processor has copied before, and keeps.
    pub fn peek(&self, at: u32, words: usize) -> &[u64] {
        self.bank.words(at, words)
    }

    /// Writes words to the bank.
    pub fn write(&mut self, at: u32, words: &[u64]) {
        self.meter.write(words.len() as u64 * 8);
        self.bank.words_mut(at, words.len()).copy_from_slice(words);
    }

    /// A block of words, all zero.
    ///
    /// # Errors
    /// The bank has no room.
    pub fn allocate(&mut self, words: usize) -> Result<u32, Fault> {
        Ok(self.bank.allocate(words)?)
    }

    /// Frees a block that was allocated with this length.
    pub fn free(&mut self, at: u32, words: usize) {
        self.bank.free(at, words);
    }

    /// The bytes of the bank that are in use.
    pub fn used_bytes(&self) -> u64 {
        self.bank.used_bytes()
    }
}
