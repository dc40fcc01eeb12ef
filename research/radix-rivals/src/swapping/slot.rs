//! Slots: words that lead to a node or a leaf, and change by one swap.
//!
//! ```text
//!   63                        16          8        0
//!   ┌──────────────────────────┬───────────┬────────┐
//!   │ address                  │ kind      │ byte   │
//!   └──────────────────────────┴───────────┴────────┘
//! ```

use super::node::{SwapNode, SwapNodeSize};
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::RivalChild;
use std::ptr::{NonNull, with_exposed_provenance_mut};

const ADDRESS_SHIFT: u32 = 16;
const LEAF: u64 = 1 << 15;
/// The mark of a slot that no swap changes any more, because its node is being replaced.
const FROZEN: u64 = 1 << 14;
/// The mark of a slot whose node has a prefix after the byte.
const PREFIX: u64 = 1 << 13;
/// The mark of a slot that belongs to its byte.
const USED: u64 = 1 << 12;
const SIZE_SHIFT: u32 = 8;
const SIZE_MASK: u64 = 0x7;

/// The content of a slot.
///
/// An unused slot is zero, except for the mark of a [frozen](SwapSlot::is_frozen) one. A used one
/// belongs to its byte as long as its node is part of the tree, even while it leads to nothing. So
/// no byte has two slots of a node, although writers take slots without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSlot(pub u64);

impl SwapSlot {
    /// The content of a slot that was never used.
    pub const UNUSED: SwapSlot = SwapSlot(0);

    /// Returns a slot that belongs to a byte and leads to nothing.
    pub fn vacant(byte: u8) -> SwapSlot {
        SwapSlot(USED | u64::from(byte))
    }

    /// Returns a slot that leads to a leaf.
    pub fn leaf<F: RivalForm>(byte: u8, leaf: RivalLeaf<'_, F>) -> SwapSlot {
        SwapSlot::vacant(byte).with(leaf.address(), LEAF)
    }

    /// Returns a slot that leads to a node, from a path of `depth` bytes.
    pub fn node<const APART: bool>(byte: u8, node: SwapNode<'_, APART>, depth: usize) -> SwapSlot {
        let prefix = if node.level() > depth { PREFIX } else { 0 };
        let size = (node.size() as u64) << SIZE_SHIFT;
        SwapSlot::vacant(byte).with(node.address().cast(), size | prefix)
    }

    fn with(self, address: NonNull<u8>, kind: u64) -> SwapSlot {
        let address = address.as_ptr().expose_provenance() as u64;
        debug_assert!(address >> 48 == 0, "an address of more than 48 bits");
        SwapSlot(self.0 | address << ADDRESS_SHIFT | kind)
    }

    /// Returns the same child under another byte, not frozen.
    pub fn under(self, byte: u8) -> SwapSlot {
        SwapSlot(self.0 & !0xff & !FROZEN | u64::from(byte))
    }

    /// Returns the same slot with another node, which has the same prefix.
    pub fn leading_to<const APART: bool>(self, node: SwapNode<'_, APART>) -> SwapSlot {
        let size = (node.size() as u64) << SIZE_SHIFT;
        SwapSlot::vacant(self.byte()).with(node.address().cast(), size | self.0 & PREFIX)
    }

    /// Returns the same slot, frozen.
    pub fn frozen(self) -> SwapSlot {
        SwapSlot(self.0 | FROZEN)
    }

    /// Returns true if its node is being replaced.
    #[inline]
    pub fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Returns true if it was never used.
    #[inline]
    pub fn is_unused(self) -> bool {
        self.0 & USED == 0
    }

    /// Returns true if it leads to nothing, used or not.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 >> ADDRESS_SHIFT == 0
    }

    /// Returns the byte of a used slot.
    #[inline]
    pub fn byte(self) -> u8 {
        self.0 as u8
    }

    /// Returns true if a used slot belongs to a byte.
    #[inline]
    pub fn is_of(self, byte: u8) -> bool {
        self.byte() == byte && !self.is_unused()
    }

    /// Returns true if it leads to a node with a prefix.
    #[inline]
    pub fn has_prefix(self) -> bool {
        self.0 & PREFIX != 0
    }

    /// Returns the child, if there is one.
    ///
    /// # Safety
    /// It was read from a node of a tree of entries of this form, and a thread that unlinks the
    /// child does not free it during 'g.
    #[inline]
    pub unsafe fn child<'g, F: RivalForm, const APART: bool>(
        self,
    ) -> Option<RivalChild<'g, F, SwapNode<'g, APART>>> {
        let address = (self.0 >> ADDRESS_SHIFT) as usize;
        let address = NonNull::new(with_exposed_provenance_mut::<u8>(address))?;
        // SAFETY: promised by the caller.
        Some(unsafe {
            match self.0 & LEAF != 0 {
                true => RivalChild::Leaf(RivalLeaf::from_address(address)),
                false => {
                    let size = SwapNodeSize::from_bits((self.0 >> SIZE_SHIFT & SIZE_MASK) as u8);
                    RivalChild::Node(SwapNode::from_address(address.cast(), size))
                }
            }
        })
    }
}
