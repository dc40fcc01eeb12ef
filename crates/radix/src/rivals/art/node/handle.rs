//! A node of any kind.

use super::kinds::{Header, Kind, Node4, Node16, Node48, Node256};
use super::prefix::Prefix;
use super::slot::{Slot, Tagged};
use super::small::Small;
use crate::counters::{Probe, Visit, Visited};
use crate::lock::VersionLock;
use crate::rivals::leaf::RivalForm;
use crate::rivals::scan::{Child, Symbol};
use crossbeam_epoch::Guard;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A node that is not freed during 'g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'g> {
    header: NonNull<Header>,
    lives: PhantomData<&'g Header>,
}

/// The parts of a node by its kind.
#[derive(Clone, Copy, Debug)]
pub enum View<'g> {
    Small(Small<'g>),
    Node48(&'g Node48),
    Node256(&'g Node256),
}

/// The result of a search in a node.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub child: Tagged,
    /// The offset of the slot, or 0 if no slot was read.
    pub slot: u32,
}

impl Found {
    pub const NOTHING: Found = Found {
        child: Tagged::NONE,
        slot: 0,
    };
}

impl<'g> Node<'g> {
    /// Creates a node from its address.
    ///
    /// # Safety
    /// It was made by [`new`](Node::new), and is not freed during 'g.
    #[inline]
    pub unsafe fn from_address(header: NonNull<Header>) -> Self {
        let lives = PhantomData;
        Node { header, lives }
    }

    /// Creates a node, which the caller owns until it is part of a tree.
    pub fn new(kind: Kind, level: usize, prefix: Prefix) -> Self {
        fn leak<T>(node: T) -> NonNull<Header> {
            NonNull::from(Box::leak(Box::new(node))).cast()
        }
        let header = match kind {
            Kind::Node4 => leak(Node4::new(level, prefix)),
            Kind::Node16 => leak(Node16::new(level, prefix)),
            Kind::Node48 => leak(Node48::new(level, prefix)),
            Kind::Node256 => leak(Node256::new(level, prefix)),
        };
        let lives = PhantomData;
        Node { header, lives }
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
                Kind::Node4 => drop(Box::from_raw(self.header.cast::<Node4>().as_ptr())),
                Kind::Node16 => drop(Box::from_raw(self.header.cast::<Node16>().as_ptr())),
                Kind::Node48 => drop(Box::from_raw(self.header.cast::<Node48>().as_ptr())),
                Kind::Node256 => drop(Box::from_raw(self.header.cast::<Node256>().as_ptr())),
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
                unsafe { Node { header, lives }.free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a node may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }

    /// Returns its address.
    #[inline]
    pub fn address(self) -> NonNull<Header> {
        self.header
    }

    /// Returns its address as a number, for events.
    #[inline]
    pub fn place(self) -> usize {
        self.header.as_ptr().addr()
    }

    #[inline]
    fn header(self) -> &'g Header {
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
    pub fn kind(self) -> Kind {
        self.header().kind
    }

    /// Returns the number of bytes that all keys below share.
    #[inline]
    pub fn level(self) -> usize {
        usize::from(self.header().level)
    }

    /// Returns the prefix.
    #[inline]
    pub fn prefix(self) -> Prefix {
        Prefix::from_word(self.header().prefix.load(Ordering::Acquire))
    }

    /// Writes the prefix, under the lock.
    pub fn set_prefix(self, prefix: Prefix, probe: &mut impl Probe) {
        self.header().prefix.store(prefix.word(), Ordering::Release);
        probe.write(self.place() + offset_of!(Header, prefix), 8);
    }

    /// Returns the slot of the key that ends here.
    #[inline]
    pub fn end(self) -> &'g Slot {
        &self.header().end
    }

    /// Returns the number of used slots besides that of the key that ends here.
    #[inline]
    pub fn count(self) -> usize {
        let count = self.header().count.load(Ordering::Relaxed);
        match (self.kind(), count) {
            // It has at least one.
            (Kind::Node256, count) => usize::from(count) + 1,
            (_, count) => usize::from(count),
        }
    }

    /// Adds to the count of used slots, under the lock.
    pub fn add_to_count(self, change: i8) {
        let count = &self.header().count;
        let next = count.load(Ordering::Relaxed).wrapping_add_signed(change);
        count.store(next, Ordering::Relaxed);
    }

    /// Returns the parts of the node.
    #[inline]
    pub fn view(self) -> View<'g> {
        // SAFETY: nodes are created as boxes of the type that belongs to their kind, and this one
        // is not freed during 'g; its mutable parts are atomic.
        unsafe {
            match self.kind() {
                Kind::Node4 => View::Small(Small::of_4(self.header.cast().as_ref())),
                Kind::Node16 => View::Small(Small::of_16(self.header.cast().as_ref())),
                Kind::Node48 => View::Node48(self.header.cast().as_ref()),
                Kind::Node256 => View::Node256(self.header.cast().as_ref()),
            }
        }
    }

    /// Returns the offset of a slot by its position.
    #[inline]
    pub fn slot_offset(self, position: usize) -> u32 {
        self.kind().slots_offset() + 8 * position as u32
    }

    /// Creates the event of a search for a symbol.
    #[inline]
    pub fn visit(self, symbol: Symbol, slot: u32, prefix: Prefix) -> Visit {
        let index = match (self.kind(), symbol) {
            (Kind::Node48, Some(byte)) => offset_of!(Node48, index) as u32 + u32::from(byte),
            _ => 0,
        };
        Visit {
            address: self.place(),
            kind: Visited::Inner {
                slots: self.kind().slots(),
            },
            bytes: self.kind().bytes(),
            head_bytes: match symbol {
                Some(_) => self.kind().head_bytes(),
                None => size_of::<Header>() as u32,
            },
            prefix_bytes: prefix.stored_length() as u32,
            index,
            slot,
        }
    }

    /// Creates the event of a search in which the key differs from the prefix.
    #[inline]
    pub fn visit_prefix(self, prefix: Prefix) -> Visit {
        self.visit(None, 0, prefix)
    }

    /// Publishes a child in the slot at an offset, under the lock.
    #[inline]
    pub fn put(self, slot: u32, child: Tagged, probe: &mut impl Probe) {
        debug_assert!(self.slot_at(slot).is_some(), "no slot at {slot}");
        if let Some(found) = self.slot_at(slot) {
            found.store(child);
            probe.write(self.place() + slot as usize, 8);
        }
    }

    /// Returns the slot at an offset.
    fn slot_at(self, slot: u32) -> Option<&'g Slot> {
        if slot == offset_of!(Header, end) as u32 {
            return Some(self.end());
        }
        let position = (slot.checked_sub(self.kind().slots_offset())? / 8) as usize;
        match self.view() {
            View::Small(small) => small.slots.get(position),
            View::Node48(node) => node.slots.get(position),
            View::Node256(node) => node.slots.get(position),
        }
    }

    /// Reports all bytes of a new node as written.
    pub fn written(self, probe: &mut impl Probe) {
        probe.write(self.place(), self.kind().bytes());
    }

    /// Returns the key of a leaf that is or was below; `None` if other threads remove all that the
    /// search encounters.
    pub fn any_key<F: RivalForm>(self) -> Option<&'g [u8]> {
        let mut node = self;
        loop {
            let mut below = None;
            let mut leaf = None;
            let mut look = |child: Tagged| {
                // SAFETY: children of a node that is not freed during 'g were not unlinked before
                // the guard of 'g was pinned, so they are not freed during 'g either.
                match unsafe { child.child::<F>() } {
                    Some(Child::Leaf(found)) => leaf = Some(found.key()),
                    Some(Child::Node(found)) => below = Some(found),
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
    pub fn for_each_while(self, mut visit: impl FnMut(u8, Tagged) -> bool) {
        match self.view() {
            View::Small(small) => {
                for (position, slot) in small.slots[..self.count()].iter().enumerate() {
                    let child = slot.load();
                    // The key byte was stored before the child.
                    if !child.is_none() && !visit(small.key(position), child) {
                        return;
                    }
                }
            }
            View::Node48(node) => {
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
            View::Node256(node) => {
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
    pub fn for_each(self, mut visit: impl FnMut(u8, Tagged)) {
        self.for_each_while(|byte, child| {
            visit(byte, child);
            true
        });
    }
}
