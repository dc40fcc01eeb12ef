//! The memory that a node holds, seen by its traversals.

use super::ranges::{NodeRanges, RangeError, Tenant, TenantPermission};
use super::words;
use crate::traversal::{AccessError, TraversalMemory};
use std::sync::atomic::AtomicU64;

/// The words of a node's memory, with the table of its ranges.
#[derive(Clone, Debug)]
pub struct LocalMemory<'m> {
    words: &'m [AtomicU64],
    ranges: NodeRanges,
}

impl<'m> LocalMemory<'m> {
    /// Creates a node's memory.
    ///
    /// # Errors
    /// `Extent` if a range exceeds the memory.
    pub fn new(words: &'m [AtomicU64], ranges: NodeRanges) -> Result<LocalMemory<'m>, RangeError> {
        for range in ranges.iter() {
            if range.offset + range.bytes > size_of_val(words) as u64 {
                let (start, bytes) = (range.start, range.bytes);
                return Err(RangeError::Extent { start, bytes });
            }
        }
        Ok(LocalMemory { words, ranges })
    }

    /// Returns the words.
    pub fn words(&self) -> &'m [AtomicU64] {
        self.words
    }

    /// Returns the table of ranges.
    pub fn ranges(&self) -> &NodeRanges {
        &self.ranges
    }

    /// Returns the memory as a tenant's programs see it.
    pub fn of(&self, tenant: Tenant) -> TenantMemory<'_> {
        TenantMemory {
            words: self.words,
            ranges: &self.ranges,
            tenant,
        }
    }
}

/// The memory of a node, limited to a tenant's ranges.
#[derive(Clone, Copy, Debug)]
pub struct TenantMemory<'m> {
    words: &'m [AtomicU64],
    ranges: &'m NodeRanges,
    tenant: Tenant,
}

impl TenantMemory<'_> {
    fn translate(
        &self,
        address: u64,
        bytes: usize,
        permission: TenantPermission,
    ) -> Result<usize, AccessError> {
        let ranges = self.ranges;
        let offset = ranges.translate(self.tenant, address, bytes, permission)?;
        debug_assert!(
            offset + bytes <= size_of_val(self.words),
            "ranges are in memory"
        );
        Ok(offset)
    }
}

impl TraversalMemory for TenantMemory<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let offset = self.translate(address, into.len(), TenantPermission::Read)?;
        words::load(self.words, offset, into);
        Ok(())
    }

    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError> {
        self.translate(address, bytes, TenantPermission::Write)
            .map(drop)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let offset = self.translate(address, bytes.len(), TenantPermission::Write)?;
        words::store(self.words, offset, bytes);
        Ok(())
    }
}
