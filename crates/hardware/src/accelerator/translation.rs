//! The translation table of a memory node: the ranges of addresses that it holds, and their
//! permissions. Source: pulse, section 4.2 and 5: ranges in a ternary memory (TCAM), one table per
//! node.

use super::Span;

/// The permission to read and write bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// A range of addresses at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// The permission for the range.
    pub permission: Permission,
}

/// The reason why bytes cannot be accessed at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The first byte is in no range of the node. Another node may have it.
    Miss,
    /// The bytes begin in a range and end outside of it.
    Split,
    /// The bytes may not be written.
    Denied,
}

/// Ranges that do not overlap, ordered by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(Vec<Range>);

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

impl Table {
    /// Creates a table of these ranges, in any order.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn new(mut ranges: Vec<Range>) -> Result<Table, TableError> {
        ranges.sort_by_key(|range| range.start);
        let mut end = 0;
        for &Range { start, end: to, .. } in &ranges {
            if to <= start {
                return Err(TableError::Empty { start });
            }
            if start < end {
                return Err(TableError::Overlap { start });
            }
            end = to;
        }
        Ok(Table(ranges))
    }

    /// Checks that bytes may be read or, if `writes` is true, written.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn check(&self, span: Span, writes: bool) -> Result<(), Refusal> {
        let after = self.0.partition_point(|range| range.start <= span.address);
        let range = after.checked_sub(1).and_then(|index| self.0.get(index));
        let range = range.filter(|range| span.address < range.end);
        let range = range.ok_or(Refusal::Miss)?;
        let end = span.address.checked_add(span.bytes.into());
        if end.is_none_or(|end| end > range.end) {
            return Err(Refusal::Split);
        }
        if writes && range.permission == Permission::Read {
            return Err(Refusal::Denied);
        }
        Ok(())
    }

    /// Returns the number of ternary entries that the ranges take: each covers the addresses with
    /// one prefix, so a range needs one for each aligned power of two in it.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::{Permission, Range, Table};
    /// let permission = Permission::Read;
    /// let aligned = Range { start: 1 << 30, end: 2 << 30, permission };
    /// let odd = Range { start: 4096, end: 5 * 4096, permission };
    /// assert_eq!(Table::new(vec![aligned])?.ternary_entries(), 1);
    /// // 1, 2 and 1 pages.
    /// assert_eq!(Table::new(vec![odd])?.ternary_entries(), 3);
    /// # Ok::<(), nearfield_hardware::accelerator::TableError>(())
    /// ```
    pub fn ternary_entries(&self) -> u64 {
        let mut entries = 0;
        for &Range { mut start, end, .. } in &self.0 {
            while start < end {
                let left = end - start;
                // As large as its alignment and the remaining addresses allow.
                let shift = start.trailing_zeros().min(left.ilog2());
                start += 1 << shift;
                entries += 1;
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, permission: Permission) -> Range {
        Range {
            start,
            end,
            permission,
        }
    }

    #[test]
    fn bytes_are_checked_at_both_ends() {
        let table = Table::new(vec![
            range(0x2000, 0x3000, Permission::Read),
            range(0x1000, 0x2000, Permission::ReadWrite),
        ])
        .unwrap();
        let check = |address, bytes, writes| table.check(Span { address, bytes }, writes);
        assert_eq!(check(0x1000, 256, true), Ok(()));
        assert_eq!(check(0xfff, 1, false), Err(Refusal::Miss));
        assert_eq!(check(0x1f00, 256, true), Ok(()));
        // The next byte belongs to another range.
        assert_eq!(check(0x1f01, 256, false), Err(Refusal::Split));
        assert_eq!(check(0x2000, 1, false), Ok(()));
        assert_eq!(check(0x2000, 1, true), Err(Refusal::Denied));
        assert_eq!(check(0x3000, 1, false), Err(Refusal::Miss));
        assert_eq!(check(u64::MAX, 256, false), Err(Refusal::Miss));
    }

    #[test]
    fn ranges_without_addresses_and_shared_addresses_are_refused() {
        let read = Permission::Read;
        assert_eq!(
            Table::new(vec![range(8, 8, read)]),
            Err(TableError::Empty { start: 8 })
        );
        let overlap = Table::new(vec![range(0, 9, read), range(8, 16, read)]);
        assert_eq!(overlap, Err(TableError::Overlap { start: 8 }));
    }

    #[test]
    fn the_last_address_can_be_in_a_range() {
        let table = Table::new(vec![range(0, u64::MAX, Permission::Read)]).unwrap();
        let bytes = 2;
        let address = u64::MAX - 1;
        let span = Span { address, bytes };
        assert_eq!(table.check(span, false), Err(Refusal::Split));
        assert_eq!(table.ternary_entries(), 64);
    }
}
