//! The mover, which walks over all values in slices and carries those that should move.

use super::carry::{Carry, LoadedValue};
use super::grace::GracePeriod;
use super::judge::MoveJudge;
use super::{
    MOVED_BYTES_MIN, MovableValues, MovingValue, TierKeeper, USES_COUNTED, ValueName,
    ValuePosition, VisitedKey,
};
use crate::cold::ColdUse;
use crate::disk::PATIENCE;
use crate::place::ColdPlace;
use crate::policy::{PolicyChoice, PolicyObject};
use crate::tiers::Tiers;
use crate::usage::TierUsage;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of keys of a slice.
const SLICE_KEYS: usize = 64;
/// Number of uses of cold values that are processed, and of moves that begin, before other threads
/// may continue.
const USES_AT_ONCE: usize = 256;
const BEGUN_AT_ONCE: usize = 8;
/// Number of bytes of values that a slice looks for while values must leave, and the largest number
/// of keys that it walks over meanwhile. The values fill whole blocks of compressed memory: a block
/// of one value takes as long to compress as one of several, and hardly shrinks.
const LOAD_BYTES: u64 = 16 << 10;
const LOAD_KEYS_MAX: usize = 16 * SLICE_KEYS;
/// Number of cold values that need not leave, of which a walk in haste looks at one, for the
/// distribution of their heat. *Assumed.*
const COLD_VISITS: u32 = 8;
/// Maximum number of slices that are walked at once while nothing must leave.
const IDLE_SLICES_MAX: usize = 16;
/// Limits of objects that move, in bytes and as a divisor of the tier's capacity: objects move as a
/// whole, and a command on a larger one would wait too long.
const MOVED_BYTES_MAX: u64 = 4 << 20;
const MOVED_PART_MAX: u64 = 16;
/// Number of rounds of the walk for which a refused value is not offered again.
const REFUSED_ROUNDS: u64 = 8;
const REFUSED_ENTRIES: usize = 1 << 12;
/// Number of rounds in which nothing could leave a full memory after which nothing can.
const ROUNDS_IN_VAIN: u32 = 3;
/// Time, and number of rounds, for which it waits nevertheless if values should leave and a tier
/// has room for them: then the obstacle, such as files that are being written, is temporary. Rounds
/// are counted, too, because on a busy machine the threads it waits for make as little progress as
/// this one.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
const ROOM_ROUNDS: u32 = 32;
/// Delay until refused values are offered again.
const ROOM_WAIT: Duration = Duration::from_millis(2);

/// The state of the mover.
#[derive(Debug)]
pub(super) struct Mover<H> {
    judge: MoveJudge,
    hand: H,
    /// Values that a tier refused, by their hashes.
    refused: Box<[RefusalEntry]>,
    /// Number of bytes that were carried out of the memory since the round of the walk began.
    carried_in_round: u64,
    /// Number of bytes that were carried out of the memory since the start.
    carried: u64,
    /// Set if a value of the memory should have left since the round began.
    was_wanted: bool,
    round: u64,
    rounds_in_vain: u32,
    /// Time since when a tier has had room and taken nothing.
    waits_since: Option<Instant>,
    /// The period until the memory of carried values can be freed, and whether more values were
    /// carried since it began.
    grace: GracePeriod,
    carried_since: bool,
    /// Set while values move in haste, because threads wait for room.
    is_in_haste: bool,
    /// Number of cold values that the walk has met in haste.
    cold_visits: u32,
    /// Uses of cold values that were not processed yet.
    uses: Vec<ColdUse>,
    /// Hits, changes of keys and uses of cold values that were reported to the policy.
    reported: Uses,
}

/// A refusal of a value by a tier.
#[derive(Clone, Copy, Debug, Default)]
struct RefusalEntry {
    /// The hash of the value and the tier.
    hash: u64,
    /// The round of the walk until which the value is not offered again.
    until_round: u64,
}

/// A move that should begin.
struct PlannedMove {
    /// The policy's description of the value.
    object: PolicyObject,
    /// The tier that the value should move to.
    target: usize,
}

/// A move that has begun.
struct StartedMove<M> {
    value: LoadedValue<M>,
    /// The tier that the value should move to.
    target: usize,
}

/// A cold value that should perhaps move to a faster tier.
struct PromotionCandidate {
    key: ValueName,
    /// The policy's description of the value.
    object: PolicyObject,
    /// Set if the value must be in memory whatever the policy decides.
    is_pinned: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    all: u64,
    cold: u64,
}

