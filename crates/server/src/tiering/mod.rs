//! Keeping each tier within its capacity, and what is used most in memory.
//!
//! A thread of its own, the *mover*, walks over all values in slices. While a tier is nearly full,
//! it carries what is used least out of it; `judge` says what that is. What clients have used
//! in a cold tier is noted ([`Cold::note_use`](crate::keyspace::Cold::note_use)), and the mover
//! brings it into memory if it is used enough. Nothing waits for a move (see
//! [`moving`](crate::keyspace::moving)).
//!
//! # When there is no room
//!
//! The mover is given bytes a second, so that it leaves the machine to clients. Clients that write
//! more than that help: before a command that takes memory, while the memory tier is full, their
//! thread [carries](Tiering::relieve) as much as is needed. If no cold tier takes anything, keys
//! are evicted, as `maxmemory-policy` says, or the command is refused.
//!
//! What counts as the memory that is in use: indexes, with the keys, and objects. Buffers of
//! connections and tables of the server are no values.

mod carry;
pub mod fetch;
mod hand;
mod judge;
pub mod pins;

use crate::eviction::Access;
use crate::keyspace::moving::{MOVED_BYTES_MIN, tier_of};
use crate::keyspace::{Database, Databases, Keyspace, Moving, Payload, Record, Unmoved};
use carry::{Carry, Delivery, Hold};
use hand::Hand;
use judge::{Judge, Value};
use nearfield_tiers::{Refused, Tiers};
use parking_lot::{Mutex, MutexGuard};
use pins::Pins;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The bytes a second that the mover carries. *Assumed*: a tenth of what a core copies and
/// compresses, and of what a good SSD writes.
const BYTES_PER_SECOND: u64 = 128 << 20;
/// How often the mover looks after the tiers.
const TICK: Duration = Duration::from_millis(10);
/// How long it works at once.
const WORK: Duration = Duration::from_millis(5);
/// The keys of a slice.
const SLICE_KEYS: usize = 64;
/// Objects that take more memory than this, or than this part of the tier, stay where they are:
/// they move as a whole, and a command on one would wait for too long.
const MOVED_BYTES_MAX: usize = 4 << 20;
const MOVED_PART_MAX: u64 = 16;
/// A value that a tier has refused is not offered again for so many rounds of the walk.
const REFUSED_ROUNDS: u64 = 8;
const REFUSED_ENTRIES: usize = 1 << 12;

/// What keeps the tiers of a server. See the [module](self).
#[derive(Debug, Default)]
pub struct Tiering {
    /// Of the memory tier; 0 if there are no tiers.
    memory_bytes_max: AtomicU64,
    /// What keys and values in memory took when that was counted last.
    memory_bytes: AtomicU64,
    /// The cold tiers take no more.
    is_stuck: AtomicBool,
    mover: Mutex<Option<Mover>>,
    /// Keys whose values stay in memory.
    pub pins: Pins,
}

/// The mover rests. See [`Tiering::still`].
#[derive(Debug)]
pub struct Still<'t> {
    _mover: MutexGuard<'t, Option<Mover>>,
}

/// What the mover works on.
#[derive(Clone, Copy, Debug)]
struct Store<'s> {
    keyspace: &'s Keyspace,
    access: &'s Access,
}

/// The state of the mover.
#[derive(Debug)]
struct Mover {
    judge: Judge,
    hand: Hand,
    /// Hashes of values that a tier has refused, each with the round of the walk.
    refused: Box<[(u64, u64)]>,
    /// Bytes that may be carried now.
    budget: u64,
    budgeted: Instant,
    /// Bytes that were carried out of the memory since the round of the walk began.
    carried_in_round: u64,
    round: u64,
}

impl Tiering {
    /// What keeps the tiers of a keyspace.
    pub fn new(keyspace: &Keyspace) -> Tiering {
        let Some(tiers) = keyspace.cold.tiers() else {
            return Tiering::default();
        };
        let specifications = tiers.specifications();
        let capacities = specifications.iter().map(|tier| tier.capacity_bytes);
        let memory = specifications.first().map_or(0, |tier| tier.capacity_bytes);
        Tiering {
            memory_bytes_max: AtomicU64::new(memory),
            mover: Mutex::new(Some(Mover {
                judge: Judge::new(capacities),
                hand: Hand::default(),
                refused: vec![(0, 0); REFUSED_ENTRIES].into_boxed_slice(),
                budget: 0,
                budgeted: Instant::now(),
                carried_in_round: 0,
                round: 0,
            })),
            ..Tiering::default()
        }
    }

