//! The four inner node kinds as one enum.
//!
//! Children stand for ranges of bytes. A leaf covers one or more neighbouring bytes, an inner or
//! dense node exactly one byte. Bytes between these have no child. A leaf at the end slot stands
//! for the key that ends at the node.

use super::{
    ChildByteRange, RadixNode4, RadixNode16, RadixNode48, RadixNode256, RadixNodeHeader,
    RadixSortedNode, Ref, bitmap,
};
use crate::counters::{RadixNodeVisit, VisitedNodeKind};
use nearfield_core::ScanDirection;

/// The symbol that a node decides on: a byte of the key, or [`END`].
pub type Symbol = u16;

/// The symbol of a key that ends at a node's depth; it sorts before every byte.
pub const END: Symbol = 256;

/// A borrowed inner node.
#[derive(Clone, Copy, Debug)]
pub enum RadixInnerNode<'m> {
    /// A node with up to four children.
    Node4(&'m RadixNode4),
    /// A node with up to 16 children.
    Node16(&'m RadixNode16),
    /// A node with up to 48 children.
    Node48(&'m RadixNode48),
    /// A node with up to 256 children.
    Node256(&'m RadixNode256),
}

/// Runs one expression for any small node, and another for a node256.
macro_rules! by_kind {
    ($self:expr, $node:ident => $sorted:expr, $wide:ident => $other:expr) => {
        match $self {
            RadixInnerNode::Node4($node) => $sorted,
            RadixInnerNode::Node16($node) => $sorted,
            RadixInnerNode::Node48($node) => $sorted,
            RadixInnerNode::Node256($wide) => $other,
        }
    };
}

impl<'m> RadixInnerNode<'m> {
    /// Returns the header.
    #[inline]
    pub fn header(self) -> &'m RadixNodeHeader {
        by_kind!(self, node => node.header(), node => node.header())
    }

    /// Returns the number of children, including a leaf at the end slot.
    pub fn children(self) -> usize {
        self.header().count() + usize::from(!self.header().end().is_null())
    }

    /// Empties a node that no other thread can reach.
    pub fn reset(self, depth: usize) {
        by_kind!(self, node => node.reset(depth), node => node.reset(depth));
    }

    /// Returns the first child, null if there is none. Validate it as for `for_each`.
    pub fn first(self) -> Ref {
        let mut first = Ref::NULL;
        self.walk(None, ScanDirection::Ascending, |child| {
            first = child;
            false
        });
        first
    }

    /// Returns the child whose range includes a byte. Validate it by the version, unless under the
    /// lock or for a node256.
    #[inline]
    pub fn covering(self, byte: u8) -> Ref {
        by_kind!(self, node => node.covering(byte), node => node.find(byte))
    }

    /// Returns the node's size in bytes.
    pub fn bytes(self) -> usize {
        by_kind!(self, node => size_of_val(node), node => size_of_val(node))
    }

    /// Returns the reads that a walk makes of the node at `address` to find the child for a symbol.
    /// If `depth_is_known`, only the slot of a node256 is read.
    pub fn visit(self, address: usize, depth_is_known: bool, symbol: Symbol) -> RadixNodeVisit {
        let slots_at = |slots: usize| self.bytes() - slots * size_of::<Ref>();
        let (slots, head) = by_kind!(self,
            node => (node.slots().len(), slots_at(node.slots().len())),
            _node => (256, if depth_is_known { 0 } else { size_of::<RadixNodeHeader>() }));
        let slot = match symbol {
            END => RadixNodeHeader::END_AT,
            byte => by_kind!(self,
                node => match node.at_most(node.header().count().min(slots), byte as u8) {
                    0 => 0,
                    below => slots_at(slots) + (below - 1) * size_of::<Ref>(),
                },
                _node => slots_at(slots) + usize::from(byte) * size_of::<Ref>()),
        };
        RadixNodeVisit {
            address,
            kind: VisitedNodeKind::Inner {
                slots: slots as u16,
            },
            bytes: self.bytes() as u32,
            head_bytes: head as u32,
            prefix_bytes: 0,
            index: 0,
            slot: slot as u32,
        }
    }

    /// Returns the range that contains a byte. Only under the lock.
    pub fn range(self, byte: u8) -> ChildByteRange {
        by_kind!(self, node => node.range(byte), node => node.range(byte))
    }

    /// Returns the start of the range that contains a byte. Validate it as for
    /// [`covering`](RadixInnerNode::covering).
    #[inline]
    pub fn range_start(self, byte: u8) -> u8 {
        by_kind!(self, node => node.range_start(byte), node => node.range_start(byte))
    }

    /// Returns the symbol at which the child for a symbol starts.
    #[inline]
    pub fn start_of(self, symbol: Symbol) -> Symbol {
        match symbol {
            END => END,
            byte => Symbol::from(self.range_start(byte as u8)),
        }
    }

    /// Replaces the ranges that start from `start` to `end` with `pieces`, which cover the same
    /// bytes. Only under the lock; there must be room.
    pub fn splice(self, start: u8, end: u8, pieces: &[(u8, Ref)]) {
        debug_assert!(pieces.is_sorted_by(|a, b| a.0 < b.0), "ranges out of order");
        debug_assert!(
            pieces.first().is_none_or(|piece| piece.0 == start)
                && pieces.last().is_none_or(|piece| piece.0 <= end),
            "the pieces do not cover the bytes from {start} to {end}"
        );
        by_kind!(self,
            node => node.splice(start, end, pieces),
            node => node.splice(start, end, pieces));
    }

    /// Removes the child of the range that contains a byte. One empty range then covers it and all
    /// neighbouring gaps. Only under the lock.
    pub fn clear_covering(self, byte: u8) {
        let ChildByteRange {
            mut start,
            mut end,
            child,
            ..
        } = self.range(byte);
        debug_assert!(!child.is_null(), "no child to remove");
        let gap = |byte: Option<u8>| {
            let range = byte.map(|byte| self.range(byte));
            range.filter(|range| range.child.is_null())
        };
        // Two neighbouring gaps would be two ranges, and take a slot each.
        while let Some(left) = gap(start.checked_sub(1)) {
            start = left.start;
        }
        while let Some(right) = gap(end.checked_add(1)) {
            end = right.end;
        }
        self.splice(start, end, &[(start, Ref::NULL)]);
    }

    /// Replaces the child whose range includes a byte. Only under the lock.
    pub fn set_covering(self, byte: u8, child: Ref) {
        by_kind!(self,
            node => node.set_covering(byte, child),
            node => node.set_covering(byte, child));
    }

    /// Calls `visit` for each range in ascending order. Validate it as for
    /// [`for_each`](RadixInnerNode::for_each).
    pub fn for_each_range(self, mut visit: impl FnMut(u8, Ref)) {
        by_kind!(self, node => node.for_each(&mut visit), node => {
            bitmap::for_each_from(node.bitmap().load(), 0, |byte| {
                visit(byte, node.find(byte));
                true
            })
        });
    }

    /// Calls `visit` for each child in ascending order of symbols, [`END`] first. Validate it by
    /// the version, unless under the lock or for a node256.
    #[inline]
    pub fn for_each(self, mut visit: impl FnMut(Symbol, Ref)) {
        let end = self.header().end();
        if !end.is_null() {
            visit(END, end);
        }
        self.for_each_range(|byte, child| {
            if !child.is_null() {
                visit(Symbol::from(byte), child);
            }
        });
    }

    /// Calls `visit` for each child in `direction`, beginning after the symbol `from` if it is
    /// given, until `visit` returns false. Validate it as for `for_each`.
    #[inline]
    pub fn walk(
        self,
        from: Option<Symbol>,
        direction: ScanDirection,
        mut visit: impl FnMut(Ref) -> bool,
    ) {
        match direction {
            ScanDirection::Ascending => {
                let end = self.header().end();
                if from.is_none() && !end.is_null() && !visit(end) {
                    return;
                }
                let first = match from {
                    None | Some(END) => 0,
                    Some(byte) => byte + 1,
                };
                by_kind!(self, node => {
                    let count = node.header().count().min(node.slots().len());
                    let start = match first {
                        0 => 0,
                        256 => count,
                        byte => node.at_most(count, (byte - 1) as u8),
                    };
                    for position in start..count {
                        let child = node.slot(position);
                        if !child.is_null() && !visit(child) {
                            return;
                        }
                    }
                }, node => {
                    bitmap::for_each_from(node.bitmap().load(), first, |byte| {
                        let child = node.find(byte);
                        // The bitmap marks the starts of gaps, too.
                        child.is_null() || visit(child)
                    });
                });
            }
            ScanDirection::Descending => {
                let behind = match from {
                    None => 256,
                    // Nothing sorts before the key that ends here.
                    Some(END) => return,
                    Some(byte) => byte,
                };
                let more = by_kind!(self, node => {
                    let count = node.header().count().min(node.slots().len());
                    let end = match behind {
                        256 => count,
                        0 => 0,
                        byte => node.at_most(count, (byte - 1) as u8),
                    };
                    (0..end).rev().all(|position| {
                        let child = node.slot(position);
                        child.is_null() || visit(child)
                    })
                }, node => {
                    bitmap::for_each_below(node.bitmap().load(), behind, |byte| {
                        let child = node.find(byte);
                        child.is_null() || visit(child)
                    })
                });
                let end = self.header().end();
                if more && !end.is_null() {
                    visit(end);
                }
            }
        }
    }
}
