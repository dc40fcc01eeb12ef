//! The policy of ADM as published.

use super::lfu::{Lfu, LfuSettings, XorshiftGenerator};
use super::{ObjectUse, PolicyObject, TierMove, TieringPolicy};
use std::collections::HashMap;
use std::time::Duration;

/// The parameters of ADM. The paper gives none of them; these are *assumed*, to suit the paper's
/// workloads: 100,000 objects, a Gaussian of deviation 1, fast memory for 30 % of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmSettings {
    /// The counter above which an object is promoted (`T_in`).
    pub threshold_in: u8,
    /// The counter below which an object is demoted (`T_out`).
    pub threshold_out: u32,
    /// The counter of an object that was just promoted.
    pub counter_in: u32,
    /// The counter of an object that was just demoted.
    pub counter_out: u8,
    /// The settings of the counter in the slow tier.
    pub lfu: LfuSettings,
    /// The seed of its random numbers.
    pub seed: u64,
}

impl Default for AdmSettings {
    fn default() -> AdmSettings {
        AdmSettings {
            threshold_in: 9,
            threshold_out: 13,
            counter_in: 26,
            counter_out: 7,
            lfu: LfuSettings::default(),
            seed: 1,
        }
    }
}

/// ADM's policy for two tiers (Zhao et al., 2022, sections 3.2 to 3.4).
///
/// Migr-in: an object of the slow tier that is used, and whose counter then exceeds a threshold, is
/// promoted. Migr-out: the caller walks at its interval over all objects of the fast tier; the walk
/// demotes those whose counter is lower than another threshold and halves the counters of the rest.
/// If there is no room, the move is abandoned and nothing else happens.
///
/// A move has five steps. The caller does the first three: it allocates space in the other tier,
/// copies the object, and frees the old copy. [`moved`](TieringPolicy::moved) does the other two:
/// it sets the initial counter, and the entry in the list of objects in the fast tier.
///
/// The paper keeps 24 bits in the object's header; here the policy stores them by the object's
/// hash.
#[derive(Clone, Debug)]
pub struct Adm {
    settings: AdmSettings,
    chance: XorshiftGenerator,
    minutes: u16,
    objects: HashMap<u64, AdmField>,
}

/// Content of the 24 bits of an object.
#[derive(Clone, Copy, Debug)]
enum AdmField {
    /// The counter of an object in the slow tier.
    Slow(Lfu),
    /// The counter of an object in the fast tier: its uses, halved by each walk. At most 2^24 - 1.
    Fast(u32),
}

const COUNTER_MAX: u32 = (1 << 24) - 1;

impl Adm {
    /// Creates a policy that knows no objects yet.
    pub fn new(settings: AdmSettings) -> Adm {
        Adm {
            chance: XorshiftGenerator::new(settings.seed),
            settings,
            minutes: 0,
            objects: HashMap::new(),
        }
    }

    fn begin(&self, tier: usize) -> AdmField {
        match tier {
            0 => AdmField::Fast(self.settings.counter_in),
            _ => AdmField::Slow(Lfu::new(self.minutes)),
        }
    }
}

impl TieringPolicy for Adm {
    fn used(&mut self, object: &PolicyObject, _: ObjectUse) -> Option<TierMove> {
        let begin = self.begin(object.tier);
        match self.objects.entry(object.hash).or_insert(begin) {
            AdmField::Fast(counter) => {
                *counter = (*counter + 1).min(COUNTER_MAX);
                None
            }
            AdmField::Slow(lfu) => {
                lfu.touch(self.minutes, self.settings.lfu, self.chance.draw());
                let hot = lfu.counter > self.settings.threshold_in;
                hot.then_some(TierMove::to(0))
            }
        }
    }

    fn visit(&mut self, object: &PolicyObject) -> Option<TierMove> {
        match self.objects.get_mut(&object.hash)? {
            AdmField::Slow(_) => None,
            AdmField::Fast(counter) if *counter < self.settings.threshold_out => {
                Some(TierMove::to(1))
            }
            AdmField::Fast(counter) => {
                *counter /= 2;
                None
            }
        }
    }

    fn inserted(&mut self, object: &PolicyObject) {
        let begin = self.begin(object.tier);
        self.objects.insert(object.hash, begin);
    }

    fn removed(&mut self, object: &PolicyObject) {
        self.objects.remove(&object.hash);
    }

    fn moved(&mut self, object: &PolicyObject, target: usize) {
        let field = match target {
            0 => AdmField::Fast(self.settings.counter_in),
            _ => AdmField::Slow(Lfu {
                minutes: self.minutes,
                counter: self.settings.counter_out,
            }),
        };
        self.objects.insert(object.hash, field);
    }

    fn passed(&mut self, now: Duration) {
        // Redis stores 16 bits of the minutes, which wrap around after 45 days.
        self.minutes = (now.as_secs() / 60) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(tier: usize) -> PolicyObject {
        PolicyObject {
            hash: 7,
            bytes: 100,
            tier,
            heat: 0,
        }
    }

    #[test]
    fn an_object_comes_in_above_the_threshold_and_not_at_it() {
        let settings = AdmSettings {
            threshold_in: 7,
            lfu: LfuSettings {
                log_factor: 0,
                decay_minutes: 1,
            },
            ..AdmSettings::default()
        };
        let mut adm = Adm::new(settings);
        adm.inserted(&object(1));
        // The counter begins at 5, and factor 0 adds 1 each time: 6, 7, 8.
        assert_eq!(adm.used(&object(1), ObjectUse::Read), None);
        assert_eq!(adm.used(&object(1), ObjectUse::Read), None);
        assert_eq!(adm.used(&object(1), ObjectUse::Read), Some(TierMove::to(0)));
        // The move is abandoned, so it asks again. Two minutes subtract 2.
        adm.abandoned(&object(1), 0);
        adm.passed(Duration::from_secs(120));
        assert_eq!(adm.used(&object(1), ObjectUse::Read), None);
        assert_eq!(adm.used(&object(1), ObjectUse::Read), Some(TierMove::to(0)));
    }

    /// An object that is promoted with counter V and is never used again is demoted at the walk
    /// floor(log2(V / T_out)) + 2.
    #[test]
    fn an_object_that_is_not_used_leaves_at_the_walk_that_arithmetic_says() {
        for (counter_in, threshold_out) in [(26, 13), (27, 13), (100, 13), (13, 13), (5, 1)] {
            let mut adm = Adm::new(AdmSettings {
                counter_in,
                threshold_out,
                ..AdmSettings::default()
            });
            adm.moved(&object(1), 0);
            let walks = (1..).find(|_| adm.visit(&object(0)).is_some());
            let expected = (counter_in / threshold_out).ilog2() + 2;
            assert_eq!(walks, Some(expected), "{counter_in} and {threshold_out}");
        }
    }

    /// With r uses per interval the counter is 2r just before a walk, so the object stays while 2r
    /// is not lower than the threshold.
    #[test]
    fn an_object_stays_while_twice_its_uses_reach_the_threshold() {
        for (uses, stays) in [(6, false), (7, true)] {
            let mut adm = Adm::new(AdmSettings::default());
            adm.moved(&object(1), 0);
            let left = (0..50).any(|_| {
                (0..uses).for_each(|_| _ = adm.used(&object(0), ObjectUse::Read));
                adm.visit(&object(0)).is_some()
            });
            assert_eq!(left, !stays, "{uses} uses");
        }
    }
}
