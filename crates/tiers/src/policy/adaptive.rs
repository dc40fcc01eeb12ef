//! The adaptive policy, which is our own: it has no thresholds to configure.

use super::budget::Budget;
use super::costs::PairCosts;
use super::cuts::{HeatMarks, TIERS_MAX, rank, rank_in_turn};
use super::histogram::{Histogram, mark_above, mark_below};
use super::pace::HeatPeriod;
use super::recent::{Recent, TierMoveDirection};
use super::{ObjectUse, PolicyObject, TierMove, TieringPolicy};
use nearfield_hotness::HotnessTable;
use std::time::Duration;

/// Parts of its capacity above which a tier begins to demote objects, and below which it stops.
/// *Assumed*: the room between is for values that are written while the walk continues.
pub(super) const HIGH: f64 = 0.99;
pub(super) const LOW: f64 = 0.98;

/// The part of a full tier from which objects are demoted in haste: the coldest of its bytes.
/// *Assumed*: the walk then finds one in four of the objects that it visits there, and the next
/// round of the walk begins before hotter ones are the coldest.
const HASTY_PART: f64 = 0.25;

/// Number of calls after which the marks are computed again.
const CALLS_BETWEEN_MARKS: u32 = 1024;

/// The step by which the order of objects of equal heat rotates: 256 in the golden ratio.
const TURN: u8 = 158;

/// Number of periods that an object is assumed to stay: before any has left, and the minimum and
/// maximum after that. *Assumed.*
const STAY_PERIODS: (f64, f64, f64) = (2.0, 16.0, 64.0);

/// The number of periods of uses in the heat of an evenly used object: in the middle of a period,
/// half of that one, and half, a quarter and so on of those before.
const PERIODS_IN_HEAT: f64 = 1.5;

/// A policy that moves objects by their heat and the capacities of tiers.
///
/// - **Marks.** The walk reports how the bytes of each tier are distributed over heats. The marks
///   between the tiers are where the capacities divide that histogram, so they follow the load and
///   need no configuration.
/// - **Periods.** The heat covers a long past while the load is stable, and forgets most of it when
///   the share of uses that the fastest tier serves falls.
/// - **Promotion.** An object that is used moves to the tier where its heat belongs if that tier is
///   faster, if the heat exceeds the mark by a margin, if the expected uses pay for the move there
///   and back, and if there is room.
/// - **Demotion.** A tier that is fuller than it should be demotes its coldest objects until it is
///   not. New and written objects have no heat, so a burst of writes demotes only itself.
/// - **Haste.** While threads wait for room, a tier demotes any of the coldest quarter of its
///   bytes, because a long search for the very coldest costs more than it gains. It demotes no more
///   bytes than otherwise.
/// - **No ping-pong.** An object that was just promoted stays for a round of the walk or two. Each
///   time that an object returns soon after it left doubles its margin.
/// - **Slowly.** No more bytes move in a second than the budget allows.
///
/// It supports 8 tiers at most.
#[derive(Clone, Debug)]
pub struct Adaptive {
    tiers: Vec<Tier>,
    costs: Vec<PairCosts>,
    cuts: HeatMarks,
    recent: Recent,
    budget: Budget,
    pace: HeatPeriod,
    /// Number of rounds of the walk, and of the objects that it has visited in this one.
    round: u16,
    met: u64,
    objects: u64,
    calls: u32,
    /// Current rotation of the order of objects of equal heat.
    turn: u8,
    /// Set while threads wait for room.
    is_in_haste: bool,
    moves: PolicyMoveCounts,
}

#[derive(Clone, Debug)]
struct Tier {
    capacity: u64,
    histogram: Histogram,
    /// The objects that it demotes now, if it does.
    out: Option<Out>,
    /// Number of bytes that found no room here; at most what a full tier frees.
    wanted: u64,
    /// Number of bytes demoted in this period, and an average of the periods before.
    out_bytes: u64,
    out_average: Option<f64>,
}

/// The objects that a tier demotes.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// Mark below which objects do not belong in the tier.
    mark: f32,
    /// Mark below which as many objects are demoted as needed, in the order of this turn. Another
    /// turn orders objects of equal heat differently. Otherwise none of them below the mark would
    /// be left.
    needed: f32,
    turn: u8,
}

