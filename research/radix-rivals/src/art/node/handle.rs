//! A node of any kind.

use super::kinds::{ArtNode4, ArtNode16, ArtNode48, ArtNode256, ArtNodeHeader, ArtNodeKind, END};
use super::prefix::ArtPrefix;
use super::slot::{ArtSlot, ArtTaggedPointer};
use super::small::ArtSmallNode;
use crate::leaf::RivalForm;
use crate::scan::{RivalChild, Symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::lock::VersionLock;
use nearfield_radix::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A node that is not freed during 'g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtNode<'g> {
    header: NonNull<ArtNodeHeader>,
    lives: PhantomData<&'g ArtNodeHeader>,
}

/// The parts of a node by its kind.
#[derive(Clone, Copy, Debug)]
pub enum ArtNodeView<'g> {
    Small(ArtSmallNode<'g>),
    Node48(&'g ArtNode48),
    Node256(&'g ArtNode256),
}

/// The result of a search in a node.
#[derive(Clone, Copy, Debug)]
pub struct ArtSearchResult {
    pub child: ArtTaggedPointer,
    /// The offset of the slot, or 0 if no slot was read.
    pub slot: u32,
}

impl ArtSearchResult {
    pub const NOTHING: ArtSearchResult = ArtSearchResult {
        child: ArtTaggedPointer::NONE,
        slot: 0,
    };
}

impl<'g> ArtNode<'g> {
    /// Creates a node from its address.
    ///
    /// # Safety
    /// It was made by [`new`](ArtNode::new), and is not freed during 'g.
    #[inline]
    pub unsafe fn from_address(header: NonNull<ArtNodeHeader>) -> Self {
        let lives = PhantomData;
        ArtNode { header, lives }
    }

    /// Creates a node, which the caller owns until it is part of a tree.
    pub fn new(kind: ArtNodeKind, level: usize, prefix: ArtPrefix) -> Self {
        fn leak<T>(node: T) -> NonNull<ArtNodeHeader> {
            NonNull::from(Box::leak(Box::new(node))).cast()
        }
        let header = match kind {
            ArtNodeKind::Node4 => leak(ArtNode4::new(level, prefix)),
            ArtNodeKind::Node16 => leak(ArtNode16::new(level, prefix)),
            ArtNodeKind::Node48 => leak(ArtNode48::new(level, prefix)),
            ArtNodeKind::Node256 => leak(ArtNode256::new(level, prefix)),
        };
        let lives = PhantomData;
        ArtNode { header, lives }
    }

    /// Frees the node at once.
    ///
    /// # Safety
    /// No thread uses the node or can still find it.
    pub unsafe fn free(self) {
        // SAFETY: nodes are created as boxes of the type that belongs to their kind; the caller is
        // the only user.
        unsafe {
            match self.kind() {
                ArtNodeKind::Node4 => drop(Box::from_raw(self.header.cast::<ArtNode4>().as_ptr())),
                ArtNodeKind::Node16 => {
                    drop(Box::from_raw(self.header.cast::<ArtNode16>().as_ptr()))
                }
                ArtNodeKind::Node48 => {
                    drop(Box::from_raw(self.header.cast::<ArtNode48>().as_ptr()))
                }
                ArtNodeKind::Node256 => {
                    drop(Box::from_raw(self.header.cast::<ArtNode256>().as_ptr()))
                }
            }
        }
    }

    /// Frees the node when no thread can use it any more.
    ///
    /// # Safety
    /// The caller has unlinked the node, and retires it once.
    pub unsafe fn retire(self, guard: &Guard) {
        let address = self.header.as_ptr().expose_provenance();
        let free = move || {
            let header = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
            if let Some(header) = header {
                let lives = PhantomData;
                // SAFETY: all guards under which the node could be found have been dropped.
                unsafe { ArtNode { header, lives }.free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a node may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }

    /// Returns its address.
    #[inline]
    pub fn address(self) -> NonNull<ArtNodeHeader> {
        self.header
    }

    /// Returns its address as a number, for events.
    #[inline]
    pub fn place(self) -> usize {
        self.header.as_ptr().addr()
    }

    #[inline]
    fn header(self) -> &'g ArtNodeHeader {
        // SAFETY: the node is not freed during 'g; its mutable parts are atomic.
        unsafe { self.header.as_ref() }
    }

    /// Returns the lock.
    #[inline]
    pub fn lock(self) -> &'g VersionLock {
        &self.header().lock
    }

    /// Returns the kind.
    #[inline]
    pub fn kind(self) -> ArtNodeKind {
        self.header().kind
    }

    /// Returns the number of bytes that all keys below share.
    #[inline]
    pub fn level(self) -> usize {
        usize::from(self.header().level)
    }

    /// Returns the prefix.
    #[inline]
    pub fn prefix(self) -> ArtPrefix {
        ArtPrefix::from_word(self.header().prefix.load(Ordering::Acquire))
    }

    /// Writes the prefix, under the lock.
    pub fn set_prefix(self, prefix: ArtPrefix, probe: &mut impl RadixProbe) {
        self.header().prefix.store(prefix.word(), Ordering::Release);
        probe.write(self.place() + offset_of!(ArtNodeHeader, prefix), 8);
    }

    /// Returns the slot of the key that ends here.
    #[inline]
    pub fn end(self) -> &'g ArtSlot {
        &self.header().end
    }

    /// Returns the number of used slots besides that of the key that ends here.
    #[inline]
    pub fn count(self) -> usize {
        let count = self.header().count.load(Ordering::Relaxed);
        match (self.kind(), count) {
            // It has at least one.
            (ArtNodeKind::Node256, count) => usize::from(count) + 1,
            (_, count) => usize::from(count),
        }
    }

    /// Adds to the count of used slots, under the lock.
    pub fn add_to_count(self, change: i8) {
        let count = &self.header().count;
        // The lock excludes other writers, so that no atomic addition is needed.
        let next = count.load(Ordering::Relaxed).wrapping_add_signed(change);
        count.store(next, Ordering::Relaxed);
    }

    /// Returns the parts of the node.
    #[inline]
    pub fn view(self) -> ArtNodeView<'g> {
        // SAFETY: nodes are created as boxes of the type that belongs to their kind, and this one
        // is not freed during 'g; its mutable parts are atomic.
        unsafe {
            match self.kind() {
                ArtNodeKind::Node4 => {
                    ArtNodeView::Small(ArtSmallNode::of_4(self.header.cast().as_ref()))
                }
                ArtNodeKind::Node16 => {
                    ArtNodeView::Small(ArtSmallNode::of_16(self.header.cast().as_ref()))
                }
                ArtNodeKind::Node48 => ArtNodeView::Node48(self.header.cast().as_ref()),
                ArtNodeKind::Node256 => ArtNodeView::Node256(self.header.cast().as_ref()),
            }
        }
    }

    /// Returns the offset of a slot by its position.
    #[inline]
    pub fn slot_offset(self, position: usize) -> u32 {
        self.kind().slots_offset() + 8 * position as u32
    }

    /// Finds the child of a symbol. `find_small` finds that of a byte in a node4 or node16.
    #[inline]
    pub fn find(
        self,
        symbol: Symbol,
        find_small: impl FnOnce(ArtSmallNode<'g>, u8) -> ArtSearchResult,
    ) -> ArtSearchResult {
        let Some(byte) = symbol else {
            return ArtSearchResult {
                child: self.end().load(),
                slot: END,
            };
        };
        let at = |slots: &[ArtSlot], position: usize| ArtSearchResult {
            child: slots[position].load(),
            slot: self.slot_offset(position),
        };
        match self.view() {
            ArtNodeView::Small(small) => find_small(small, byte),
            ArtNodeView::Node48(node) => {
                let place = node.index[usize::from(byte)].load(Ordering::Acquire);
                match usize::from(place).checked_sub(1) {
                    Some(position) => at(&node.slots, position),
                    None => ArtSearchResult::NOTHING,
                }
            }
            ArtNodeView::Node256(node) => at(&node.slots, usize::from(byte)),
        }
    }

    /// Creates the event of a search for a symbol.
    #[inline]
    pub fn visit(self, symbol: Symbol, slot: u32, prefix: ArtPrefix) -> RadixNodeVisit {
        let index = match (self.kind(), symbol) {
            (ArtNodeKind::Node48, Some(byte)) => {
                offset_of!(ArtNode48, index) as u32 + u32::from(byte)
            }
            _ => 0,
        };
        RadixNodeVisit {
            address: self.place(),
            kind: VisitedNodeKind::Inner {
                slots: self.kind().slots(),
            },
            bytes: self.kind().bytes(),
            head_bytes: match symbol {
                Some(_) => self.kind().head_bytes(),
                None => size_of::<ArtNodeHeader>() as u32,
            },
            prefix_bytes: prefix.stored_length() as u32,
            index,
            slot,
        }
    }

    /// Creates the event of a search in which the key differs from the prefix.
    #[inline]
    pub fn visit_prefix(self, prefix: ArtPrefix) -> RadixNodeVisit {
        self.visit(None, 0, prefix)
    }

    /// Publishes a child in the slot at an offset, under the lock.
    #[inline]
    pub fn put(self, slot: u32, child: ArtTaggedPointer, probe: &mut impl RadixProbe) {
        debug_assert!(self.slot_at(slot).is_some(), "no slot at {slot}");
        if let Some(found) = self.slot_at(slot) {
            found.store(child);
            probe.write(self.place() + slot as usize, 8);
        }
    }

    /// Returns the slot at an offset.
    fn slot_at(self, slot: u32) -> Option<&'g ArtSlot> {
        if slot == offset_of!(ArtNodeHeader, end) as u32 {
            return Some(self.end());
        }
        let position = (slot.checked_sub(self.kind().slots_offset())? / 8) as usize;
        match self.view() {
            ArtNodeView::Small(small) => small.slots.get(position),
            ArtNodeView::Node48(node) => node.slots.get(position),
            ArtNodeView::Node256(node) => node.slots.get(position),
        }
    }

    /// Reports all bytes of a new node as written.
    pub fn written(self, probe: &mut impl RadixProbe) {
        probe.write(self.place(), self.kind().bytes());
    }

    /// Returns the key of a leaf that is or was below; `None` if other threads remove all that the
    /// search encounters.
    pub fn any_key<F: RivalForm>(self) -> Option<&'g [u8]> {
        let mut node = self;
        loop {
            let mut below = None;
            let mut leaf = None;
            let mut look = |child: ArtTaggedPointer| {
                // SAFETY: children of a node that is not freed during 'g were not unlinked before
                // the guard of 'g was pinned, so they are not freed during 'g either.
                match unsafe { child.child::<F>() } {
                    Some(RivalChild::Leaf(found)) => leaf = Some(found.key()),
                    Some(RivalChild::Node(found)) => below = Some(found),
                    None => {}
                }
                leaf.is_none()
            };
            if look(node.end().load()) {
                node.for_each_while(|_, child| look(child));
            }
            match (leaf, below) {
                (Some(key), _) => return Some(key),
                (None, Some(found)) => node = found,
                (None, None) => return None,
            }
        }
    }

    /// Calls `visit` with the bytes and children in the order of the slots, or of the bytes in a
    /// node48 or node256, while it returns true.
    pub fn for_each_while(self, mut visit: impl FnMut(u8, ArtTaggedPointer) -> bool) {
        match self.view() {
            ArtNodeView::Small(small) => {
                for (position, slot) in small.slots[..self.count()].iter().enumerate() {
                    let child = slot.load();
                    // The key byte was stored before the child.
                    if !child.is_none() && !visit(small.key(position), child) {
                        return;
                    }
                }
            }
            ArtNodeView::Node48(node) => {
                for byte in 0..=u8::MAX {
                    let place = node.index[usize::from(byte)].load(Ordering::Acquire);
                    let Some(place) = usize::from(place).checked_sub(1) else {
                        continue;
                    };
                    let child = node.slots[place].load();
                    if !child.is_none() && !visit(byte, child) {
                        return;
                    }
                }
            }
            ArtNodeView::Node256(node) => {
                for byte in 0..=u8::MAX {
                    let child = node.slots[usize::from(byte)].load();
                    if !child.is_none() && !visit(byte, child) {
                        return;
                    }
                }
            }
        }
    }

    /// Calls `visit` like `for_each_while`, for all children.
    pub fn for_each(self, mut visit: impl FnMut(u8, ArtTaggedPointer)) {
        self.for_each_while(|byte, child| {
            visit(byte, child);
            true
        });
    }
}
