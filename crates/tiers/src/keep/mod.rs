//! The keeper, which keeps each tier within its capacity, and the values used most in memory.
//!
//! A thread of the store [keeps](TierKeeper::keep) its values: it walks over all of them in slices.
//! The policy (`judge.rs`) decides which leave a tier that is nearly full. Uses in a cold tier are
//! noted ([`ColdTiers::note_use`](crate::cold::ColdTiers::note_use)), and the policy decides which
//! of these values move to a faster one. No command waits for a move (see [`claim`](crate::claim)).
//! The keeper accesses the store through [`MovableValues`].
//!
//! # When there is no room
//!
//! The policy limits the bytes moved per second, so that moves leave the machine to other threads.
//! Threads that write faster than that help: before they allocate memory, while the memory tier is
//! full, they [carry](TierKeeper::relieve) as many values out as is needed. They wait for a thread
//! that is already moving values, because that makes room, too. Each of its steps restarts their
//! timeout. If it has made no step for [`PATIENCE`], it waits for a disk that does not respond:
//! then there is no room, and no thread waits until the disk has responded.
//!
//! Memory that a move has replaced stays in use until no reader can use it, and a reader may be a
//! thread that is not running. Writers also wait for memory that is [still to be
//! freed](MovableValues::frees).
//!
//! # When there is nothing to do
//!
//! While all values are in memory and have room there, there is no walk, and no use is
//! [noted](Warmth::warm) for the policy.
//!
//! # Policies
//!
//! The policy is a [`PolicyChoice`]. ADM's policy counts each use of a value by itself, so
//! [`Warmth`] counts uses by the hashes of their keys for it, instead of heat.

mod carry;
mod grace;
mod judge;
mod mover;
#[cfg(test)]
mod tests;
mod values;
mod warmth;

pub use values::{
    MovableValues, MovingValue, StoreMemorySize, ValueName, ValuePosition, VisitedKey,
};
pub use warmth::{USES_COUNTED, Warmth};

use crate::disk::PATIENCE;
use crate::policy::PolicyChoice;
use crate::tiers::Tiers;
use mover::Mover;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of bytes from which values move by themselves: the places of smaller ones would use as
/// much.
pub const MOVED_BYTES_MIN: usize = 64;
/// Delay between two runs of the keeper.
const TICK: Duration = Duration::from_millis(10);
/// Time that a run takes.
const WORK: Duration = Duration::from_millis(5);
/// Niceness of the keeper's thread, from 0 to 19. *Assumed*: at 10 it still gets a tenth of a
/// processor that other threads use fully.
const NICENESS: libc::c_int = 10;
/// The part of the memory tier in use from which uses are noted for the policy. *Assumed*: by the
/// time when it is full, the hot values are known.
const WARM_PART: f64 = 0.75;

/// The keeper of a store's tiers. Its walk has a cursor `H`. See the [module](self).
#[derive(Debug)]
pub struct TierKeeper<H> {
    /// Capacity of the memory tier; 0 if there are no tiers.
    memory_bytes_max: u64,
    /// Number of bytes of keys and values in memory when they were counted last.
    memory_bytes: AtomicU64,
    /// Set if the cold tiers accept nothing more.
    is_stuck: AtomicBool,
    /// Number of moves of values that had just moved the other way.
    ping_pong: AtomicU64,
    /// Number of moves that wait, because many bytes have moved recently.
    put_off: AtomicU64,
    mover: Mutex<Option<Mover<H>>>,
    /// Number of steps that movers have made.
    steps: AtomicU64,
    /// Number of threads that wait for the mover.
    waiting: AtomicUsize,
    /// Set if the thread with the mover has made no step for longer than others wait.
    is_held_up: AtomicBool,
    /// Time that other threads wait for a step.
    patience: Duration,
}

/// A guard during which the keeper moves no value. See [`TierKeeper::pause`].
#[derive(Debug)]
pub struct KeeperPause<'k, H> {
    mover: MutexGuard<'k, Option<Mover<H>>>,
}