impl<H: Default> Mover<H> {
    pub(super) fn new(tiers: &Tiers, choice: PolicyChoice) -> Mover<H> {
        Mover {
            judge: MoveJudge::new(tiers, USES_COUNTED, choice),
            hand: H::default(),
            // Until round 0, so that these entries refuse nothing.
            refused: vec![RefusalEntry::default(); REFUSED_ENTRIES].into_boxed_slice(),
            carried_in_round: 0,
            carried: 0,
            was_wanted: false,
            round: 0,
            rounds_in_vain: 0,
            waits_since: None,
            grace: GracePeriod::default(),
            carried_since: false,
            is_in_haste: false,
            cold_visits: 0,
            uses: Vec::new(),
            reported: Uses::default(),
        }
    }

    /// Returns true if the policy counts the uses of values in memory by itself.
    pub(super) fn counts_each_use(&self) -> bool {
        self.judge.counts_each_use()
    }

    /// Reports the uses since the last call to the policy, and returns their number.
    pub(super) fn report_uses(&mut self, values: &impl MovableValues, tiers: &Tiers) -> u64 {
        let served = |tier| {
            let traffic = values.cold().traffic(tier);
            traffic.map_or(0, |traffic| traffic.served.load(Ordering::Relaxed))
        };
        let now = Uses {
            all: values.uses(),
            cold: (1..tiers.count()).map(served).sum(),
        };
        // The store may have reset its counts.
        let uses = now.all.saturating_sub(self.reported.all);
        let cold = now.cold.saturating_sub(self.reported.cold).min(uses);
        self.reported = now;
        let periods = self.judge.report_uses(uses - cold, uses);
        (0..periods).for_each(|_| values.warmth().age());
        if self.judge.counts_each_use() {
            for (hash, uses) in values.warmth().take_each() {
                self.judge.used_in_memory(hash, uses);
            }
        } else {
            values.warmth().note_each(self.judge.learns());
        }
        uses
    }

    /// Returns the number of slices to walk during `uses` uses, if nothing must leave.
    pub(super) fn slices(&mut self, uses: u64, keys: u64) -> usize {
        let keys = self.judge.visit_share(uses) * keys as f64;
        // At least one, so that a round ends also in a store that is hardly used.
        ((keys / SLICE_KEYS as f64) as usize).clamp(1, IDLE_SLICES_MAX)
    }

    /// Returns true if a tier has less room than it should.
    pub(super) fn drains(&self, tiers: &Tiers) -> bool {
        (0..tiers.count()).any(|tier| self.judge.deficit(tier) > 0)
    }

    /// Counts the usage of all tiers.
    fn count(&mut self, values: &impl MovableValues, tiers: &Tiers, keeper: &TierKeeper<H>) {
        let size = keeper.count(values);
        self.judge.set_memory(size.bytes, size.keys as u64);
        for tier in 1..tiers.count() {
            if let Some(usage) = tiers.usage(tier) {
                self.judge.set_cold(tier, &usage);
            }
        }
    }

    /// Walks over the next keys and carries those that should move, whole loads of them while
    /// values must leave. Returns the bytes that left the memory. With `is_urgent`, another thread
    /// waits for room, so nothing else is done.
    pub(super) fn slice<V: MovableValues<Hand = H>>(
        &mut self,
        values: &V,
        tiers: &Tiers,
        keeper: &TierKeeper<H>,
        is_urgent: bool,
    ) -> u64 {
        let carried_before = self.carried;
        self.is_in_haste = is_urgent || keeper.is_in_haste();
        self.judge.set_haste(self.is_in_haste);
        self.count(values, tiers, keeper);
        let (mut planned, mut bytes, mut walked) = (Vec::new(), 0, 0);
        let ends_round = loop {
            keeper.step();
            let mut visited = Vec::with_capacity(SLICE_KEYS);
            let ends_round = values.walk(&mut self.hand, SLICE_KEYS, &mut visited);
            walked += SLICE_KEYS;
            for visited in visited {
                if self.may_skip() && bytes >= LOAD_BYTES {
                    // The rest comes with the next round. More values would keep a thread waiting.
                    break;
                }
                if let Some(plan) = self.plan(values, tiers, &visited) {
                    bytes += plan.object.bytes;
                    planned.push((visited.key, plan));
                }
            }
            let is_wanted = is_urgent || self.drains(tiers) && !keeper.is_waited_for();
            if ends_round || !is_wanted || bytes >= LOAD_BYTES || walked >= LOAD_KEYS_MAX {
                break ends_round;
            }
        };
        keep_whole_loads(tiers, &mut planned);
        let keys: Vec<&ValueName> = planned.iter().map(|(key, _)| key).collect();
        let begun = begin(values, keeper, &keys).into_iter().zip(&planned);
        let started = begun.filter_map(|(moving, (_, plan))| {
            Some(StartedMove {
                value: LoadedValue {
                    moving: moving?,
                    object: plan.object,
                },
                target: plan.target,
            })
        });
        self.carry(values, tiers, keeper, started.collect());
        if ends_round {
            self.end_round(values, tiers, keeper);
        }
        self.carried - carried_before
    }

