//! The translation table of a memory node: the ranges of addresses that it holds, and their
//! permissions. Source: pulse, section 4.2 and 5: ranges in a ternary memory (TCAM), one table per
//! node.

use super::MemorySpan;

/// The permission to read and write bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslationPermission {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// A range of addresses at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationRange {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// The permission for the range.
    pub permission: TranslationPermission,
}

/// The reason why bytes cannot be accessed at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TranslationRefusal {
    /// The first byte is in no range of the node. Another node may have it.
    Miss,
    /// The bytes begin in a range and end outside of it.
    Split,
    /// The bytes may not be written.
    Denied,
}

/// Ranges that do not overlap, ordered by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslationTable(Vec<TranslationRange>);

/// The reason why ranges do not form a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A range without addresses.
    #[error("the range from {start:#x} has no addresses")]
    Empty {
        /// The start of the range.
        start: u64,
    },
    /// Two ranges that share addresses.
    #[error("the range from {start:#x} overlaps the one before it")]
    Overlap {
        /// The start of the second of them.
        start: u64,
    },
}

impl TranslationTable {
    /// Creates a table of these ranges, in any order.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn new(mut ranges: Vec<TranslationRange>) -> Result<TranslationTable, TableError> {
        ranges.sort_by_key(|range| range.start);
        let mut end = 0;
        for &TranslationRange { start, end: to, .. } in &ranges {
            // Empty ranges are refused first, because they would pass the test for overlaps.
            if to <= start {
                return Err(TableError::Empty { start });
            }
            if start < end {
                return Err(TableError::Overlap { start });
            }
            end = to;
        }
        Ok(TranslationTable(ranges))
    }

    /// Checks that bytes may be read or, if `writes` is true, written.
    ///
    /// # Errors
    /// See [`TranslationRefusal`].
    pub fn check(&self, span: MemorySpan, writes: bool) -> Result<(), TranslationRefusal> {
        let after = self.0.partition_point(|range| range.start <= span.address);
        let range = after.checked_sub(1).and_then(|index| self.0.get(index));
        let range = range.filter(|range| span.address < range.end);
        let range = range.ok_or(TranslationRefusal::Miss)?;
        // The end may lie beyond all addresses, so the sum is checked.
        let end = span.address.checked_add(span.bytes.into());
        if end.is_none_or(|end| end > range.end) {
            return Err(TranslationRefusal::Split);
        }
        if writes && range.permission == TranslationPermission::Read {
            return Err(TranslationRefusal::Denied);
        }
        Ok(())
    }

    /// Returns the number of ternary entries that the ranges take: each covers the addresses with
    /// one prefix, so a range needs one for each aligned power of two in it.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::{
    ///     TranslationPermission, TranslationRange, TranslationTable,
    /// };
    /// let permission = TranslationPermission::Read;
    /// let aligned = TranslationRange { start: 1 << 30, end: 2 << 30, permission };
    /// let odd = TranslationRange { start: 4096, end: 5 * 4096, permission };
    /// assert_eq!(TranslationTable::new(vec![aligned])?.ternary_entries(), 1);
    /// // 1, 2 and 1 pages.
    /// assert_eq!(TranslationTable::new(vec![odd])?.ternary_entries(), 3);
    /// # Ok::<(), nearfield_hardware::accelerator::TableError>(())
    /// ```
    pub fn ternary_entries(&self) -> u64 {
        let mut entries = 0;
        for &TranslationRange { mut start, end, .. } in &self.0 {
            while start < end {
                let left = end - start;
                // As large as its alignment and the remaining addresses allow.
                let shift = start.trailing_zeros().min(left.ilog2());
                start += 1 << shift;
                debug_assert!(start <= end);
                entries += 1;
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, permission: TranslationPermission) -> TranslationRange {
        TranslationRange {
            start,
            end,
            permission,
        }
    }

    #[test]
    fn bytes_are_checked_at_both_ends() {
        let table = TranslationTable::new(vec![
            range(0x2000, 0x3000, TranslationPermission::Read),
            range(0x1000, 0x2000, TranslationPermission::ReadWrite),
        ])
        .unwrap();
        let check = |address, bytes, writes| table.check(MemorySpan { address, bytes }, writes);
        assert_eq!(check(0x1000, 256, true), Ok(()));
        assert_eq!(check(0xfff, 1, false), Err(TranslationRefusal::Miss));
        assert_eq!(check(0x1f00, 256, true), Ok(()));
        // The next byte belongs to another range.
        assert_eq!(check(0x1f01, 256, false), Err(TranslationRefusal::Split));
        assert_eq!(check(0x2000, 1, false), Ok(()));
        assert_eq!(check(0x2000, 1, true), Err(TranslationRefusal::Denied));
        assert_eq!(check(0x3000, 1, false), Err(TranslationRefusal::Miss));
        assert_eq!(check(u64::MAX, 256, false), Err(TranslationRefusal::Miss));
    }

    #[test]
    fn ranges_without_addresses_and_shared_addresses_are_refused() {
        let read = TranslationPermission::Read;
        assert_eq!(
            TranslationTable::new(vec![range(8, 8, read)]),
            Err(TableError::Empty { start: 8 })
        );
        let overlap = TranslationTable::new(vec![range(0, 9, read), range(8, 16, read)]);
        assert_eq!(overlap, Err(TableError::Overlap { start: 8 }));
    }

    #[test]
    fn the_last_address_can_be_in_a_range() {
        let table =
            TranslationTable::new(vec![range(0, u64::MAX, TranslationPermission::Read)]).unwrap();
        let bytes = 2;
        let address = u64::MAX - 1;
        let span = MemorySpan { address, bytes };
        assert_eq!(table.check(span, false), Err(TranslationRefusal::Split));
        assert_eq!(table.ternary_entries(), 64);
    }
}
