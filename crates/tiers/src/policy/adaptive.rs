//! Our policy: no thresholds to set.

use super::budget::Budget;
use super::costs::PairCosts;
use super::cuts::{Cuts, TIERS_MAX, rank, rank_in_turn};
use super::histogram::{Histogram, mark_above, mark_below};
use super::pace::Pace;
use super::recent::{Direction, Recent};
use super::{Move, Object, Policy, Use};
use nearfield_hotness::Heat;
use std::time::Duration;

/// Above this part of its capacity a tier sends objects out, until it is below the other.
/// *Assumed*: the room between is for values that are written while the walk goes on.
const HIGH: f64 = 0.99;
const LOW: f64 = 0.98;

/// The marks are made anew after so many calls.
const CALLS_BETWEEN_MARKS: u32 = 1024;

/// By so much the order of objects of equal heat turns: 256 in the golden ratio.
const TURN: u8 = 158;

/// Periods that an object is taken to stay before any have gone out, and at least and at most
/// after that. *Assumed.*
const STAY_PERIODS: (f64, f64, f64) = (2.0, 16.0, 64.0);

/// The uses of one period in the heat of an object that is used evenly: in the middle of a period,
/// half of that one, and half, a quarter and so on of those before.
const PERIODS_IN_HEAT: f64 = 1.5;

/// Moves by the heat of objects and the capacities of tiers.
///
/// - **Marks.** The walk tells how the bytes of each tier are distributed over heats. The marks
///   between the tiers are where the capacities divide that histogram; so they follow the load and
///   nobody sets them.
/// - **Periods.** The heat looks back far while the load stays as it is, and forgets most of the
///   past when the share of uses that the fastest tier serves falls.
/// - **In.** An object that is used comes into the tier where its heat belongs, if that is faster
///   than where it is, it stands out from the mark by a margin, the uses that it can expect pay
///   for the move and the way back, and there is room.
/// - **Out.** A tier that is fuller than it should be sends out what is coldest in it, until it is
///   not. New and written objects have no heat, so a burst of writes sends out only itself.
/// - **Not to and fro.** An object that has just come in stays for a round of the walk or two, and
///   each time that one comes back soon after it had gone doubles its margin.
/// - **Slowly.** No more bytes move in a second than the budget allows.
///
/// It knows 8 tiers at most.
#[derive(Clone, Debug)]
pub struct Adaptive {
    tiers: Vec<Tier>,
    costs: Vec<PairCosts>,
    cuts: Cuts,
    recent: Recent,
    budget: Budget,
    pace: Pace,
    /// Rounds of the walk, and the objects that it has met in this one.
    round: u16,
    met: u64,
    objects: u64,
    calls: u32,
    /// How objects of equal heat are ordered at present.
    turn: u8,
    moves: Moves,
}

#[derive(Clone, Debug)]
struct Tier {
    capacity: u64,
    histogram: Histogram,
    /// Sending objects out.
    out: Option<Out>,
    /// Bytes that found no room here; at most what a full tier makes free.
    wanted: u64,
    /// Bytes that went out in this period, and an average of the periods before.
    out_bytes: u64,
    out_average: Option<f64>,
}

/// What a tier sends out.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// All that does not belong in it: what is below this mark.
    mark: f32,
    /// As much as is needed: what is below this, in the order of this turn. Another turn orders
    /// objects of equal heat in another way. Otherwise none of them would be left that is below.
    needed: f32,
    turn: u8,
}

impl Out {
    fn has(&self, object: &Object) -> bool {
        rank(object) < self.mark || rank_in_turn(object, self.turn) < self.needed
    }
}

/// The moves that a policy has been told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Into a faster tier.
    pub inward: u64,
    /// Into a slower tier.
    pub outward: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// That could not be made.
    pub abandoned: u64,
    /// Put off, as the budget was spent.
    pub put_off: u64,
    /// Inward, of an object that had just gone outward.
    pub ping_pong: u64,
}

