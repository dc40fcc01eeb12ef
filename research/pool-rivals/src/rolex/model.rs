//! Prediction of the last loaded key that is at most a given key, up to an error: lines over the
//! keys' prefixes (ROLEX, section 4.1; the lines are those of FITing-tree, SIGMOD 2019).
//!
//! The prefix of a key is its first 8 bytes as a big-endian number, so that prefixes are in the
//! order of keys. Its *rank* is its position among the loaded keys. A line begins at a key and
//! predicts the ranks of the others up to the next line, each within the error. Lines rise, so they
//! predict keys between the loaded ones as well.
//!
//! Keys of one prefix have one prediction. If more of them were loaded than the error allows, they
//! have a *vertical* line of their own, which has only their first and last rank.

use std::ops::RangeInclusive;

/// Returns the first 8 bytes of a key as a big-endian number; those behind its end are zeros.
pub fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

/// A line: the rank of its first key, and the increase of the rank when the prefix increases by
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RolexModelLine {
    /// The prefix of its first key.
    pub first: u64,
    /// The rank of that key.
    pub rank: u64,
    /// The slope. Never negative; infinite for a vertical line.
    pub slope: f64,
}

/// Lines over the prefixes of all loaded keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    pub(super) lines: Vec<RolexModelLine>,
    pub(super) loaded: u64,
    pub(super) error: u64,
}

impl Models {
    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if predictions are ranks of loaded keys: if lines begin at ascending prefixes
    /// and ranks of loaded keys, the first at the first key, and never fall.
    pub(super) fn are_valid(&self) -> bool {
        let ascend = |one: &RolexModelLine, other: &RolexModelLine| {
            one.first < other.first && one.rank < other.rank
        };
        let (first, last) = (self.lines.first(), self.lines.last());
        let are_loaded = first.map_or(self.loaded == 0, |line| line.rank == 0)
            && last.is_none_or(|line| line.rank < self.loaded);
        // No slope is better than one that is no number.
        are_loaded
            && self.lines.is_sorted_by(ascend)
            && self.lines.iter().all(|line| line.slope >= 0.0)
    }

    /// Returns the range of ranks that contains the last loaded key that is at most a key of this
    /// prefix; only 0 if there is none. The range has at most twice the error and 3 ranks, except
    /// for prefixes with a vertical line. Takes time logarithmic in the number of lines.
    ///
    /// ```
    /// use nearfield_pool_rivals::rolex::RolexModelTrainer;
    /// let mut trainer = RolexModelTrainer::new(16);
    /// (0..1000).for_each(|key| trainer.push(10 * key));
    /// let models = trainer.finish();
    /// assert_eq!((models.lines(), models.ranks(5005)), (1, 483..=517));
    /// ```
    pub fn ranks(&self, prefix: u64) -> RangeInclusive<u64> {
        let after = self.lines.partition_point(|line| line.first <= prefix);
        let Some(line) = after.checked_sub(1).map(|number| self.lines[number]) else {
            return 0..=0;
        };
        let next = self.lines.get(after).map_or(self.loaded, |line| line.rank);
        debug_assert!(next > line.rank, "ranks ascend");
        let last = next - 1;
        if line.slope.is_infinite() {
            // A key of this prefix may be less than all that were loaded.
            let first = if prefix == line.first {
                line.rank.saturating_sub(1)
            } else {
                last
            };
            return first..=last;
        }
        // Each step rounds alike for a greater prefix, so that the prediction never falls. The
        // range has one more rank on either side, because a key between two others may be predicted
        // as the greater of them, and the fraction is cut off.
        let predicted = line.rank as f64 + line.slope * (prefix - line.first) as f64;
        // The line rises further behind its last key, but the rank does not.
        let predicted = (predicted as u64).min(last);
        let first = predicted.saturating_sub(self.error + 1);
        first..=(predicted + self.error + 1).min(self.loaded - 1)
    }
}

/// A trainer of lines over prefixes in ascending order, in constant time for each and without
/// keeping them: a line grows as long as one slope serves all its keys.
#[derive(Clone, Debug)]
pub struct RolexModelTrainer {
    error: u64,
    lines: Vec<RolexModelLine>,
    /// The last line, with its minimum and maximum slope.
    open: Option<(RolexModelLine, f64, f64)>,
    /// The last prefix, its first rank, and the number of its keys.
    ties: Option<(u64, u64, u64)>,
    pushed: u64,
}

