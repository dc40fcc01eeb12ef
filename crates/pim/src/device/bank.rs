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
///
/// What was taken back is given out for the same length again. Once there is nothing else, what lies side by
/// side is joined, and given out for any length.
#[derive(Debug)]
pub struct Bank {
    words: Vec<u64>,
    limit: usize,
    used: usize,
    /// Blocks that were taken back, by length; in the first word of each the next.
    free: Vec<u32>,
    /// Longer ones: where each begins, and its length.
    spans: Vec<(u32, usize)>,
    /// Whether something was taken back since what lies side by side was joined.
    is_apart: bool,
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
            spans: Vec::new(),
            is_apart: false,
        }
    }

    /// A block of so many words, all zero. Constant, besides clearing it, as long as there is room that was never
    /// given out; then sorting what was taken back, now and then.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn allocate(&mut self, words: usize) -> Result<u32, Full> {
        let full = Full {
            words,
            used: self.used,
            limit: self.limit,
        };
        if words == 0 {
            return Err(full);
        }
        if let Some(head) = self.free.get_mut(words)
            && *head != 0
        {
            let at = *head;
            *head = self.words[at as usize] as u32;
            return Ok(self.give(at, words));
        }
        let start = self.words.len();
        let end = start.checked_add(words).ok_or(full)?;
        if end <= self.limit {
            self.words.resize(end, 0);
            self.used += words;
            return Ok(start as u32);
        }
        if let Some(at) = self.cut(words) {
            return Ok(self.give(at, words));
        }
        if self.is_apart && self.limit - self.used >= words {
            self.join();
            if let Some(at) = self.cut(words) {
                return Ok(self.give(at, words));
            }
        }
        Err(full)
    }

    fn give(&mut self, at: u32, words: usize) -> u32 {
        self.words[at as usize..at as usize + words].fill(0);
        self.used += words;
        at
    }

    /// Cuts a block off a longer one.
    fn cut(&mut self, words: usize) -> Option<u32> {
        if let Some(span) = self.spans.iter().position(|&(_, length)| length >= words) {
            let (at, length) = self.spans.swap_remove(span);
            self.keep(at + words as u32, length - words);
            return Some(at);
        }
        let longer = (words..=LENGTHS).find(|&length| self.free[length] != 0)?;
        let at = self.free[longer];
        self.free[longer] = self.words[at as usize] as u32;
        self.keep(at + words as u32, longer - words);
        Some(at)
    }

    /// Keeps a block that nobody has.
    fn keep(&mut self, at: u32, words: usize) {
        match self.free.get_mut(words) {
            _ if words == 0 => {}
            Some(head) => {
                self.words[at as usize] = u64::from(*head);
                *head = at;
            }
            None => self.spans.push((at, words)),
        }
    }

    /// Joins the blocks that nobody has and that lie side by side.
    fn join(&mut self) {
        let mut blocks = std::mem::take(&mut self.spans);
        for (words, head) in self.free.iter_mut().enumerate() {
            while *head != 0 {
                blocks.push((*head, words));
                *head = self.words[*head as usize] as u32;
            }
        }
        blocks.sort_unstable();
        let mut joined: Option<(u32, usize)> = None;
        for (at, words) in blocks {
            match &mut joined {
                Some((start, length)) if *start as usize + *length == at as usize => {
                    *length += words;
                }
                _ => {
                    if let Some((at, words)) = joined.replace((at, words)) {
                        self.keep(at, words);
                    }
                }
            }
        }
        if let Some((at, words)) = joined {
            self.keep(at, words);
        }
        self.is_apart = false;
    }

    /// Takes a block back that was given out with this length.
    pub fn free(&mut self, at: u32, words: usize) {
        self.used -= words;
        self.is_apart = true;
        self.keep(at, words);
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
        bank.free(first, 4);
        bank.free(second, 5);
        // Both together, of which neither is long enough.
        let both = bank.allocate(8).expect("joined");
        assert_eq!(bank.words(both, 8), [0; 8]);
        assert!(bank.allocate(2).is_err());
        assert_eq!(bank.allocate(1), Ok(both + 8));
        bank.free(both, 8);
        assert_eq!(bank.allocate(3), Ok(both));
        assert_eq!(bank.allocate(5), Ok(both + 3));
        assert!(bank.allocate(0).is_err());
    }
}
