//! Marks of heat between tiers.

use super::{PolicyObject, TierMove};
use nearfield_hotness::HotnessTable;

/// Maximum number of tiers of a store.
pub(super) const TIERS_MAX: usize = 8;

/// The distance between an object's heat and a mark at which it moves, in standard deviations of
/// the sampled heat, so that chance does not move it to and fro. *Assumed*; the tests of the policy
/// bound what it costs.
const MARGIN: f32 = 1.5;

/// The marks between tiers: objects with a heat above mark `i` belong in tiers 0 to `i`. A small
/// value, so that threads can work with a copy of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatMarks {
    marks: [f32; TIERS_MAX],
    tiers: usize,
    /// Number of uses that a counted use stands for.
    uses_counted: u16,
}

impl HeatMarks {
    /// Creates the state without marks: everything belongs in the fastest tier.
    pub(super) fn new(tiers: usize) -> HeatMarks {
        HeatMarks {
            marks: [0.0; TIERS_MAX],
            tiers: tiers.min(TIERS_MAX),
            uses_counted: 1,
        }
    }

    pub(super) fn count_as(&mut self, uses: u16) {
        self.uses_counted = uses.max(1);
    }

    pub(super) fn set(&mut self, upper: usize, mark: f32) {
        debug_assert!(upper + 1 < self.tiers, "a mark is between two tiers");
        debug_assert!(mark >= 0.0);
        if let Some(entry) = self.marks.get_mut(upper) {
            *entry = mark;
        }
    }

    /// Returns the heat above which an object belongs in a faster tier; for the first tier 0.
    pub fn mark_into(&self, tier: usize) -> f32 {
        self.marks.get(tier).copied().unwrap_or(0.0)
    }

    /// Returns the faster tier that an object should be promoted to, if any. `backing_off` is how
    /// often it was promoted and demoted recently; each time doubles the margin.
    pub fn inward(&self, object: &PolicyObject, backing_off: u32) -> Option<TierMove> {
        // A pass over all keys makes one use of each, so a single use never promotes.
        if object.heat <= self.uses_counted {
            return None;
        }
        let doubled = (1 << backing_off.min(6)) as f32;
        let rank = rank(object);
        let comes = |&tier: &usize| {
            let mark = self.mark_into(tier);
            // Without a mark everything fits, so no margin is needed.
            mark == 0.0 || rank >= mark + doubled * self.margin(mark)
        };
        (0..object.tier).find(comes).map(TierMove::to)
    }

    /// Returns the heat below which an object of a tier does not belong in it.
    pub(super) fn outward(&self, tier: usize) -> f32 {
        self.mark_into(tier) - self.margin(self.mark_into(tier))
    }

    fn margin(&self, mark: f32) -> f32 {
        // Fewer uses that count more have a larger deviation.
        MARGIN * HotnessTable::chance(mark as u16) * f32::from(self.uses_counted).sqrt()
    }

    /// Returns the tier that an object belongs in, but none faster than `fastest`.
    pub fn home(&self, object: &PolicyObject, fastest: usize) -> usize {
        let rank = rank(object);
        let last = self.tiers.saturating_sub(1);
        let home = (fastest..last).find(|&tier| rank >= self.mark_into(tier));
        home.unwrap_or(last)
    }
}

/// Returns an object's heat plus a fraction from its hash.
pub(super) fn rank(object: &PolicyObject) -> f32 {
    rank_in_turn(object, 0)
}

/// Returns the same with another order of the objects of one heat.
pub(super) fn rank_in_turn(object: &PolicyObject, turn: u8) -> f32 {
    // The hash gives objects of one heat a stable order, so that a mark can divide them.
    let part = ((object.hash >> 32) as u8).wrapping_add(turn);
    f32::from(object.heat) + f32::from(part) / 256.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(tier: usize, heat: u16) -> PolicyObject {
        PolicyObject {
            hash: 0,
            bytes: 100,
            tier,
            heat,
        }
    }

    #[test]
    fn objects_come_in_above_a_margin_and_the_margin_doubles() {
        let mut cuts = HeatMarks::new(3);
        cuts.set(0, 100.0);
        cuts.set(1, 20.0);
        // The minimum heats above the margin, and twice the margin.
        let once = (100.0 + cuts.margin(100.0)).ceil() as u16;
        let twice = (100.0 + 2.0 * cuts.margin(100.0)).ceil() as u16;
        assert!(
            105 < once && once < twice && twice < 130,
            "{once} and {twice}"
        );
        assert_eq!(cuts.inward(&object(2, 200), 0), Some(TierMove::to(0)));
        assert_eq!(cuts.inward(&object(1, once - 1), 0), None);
        assert_eq!(cuts.inward(&object(1, once), 0), Some(TierMove::to(0)));
        assert_eq!(cuts.inward(&object(1, twice - 1), 1), None);
        assert_eq!(cuts.inward(&object(1, twice), 1), Some(TierMove::to(0)));
        assert_eq!(cuts.inward(&object(2, once - 1), 0), Some(TierMove::to(1)));
        assert_eq!(cuts.inward(&object(2, 22), 0), None);
        assert_eq!(cuts.inward(&object(0, 2000), 0), None);
        assert_eq!(cuts.home(&object(0, 99), 1), 1);
        assert_eq!(cuts.home(&object(0, 4), 1), 2);
        assert_eq!(cuts.home(&object(0, 2000), 1), 1);
    }

    #[test]
    fn one_use_is_not_enough_even_where_everything_fits() {
        let cuts = HeatMarks::new(2);
        assert_eq!(cuts.inward(&object(1, 1), 0), None);
        assert_eq!(cuts.inward(&object(1, 2), 0), Some(TierMove::to(0)));
        let mut cuts = cuts;
        cuts.count_as(4);
        assert_eq!(cuts.inward(&object(1, 4), 0), None);
        assert_eq!(cuts.inward(&object(1, 8), 0), Some(TierMove::to(0)));
    }
}
