//! Inner nodes: a header, and 4 to 256 slots, all of the same shape.
//!
//! ```text
//!   header   slot of the key that ends: 8 │ slots apart: 8 │ level: 2 │ prefix length: 2
//!            prefix: 12
//!   slots    8 each
//! ```
//!
//! *Level* is the number of bytes that all keys below the node share, prefix included. It and the
//! prefix never change: when a node is put above, it covers the first bytes of the prefix, and
//! walks skip them. A prefix of more than 12 bytes is stored once more, as a whole, at the end:
//! nodes stay when their entries have gone, and then no leaf below has the bytes.
//!
//! The slots follow the header, or lie *apart*, in memory of their own, whose address and size are
//! a word of the header. A byte's slot is found by its position: the byte itself modulo the number
//! of slots, or the next ones, in circle; of 256 slots, it is the one at that position.

use super::slot::Slot;
use crate::counters::{Probe, Visit, Visited};
use crate::rivals::scan::Symbol;
use crossbeam_epoch::Guard;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a prefix that a node stores.
const STORED: usize = 12;

/// How many slots there may be between a byte's own position and its slot.
pub const WINDOW: usize = 8;

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

    /// Half as many slots, if there may be.
    pub fn halved(self) -> Size {
        Size::from_bits((self as u8).saturating_sub(1))
    }

    /// The layout of slots.
    fn layout(self) -> Layout {
        match Layout::array::<AtomicU64>(self.slots()).and_then(|slots| slots.align_to(64)) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("slots are far smaller than memory"),
        }
    }

    /// The layout of a node with so many slots behind the header and a prefix of so many bytes.
    fn node_layout(slots: usize, prefix_length: usize) -> Layout {
        let is_apart = prefix_length > STORED;
        let whole = if is_apart { prefix_length } else { 0 };
        let bytes = SLOTS_OFFSET + size_of::<AtomicU64>() * slots + whole;
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
    /// Where slots that lie apart are, and in the lowest bits their size.
    apart: AtomicU64,
    level: u16,
    prefix_length: u16,
    prefix: [u8; STORED],
}

const _: () = assert!(size_of::<Header>() == 32);

/// Where a word of a node lies, from its beginning.
const SLOTS_OFFSET: usize = size_of::<Header>();

/// A node that is not freed during 'g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'g, const APART: bool> {
    header: NonNull<Header>,
    /// The number of slots, where they do not lie apart.
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
    /// Where it is, for events.
    pub address: usize,
}

impl Place<'_> {
    /// Changes the slot, unless another thread has changed or frozen it.
    pub fn swap(&self, slot: Slot, probe: &mut impl Probe) -> bool {
        if self.slot.is_frozen() {
            return false;
        }
        let swapped =
            self.at
                .compare_exchange(self.slot.0, slot.0, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_ok() {
            probe.write(self.address, 8);
        }
        swapped.is_ok()
    }
}

impl<'g, const APART: bool> Node<'g, APART> {
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
        let inside = if APART { 0 } else { size.slots() };
        let layout = Size::node_layout(inside, prefix.len());
        // SAFETY: no node has no bytes.
        let Some(header) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let header = header.cast::<Header>();
        let mut stored = [0; STORED];
        let in_header = prefix.len().min(STORED);
        stored[..in_header].copy_from_slice(&prefix[..in_header]);
        let apart = if APART { new_slots(size) } else { 0 };
        // SAFETY: the layout has room for the header, the slots behind it, aligned, and a prefix
        // that is longer than the header's part; and nobody else knows the memory.
        unsafe {
            header.write(Header {
                end: AtomicU64::new(0),
                apart: AtomicU64::new(apart),
                level: level as u16,
                prefix_length: prefix.len() as u16,
                prefix: stored,
            });
            let slots = header.add(1).cast::<AtomicU64>();
            for position in 0..inside {
                slots.add(position).write(AtomicU64::new(0));
            }
            if prefix.len() > STORED {
                let whole = slots.add(inside).cast::<u8>();
                whole.copy_from_nonoverlapping(NonNull::from(prefix).cast(), prefix.len());
            }
        }
        let lives = PhantomData;
        Node {
            header,
            size,
            lives,
        }
    }

    /// Frees the node at once.
    ///
    /// # Safety
    /// No thread uses the node or can find it any more.
    pub unsafe fn free(self) {
        let layout = Size::node_layout(self.slots_inside(), self.prefix().len());
        // SAFETY: both were allocated with these layouts, and the caller is the only user.
        unsafe {
            if APART {
                free_slots(self.header().apart.load(Ordering::Relaxed));
            }
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
            let header = NonNull::new(with_exposed_provenance_mut(address));
            if let Some(header) = header {
                // SAFETY: all guards under which the node could be found are gone.
                unsafe { Node::<APART>::from_address(header, size).free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a node may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }

    /// The number of its slots; those that lie apart have a size of their own.
    #[inline]
    pub fn size(self) -> Size {
        self.size
    }

    /// The number of slots behind the header.
    #[inline]
    fn slots_inside(self) -> usize {
        if APART { 0 } else { self.size.slots() }
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
            let whole = slots.add(self.slots_inside()).cast();
            NonNull::slice_from_raw_parts(whole, length).as_ref()
        }
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

    /// The number of bytes that all keys below share.
    #[inline]
    pub fn level(self) -> usize {
        usize::from(self.header().level)
    }

    /// All slots as they lie now, but for that of the key that ends here.
    #[inline]
    pub fn slots(self) -> Slots<'g> {
        if APART {
            return Slots::of_word(self.header().apart.load(Ordering::Acquire));
        }
        // SAFETY: as many slots as the size says lie behind the header.
        let slots = unsafe {
            let slots = self.header.add(1).cast();
            NonNull::slice_from_raw_parts(slots, self.size.slots()).as_ref()
        };
        Slots { word: 0, slots }
    }

    /// The word of the key that ends here.
    #[inline]
    pub fn end(self) -> &'g AtomicU64 {
        &self.header().end
    }

    /// Puts other slots in the place of those that lie apart, unless another thread has done so;
    /// retires those that are not used any more.
    pub fn exchange(self, old: Slots<'_>, new: Slots<'_>, guard: &Guard) -> bool {
        let apart = &self.header().apart;
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let exchanged = apart.compare_exchange(old.word, new.word, success, failure);
        let unused = match exchanged {
            Ok(_) => old.word,
            Err(_) => new.word,
        };
        // SAFETY: no header has the word any more, or has ever had it; the epoch frees it once.
        unsafe { guard.defer_unchecked(move || free_slots(unused)) };
        exchanged.is_ok()
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
            let at = self.end();
            return Some(Place {
                at,
                slot: Slot(at.load(Ordering::Acquire)),
                address: self.number(),
            });
        };
        self.slots().find(byte)
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

    /// Reports that a symbol was searched, and how many bytes of the prefix were compared. A header
    /// is read for its prefix, for the word of slots that lie apart, and for the key that ends.
    #[inline]
    pub fn report(
        self,
        symbol: Symbol,
        place: Option<Place<'g>>,
        has_prefix: bool,
        compared: usize,
        probe: &mut impl Probe,
    ) {
        // The slots would be found out in vain.
        if !probe.listens() {
            return;
        }
        let offset = |address: usize| address.wrapping_sub(self.number()) as u32;
        let has_head = APART || has_prefix || symbol.is_none();
        let slot = place.map_or(0, |place| place.address);
        let inside = !APART && symbol.is_some() && slot != 0;
        probe.node(Visit {
            address: self.number(),
            kind: Visited::Inner {
                slots: self.slots().slots.len() as u16,
            },
            bytes: self.bytes(),
            head_bytes: if has_head {
                size_of::<Header>() as u32
            } else {
                0
            },
            prefix_bytes: compared as u32,
            index: 0,
            slot: if inside { offset(slot) } else { 0 },
        });
        if APART && symbol.is_some() && slot != 0 {
            probe.part(slot, 8);
        }
    }

    /// Reports all bytes of a new node as written.
    pub fn written(self, probe: &mut impl Probe) {
        probe.write(self.number(), self.bytes());
        if APART {
            self.slots().written(probe);
        }
    }

    /// The bytes of the node, without slots that lie apart.
    pub fn bytes(self) -> u32 {
        Size::node_layout(self.slots_inside(), self.prefix().len()).size() as u32
    }
}

