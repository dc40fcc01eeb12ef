//! Keeping each tier within its capacity, and what is used most in memory.
//!
//! A thread of its own, the *mover*, walks over all values in slices. The policy
//! (`judge.rs`) says which go out of a tier that is nearly full. What clients have used in a cold
//! tier is noted ([`Cold::note_use`](crate::keyspace::Cold::note_use)), and the policy says which
//! of it comes into a faster one. Nothing waits for a move (see
//! [`moving`](crate::keyspace::moving)).
//!
//! # When there is no room
//!
//! The policy has bytes a second, so that moves leave the machine to clients. Clients that write
//! more than that help: before a command that takes memory, while the memory tier is full, their
//! thread [carries](Tiering::relieve) as much as is needed. If no cold tier takes anything, keys
//! are evicted, as `maxmemory-policy` says, or the command is refused.
//!
//! What counts as the memory that is in use: indexes, with the keys, and objects. Buffers of
//! connections and tables of the server are no values.
//!
//! # When there is nothing to do
//!
//! While all values are in memory and have room there, nobody walks, and no use is
//! [noted](crate::eviction::Access::warm) for the policy.

mod carry;
pub mod fetch;
mod hand;
mod judge;
mod mover;
pub mod pins;

use crate::eviction::Access;
use crate::keyspace::{Database, Databases, Keyspace};
use carry::Hold;
use mover::Mover;
use nearfield_tiers::Tiers;
use parking_lot::{Mutex, MutexGuard};
use pins::Pins;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the mover looks after the tiers.
const TICK: Duration = Duration::from_millis(10);
/// How long it works at once.
const WORK: Duration = Duration::from_millis(5);
/// Uses are noted for the policy when more than this part of the memory tier is in use. *Assumed*:
/// by the time when it is full, it is known what is used.
const WARM_PART: f64 = 0.75;

/// Slices that are walked each time that keys were evicted. *Assumed*: little enough for who waits.
const SLICES_AFTER_EVICTION: usize = 8;

/// What keeps the tiers of a server. See the [module](self).
#[derive(Debug, Default)]
pub struct Tiering {
    /// Of the memory tier; 0 if there are no tiers.
    memory_bytes_max: AtomicU64,
    /// What keys and values in memory took when that was counted last.
    memory_bytes: AtomicU64,
    /// The cold tiers take no more.
    is_stuck: AtomicBool,
    /// Moves of values that had just moved the other way.
    ping_pong: AtomicU64,
    /// Moves that wait, because so many bytes have moved of late.
    put_off: AtomicU64,
    mover: Mutex<Option<Mover>>,
    /// Keys whose values stay in memory.
    pub pins: Pins,
}

/// The mover rests. See [`Tiering::still`].
#[derive(Debug)]
pub struct Still<'t> {
    mover: MutexGuard<'t, Option<Mover>>,
}

/// What the mover works on.
#[derive(Clone, Copy, Debug)]
struct Store<'s> {
    keyspace: &'s Keyspace,
    access: &'s Access,
    /// A client waits for room, so that nothing else is done.
    is_urgent: bool,
}

impl Tiering {
    /// What keeps the tiers of a keyspace.
    pub fn new(keyspace: &Keyspace) -> Tiering {
        let Some(tiers) = keyspace.cold.tiers() else {
            return Tiering::default();
        };
        let memory = tiers.specifications().first();
        Tiering {
            memory_bytes_max: AtomicU64::new(memory.map_or(0, |tier| tier.capacity_bytes)),
            mover: Mutex::new(Some(Mover::new(tiers))),
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

    /// How many values came back that had just gone, and how many moves were put off because so
    /// many bytes had moved.
    pub fn ping_pong_and_put_off(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.ping_pong), count(&self.put_off))
    }

    /// True if the policy has to know what is used: the memory fills, or a value is cold.
    fn wakes(&self, tiers: &Tiers) -> bool {
        let nearly = self.memory_bytes_max() as f64 * WARM_PART;
        let is_cold = |tier| tiers.values(tier) > 0;
        self.memory_bytes() as f64 > nearly || (1..tiers.count()).any(is_cold)
    }

    /// Has the mover rest until the result is dropped, so that no value is on its way. For who
    /// then enters the exclusive phase and counts.
    pub fn still(&self) -> Still<'_> {
        Still {
            mover: self.mover.lock(),
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
        let store = Store {
            keyspace,
            access,
            is_urgent: true,
        };
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

    /// Carries values into room that was made in cold tiers, as far as some slices go. For who has
    /// the keyspace to itself, and had the mover rest before.
    pub fn carry_on(
        &self,
        still: &mut Still<'_>,
        keyspace: &Keyspace,
        access: &Access,
        databases: &Databases,
    ) {
        let store = Store {
            keyspace,
            access,
            is_urgent: true,
        };
        if let (Some(mover), Some(tiers)) = (still.mover.as_mut(), keyspace.cold.tiers()) {
            for _ in 0..SLICES_AFTER_EVICTION {
                mover.slice(store, tiers, self, Hold::Whole(databases));
                if self.count(keyspace, databases) <= self.memory_bytes_max() {
                    break;
                }
            }
        }
    }

    /// Looks after the tiers until it is to stop.
    pub fn keep(&self, keyspace: &Keyspace, access: &Access, stopping: &AtomicBool) {
        let store = Store {
            keyspace,
            access,
            is_urgent: false,
        };
        let Some(tiers) = keyspace.cold.tiers() else {
            return;
        };
        while !stopping.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            tiers.tend();
            let keys = {
                let databases = keyspace.share();
                self.count(keyspace, &databases);
                let keys: usize = databases.iter().map(|it| it.len().unwrap_or(0)).sum();
                keys
            };
            let wakes = self.wakes(tiers);
            access.warm(wakes);
            let mut mover = self.mover.lock();
            let Some(mover) = mover.as_mut() else { return };
            let uses = mover.tell_uses(store, tiers);
            if !wakes {
                continue;
            }
            access.make_heat_for(keys);
            mover.bring_in(store, tiers, self);
            let (began, mut slices) = (Instant::now(), mover.slices(uses, keys as u64));
            while slices > 0 || mover.drains(tiers) && !self.is_stuck() {
                mover.slice(store, tiers, self, Hold::Each);
                slices = slices.saturating_sub(1);
                if began.elapsed() > WORK {
                    break;
                }
            }
        }
    }
}
