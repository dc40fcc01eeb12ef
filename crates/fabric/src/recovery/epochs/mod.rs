//! Memory that is freed although other clients may still know its address.
//!
//! Operations in flight may still read memory that was unlinked from an index, and later operations
//! may find its address in a cache. So unlinked memory is *retired*, in the *epoch* of the
//! operation that unlinked it. It is freed once no operation can follow an old address to it.
//!
//! A *participant* is a process with a cache; its tasks share an [`Epochs`]. Each of its operations
//! [`enter`](Epochs::enter)s an epoch. The rules are:
//!
//! 1. Nodes that an operation reads and caches have the epoch of the operation
//!    ([`RemoteEpochGuard::epoch`]).
//! 2. An operation follows an address from a cache only if that has its own epoch or a later one
//!    ([`RemoteEpochGuard::may_follow`]).
//! 3. An operation trusts its reads only if [`RemoteEpochGuard::is_safe`] after them, and writes
//!    only if so just before; [`RemoteEpochGuard::confirm`] asks the other participants. Otherwise
//!    the bytes that it read may be anything, and it must restart with another guard.
//! 4. An operation retires memory when the post that unlinked it was confirmed. An operation that
//!    begins later finds the address only in a cache, or in memory that is retired as well.
//!
//! # Why this is safe
//! A participant announces epoch `e` when all its operations of earlier epochs are done. Therefore
//! it follows only addresses that were read while the global epoch was `e` or later. The global
//! epoch advances from `e` to `e + 1` only when all participants have announced `e`. So while an
//! operation of epoch `e` is in flight, the global epoch is at most `e + 1`, and memory that it
//! unlinks was last seen linked in an epoch of at most `e + 1`. Once all have announced `e + 2`, no
//! participant has its address. An operation may follow addresses inside unlinked memory, because
//! the memory at these was unlinked later.
//!
//! # When a participant dies
//! A participant renews its slot's word every eighth of a *lease*, with the epoch that it
//! announces. If a word has not changed for a lease, by the clock of another participant, that one
//! expels the participant by a swap of the word. An expelled participant that lives does no harm:
//! its operations are safe for half a lease after its last renewal, and their posts then take
//! effect within the other half, as is assumed of locks ([`lease`](crate::recovery::lease)). Its
//! next renewal fails. Then it takes a slot again, and all its guards are void. Its cache may stay:
//! an operation follows an address of epoch `e` only if the global epoch is still `e`, and then no
//! memory that was linked in `e` has been freed.
//!
//! A ring in the node's memory lists the memory that a participant has retired. The client that
//! expels it, or takes its slot, frees all of that once every participant has announced a later
//! epoch. An entry is written after the unlinking, and emptied before the memory is used again. So
//! a death between these steps loses memory, but never gives it to two clients. It loses the memory
//! that the operations in flight have unlinked, at most 32 freed blocks, and 16 blocks for each
//! task that was about to reuse some.
//!
//! # Costs
//! Operations cost nothing but counting. Every eighth of a lease a participant posts a swap and
//! reads 2096 bytes, in one round trip. Retiring costs a round trip and 16 bytes. The epoch
//! advances only when a participant has retired more than [`EpochOptions::retired_bytes`], because
//! each advance makes caches read their entries again.

mod blocks;
mod closed;
mod ring;
mod table;
#[cfg(test)]
mod tests;
mod turn;

use crate::address::GlobalAddress;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use blocks::RetiredAllocations;
pub use closed::ClosedNodes;
use closed::KnownClosedNodes;
use ring::RemoteAllocation;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::EpochTable;
pub use table::{SLOTS, TABLE_BYTES};
use turn::ParticipantSlot;

/// Number of times that participants renew their slots in a lease.
const RENEWALS_PER_LEASE: u32 = 8;
/// Largest number of renewals in a lease by eager participants while memory waits.
const EAGER_RENEWALS_PER_LEASE: u32 = 1 << 14;
/// Interval at which a task checks if another task of the participant has renewed the slot.
const WAIT: Duration = Duration::from_micros(5);
/// Number of epochs after which memory is freed: all participants must have announced its own epoch
/// plus this.
const GRACE: u64 = 2;

/// The age of cached bytes: the number of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// The parameters of a participant.
#[derive(Clone, Debug)]
pub struct EpochOptions {
    /// The time after which a silent participant is expelled. All participants must use the same.
    pub lease: Duration,
    /// Number of bytes, retired by the participant or by those it has expelled and not yet safe to
    /// reuse, from which on it advances the epoch. It also keeps this many safe bytes of its own
    /// for reuse.
    pub retired_bytes: u64,
    /// Number of retired blocks that others learn of if the participant dies. More are lost.
    pub ring_entries: usize,
    /// Number of blocks that one post makes known to others. If the participant dies before, they
    /// are lost.
    pub together: usize,
    /// True if the participant renews its slot as often as it can while memory waits, so that this
    /// is soon safe. Meant for memory that no cache leads to: there an advance costs no reads.
    pub is_eager: bool,
}

