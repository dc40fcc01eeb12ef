//! Addresses of bytes in the memory of all nodes.

use std::fmt;

/// Length of a cache line. Allocated memory is aligned to it.
pub const LINE_BYTES: u64 = 64;

/// Length of a word. Aligned words are atomic on every transport.
pub const WORD_BYTES: u64 = 8;

/// Number of bytes at the start of each node's memory that are never allocated: address 0 is null,
/// and the words that clients agree on follow it.
pub const RESERVED_BYTES: u64 = 4096;

/// The number of a memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {}", self.0)
    }
}

/// The address of a byte in a node's memory: the node's number in the upper 16 bits, the offset in
/// the others. Zero is [`NULL`](GlobalAddress::NULL), where nothing is ever allocated.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalAddress(u64);

const OFFSET_BITS: u32 = 48;
/// Number of offsets in a node's memory.
pub(crate) const OFFSETS: u64 = 1 << OFFSET_BITS;

impl GlobalAddress {
    /// The null address.
    pub const NULL: GlobalAddress = GlobalAddress(0);

    /// Creates the address of the byte at an offset of a node's memory.
    ///
    /// ```
    /// use nearfield_fabric::{GlobalAddress, NodeId};
    /// let address = GlobalAddress::new(NodeId(3), 4096);
    /// assert_eq!((address.node(), address.offset()), (NodeId(3), 4096));
    /// assert_eq!(GlobalAddress::from_bits(address.to_bits()), address);
    /// ```
    ///
    /// # Panics
    /// The offset has more than 48 bits.
    pub const fn new(node: NodeId, offset: u64) -> GlobalAddress {
        assert!(offset >> OFFSET_BITS == 0, "offsets have 48 bits");
        GlobalAddress((node.0 as u64) << OFFSET_BITS | offset)
    }

    /// Creates the address that a word of memory holds.
    pub const fn from_bits(bits: u64) -> GlobalAddress {
        GlobalAddress(bits)
    }

    /// Returns the word of memory that holds the address.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns true for [`NULL`](GlobalAddress::NULL).
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the node.
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> OFFSET_BITS) as u16)
    }

    /// Returns the offset in the node's memory.
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    /// Returns the address `bytes` further on; the node's last address if there is none. No node
    /// has that much memory, so a verb there fails with `OutOfRange`.
    ///
    /// ```
    /// use nearfield_fabric::{GlobalAddress, NodeId};
    /// let last = GlobalAddress::new(NodeId(3), (1 << 48) - 1);
    /// assert_eq!(GlobalAddress::new(NodeId(3), 64).plus(8).offset(), 72);
    /// assert_eq!(GlobalAddress::new(NodeId(3), (1 << 48) - 64).plus(128), last);
    /// assert_eq!(last.plus(u64::MAX), last);
    /// ```
    pub const fn plus(self, bytes: u64) -> GlobalAddress {
        // An address that was read from memory may be any word.
        let offset = self.offset().saturating_add(bytes);
        let last = OFFSETS - 1;
        GlobalAddress::new(self.node(), if offset < last { offset } else { last })
    }
}

impl fmt::Debug for GlobalAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for GlobalAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{:#x}", self.node().0, self.offset())
    }
}
