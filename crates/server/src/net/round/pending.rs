//! The commands of a batch, before they are executed.

use crate::command::{Batchable, CommandGroup, Flags, NAME_BYTES_MAX, Touch, Usual, packed};
use nearfield::{Batch, ByteStrings};
use nearfield_core::ArenaSpan;
use smallvec::SmallVec;
use std::ops::Range;

/// A command of a batch, before it is executed.
#[derive(Clone, Copy, Debug)]
pub struct BatchCommand {
    pub connection: u32,
    /// The number of the command's [`BatchCommandKind`].
    pub kind: u32,
    /// The index of the command's name among the words of all commands.
    pub words: u32,
    /// The index of its first operation.
    pub first: u32,
    /// The request, in the batch.
    pub request: ArenaSpan,
}

/// The common properties of consecutive commands with the same name and number of words.
#[derive(Clone, Copy, Debug)]
pub struct BatchCommandKind {
    pub batchable: &'static Batchable,
    pub touch: Touch,
    /// The name as it was sent.
    pub name: [u8; NAME_BYTES_MAX],
    /// Number of words, including the name.
    pub words: u32,
    /// Number of keys, and the step from one to the next.
    pub keys: u32,
    pub step: u32,
    /// True if keys are changed.
    pub writes: bool,
    /// True if the stripes of keys must be held. Parts of an object are read after the values of
    /// other keys, and must not have changed by then.
    pub locks: bool,
    /// True if the command names its keys itself, and counts as a use of them.
    pub uses_keys: bool,
    /// The completion in the usual case.
    pub usual: Option<Usual>,
}

/// The needs of the commands of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// True if keys are changed.
    pub writes: bool,
    /// True if memory may be taken.
    pub grows: bool,
    /// True if the writes of some command depend on what it reads.
    pub fold: bool,
    /// True if some command has several keys.
    pub several: bool,
    /// True if the batch needs the keyspace exclusively.
    pub alone: bool,
    /// True if a command searches for the nearest key. It must see earlier writes in the index.
    pub nearest: bool,
    /// Number of keys that are changed, and bytes of the commands that change them.
    pub written_keys: usize,
    pub written_bytes: usize,
}

/// Returns true if commands with these flags may take memory.
fn grows(flags: Flags) -> bool {
    flags.has(Flags::DENYOOM) || flags.has(Flags::SLOWLY_GROWS)
}

impl Needs {
    /// Adds the needs of a command, except the counts of writes.
    pub fn add(&mut self, kind: &BatchCommandKind) {
        let several = kind.keys > 1;
        self.nearest |= kind.is_nearest();
        self.several |= several;
        // Single reads hold no stripe and would see half of a change of several keys. A search
        // beside other changes would find a key that was never the nearest one.
        self.alone |= kind.is_nearest() || kind.writes && several;
        self.writes |= kind.writes;
        self.grows |= kind.writes && grows(kind.batchable.command.flags);
        self.fold |= kind.folds();
    }
}

/// The commands of a batch, in their order.
#[derive(Debug, Default)]
pub struct BatchCommands {
    kinds: Vec<BatchCommandKind>,
    commands: Vec<BatchCommand>,
    /// The spans of the words of all commands in the batch, including the names.
    pub words: Vec<ArenaSpan>,
}

/// The words of a command, its name first.
pub type Arguments<'w> = SmallVec<[&'w [u8]; 16]>;

impl BatchCommands {
    /// Returns the number of commands.
    #[inline]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Forgets all commands and keeps the memory.
    pub fn clear(&mut self) {
        self.kinds.clear();
        self.commands.clear();
        self.words.clear();
    }

    /// Returns the last kind that was added.
    #[inline]
    pub fn last_kind(&self) -> Option<&BatchCommandKind> {
        self.kinds.last()
    }

    /// Begins a kind, to which commands that are added from now on belong.
    pub fn begin_kind(&mut self, kind: BatchCommandKind) {
        self.kinds.push(kind);
    }