/// The slots of a node.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'g> {
    /// Where they are, if they lie apart.
    word: u64,
    slots: &'g [AtomicU64],
}

impl<'g> Slots<'g> {
    /// Makes slots that lie apart, which the caller owns.
    pub fn new(size: Size) -> Self {
        Self::of_word(new_slots(size))
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        let size = Size::from_bits((word & 0x7) as u8);
        let address = with_exposed_provenance_mut::<AtomicU64>((word & !0x7) as usize);
        // SAFETY: a header with slots apart has had such a word since it was made; whoever takes
        // them out of it does not free them while this thread is pinned.
        let slots = unsafe { std::slice::from_raw_parts(address, size.slots()) };
        Slots { word, slots }
    }

    /// The words.
    pub fn words(self) -> &'g [AtomicU64] {
        self.slots
    }

    /// How many there are.
    pub fn size(self) -> Size {
        Size::from_bits((self.slots.len().trailing_zeros() - 2) as u8)
    }

    /// The place of a byte, or one that it could take.
    #[inline]
    pub fn find(self, byte: u8) -> Option<Place<'g>> {
        let slots = self.slots;
        let window = match slots.len() {
            256 => 1,
            count => WINDOW.min(count),
        };
        for i in 0..window {
            let at = &slots[(usize::from(byte) + i) & (slots.len() - 1)];
            let slot = Slot(at.load(Ordering::Acquire));
            if slot.is_of(byte) || slot.is_unused() {
                return Some(Place {
                    at,
                    slot,
                    address: std::ptr::from_ref(at).addr(),
                });
            }
        }
        None
    }

    /// Reports all slots as written.
    pub fn written(self, probe: &mut impl Probe) {
        probe.write(self.slots.as_ptr().addr(), 8 * self.slots.len() as u32);
    }

    /// Frees slots that were never part of a node.
    ///
    /// # Safety
    /// The caller has made them, and no thread knows them.
    pub unsafe fn free(self) {
        // SAFETY: promised by the caller.
        unsafe { free_slots(self.word) }
    }
}

/// Allocates unused slots; answers their word.
fn new_slots(size: Size) -> u64 {
    let layout = size.layout();
    // SAFETY: there are four slots at least. Zeros are unused slots.
    let slots = unsafe { alloc_zeroed(layout) };
    if slots.is_null() {
        handle_alloc_error(layout)
    }
    // They begin on a cache line, so that the lowest bits are free.
    slots.expose_provenance() as u64 | size as u64
}

/// Frees slots by their word.
///
/// # Safety
/// They were allocated, and no thread uses them or can find them any more.
unsafe fn free_slots(word: u64) {
    let size = Size::from_bits((word & 0x7) as u8);
    // SAFETY: promised by the caller; the size is that of their allocation.
    unsafe {
        dealloc(
            with_exposed_provenance_mut((word & !0x7) as usize),
            size.layout(),
        )
    }
}
