//! The input of the policy, taken from the store, and its decision for each value.
//!
//! The policy knows objects that can move and their bytes before compression. The memory tier also
//! has keys and indexes, which cannot move: their size is estimated from the values that the walk
//! has visited, and subtracted from its capacity.

use crate::policy::{
    Adaptive, Adm, ObjectUse, PairCosts, PolicyChoice, PolicyObject, TierMove, TieringPolicy,
};
use crate::specification::TierKind;
use crate::tiers::Tiers;
use crate::usage::TierUsage;
use std::time::{Duration, Instant};

/// Number of bytes per second that values may move. *Assumed*: a tenth of what a core copies and
/// compresses, and of what a good SSD writes.
const BYTES_PER_SECOND: u64 = 128 << 20;
/// Compression ratio assumed until the tier holds [`RATIO_BYTES_MIN`]. *Assumed.*
const RATIO: f64 = 2.0;
/// Number of bytes of values from which the tier's own compression ratio is used.
const RATIO_BYTES_MIN: u64 = 1 << 20;
/// Number of uses that a noted use counts for in comparisons while each is noted. With 1 a value
/// would come in after two uses, which a pass over all keys makes of each that was just written.
const LEARNING_COUNT: u16 = 2;
/// Number of recently visited keys that the estimate of movable values is based on.
const MET_MAX: f64 = 16_384.0;
/// Number of rounds that the walk makes in an interval of the policy: it goes in whole slices, and
/// it must visit each value at least once.
const ROUNDS_PER_INTERVAL: f64 = 2.0;

/// The judge, which decides by a policy which values move. See the [module](self).
#[derive(Debug)]
pub struct MoveJudge {
    policy: Box<dyn TieringPolicy + Send>,
    began: Instant,
    /// The time until which the walk has been paced, since the beginning.
    paced: Duration,
    met: VisitedKeySample,
    memory_capacity: u64,
    /// Number of uses that a noted use counts for, if not each is noted.
    uses_counted: u16,
    /// Number of uses in this period of the heat.
    uses: u64,
}

/// The keys that the walk has visited, weighted towards the newest.
#[derive(Debug, Default)]
struct VisitedKeySample {
    keys: f64,
    /// Number of these whose values can move, and the bytes of those values that are in memory.
    movable: f64,
    memory_bytes: f64,
}

impl MoveJudge {
    /// Creates a judge over empty tiers. Each use that is noted counts as `uses_counted` uses,
    /// unless the judge [learns](MoveJudge::learns) or the policy counts by itself.
    pub fn new(tiers: &Tiers, uses_counted: u16, choice: PolicyChoice) -> MoveJudge {
        let specifications = tiers.specifications();
        // The policy counts bytes before compression.
        let capacities = specifications.iter().map(|tier| match tier.kind {
            TierKind::Compressed => (tier.capacity_bytes as f64 * RATIO) as u64,
            TierKind::Memory | TierKind::Node(_) | TierKind::File(_) => tier.capacity_bytes,
        });
        let capacities: Vec<u64> = capacities.collect();
        let costs = specifications.iter().skip(1).map(|tier| match tier.kind {
            TierKind::File(_) => PairCosts::file(),
            TierKind::Node(_) => PairCosts::node(),
            TierKind::Compressed | TierKind::Memory => PairCosts::compressed(),
        });
        let costs: Vec<PairCosts> = costs.collect();
        let policy: Box<dyn TieringPolicy + Send> = match choice {
            PolicyChoice::Adaptive => {
                let policy = Adaptive::new(&capacities, &costs, BYTES_PER_SECOND);
                Box::new(policy.with_uses_counted_as(uses_counted))
            }
            PolicyChoice::Adm { settings, interval } => {
                Box::new(Adm::new(settings).with_interval(interval))
            }
        };
        MoveJudge {
            policy,
            began: Instant::now(),
            paced: Duration::ZERO,
            met: VisitedKeySample::default(),
            memory_capacity: capacities.first().copied().unwrap_or(0),
            uses_counted,
            uses: 0,
        }
    }

    /// Sets the bytes of all keys and of the values in memory, and the number of keys.
    pub fn set_memory(&mut self, bytes: u64, keys: u64) {
        let met = self.met.keys.max(1.0);
        let movable = (self.met.memory_bytes / met * keys as f64) as u64;
        // Before the walk has begun, nothing is known to be immovable.
        let movable = match self.met.keys > 0.0 {
            true => movable.min(bytes),
            false => bytes,
        };
        // Keys and indexes stay, so the policy divides only the rest of the capacity.
        let capacity = self.memory_capacity.saturating_sub(bytes - movable);
        self.policy.set_capacity(0, capacity);
        self.policy.set_bytes(0, movable);
        let objects = self.met.movable / met * keys as f64;
        self.policy.set_objects(objects as u64);
    }

