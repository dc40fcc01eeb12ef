//! The periodic turn of a participant: it renews its slot, announces, expels silent participants,
//! advances the epoch, and frees safe memory.

use super::blocks::{BATCH, RetiredAllocations};
use super::ring::{RemoteAllocation, RetirementEntry, RetirementRing};
use super::table::{EpochTableSnapshot, ParticipantSlotState, SLOTS, read_word};
use super::{EpochError, Epochs, GRACE, RENEWALS_PER_LEASE, WAIT, nanoseconds};
use crate::address::GlobalAddress;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of times in a lease that a participant without a slot searches for one.
const LOOKS_PER_LEASE: u32 = 16;
/// Number of leases for which a participant searches for a slot. In one of them it detects the
/// dead.
const LEASES_WITHOUT_SLOT: u32 = 2;

/// A participant's slot, and its view of the others.
#[derive(Debug, Default)]
pub(super) struct ParticipantSlot {
    slot: usize,
    /// The word of the slot.
    word: u64,
    /// The other possible value of the word, if the task that tried to renew it ended early.
    attempt: u64,
    announced: u64,
    /// The words of all slots, and the time since which each is unchanged.
    seen: Vec<(u64, Duration)>,
    adopted: Vec<DrainingSlot>,
}

/// The slot of a participant that has left, with the memory that it had retired.
#[derive(Debug)]
struct DrainingSlot {
    slot: usize,
    /// The epoch that all must have announced before all of the memory is safe.
    safe_from: u64,
    /// The rest of that memory, once it has been read. There is no ring if the participant had not
    /// allocated one yet.
    left: Option<(Option<RetirementRing>, Vec<RetirementEntry>)>,
}

impl DrainingSlot {
    fn blocks(&self) -> impl Iterator<Item = RemoteAllocation> {
        let left = self.left.iter().flat_map(|(_, left)| left);
        left.filter_map(|entry| entry.block)
    }

    /// Returns true if it has memory to free, or may have.
    fn waits(&self) -> bool {
        self.left.is_none() || self.blocks().next().is_some()
    }
}

impl ParticipantSlot {
    /// Notes the words, and the times since which they are unchanged.
    fn look(&mut self, scan: &EpochTableSnapshot, now: Duration) {
        self.seen.resize(SLOTS, (0, now));
        for (seen, word) in self.seen.iter_mut().zip(&scan.words) {
            if seen.0 != *word {
                *seen = (*word, now);
            }
        }
    }

    fn is_silent(&self, slot: usize, now: Duration, lease: Duration) -> bool {
        now - self.seen[slot].1 >= lease
    }
}

/// A guard of the flag that only one task of a participant at a time makes a turn.
struct EpochTurnGuard<'e>(&'e AtomicBool);

impl Drop for EpochTurnGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Epochs {
    /// Makes a turn: does all that is due. Returns false if another task does.
    pub(super) async fn turn(&self, endpoint: &impl Endpoint) -> Result<bool, EpochError> {
        if self.turning.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        let _turn = EpochTurnGuard(&self.turning);
        if !self.has_slot() {
            self.sit_down(endpoint).await?;
        }
        // The renewal comes first: nothing else may take so long that others expel this
        // participant.
        let Some(scan) = self.renew(endpoint).await? else {
            self.stand_up();
            self.sit_down(endpoint).await?;
            return Ok(true);
        };
        // Ripened by the words of all participants that were read after the renewal.
        self.blocks().ripen(scan.announced(), self.grace);
        self.adopt(endpoint, &scan).await?;
        self.urge(endpoint, &scan).await?;
        self.record(endpoint).await?;
        // Memory is freed last, because calls to nodes take long.
        let more = self.give_back(endpoint).await? | self.drain(endpoint, &scan).await?;
        if more {
            self.due.store(0, Ordering::SeqCst);
        }
        self.hurry();
        Ok(true)
    }