impl Out {
    fn has(&self, object: &PolicyObject) -> bool {
        rank(object) < self.mark || rank_in_turn(object, self.turn) < self.needed
    }
}

/// The moves that were reported to a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyMoveCounts {
    /// Number of moves into a faster tier.
    pub inward: u64,
    /// Number of moves into a slower tier.
    pub outward: u64,
    /// Number of bytes of both.
    pub bytes: u64,
    /// Number of moves that were not possible.
    pub abandoned: u64,
    /// Number of moves that were put off because the budget was spent.
    pub put_off: u64,
    /// Number of promotions of an object that had just been demoted.
    pub ping_pong: u64,
}

impl Adaptive {
    /// Creates a policy for tiers of these capacities, in bytes of values before compression, and
    /// the costs of each pair of neighbours, one fewer than the tiers. It moves at most
    /// `bytes_per_second`.
    pub fn new(capacities: &[u64], costs: &[PairCosts], bytes_per_second: u64) -> Adaptive {
        debug_assert!(capacities.len() <= TIERS_MAX);
        debug_assert_eq!(costs.len(), capacities.len().saturating_sub(1));
        let tier = |&capacity: &u64| Tier {
            capacity,
            histogram: Histogram::new(),
            out: None,
            wanted: 0,
            out_bytes: 0,
            out_average: None,
        };
        let tiers: Vec<Tier> = capacities.iter().take(TIERS_MAX).map(tier).collect();
        Adaptive {
            cuts: HeatMarks::new(tiers.len()),
            tiers,
            costs: costs.to_vec(),
            recent: Recent::new(),
            budget: Budget::new(bytes_per_second),
            pace: HeatPeriod::new(),
            round: 0,
            met: 0,
            objects: 0,
            calls: 0,
            turn: 0,
            is_in_haste: false,
            moves: PolicyMoveCounts::default(),
        }
    }

    /// Sets the number of uses that each use in the heat stands for: one in that many is counted,
    /// drawn at random.
    #[must_use]
    pub fn with_uses_counted_as(mut self, uses: u16) -> Adaptive {
        self.cuts.count_as(uses);
        self
    }

    /// Returns the bytes in a tier, as they were reported.
    pub fn bytes(&self, tier: usize) -> u64 {
        self.tiers.get(tier).map_or(0, |tier| tier.histogram.bytes)
    }

    fn count_call(&mut self) {
        self.calls += 1;
        if self.calls >= CALLS_BETWEEN_MARKS {
            // Marks move slowly, and to compute them visits each heat of each tier.
            self.set_marks();
        }
    }

    /// Counts an object of the walk, and ends the round after the last one.
    fn count_visit(&mut self) {
        self.met += 1;
        if self.met >= self.objects {
            self.met = 0;
            self.round = self.round.wrapping_add(1);
            self.set_marks();
        }
    }

    fn set_marks(&mut self) {
        self.calls = 0;
        self.turn = self.turn.wrapping_add(TURN);
        let mut room = 0.0;
        for upper in 0..self.tiers.len().saturating_sub(1) {
            room += self.tiers[upper].capacity as f64 * LOW;
            // Over all tiers, because an object may be in another tier than the one it belongs in.
            let at = |level| self.tiers.iter().map(|tier| tier.histogram.at(level)).sum();
            let mark = mark_above(at, room);
            debug_assert!(
                upper == 0 || mark <= self.cuts.mark_into(upper - 1),
                "a slower tier has colder objects"
            );
            self.cuts.set(upper, mark);
        }
        for (number, tier) in self.tiers.iter_mut().enumerate() {
            tier.set_out(self.cuts.outward(number), self.turn, self.is_in_haste);
        }
    }

    /// Returns true if the expected uses of an object in a faster tier pay for the move there and
    /// back.
    fn pays(&self, object: &PolicyObject, target: usize) -> bool {
        let Some(tier) = self.tiers.get(target) else {
            return false;
        };
        // A move over several tiers must pay at the dearest border that it crosses.
        let pairs = self.costs.get(target..object.tier).unwrap_or_default();
        let break_even = pairs.iter().map(|pair| pair.break_even(object.bytes));
        let break_even = break_even.fold(0.0, f64::max);
        let uses = f64::from(HotnessTable::uses(object.heat)) / PERIODS_IN_HEAT;
        uses * tier.stay_periods() >= break_even
    }
}