    /// Sets the usage of a cold tier.
    pub fn set_cold(&mut self, tier: usize, usage: &TierUsage) {
        self.policy.set_bytes(tier, usage.value_bytes);
        // A few values say little about the others, and the capacity must not swing with them.
        if usage.value_bytes > RATIO_BYTES_MIN {
            let ratio = usage.value_bytes as f64 / usage.used_bytes.max(1) as f64;
            let capacity = usage.capacity_bytes as f64 * ratio;
            self.policy.set_capacity(tier, capacity as u64);
        }
    }

    /// Adds `uses` since the last call, `in_memory` of them in memory. Returns the number of heat
    /// periods that have ended.
    pub fn report_uses(&mut self, in_memory: u64, uses: u64) -> u32 {
        debug_assert!(in_memory <= uses);
        self.policy.passed(self.began.elapsed());
        if uses == 0 {
            return 0;
        }
        self.policy.served(in_memory, uses);
        self.uses += uses;
        let mut periods = 0;
        while self.uses >= self.policy.period_uses() && periods < PERIODS_MAX {
            self.uses = self.uses.saturating_sub(self.policy.period_uses());
            self.policy.aged();
            periods += 1;
        }
        periods
    }

    /// Returns true while each use should be noted, because the heat of values is not known well.
    /// Later values are compared with a larger margin, for uses that are drawn.
    pub fn learns(&mut self) -> bool {
        let is_learning = self.policy.is_learning();
        let counted = match is_learning {
            true => LEARNING_COUNT.min(self.uses_counted),
            false => self.uses_counted,
        };
        self.policy.set_uses_counted(counted);
        is_learning
    }

    /// Returns the part of all values that the walk should visit during `uses` uses, which are
    /// those since the last call.
    pub fn visit_share(&mut self, uses: u64) -> f64 {
        let now = self.began.elapsed();
        let since = now.saturating_sub(std::mem::replace(&mut self.paced, now));
        match self.policy.walk_interval() {
            Some(interval) => {
                let seconds = interval.as_secs_f64().max(f64::MIN_POSITIVE);
                ROUNDS_PER_INTERVAL * since.as_secs_f64() / seconds
            }
            None => uses as f64 / self.policy.period_uses().max(1) as f64,
        }
    }

    /// Returns true if the policy counts the uses of values in memory by itself.
    pub fn counts_each_use(&self) -> bool {
        self.policy.counts_each_use()
    }

    /// Notes uses of the value of a key in memory, by its hash.
    pub fn used_in_memory(&mut self, hash: u64, uses: u32) {
        self.policy.used_in_fastest(hash, uses);
    }

    /// Notes that the walk has visited all keys once more.
    pub fn end_round(&mut self) {
        self.policy.walked();
    }

    /// Returns the bytes that should leave a tier soon.
    pub fn deficit(&self, tier: usize) -> u64 {
        self.policy.deficit(tier)
    }

    /// Sets if threads wait for room, so that a short search matters more than the best choice.
    pub fn set_haste(&mut self, is_in_haste: bool) {
        self.policy.set_haste(is_in_haste);
    }

    /// Returns true if the walk must visit each value in each round, also in haste.
    pub fn needs_each_visit(&self) -> bool {
        self.policy.needs_each_visit()
    }

    /// Notes that the walk skips a value of a cold tier from which nothing must leave.
    pub fn skip_cold(&mut self) {
        self.met.add(1.0, 0.0);
        self.policy.skipped();
    }

    /// Notes that the walk visits a key with a value that cannot move.
    pub fn visit_unmovable(&mut self) {
        self.met.add(0.0, 0.0);
    }

    /// Notes that the walk visits a value. Returns the tier that it should move to, `None` to stay.
    pub fn visit(&mut self, object: &PolicyObject) -> Option<usize> {
        let in_memory = if object.tier == 0 { object.bytes } else { 0 };
        self.met.add(1.0, in_memory as f64);
        self.policy.visit(object).map(|step| step.target)
    }

    /// Returns true if a value that was used might move to a faster tier. Then
    /// [`used`](MoveJudge::used) should follow, with its bytes.
    pub fn might_promote(&mut self, object: &PolicyObject) -> bool {
        self.policy.might_promote(object)
    }