    /// Ends a round of the walk: decides whether no move can make room any more, and sets
    /// `is_stuck` accordingly. Only a whole round decides, because a value that can leave may be
    /// the last of it.
    fn end_round(&mut self, values: &impl MovableValues, tiers: &Tiers, keeper: &TierKeeper<H>) {
        let exceeds_limit = keeper.memory_bytes() > keeper.memory_bytes_max();
        let is_in_vain = exceeds_limit && self.carried_in_round == 0;
        self.rounds_in_vain = if is_in_vain {
            self.rounds_in_vain + 1
        } else {
            0
        };
        // Room may still appear if memory is still to be freed, or if a tier has room for a value
        // that should leave. Neither may take too long.
        let waits_for_memory = is_in_vain && self.frees(values);
        let waits = waits_for_memory || is_in_vain && self.was_wanted && has_room(tiers);
        let patience = if waits_for_memory {
            PATIENCE
        } else {
            ROOM_PATIENCE
        };
        let since = self.waits_since.take().unwrap_or_else(Instant::now);
        let is_late = since.elapsed() >= patience && self.rounds_in_vain >= ROOM_ROUNDS;
        let is_stuck = self.rounds_in_vain >= ROUNDS_IN_VAIN && (!waits || is_late);
        keeper.is_stuck.store(is_stuck, Ordering::Relaxed);
        if waits {
            self.waits_since = Some(since);
            if !is_late {
                // A value that was refused long ago may fit now.
                self.refused.fill(RefusalEntry::default());
                std::thread::sleep(ROOM_WAIT);
            }
        }
        self.judge.end_round();
        self.was_wanted = false;
        self.carried_in_round = 0;
        self.round += 1;
        // Once in a round a move tries if a disk responds again.
        values.cold().forget_late();
    }

    /// Returns true if memory of carried values is still to be freed.
    fn frees(&mut self, values: &impl MovableValues) -> bool {
        if std::mem::take(&mut self.carried_since) {
            self.grace.begin();
        }
        self.grace.is_under_way() || values.frees()
    }

    /// Carries values, each to its tier. A value that a colder tier refuses moves to the next tier
    /// that accepts it.
    fn carry<V: MovableValues>(
        &mut self,
        values: &V,
        tiers: &Tiers,
        keeper: &TierKeeper<H>,
        started: Vec<StartedMove<V::Moving>>,
    ) {
        let mut loads: Vec<Vec<_>> = (0..tiers.count()).map(|_| Vec::new()).collect();
        for StartedMove { value, target } in started {
            debug_assert!(target < loads.len(), "the policy names tiers that exist");
            if let Some(load) = loads.get_mut(target) {
                load.push(value);
            }
        }
        // From fast to slow, because values that one tier refuses join the load of a later one.
        for to in 0..tiers.count() {
            let mut outcomes = Vec::new();
            let mut carry = Carry::new(values, tiers, to, self.is_in_haste);
            let mut done = |object, has_moved| {
                keeper.step();
                outcomes.push((object, has_moved));
            };
            let load = loads.get_mut(to).map(std::mem::take);
            for value in load.into_iter().flatten() {
                carry.add(value, &mut done);
            }
            carry.deliver(&mut done);
            for returned in carry.into_refused() {
                let object = returned.value.object;
                if returned.for_long {
                    self.refuse(object.hash, to);
                }
                let next = (to + 1..tiers.count())
                    .find(|&tier| object.tier < to && self.takes(tiers, &object, tier));
                match next.and_then(|next| loads.get_mut(next)) {
                    Some(load) => load.push(returned.value),
                    None => outcomes.push((object, false)),
                }
            }
            for (object, has_moved) in outcomes {
                self.note(keeper, &object, to, has_moved);
            }
        }
        let (ping_pong, put_off) = self.judge.ping_pong_and_put_off();
        keeper.ping_pong.store(ping_pong, Ordering::Relaxed);
        keeper.put_off.store(put_off, Ordering::Relaxed);
    }