impl Adaptive {
    /// A policy for tiers of these capacities, in bytes of values before compression, and the
    /// costs of each pair of neighbours, so one less. What moves is no more than a number of bytes
    /// a second.
    pub fn new(capacities: &[u64], costs: &[PairCosts], bytes_per_second: u64) -> Adaptive {
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
            cuts: Cuts::new(tiers.len()),
            tiers,
            costs: costs.to_vec(),
            recent: Recent::new(),
            budget: Budget::new(bytes_per_second),
            pace: Pace::new(),
            round: 0,
            met: 0,
            objects: 0,
            calls: 0,
            turn: 0,
            moves: Moves::default(),
        }
    }

    /// A tier has now another capacity, because it compresses its values better or worse.
    pub fn set_capacity(&mut self, tier: usize, bytes: u64) {
        if let Some(tier) = self.tiers.get_mut(tier) {
            tier.capacity = bytes;
        }
    }

    /// Of the uses that the heat has, each stands for so many: it is told of one in as many, drawn
    /// by chance.
    #[must_use]
    pub fn with_uses_counted_as(mut self, uses: u16) -> Adaptive {
        self.cuts.count_as(uses);
        self
    }

    /// There are now so many objects, for a store that does not tell of each that appears or goes.
    pub fn set_objects(&mut self, objects: u64) {
        self.objects = objects;
    }

    /// A tier has now so many bytes, for a store that does not tell of each object.
    pub fn set_bytes(&mut self, tier: usize, bytes: u64) {
        if let Some(tier) = self.tiers.get_mut(tier) {
            tier.histogram.set_bytes(bytes);
        }
    }

    /// The bytes that are in a tier, as they were told.
    pub fn bytes(&self, tier: usize) -> u64 {
        self.tiers.get(tier).map_or(0, |tier| tier.histogram.bytes)
    }

    /// The marks as they are now. A store whose threads share the policy under a lock looks at a
    /// copy first: most used objects have no reason to move.
    pub fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// The moves so far.
    pub fn moves(&self) -> Moves {
        self.moves
    }

    fn count_call(&mut self) {
        self.calls += 1;
        if self.calls >= CALLS_BETWEEN_MARKS {
            self.set_marks();
        }
    }

    fn set_marks(&mut self) {
        self.calls = 0;
        self.turn = self.turn.wrapping_add(TURN);
        let mut room = 0.0;
        for upper in 0..self.tiers.len().saturating_sub(1) {
            room += self.tiers[upper].capacity as f64 * LOW;
            let at = |level| self.tiers.iter().map(|tier| tier.histogram.at(level)).sum();
            self.cuts.set(upper, mark_above(at, room));
        }
        for (number, tier) in self.tiers.iter_mut().enumerate() {
            tier.set_out(self.cuts.outward(number), self.turn);
        }
    }

    /// True if the uses that an object can expect in a faster tier pay for the way in and back.
    fn pays(&self, object: &Object, target: usize) -> bool {
        let Some(tier) = self.tiers.get(target) else {
            return false;
        };
        let pairs = self.costs.get(target..object.tier).unwrap_or_default();
        let break_even = pairs.iter().map(|pair| pair.break_even(object.bytes));
        let break_even = break_even.fold(0.0, f64::max);
        let uses = f64::from(Heat::uses(object.heat)) / PERIODS_IN_HEAT;
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

    /// Sends out what is coldest, twice as much as is needed so that half a walk finds it; and all
    /// that does not belong here.
    fn set_out(&mut self, mark: f32, turn: u8) {
        let deficit = self.deficit();
        let needed = || mark_below(|level| self.histogram.at(level), 2.0 * deficit as f64);
        self.out = (deficit > 0).then(|| Out {
            mark,
            needed: needed(),
            turn,
        });
    }

    /// Room for an object that comes in. It does not depend on the object's size alone, so that a
    /// full tier does not take only small ones.
    fn admits(&self, bytes: u64) -> bool {
        let used = self.histogram.bytes;
        used as f64 <= self.capacity as f64 * HIGH && used + bytes <= self.capacity
    }

    fn want(&mut self, bytes: u64) {
        let most = (self.capacity as f64 * (1.0 - LOW)) as u64;
        self.wanted = (self.wanted + bytes).min(most);
    }

    /// How long an object stays in the tier, by Little's law.
    fn stay_periods(&self) -> f64 {
        let (least, assumed, most) = STAY_PERIODS;
        match self.out_average {
            Some(out) => (self.histogram.bytes as f64 / out.max(1.0)).clamp(least, most),
            None => assumed,
        }
    }
}

