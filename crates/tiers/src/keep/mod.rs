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
//! full, they [carry](TierKeeper::relieve) as many values out as is needed, and a few more. From
//! then on, for about a second, all moves are in haste: any of the coldest values of the memory
//! leave, and the walk passes the cold tiers. A search for the very coldest would visit dozens of
//! keys for each value that leaves. Writers wait for a thread
//! that is already moving values, because that makes room, too. Each of its steps restarts their
//! timeout. If it has made no step for [`PATIENCE`], it waits for a disk that does not respond:
//! then there is no room, and no thread waits until the disk has responded.
//!
//! A thread that also serves clients which need no room waits [briefly](BRIEF_PATIENCE) only, for a
//! disk as well as for another thread. It makes the clients that need room wait, and goes on with
//! the others ([`relieve_briefly`](TierKeeper::relieve_briefly)).
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

use crate::disk::{PATIENCE, with_patience};
use crate::policy::PolicyChoice;
use crate::tiers::Tiers;
use mover::Mover;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
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
/// Time that a thread which serves clients waits for a disk, or for another thread that makes no
/// step. *Assumed*: a disk that works writes a buffer in a part of it.
pub const BRIEF_PATIENCE: Duration = Duration::from_millis(20);
/// The part of the memory tier, one in this number, and the number of bytes at most, that a thread
/// frees beyond the room that it needs, so that the next writes need not wait. *Assumed*: a
/// millisecond of moves.
const SPARE_PART: u64 = 256;
const SPARE_BYTES_MAX: u64 = 64 << 10;
/// Number of runs of the keeper after a thread has waited for room during which values move in
/// haste. *Assumed*: about a second, so that steady writes are hasty throughout.
const HASTY_RUNS: u32 = 100;
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
    /// Number of runs of the keeper in which values still move in haste.
    hasty_runs: AtomicU32,
    /// Number of bytes that have left the memory since the start.
    carried: AtomicU64,
    /// Set if a disk did not respond [briefly](BRIEF_PATIENCE), and if it is taken for one that
    /// hangs; both until a value has left the memory.
    is_disk_late: AtomicBool,
    has_given_up: AtomicBool,
    /// Time that other threads wait for a step.
    patience: Duration,
}