impl Default for EpochOptions {
    fn default() -> EpochOptions {
        EpochOptions {
            lease: Duration::from_millis(10),
            retired_bytes: 1 << 20,
            ring_entries: 4096,
            together: 1,
            is_eager: false,
        }
    }
}

/// The reason why a participant could not take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpochError {
    /// A node did not respond, or does not own the retired memory.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Other participants have all slots, and none of them is silent.
    #[error("all {SLOTS} slots of participants in {table} are in use")]
    NoSlot {
        /// The table.
        table: GlobalAddress,
    },
}

/// A participant. See the [module](self).
#[derive(Debug)]
pub struct Epochs {
    table: EpochTable,
    options: EpochOptions,
    grace: u64,
    /// The registration: odd while the participant has no slot; grows each time it loses and gets
    /// one.
    registration: AtomicU64,
    /// The global epoch, as far as it is known.
    local: AtomicU64,
    /// Numbers of operations in flight, of even and of odd epochs.
    active: [AtomicU64; 2],
    /// The time until which no other participant expels it, in nanoseconds of the endpoints' clock.
    safe_until: AtomicU64,
    /// The time at which it must renew its slot.
    due: AtomicU64,
    /// The nodes on which participants do not allocate.
    closed: KnownClosedNodes,
    /// The number of notices to participants, as far as it is known.
    notices: AtomicU64,
    /// The retired bytes from which on it advances the epoch.
    urgent_bytes: AtomicU64,
    /// True while a task makes a turn.
    turning: AtomicBool,
    seat: Mutex<ParticipantSlot>,
    blocks: Mutex<RetiredAllocations>,
}

impl Epochs {
    /// Joins the table at this address: [`TABLE_BYTES`], aligned to a line, zero before the first
    /// participant joins. The rings of participants are allocated on its node.
    ///
    /// # Errors
    /// `NoSlot`, and the node's errors.
    pub async fn register(
        endpoint: &impl Endpoint,
        table: GlobalAddress,
        options: EpochOptions,
    ) -> Result<Epochs, EpochError> {
        let epochs = Epochs {
            table: EpochTable(table),
            urgent_bytes: AtomicU64::new(options.retired_bytes),
            options,
            grace: GRACE,
            registration: AtomicU64::new(1),
            local: AtomicU64::default(),
            active: Default::default(),
            safe_until: AtomicU64::default(),
            due: AtomicU64::default(),
            closed: KnownClosedNodes::default(),
            notices: AtomicU64::default(),
            turning: AtomicBool::default(),
            seat: Mutex::default(),
            blocks: Mutex::default(),
        };
        epochs.turn(endpoint).await?;
        Ok(epochs)
    }

