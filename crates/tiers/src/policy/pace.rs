//! The length of the heat's periods.

/// Number of uses per object in a period: minimum and maximum. Long periods tell the heats of
/// objects apart, short ones follow a change. *Assumed*; the tests of the policy bound what they
/// cost.
const USES_MIN: u64 = 4;
const USES_MAX: u64 = 64;
/// Number of uses per object in a period from which the heats are known. *Assumed*: by then each
/// object was used a dozen times, and its heat no longer depends on a few of them.
const USES_KNOWN: u64 = 4 * USES_MIN;
/// Number of uses over which the share that the fastest tier serves is computed.
const CHUNK_MIN: u64 = 4096;
/// Weight of each chunk in the usual share.
const WEIGHT: f64 = 1.0 / 16.0;
/// The part of the usual share below which the share has fallen.
const FALLEN: f64 = 0.85;
/// Number of consecutive chunks that must show it.
const CHUNKS: u32 = 2;
/// Number of halvings of the heat that follow.
const FORGOTTEN: u32 = 4;

/// The length of a period, which doubles while the load is stable. When the fastest tier suddenly
/// serves a smaller share of the uses, other objects have become hot: then most of the heat is
/// forgotten, and the period is short again.
#[derive(Clone, Debug)]
pub(super) struct HeatPeriod {
    uses_each: u64,
    served: u64,
    told: u64,
    usual: Option<f64>,
    fallen: u32,
    forget: u32,
}

impl HeatPeriod {
    pub(super) fn new() -> HeatPeriod {
        HeatPeriod {
            uses_each: USES_MIN,
            served: 0,
            told: 0,
            usual: None,
            fallen: 0,
            forget: 0,
        }
    }

    /// Returns the number of uses of the current period.
    pub(super) fn period_uses(&self, objects: u64) -> u64 {
        debug_assert!((USES_MIN..=USES_MAX).contains(&self.uses_each));
        match self.forget {
            0 => objects.max(1) * self.uses_each,
            // The next use ends the period, so that the heat is halved several times at once.
            _ => 1,
        }
    }

    /// Returns true while the heats are not known well, in the first periods and after a change.
    pub(super) fn is_learning(&self) -> bool {
        self.forget > 0 || self.uses_each < USES_KNOWN
    }

    pub(super) fn aged(&mut self) {
        match self.forget {
            0 => self.uses_each = (self.uses_each * 2).min(USES_MAX),
            _ => self.forget -= 1,
        }
    }

    /// Adds uses, and how many of them the fastest tier served.
    pub(super) fn served(&mut self, served: u64, uses: u64, objects: u64) {
        debug_assert!(served <= uses, "the fastest tier serves a part of the uses");
        self.served += served;
        self.told += uses;
        if self.told < CHUNK_MIN.max(objects / 8) {
            // The share of a few uses varies by chance.
            return;
        }
        let share = std::mem::take(&mut self.served) as f64 / std::mem::take(&mut self.told) as f64;
        let usual = *self.usual.get_or_insert(share);
        if share >= usual * FALLEN {
            self.fallen = 0;
            // The usual share follows slowly, so that a slow change of the load is no fall.
            self.usual = Some(usual + (share - usual) * WEIGHT);
            return;
        }
        self.fallen += 1;
        if self.fallen >= CHUNKS {
            self.fallen = 0;
            self.usual = Some(share);
            self.forget = FORGOTTEN;
            self.uses_each = USES_MIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_grows_until_the_share_falls() {
        let mut pace = HeatPeriod::new();
        assert_eq!(pace.period_uses(100), 400);
        for period in 0..10 {
            assert_eq!(pace.is_learning(), period < 2);
            pace.served(900, 1000, 100);
            pace.aged();
        }
        assert_eq!(pace.period_uses(100), 6400);
        // A slightly smaller share is chance.
        (0..100).for_each(|_| pace.served(800, 1000, 100));
        assert_eq!(pace.period_uses(100), 6400);
        assert!(!pace.is_learning());
        (0..20).for_each(|_| pace.served(300, 1000, 100));
        assert!(pace.is_learning());
        assert_eq!(pace.period_uses(100), 1);
        (0..FORGOTTEN).for_each(|_| pace.aged());
        assert_eq!(pace.period_uses(100), 400);
        // The smaller share is usual now.
        (0..100).for_each(|_| pace.served(300, 1000, 100));
        assert_eq!(pace.period_uses(100), 400);
    }
}