    /// The capacity of the memory tier; 0 if there are no tiers.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max.load(Ordering::Relaxed)
    }

    /// What keys and values in memory took when that was counted last.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// True if the cold tiers have taken nothing, though the memory is full.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Has the mover rest until the result is dropped, so that no value is on its way. For who
    /// then enters the exclusive phase and counts.
    pub fn still(&self) -> Still<'_> {
        Still {
            _mover: self.mover.lock(),
        }
    }

    /// Counts what keys and values take in memory.
    fn count(&self, keyspace: &Keyspace, databases: &Databases) -> u64 {
        let index = databases.iter().map(Database::used_bytes).sum::<usize>();
        let bytes = (index + keyspace.heap.used_bytes()) as u64;
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Carries values out of the memory until it is within its capacity, and says whether it is.
    /// To be called without a phase, or with the keyspace for oneself, as `hold` says.
    pub fn relieve(
        &self,
        keyspace: &Keyspace,
        access: &Access,
        databases: Option<&Databases>,
    ) -> bool {
        let hold = databases.map_or(Hold::Each, Hold::Whole);
        let store = Store { keyspace, access };
        let is_over = || {
            let used = hold.enter(keyspace, |databases| self.count(keyspace, databases));
            used > self.memory_bytes_max()
        };
        if !is_over() {
            return true;
        }
        let mut mover = self.mover.lock();
        let (Some(mover), Some(tiers)) = (mover.as_mut(), keyspace.cold.tiers()) else {
            return true;
        };
        while is_over() {
            if self.is_stuck() {
                return false;
            }
            mover.slice(store, tiers, self, hold);
        }
        true
    }

    /// Looks after the tiers until it is to stop.
    pub fn keep(&self, keyspace: &Keyspace, access: &Access, stopping: &AtomicBool) {
        let store = Store { keyspace, access };
        let Some(tiers) = keyspace.cold.tiers() else {
            return;
        };
        while !stopping.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            let mut mover = self.mover.lock();
            let Some(mover) = mover.as_mut() else { return };
            mover.earn();
            mover.bring_in(store, tiers, self);
            let began = Instant::now();
            loop {
                mover.slice(store, tiers, self, Hold::Each);
                let drains = (0..tiers.count()).any(|tier| mover.judge.deficit(tier) > 0);
                if !drains || self.is_stuck() || mover.budget == 0 || began.elapsed() > WORK {
                    break;
                }
            }
        }
    }
}

impl Mover {
    /// Adds what may be carried by now.
    fn earn(&mut self) {
        let elapsed = self.budgeted.elapsed();
        let earned = (BYTES_PER_SECOND as f64 * elapsed.as_secs_f64()) as u64;
        self.budgeted = Instant::now();
        // What is left over for a tenth of a second is lost.
        self.budget = (self.budget + earned).min(BYTES_PER_SECOND / 10);
    }

    /// Counts what all tiers hold.
    fn count(&mut self, store: Store<'_>, tiers: &Tiers, tiering: &Tiering, databases: &Databases) {
        let memory = tiering.count(store.keyspace, databases);
        self.judge.set_used(0, memory);
        for tier in 1..tiers.count() {
            if let Some(usage) = tiers.usage(tier) {
                self.judge.set_used(tier, usage.used_bytes);
            }
        }
    }

    /// Goes over the next keys and carries what should go.
    fn slice(&mut self, store: Store<'_>, tiers: &Tiers, tiering: &Tiering, hold: Hold<'_>) {
        let keyspace = store.keyspace;
        let mut carries: Vec<Carry<'_>> = (0..tiers.count())
            .map(|tier| Carry::new(keyspace, tiers, tier))
            .collect();
        let mut leaving = Vec::new();
        hold.enter(keyspace, |databases| {
            self.count(store, tiers, tiering, databases);
            let mut entries = Vec::new();
            self.hand
                .step(databases, SLICE_KEYS, |database, key, stored| {
                    entries.push((database, key, stored));
                });
            for (database, key, stored) in entries {
                let Some(to) = self.destination(store, tiers, tiering, database, &key, &stored)
                else {
                    continue;
                };
                let begun = Moving::begin(keyspace, databases, (database, &key), MOVED_BYTES_MIN);
                leaving.extend(begun.ok().map(|moving| (moving, to)));
            }
        });
        let mut outcomes = Vec::new();
        let mut done = |delivery: &Delivery, to: usize, moved: Result<(), &Unmoved>| {
            outcomes.push((
                Value {
                    bytes: delivery.bytes,
                    tier: delivery.from,
                    frequency: 0,
                },
                to,
                hash_of(keyspace, delivery),
                moved.err().map(|error| {
                    matches!(
                        error,
                        Unmoved::Refused(Refused::Incompressible | Refused::TooLarge { .. })
                    )
                }),
            ));
        };
        for (moving, to) in leaving {
            if let Some(carry) = carries.get_mut(to) {
                carry.add(moving, hold, &mut |delivery, moved| {
                    done(delivery, to, moved);
                });
            }
        }
        for (to, carry) in carries.iter_mut().enumerate() {
            carry.deliver(hold, &mut |delivery, moved| done(delivery, to, moved));
        }
        for (value, to, hash, refused) in outcomes {
            match refused {
                None => {
                    self.judge.moved(&value, to);
                    self.budget = self.budget.saturating_sub(value.bytes);
                    if value.tier == 0 {
                        self.carried_in_round += value.bytes;
                        tiering.is_stuck.store(false, Ordering::Relaxed);
                    }
                }
                Some(for_long) if for_long => self.refuse(hash, to),
                Some(_) => {}
            }
        }
        if self.hand.rounds > self.round {
            let in_vain = self.judge.deficit(0) > 0 && self.carried_in_round == 0;
            tiering.is_stuck.store(in_vain, Ordering::Relaxed);
            self.round = self.hand.rounds;
            self.carried_in_round = 0;
        }
    }