impl Tier {
    fn deficit(&self) -> u64 {
        let (used, capacity) = (self.histogram.bytes as f64, self.capacity as f64);
        let begins = self.out.is_some() || used > capacity * HIGH || self.wanted > 0;
        match begins {
            true => (used + self.wanted as f64 - capacity * LOW).max(0.0) as u64,
            false => 0,
        }
    }

    /// Selects the objects to demote: the coldest ones, and all that do not belong here.
    fn set_out(&mut self, mark: f32, turn: u8, is_in_haste: bool) {
        let deficit = self.deficit();
        // Twice as many bytes as are needed, so that half a walk finds enough of them.
        let enough = 2.0 * deficit as f64;
        let bytes = match is_in_haste {
            true => enough.max(self.histogram.bytes as f64 * HASTY_PART),
            false => enough,
        };
        let needed = || mark_below(|level| self.histogram.at(level), bytes);
        self.out = (deficit > 0).then(|| Out {
            mark,
            needed: needed(),
            turn,
        });
    }

    /// Returns true if there is room for an object to be promoted.
    fn admits(&self, bytes: u64) -> bool {
        let used = self.histogram.bytes;
        // Above `HIGH` objects of any size are refused. Otherwise the last room of a full tier
        // would be open to small objects only.
        used as f64 <= self.capacity as f64 * HIGH && used + bytes <= self.capacity
    }

    fn want(&mut self, bytes: u64) {
        let most = (self.capacity as f64 * (1.0 - LOW)) as u64;
        self.wanted = (self.wanted + bytes).min(most);
    }

    /// Returns the number of periods that an object stays in the tier, by Little's law.
    fn stay_periods(&self) -> f64 {
        let (least, assumed, most) = STAY_PERIODS;
        match self.out_average {
            Some(out) => (self.histogram.bytes as f64 / out.max(1.0)).clamp(least, most),
            None => assumed,
        }
    }
}

impl TieringPolicy for Adaptive {
    fn used(&mut self, object: &PolicyObject, by: ObjectUse) -> Option<TierMove> {
        self.count_call();
        if object.tier == 0 || by == ObjectUse::Write && !self.writes_count() {
            return None;
        }
        let returns = self.recent.returns(object.hash, self.round);
        let step = self.cuts.inward(object, returns)?;
        if !self.pays(object, step.target) {
            return None;
        }
        let tier = self.tiers.get_mut(step.target)?;
        if !tier.admits(object.bytes) {
            // The walk then demotes colder objects, so that a later use finds room.
            tier.want(object.bytes);
            self.moves.abandoned += 1;
            return None;
        }
        // Asked last, so that a move that is refused anyway spends nothing.
        if !self.budget.take(object.bytes) {
            self.moves.put_off += 1;
            return None;
        }
        debug_assert!(step.target < object.tier, "a use only promotes");
        Some(step)
    }

    fn might_promote(&mut self, object: &PolicyObject) -> bool {
        // The least margin, because `used` knows the bytes and the earlier moves.
        self.cuts.inward(object, 0).is_some()
    }

    fn visit(&mut self, object: &PolicyObject) -> Option<TierMove> {
        self.count_call();
        self.count_visit();
        let last = self.tiers.len().saturating_sub(1);
        let tier = self.tiers.get_mut(object.tier)?;
        tier.histogram.sample(object.heat, object.bytes);
        if tier.deficit() == 0 {
            tier.out = None;
            return None;
        }
        if tier.out.is_none() {
            tier.set_out(self.cuts.outward(object.tier), self.turn, self.is_in_haste);
        }
        let out = tier.out?;
        let over_full = tier.histogram.bytes > tier.capacity;
        // A promoted object stays for a round or two, unless the tier exceeds its capacity.
        let is_young = self
            .recent
            .is(object.hash, TierMoveDirection::Inward, self.round);
        if object.tier >= last || !out.has(object) || is_young && !over_full {
            return None;
        }
        // Writers wait for a tier that exceeds its capacity, so the budget does not hold it back.
        if !self.budget.take(object.bytes) && !over_full {
            self.moves.put_off += 1;
            return None;
        }
        let target = self.cuts.home(object, object.tier + 1);
        debug_assert!(object.tier < target, "the walk only demotes");
        Some(TierMove::to(target))
    }

