//! The host's view of rounds: tasks by module, and their results in the same order.

use super::task::{COUNT_MAX, ChunkTaskKind};
use nearfield_pim::device::{Answered, ModuleError};

/// Tasks for all modules.
#[derive(Debug)]
pub(super) struct Outbox {
    pub inputs: Vec<Vec<u64>>,
    /// Positions in the inputs of the headers to which more items can be added.
    open: Vec<usize>,
}

/// The value for no header.
const CLOSED: usize = usize::MAX;

impl Outbox {
    pub fn new(modules: usize) -> Outbox {
        Outbox {
            inputs: vec![Vec::new(); modules],
            open: vec![CLOSED; modules],
        }
    }

    /// Adds an item to the task of its kind that is being written, or to a new one.
    pub fn item(&mut self, module: usize, kind: ChunkTaskKind, words: &[u64]) {
        debug_assert_eq!(words.len(), kind.words());
        let input = &mut self.inputs[module];
        let open = &mut self.open[module];
        let former = input.get(*open).copied().and_then(ChunkTaskKind::split);
        match former {
            Some((same, count, _)) if same == kind && count < COUNT_MAX => {
                input[*open] = kind.header(count + 1, 0);
            }
            _ => {
                *open = input.len();
                input.push(kind.header(1, 0));
            }
        }
        input.extend_from_slice(words);
    }

    /// Adds a task with this many items at a chunk, and returns the buffer for its words.
    pub fn at(
        &mut self,
        module: usize,
        kind: ChunkTaskKind,
        count: usize,
        chunk: u32,
    ) -> &mut Vec<u64> {
        // Items after this task belong behind it, so they need a new header.
        self.open[module] = CLOSED;
        let input = &mut self.inputs[module];
        input.push(kind.header(count, chunk));
        input
    }

    pub fn is_empty(&self) -> bool {
        self.inputs.iter().all(Vec::is_empty)
    }

    /// Returns the number of words for all modules.
    pub fn words(&self) -> u64 {
        self.inputs.iter().map(|input| input.len() as u64).sum()
    }
}

/// The outputs of all modules, each of which is read from its beginning.
#[derive(Debug)]
pub(super) struct PimTreeInbox {
    answered: Vec<Answered>,
    at: Vec<usize>,
}

impl PimTreeInbox {
    pub fn new(answered: Vec<Answered>) -> PimTreeInbox {
        let at = vec![0; answered.len()];
        PimTreeInbox { answered, at }
    }

    /// Returns the next words of a module.
    ///
    /// # Errors
    /// The module failed.
    pub fn take(&mut self, module: usize, words: usize) -> Result<&[u64], ModuleError> {
        let answer = match &self.answered[module] {
            Ok(answer) => answer,
            Err(error) => return Err(error.clone()),
        };
        let start = self.at[module];
        // A program returns the results of its whole input, or fails.
        let taken = answer.get(start..start + words);
        self.at[module] = start + words;
        taken.ok_or(ModuleError::Gone { module })
    }

    /// Returns the next word of a module.
    ///
    /// # Errors
    /// As for [`take`](PimTreeInbox::take).
    pub fn word(&mut self, module: usize) -> Result<u64, ModuleError> {
        self.take(module, 1).map(|words| words[0])
    }

    /// Returns the failure of a module, if it failed.
    pub fn error(&self, module: usize) -> Option<&ModuleError> {
        self.answered[module].as_ref().err()
    }

    /// Returns the number of words from all modules.
    pub fn words(&self) -> u64 {
        let answers = self.answered.iter().flatten();
        answers.map(|answer| answer.len() as u64).sum()
    }
}