    /// Adds a command of the last kind, with its first word and its first operation.
    #[inline]
    pub fn push(&mut self, connection: u32, request: ArenaSpan, words: usize, first: usize) {
        debug_assert_eq!(
            self.kinds.last().map(|kind| kind.words as usize),
            Some(self.words.len() - words),
            "commands of a kind have the same number of words"
        );
        self.commands.push(BatchCommand {
            connection,
            kind: self.kinds.len() as u32 - 1,
            words: words as u32,
            first: first as u32,
            request,
        });
    }

    /// Returns the command at a position.
    pub fn get(&self, position: usize) -> Option<(&BatchCommand, &BatchCommandKind)> {
        let pending = self.commands.get(position)?;
        Some((pending, self.kinds.get(pending.kind as usize)?))
    }

    /// Returns all commands.
    #[inline]
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&BatchCommand, &BatchCommandKind)> + ExactSizeIterator
    {
        let commands = self.commands.iter();
        commands.map(|pending| (pending, &self.kinds[pending.kind as usize]))
    }

    /// Returns the span of a word.
    #[inline]
    pub fn word(&self, number: usize) -> ArenaSpan {
        self.words.get(number).copied().unwrap_or_default()
    }

    /// Returns the words of a command, its name first.
    pub fn words_of<'b>(
        &self,
        batch: &'b Batch<ByteStrings>,
        (pending, kind): (&BatchCommand, &BatchCommandKind),
    ) -> Arguments<'b> {
        let words = self.words.get(pending.words(kind)).unwrap_or_default();
        words.iter().map(|&word| batch.staged(word)).collect()
    }
}

impl BatchCommand {
    /// Returns the range of the command's words among those of all commands.
    #[inline]
    pub fn words(&self, kind: &BatchCommandKind) -> Range<usize> {
        let first = self.words as usize;
        first..first + kind.words as usize
    }

    /// Returns the indices of the words that are the command's keys.
    #[inline]
    pub fn keys(&self, kind: &BatchCommandKind) -> impl Iterator<Item = usize> + use<> {
        let first = self.words as usize + 1;
        let step = kind.step as usize;
        (0..kind.keys as usize).map(move |key| first + key * step)
    }

    /// Returns the range of the command's operations.
    pub fn operations(&self, kind: &BatchCommandKind) -> Range<usize> {
        let first = self.first as usize;
        first..first + kind.keys as usize
    }
}

impl BatchCommandKind {
    /// Creates the kind of commands with `words` words that were sent as `name`.
    pub fn new(
        batchable: &'static Batchable,
        name: [u8; NAME_BYTES_MAX],
        words: usize,
    ) -> BatchCommandKind {
        let command = batchable.command;
        let (keys, step) = command.keys.count(words);
        let touch = batchable.plan.touch(words, keys);
        let looks_only = command.flags.has(Flags::LOOKS_ONLY);
        let writes = command.flags.has(Flags::WRITE);
        let reads_object = matches!(
            command.spec.group,
            CommandGroup::List
                | CommandGroup::Hash
                | CommandGroup::Set
                | CommandGroup::SortedSet
                | CommandGroup::Geo
                | CommandGroup::Stream
        );
        BatchCommandKind {
            batchable,
            touch,
            name,
            words: words as u32,
            keys: keys as u32,
            step: step as u32,
            writes,
            locks: writes || keys > 1 || reads_object,
            uses_keys: !looks_only && !matches!(touch, Touch::Nearest(_)),
            usual: batchable
                .plan
                .usual
                .filter(|_| matches!(touch, Touch::Read | Touch::Set)),
        }
    }

    /// Returns true if commands of this kind are sent as `name` with `words` words, including the
    /// name.
    #[inline]
    pub fn is_sent_as(&self, name: &[u8], words: usize) -> bool {
        self.words as usize == words
            && self.batchable.command.name.len() == name.len()
            && packed(name) == Some(u64::from_le_bytes(self.name))
    }

    /// Returns true if the writes of commands depend on what they read.
    #[inline]
    pub fn folds(&self) -> bool {
        self.writes && matches!(self.touch, Touch::Change)
    }

    #[inline]
    pub fn is_nearest(&self) -> bool {
        matches!(self.touch, Touch::Nearest(_))
    }
}