    /// Notes that a client used a value of a cold tier. Returns the tier that it should move to,
    /// `None` to stay.
    pub fn used(&mut self, object: &PolicyObject) -> Option<usize> {
        let step = self.policy.used(object, ObjectUse::Read);
        step.map(|TierMove { target }| target)
    }

    /// Notes that a value moved.
    pub fn moved(&mut self, object: &PolicyObject, to: usize) {
        self.policy.moved(object, to);
    }

    /// Notes that a value could not move.
    pub fn abandoned(&mut self, object: &PolicyObject, to: usize) {
        self.policy.abandoned(object, to);
    }

    /// Returns the number of moves of values that had just moved the other way, and of those that
    /// were put off because too many bytes had moved.
    pub fn ping_pong_and_put_off(&self) -> (u64, u64) {
        let moves = self.policy.moves();
        (moves.ping_pong, moves.put_off)
    }
}

/// Maximum number of periods that end at once. After the load changes, some end regardless of the
/// uses.
const PERIODS_MAX: u32 = 4;

impl VisitedKeySample {
    fn add(&mut self, movable: f64, memory_bytes: f64) {
        self.keys += 1.0;
        self.movable += movable;
        self.memory_bytes += memory_bytes;
        debug_assert!(self.movable <= self.keys);
        // Halved, so that keys that the walk visited long ago lose weight.
        if self.keys > MET_MAX {
            self.keys /= 2.0;
            self.movable /= 2.0;
            self.memory_bytes /= 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{AdmSettings, LfuSettings};
    use crate::specification::Specification;

    fn judge() -> MoveJudge {
        judge_by(PolicyChoice::Adaptive)
    }

    fn judge_by(choice: PolicyChoice) -> MoveJudge {
        let tiers = ["memory=1mb", "compressed=16mb"].map(|tier| tier.parse::<Specification>());
        let tiers = Tiers::open(&tiers.map(Result::unwrap)).unwrap();
        MoveJudge::new(&tiers, 1, choice)
    }

    fn object(number: u64, tier: usize, heat: u16) -> PolicyObject {
        PolicyObject {
            hash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            bytes: 1000,
            tier,
            heat,
        }
    }

    /// Walks three times over a memory of which a half is keys, and whose first ten values are
    /// cold.
    fn walked(values: u64) -> (MoveJudge, Vec<u64>) {
        let mut judge = judge();
        let mut gone = Vec::new();
        for _ in 0..3 {
            judge.set_memory(values * 2000, values);
            gone.clear();
            for number in 0..values {
                let heat = if number < 10 { 1 } else { 90 };
                if judge.visit(&object(number, 0, heat)).is_some() {
                    gone.push(number);
                }
            }
        }
        (judge, gone)
    }

    #[test]
    fn what_cannot_move_is_taken_off_and_the_coldest_go() {
        let (judge, gone) = walked(500);
        assert_eq!((judge.deficit(0), gone), (0, Vec::new()));
        // A percent too much: as many of the coldest leave as make room, and at most twice as many.
        let (judge, gone) = walked(526);
        let deficit = judge.deficit(0);
        assert!((5_000..25_000).contains(&deficit), "{deficit}");
        assert!(gone.len() >= 5, "{gone:?}");
        assert!(
            gone.iter().filter(|&&number| number >= 10).count() <= 20,
            "{gone:?}"
        );
    }

    #[test]
    fn in_haste_fewer_values_are_visited_for_as_much_room() {
        let visits = |is_in_haste| {
            let (mut judge, _) = walked(530);
            judge.set_haste(is_in_haste);
            let before = judge.deficit(0);
            let mut gone = 0;
            for number in 0..530 {
                let value = object(number, 0, if number < 10 { 1 } else { 90 });
                if let Some(to) = judge.visit(&value) {
                    judge.moved(&value, to);
                    gone += 1000;
                }
                if judge.deficit(0) == 0 {
                    assert!(
                        (before..before + 1000).contains(&gone),
                        "{gone} of {before}"
                    );
                    return number;
                }
            }
            panic!("{gone} bytes have left, and there is no room");
        };
        let (calm, hasty) = (visits(false), visits(true));
        assert!(2 * hasty < calm, "{hasty} in haste, {calm} otherwise");
    }

    /// Each walk sends out enough values, even after all those have left that came first in the
    /// order of equal heat.
    #[test]
    fn where_all_are_used_alike_each_walk_makes_room() {
        let mut judge = judge();
        let mut here = Vec::new();
        for number in 0..3000_u64 {
            here.push(number);
            let memory = |here: &[u64]| number * 100 + here.len() as u64 * 1000;
            judge.set_memory(memory(&here), number + 1);
            for _ in 0..number + 1 - here.len() as u64 {
                judge.visit(&object(number, 1, 0));
            }
            here.retain(|&number| {
                let value = object(number, 0, 0);
                let to = judge.visit(&value);
                to.is_none_or(|to| {
                    judge.moved(&value, to);
                    false
                })
            });
            let left = memory(&here);
            assert!(left <= 1 << 20, "{left} after {number}");
        }
        assert!(here.len() > 500, "{}", here.len());
    }

    /// A value comes in after three uses, and not after eight requests, of which two are noted.
    #[test]
    fn while_it_learns_each_use_counts() {
        let tiers = ["memory=1mb", "compressed=16mb"].map(|tier| tier.parse::<Specification>());
        let tiers = Tiers::open(&tiers.map(Result::unwrap)).unwrap();
        let mut judge = MoveJudge::new(&tiers, 4, PolicyChoice::Adaptive);
        let might = |judge: &mut MoveJudge, heat| judge.might_promote(&object(1, 1, heat));
        assert!(judge.learns());
        assert!(!might(&mut judge, 2) && might(&mut judge, 3));
        // The first two periods end.
        assert_eq!((judge.report_uses(0, 4), judge.learns()), (1, true));
        assert_eq!((judge.report_uses(0, 8), judge.learns()), (1, false));
        assert!(!might(&mut judge, 3) && !might(&mut judge, 4) && might(&mut judge, 8));
    }

    #[test]
    fn values_come_back_if_they_are_used_and_going_to_and_fro_is_counted() {
        let (mut judge, _) = walked(100);
        assert!(!judge.might_promote(&object(1, 1, 1)));
        let value = object(1, 1, 50);
        assert!(judge.might_promote(&value));
        assert_eq!(judge.used(&value), Some(0));
        judge.moved(&object(1, 0, 50), 1);
        judge.moved(&value, 0);
        assert_eq!(judge.ping_pong_and_put_off(), (1, 0));
    }

    /// Uses a cold value until it should move to memory, and returns the number of uses. Returns
    /// `None` if it should not after many.
    fn uses_until_promoted(choice: PolicyChoice) -> Option<usize> {
        let mut judge = judge_by(choice);
        judge.set_memory(100_000, 100);
        let value = object(1, 1, 0);
        (1..1000).find(|_| judge.might_promote(&value) && judge.used(&value) == Some(0))
    }

    #[test]
    fn adm_promotes_by_its_threshold_and_needs_no_heat() {
        let of = |threshold_in| PolicyChoice::Adm {
            settings: AdmSettings {
                lfu: LfuSettings {
                    log_factor: 0,
                    decay_minutes: 0,
                },
                ..AdmSettings::with_thresholds(threshold_in, 13)
            },
            interval: Duration::from_secs(1000),
        };
        // The counter begins at 5 and grows by 1 with each use.
        assert_eq!(uses_until_promoted(of(9)), Some(5));
        assert_eq!(uses_until_promoted(of(19)), Some(15));
        assert_eq!(uses_until_promoted(of(255)), None);
        assert_eq!(uses_until_promoted(PolicyChoice::Adaptive), None);
        assert!(judge_by(of(9)).counts_each_use() && !judge().counts_each_use());
    }

    /// A memory that is written beyond its capacity gets room in a few rounds of the walk, whatever
    /// the counters of its values.
    #[test]
    fn adm_makes_room_for_writers() {
        let settings = AdmSettings::default();
        let interval = Duration::from_secs(1000);
        let mut judge = judge_by(PolicyChoice::Adm { settings, interval });
        let mut here: Vec<u64> = (0..900).collect();
        let mut rounds = 0;
        // All values have been visited while there was room.
        for bytes in [900_000, 1_100_000] {
            let outside = bytes - 900_000;
            loop {
                let memory = here.len() as u64 * 1000 + outside;
                judge.set_memory(memory, 900);
                here.retain(|&number| {
                    let value = object(number, 0, 0);
                    judge.visit(&value).is_none_or(|to| {
                        judge.moved(&value, to);
                        false
                    })
                });
                judge.end_round();
                rounds += 1;
                if judge.deficit(0) == 0 || rounds > 10 {
                    break;
                }
            }
            let all_stay = outside == 0;
            assert_eq!(here.len() == 900, all_stay, "{} of 900", here.len());
        }
        // No more leave than make room.
        assert!(
            here.len() > 700 && rounds <= 4,
            "{} in {rounds}",
            here.len()
        );
    }
}
