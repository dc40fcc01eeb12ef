//! Locks in remote memory with leases: a dead holder blocks no other client for long.
//!
//! A lock is a word next to the data that it guards. While the lock is free, the lower 63 bits of
//! the word belong to its user; an index keeps a summary of the node there. While the lock is held,
//! these bits name the holder and the number of its acquisition.
//!
//! A holder that dies does not release the lock. A waiter that sees the same acquisition for a
//! whole *lease*, by its own clock, takes the lock over. No clocks are compared; it is enough that
//! no clock runs at twice the speed of another. A living holder is assumed to finish within half a
//! lease: it writes only before that [deadline](LeasedLock::until) ([`Endpoint::post_by`]), and its
//! posts take effect within the other half. Leases of milliseconds are thousands of round trips.
//!
//! The system may interrupt a process for longer than that, just after it has read the clock. A
//! client that takes a lock over therefore waits for posts that have begun ([`Endpoint::settle`]),
//! if the transport knows them. On other transports, half a lease must be longer than any
//! interruption.
//!
//! A client that takes a lock over finds the data as the dead holder left them, and the summary in
//! the word is lost. So it must be possible to repair the data, either from themselves or from a
//! record that the holder wrote before its change ([`redo`](crate::recovery::redo)).

use crate::address::{GlobalAddress, LINE_BYTES, NodeId};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::{FabricVerb, MaskedSwap};
use std::cell::Cell;
use std::time::Duration;

/// The bit that is set while a lock is held.
pub const HELD_BIT: u64 = 1 << 63;
const OWNER_SHIFT: u32 = 48;
/// Position of the owner's incarnation in the number of an acquisition: the upper 12 of its 48
/// bits.
const INCARNATION_SHIFT: u32 = 36;
/// The bound of the numbers of owners (exclusive).
pub const OWNERS: u16 = FORWARDED;
/// The owner number that stands for an address: another lock guards the data of this one.
const FORWARDED: u16 = (1 << 15) - 1;
/// Number of bits of an address that name its line within a node.
const LINE_BITS: u32 = 40;
/// The first sleep of a waiter; each further sleep is twice as long.
pub const FIRST_SLEEP: Duration = Duration::from_micros(2);
/// Number of longest sleeps in a lease. It makes waiters notice the end of a lease soon.
const SLEEPS_PER_LEASE: u32 = 16;
/// Factor of the time between tries. A waiter retries after
/// `PATIENCE × round trip × (round trip ÷ shortest round trip seen)`.
/// The last factor exists because each failed try delays other clients at a saturated port. With
/// 640 clients of half updates at one modelled port, a patience of 1 costs a tenth of the
/// throughput. With 16 the throughput is 2 % greater, but 80 clients, which do not saturate the
/// port, lose a seventh.
const PATIENCE: u32 = 8;
/// Largest value of the last factor of that formula.
const FULL: u32 = 8;

/// A taker of locks for one owner. No two active ones may have the same number and incarnation;
/// [`owners`](crate::recovery::owners) assigns them.
#[derive(Debug)]
pub struct Locker {
    owner: u16,
    /// Number of acquisitions, modulo 4096.
    acquisitions: Cell<u64>,
    lease: Duration,
    back_off: BackOff,
}

/// The times for which waiters sleep before they try a lock again.
#[derive(Debug)]
pub struct BackOff {
    /// The shortest duration of a try so far.
    shortest: Cell<Duration>,
    /// The longest sleep of a waiter.
    longest: Duration,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedLock {
    /// The word while the lock is held.
    pub word: u64,
    /// The state before.
    pub before: PriorLockState,
    until: Duration,
}

/// The state of a lock when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorLockState {
    /// The lock was free, with these bits.
    Free(u64),
    /// The lock was held in the acquisition that this word names, by its [`owner`], which has not
    /// released it within a lease.
    Abandoned(u64),
}

/// Returns the word of a lock that is held on behalf of the holder of the lock of the node at
/// `address`. A client that finds it abandoned must take that lock. Returns `None` if the address
/// does not fit.
///
/// ```
/// use nearfield_fabric::recovery::lease::{forward, forwarded};
/// use nearfield_fabric::{GlobalAddress, NodeId};
/// let address = GlobalAddress::new(NodeId(3), 4096);
/// assert_eq!(forwarded(forward(address).unwrap()), Some(address));
/// assert_eq!(forwarded(7), None);
/// ```
pub fn forward(address: GlobalAddress) -> Option<u64> {
    let node = u64::from(address.node().0);
    let line = address.offset() / LINE_BYTES;
    // Eight bits are left for the node, and an address has sixteen.
    let fits = node < 1 << (OWNER_SHIFT - LINE_BITS)
        && line < 1 << LINE_BITS
        && address.offset().is_multiple_of(LINE_BYTES);
    let owner = u64::from(FORWARDED) << OWNER_SHIFT;
    fits.then_some(HELD_BIT | owner | node << LINE_BITS | line)
}

