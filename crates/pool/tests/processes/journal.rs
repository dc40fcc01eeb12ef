//! A compute process's record of each write, which shows after its death which writes it had begun
//! and which were acknowledged.

use crate::keys::{initial, is_shared};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A value that a process has begun to write: its version, `None` for a removal.
pub type Written = Option<u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessJournalEntry {
    Put {
        number: u64,
        version: u64,
    },
    Remove {
        number: u64,
        version: u64,
    },
    /// The write of this version was acknowledged.
    Done {
        number: u64,
        version: u64,
    },
    /// The process was ready for operations at this time after its start.
    Opened {
        nanoseconds: u64,
    },
    /// The time of the longest operation so far in nanoseconds, and the number of operations.
    Longest {
        nanoseconds: u64,
        operations: u64,
    },
}

/// A journal that is written by system calls, whose effects outlive a killed process.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    pub fn create(path: &Path) -> Journal {
        Journal(File::create(path).expect("a journal"))
    }

    /// Records an entry before the next step begins.
    pub fn note(&self, entry: ProcessJournalEntry) {
        let (kind, one, other) = match entry {
            ProcessJournalEntry::Put { number, version } => (1, number, version),
            ProcessJournalEntry::Remove { number, version } => (2, number, version),
            ProcessJournalEntry::Done { number, version } => (3, number, version),
            ProcessJournalEntry::Longest {
                nanoseconds,
                operations,
            } => (4, nanoseconds, operations),
            ProcessJournalEntry::Opened { nanoseconds } => (5, nanoseconds, 0),
        };
        let words: [u64; 3] = [kind, one, other];
        let bytes = words.map(u64::to_le_bytes).concat();
        (&self.0).write_all(&bytes).expect("a journal");
    }
}

/// Reads the entries of a journal, as far as it was written.
pub fn read(path: &Path) -> Vec<ProcessJournalEntry> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let words: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let entry = |words: &[u64; 3]| match *words {
        [1, number, version] => ProcessJournalEntry::Put { number, version },
        [2, number, version] => ProcessJournalEntry::Remove { number, version },
        [3, number, version] => ProcessJournalEntry::Done { number, version },
        [4, nanoseconds, operations] => ProcessJournalEntry::Longest {
            nanoseconds,
            operations,
        },
        [_, nanoseconds, _] => ProcessJournalEntry::Opened { nanoseconds },
    };
    words.as_chunks().0.iter().map(entry).collect()
}

/// The possible values of a key with one writer at a time: the last acknowledged one, or one begun
/// since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Possible {
    pub settled: Written,
    pub begun: Vec<(u64, Written)>,
}

impl Possible {
    pub fn new(settled: Written) -> Possible {
        let begun = Vec::new();
        Possible { settled, begun }
    }

    pub fn allows(&self, found: Written) -> bool {
        found == self.settled || self.begun.iter().any(|(_, written)| *written == found)
    }
}

/// The content of one process's journals about each key that only it writes, in the order of its
/// incarnations.
#[derive(Debug, Default)]
pub struct ProcessHistory {
    keys: BTreeMap<u64, Possible>,
    pub acknowledged: u64,
    pub unacknowledged: u64,
    pub operations: u64,
    pub longest: Duration,
    /// Maximum time that an incarnation needed to begin.
    pub opening: Duration,
}

impl ProcessHistory {
    /// Returns the possible values of a key.
    pub fn of(&mut self, number: u64) -> &mut Possible {
        let first = || Possible::new(initial(number));
        self.keys.entry(number).or_insert_with(first)
    }

    /// Adds the writes of another incarnation.
    pub fn take(&mut self, entries: &[ProcessJournalEntry]) {
        let mut done = 0;
        let mut under_way = 0;
        for entry in entries {
            match *entry {
                ProcessJournalEntry::Put { number, version } => {
                    under_way += 1;
                    self.begin(number, version, Some(version));
                }
                ProcessJournalEntry::Remove { number, version } => {
                    under_way += 1;
                    self.begin(number, version, None);
                }
                ProcessJournalEntry::Done { number, version } => {
                    under_way -= 1;
                    self.acknowledged += 1;
                    self.end(number, version);
                }
                ProcessJournalEntry::Longest {
                    nanoseconds,
                    operations,
                } => {
                    self.longest = self.longest.max(Duration::from_nanos(nanoseconds));
                    done = operations;
                }
                ProcessJournalEntry::Opened { nanoseconds } => {
                    self.opening = self.opening.max(Duration::from_nanos(nanoseconds));
                }
            }
        }
        self.unacknowledged += under_way;
        self.operations += done;
    }

    pub fn begin(&mut self, number: u64, version: u64, written: Written) {
        if !is_shared(number) {
            self.of(number).begun.push((version, written));
        }
    }

    pub fn end(&mut self, number: u64, version: u64) {
        if is_shared(number) {
            return;
        }
        let possible = self.of(number);
        let mut begun = possible.begun.iter();
        let place = begun.position(|(begun, _)| *begun == version);
        let place = place.expect("it was begun");
        possible.settled = possible.begun[place].1;
        possible.begun.drain(..=place);
    }
}
