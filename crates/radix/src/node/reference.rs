//! The 32-bit reference in a slot: kind and place of a node or leaf.
//!
//! The number of leading zero bits is the kind, and the rest is an index into that kind's region.
//! The most frequent kinds have the most indices:
//!
//! ```text
//!   1iii iiii …  leaf      2^31 units: blocks of words, 16 B of blocks of strings
//!   01ii iiii …  node4     2^30
//!   001i iiii …  node16    2^29
//!   0001 iiii …  node48    2^28
//!   0000 1iii …  dense     2^27 (256 payloads under one 7-byte prefix)
//!   0000 01ii …  node256   2^25, one byte deeper than its parent: its header need not be read
//!   0000 001i …  node256   the same region, deeper than that
//!   0            nothing
//! ```
//!
//! A reference has half the size of a pointer, which makes a node4 half a cache line, and a node256
//! 1 KiB. A walk knows the kind before the node's line has arrived.

/// The kind of a referenced node. The discriminant is the number of leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeRefKind {
    Leaf = 0,
    Node4 = 1,
    Node16 = 2,
    Node48 = 3,
    Dense = 4,
    /// A node256 whose depth is its parent's plus one.
    Node256 = 5,
    /// A node256 that is deeper than that; its header holds its depth.
    Skipping256 = 6,
    Nothing = 7,
}

/// The number of kinds, `Nothing` included.
pub const KINDS: usize = 8;

/// The reference; see the [module](self) for its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(u32);

impl Ref {
    pub const NULL: Ref = Ref(0);

    #[inline]
    pub fn new(kind: NodeRefKind, index: u32) -> Ref {
        debug_assert!(index < Self::indices(kind), "index out of the kind's range");
        Ref((0x8000_0000 >> kind as u32) | index)
    }

    /// Returns the number of indices of a kind.
    pub fn indices(kind: NodeRefKind) -> u32 {
        match kind {
            NodeRefKind::Node256 | NodeRefKind::Skipping256 => 1 << 25,
            kind => 1 << (31 - kind as u32),
        }
    }

    #[inline]
    pub fn from_bits(bits: u32) -> Ref {
        Ref(bits)
    }

    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the kind as a number below [`KINDS`], without a branch.
    #[inline]
    pub fn tag(self) -> usize {
        // The lowest tag bit in use is bit 25; setting bit 24 makes 0 a kind of its own.
        (self.0 | 1 << 24).leading_zeros() as usize & 7
    }

    #[inline]
    pub fn kind(self) -> NodeRefKind {
        Self::kind_of(self.tag())
    }

    /// Returns the kind with a tag.
    #[inline]
    pub fn kind_of(tag: usize) -> NodeRefKind {
        match tag {
            0 => NodeRefKind::Leaf,
            1 => NodeRefKind::Node4,
            2 => NodeRefKind::Node16,
            3 => NodeRefKind::Node48,
            4 => NodeRefKind::Dense,
            5 => NodeRefKind::Node256,
            6 => NodeRefKind::Skipping256,
            _ => NodeRefKind::Nothing,
        }
    }

    #[inline]
    pub fn index(self) -> u32 {
        self.0 & (0x7fff_ffff >> self.tag())
    }

    /// Returns true for a leaf.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.0 >> 31 != 0
    }

    /// Returns true for a node256 whose depth is its parent's plus one.
    #[inline]
    pub fn is_next_256(self) -> bool {
        self.0 >> (31 - NodeRefKind::Node256 as u32) == 1
    }

    /// Returns true for a node256.
    #[inline]
    pub fn is_256(self) -> bool {
        matches!(self.0 >> 25, 1..=3)
    }

    /// Returns the index of a node256.
    #[inline]
    pub fn index_of_256(self) -> u32 {
        debug_assert!(matches!(
            self.kind(),
            NodeRefKind::Node256 | NodeRefKind::Skipping256
        ));
        self.0 & (Self::indices(NodeRefKind::Node256) - 1)
    }

    /// Returns true for node4, node16, node48 and node256.
    #[inline]
    pub fn is_inner(self) -> bool {
        const INNER: u32 = 1 << NodeRefKind::Node4 as u32
            | 1 << NodeRefKind::Node16 as u32
            | 1 << NodeRefKind::Node48 as u32
            | 1 << NodeRefKind::Node256 as u32
            | 1 << NodeRefKind::Skipping256 as u32;
        INNER >> self.tag() & 1 != 0
    }

    /// Returns true for node4, node16 and node48.
    #[inline]
    pub fn is_small(self) -> bool {
        matches!(self.0 >> 28, 1..=7)
    }

    /// Returns true for all kinds of nodes but node4.
    #[inline]
    pub fn is_wider_than_a_line(self) -> bool {
        (NodeRefKind::Node16 as usize..NodeRefKind::Nothing as usize).contains(&self.tag())
    }

    /// Returns true if both refer to the same node or leaf.
    #[inline]
    pub fn same(self, other: Ref) -> bool {
        self == other || (self.canonical() == other.canonical())
    }

    /// Returns the reference that stands for all references to the same node.
    pub fn canonical(self) -> Ref {
        match self.kind() {
            NodeRefKind::Skipping256 => Ref::new(NodeRefKind::Node256, self.index()),
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_index_survive() {
        for kind in [
            NodeRefKind::Leaf,
            NodeRefKind::Node4,
            NodeRefKind::Node16,
            NodeRefKind::Node48,
            NodeRefKind::Dense,
            NodeRefKind::Node256,
            NodeRefKind::Skipping256,
        ] {
            for index in [0, 1, 12345, Ref::indices(kind) - 1] {
                let reference = Ref::new(kind, index);
                assert_eq!((reference.kind(), reference.index()), (kind, index));
                assert!(!reference.is_null());
            }
        }
        assert_eq!(Ref::NULL.kind(), NodeRefKind::Nothing);
    }

    #[test]
    fn both_references_to_a_node256_are_the_same() {
        let near = Ref::new(NodeRefKind::Node256, 7);
        let far = Ref::new(NodeRefKind::Skipping256, 7);
        assert!(near.same(far) && near != far);
        assert!(!near.same(Ref::new(NodeRefKind::Node256, 8)));
    }
}