    /// Notes the outcome of a move.
    fn note(&mut self, keeper: &TierKeeper<H>, object: &PolicyObject, to: usize, has_moved: bool) {
        if object.tier == to {
            // The value was put again within its tier, which is no move for the policy.
            return;
        }
        if !has_moved {
            self.judge.abandoned(object, to);
            return;
        }
        self.judge.moved(object, to);
        if object.tier == 0 {
            self.carried_since = true;
            self.carried_in_round += object.bytes;
            self.carried += object.bytes;
            self.rounds_in_vain = 0;
            keeper.note_carried(object.bytes);
        }
    }

    /// Returns true if a tier may have room for a value, and has not refused it recently.
    fn takes(&self, tiers: &Tiers, object: &PolicyObject, tier: usize) -> bool {
        let usage = tiers.usage(tier).unwrap_or_default();
        let has_room = usage.used_bytes + object.bytes <= usage.capacity_bytes;
        has_room
            && object.bytes <= usage.capacity_bytes / MOVED_PART_MAX
            && !self.is_refused(object.hash, tier)
    }

    /// Returns the move of a visited value that should begin now, if any.
    fn plan(
        &mut self,
        values: &impl MovableValues,
        tiers: &Tiers,
        visited: &VisitedKey,
    ) -> Option<PlannedMove> {
        if let ValuePosition::Place(place) = visited.at
            && self.passes(tiers, place)
        {
            self.judge.skip_cold();
            return None;
        }
        let (from, bytes) = match visited.at {
            ValuePosition::Memory(bytes) => (0, bytes),
            ValuePosition::Place(place) => (place.tier(), mean_bytes(tiers.usage(place.tier()))),
        };
        let hash = values.hash(&visited.key);
        let object = PolicyObject {
            hash,
            bytes,
            tier: from,
            heat: values.warmth().level(hash),
        };
        // Before the limits of a move, so that a sparse block is emptied of all its values.
        if let ValuePosition::Place(place) = visited.at {
            let rewrite = match self.is_in_haste || self.judge.deficit(0) > 0 {
                // Values must leave the memory, and only sparse blocks free room for them. A better
                // compression can wait.
                true => tiers.is_sparse(place),
                false => tiers.wants_rewrite(place),
            };
            if rewrite {
                if self.judge.needs_each_visit() {
                    // It may be put again in a later round, and stays in its tier anyway.
                    let _ = self.judge.visit(&object);
                }
                return Some(PlannedMove {
                    object,
                    target: from,
                });
            }
        }
        if !(MOVED_BYTES_MIN as u64..=MOVED_BYTES_MAX).contains(&bytes) {
            self.judge.visit_unmovable();
            return None;
        }
        let wanted = self.judge.visit(&object)?;
        debug_assert!(from < wanted && wanted < tiers.count());
        self.was_wanted |= from == 0;
        if values.is_pinned(&visited.key) {
            return None;
        }
        // If not there, then further down, or else between here and there.
        let target = (wanted..tiers.count())
            .chain(from + 1..wanted)
            .find(|&tier| self.takes(tiers, &object, tier))?;
        Some(PlannedMove { object, target })
    }

    /// Brings values that were used in cold tiers into faster ones: at least some, and all unless a
    /// thread waits.
    pub(super) fn bring_in<V: MovableValues<Hand = H>>(
        &mut self,
        values: &V,
        tiers: &Tiers,
        keeper: &TierKeeper<H>,
    ) {
        if self.uses.is_empty() {
            self.uses = values.cold().take_uses();
        }
        while !self.uses.is_empty() {
            let rest = self.uses.split_off(self.uses.len().min(USES_AT_ONCE));
            let uses = std::mem::replace(&mut self.uses, rest);
            self.bring(values, tiers, keeper, uses);
            if keeper.is_waited_for() {
                break;
            }
        }
    }