impl Policy for Adaptive {
    fn used(&mut self, object: &Object, by: Use) -> Option<Move> {
        self.count_call();
        if object.tier == 0 || by == Use::Write && !self.writes_count() {
            return None;
        }
        let returns = self.recent.returns(object.hash, self.round);
        let step = self.cuts.inward(object, returns)?;
        if !self.pays(object, step.target) {
            return None;
        }
        let tier = self.tiers.get_mut(step.target)?;
        if !tier.admits(object.bytes) {
            tier.want(object.bytes);
            self.moves.abandoned += 1;
            return None;
        }
        if !self.budget.take(object.bytes) {
            self.moves.put_off += 1;
            return None;
        }
        Some(step)
    }

    fn met(&mut self, object: &Object) -> Option<Move> {
        self.count_call();
        self.met += 1;
        if self.met >= self.objects {
            self.met = 0;
            self.round = self.round.wrapping_add(1);
            self.set_marks();
        }
        let last = self.tiers.len().saturating_sub(1);
        let tier = self.tiers.get_mut(object.tier)?;
        tier.histogram.sample(object.heat, object.bytes);
        if tier.deficit() == 0 {
            tier.out = None;
            return None;
        }
        if tier.out.is_none() {
            tier.set_out(self.cuts.outward(object.tier), self.turn);
        }
        let out = tier.out?;
        let over_full = tier.histogram.bytes > tier.capacity;
        let is_young = self.recent.is(object.hash, Direction::Inward, self.round);
        if object.tier >= last || !out.has(object) || is_young && !over_full {
            return None;
        }
        // Who writes waits for a tier that has too much.
        if !self.budget.take(object.bytes) && !over_full {
            self.moves.put_off += 1;
            return None;
        }
        Some(Move::to(self.cuts.home(object, object.tier + 1)))
    }

    fn inserted(&mut self, object: &Object) {
        self.objects += 1;
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.join(object.heat, object.bytes);
        }
        self.count_call();
    }

    fn resized(&mut self, object: &Object, bytes_before: u64) {
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.leave(object.heat, bytes_before);
            tier.histogram.join(object.heat, object.bytes);
        }
    }

    fn removed(&mut self, object: &Object) {
        self.objects = self.objects.saturating_sub(1);
        if let Some(tier) = self.tiers.get_mut(object.tier) {
            tier.histogram.leave(object.heat, object.bytes);
        }
    }

    fn moved(&mut self, object: &Object, target: usize) {
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
            true => Direction::Inward,
            false => Direction::Outward,
        };
        let undoes = self.recent.note(object.hash, direction, self.round);
        self.moves.inward += u64::from(inward);
        self.moves.outward += u64::from(!inward);
        self.moves.ping_pong += u64::from(undoes);
        self.moves.bytes += object.bytes;
    }

    fn abandoned(&mut self, object: &Object, target: usize) {
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
            tier.histogram.age(Heat::half);
            let out = std::mem::take(&mut tier.out_bytes) as f64;
            tier.out_average = match tier.out_average {
                Some(average) => Some((average + out) / 2.0),
                None => (out > 0.0).then_some(out),
            };
        }
        self.set_marks();
    }

    fn passed(&mut self, now: Duration) {
        self.budget.passed(now);
    }
}
