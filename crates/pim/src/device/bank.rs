//! The memory of a module.

use std::collections::{BTreeMap, BTreeSet};

/// The error of an allocation for which a bank has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {words} words: {used} of {limit} are in use")]
pub struct BankFull {
    /// Number of words requested.
    pub words: usize,
    /// Number of words in use.
    pub used: usize,
    /// The bank's size in words.
    pub limit: usize,
}

/// Greatest number of words of a short block.
const LENGTHS: usize = 256;

/// The memory of a module: words of 8 bytes, addressed by their number. Blocks of words are
/// allocated and freed. Word 0 is never allocated, so that 0 can mean "no block".
///
/// Short freed blocks are kept in free lists by length, and reused as they are. Long ones become
/// *runs*, which merge with their neighbours and are split for new blocks. If no other room is
/// left, short ones become runs, too. A block of any length can therefore use all free memory,
/// except gaps between blocks in use.
#[derive(Debug)]
pub struct ModuleBank {
    words: Vec<u64>,
    limit: usize,
    used: usize,
    /// Heads of the free lists of short blocks, by length. The first word of a free block is the
    /// next one.
    free: Vec<u32>,
    /// Number of words in the free lists.
    kept: usize,
    /// Length of each run, by its start.
    runs: BTreeMap<u32, u32>,
    /// The runs as pairs of length and start.
    lengths: BTreeSet<(u32, u32)>,
}

impl ModuleBank {
    /// Creates an empty bank of `bytes` bytes. It takes memory of the host only for words that are
    /// allocated.
    ///
    /// # Panics
    /// If it has 2^32 words or more.
    pub fn new(bytes: u64) -> ModuleBank {
        let limit = (bytes / 8) as usize;
        assert!(
            u32::try_from(limit).is_ok(),
            "words have numbers of 32 bits"
        );
        ModuleBank {
            words: vec![0],
            limit,
            used: 1,
            free: vec![0; LENGTHS + 1],
            kept: 0,
            runs: BTreeMap::new(),
            lengths: BTreeSet::new(),
        }
    }

    /// Allocates a block of `words` words, all zero. For a short block this takes constant time,
    /// besides clearing it, while there is room at the end. Otherwise it takes O(log n) for n runs;
    /// each short freed block is turned into a run once.
    ///
    /// # Errors
    /// `BankFull` if there is no room.
    pub fn allocate(&mut self, words: usize) -> Result<u32, BankFull> {
        let full = BankFull {
            words,
            used: self.used,
            limit: self.limit,
        };
        if words == 0 {
            return Err(full);
        }
        // A freed block of the same length needs neither search nor split. A long block comes from
        // a run next, so that the end of the bank is used up last.
        let mut found = self.take_kept(words);
        if words > LENGTHS {
            found = found.or_else(|| self.take_run(words));
        }
        if let Some(at) = found.or_else(|| self.extend(words)) {
            return Ok(at);
        }
        // Short blocks reach the runs only here, once the end is used up. Splitting a run for each
        // of them would break up the room for long blocks.
        let found = self.take_run(words).or_else(|| {
            // The free lists are dissolved last, since each later block of such a length is then
            // cut from a run.
            if self.kept > 0 {
                self.gather();
            }
            self.take_run(words).or_else(|| self.extend(words))
        });
        found.ok_or(full)
    }

    /// Takes a block of this length from its free list.
    fn take_kept(&mut self, words: usize) -> Option<u32> {
        let head = self.free.get_mut(words).filter(|head| **head != 0)?;
        let at = *head;
        *head = self.words[at as usize] as u32;
        debug_assert!(
            self.kept >= words,
            "the free lists have fewer words than a block"
        );
        self.kept -= words;
        self.give_out(at, words);
        Some(at)
    }

    /// Allocates a block at the end.
    fn extend(&mut self, words: usize) -> Option<u32> {
        let start = self.words.len();
        let end = start.checked_add(words).filter(|&end| end <= self.limit)?;
        self.words.resize(end, 0);
        self.used += words;
        Some(start as u32)
    }

    /// Allocates a block from the shortest run that is long enough.
    fn take_run(&mut self, words: usize) -> Option<u32> {
        let least = u32::try_from(words).ok()?;
        let &(length, at) = self.lengths.range((least, 0)..).next()?;
        self.lengths.remove(&(length, at));
        self.runs.remove(&at);
        // The block is cut from the start of the run. The rest keeps its end, where it may merge
        // with a neighbour.
        if length > least {
            self.runs.insert(at + least, length - least);
            self.lengths.insert((length - least, at + least));
        }
        self.give_out(at, words);
        Some(at)
    }