/// The outcome of a search for room in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomOutcome {
    /// The memory is within its capacity.
    Room,
    /// No tier accepts anything.
    Full,
    /// A disk or another thread may make room later.
    Later,
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
            hasty_runs: AtomicU32::new(0),
            carried: AtomicU64::new(0),
            is_disk_late: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
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
    /// a disk that does not respond: returns `None` if the thread that moves values makes no step
    /// for [`BRIEF_PATIENCE`].
    pub fn try_pause(&self) -> Option<KeeperPause<'_, H>> {
        let mover = self.mover_while(|| true, BRIEF_PATIENCE)?;
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

    /// Returns true if a thread has waited for room recently, so that moves must be cheap.
    fn is_in_haste(&self) -> bool {
        self.hasty_runs.load(Ordering::Relaxed) > 0
    }

    /// Notes that bytes have left the memory.
    fn note_carried(&self, bytes: u64) {
        self.carried.fetch_add(bytes, Ordering::Relaxed);
        self.is_disk_late.store(false, Ordering::Relaxed);
        self.has_given_up.store(false, Ordering::Relaxed);
        // Writers that wait may try again at once, before the round of the walk ends.
        self.is_stuck.store(false, Ordering::Relaxed);
    }

    /// Returns the number of bytes that have left the memory since the start.
    pub fn carried_bytes(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Returns true if the memory exceeds its capacity, and a disk or another thread may make room.
    pub fn awaits_room(&self, values: &impl MovableValues) -> bool {
        let is_busy = self.is_disk_late.load(Ordering::Relaxed) || self.mover.is_locked();
        is_busy && !self.is_stuck() && !self.hangs() && self.exceeds_capacity(values)
    }

    /// Returns true if a disk, or the thread that moves values, is taken for one that hangs.
    pub fn hangs(&self) -> bool {
        self.is_held_up.load(Ordering::Relaxed) || self.has_given_up.load(Ordering::Relaxed)
    }

    /// Takes the disk for one that hangs: threads that [need room](TierKeeper::relieve_briefly) do
    /// not wait for it until a value has left the memory.
    pub fn give_up(&self) {
        self.has_given_up.store(true, Ordering::Relaxed);
        self.is_held_up.store(true, Ordering::Relaxed);
    }

    /// Locks the mover, as long as it `is_needed`; returns `None` also if the thread with the mover
    /// has made no step for `limit`. If that is the keeper's patience, others do not wait for it.
    fn mover_while(
        &self,
        is_needed: impl Fn() -> bool,
        limit: Duration,
    ) -> Option<MutexGuard<'_, Option<Mover<H>>>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mover = self.wait_for_mover(is_needed, limit);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        mover
    }

    fn wait_for_mover(
        &self,
        is_needed: impl Fn() -> bool,
        limit: Duration,
    ) -> Option<MutexGuard<'_, Option<Mover<H>>>> {
        let steps = || self.steps.load(Ordering::Relaxed);
        let (mut since, mut seen) = (Instant::now(), steps());
        loop {
            // After one thread's timeout others only try, until the mover is free again.
            let is_held_up = self.is_held_up.load(Ordering::Relaxed);
            let patience = if is_held_up { Duration::ZERO } else { TICK };
            let patience = patience.min(limit);
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
            if since.elapsed() >= limit {
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
    /// Frees a little more, so that the next writes find room. While another thread does so, waits
    /// for it, until that thread has made no step for [`PATIENCE`].
    pub fn relieve<V: MovableValues<Hand = H>>(&self, values: &V) -> bool {
        let mut mover = loop {
            if !self.exceeds_capacity(values) {
                return true;
            }
            match self.mover_while(|| self.exceeds_capacity(values), self.patience) {
                Some(mover) => break mover,
                None if self.is_held_up.load(Ordering::Relaxed) => return false,
                // There was room, which another thread may have used.
                None => {}
            }
        };
        self.carry_out(&mut mover, values, PATIENCE) == RoomOutcome::Room
    }

    /// Carries values out like [`relieve`](TierKeeper::relieve), on a thread that also serves
    /// clients that need no room: it waits for a disk, or for a step of another thread, for
    /// [`BRIEF_PATIENCE`] at most. After [`give_up`](TierKeeper::give_up) it waits for neither.
    pub fn relieve_briefly<V: MovableValues<Hand = H>>(&self, values: &V) -> RoomOutcome {
        let has_given_up = self.has_given_up.load(Ordering::Relaxed);
        let (limit, late) = match has_given_up {
            true => (Duration::ZERO, RoomOutcome::Full),
            false => (BRIEF_PATIENCE.min(self.patience), RoomOutcome::Later),
        };
        let mut mover = loop {
            if !self.exceeds_capacity(values) {
                return RoomOutcome::Room;
            }
            match self.mover_while(|| self.exceeds_capacity(values), limit) {
                Some(mover) => break mover,
                None if self.is_held_up.load(Ordering::Relaxed) => return RoomOutcome::Full,
                None if self.exceeds_capacity(values) => return late,
                None => {}
            }
        };
        match self.carry_out(&mut mover, values, limit) {
            RoomOutcome::Later => late,
            outcome => outcome,
        }
    }

    /// Carries values out until the memory is within its capacity, no tier accepts anything, or a
    /// disk has not responded for `limit` and nothing was carried meanwhile. With [`PATIENCE`] it
    /// goes on after that.
    fn carry_out<V: MovableValues<Hand = H>>(
        &self,
        mover: &mut Option<Mover<H>>,
        values: &V,
        limit: Duration,
    ) -> RoomOutcome {
        let (Some(mover), Some(tiers)) = (mover.as_mut(), values.cold().tiers()) else {
            return RoomOutcome::Room;
        };
        self.hasty_runs.store(HASTY_RUNS, Ordering::Relaxed);
        let spare = (self.memory_bytes_max / SPARE_PART).min(SPARE_BYTES_MAX);
        let mut spared = 0;
        let (mut since, mut was_late) = (Instant::now(), false);
        loop {
            let bytes = self.count(values).bytes;
            let is_within = bytes <= self.memory_bytes_max;
            // Memory that moves have replaced may still count, so the bytes carried count, too.
            if bytes + spare <= self.memory_bytes_max || is_within && spared >= spare {
                return RoomOutcome::Room;
            }
            if self.is_stuck() {
                // Each waiting thread is refused at once until a value has left again.
                return match is_within {
                    true => RoomOutcome::Room,
                    false => RoomOutcome::Full,
                };
            }
            let slice = || mover.slice(values, tiers, self, true);
            let (carried, is_late) = with_patience(limit, slice);
            was_late |= is_late;
            if carried > 0 {
                (since, was_late) = (Instant::now(), false);
            }
            if is_within {
                if carried == 0 {
                    return RoomOutcome::Room;
                }
                spared += carried;
            } else if was_late && limit < PATIENCE && since.elapsed() >= limit {
                self.is_disk_late.store(true, Ordering::Relaxed);
                return RoomOutcome::Later;
            }
        }
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
                // The caller serves clients, none of which may wait for a disk that hangs.
                let _ = with_patience(BRIEF_PATIENCE, || mover.slice(values, tiers, self, true));
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
            let fewer = |runs: u32| runs.checked_sub(1);
            let relaxed = Ordering::Relaxed;
            let _ = self.hasty_runs.fetch_update(relaxed, relaxed, fewer);
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
                let _ = mover.slice(values, tiers, self, false);
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
