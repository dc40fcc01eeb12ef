//! Scans, predecessors and successors of a concurrent test, and the keys that their outcomes cover.

use nearfield_core::{Batch, EntryForm, ScanDirection};
use std::ops::{Bound, Range};

use super::plan::ConcurrentKeyPlan;
use crate::keys::{Random, SampleForm, choose};
use rand::RngExt;

/// An ordered read, with keys as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConcurrentOrderedRead {
    /// The keys between the bounds.
    range: Range<usize>,
    limit: usize,
    direction: ScanDirection,
}

impl ConcurrentOrderedRead {
    /// Draws an ordered read and adds it to a batch.
    pub(crate) fn add<F: SampleForm>(
        plan: &ConcurrentKeyPlan<F>,
        batch: &mut Batch<F>,
        random: &mut Random,
    ) -> (usize, Self) {
        let number = plan.any_key(random);
        match random.random_range(0..6) {
            // A predecessor, and below a successor, is a scan of one entry to the end of the keys.
            0 => {
                let position = batch.predecessor(plan.key(number));
                let ordered = ConcurrentOrderedRead {
                    range: 0..number + 1,
                    limit: 1,
                    direction: ScanDirection::Descending,
                };
                (position, ordered)
            }
            1 => {
                let position = batch.successor(plan.key(number));
                let ordered = ConcurrentOrderedRead {
                    range: number..plan.keys.len(),
                    limit: 1,
                    direction: ScanDirection::Ascending,
                };
                (position, ordered)
            }
            _ => Self::add_scan(plan, batch, number, random),
        }
    }

    fn add_scan<F: SampleForm>(
        plan: &ConcurrentKeyPlan<F>,
        batch: &mut Batch<F>,
        low: usize,
        random: &mut Random,
    ) -> (usize, Self) {
        let high = (low + random.random_range(0..40)).min(plan.keys.len() - 1);
        let (low, start) = match random.random_range(0..8) {
            0 => (Bound::Unbounded, 0),
            1..5 => (Bound::Included(plan.key(low)), low),
            _ => (Bound::Excluded(plan.key(low)), low + 1),
        };
        let (high, end) = match random.random_range(0..8) {
            0 => (Bound::Unbounded, plan.keys.len()),
            1..5 => (Bound::Included(plan.key(high)), high + 1),
            _ => (Bound::Excluded(plan.key(high)), high),
        };
        let limit = *choose(&[0, 1, 5, 20, u32::MAX, u32::MAX], random);
        let direction = *choose(
            &[ScanDirection::Ascending, ScanDirection::Descending],
            random,
        );
        let ordered = ConcurrentOrderedRead {
            // Excluded bounds may cross; the range is empty then.
            range: start..end.max(start),
            limit: limit as usize,
            direction,
        };
        (batch.scan(low, high, limit, direction), ordered)
    }

    /// Adds a scan of everything to a batch.
    pub(crate) fn everything<F: EntryForm>(
        plan: &ConcurrentKeyPlan<F>,
        batch: &mut Batch<F>,
    ) -> (usize, Self) {
        let direction = ScanDirection::Ascending;
        let ordered = ConcurrentOrderedRead {
            range: 0..plan.keys.len(),
            // Never reached, so that the scan covers all keys.
            limit: usize::MAX,
            direction,
        };
        let position = batch.scan(Bound::Unbounded, Bound::Unbounded, u32::MAX, direction);
        (position, ordered)
    }

    /// Returns the keys that an outcome with these keys covers: all between the bounds, or those up
    /// to the last found key if the limit has ended the scan.
    ///
    /// # Errors
    /// If the keys are out of order, out of bounds or more than the limit.
    pub(crate) fn covered(&self, found: &[usize]) -> Result<Range<usize>, String> {
        let is_after = |pair: &[usize]| match self.direction {
            ScanDirection::Ascending => pair[0] < pair[1],
            ScanDirection::Descending => pair[0] > pair[1],
        };
        let complain = |what| Err(format!("{self:?} found the keys {found:?}, {what}"));
        if found.len() > self.limit {
            return complain("more than its limit");
        }
        if !found.windows(2).all(is_after) {
            return complain("which are not in order");
        }
        if !found.iter().all(|number| self.range.contains(number)) {
            return complain("not all of them within its bounds");
        }
        debug_assert!(self.range.start <= self.range.end);
        Ok(match (found.last(), self.direction) {
            // Below its limit the read went on to its bound, so it covers also absent keys there.
            _ if found.len() < self.limit => self.range.clone(),
            (None, _) => 0..0,
            (Some(&last), ScanDirection::Ascending) => self.range.start..last + 1,
            (Some(&last), ScanDirection::Descending) => last..self.range.end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_covers_what_lies_between_its_bounds_or_up_to_its_limit() {
        let scan = |limit, direction| ConcurrentOrderedRead {
            range: 2..9,
            limit,
            direction,
        };
        let up = ScanDirection::Ascending;
        assert_eq!(scan(3, up).covered(&[3, 5]), Ok(2..9));
        assert_eq!(scan(2, up).covered(&[3, 5]), Ok(2..6));
        assert_eq!(
            scan(2, ScanDirection::Descending).covered(&[5, 3]),
            Ok(3..9)
        );
        assert_eq!(scan(0, up).covered(&[]), Ok(0..0));
        for wrong in [&[5, 3][..], &[3, 3], &[1], &[9], &[2, 3, 4, 5]] {
            assert!(scan(3, up).covered(wrong).is_err(), "{wrong:?}");
        }
    }
}
