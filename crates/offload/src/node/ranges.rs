//! The addresses that a memory node holds, and the permissions on them.

use crate::traversal::AccessError;

/// The owner of ranges of memory, on whose behalf programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(pub u16);

/// The permission of a tenant's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TenantPermission {
    /// Load.
    Read,
    /// Load and store.
    Write,
}

/// A range of successive addresses, and the place of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// The first address.
    pub start: u64,
    /// Number of addresses.
    pub bytes: u64,
    /// Offset of the first one in the memory of the node.
    pub offset: u64,
    /// The tenant that owns them.
    pub tenant: Tenant,
    /// The permission of that tenant.
    pub permission: TenantPermission,
}

impl NodeRange {
    /// Creates the range of a whole memory of `bytes` whose first byte has the address `start`; its
    /// tenant may store.
    pub const fn whole(start: u64, bytes: u64, tenant: Tenant) -> NodeRange {
        NodeRange {
            start,
            bytes,
            offset: 0,
            tenant,
            permission: TenantPermission::Write,
        }
    }
}

/// The ranges of a memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRanges {
    /// The ranges in the order of their addresses.
    ranges: Vec<NodeRange>,
}

/// The reason why ranges do not form a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    /// Two ranges have an address in common.
    #[error("the ranges at {first:#x} and {second:#x} overlap")]
    Overlap {
        /// The start of one.
        first: u64,
        /// The start of the other.
        second: u64,
    },
    /// The addresses of a range, or its place in memory, exceed 64 bits, or the range is empty, or
    /// it contains null, which is not an address.
    #[error(
        "the range at {start:#x} of {bytes} bytes is empty, contains address 0, or exceeds 64 bits"
    )]
    Extent {
        /// Start of the range.
        start: u64,
        /// Number of addresses.
        bytes: u64,
    },
}

impl NodeRanges {
    /// Creates a table.
    ///
    /// # Errors
    /// See [`RangeError`].
    pub fn new(mut ranges: Vec<NodeRange>) -> Result<NodeRanges, RangeError> {
        for &NodeRange {
            start,
            bytes,
            offset,
            ..
        } in &ranges
        {
            let fits = start.checked_add(bytes).is_some() && offset.checked_add(bytes).is_some();
            // Address 0 is null, which ends traversals.
            if !fits || bytes == 0 || start == 0 {
                return Err(RangeError::Extent { start, bytes });
            }
        }
        ranges.sort_by_key(|range| range.start);
        for pair in ranges.windows(2) {
            if let [a, b] = pair
                && a.start + a.bytes > b.start
            {
                let (first, second) = (a.start, b.start);
                return Err(RangeError::Overlap { first, second });
            }
        }
        Ok(NodeRanges { ranges })
    }

    /// Iterates over the ranges in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &NodeRange> {
        self.ranges.iter()
    }

    /// Returns the range of an address.
    pub fn find(&self, address: u64) -> Option<&NodeRange> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        (address - range.start < range.bytes).then_some(range)
    }

    /// Translates an address to the offset of its bytes in the memory of the node.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn translate(
        &self,
        tenant: Tenant,
        address: u64,
        bytes: usize,
        permission: TenantPermission,
    ) -> Result<usize, AccessError> {
        let range = self.find(address).ok_or(AccessError::Absent)?;
        if range.tenant != tenant
            || permission == TenantPermission::Write && range.permission == TenantPermission::Read
        {
            return Err(AccessError::Denied);
        }
        let distance = address - range.start;
        // Adjacent ranges may be apart in memory, so no access crosses their border.
        if bytes as u64 > range.bytes - distance {
            return Err(AccessError::Split);
        }
        Ok((range.offset + distance) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64, tenant: u16, permission: TenantPermission) -> NodeRange {
        NodeRange {
            start,
            bytes,
            offset: start / 2,
            tenant: Tenant(tenant),
            permission,
        }
    }

    #[test]
    fn bytes_are_found_within_one_range_of_the_tenant() {
        let ranges = NodeRanges::new(vec![
            range(0x3000, 0x100, 2, TenantPermission::Write),
            range(0x1000, 0x100, 1, TenantPermission::Write),
            range(0x1100, 0x100, 1, TenantPermission::Read),
        ])
        .expect("they do not overlap");
        let read = |tenant, address, bytes| {
            ranges.translate(Tenant(tenant), address, bytes, TenantPermission::Read)
        };
        assert_eq!(read(1, 0x1000, 0x100), Ok(0x800));
        assert_eq!(read(1, 0x1010, 8), Ok(0x810));
        assert_eq!(read(1, 0x10f9, 8), Err(AccessError::Split));
        assert_eq!(read(1, 0x11ff, 1), Ok(0x97f));
        assert_eq!(read(1, 0x1200, 1), Err(AccessError::Absent));
        assert_eq!(read(1, 0xfff, 1), Err(AccessError::Absent));
        assert_eq!(read(1, 0, 8), Err(AccessError::Absent));
        assert_eq!(read(1, u64::MAX, 8), Err(AccessError::Absent));
        assert_eq!(read(2, 0x1000, 8), Err(AccessError::Denied));
        assert_eq!(read(1, 0x3000, 8), Err(AccessError::Denied));
        let write = |address| ranges.translate(Tenant(1), address, 8, TenantPermission::Write);
        assert_eq!(write(0x1100), Err(AccessError::Denied));
        assert_eq!(write(0x1000), Ok(0x800));
    }

    #[test]
    fn tables_without_sense_are_refused() {
        let first = range(0x1000, 0x101, 1, TenantPermission::Read);
        let second = range(0x1100, 0x100, 1, TenantPermission::Read);
        let overlap = RangeError::Overlap {
            first: 0x1000,
            second: 0x1100,
        };
        assert_eq!(NodeRanges::new(vec![second, first]), Err(overlap));
        for (start, bytes) in [(0, 8), (8, 0), (u64::MAX, 2)] {
            let refused = NodeRanges::new(vec![range(start, bytes, 0, TenantPermission::Read)]);
            assert_eq!(refused, Err(RangeError::Extent { start, bytes }));
        }
    }
}
