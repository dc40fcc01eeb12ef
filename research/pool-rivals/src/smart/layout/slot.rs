//! Slots: words of internal nodes that lead to a node or a leaf.

use nearfield_fabric::{GlobalAddress, MaskedSwap, NodeId};

/// The alignment of a slot's child, with which its address fits in 48 bits: the memory node's
/// number has 8, the offset without its lowest 8 bits 40.
pub const ALIGNMENT: u64 = 256;
/// Bound of the numbers of memory nodes.
pub const NODES: u16 = 1 << 8;

const OFFSET_BITS: u32 = 40;
const ADDRESS_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 8;
const LEAF: u64 = 0x80 << KIND_SHIFT;
const NODE: u64 = 0x40 << KIND_SHIFT;
const VACANT: u64 = 0x20 << KIND_SHIFT;
/// Mask of the bits for the size of the node that a slot leads to.
const TYPE_MASK: u64 = 0x1f << KIND_SHIFT;

/// Number of slots of an internal node that are in use: 4, doubled up to six times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeType(u8);

impl NodeType {
    /// The type of new nodes: four slots.
    pub const SMALLEST: NodeType = NodeType(0);
    const LARGEST: NodeType = NodeType(6);

    /// Returns the number of slots.
    pub const fn slots(self) -> usize {
        4 << self.0
    }

    /// Returns the type with twice as many slots, if it exists.
    pub fn doubled(self) -> Option<NodeType> {
        (self < NodeType::LARGEST).then_some(NodeType(self.0 + 1))
    }

    pub(in super::super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Returns the type of five bits; too large ones are the largest.
    pub(in super::super) fn from_bits(bits: u64) -> NodeType {
        // Remote memory may contain anything, and a node has memory for no more slots.
        NodeType((bits & 0x1f) as u8).min(NodeType::LARGEST)
    }
}

/// The child of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmartSlotChild {
    /// No child.
    None,
    /// A leaf.
    Leaf(GlobalAddress),
    /// An internal node, which had this many slots when the slot was written, or more.
    Node(GlobalAddress, NodeType),
}

/// A slot: a partial key in its lowest byte, the kind of its child in the second, and an address of
/// 48 bits.
///
/// An unused slot is zero. A used one belongs to its partial key forever, also while it has no
/// child ([`vacant`](SmartSlot::vacant)): so no partial key ever has two slots of a node, although
/// clients take slots without a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartSlot(u64);

impl SmartSlot {
    /// Creates a slot that leads to a leaf. The address is a multiple of [`ALIGNMENT`] on one of
    /// [`NODES`].
    pub fn leaf(partial: u8, leaf: GlobalAddress) -> SmartSlot {
        SmartSlot(pack(leaf) << ADDRESS_SHIFT | LEAF | u64::from(partial))
    }

    /// Creates a slot that leads to an internal node.
    pub fn node(partial: u8, node: GlobalAddress, node_type: NodeType) -> SmartSlot {
        let kind = NODE | node_type.bits() << KIND_SHIFT;
        SmartSlot(pack(node) << ADDRESS_SHIFT | kind | u64::from(partial))
    }

    /// Creates a slot that belongs to a partial key and has no child.
    pub fn vacant(partial: u8) -> SmartSlot {
        SmartSlot(VACANT | u64::from(partial))
    }

    /// Returns the slot of the same child under another partial key.
    pub fn under(self, partial: u8) -> SmartSlot {
        SmartSlot(self.0 & !0xff | u64::from(partial))
    }

    /// Returns a swap that changes the type of the node in a slot from one to another, if the slot
    /// leads to the node and has the first.
    pub fn growth(node: GlobalAddress, from: NodeType, to: NodeType) -> MaskedSwap {
        debug_assert!(from <= to, "nodes do not shrink");
        MaskedSwap {
            expected: SmartSlot::node(0, node, from).to_word(),
            // A slot keeps its partial key, which the caller need not know.
            compare_mask: !0xff,
            desired: to.bits() << KIND_SHIFT,
            swap_mask: TYPE_MASK,
        }
    }

    /// Creates the slot from a word.
    pub const fn from_word(word: u64) -> SmartSlot {
        SmartSlot(word)
    }

    /// Returns the word of a slot.
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// Returns true if it was never used.
    pub const fn is_unused(self) -> bool {
        self.0 == 0
    }

    /// Returns the byte of keys to which it belongs.
    pub const fn partial(self) -> u8 {
        self.0 as u8
    }

    /// Returns its child.
    pub fn child(self) -> SmartSlotChild {
        let address = unpack(self.0 >> ADDRESS_SHIFT);
        if address.is_null() {
            // Nothing is ever allocated there, but the slot may be damaged. The null address stands
            // for the holder of the root's slot.
            SmartSlotChild::None
        } else if self.0 & LEAF != 0 {
            SmartSlotChild::Leaf(address)
        } else if self.0 & NODE != 0 {
            SmartSlotChild::Node(address, NodeType::from_bits(self.0 >> KIND_SHIFT))
        } else {
            SmartSlotChild::None
        }
    }
}

/// Returns an address in the form of a slot.
pub fn pack(address: GlobalAddress) -> u64 {
    debug_assert!(address.node().0 < NODES && address.offset().is_multiple_of(ALIGNMENT));
    (u64::from(address.node().0) << OFFSET_BITS) | (address.offset() / ALIGNMENT)
}

/// Returns the address in a slot.
pub fn unpack(packed: u64) -> GlobalAddress {
    let node = NodeId((packed >> OFFSET_BITS & 0xff) as u16);
    let offset = (packed & ((1 << OFFSET_BITS) - 1)) * ALIGNMENT;
    GlobalAddress::new(node, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_what_they_lead_to() {
        let address = GlobalAddress::new(NodeId(255), 0xffff_ffff_ff00);
        let leaf = SmartSlot::leaf(7, address);
        assert_eq!(
            (leaf.partial(), leaf.child()),
            (7, SmartSlotChild::Leaf(address))
        );
        let mut node_type = NodeType::SMALLEST;
        let mut sizes = vec![node_type.slots()];
        while let Some(next) = node_type.doubled() {
            node_type = next;
            sizes.push(node_type.slots());
            let slot = SmartSlot::node(0, address, node_type);
            assert_eq!(slot.child(), SmartSlotChild::Node(address, node_type));
            if let Some(next) = node_type.doubled() {
                let grown = SmartSlot::growth(address, node_type, next).apply(slot.to_word());
                assert_eq!(grown, Some(SmartSlot::node(0, address, next).to_word()));
                assert_eq!(
                    SmartSlot::growth(address, next, next).apply(slot.to_word()),
                    None
                );
            }
            assert_eq!(SmartSlot::from_word(slot.to_word()).under(9).partial(), 9);
        }
        assert_eq!(sizes, [4, 8, 16, 32, 64, 128, 256]);
        let nowhere = SmartSlot::node(7, GlobalAddress::NULL, NodeType::SMALLEST);
        assert_eq!(nowhere.child(), SmartSlotChild::None);
        let vacant = SmartSlot::vacant(0);
        assert!(!vacant.is_unused() && vacant.child() == SmartSlotChild::None);
        assert!(SmartSlot::default().is_unused());
    }
}
