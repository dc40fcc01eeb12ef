//! The plan of changes to a level's chunks for inserted and removed keys.

use super::address::ModuleAddress;
use super::search::PulledChunk;
use std::ops::Range;

/// The child of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkChild {
    /// An existing child.
    At(ModuleAddress),
    /// The data node of an inserted key, by its number.
    Data(u32),
    /// A new chunk of the level below, by its number among the outcomes there.
    Chunk(u32),
}

/// A key that enters a level, or leaves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelKeyChange {
    pub key: u64,
    /// The new child; `None` if the key is removed.
    pub child: Option<ChunkChild>,
    /// True if the key begins a chunk of this level.
    pub is_tall: bool,
    /// Number of the chunk concerned.
    pub chunk: usize,
}

/// A chunk that gains or loses keys, or that takes another's entries.
#[derive(Debug)]
pub(super) struct AffectedChunk {
    pub address: ModuleAddress,
    /// The content, needed only if the chunk is divided or removed.
    pub content: Option<PulledChunk>,
}

/// The change of a chunk, or a new chunk.
#[derive(Debug)]
pub(super) struct PlannedChunk {
    /// The address; `None` if the chunk is new.
    pub address: Option<ModuleAddress>,
    /// The first key of a new chunk.
    pub first: u64,
    /// The key from which on entries move to other chunks.
    pub truncate: Option<u64>,
    pub bound: Option<u64>,
    pub removes: Vec<u64>,
    pub adds: Vec<(u64, ChunkChild)>,
}

impl PlannedChunk {
    pub fn new(address: Option<ModuleAddress>, first: u64) -> PlannedChunk {
        PlannedChunk {
            address,
            first,
            truncate: None,
            bound: None,
            removes: Vec::new(),
            adds: Vec::new(),
        }
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.bound.is_none() && self.removes.is_empty() && self.adds.is_empty()
    }
}

/// The changes of a level.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub outcomes: Vec<PlannedChunk>,
    /// Chunks that are removed, with their first keys.
    pub freed: Vec<(ModuleAddress, u64)>,
    /// Keys that enter the next level, with the numbers of their chunks' outcomes, and keys that
    /// leave it.
    pub above: Vec<(u64, Option<u32>)>,
    /// Number of chunks whose first key had been removed and is inserted again.
    pub filled: usize,
}

/// The error that a chunk is removed and no other can take its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orphan(pub u64);

impl Level {
    /// Divides chunks before tall new keys, and merges those whose first key is removed with the
    /// one to the left. Both lists are in the order of keys, and so is the result.
    ///
    /// # Errors
    /// `Orphan` if there is no chunk to the left of a removed one.
    pub fn plan(touched: &[AffectedChunk], turns: &[LevelKeyChange]) -> Result<Level, Orphan> {
        debug_assert!(turns.is_sorted_by(|one, other| one.key < other.key));
        let mut level = Level::default();
        let mut start = 0;
        for (number, chunk) in touched.iter().enumerate() {
            let here = turns[start..].iter();
            let end = start + here.take_while(|turn| turn.chunk == number).count();
            level.turn(chunk, &turns[start..end])?;
            start = end;
        }
        debug_assert_eq!(start, turns.len(), "each change has its chunk");
        Ok(level)
    }

    /// Returns the outcome that currently receives entries.
    fn last(&mut self, key: u64) -> Result<&mut PlannedChunk, Orphan> {
        self.outcomes.last_mut().ok_or(Orphan(key))
    }

    fn turn(&mut self, chunk: &AffectedChunk, turns: &[LevelKeyChange]) -> Result<(), Orphan> {
        let goes = turns
            .iter()
            .find(|turn| turn.is_tall && turn.child.is_none());
        match goes {
            // The first key of the chunk goes, and with it the chunk. Its entries move to the
            // outcome before it, which is the last of the list.
            Some(turn) => {
                self.freed.push((chunk.address, turn.key));
                self.above.push((turn.key, None));
            }
            None => self
                .outcomes
                .push(PlannedChunk::new(Some(chunk.address), 0)),
        }
        let own = self.outcomes.len().wrapping_sub(1);
        let Some(content) = &chunk.content else {
            // The chunk only gains or loses entries. Its content was not read, because it is not
            // needed.
            for turn in turns {
                let outcome = self.last(turn.key)?;
                match turn.child {
                    Some(child) => outcome.adds.push((turn.key, child)),
                    None => outcome.removes.push(turn.key),
                }
            }
            return Ok(());
        };
        let mut has_moved = goes.is_some();
        let mut turns = turns.iter().peekable();
        let mut entries = content.entries.iter().peekable();
        loop {
            let key = turns.peek().map_or(u64::MAX, |turn| turn.key);
            // Entries before the next changed key move on if the chunk was divided or removed.
            if let Some(&&(entry, address, _)) = entries.peek()
                && (turns.peek().is_none() || entry < key)
            {
                entries.next();
                if has_moved {
                    self.last(entry)?
                        .adds
                        .push((entry, ChunkChild::At(address)));
                }
                continue;
            }
            let Some(turn) = turns.next() else {
                break;
            };
            match turn.child {
                None => {
                    entries.next_if(|entry| entry.0 == turn.key);
                    // A moved entry is dropped simply by not adding it anywhere.
                    if !has_moved {
                        self.outcomes[own].removes.push(turn.key);
                    }
                }
                Some(child) => {
                    // The chunk stayed when its first key was removed, and gets it back.
                    if turn.is_tall && turn.key == content.first {
                        self.filled += 1;
                    } else if turn.is_tall {
                        // The chunk before the new one ends where the new one begins.
                        self.last(turn.key)?.bound = Some(turn.key);
                        if !has_moved {
                            self.outcomes[own].truncate = Some(turn.key);
                            has_moved = true;
                        }
                        self.above
                            .push((turn.key, Some(self.outcomes.len() as u32)));
                        self.outcomes.push(PlannedChunk::new(None, turn.key));
                    }
                    self.last(turn.key)?.adds.push((turn.key, child));
                }
            }
        }
        // The last part has the end of the old chunk.
        if has_moved {
            self.last(content.first)?.bound = Some(content.bound);
        }
        Ok(())
    }
}