    /// The tier that a value should move to now, if any.
    fn destination(
        &mut self,
        store: Store<'_>,
        tiers: &Tiers,
        tiering: &Tiering,
        database: usize,
        key: &[u8],
        stored: &[u8],
    ) -> Option<usize> {
        let record = Record::parse(stored);
        let from = tier_of(&record);
        let bytes = match record.payload {
            Payload::Inline(value) => value.len(),
            Payload::InSlot(slot) => {
                let object = store.keyspace.slots.open(slot);
                object.as_ref().map_or(0, |object| object.heap_bytes())
            }
            // As much as a value that is just worth it; what it really has is known when it is
            // read.
            Payload::InTier(_) => MOVED_BYTES_MIN,
        };
        if let Payload::InTier(place) = record.payload
            && tiers.wants_rewrite(place)
        {
            return Some(from);
        }
        if !(MOVED_BYTES_MIN..=MOVED_BYTES_MAX).contains(&bytes) {
            return None;
        }
        let frequency = store.access.noting().frequency(database, key);
        let value = Value {
            bytes: bytes as u64,
            tier: from,
            frequency,
        };
        if !self.judge.met(&value) || tiering.pins.has(database, key) {
            return None;
        }
        let hash = store.keyspace.stripes.hash(key) ^ database as u64;
        let takes = |tier: &usize| {
            let usage = tiers.usage(*tier).unwrap_or_default();
            let has_room = usage.used_bytes + value.bytes <= usage.capacity_bytes;
            has_room
                && value.bytes <= usage.capacity_bytes / MOVED_PART_MAX
                && !self.is_refused(hash, *tier)
        };
        (from + 1..tiers.count()).find(takes)
    }

    /// Brings values into memory that were used in cold tiers.
    fn bring_in(&mut self, store: Store<'_>, tiers: &Tiers, tiering: &Tiering) {
        let keyspace = store.keyspace;
        let uses = keyspace.cold.take_uses();
        if uses.is_empty() {
            return;
        }
        let mut leaving = Vec::new();
        let mut planned = 0;
        {
            let databases = keyspace.share();
            self.count(store, tiers, tiering, &databases);
            for used in uses {
                let frequency = store.access.noting().frequency(used.database, &used.key);
                let mut value = Value {
                    bytes: planned + MOVED_BYTES_MIN as u64,
                    tier: used.place.tier(),
                    frequency,
                };
                let is_pinned = tiering.pins.has(used.database, &used.key);
                if planned > self.budget || !is_pinned && !self.judge.used(&value) {
                    continue;
                }
                let place = (used.database, used.key.as_slice());
                let begun = Moving::begin(keyspace, &databases, place, MOVED_BYTES_MIN);
                let Ok(moving) = begun else { continue };
                // Another use of the same value may have brought it in, or it has been replaced.
                let bytes = moving.value.len() as u64;
                value.bytes = planned + bytes;
                if moving.from() != used.place.tier() || !is_pinned && !self.judge.used(&value) {
                    continue;
                }
                planned += bytes;
                leaving.push(moving);
            }
        }
        let mut carry = Carry::new(keyspace, tiers, 0);
        let mut moved = Vec::new();
        let mut done = |delivery: &Delivery, result: Result<(), &Unmoved>| {
            if result.is_ok() {
                moved.push((delivery.bytes, delivery.from));
            }
        };
        for moving in leaving {
            carry.add(moving, Hold::Each, &mut done);
        }
        carry.deliver(Hold::Each, &mut done);
        for (bytes, tier) in moved {
            let value = Value {
                bytes,
                tier,
                frequency: 0,
            };
            self.judge.moved(&value, 0);
            self.budget = self.budget.saturating_sub(bytes);
        }
    }

    fn refuse(&mut self, hash: u64, tier: usize) {
        let entry = (hash ^ tier as u64, self.hand.rounds + REFUSED_ROUNDS);
        if let Some(refused) = self.refused.get_mut(hash as usize % REFUSED_ENTRIES) {
            *refused = entry;
        }
    }

    fn is_refused(&self, hash: u64, tier: usize) -> bool {
        let entry = self.refused.get(hash as usize % REFUSED_ENTRIES);
        entry
            .is_some_and(|(known, until)| *known == hash ^ tier as u64 && self.hand.rounds < *until)
    }
}

fn hash_of(keyspace: &Keyspace, delivery: &Delivery) -> u64 {
    keyspace.stripes.hash(&delivery.key) ^ delivery.database as u64
}
