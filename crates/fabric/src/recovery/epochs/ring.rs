//! The ring of a slot: the list of retired memory, for other participants.

use super::table::ENTRY_BYTES;
use crate::address::{GlobalAddress, LINE_BYTES, NodeId, OFFSETS, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;

/// An allocated piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteAllocation {
    pub address: GlobalAddress,
    pub bytes: u64,
}

/// A non-empty entry of a ring. One without a block was written in part by a participant that died
/// meanwhile, or is damaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetirementEntry {
    pub number: usize,
    pub block: Option<RemoteAllocation>,
}

/// Largest number of entries of a ring.
const ENTRIES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct RetirementRing {
    at: GlobalAddress,
    pub entries: usize,
}

impl RetirementRing {
    /// Allocates a ring for this many entries, all of them empty.
    pub async fn allocate(
        endpoint: &impl Endpoint,
        node: NodeId,
        entries: usize,
    ) -> Result<RetirementRing, FabricError> {
        let entries = entries.min(ENTRIES_MAX);
        let bytes = LINE_BYTES + entries as u64 * ENTRY_BYTES;
        let at = endpoint.allocate(node, bytes).await?;
        // Reused memory would look like entries, and their blocks would be freed.
        let mut empty = vec![0; bytes as usize];
        empty[..WORD_BYTES as usize].copy_from_slice(&(entries as u64).to_le_bytes());
        endpoint.write(at, &empty).await?;
        Ok(RetirementRing { at, entries })
    }

    /// Reads the ring at an address, and all entries that are not empty.
    ///
    /// # Errors
    /// Those of a read; `OutOfRange` if there is no ring.
    pub async fn read(
        endpoint: &impl Endpoint,
        at: GlobalAddress,
    ) -> Result<(RetirementRing, Vec<RetirementEntry>), FabricError> {
        let entries = super::table::read_word(endpoint, at).await?;
        // The node's memory may contain anything, so check the number.
        let bytes = LINE_BYTES.saturating_add(entries.saturating_mul(ENTRY_BYTES));
        let end = at.offset().checked_add(bytes);
        if entries > ENTRIES_MAX as u64 || end.is_none_or(|end| end > OFFSETS) {
            return Err(FabricError::OutOfRange {
                address: at,
                bytes,
                size: OFFSETS,
            });
        }
        let entries = entries as usize;
        let ring = RetirementRing { at, entries };
        let mut bytes = vec![0; entries * ENTRY_BYTES as usize];
        endpoint.read(ring.entry(0), &mut bytes).await?;
        let words = bytes.as_chunks().0.iter();
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        let pairs = words.as_chunks().0.iter().enumerate();
        let mut total = 0_u64;
        let filled = pairs.filter_map(|(number, &[address, bytes])| {
            let address = GlobalAddress::from_bits(address);
            // An entry is written word by word. With one word missing, the other is no block that
            // may be freed.
            let is_whole = !address.is_null() && bytes != 0;
            // Participants add up the lengths of blocks. All that a ring names together is less
            // than a node could have.
            let after = total.saturating_add(bytes);
            let is_possible = address.offset().saturating_add(bytes) <= OFFSETS && after <= OFFSETS;
            let block = (is_whole && is_possible).then_some(RemoteAllocation { address, bytes });
            if block.is_some() {
                total = after;
            }
            (!address.is_null() || bytes != 0).then_some(RetirementEntry { number, block })
        });
        let filled = filled.collect();
        Ok((ring, filled))
    }

    pub fn address(self) -> GlobalAddress {
        self.at
    }

    fn entry(self, number: usize) -> GlobalAddress {
        self.at.plus(LINE_BYTES + number as u64 * ENTRY_BYTES)
    }

    /// Writes entries, which must be empty.
    pub async fn write(
        self,
        endpoint: &impl Endpoint,
        entries: impl IntoIterator<Item = (usize, RemoteAllocation)>,
    ) -> Result<(), FabricError> {
        let entries = entries.into_iter().map(|(number, block)| {
            debug_assert!(number < self.entries);
            let words = [block.address.to_bits(), block.bytes];
            (self.entry(number), words.map(u64::to_le_bytes))
        });
        let entries: Vec<_> = entries.collect();
        let writes = entries.iter().map(|(to, words)| FabricVerb::Write {
            to: *to,
            bytes: words.as_flattened(),
        });
        endpoint.post(&mut writes.collect::<Vec<_>>()).await
    }

    /// Makes entries empty.
    pub async fn clear(
        self,
        endpoint: &impl Endpoint,
        numbers: impl IntoIterator<Item = usize>,
    ) -> Result<(), FabricError> {
        let empty = [0; ENTRY_BYTES as usize];
        let writes = numbers.into_iter().map(|number| FabricVerb::Write {
            to: self.entry(number),
            bytes: &empty,
        });
        let mut writes: Vec<FabricVerb<'_>> = writes.collect();
        endpoint.post(&mut writes).await
    }
}
