//! Inner nodes: a header and 4 to 256 slots, all of the same shape.
//!
//! ```text
//!   slot of the key that ends: 8 │ level: 2 │ prefix length: 2 │ size: 1 │ prefix: 11
//!   slots: 8 each
//! ```
//!
//! A prefix of more than 11 bytes follows the slots once more, as a whole: nodes stay when their
//! entries have gone, and then no leaf below has the bytes.
//!
//! *Level* is the number of bytes that all keys below the node share, prefix included. Nothing of
//! the header but the slot ever changes: when a node is put above, it covers the first bytes of the
//! prefix, and walks skip them.
//!
//! A byte's slot is one of the eight from the byte's own position on, in circle; of 256 slots, it
//! is the one at that position.

use super::slot::Slot;
use crate::counters::{Probe, Visit, Visited};
use crate::rivals::scan::Symbol;
use crossbeam_epoch::Guard;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a prefix that a node stores.
const STORED: usize = 11;

/// How many slots there may be between a byte's own position and its slot.
const WINDOW: usize = 8;

/// How many slots a node has: 4, doubled up to six times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Size {
    /// 4 slots, and so on.
    S4,
    S8,
    S16,
    S32,
    S64,
    S128,
    S256,
}

impl Size {
    /// The number of slots.
    #[inline]
    pub const fn slots(self) -> usize {
        4 << self as u32
    }

    /// The size of a number that `as` made.
    #[inline]
    pub fn from_bits(bits: u8) -> Size {
        match bits {
            0 => Size::S4,
            1 => Size::S8,
            2 => Size::S16,
            3 => Size::S32,
            4 => Size::S64,
            5 => Size::S128,
            _ => Size::S256,
        }
    }

    /// Twice as many slots, if there may be.
    pub fn doubled(self) -> Size {
        Size::from_bits(self as u8 + 1)
    }

    /// The layout of a node with a prefix of so many bytes.
    fn layout(self, prefix_length: usize) -> Layout {
        let apart = if prefix_length > STORED {
            prefix_length
        } else {
            0
        };
        let bytes = SLOTS_OFFSET + size_of::<AtomicU64>() * self.slots() + apart;
        match Layout::from_size_align(bytes, 64) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("nodes are far smaller than memory"),
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    end: AtomicU64,
    level: u16,
    prefix_length: u16,
    size: Size,
    prefix: [u8; STORED],
}

const _: () = assert!(size_of::<Header>() == 24);

/// Where a word of a node lies, from its beginning.
const SLOTS_OFFSET: usize = size_of::<Header>();

/// A node that is not freed during 'g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'g> {
    header: NonNull<Header>,
    size: Size,
    lives: PhantomData<&'g Header>,
}

/// The result of a search in a node: a place of the byte's, or one that it could take.
#[derive(Clone, Copy, Debug)]
pub struct Place<'g> {
    /// The word.
    pub at: &'g AtomicU64,
    /// What it held.
    pub slot: Slot,
    /// Its offset in the node.
    pub offset: u32,
}

impl Place<'_> {
    /// Changes the slot, unless another thread has changed or frozen it.
    pub fn swap(&self, slot: Slot, node: usize, probe: &mut impl Probe) -> bool {
        if self.slot.is_frozen() {
            return false;
        }
        let swapped =
            self.at
                .compare_exchange(self.slot.0, slot.0, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_ok() {
            probe.write(node + self.offset as usize, 8);
        }
        swapped.is_ok()
    }
}

impl<'g> Node<'g> {
    /// A node by its address.
    ///
    /// # Safety
    /// It was made by [`new`](Node::new) with this size, and is not freed during 'g.
    #[inline]
    pub unsafe fn from_address(header: NonNull<Header>, size: Size) -> Self {
        let lives = PhantomData;
        Node {
            header,
            size,
            lives,
        }
    }

    /// Makes a node whose keys share the first `level` bytes, the last of which are `prefix`. The
    /// caller owns it until it is part of a tree.
    pub fn new(size: Size, level: usize, prefix: &[u8]) -> Self {
        let layout = size.layout(prefix.len());
        // SAFETY: no node has no bytes.
        let Some(header) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let header = header.cast::<Header>();
        let mut stored = [0; STORED];
        let in_header = prefix.len().min(STORED);
        stored[..in_header].copy_from_slice(&prefix[..in_header]);
        // SAFETY: the layout has room for the header, the slots behind it, aligned, and a prefix
        // that is longer than the header's part; and nobody else knows the memory.
        unsafe {
            header.write(Header {
                end: AtomicU64::new(0),
                level: level as u16,
                prefix_length: prefix.len() as u16,
                size,
                prefix: stored,
            });
            let slots = header.add(1).cast::<AtomicU64>();
            for position in 0..size.slots() {
                slots.add(position).write(AtomicU64::new(0));
            }
            if prefix.len() > STORED {
                let apart = slots.add(size.slots()).cast::<u8>();
                apart.copy_from_nonoverlapping(NonNull::from(prefix).cast(), prefix.len());
            }
        }
        let lives = PhantomData;
        Node {
            header,
            size,
            lives,
        }
    }