    fn give_out(&mut self, at: u32, words: usize) {
        debug_assert!(at != 0, "word 0 is never in a block");
        // Freed blocks hold old content, and the first word of a block in a free list is a link.
        self.words_mut(at, words).fill(0);
        self.used += words;
    }

    /// Turns all short free blocks into runs.
    fn gather(&mut self) {
        for length in 1..self.free.len() {
            let mut at = std::mem::take(&mut self.free[length]);
            while at != 0 {
                // The link is read before the block becomes a run, which may cut it off with the
                // end of the bank.
                let next = self.words[at as usize] as u32;
                self.add_run(at, length as u32);
                at = next;
            }
        }
        self.kept = 0;
        debug_assert_eq!(
            self.used
                + self
                    .runs
                    .values()
                    .map(|&words| words as usize)
                    .sum::<usize>(),
            self.words.len(),
            "each word is in use or in a run"
        );
    }

    /// Adds a run and merges it with its neighbours. A run at the end shortens the allocated part
    /// instead.
    fn add_run(&mut self, mut at: u32, mut length: u32) {
        debug_assert!((at + length) as usize <= self.words.len());
        if let Some((&before, &words)) = self.runs.range(..at).next_back()
            && before + words == at
        {
            self.runs.remove(&before);
            self.lengths.remove(&(words, before));
            (at, length) = (before, length + words);
        }
        if let Some(words) = self.runs.remove(&(at + length)) {
            self.lengths.remove(&(words, at + length));
            length += words;
        }
        // Shortening gives the memory back to the host, and `extend` finds it again in constant
        // time.
        if (at + length) as usize == self.words.len() {
            self.words.truncate(at as usize);
        } else {
            self.runs.insert(at, length);
            self.lengths.insert((length, at));
        }
        debug_assert_eq!(self.runs.len(), self.lengths.len());
    }

    /// Frees a block that was allocated with this length.
    pub fn free(&mut self, at: u32, words: usize) {
        debug_assert!(at != 0 && words > 0, "no such block was allocated");
        debug_assert!(at as usize + words <= self.words.len() && words < self.used);
        self.used -= words;
        match self.free.get_mut(words) {
            // Short blocks are not merged with their neighbours, because the next block often has
            // the same length.
            Some(head) => {
                self.words[at as usize] = u64::from(*head);
                *head = at;
                self.kept += words;
            }
            None => self.add_run(at, words as u32),
        }
    }

    /// Returns `count` words from word `at` on.
    pub fn words(&self, at: u32, count: usize) -> &[u64] {
        &self.words[at as usize..at as usize + count]
    }

    /// Returns `count` words from word `at` on, mutably.
    pub fn words_mut(&mut self, at: u32, count: usize) -> &mut [u64] {
        &mut self.words[at as usize..at as usize + count]
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_cleared_and_no_more_is_given_than_there_is() {
        let mut bank = ModuleBank::new(80);
        let first = bank.allocate(4).expect("room");
        bank.words_mut(first, 4).fill(9);
        let second = bank.allocate(5).expect("room");
        assert_ne!(first, 0);
        assert!(second >= first + 4);
        let full = BankFull {
            words: 1,
            used: 10,
            limit: 10,
        };
        assert_eq!(bank.allocate(1), Err(full));
        bank.free(first, 4);
        assert_eq!(bank.used_bytes(), 48);
        assert_eq!(bank.allocate(4), Ok(first));
        assert_eq!(bank.words(first, 4), [0; 4]);
        assert!(bank.allocate(usize::MAX).is_err());
        assert!(bank.allocate(0).is_err());
    }

    #[test]
    fn what_was_taken_back_is_room_for_blocks_of_any_length() {
        let mut bank = ModuleBank::new(8 * 10_001);
        for round in 0..3 {
            // Short blocks, long ones, and short ones again.
            for lengths in [vec![7; 1428], vec![5000, 4999], vec![1; 10_000]] {
                let blocks: Vec<(u32, usize)> = lengths
                    .into_iter()
                    .map(|words| (bank.allocate(words).expect("room"), words))
                    .collect();
                for &(at, words) in &blocks {
                    assert!(bank.words(at, words).iter().all(|word| *word == 0));
                    bank.words_mut(at, words).fill(u64::MAX);
                }
                for &(at, words) in &blocks {
                    let own = bank.words(at, words);
                    assert!(own.iter().all(|word| *word == u64::MAX), "{round}");
                }
                for (at, words) in blocks {
                    bank.free(at, words);
                }
                assert_eq!(bank.used_bytes(), 8);
            }
        }
    }
}