impl RolexModelTrainer {
    /// Creates an empty model whose predictions will be wrong by at most `error`.
    pub fn new(error: u32) -> RolexModelTrainer {
        RolexModelTrainer {
            error: u64::from(error),
            lines: Vec::new(),
            open: None,
            ties: None,
            pushed: 0,
        }
    }

    /// Adds the prefix of the next key, no less than the one before.
    pub fn push(&mut self, prefix: u64) {
        debug_assert!(
            self.ties.is_none_or(|(last, ..)| last <= prefix),
            "prefixes ascend"
        );
        match &mut self.ties {
            Some((last, _, count)) if *last == prefix => *count += 1,
            // A prefix is included once all of its keys are known.
            ties => {
                let before = ties.replace((prefix, self.pushed, 1));
                self.include(before);
            }
        }
        self.pushed += 1;
    }

    /// Returns the lines.
    pub fn finish(mut self) -> Models {
        let ties = self.ties.take();
        self.include(ties);
        self.close();
        let models = Models {
            lines: self.lines,
            loaded: self.pushed,
            error: self.error,
        };
        debug_assert!(models.are_valid());
        models
    }

    /// Extends the open line to a prefix whose keys are all known now, or begins another.
    fn include(&mut self, ties: Option<(u64, u64, u64)>) {
        let Some((prefix, rank, count)) = ties else {
            return;
        };
        let mut line = RolexModelLine {
            first: prefix,
            rank,
            slope: f64::INFINITY,
        };
        // All keys of a prefix have one prediction, which would be wrong by more than the error.
        if count - 1 > self.error {
            self.close();
            self.lines.push(line);
            return;
        }
        if let Some((open, least, greatest)) = &mut self.open {
            // The line must pass between the limits of the last of the keys and of the first.
            debug_assert!(prefix > open.first && rank > open.rank);
            let run = (prefix - open.first) as f64;
            let rise = (rank - open.rank) as f64;
            let error = self.error as f64;
            let steepest = greatest.min((rise + error) / run);
            let flattest = least.max((rise + (count - 1) as f64 - error) / run);
            if flattest <= steepest {
                (*least, *greatest) = (flattest, steepest);
                return;
            }
        }
        self.close();
        // If no other key follows, the line predicts the rank of its only prefix.
        line.slope = 0.0;
        self.open = Some((line, 0.0, f64::INFINITY));
    }

    fn close(&mut self) {
        if let Some((mut line, least, greatest)) = self.open.take() {
            debug_assert!(0.0 <= least && least <= greatest);
            if greatest.is_finite() {
                // Any slope between the limits serves. In the middle, rounding does no harm.
                line.slope = f64::midpoint(least, greatest);
            }
            self.lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_in_the_order_of_keys() {
        assert_eq!(prefix(b"a"), u64::from(b'a') << 56);
        assert_eq!(prefix(b"abcdefgh1"), prefix(b"abcdefgh2"));
        assert!(prefix(&[1, 255]) < prefix(&[2]));
    }

    #[test]
    fn nothing_was_loaded() {
        let models = RolexModelTrainer::new(4).finish();
        assert_eq!((models.lines(), models.ranks(77)), (0, 0..=0));
    }

    #[test]
    fn many_keys_of_one_prefix_have_a_vertical_line() {
        let mut trainer = RolexModelTrainer::new(2);
        let prefixes = [1, 2, 3, 9, 9, 9, 9, 9, 9, 20];
        prefixes.into_iter().for_each(|prefix| trainer.push(prefix));
        let models = trainer.finish();
        assert_eq!(models.lines(), 3);
        assert_eq!(models.ranks(9), 2..=8);
        // These are behind all of them, and before the next key.
        assert_eq!(models.ranks(10), 8..=8);
        assert!(models.ranks(20).contains(&9) && models.ranks(20).contains(&8));
        assert_eq!(models.ranks(0), 0..=0);
    }
}
