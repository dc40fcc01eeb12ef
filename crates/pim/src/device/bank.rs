//! The memory of a module.

/// There is no room in a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {words} words: {used} of {limit} are in use")]
pub struct Full {
    /// What was asked for.
    pub words: usize,
    /// The words that are in use.
    pub used: usize,
    /// The words that there are.
    pub limit: usize,
}

/// Blocks of up to so many words are given out again by length.
const LENGTHS: usize = 256;

/// Words of 8 bytes, addressed by their number, of which blocks are given out and taken back. Word 0 is never
/// given out, so that 0 can stand for nothing.
#[derive(Debug)]
pub struct Bank {
    words: Vec<u64>,
    limit: usize,
    used: usize,
    /// Blocks that were taken back, by length; in the first word of each the next.
    free: Vec<u32>,
}

impl Bank {
    /// An empty bank of so many bytes; it takes no more memory of the host than was given out.
    ///
    /// # Panics
    /// It has 2^32 words and more.
    pub fn new(bytes: u64) -> Bank {
        let limit = (bytes / 8) as usize;
        assert!(
            u32::try_from(limit).is_ok(),
            "words have numbers of 32 bits"
        );
        Bank {
            words: vec![0],
            limit,
            used: 1,
            free: vec![0; LENGTHS + 1],
        }
    }

    /// A block of so many words, all zero. Constant, besides clearing it.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn allocate(&mut self, words: usize) -> Result<u32, Full> {
        let full = Full {
            words,
            used: self.used,
            limit: self.limit,
        };
        if let Some(head) = self.free.get_mut(words)
            && *head != 0
        {
            let at = *head;
            let start = at as usize;
            *head = self.words[start] as u32;
            self.words[start..start + words].fill(0);
            self.used += words;
            return Ok(at);
        }
        let start = self.words.len();
        let end = start.checked_add(words).ok_or(full)?;
        if words == 0 || end > self.limit {
            return Err(full);
        }
        self.words.resize(end, 0);
        self.used += words;
        Ok(start as u32)
    }

    /// Takes a block back that was given out with this length.
    pub fn free(&mut self, at: u32, words: usize) {
        self.used -= words;
        if let Some(head) = self.free.get_mut(words) {
            self.words[at as usize] = u64::from(*head);
            *head = at;
        }
    }

    /// Some words from one on.
    pub fn words(&self, at: u32, count: usize) -> &[u64] {
        &self.words[at as usize..at as usize + count]
    }

    /// The same, to be changed.
    pub fn words_mut(&mut self, at: u32, count: usize) -> &mut [u64] {
        &mut self.words[at as usize..at as usize + count]
    }

    /// The bytes that are in use.
    pub fn used_bytes(&self) -> u64 {
        self.used as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_cleared_and_no_more_is_given_than_there_is() {
        let mut bank = Bank::new(80);
        let first = bank.allocate(4).expect("room");
        bank.words_mut(first, 4).fill(9);
        let second = bank.allocate(5).expect("room");
        assert_ne!(first, 0);
        assert!(second >= first + 4);
        let full = Full {
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
}