    fn bring<V: MovableValues<Hand = H>>(
        &mut self,
        values: &V,
        tiers: &Tiers,
        keeper: &TierKeeper<H>,
        uses: Vec<ColdUse>,
    ) {
        self.count(values, tiers, keeper);
        let mut candidates = Vec::new();
        for used in uses {
            let from = used.place.tier();
            let key = ValueName {
                part: used.part,
                key: used.key,
                node: used.node,
            };
            let hash = values.hash(&key);
            let object = PolicyObject {
                hash,
                bytes: mean_bytes(tiers.usage(from)),
                tier: from,
                heat: values.warmth().level(hash),
            };
            // Most used values have no reason to move, so they are not read.
            let is_pinned = values.is_pinned(&key);
            if is_pinned || self.judge.might_promote(&object) {
                candidates.push(PromotionCandidate {
                    key,
                    object,
                    is_pinned,
                });
            }
        }
        for candidates in candidates.chunks(SLICE_KEYS) {
            let keys: Vec<&ValueName> = candidates.iter().map(|it| &it.key).collect();
            let mut started = Vec::new();
            let begun = begin(values, keeper, &keys).into_iter();
            for (moving, candidate) in begun.zip(candidates) {
                let Some(moving) = moving else { continue };
                // Another use of the same value may have brought it in, or it was replaced.
                if moving.from() != candidate.object.tier {
                    continue;
                }
                let object = PolicyObject {
                    bytes: moving.value().len() as u64,
                    ..candidate.object
                };
                let target = match candidate.is_pinned {
                    true => Some(0),
                    false => self.judge.used(&object),
                };
                if let Some(target) = target {
                    started.push(StartedMove {
                        value: LoadedValue { moving, object },
                        target,
                    });
                }
            }
            self.carry(values, tiers, keeper, started);
        }
    }

    /// Returns true if the walk may pass values without a visit.
    fn may_skip(&self) -> bool {
        // A policy that counts by itself would take a value that it misses for a removed one.
        self.is_in_haste && !self.judge.needs_each_visit()
    }

    /// Returns true if the walk passes a cold value in haste: nothing must leave its tier, and
    /// putting it again frees no room.
    fn passes(&mut self, tiers: &Tiers, place: ColdPlace) -> bool {
        if !self.may_skip() || self.judge.deficit(place.tier()) > 0 || tiers.is_sparse(place) {
            return false;
        }
        self.cold_visits = self.cold_visits.wrapping_add(1);
        !self.cold_visits.is_multiple_of(COLD_VISITS)
    }

    fn refuse(&mut self, hash: u64, tier: usize) {
        let entry = RefusalEntry {
            hash: hash ^ tier as u64,
            until_round: self.round + REFUSED_ROUNDS,
        };
        // This may overwrite the entry of another value, which is then merely offered too early.
        if let Some(refused) = self.refused.get_mut(hash as usize % REFUSED_ENTRIES) {
            *refused = entry;
        }
    }

    fn is_refused(&self, hash: u64, tier: usize) -> bool {
        let entry = self.refused.get(hash as usize % REFUSED_ENTRIES);
        entry
            .is_some_and(|entry| entry.hash == hash ^ tier as u64 && self.round < entry.until_round)
    }
}

/// Leaves out the last planned moves that fill no block, if others fill one. The walk finds their
/// values again.
fn keep_whole_loads(tiers: &Tiers, planned: &mut Vec<(ValueName, PlannedMove)>) {
    let (mut bytes, mut whole) = (0, 0);
    for (number, (_, plan)) in planned.iter().enumerate() {
        let value_bytes = plan.object.bytes as usize;
        bytes += value_bytes;
        if tiers.is_batch(plan.target, bytes, value_bytes) {
            (bytes, whole) = (0, number + 1);
        }
    }
    if whole > 0 {
        planned.truncate(whole);
    }
}

/// Begins moves.
fn begin<V: MovableValues>(
    values: &V,
    keeper: &TierKeeper<V::Hand>,
    keys: &[&ValueName],
) -> Vec<Option<V::Moving>> {
    let mut begun = Vec::with_capacity(keys.len());
    // A few at a time, because each may wait for a disk, and a step tells waiting threads that this
    // one makes progress.
    for keys in keys.chunks(BEGUN_AT_ONCE) {
        begun.append(&mut values.begin(keys));
        keeper.step();
    }
    debug_assert_eq!(begun.len(), keys.len(), "each key has a result");
    begun
}

/// Returns true if a cold tier has room for the longest value that it takes.
fn has_room(tiers: &Tiers) -> bool {
    (1..tiers.count()).any(|tier| {
        let usage = tiers.usage(tier).unwrap_or_default();
        let room = usage.capacity_bytes.saturating_sub(usage.used_bytes);
        usage.capacity_bytes > 0 && room >= usage.capacity_bytes / MOVED_PART_MAX
    })
}

/// Returns the mean bytes of a cold tier's values. A value's own size is known only once it is
/// read.
fn mean_bytes(usage: Option<TierUsage>) -> u64 {
    let usage = usage.unwrap_or_default();
    let mean = usage.value_bytes / usage.values.max(1);
    mean.clamp(MOVED_BYTES_MIN as u64, MOVED_BYTES_MAX)
}