    /// Begins an operation. The epoch cannot advance past it until the guard is dropped, so a long
    /// operation, or a scan that is read in parts, should begin again now and then.
    pub fn enter(&self) -> RemoteEpochGuard<'_> {
        loop {
            // Counted first and checked afterwards, because the epoch may rise in between.
            let registration = self.registration.load(Ordering::SeqCst);
            let epoch = self.local.load(Ordering::SeqCst);
            self.operations(epoch).fetch_add(1, Ordering::SeqCst);
            let guard = RemoteEpochGuard {
                epochs: self,
                epoch: Epoch(epoch),
                registration,
            };
            // A task that raised the epoch and missed this operation in the count read the count
            // before it was increased.
            if self.local.load(Ordering::SeqCst) == epoch
                && self.registration.load(Ordering::SeqCst) == registration
            {
                return guard;
            }
        }
    }

    /// Returns the number of operations in flight of epochs with this parity. At most two epochs
    /// have guards that are not void.
    fn operations(&self, epoch: u64) -> &AtomicU64 {
        &self.active[(epoch & 1) as usize]
    }

    /// Renews the participant's slot, announces, advances and frees memory, if it is time.
    /// Operations should call it before they enter. A participant that does not for a lease may be
    /// expelled, and gets a slot again here. It costs no round trip if it is not time or another
    /// task does it, and usually one otherwise.
    ///
    /// # Errors
    /// `NoSlot`, and the nodes' errors.
    pub async fn tend(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        if !self.is_due(endpoint) {
            return Ok(());
        }
        self.turn(endpoint).await.map(drop)
    }

    /// Returns true if it is time to [`tend`](Epochs::tend).
    pub fn is_due(&self, endpoint: &impl Endpoint) -> bool {
        nanoseconds(endpoint.now()) >= self.due.load(Ordering::SeqCst)
    }

    /// Retires memory, so that it is freed when no operation can find it any more. It must have
    /// been unlinked under this guard, and the post that unlinked it confirmed. One round trip, or
    /// one for as many blocks as are made known [together](EpochOptions::together).
    ///
    /// # Errors
    /// The errors of the table's node.
    pub async fn retire(
        &self,
        endpoint: &impl Endpoint,
        guard: &RemoteEpochGuard<'_>,
        address: GlobalAddress,
        bytes: u64,
    ) -> Result<(), EpochError> {
        let block = RemoteAllocation { address, bytes };
        let waiting = {
            let mut blocks = self.blocks();
            blocks.wait(guard.epoch.0, block);
            blocks.waiting()
        };
        self.hurry();
        // Known to others only in groups: a death loses the group, and a post costs a round trip.
        if waiting < self.options.together {
            return Ok(());
        }
        self.record(endpoint).await
    }

    /// Makes an eager participant renew its slot soon, if enough memory waits for that.
    fn hurry(&self) {
        if self.options.is_eager && self.blocks().oldest().1 >= self.options.retired_bytes {
            let renewed = self.safe_until.load(Ordering::SeqCst);
            // The slot is safe for half a lease after its last renewal.
            let renewed = renewed.saturating_sub(nanoseconds(self.options.lease / 2));
            let soon = nanoseconds(self.options.lease / EAGER_RENEWALS_PER_LEASE);
            self.due.fetch_min(renewed + soon, Ordering::SeqCst);
        }
    }

    /// Makes this participant advance the epoch only once it has retired `bytes`, if that is more
    /// than its options say. For one that retires much in the background: each advance makes the
    /// caches of all participants read their entries again.
    pub fn retire_together(&self, bytes: u64) {
        self.urgent_bytes.fetch_max(bytes, Ordering::SeqCst);
    }

    /// Returns the number of bytes that this participant has retired, and that are neither free nor
    /// used again.
    pub fn retired_bytes(&self) -> u64 {
        let blocks = self.blocks();
        blocks.oldest().1 + blocks.ready_bytes()
    }

    /// Takes a retired block of exactly this length that no operation can find any more, if there
    /// is one. No round trip, or one for each 16 blocks.
    ///
    /// # Errors
    /// The errors of the table's node.
    pub async fn reuse(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<Option<GlobalAddress>, EpochError> {
        let spare = self.blocks().take_spare(bytes);
        if spare.is_some() {
            return Ok(spare);
        }
        // A block leaves the ring before it is used again: otherwise, after a death, two clients
        // would have it.
        let cleared = self.clear_ready(endpoint, Some(bytes)).await?;
        let mut blocks = self.blocks();
        blocks.spare(cleared);
        Ok(blocks.take_spare(bytes))
    }

    fn is_registered(&self, registration: u64) -> bool {
        registration.is_multiple_of(2) && self.registration.load(Ordering::SeqCst) == registration
    }

    /// Returns true if the participant had this registration at the time of the call, and no other
    /// was about to expel it.
    fn is_safe(&self, endpoint: &impl Endpoint, registration: u64) -> bool {
        let now = nanoseconds(endpoint.now());
        // Check the registration last: if it is unchanged, the values read before belong to it.
        now < self.safe_until.load(Ordering::SeqCst) && self.is_registered(registration)
    }

    fn seat(&self) -> MutexGuard<'_, ParticipantSlot> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocks(&self) -> MutexGuard<'_, RetiredAllocations> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// An operation in flight.
pub struct RemoteEpochGuard<'e> {
    epochs: &'e Epochs,
    epoch: Epoch,
    registration: u64,
}

impl RemoteEpochGuard<'_> {
    /// Returns the epoch of nodes that this operation reads and caches.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns true if the operation may follow an address that was read in this epoch.
    pub fn may_follow(&self, read_in: Epoch) -> bool {
        read_in >= self.epoch
    }

    /// Returns true if memory that the operation can find has not been reused, and will not be
    /// until a post made now has taken effect. No round trip.
    pub fn is_safe(&self, endpoint: &impl Endpoint) -> bool {
        self.epochs.is_safe(endpoint, self.registration)
    }

    /// Returns the time by the endpoint's clock until which memory that this operation has found is
    /// certainly not reused; zero if that time may have passed. It grows with each renewal.
    pub fn until(&self) -> Duration {
        let until = self.epochs.safe_until.load(Ordering::SeqCst);
        // Check the registration last, as in `is_safe`.
        if self.epochs.is_registered(self.registration) {
            Duration::from_nanos(until)
        } else {
            Duration::ZERO
        }
    }

    /// Checks like [`is_safe`](RemoteEpochGuard::is_safe), but renews the participant's slot
    /// before, if necessary. After it has returned false, it always will.
    ///
    /// # Errors
    /// As [`Epochs::tend`].
    pub async fn confirm(&self, endpoint: &impl Endpoint) -> Result<bool, EpochError> {
        loop {
            if self.is_safe(endpoint) {
                return Ok(true);
            }
            if !self.epochs.is_registered(self.registration) {
                return Ok(false);
            }
            // Another task makes the turn, which may be about to renew the slot.
            if !self.epochs.turn(endpoint).await? {
                endpoint.sleep(WAIT).await;
            }
        }
    }
}

impl Drop for RemoteEpochGuard<'_> {
    fn drop(&mut self) {
        let operations = self.epochs.operations(self.epoch.0);
        let before = operations.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "the guard itself was counted");
    }
}

impl fmt::Debug for RemoteEpochGuard<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Guard({:?})", self.epoch)
    }
}