    fn inserted(&mut self, object: &PolicyObject) {
        self.objects += 1;
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.join(object.heat, object.bytes);
        }
        self.count_call();
    }

    fn resized(&mut self, object: &PolicyObject, bytes_before: u64) {
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.leave(object.heat, bytes_before);
            tier.histogram.join(object.heat, object.bytes);
        }
    }

    fn removed(&mut self, object: &PolicyObject) {
        self.objects = self.objects.saturating_sub(1);
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.leave(object.heat, object.bytes);
        }
    }

    fn moved(&mut self, object: &PolicyObject, target: usize) {
        debug_assert_ne!(target, object.tier, "a move leads to another tier");
        let inward = target < object.tier;
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.leave(object.heat, object.bytes);
            if !inward {
                tier.wanted = tier.wanted.saturating_sub(object.bytes);
                tier.out_bytes += object.bytes;
            }
        }
        if let Some(tier) = self.tiers.get_mut(target) {
            tier.histogram.join(object.heat, object.bytes);
        }
        let direction = match inward {
            true => TierMoveDirection::Inward,
            false => TierMoveDirection::Outward,
        };
        let undoes = self.recent.note(object.hash, direction, self.round);
        self.moves.inward += u64::from(inward);
        self.moves.outward += u64::from(!inward);
        self.moves.ping_pong += u64::from(undoes);
        self.moves.bytes += object.bytes;
    }

    fn abandoned(&mut self, object: &PolicyObject, target: usize) {
        if let Some(tier) = self.tiers.get_mut(target).filter(|_| target < object.tier) {
            tier.want(object.bytes);
        }
        self.moves.abandoned += 1;
    }

    fn period_uses(&self) -> u64 {
        self.pace.period_uses(self.objects)
    }

    fn served(&mut self, served: u64, uses: u64) {
        self.pace.served(served, uses, self.objects);
    }

    fn deficit(&self, tier: usize) -> u64 {
        self.tiers.get(tier).map_or(0, Tier::deficit)
    }

    fn writes_count(&self) -> bool {
        self.costs.iter().any(|costs| costs.writes_count)
    }

    fn aged(&mut self) {
        self.pace.aged();
        for tier in &mut self.tiers {
            tier.histogram.age(HotnessTable::half);
            let out = std::mem::take(&mut tier.out_bytes) as f64;
            tier.out_average = match tier.out_average {
                Some(average) => Some((average + out) / 2.0),
                // Before any object has left, the time that one stays is assumed.
                None => (out > 0.0).then_some(out),
            };
        }
        self.set_marks();
    }

    fn passed(&mut self, now: Duration) {
        self.budget.passed(now);
    }

    fn set_capacity(&mut self, tier: usize, bytes: u64) {
        if let Some(tier) = self.tiers.get_mut(tier) {
            tier.capacity = bytes;
        }
    }

    fn set_bytes(&mut self, tier: usize, bytes: u64) {
        if let Some(tier) = self.tiers.get_mut(tier) {
            tier.histogram.set_bytes(bytes);
        }
    }

    fn set_objects(&mut self, objects: u64) {
        self.objects = objects;
    }

    fn set_haste(&mut self, is_in_haste: bool) {
        if self.is_in_haste != is_in_haste {
            self.is_in_haste = is_in_haste;
            self.set_marks();
        }
    }

    fn needs_each_visit(&self) -> bool {
        // The heat of an object is kept by the store, and its distribution is a sample.
        false
    }

    fn skipped(&mut self) {
        self.count_visit();
    }

    fn is_learning(&self) -> bool {
        self.pace.is_learning()
    }

    fn set_uses_counted(&mut self, uses: u16) {
        self.cuts.count_as(uses);
    }

    fn moves(&self) -> PolicyMoveCounts {
        self.moves
    }
}
