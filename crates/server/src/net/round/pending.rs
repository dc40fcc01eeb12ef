//! The commands of a batch, before they are executed.

use crate::command::{Batchable, Flags, Group, NAME_BYTES_MAX, Touch, Usual, packed};
use nearfield::{Batch, Bytes};
use nearfield_core::Span;
use smallvec::SmallVec;
use std::ops::Range;

/// A command of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub connection: u32,
    /// The number of its [`Kind`].
    pub kind: u32,
    /// The number of its name among the words of all commands.
    pub words: u32,
    /// Its first operation.
    pub first: u32,
    /// The request, in the batch.
    pub request: Span,
}

/// What commands have in common that were sent one after the other with the same name and as many
/// words.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub batchable: &'static Batchable,
    pub touch: Touch,
    /// The name as it was sent.
    pub name: [u8; NAME_BYTES_MAX],
    /// The number of words, the name among them.
    pub words: u32,
    /// The number of keys, and the step from one to the next.
    pub keys: u32,
    pub step: u32,
    /// Keys are changed.
    pub writes: bool,
    /// The stripes of keys are to be held. What is read from an object is read after the values of
    /// other keys, and must not have changed by then.
    pub locks: bool,
    /// The keys are keys of the command's own, and it is a use of them.
    pub uses_keys: bool,
    /// What its completion does in the usual case.
    pub usual: Option<Usual>,
}

/// What the commands of a batch need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Keys are changed.
    pub writes: bool,
    /// Memory may be taken.
    pub grows: bool,
    /// Some command decides by what it reads.
    pub fold: bool,
    /// Some command has several keys.
    pub several: bool,
    /// The keyspace for itself.
    pub alone: bool,
    /// The nearest key is searched for, which has to see the writes before it in the index.
    pub nearest: bool,
    /// Keys that are changed, and the bytes of the commands that do so.
    pub written_keys: usize,
    pub written_bytes: usize,
}

impl Needs {
    /// Adds what a command needs, apart from what is written.
    pub fn add(&mut self, kind: &Kind) {
        let several = kind.keys > 1;
        self.nearest |= kind.is_nearest();
        self.several |= several;
        self.alone |= kind.is_nearest() || kind.writes && several;
        self.writes |= kind.writes;
        self.grows |= kind.writes && kind.batchable.command.flags.has(Flags::DENYOOM);
        self.fold |= kind.folds();
    }
}

/// The commands of a batch, in their order.
#[derive(Debug, Default)]
pub struct Sent {
    kinds: Vec<Kind>,
    commands: Vec<Pending>,
    /// Where the words of all commands lie in the batch, their names among them.
    pub words: Vec<Span>,
}

/// The words of a command, its name first.
pub type Arguments<'w> = SmallVec<[&'w [u8]; 16]>;

impl Sent {
    /// The number of commands.
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

    /// What was added last.
    #[inline]
    pub fn last_kind(&self) -> Option<&Kind> {
        self.kinds.last()
    }

    /// Has the commands that are added from now on be of this kind.
    pub fn begin_kind(&mut self, kind: Kind) {
        self.kinds.push(kind);
    }

    /// Adds a command of the last kind, whose words and operations begin there.
    #[inline]
    pub fn push(&mut self, connection: u32, request: Span, words: usize, first: usize) {
        self.commands.push(Pending {
            connection,
            kind: self.kinds.len() as u32 - 1,
            words: words as u32,
            first: first as u32,
            request,
        });
    }

    /// The command at a position.
    pub fn get(&self, position: usize) -> Option<(&Pending, &Kind)> {
        let pending = self.commands.get(position)?;
        Some((pending, self.kinds.get(pending.kind as usize)?))
    }

    /// All commands.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Pending, &Kind)> + ExactSizeIterator {
        let commands = self.commands.iter();
        commands.map(|pending| (pending, &self.kinds[pending.kind as usize]))
    }

    /// A word.
    #[inline]
    pub fn word(&self, number: usize) -> Span {
        self.words.get(number).copied().unwrap_or_default()
    }

    /// The words of a command, its name first.
    pub fn words_of<'b>(
        &self,
        batch: &'b Batch<Bytes>,
        (pending, kind): (&Pending, &Kind),
    ) -> Arguments<'b> {
        let words = self.words.get(pending.words(kind)).unwrap_or_default();
        words.iter().map(|&word| batch.staged(word)).collect()
    }
}

impl Pending {
    /// Where its words are among those of all commands.
    #[inline]
    pub fn words(&self, kind: &Kind) -> Range<usize> {
        let first = self.words as usize;
        first..first + kind.words as usize
    }

    /// The numbers of the words that are its keys.
    #[inline]
    pub fn keys(&self, kind: &Kind) -> impl Iterator<Item = usize> + use<> {
        let first = self.words as usize + 1;
        let step = kind.step as usize;
        (0..kind.keys as usize).map(move |key| first + key * step)
    }

    /// Its operations.
    pub fn operations(&self, kind: &Kind) -> Range<usize> {
        let first = self.first as usize;
        first..first + kind.keys as usize
    }
}

impl Kind {
    /// What commands of so many words have in common, whose name was sent as `name`.
    pub fn new(batchable: &'static Batchable, name: [u8; NAME_BYTES_MAX], words: usize) -> Kind {
        let command = batchable.command;
        let (keys, step) = command.keys.count(words);
        let touch = batchable.plan.touch(words, keys);
        let looks_only = command.flags.has(Flags::LOOKS_ONLY);
        let writes = command.flags.has(Flags::WRITE);
        let reads_object = matches!(
            command.spec.group,
            Group::List | Group::Hash | Group::Set | Group::SortedSet | Group::Geo | Group::Stream
        );
        Kind {
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

    /// True for what was sent as `name` with so many words, the name among them.
    #[inline]
    pub fn is_sent_as(&self, name: &[u8], words: usize) -> bool {
        self.words as usize == words
            && self.batchable.command.name.len() == name.len()
            && packed(name) == Some(u64::from_le_bytes(self.name))
    }

    /// True if commands decide by what they read.
    #[inline]
    pub fn folds(&self) -> bool {
        self.writes && matches!(self.touch, Touch::Change)
    }

    #[inline]
    pub fn is_nearest(&self) -> bool {
        matches!(self.touch, Touch::Nearest(_))
    }
}
