//! Keeping each tier within its capacity, and what is used most in memory.
//!
//! A thread of the store [keeps](Keeper::keep) its values: it walks over all of them in slices. The
//! policy (`judge.rs`) says which go out of a tier that is nearly full. What was used in a cold
//! tier is noted ([`Cold::note_use`](crate::cold::Cold::note_use)), and the policy says which of it
//! comes into a faster one. Nothing waits for a move (see [`claim`](crate::claim)). The store is
//! known as [`Values`].
//!
//! # When there is no room
//!
//! The policy has bytes a second, so that moves leave the machine to others. Those who write more
//! than that help: before they take memory, while the memory tier is full, they
//! [carry](Keeper::relieve) as much as is needed. They wait for whoever is moving values, as that
//! makes room, too. That one may be slow: the thread of the store stands back behind others, so
//! that on a busy machine it is not run for long. It therefore gives way after a few values to who
//! waits, and each of its [steps](Mover) renews the patience of those. One in which nothing has
//! moved for as long as [`PATIENCE`] waits for a disk that does not answer: then there is no room,
//! and nobody waits until the disk has answered.
//!
//! What a move has replaced takes memory until no reader can be at it, and a reader may be a thread
//! that is not run. Memory that is [still to be freed](Values::frees) is waited for, too.
//!
//! # When there is nothing to do
//!
//! While all values are in memory and have room there, nobody walks, and no use is
//! [noted](Warmth::warm) for the policy.

mod carry;
mod grace;
mod judge;
mod mover;
#[cfg(test)]
mod tests;
mod values;
mod warmth;

pub use values::{At, Met, Moving, Named, Size, Values};
pub use warmth::{USES_COUNTED, Warmth};

use crate::disk::PATIENCE;
use crate::tiers::Tiers;
use mover::Mover;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Values of fewer bytes do not move by themselves: their places would take as much.
pub const MOVED_BYTES_MIN: usize = 64;
/// How often the keeper looks after the tiers.
const TICK: Duration = Duration::from_millis(10);
/// How long it works at once.
const WORK: Duration = Duration::from_millis(5);
/// How much the keeper stands back behind other threads, from 0 to 19. *Assumed*: at 10 it still
/// has a tenth of a processor that others want whole.
const NICENESS: libc::c_int = 10;
/// Uses are noted for the policy when more than this part of the memory tier is in use. *Assumed*:
/// by the time when it is full, it is known what is used.
const WARM_PART: f64 = 0.75;

/// What keeps the tiers of a store, whose walk stands at a hand `H`. See the [module](self).
#[derive(Debug)]
pub struct Keeper<H> {
    /// Of the memory tier; 0 if there are no tiers.
    memory_bytes_max: u64,
    /// What keys and values in memory took when that was counted last.
    memory_bytes: AtomicU64,
    /// The cold tiers take no more.
    is_stuck: AtomicBool,
    /// Moves of values that had just moved the other way.
    ping_pong: AtomicU64,
    /// Moves that wait, because so many bytes have moved of late.
    put_off: AtomicU64,
    mover: Mutex<Option<Mover<H>>>,
    /// Steps that movers have made.
    steps: AtomicU64,
    /// Threads that wait for the mover.
    waiting: AtomicUsize,
    /// Who has the mover has made no step for longer than others wait.
    is_held_up: AtomicBool,
    /// How long others wait for a step.
    patience: Duration,
}

/// No value is moved by the keeper meanwhile. See [`Keeper::still`].
#[derive(Debug)]
pub struct Still<'k, H> {
    mover: MutexGuard<'k, Option<Mover<H>>>,
}

impl<H: Default> Keeper<H> {
    /// What keeps these tiers; of a store without tiers, nothing.
    pub fn new(tiers: Option<&Tiers>) -> Keeper<H> {
        let memory = tiers.and_then(|tiers| tiers.specifications().first());
        Keeper {
            memory_bytes_max: memory.map_or(0, |tier| tier.capacity_bytes),
            memory_bytes: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
            ping_pong: AtomicU64::new(0),
            put_off: AtomicU64::new(0),
            mover: Mutex::new(tiers.map(Mover::new)),
            steps: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_held_up: AtomicBool::new(false),
            patience: PATIENCE,
        }
    }