/// Numbers the chunks to which keys lead. Returns the number of each key's chunk, and for each
/// chunk the range of its keys.
pub(super) fn chunks_of(
    chunks: impl Iterator<Item = ModuleAddress>,
) -> (Vec<usize>, Vec<Range<usize>>) {
    let mut of: Vec<usize> = Vec::new();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last = ModuleAddress::NONE;
    for (number, chunk) in chunks.enumerate() {
        match ranges.last_mut() {
            Some(range) if chunk == last => range.end = number + 1,
            _ => ranges.push(number..number + 1),
        }
        last = chunk;
        of.push(ranges.len() - 1);
    }
    (of, ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(key: u64) -> (u64, ModuleAddress, u32) {
        (key, ModuleAddress(key * 10), 0)
    }

    fn chunk(address: u64, bound: u64, keys: &[u64]) -> AffectedChunk {
        AffectedChunk {
            address: ModuleAddress(address),
            content: Some(PulledChunk {
                first: keys[0],
                bound,
                entries: keys.iter().map(|&key| at(key)).collect(),
            }),
        }
    }

    fn turn(chunk: usize, key: u64, comes: bool, is_tall: bool) -> LevelKeyChange {
        LevelKeyChange {
            key,
            child: comes.then_some(ChunkChild::Data(key as u32)),
            is_tall,
            chunk,
        }
    }

    #[test]
    fn chunks_are_divided_and_merged_at_once() {
        let touched = [chunk(1, 50, &[10, 20, 30]), chunk(2, 80, &[50, 60, 70])];
        let turns = [
            turn(0, 15, true, false),
            turn(0, 20, false, false),
            turn(0, 25, true, true),
            turn(1, 50, false, true),
            turn(1, 65, true, true),
        ];
        let level = Level::plan(&touched, &turns).expect("a plan");
        assert_eq!(level.freed, [(ModuleAddress(2), 50)]);
        assert_eq!(
            level.above,
            [(25, Some(1)), (50, None), (65, Some(2))],
            "in the order of keys"
        );
        let keys = |number: usize| {
            let adds = level.outcomes[number].adds.iter();
            adds.map(|add| add.0).collect::<Vec<_>>()
        };
        let old = &level.outcomes[0];
        assert_eq!((old.truncate, old.bound), (Some(25), Some(25)));
        assert_eq!((keys(0), &old.removes[..]), (vec![15], &[20][..]));
        assert_eq!(keys(1), [25, 30, 60]);
        assert_eq!(level.outcomes[1].bound, Some(65));
        assert_eq!(keys(2), [65, 70]);
        assert_eq!(level.outcomes[2].bound, Some(80));
    }

    #[test]
    fn what_has_nobody_to_its_left_does_not_go() {
        let touched = [chunk(2, 80, &[50, 60, 70])];
        let turns = [turn(0, 50, false, true)];
        assert_eq!(Level::plan(&touched, &turns).err(), Some(Orphan(60)));
    }

    #[test]
    fn a_chunk_whose_first_key_comes_again_stays() {
        let mut touched = [chunk(1, 50, &[10, 20])];
        if let Some(content) = &mut touched[0].content {
            content.first = 5;
        }
        let level = Level::plan(&touched, &[turn(0, 5, true, true)]).expect("a plan");
        assert_eq!((level.outcomes.len(), level.above.len()), (1, 0));
        assert_eq!(level.outcomes[0].adds, [(5, ChunkChild::Data(5))]);
        assert_eq!((level.outcomes[0].bound, level.filled), (None, 1));
    }
}