    /// Makes an empty node with the header of this one and another size.
    pub fn resized(self, size: Size) -> Node<'static> {
        Node::new(size, self.level(), self.prefix())
    }

    /// The whole prefix.
    pub fn prefix(self) -> &'g [u8] {
        let header = self.header();
        let length = usize::from(header.prefix_length);
        if length <= STORED {
            return &header.prefix[..length];
        }
        // SAFETY: a prefix of this length follows the slots, and never changes.
        unsafe {
            let slots = self.header.add(1).cast::<AtomicU64>();
            let apart = slots.add(self.size.slots()).cast();
            NonNull::slice_from_raw_parts(apart, length).as_ref()
        }
    }

    /// Frees the node at once.
    ///
    /// # Safety
    /// No thread uses the node or can find it any more.
    pub unsafe fn free(self) {
        // SAFETY: it was allocated with the layout of its size.
        unsafe {
            let layout = self.size.layout(self.prefix().len());
            dealloc(self.header.as_ptr().cast(), layout);
        }
    }

    /// Frees the node when no thread can use it any more.
    ///
    /// # Safety
    /// The caller has unlinked the node, and retires it once.
    pub unsafe fn retire(self, guard: &Guard) {
        let (address, size) = (self.header.as_ptr().expose_provenance(), self.size);
        let free = move || {
            let header = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
            if let Some(header) = header {
                // SAFETY: all guards under which the node could be found are gone.
                unsafe { Node::from_address(header, size).free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a node may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }

    /// Its address.
    pub fn address(self) -> NonNull<Header> {
        self.header
    }

    /// Its address as a number, for events.
    #[inline]
    pub fn number(self) -> usize {
        self.header.as_ptr().addr()
    }

    #[inline]
    fn header(self) -> &'g Header {
        // SAFETY: the node is not freed during 'g; what changes in it is atomic.
        unsafe { self.header.as_ref() }
    }

    /// The number of its slots.
    #[inline]
    pub fn size(self) -> Size {
        self.size
    }

    /// The number of bytes that all keys below share.
    #[inline]
    pub fn level(self) -> usize {
        usize::from(self.header().level)
    }

    /// All slots but that of the key that ends here.
    #[inline]
    pub fn slots(self) -> &'g [AtomicU64] {
        // SAFETY: as many slots as the size says lie behind the header.
        unsafe {
            let slots = self.header.add(1).cast();
            NonNull::slice_from_raw_parts(slots, self.size.slots()).as_ref()
        }
    }

    /// The words that lead to children.
    pub fn words(self) -> impl Iterator<Item = &'g AtomicU64> {
        std::iter::once(&self.header().end).chain(self.slots())
    }

    /// Compares the prefix with a key, of which `depth` bytes led here: all of it, or the part in
    /// the header. Answers the first position where they differ, if they do, and the number of
    /// bytes compared.
    #[inline]
    pub fn parting(self, key: &[u8], depth: usize, whole: bool) -> (Option<usize>, usize) {
        let header = self.header();
        let begin = usize::from(header.level) - usize::from(header.prefix_length);
        let prefix = match whole {
            true => self.prefix(),
            false => &header.prefix[..STORED.min(usize::from(header.prefix_length))],
        };
        // A node above may cover the first bytes.
        let bytes = prefix.iter().enumerate().skip(depth - begin);
        let mut compared = 0;
        for (i, &byte) in bytes {
            compared += 1;
            if key.get(begin + i) != Some(&byte) {
                return (Some(begin + i), compared);
            }
        }
        (None, compared)
    }

    /// The place of a symbol; or one that it could take; `None` if there is no such place.
    #[inline]
    pub fn find(self, symbol: Symbol) -> Option<Place<'g>> {
        let Some(byte) = symbol else {
            let at = &self.header().end;
            let slot = Slot(at.load(Ordering::Acquire));
            return Some(Place {
                at,
                slot,
                offset: 0,
            });
        };
        let slots = self.slots();
        let window = match self.size {
            Size::S256 => 1,
            size => WINDOW.min(size.slots()),
        };
        for i in 0..window {
            let position = (usize::from(byte) + i) & (slots.len() - 1);
            let at = &slots[position];
            let slot = Slot(at.load(Ordering::Acquire));
            if slot.is_of(byte) || slot.is_unused() {
                return Some(Place {
                    at,
                    slot,
                    offset: (SLOTS_OFFSET + 8 * position) as u32,
                });
            }
        }
        None
    }

    /// Puts a slot into a node that no other thread knows; false if there is no place.
    pub fn put(self, symbol: Symbol, slot: Slot) -> bool {
        match self.find(symbol) {
            Some(place) if place.slot.is_unused() => {
                place.at.store(slot.0, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// That a symbol was searched, and how many bytes of the prefix were compared. The header is
    /// read for the prefix alone.
    #[inline]
    pub fn visit(self, symbol: Symbol, offset: u32, has_prefix: bool, compared: usize) -> Visit {
        let own = usize::from(symbol.unwrap_or(0)) & (self.size.slots() - 1);
        Visit {
            address: self.number(),
            kind: Visited::Inner {
                slots: self.size.slots() as u16,
            },
            head_bytes: match has_prefix || symbol.is_none() {
                true => size_of::<Header>() as u32,
                false => 0,
            },
            prefix_bytes: compared as u32,
            index: match symbol {
                Some(_) => (SLOTS_OFFSET + 8 * own) as u32,
                None => 0,
            },
            slot: offset,
        }
    }

    /// Reports all bytes of a new node as written.
    pub fn written(self, probe: &mut impl Probe) {
        probe.write(self.number(), self.bytes());
    }

    /// The bytes of the node.
    pub fn bytes(self) -> u32 {
        self.size.layout(self.prefix().len()).size() as u32
    }
}
