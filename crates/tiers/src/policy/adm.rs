//! The policy of ADM as published.

use super::fast_room::FastTierRoom;
use super::lfu::{Lfu, LfuSettings, XorshiftGenerator};
use super::recent::{Recent, TierMoveDirection};
use super::{ObjectUse, PolicyMoveCounts, PolicyObject, TierMove, TieringPolicy};
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

impl AdmSettings {
    /// Creates settings with these thresholds. The initial counters keep the distance that they
    /// have from the thresholds by default: an object that was promoted stays at the next walk, and
    /// one that was demoted has to become hotter than before it is promoted again.
    #[must_use]
    pub fn with_thresholds(threshold_in: u8, threshold_out: u32) -> AdmSettings {
        AdmSettings {
            threshold_in,
            threshold_out,
            counter_in: threshold_out.saturating_mul(2).min(COUNTER_MAX),
            counter_out: threshold_in.saturating_sub(2),
            ..AdmSettings::default()
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
///
/// # In a store that does not report each object
///
/// Such a store gives the policy an [interval](Adm::with_interval), because it visits objects at
/// other times, too: an object is judged at its first visit in each interval. One that should leave
/// is demoted at each visit until it has moved. New and written values of such a store are in the
/// fast tier. While that has room they stay, and otherwise they are demoted at the next visit, with
/// the counter of the slow tier: in the paper they would have been allocated there. If a whole
/// round of the walk makes no room so, the values with the lowest counters are demoted, and after
/// another round any. An object that was not visited in two rounds is forgotten.
#[derive(Clone, Debug)]
pub struct Adm {
    settings: AdmSettings,
    chance: XorshiftGenerator,
    minutes: u16,
    objects: HashMap<u64, AdmObject>,
    /// The time between two walks; `None` if each visit is one of a walk.
    interval: Option<Duration>,
    /// Number of the current interval.
    current: u32,
    /// Number of the current round of the walk.
    round: u32,
    room: FastTierRoom,
    recent: Recent,
    moves: PolicyMoveCounts,
}

/// An object, as the policy knows it.
#[derive(Clone, Copy, Debug)]
struct AdmObject {
    field: AdmField,
    /// The interval in which it was promoted, or judged last.
    judged: u32,
    /// The round of the walk in which it was used or visited last.
    seen: u32,
    /// Set if the field of the slow tier contains a use that is still to be reported.
    is_counted: bool,
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
/// Number of rounds of the walk after which an object that it has not visited is forgotten.
const ROUNDS_KNOWN: u32 = 2;

impl Adm {
    /// Creates a policy that knows no objects yet.
    pub fn new(settings: AdmSettings) -> Adm {
        Adm {
            chance: XorshiftGenerator::new(settings.seed),
            settings,
            minutes: 0,
            objects: HashMap::new(),
            interval: None,
            current: 0,
            round: 0,
            room: FastTierRoom::default(),
            recent: Recent::new(),
            moves: PolicyMoveCounts::default(),
        }
    }

    /// Sets the time between two walks, for a store that visits objects at other times, too.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Adm {
        self.interval = Some(interval.max(Duration::from_millis(1)));
        self
    }

    fn known_as(&self, field: AdmField) -> AdmObject {
        AdmObject {
            field,
            judged: self.current,
            seen: self.round,
            is_counted: false,
        }
    }

    fn begin(&self, tier: usize) -> AdmObject {
        self.known_as(match tier {
            0 => AdmField::Fast(self.settings.counter_in),
            _ => AdmField::Slow(Lfu::new(self.minutes)),
        })
    }

    /// Returns an object that was demoted.
    fn demoted(&self) -> AdmObject {
        self.known_as(AdmField::Slow(Lfu {
            minutes: self.minutes,
            counter: self.settings.counter_out,
        }))
    }

    /// Counts a use of an object of the slow tier, unless that was done before. Returns true if it
    /// is hot then.
    fn touch_slow(&mut self, object: &PolicyObject, was_counted: bool) -> bool {
        let (begin, demoted) = (self.begin(object.tier), self.demoted());
        let known = self.objects.entry(object.hash).or_insert(begin);
        if let AdmField::Fast(_) = known.field {
            // The store has moved it on its own.
            *known = demoted;
        }
        known.seen = self.round;
        let AdmField::Slow(lfu) = &mut known.field else {
            return false;
        };
        if !was_counted {
            lfu.touch(self.minutes, self.settings.lfu, self.chance.draw());
        }
        lfu.counter > self.settings.threshold_in
    }

    /// Returns true if a use of the object was counted before it was reported, and notes that it is
    /// reported now.
    fn take_counted(&mut self, hash: u64) -> bool {
        let known = self.objects.get_mut(&hash);
        known.is_some_and(|known| std::mem::take(&mut known.is_counted))
    }

    /// Visits an object that was not in the fast tier when it was used last: a store that does not
    /// report each object has written its value there. Returns true if it stays.
    fn settles(&mut self, object: &PolicyObject) -> bool {
        let drains = self.room.drains();
        let is_known = self.objects.contains_key(&object.hash);
        // A write is a use, as in the paper; a new object has none.
        let is_hot = is_known && {
            let was_counted = self.take_counted(object.hash);
            self.touch_slow(object, was_counted)
        };
        let stays = is_hot || !drains;
        let settled = match (stays, is_known) {
            (true, _) => Some(self.begin(0)),
            (false, false) => Some(AdmObject {
                // It was not used, and may be visited again before it moves.
                is_counted: true,
                ..self.known_as(AdmField::Slow(Lfu::new(self.minutes)))
            }),
            (false, true) => None,
        };
        match settled {
            Some(settled) => _ = self.objects.insert(object.hash, settled),
            // The write is not counted once more if the slow tier refuses the object.
            None => {
                if let Some(known) = self.objects.get_mut(&object.hash) {
                    known.is_counted = true;
                }
            }
        }
        stays
    }

    /// Visits an object of the fast tier. Returns true if it stays.
    fn judge(&mut self, hash: u64) -> bool {
        let bar = self.room.bar(self.settings.threshold_out);
        let Some(known) = self.objects.get_mut(&hash) else {
            return true;
        };
        known.seen = self.round;
        let AdmField::Fast(counter) = &mut known.field else {
            return true;
        };
        if self.interval.is_none() || known.judged != self.current {
            if *counter < self.settings.threshold_out {
                // Not judged yet: the mover may carry it with a later load, and asks again then.
                return false;
            }
            known.judged = self.current;
            *counter /= 2;
        }
        *counter >= bar
    }
}

impl TieringPolicy for Adm {
    fn used(&mut self, object: &PolicyObject, _: ObjectUse) -> Option<TierMove> {
        if object.tier == 0 {
            let begin = self.begin(0);
            self.objects.entry(object.hash).or_insert(begin);
            self.used_in_fastest(object.hash, 1);
            return None;
        }
        let was_counted = self.take_counted(object.hash);
        if !self.touch_slow(object, was_counted) {
            return None;
        }
        if !self.room.admits(object.bytes) {
            self.moves.abandoned += 1;
            return None;
        }
        Some(TierMove::to(0))
    }

    fn might_promote(&mut self, object: &PolicyObject) -> bool {
        let is_hot = self.touch_slow(object, false);
        if let Some(known) = self.objects.get_mut(&object.hash).filter(|_| is_hot) {
            // `used` follows and reports this use.
            known.is_counted = true;
        }
        is_hot
    }

    fn counts_each_use(&self) -> bool {
        true
    }

    fn used_in_fastest(&mut self, hash: u64, uses: u32) {
        let known = self.objects.get_mut(&hash);
        if let Some(AdmField::Fast(counter)) = known.map(|known| &mut known.field) {
            *counter = counter.saturating_add(uses).min(COUNTER_MAX);
        }
    }

    fn visit(&mut self, object: &PolicyObject) -> Option<TierMove> {
        let known = self.objects.get_mut(&object.hash);
        if object.tier > 0 {
            if let Some(known) = known {
                known.seen = self.round;
            }
            return None;
        }
        let is_settled = known.is_some_and(|known| matches!(known.field, AdmField::Fast(_)));
        let stays = match is_settled {
            true => self.judge(object.hash),
            false => self.settles(object),
        };
        (!stays).then_some(TierMove::to(1))
    }

    fn inserted(&mut self, object: &PolicyObject) {
        let begin = self.begin(object.tier);
        self.objects.insert(object.hash, begin);
    }

    fn removed(&mut self, object: &PolicyObject) {
        self.objects.remove(&object.hash);
    }

    fn moved(&mut self, object: &PolicyObject, target: usize) {
        let known = self.objects.get(&object.hash).copied();
        let moved = match (target, known) {
            (0, _) => self.begin(0),
            // It has only been written in the fast tier, so it has the counter of the slow one.
            (_, Some(known)) if matches!(known.field, AdmField::Slow(_)) => AdmObject {
                is_counted: false,
                ..known
            },
            _ => self.demoted(),
        };
        self.objects.insert(object.hash, moved);
        let inward = target < object.tier;
        if inward {
            self.room.add(object.bytes);
        } else if object.tier == 0 {
            self.room.subtract(object.bytes);
        }
        let direction = match inward {
            true => TierMoveDirection::Inward,
            false => TierMoveDirection::Outward,
        };
        let undoes = self.recent.note(object.hash, direction, self.round as u16);
        self.moves.inward += u64::from(inward);
        self.moves.outward += u64::from(!inward);
        self.moves.ping_pong += u64::from(undoes);
        self.moves.bytes += object.bytes;
    }

    fn abandoned(&mut self, _: &PolicyObject, _: usize) {
        self.moves.abandoned += 1;
    }

    fn deficit(&self, tier: usize) -> u64 {
        match tier {
            0 => self.room.deficit(),
            _ => 0,
        }
    }

    fn passed(&mut self, now: Duration) {
        // Redis stores 16 bits of the minutes, which wrap around after 45 days.
        self.minutes = (now.as_secs() / 60) as u16;
        if let Some(interval) = self.interval {
            self.current = (now.as_nanos() / interval.as_nanos().max(1)) as u32;
        }
    }

    fn walk_interval(&self) -> Option<Duration> {
        self.interval
    }

    fn walked(&mut self) {
        self.room.end_round();
        self.round = self.round.wrapping_add(1);
        // A store that does not report removals has removed what its walk no longer finds.
        let round = self.round;
        self.objects
            .retain(|_, known| round.wrapping_sub(known.seen) <= ROUNDS_KNOWN);
    }

    fn set_capacity(&mut self, tier: usize, bytes: u64) {
        if tier == 0 {
            self.room.set_capacity(bytes);
        }
    }

    fn set_bytes(&mut self, tier: usize, bytes: u64) {
        if tier == 0 {
            self.room.set_bytes(bytes);
        }
    }

    fn moves(&self) -> PolicyMoveCounts {
        self.moves
    }
}

#[cfg(test)]
mod tests {
    use super::super::LFU_INITIAL;
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

    #[test]
    fn initial_counters_follow_the_thresholds() {
        assert_eq!(AdmSettings::with_thresholds(9, 13), AdmSettings::default());
        let settings = AdmSettings::with_thresholds(1, u32::MAX);
        assert_eq!(
            (settings.counter_in, settings.counter_out),
            (COUNTER_MAX, 0)
        );
    }

    /// A store that reads an object to know its bytes asks before, and the use counts once.
    #[test]
    fn a_use_that_is_announced_counts_once() {
        let settings = AdmSettings {
            lfu: LfuSettings {
                log_factor: 0,
                decay_minutes: 0,
            },
            ..AdmSettings::with_thresholds(7, 13)
        };
        let mut adm = Adm::new(settings).with_interval(Duration::from_secs(1));
        adm.set_capacity(0, 1000);
        // 6 and 7 are not above the threshold, 8 is.
        let asked = [(); 3].map(|()| adm.might_promote(&object(1)));
        assert_eq!(asked, [false, false, true]);
        let to = Some(TierMove::to(0));
        assert_eq!(adm.used(&object(1), ObjectUse::Read), to);
        let counter = |adm: &Adm| match adm.objects[&7].field {
            AdmField::Slow(lfu) => u32::from(lfu.counter),
            AdmField::Fast(counter) => counter,
        };
        assert_eq!(counter(&adm), 8);
        // Without the question it counts by itself.
        assert_eq!(adm.used(&object(1), ObjectUse::Read), to);
        assert_eq!(counter(&adm), 9);
        // A full tier admits nothing: the move is abandoned, and the object is still hot.
        adm.set_bytes(0, 1000);
        assert_eq!(adm.used(&object(1), ObjectUse::Read), None);
        assert_eq!((adm.moves().abandoned, counter(&adm)), (1, 10));
        adm.set_bytes(0, 0);
        assert_eq!(adm.used(&object(1), ObjectUse::Read), to);
        adm.moved(&object(1), 0);
        assert_eq!((adm.moves().inward, counter(&adm)), (1, 26));
        adm.used_in_fastest(7, 4);
        assert_eq!(counter(&adm), 30);
    }

    #[test]
    fn an_object_is_judged_once_in_an_interval_however_often_it_is_visited() {
        let mut adm = Adm::new(AdmSettings::default()).with_interval(Duration::from_secs(1));
        adm.set_capacity(0, 1000);
        adm.moved(&object(1), 0);
        // 26, 13, 6, and then it should leave: in the interval of the move it is not judged. It
        // never moves, so each later visit says the same.
        let mut left = Vec::new();
        for quarter in 0..20 {
            adm.passed(Duration::from_millis(250 * quarter));
            if adm.visit(&object(0)).is_some() {
                left.push(quarter);
            }
        }
        assert_eq!(left, (12..20).collect::<Vec<u64>>());
        // A visit that is one of a walk judges each time.
        let mut adm = Adm::new(AdmSettings::default());
        adm.moved(&object(1), 0);
        let visits = (1..).find(|_| adm.visit(&object(0)).is_some());
        assert_eq!(visits, Some(3));
    }

    #[test]
    fn values_that_come_while_the_tier_is_full_leave_and_others_stay() {
        let of = |hash: u64, tier: usize| PolicyObject {
            hash,
            ..object(tier)
        };
        let mut adm = Adm::new(AdmSettings::default()).with_interval(Duration::from_secs(1));
        adm.set_capacity(0, 1000);
        adm.set_bytes(0, 900);
        assert_eq!(adm.visit(&of(1, 0)), None);
        // A new value finds no room.
        adm.set_bytes(0, 1000);
        assert!(adm.deficit(0) > 0);
        assert_eq!(adm.visit(&of(1, 0)), None);
        // The mover may leave it to a later load. A second visit is no use.
        for _ in 0..2 {
            assert_eq!(adm.visit(&of(2, 0)), Some(TierMove::to(1)));
        }
        adm.moved(&of(2, 0), 1);
        // It keeps the counter of a new object of the slow tier.
        let counter = |adm: &Adm| match adm.objects[&2].field {
            AdmField::Slow(lfu) => lfu.counter,
            AdmField::Fast(_) => 255,
        };
        assert_eq!((adm.deficit(0), counter(&adm)), (0, LFU_INITIAL));
        // Nothing leaves a tier with room, and a value that was written there stays.
        assert_eq!(adm.visit(&of(2, 0)), None);
        assert_eq!(counter(&adm), 255);
        // An object has left in this round; the next one in which none can leave raises the bar.
        adm.set_bytes(0, 1000);
        for _ in 0..2 {
            assert_eq!(adm.visit(&of(1, 0)), None);
            adm.walked();
        }
        assert_eq!(adm.visit(&of(1, 0)), Some(TierMove::to(1)));
    }

    #[test]
    fn what_the_walk_does_not_find_is_forgotten() {
        let mut adm = Adm::new(AdmSettings::default()).with_interval(Duration::from_secs(1));
        adm.moved(&object(1), 0);
        for _ in 0..10 {
            adm.visit(&object(0));
            adm.walked();
        }
        assert_eq!(adm.objects.len(), 1);
        (0..3).for_each(|_| adm.walked());
        assert_eq!(adm.objects.len(), 0);
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