    /// The capacity of the memory tier; 0 if there are no tiers.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max
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
        let nearly = self.memory_bytes_max as f64 * WARM_PART;
        let is_cold = |tier| tiers.values(tier) > 0;
        self.memory_bytes() as f64 > nearly || (1..tiers.count()).any(is_cold)
    }

    /// Has the keeper rest until the result is dropped, so that no value is on its way. For who
    /// then has the store to itself.
    pub fn still(&self) -> Still<'_, H> {
        Still {
            mover: self.mover.lock(),
        }
    }

    /// As [`still`](Keeper::still), for who must not wait for a disk that does not answer: `None`
    /// if whoever moves values does so.
    pub fn still_unless_held_up(&self) -> Option<Still<'_, H>> {
        let mover = self.mover_while(|| true)?;
        Some(Still { mover })
    }

    /// Notes that whoever has the mover goes on: it does not wait for a disk.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// True if another thread waits for the mover.
    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The mover, while it `is_needed`; `None` also if whoever has it waits for a disk that does
    /// not answer.
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
                (since, seen) = (Instant::now(), made);
            }
            if since.elapsed() >= self.patience {
                self.is_held_up.store(true, Ordering::Relaxed);
                return None;
            }
        }
    }

    /// Counts what the store takes in memory.
    fn count(&self, values: &impl Values) -> Size {
        let size = values.size();
        self.memory_bytes.store(size.bytes, Ordering::Relaxed);
        size
    }

    fn is_over(&self, values: &impl Values) -> bool {
        self.count(values).bytes > self.memory_bytes_max
    }

    /// Carries values out of the memory until it is within its capacity, and says whether it is.
    /// While another thread does so, waits for it, until that has made no step for [`PATIENCE`].
    pub fn relieve<V: Values<Hand = H>>(&self, values: &V) -> bool {
        let mut mover = loop {
            if !self.is_over(values) {
                return true;
            }
            match self.mover_while(|| self.is_over(values)) {
                Some(mover) => break mover,
                None if self.is_held_up.load(Ordering::Relaxed) => return false,
                // There was room, which another thread may have taken.
                None => {}
            }
        };
        let (Some(mover), Some(tiers)) = (mover.as_mut(), values.cold().tiers()) else {
            return true;
        };
        while self.is_over(values) {
            if self.is_stuck() {
                return false;
            }
            mover.slice(values, tiers, self, true);
        }
        true
    }

    /// Carries values into room that was made in cold tiers, as far as so many slices go. For who
    /// has the store to itself, and had the keeper rest before.
    pub fn carry_on<V: Values<Hand = H>>(
        &self,
        still: &mut Still<'_, H>,
        values: &V,
        slices: usize,
    ) {
        if let (Some(mover), Some(tiers)) = (still.mover.as_mut(), values.cold().tiers()) {
            for _ in 0..slices {
                mover.slice(values, tiers, self, true);
                if !self.is_over(values) {
                    break;
                }
            }
        }
    }

    /// Looks after the tiers until it is to stop.
    pub fn keep<V: Values<Hand = H>>(&self, values: &V, stopping: &AtomicBool) {
        let Some(tiers) = values.cold().tiers() else {
            return;
        };
        yield_to_others();
        while !stopping.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            tiers.tend();
            let keys = self.count(values).keys;
            let wakes = self.wakes(tiers);
            values.warmth().warm(wakes);
            let mut held = self.mover.lock();
            self.is_held_up.store(false, Ordering::Relaxed);
            let Some(mover) = held.as_mut() else { return };
            let uses = mover.tell_uses(values, tiers);
            if !wakes {
                continue;
            }
            values.warmth().make_for(keys);
            mover.bring_in(values, tiers, self);
            let (began, mut slices) = (Instant::now(), mover.slices(uses, keys as u64));
            while slices > 0 || mover.drains(tiers) && !self.is_stuck() {
                mover.slice(values, tiers, self, false);
                slices = slices.saturating_sub(1);
                if began.elapsed() > WORK || self.is_waited_for() {
                    break;
                }
            }
            // Who waits has the mover before this thread can ask for it again.
            MutexGuard::unlock_fair(held);
        }
    }
}

/// Has the system prefer other threads to this one where they want the same processor.
fn yield_to_others() {
    // Linux means the calling thread. That it refuses makes no difference to what is kept.
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}
