//! The blocks that a participant has retired, and may reuse.

use super::ring::{RemoteAllocation, RetirementEntry, RetirementRing};
use super::{EpochError, Epochs};
use crate::address::GlobalAddress;
use crate::endpoint::Endpoint;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

/// Number of entries that one post empties. A death may lose that many blocks.
pub(super) const BATCH: usize = 16;

/// A block in the ring: its epoch, and the number of its entry.
type Record = (u64, usize, RemoteAllocation);

/// The blocks that a participant has retired, from their unlinking on.
#[derive(Debug, Default)]
pub(super) struct RetiredAllocations {
    /// The ring of its slot, and the numbers of empty entries.
    ring: Option<RetirementRing>,
    empty: Vec<usize>,
    /// The blocks that are not in the ring yet, with epochs.
    waiting: VecDeque<(u64, RemoteAllocation)>,
    /// The blocks in the ring, with epochs and numbers of entries.
    retired: VecDeque<Record>,
    /// The blocks without any remaining reader, by length, with the numbers of their entries.
    ready: BTreeMap<u64, Vec<(usize, RemoteAllocation)>>,
    /// The blocks that are no longer in the ring.
    spare: Vec<RemoteAllocation>,
    /// The bytes of waiting and retired blocks, and those of ready blocks.
    retired_bytes: u64,
    ready_bytes: u64,
}

impl RetiredAllocations {
    /// Adds a block that is not in the ring yet.
    pub fn wait(&mut self, epoch: u64, block: RemoteAllocation) {
        self.retired_bytes += block.bytes;
        self.waiting.push_back((epoch, block));
    }

    /// Continues with a ring and the entries that another participant has left in it. The last of
    /// them was unlinked by this epoch.
    pub fn take_ring(&mut self, ring: RetirementRing, left: &[RetirementEntry], epoch: u64) {
        debug_assert!(self.ring.is_none() && self.retired.is_empty() && self.ready.is_empty());
        self.ring = Some(ring);
        // Taken from the end, so that the first entries are used first.
        self.empty = (0..ring.entries).rev().collect();
        self.empty
            .retain(|number| left.iter().all(|entry| entry.number != *number));
        for entry in left {
            if let Some(block) = entry.block {
                self.retired_bytes += block.bytes;
                self.retired.push_back((epoch, entry.number, block));
            }
        }
    }

    /// Forgets the blocks in the ring, because other participants free them.
    pub fn leave_ring(&mut self) {
        self.ring = None;
        self.empty.clear();
        self.retired.clear();
        self.ready.clear();
        self.ready_bytes = 0;
        self.retired_bytes = self.waiting.iter().map(|(_, block)| block.bytes).sum();
    }

    /// Makes the blocks ready whose epoch is at least `grace` before the announced one.
    pub fn ripen(&mut self, announced: u64, grace: u64) {
        while let Some(&(epoch, number, block)) = self.retired.front()
            && epoch + grace <= announced
        {
            self.retired.pop_front();
            self.retired_bytes -= block.bytes;
            self.ready_bytes += block.bytes;
            let of_length = self.ready.entry(block.bytes).or_default();
            of_length.push((number, block));
        }
    }

    /// Returns the epoch of the oldest block in the ring, and the number of retired bytes.
    pub fn oldest(&self) -> (Option<u64>, u64) {
        let oldest = self.retired.front().map(|(epoch, ..)| *epoch);
        (oldest, self.retired_bytes)
    }

    pub fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    pub fn take_spare(&mut self, bytes: u64) -> Option<GlobalAddress> {
        let found = self.spare.iter().position(|block| block.bytes == bytes)?;
        Some(self.spare.swap_remove(found).address)
    }

    pub fn spare(&mut self, blocks: Vec<RemoteAllocation>) {
        self.spare.extend(blocks);
    }

    pub fn take_spares(&mut self) -> Vec<RemoteAllocation> {
        std::mem::take(&mut self.spare)
    }