    /// Advances the epoch until no operation follows an address from a cache that was read before
    /// this call. Waits for all participants; the caller must hold no guard.
    ///
    /// # Errors
    /// As [`tend`](Epochs::tend).
    pub async fn advance(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        let first = EpochTableSnapshot::read(endpoint, self.table).await?.epoch;
        loop {
            // Announces the epoch, and expels silent participants.
            self.turn(endpoint).await?;
            let scan = EpochTableSnapshot::read(endpoint, self.table).await?;
            if scan.epoch >= first + GRACE {
                return Ok(());
            }
            if scan.announced() >= scan.epoch {
                let at = self.table.epoch();
                endpoint
                    .compare_swap(at, scan.epoch, scan.epoch + 1)
                    .await?;
            }
            endpoint
                .sleep(self.options.lease / RENEWALS_PER_LEASE)
                .await;
        }
    }

    /// Notes the closed nodes, which were read after some changes of this participant, and the
    /// notices.
    fn learn(&self, scan: &EpochTableSnapshot, changes: u64) {
        self.closed.note(scan.closed, changes);
        // Another task of this participant may have given a notice since the read.
        self.notices.fetch_max(scan.notices, Ordering::SeqCst);
    }

    fn has_slot(&self) -> bool {
        let registration = self.registration.load(Ordering::SeqCst);
        registration.is_multiple_of(2)
    }

    /// Notes a renewal. No participant expels one that has renewed its slot after `began`.
    fn renewed(&self, began: Duration) {
        let lease = self.options.lease;
        let due = began + lease / RENEWALS_PER_LEASE;
        self.due.store(nanoseconds(due), Ordering::SeqCst);
        // A post that begins until then takes effect within the other half, before any participant
        // expels this one.
        let until = nanoseconds(began + lease / 2);
        self.safe_until.store(until, Ordering::SeqCst);
    }

    /// Notes the loss of the slot: no guard is safe any more.
    fn stand_up(&self) {
        debug_assert!(self.has_slot());
        self.safe_until.store(0, Ordering::SeqCst);
        self.due.store(0, Ordering::SeqCst);
        // Later than the times: a guard that finds its registration unchanged has read times that
        // belong to it.
        self.registration.fetch_add(1, Ordering::SeqCst);
        // Other participants free the blocks in the ring.
        self.blocks().leave_ring();
        self.seat().adopted.clear();
    }

    /// Takes a slot: a free one, one whose ring no participant empties, or that of a silent
    /// participant.
    async fn sit_down(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        debug_assert!(!self.has_slot(), "a participant has one slot");
        let lease = self.options.lease;
        let until = endpoint.now() + lease * LEASES_WITHOUT_SLOT;
        loop {
            let scan = EpochTableSnapshot::read(endpoint, self.table).await?;
            let now = endpoint.now();
            let found = {
                let mut seat = self.seat();
                seat.look(&scan, now);
                let is_free = |slot: &usize| {
                    ParticipantSlotState::of(scan.words[*slot]) == ParticipantSlotState::Free
                };
                let mut live = scan.live().map(|(slot, _)| slot);
                // A free slot needs no proof. That of a silent participant is taken last, because
                // it may still be alive.
                (0..SLOTS)
                    .find(is_free)
                    .or_else(|| (0..SLOTS).find(|slot| scan.is_orphan(*slot)))
                    .or_else(|| live.find(|slot| seat.is_silent(*slot, now, lease)))
            };
            if let Some(slot) = found
                && self.claim(endpoint, slot, &scan).await?
            {
                return Ok(());
            }
            if endpoint.now() > until {
                let table = self.table.epoch();
                return Err(EpochError::NoSlot { table });
            }
            if found.is_none() {
                endpoint.sleep(lease / LOOKS_PER_LEASE).await;
            }
        }
    }