impl<H: Default> TierKeeper<H> {
    /// Creates the keeper of these tiers, with the policy that is the default; without tiers it
    /// does nothing.
    pub fn new(tiers: Option<&Tiers>) -> TierKeeper<H> {
        TierKeeper::with_policy(tiers, PolicyChoice::default())
    }

    /// Creates the keeper of these tiers like [`new`](TierKeeper::new), with a policy.
    pub fn with_policy(tiers: Option<&Tiers>, choice: PolicyChoice) -> TierKeeper<H> {
        let memory = tiers.and_then(|tiers| tiers.specifications().first());
        TierKeeper {
            memory_bytes_max: memory.map_or(0, |tier| tier.capacity_bytes),
            memory_bytes: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
            ping_pong: AtomicU64::new(0),
            put_off: AtomicU64::new(0),
            mover: Mutex::new(tiers.map(|tiers| Mover::new(tiers, choice))),
            steps: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_held_up: AtomicBool::new(false),
            patience: PATIENCE,
        }
    }

    /// Returns the capacity of the memory tier; 0 if there are no tiers.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max
    }

    /// Returns the bytes of keys and values in memory when they were counted last.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns true if the cold tiers accepted nothing although the memory is full.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Returns the number of moves of values that had just moved the other way, and of moves that
    /// were put off because many bytes had moved.
    pub fn ping_pong_and_put_off(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.ping_pong), count(&self.put_off))
    }

    /// Returns true if the policy must know the uses: the memory fills, or a value is cold.
    fn wakes(&self, tiers: &Tiers) -> bool {
        let nearly = self.memory_bytes_max as f64 * WARM_PART;
        let is_cold = |tier| tiers.values(tier) > 0;
        self.memory_bytes() as f64 > nearly || (1..tiers.count()).any(is_cold)
    }

    /// Makes the keeper rest until the result is dropped, so that no value is being moved. For a
    /// caller that then has the store to itself.
    pub fn pause(&self) -> KeeperPause<'_, H> {
        KeeperPause {
            mover: self.mover.lock(),
        }
    }

    /// Makes the keeper rest like [`pause`](TierKeeper::pause), for a caller that must not wait for
    /// a disk that does not respond: returns `None` if the thread that moves values waits for one.
    pub fn try_pause(&self) -> Option<KeeperPause<'_, H>> {
        let mover = self.mover_while(|| true)?;
        Some(KeeperPause { mover })
    }

    /// Notes that the thread with the mover makes progress: it does not wait for a disk.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if another thread waits for the mover.
    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Locks the mover, as long as it `is_needed`; returns `None` also if the thread with the mover
    /// waits for a disk that does not respond.
    fn mover_while(
        &self,
        is_needed: impl Fn() -> bool,
    ) -> Option<MutexGuard<'_, Option<Mover<H>>>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mover = self.wait_for_mover(is_needed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        mover
    }

    fn wait_for_mover(
        &self,
        is_needed: impl Fn() -> bool,
    ) -> Option<MutexGuard<'_, Option<Mover<H>>>> {
        let steps = || self.steps.load(Ordering::Relaxed);
        let (mut since, mut seen) = (Instant::now(), steps());
        loop {
            // After one thread's timeout others only try, until the mover is free again.
            let is_held_up = self.is_held_up.load(Ordering::Relaxed);
            let patience = if is_held_up { Duration::ZERO } else { TICK };
            if let Some(mover) = self.mover.try_lock_for(patience) {
                self.is_held_up.store(false, Ordering::Relaxed);
                return Some(mover);
            }
            if is_held_up || !is_needed() {
                return None;
            }
            let made = steps();
            if made != seen {
                // A step restarts the timeout, because a slow mover still makes room.
                (since, seen) = (Instant::now(), made);
            }
            if since.elapsed() >= self.patience {
                self.is_held_up.store(true, Ordering::Relaxed);
                return None;
            }
        }
    }

    /// Counts the store's bytes and keys in memory.
    fn count(&self, values: &impl MovableValues) -> StoreMemorySize {
        let size = values.size();
        self.memory_bytes.store(size.bytes, Ordering::Relaxed);
        size
    }

    fn exceeds_capacity(&self, values: &impl MovableValues) -> bool {
        self.count(values).bytes > self.memory_bytes_max
    }

    /// Carries values out of the memory until it is within its capacity, and returns whether it is.
    /// While another thread does so, waits for it, until that thread has made no step for
    /// [`PATIENCE`].
    pub fn relieve<V: MovableValues<Hand = H>>(&self, values: &V) -> bool {
        let mut mover = loop {
            if !self.exceeds_capacity(values) {
                return true;
            }
            match self.mover_while(|| self.exceeds_capacity(values)) {
                Some(mover) => break mover,
                None if self.is_held_up.load(Ordering::Relaxed) => return false,
                // There was room, which another thread may have used.
                None => {}
            }
        };
        let (Some(mover), Some(tiers)) = (mover.as_mut(), values.cold().tiers()) else {
            return true;
        };
        while self.exceeds_capacity(values) {
            if self.is_stuck() {
                // Each waiting thread is refused at once until a value has left again.
                return false;
            }
            mover.slice(values, tiers, self, true);
        }
        true
    }

    /// Carries values into room that was made in cold tiers, for at most `slices` slices. For a
    /// caller that has the store to itself, and made the keeper rest before.
    pub fn carry_on<V: MovableValues<Hand = H>>(
        &self,
        still: &mut KeeperPause<'_, H>,
        values: &V,
        slices: usize,
    ) {
        if let (Some(mover), Some(tiers)) = (still.mover.as_mut(), values.cold().tiers()) {
            for _ in 0..slices {
                mover.slice(values, tiers, self, true);
                if !self.exceeds_capacity(values) {
                    break;
                }
            }
        }
    }

    /// Keeps the tiers within their capacities until `stopping` is set.
    pub fn keep<V: MovableValues<Hand = H>>(&self, values: &V, stopping: &AtomicBool) {
        let Some(tiers) = values.cold().tiers() else {
            return;
        };
        yield_to_others();
        let counts_each_use = |mover: &Mover<H>| mover.counts_each_use();
        if self.mover.lock().as_ref().is_some_and(counts_each_use) {
            values.warmth().count_each();
        }
        while !stopping.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            // May take seconds, so it is done before the mover is locked.
            tiers.tend();
            let keys = self.count(values).keys;
            let wakes = self.wakes(tiers);
            values.warmth().warm(wakes);
            let mut held = self.mover.lock();
            self.is_held_up.store(false, Ordering::Relaxed);
            let Some(mover) = held.as_mut() else { return };
            let uses = mover.report_uses(values, tiers);
            if !wakes {
                continue;
            }
            values.warmth().make_for(keys);
            mover.bring_in(values, tiers, self);
            let (began, mut slices) = (Instant::now(), mover.slices(uses, keys as u64));
            // A tier without room is drained for as long as a run may take. Otherwise the walk
            // keeps the pace of the uses.
            while slices > 0 || mover.drains(tiers) && !self.is_stuck() {
                mover.slice(values, tiers, self, false);
                slices = slices.saturating_sub(1);
                // This thread runs at a lower priority. On a busy machine it may not run for long,
                // so it leaves the mover to a thread that waits after each few values.
                if began.elapsed() > WORK || self.is_waited_for() {
                    break;
                }
            }
            // A waiting thread gets the mover before this thread can lock it again.
            MutexGuard::unlock_fair(held);
        }
    }
}

/// Makes the system prefer other threads to this one when they compete for a processor.
fn yield_to_others() {
    // Linux applies it to the calling thread. If it fails, the keeper only runs at normal priority.
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}