    /// Returns the number of blocks that are not in the ring yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if blocks wait for entries of the ring.
    pub fn is_crowded(&self) -> bool {
        self.empty.is_empty() && !self.waiting.is_empty()
    }

    /// Removes some waiting blocks, with entries for them.
    fn next_records(&mut self) -> Option<(RetirementRing, Vec<Record>)> {
        let ring = self.ring?;
        let count = self.waiting.len().min(self.empty.len()).min(BATCH);
        let records = (0..count).filter_map(|_| {
            let (epoch, block) = self.waiting.pop_front()?;
            let number = self.empty.pop()?;
            // Added again once the entries are written: if the task ends before that, the blocks
            // are lost.
            self.retired_bytes -= block.bytes;
            Some((epoch, number, block))
        });
        let records: Vec<Record> = records.collect();
        (!records.is_empty()).then_some((ring, records))
    }

    /// Removes some ready blocks, of this length or of any.
    fn next_ready(
        &mut self,
        bytes: Option<u64>,
    ) -> Option<(RetirementRing, Vec<(usize, RemoteAllocation)>)> {
        let ring = self.ring?;
        // The longest blocks free the most memory for a call each.
        let longest = self.ready.keys().next_back();
        let length = bytes.or(longest.copied())?;
        let of_length = self.ready.get_mut(&length)?;
        let rest = of_length.len().saturating_sub(BATCH);
        let taken = of_length.split_off(rest);
        if rest == 0 {
            self.ready.remove(&length);
        }
        debug_assert!(!taken.is_empty(), "a length without blocks is removed");
        debug_assert!(taken.iter().all(|(_, block)| block.bytes == length));
        self.ready_bytes -= length * taken.len() as u64;
        Some((ring, taken))
    }
}

impl Epochs {
    /// Records waiting blocks in the ring, until it is full.
    pub(super) async fn record(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        loop {
            let registration = self.registration.load(Ordering::SeqCst);
            if !self.is_safe(endpoint, registration) {
                return Ok(());
            }
            let next = {
                let mut blocks = self.blocks();
                // The ring belongs to the registration, because it is checked under the lock.
                let same = self.is_registered(registration);
                same.then(|| blocks.next_records()).flatten()
            };
            let Some((ring, records)) = next else {
                return Ok(());
            };
            // If this task ends here, the entries are never used again, written or not.
            let entries = records.iter().map(|&(_, number, block)| (number, block));
            ring.write(endpoint, entries).await?;
            let mut blocks = self.blocks();
            // If the registration has changed, the entries belong to the new owner of the ring.
            if self.is_registered(registration) {
                for (epoch, number, block) in records {
                    blocks.retired_bytes += block.bytes;
                    blocks.retired.push_back((epoch, number, block));
                }
            }
        }
    }

    /// Removes some ready blocks, of one length or of any, from the ring.
    pub(super) async fn clear_ready(
        &self,
        endpoint: &impl Endpoint,
        bytes: Option<u64>,
    ) -> Result<Vec<RemoteAllocation>, EpochError> {
        let registration = self.registration.load(Ordering::SeqCst);
        if !self.is_safe(endpoint, registration) {
            return Ok(Vec::new());
        }
        let next = {
            let mut blocks = self.blocks();
            let same = self.is_registered(registration);
            same.then(|| blocks.next_ready(bytes)).flatten()
        };
        let Some((ring, taken)) = next else {
            return Ok(Vec::new());
        };
        let numbers = taken.iter().map(|(number, _)| *number);
        ring.clear(endpoint, numbers.clone()).await?;
        let mut blocks = self.blocks();
        if self.is_registered(registration) {
            // After another registration these numbers would be of another ring.
            blocks.empty.extend(numbers);
        }
        drop(blocks);
        Ok(taken.into_iter().map(|(_, block)| block).collect())
    }
}