    /// Takes a slot unless it has changed.
    async fn claim(
        &self,
        endpoint: &impl Endpoint,
        slot: usize,
        scan: &EpochTableSnapshot,
    ) -> Result<bool, EpochError> {
        let began = endpoint.now();
        let changes = self.closed.changes();
        let word = ParticipantSlotState::Live(scan.epoch).after(scan.words[slot]);
        let swap = FabricVerb::compare_swap(self.table.slot(slot), scan.words[slot], word);
        // The epoch that is read after the swap is at most one behind, and stays so: a participant
        // that advances it later sees the word.
        let (found, after) = EpochTableSnapshot::after(endpoint, self.table, Some(swap)).await?;
        if found != scan.words[slot] {
            return Ok(false);
        }
        let place = self.table.ring(slot);
        let ring = GlobalAddress::from_bits(read_word(endpoint, place).await?);
        let (ring, left) = if ring.is_null() {
            let entries = self.options.ring_entries.max(1);
            let ring = RetirementRing::allocate(endpoint, place.node(), entries).await?;
            let address = ring.address().to_bits().to_le_bytes();
            endpoint.write(place, &address).await?;
            (ring, Vec::new())
        } else {
            RetirementRing::read(endpoint, ring).await?
        };
        // An entry that was written in part may be written again only when all of it is empty.
        let torn = left.iter().filter(|entry| entry.block.is_none());
        ring.clear(endpoint, torn.map(|entry| entry.number)).await?;
        {
            let mut seat = self.seat();
            seat.slot = slot;
            (seat.word, seat.attempt) = (word, word);
            seat.announced = scan.epoch;
        }
        let left: Vec<RetirementEntry> = left
            .into_iter()
            .filter(|entry| entry.block.is_some())
            .collect();
        // The former participant unlinked all of its memory before this epoch was read.
        self.blocks().take_ring(ring, &left, after.epoch);
        // The registration comes last: a guard that finds it has an epoch and times that belong to
        // it.
        self.local.store(after.epoch, Ordering::SeqCst);
        self.learn(&after, changes);
        self.renewed(began);
        self.registration.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    /// Renews the slot, and announces the newest epoch if no operation of an older one is in
    /// flight. Returns `None` if the slot was lost.
    async fn renew(
        &self,
        endpoint: &impl Endpoint,
    ) -> Result<Option<EpochTableSnapshot>, EpochError> {
        loop {
            let began = endpoint.now();
            let changes = self.closed.changes();
            let local = self.local.load(Ordering::SeqCst);
            let (slot, word, former, next, announced) = {
                let mut seat = self.seat();
                // Only guards of two epochs are not void, so operations of the epoch before have a
                // counter of their own.
                let older = self.operations(local.wrapping_sub(1));
                let announced = match older.load(Ordering::SeqCst) {
                    0 => local,
                    _ => seat.announced,
                };
                let next = ParticipantSlotState::Live(announced).after(seat.word);
                // Noted before the post: if this task ends during it, the next one cannot know if
                // the slot was renewed.
                let former = std::mem::replace(&mut seat.attempt, next);
                (seat.slot, seat.word, former, next, announced)
            };
            let swap = FabricVerb::compare_swap(self.table.slot(slot), word, next);
            let (found, scan) = EpochTableSnapshot::after(endpoint, self.table, Some(swap)).await?;
            let mut seat = self.seat();
            if found == word {
                seat.word = next;
                seat.announced = announced;
                seat.look(&scan, endpoint.now());
                drop(seat);
                // Memory may hold anything, but the epoch of this participant never falls.
                self.local.store(local.max(scan.epoch), Ordering::SeqCst);
                self.learn(&scan, changes);
                self.renewed(began);
                return Ok(Some(scan));
            }
            let ParticipantSlotState::Live(announced) = ParticipantSlotState::of(former) else {
                return Ok(None);
            };
            if found != former {
                return Ok(None);
            }
            // A task that ended early has renewed it.
            (seat.word, seat.announced) = (former, announced);
        }
    }

    /// Advances the epoch if enough memory waits for it and no participant is behind.
    async fn urge(
        &self,
        endpoint: &impl Endpoint,
        scan: &EpochTableSnapshot,
    ) -> Result<(), FabricError> {
        let adopted = {
            let seat = self.seat();
            let waiting = seat.adopted.iter().filter(|adopted| adopted.waits());
            let bytes = waiting.clone().flat_map(DrainingSlot::blocks);
            let bytes: u64 = bytes.map(|block| block.bytes).sum();
            (waiting.map(|adopted| adopted.safe_from).max(), bytes)
        };
        let (retired, retired_bytes) = self.blocks().oldest();
        let oldest = retired.map(|epoch| epoch + self.grace);
        let wanted = oldest.max(adopted.0).unwrap_or_default();
        // Each advance makes caches read their entries again, so that little memory does not cause
        // one.
        if retired_bytes + adopted.1 >= self.urgent_bytes.load(Ordering::SeqCst)
            && wanted > scan.epoch
            && scan.announced() >= scan.epoch
        {
            // A swap: of several participants that advance it at once, one does.
            let at = self.table.epoch();
            endpoint
                .compare_swap(at, scan.epoch, scan.epoch + 1)
                .await?;
        }
        Ok(())
    }

    /// Takes the rings of silent participants, and of those that have left and whose rings no
    /// participant empties. Reads one of its rings.
    async fn adopt(
        &self,
        endpoint: &impl Endpoint,
        scan: &EpochTableSnapshot,
    ) -> Result<(), EpochError> {
        let now = endpoint.now();
        let (me, to_take, to_read) = {
            let mut seat = self.seat();
            let me = seat.slot;
            let is_mine = |slot: usize| {
                ParticipantSlotState::of(scan.words[slot])
                    == ParticipantSlotState::Draining(Some(me))
            };
            seat.adopted.retain(|adopted| is_mine(adopted.slot));
            for slot in (0..SLOTS).filter(|slot| is_mine(*slot)) {
                if seat.adopted.iter().all(|adopted| adopted.slot != slot) {
                    // Its participant left before the epoch was read: it was expelled in an earlier
                    // turn, or by the former participant of this slot.
                    seat.adopted.push(DrainingSlot {
                        slot,
                        safe_from: scan.epoch + 1,
                        left: None,
                    });
                }
            }
            let lease = self.options.lease;
            let live = scan.live().map(|(slot, _)| slot);
            let silent = live.filter(|slot| *slot != me && seat.is_silent(*slot, now, lease));
            let orphans = (0..SLOTS).filter(|slot| scan.is_orphan(*slot));
            let to_take: Vec<usize> = silent.chain(orphans).collect();
            let unread = seat.adopted.iter().find(|adopted| adopted.left.is_none());
            (me, to_take, unread.map(|adopted| adopted.slot))
        };
        if !to_take.is_empty() {
            // Wait until their posts that began in time have taken effect.
            endpoint.settle().await?;
        }
        // A participant that renews its slot meanwhile has another word, and stays.
        for slot in to_take {
            let word = scan.words[slot];
            let next = ParticipantSlotState::Draining(Some(me)).after(word);
            let at = self.table.slot(slot);
            endpoint.compare_swap(at, word, next).await?;
        }
        if let Some(slot) = to_read {
            let at = read_word(endpoint, self.table.ring(slot)).await?;
            let left = if at == 0 {
                (None, Vec::new())
            } else {
                let at = GlobalAddress::from_bits(at);
                let (ring, left) = RetirementRing::read(endpoint, at).await?;
                (Some(ring), left)
            };
            let mut seat = self.seat();
            let mut adopted = seat.adopted.iter_mut();
            if let Some(adopted) = adopted.find(|adopted| adopted.slot == slot) {
                adopted.left = Some(left);
            }
        }
        Ok(())
    }

    /// Frees some ready memory if there is more than the reserve. Returns true if there is more. An
    /// eager participant does so only while little memory waits: calls to nodes would delay the
    /// epoch, and a replacement of memory reuses it.
    async fn give_back(&self, endpoint: &impl Endpoint) -> Result<bool, EpochError> {
        let kept = self.options.retired_bytes;
        let is_eager = self.options.is_eager;
        let has_more = |blocks: &RetiredAllocations| {
            let is_busy = is_eager && blocks.oldest().1 >= kept;
            blocks.ready_bytes() > kept && !is_busy || blocks.is_crowded()
        };
        if !has_more(&self.blocks()) {
            return Ok(false);
        }
        let spares = self.blocks().take_spares();
        let ready = self.clear_ready(endpoint, None).await?;
        let blocks = [spares, ready].concat();
        self.free(endpoint, &blocks).await?;
        let blocks = self.blocks();
        Ok(has_more(&blocks) && blocks.ready_bytes() > 0)
    }

    /// Frees blocks that no other participant knows. Those of a lost node are lost with it; an
    /// endpoint that was connected later does not know that node.
    async fn free(
        &self,
        endpoint: &impl Endpoint,
        blocks: &[RemoteAllocation],
    ) -> Result<(), FabricError> {
        for block in blocks {
            match endpoint.free(block.address, block.bytes).await {
                Err(FabricError::NodeLost { .. } | FabricError::NoSuchNode { .. }) => {}
                freed => freed?,
            }
        }
        Ok(())
    }

    /// Frees some of the memory that departed participants have retired. Returns true if there is
    /// more.
    async fn drain(
        &self,
        endpoint: &impl Endpoint,
        scan: &EpochTableSnapshot,
    ) -> Result<bool, EpochError> {
        let registration = self.registration.load(Ordering::SeqCst);
        let next = {
            let mut seat = self.seat();
            let announced = scan.announced();
            let mut adopted = seat.adopted.iter_mut();
            let ripe = adopted.find(|adopted| {
                adopted.left.is_some() && (adopted.safe_from <= announced || !adopted.waits())
            });
            // If this task ends early, the rest is read again.
            ripe.and_then(|adopted| Some((adopted.slot, adopted.left.take()?)))
        };
        let Some((slot, (ring, mut left))) = next else {
            return Ok(false);
        };
        // If this participant has been expelled itself, the ring may be another's by now.
        if !self.is_safe(endpoint, registration) {
            return Ok(true);
        }
        let some = left.split_off(left.len().saturating_sub(BATCH));
        if let Some(ring) = ring {
            let numbers = some.iter().map(|entry| entry.number);
            // Emptied before the memory is used again: a death in between loses memory, but never
            // gives it to two clients.
            ring.clear(endpoint, numbers).await?;
        }
        let blocks: Vec<RemoteAllocation> = some.iter().filter_map(|entry| entry.block).collect();
        self.free(endpoint, &blocks).await?;
        if left.is_empty() {
            self.free_slot(endpoint, scan, slot).await?;
            return Ok(false);
        }
        let mut seat = self.seat();
        let adopted = seat.adopted.iter_mut().find(|adopted| adopted.slot == slot);
        if let Some(adopted) = adopted {
            adopted.left = Some((ring, left));
        }
        Ok(true)
    }

    async fn free_slot(
        &self,
        endpoint: &impl Endpoint,
        scan: &EpochTableSnapshot,
        slot: usize,
    ) -> Result<(), FabricError> {
        let word = scan.words[slot];
        let at = self.table.slot(slot);
        let next = ParticipantSlotState::Free.after(word);
        endpoint.compare_swap(at, word, next).await?;
        Ok(())
    }

    /// Leaves, until the next [`tend`](Epochs::tend). Other participants, or the next one in the
    /// slot, free the retired memory that the ring lists. This call frees the memory that was kept
    /// for reuse. The guards are void afterwards.
    ///
    /// # Errors
    /// As [`tend`](Epochs::tend).
    pub async fn leave(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        // Only a safe participant can record waiting blocks.
        // No other task of the participant may make a turn while the slot is given up.
        while !self.turn(endpoint).await? || self.turning.swap(true, Ordering::SeqCst) {
            endpoint.sleep(WAIT).await;
        }
        let _turn = EpochTurnGuard(&self.turning);
        self.record(endpoint).await?;
        let spares = self.blocks().take_spares();
        self.free(endpoint, &spares).await?;
        if !self.has_slot() {
            return Ok(());
        }
        self.stand_up();
        let (slot, word) = {
            let seat = self.seat();
            (seat.slot, seat.word)
        };
        let next = ParticipantSlotState::Draining(None).after(word);
        let at = self.table.slot(slot);
        // If the word has changed, others have expelled it.
        endpoint.compare_swap(at, word, next).await?;
        Ok(())
    }
}