/// Returns the node whose lock a client must take instead of the one with this word.
pub fn forwarded(word: u64) -> Option<GlobalAddress> {
    let node = NodeId((word >> LINE_BITS) as u16 & ((1 << (OWNER_SHIFT - LINE_BITS)) - 1));
    let line = word & ((1 << LINE_BITS) - 1);
    (word & HELD_BIT != 0 && owner(word) == FORWARDED)
        .then(|| GlobalAddress::new(node, line * LINE_BYTES))
}

/// A read: its address, and the buffer for its bytes.
pub type Target<'b> = (GlobalAddress, &'b mut [u8]);

/// Swaps a word and returns the old one; then reads, in the same post.
///
/// # Errors
/// As [`Endpoint::post`].
pub async fn swap_and_read(
    endpoint: &impl Endpoint,
    at: GlobalAddress,
    swap: MaskedSwap,
    reads: &mut [Target<'_>],
) -> Result<u64, FabricError> {
    let swap = FabricVerb::Swap { at, swap, found: 0 };
    let reads = reads
        .iter_mut()
        .map(|(from, into)| FabricVerb::Read { from: *from, into });
    let mut verbs: Vec<FabricVerb<'_>> = std::iter::once(swap).chain(reads).collect();
    endpoint.post(&mut verbs).await?;
    Ok(verbs[0].found().unwrap_or_default())
}

/// The result of waiting for a lock.
pub(crate) enum LockWaitOutcome {
    /// The lock was free, and has been taken.
    Taken(LeasedLock),
    /// The lock has been held for a lease in the acquisition of this word.
    Abandoned(u64),
}

/// Returns the owner of a lock, by the word of its acquisition.
pub const fn owner(word: u64) -> u16 {
    ((word & !HELD_BIT) >> OWNER_SHIFT) as u16
}

impl Locker {
    /// Creates a locker for `owner`, a number less than [`OWNERS`], with the lease that all users
    /// of the locks share.
    ///
    /// # Panics
    /// `owner` is not less than [`OWNERS`].
    pub fn new(owner: u16, lease: Duration) -> Locker {
        Locker::after(owner, 0, lease)
    }

    /// Creates a locker as [`new`](Locker::new), for one of the successive users of a number: a
    /// lock that an earlier user has left held does not look like one of this user. (Words
    /// distinguish users modulo 4096, and each user's acquisitions modulo 2^36. To confuse two, a
    /// lock would have to be left that long ago, and taken by the same number between two reads of
    /// a waiter.)
    ///
    /// # Panics
    /// As [`new`](Locker::new).
    pub fn of_incarnation(owner: u16, incarnation: u32, lease: Duration) -> Locker {
        Locker::after(owner, u64::from(incarnation) << INCARNATION_SHIFT, lease)
    }

    /// Creates a locker as [`new`](Locker::new), for a number under which earlier owners made the
    /// acquisitions up to `acquisitions`.
    pub(crate) fn after(owner: u16, acquisitions: u64, lease: Duration) -> Locker {
        assert!(owner < OWNERS, "owner {owner} is not less than {OWNERS}");
        Locker {
            owner,
            acquisitions: Cell::new(acquisitions),
            lease,
            back_off: BackOff::new(lease / SLEEPS_PER_LEASE),
        }
    }

    /// Returns a word that no other acquisition has.
    pub(crate) fn next_word(&self) -> u64 {
        // The first number was read from memory, which may contain anything.
        let number = self.acquisitions.get().wrapping_add(1);
        self.acquisitions.set(number);
        // A number that wraps would reach the bits of the owner.
        let number = number & ((1 << OWNER_SHIFT) - 1);
        let word = HELD_BIT | u64::from(self.owner) << OWNER_SHIFT | number;
        debug_assert!(owner(word) == self.owner && forwarded(word).is_none());
        word
    }

    /// Takes a lock. Waits while other clients hold it, at most a lease after the last progress of
    /// a holder. One round trip if it is free.
    ///
    /// To release it, write a word without [`HELD_BIT`], after the guarded data and to the same
    /// node, possibly in the same post.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    pub async fn lock(
        &self,
        endpoint: &impl Endpoint,
        at: GlobalAddress,
    ) -> Result<LeasedLock, FabricError> {
        loop {
            match self.wait(endpoint, at, &mut []).await? {
                LockWaitOutcome::Taken(held) => return Ok(held),
                LockWaitOutcome::Abandoned(found) => {
                    let word = self.next_word();
                    if let Some(held) = self
                        .take_over(endpoint, at, found, word, None, Duration::MAX)
                        .await?
                    {
                        return Ok(held);
                    }
                }
            }
        }
    }

    /// Waits until a lock is free, and takes it, or until it can be taken over. `reads` are in the
    /// same post as the lock; they are meaningless if it was abandoned.
    pub(crate) async fn wait(
        &self,
        endpoint: &impl Endpoint,
        at: GlobalAddress,
        reads: &mut [Target<'_>],
    ) -> Result<LockWaitOutcome, FabricError> {
        let word = self.next_word();
        let if_free = MaskedSwap {
            expected: 0,
            compare_mask: HELD_BIT,
            desired: word,
            swap_mask: u64::MAX,
        };
        let mut sleep = FIRST_SLEEP;
        // The acquisition that is waited for, and the time when it was first seen. No word of a
        // held lock is zero.
        let mut seen = (0, endpoint.now());
        loop {
            // Read the clock before the post, because the time of the post must not extend the
            // holder's deadline.
            let until = endpoint.now() + self.lease / 2;
            let found = swap_and_read(endpoint, at, if_free, reads).await?;
            if if_free.succeeds(found) {
                return Ok(LockWaitOutcome::Taken(LeasedLock {
                    word,
                    before: PriorLockState::Free(found),
                    until,
                }));
            }
            let now = endpoint.now();
            // Half a lease before the deadline is the time when the try began.
            let took = now + self.lease / 2 - until;
            if found != seen.0 {
                // Another client has acquired the lock, so the lease begins again.
                seen = (found, now);
                sleep = FIRST_SLEEP;
            } else if now - seen.1 >= self.lease {
                // Wait until the holder's posts that began in time have taken effect.
                endpoint.settle().await?;
                return Ok(LockWaitOutcome::Abandoned(found));
            }
            endpoint.sleep(self.back_off.next(&mut sleep, took)).await;
        }
    }

    /// Takes over an abandoned lock, as the acquisition of `word`, unless the lock has changed or a
    /// deadline has passed. `first` is executed before, by the same node.
    pub(crate) async fn take_over(
        &self,
        endpoint: &impl Endpoint,
        at: GlobalAddress,
        found: u64,
        word: u64,
        first: Option<FabricVerb<'_>>,
        deadline: Duration,
    ) -> Result<Option<LeasedLock>, FabricError> {
        // Read before the post, as in `wait`.
        let until = endpoint.now() + self.lease / 2;
        debug_assert!(
            found & word & HELD_BIT != 0,
            "both words are of a held lock"
        );
        // All swaps of locks are masked, which distinguishes them from those of other words
        // (`mirror`). The bit that is left out is set before and after.
        let swap = MaskedSwap {
            swap_mask: !HELD_BIT,
            ..MaskedSwap::whole(found, word)
        };
        let swap = FabricVerb::Swap { at, swap, found: 0 };
        let mut verbs: Vec<FabricVerb<'_>> = first.into_iter().chain([swap]).collect();
        if !endpoint.post_by(deadline, &mut verbs).await? {
            return Ok(None);
        }
        // The swap comes last, behind the record that must be there before the lock names its
        // acquisition.
        let now = verbs.last().and_then(FabricVerb::found);
        Ok((now == Some(found)).then_some(LeasedLock {
            word,
            before: PriorLockState::Abandoned(found),
            until,
        }))
    }
}

impl BackOff {
    /// Creates a back-off for waiters that sleep no longer than `longest`.
    pub fn new(longest: Duration) -> BackOff {
        BackOff {
            shortest: Cell::new(Duration::MAX),
            longest,
        }
    }

    /// Returns the sleep of a waiter whose try has just taken `took`. The sleep is at least
    /// `sleep`, which is doubled for the next time.
    pub fn next(&self, sleep: &mut Duration, took: Duration) -> Duration {
        // If the network is slow or saturated, the holder is as slow as this waiter, and a waiter
        // that tries too often saturates it further.
        let patience = took.saturating_mul(PATIENCE * self.fullness(took));
        let slept = (*sleep).max(patience).min(self.longest);
        *sleep = (*sleep * 2).min(self.longest);
        slept
    }

    /// Returns the duration of a try divided by the shortest duration so far.
    fn fullness(&self, took: Duration) -> u32 {
        let shortest = self.shortest.get().min(took);
        self.shortest.set(shortest);
        let times = took.as_nanos() / shortest.as_nanos().max(1);
        u32::try_from(times).map_or(FULL, |times| times.clamp(1, FULL))
    }
}

impl LeasedLock {
    /// Returns the time until which no client takes the lock over, so that the holder may write the
    /// guarded data.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// Returns true while no client takes the lock over. Once it is false, the lock is lost.
    pub fn is_safe(&self, endpoint: &impl Endpoint) -> bool {
        endpoint.now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::sim::{Delivery, FabricSimulation};
    use std::cell::RefCell;
    use std::rc::Rc;

    const LOCK: GlobalAddress = GlobalAddress::new(NodeId(0), 128);
    const LEASE: Duration = Duration::from_millis(2);

    fn simulation(seed: u64) -> FabricSimulation {
        FabricSimulation::with_nodes(seed, Delivery::Torn, [1 << 16]).0
    }

    #[test]
    fn words_say_the_incarnation_and_the_acquisition() {
        let words = |owner, incarnation| {
            let locker = Locker::of_incarnation(owner, incarnation, LEASE);
            [locker.next_word(), locker.next_word()]
        };
        let mut all: Vec<u64> = [(3, 1), (3, 2), (3, 4095), (4, 1)]
            .into_iter()
            .flat_map(|(number, incarnation)| {
                let words = words(number, incarnation);
                assert!(words.iter().all(|&word| owner(word) == number));
                words
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
        // Incarnations are distinguished modulo 4096.
        assert_eq!(words(3, 4097), words(3, 1));
    }

    #[test]
    fn a_free_lock_is_taken_with_what_it_holds() {
        let mut simulation = simulation(1);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            endpoint.write(LOCK, &77_u64.to_le_bytes()).await.unwrap();
            let locker = Locker::new(3, LEASE);
            let held = locker.lock(&endpoint, LOCK).await.unwrap();
            assert_eq!(held.before, PriorLockState::Free(77));
            assert!(held.is_safe(&endpoint));
            endpoint.sleep(LEASE).await;
            assert!(!held.is_safe(&endpoint));
            endpoint.write(LOCK, &78_u64.to_le_bytes()).await.unwrap();
            let again = locker.lock(&endpoint, LOCK).await.unwrap();
            assert_eq!(again.before, PriorLockState::Free(78));
            assert_ne!(again.word, held.word);
        });
        assert_eq!(simulation.run(), 0);
    }

    #[test]
    fn the_locks_of_the_dead_are_taken_over_by_one_and_those_of_the_living_never() {
        for seed in 0..100 {
            let mut simulation = simulation(seed);
            let taken = Rc::new(RefCell::new(Vec::new()));
            for client in 0..5 {
                let (endpoint, taken) = (simulation.endpoint(client), Rc::clone(&taken));
                simulation.spawn(client, async move {
                    let locker = Locker::new(client as u16, LEASE);
                    for round in 0..20_u64 {
                        let held = locker.lock(&endpoint, LOCK).await.unwrap();
                        taken
                            .borrow_mut()
                            .push((client, held.before, endpoint.now()));
                        // The first client keeps the lock for ever in its third round.
                        if client == 0 && round == 2 {
                            return;
                        }
                        endpoint.sleep(LEASE / 20).await;
                        assert!(held.is_safe(&endpoint));
                        endpoint.write(LOCK, &round.to_le_bytes()).await.unwrap();
                    }
                });
            }
            assert_eq!(simulation.run(), 0, "seed {seed}");
            let taken = taken.borrow();
            assert_eq!(taken.len(), 83);
            let over = |(_, before, _): &&(u32, PriorLockState, Duration)| {
                matches!(before, PriorLockState::Abandoned(_))
            };
            let over: Vec<_> = taken.iter().filter(over).collect();
            assert_eq!(over.len(), 1, "seed {seed}");
            let PriorLockState::Abandoned(word) = over[0].1 else {
                panic!("taken over")
            };
            assert_eq!(owner(word), 0);
            // The lock is not taken over before a lease has passed, and soon after it.
            let last = taken.iter().rfind(|(client, _, _)| *client == 0);
            let waited = over[0].2 - last.unwrap().2;
            assert!(waited >= LEASE && waited < LEASE * 5 / 4, "{waited:?}");
        }
    }
}
