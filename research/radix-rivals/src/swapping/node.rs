//! Inner nodes: a header, and 4 to 256 slots, all of the same shape.
//!
//! ```text
//!   header   slot of the key that ends: 8 │ slots apart: 8 │ level: 2 │ prefix length: 2
//!            prefix: 12
//!   slots    8 each
//! ```
//!
//! *Level* is the number of bytes that all keys below the node share, including the prefix. It and
//! the prefix never change: a node inserted above covers the first bytes of the prefix, and walks
//! skip them. A prefix of more than 12 bytes is stored again, as a whole, at the end: nodes stay
//! when their entries are gone, and then no leaf below has the bytes.
//!
//! The slots follow the header, or are stored *apart*, in a separate allocation, whose address and
//! size are a word of the header. A byte's slot is found by its position: the byte itself modulo
//! the number of slots, or one of the next positions, with wraparound. With 256 slots, it is
//! exactly at that position.

use super::slot::SwapSlot;
use crate::scan::Symbol;
use crossbeam_epoch::Guard;
use nearfield_radix::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes of a prefix that the header stores.
const STORED: usize = 12;

/// Number of positions from a byte's own on at which its slot may be.
pub const WINDOW: usize = 8;

/// The number of slots of a node: 4, doubled up to six times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SwapNodeSize {
    /// Size of 4 slots, and so on.
    S4,
    S8,
    S16,
    S32,
    S64,
    S128,
    S256,
}

impl SwapNodeSize {
    /// Returns the number of slots.
    #[inline]
    pub const fn slots(self) -> usize {
        4 << self as u32
    }

    /// Returns the size whose number is `bits`.
    #[inline]
    pub fn from_bits(bits: u8) -> SwapNodeSize {
        match bits {
            0 => SwapNodeSize::S4,
            1 => SwapNodeSize::S8,
            2 => SwapNodeSize::S16,
            3 => SwapNodeSize::S32,
            4 => SwapNodeSize::S64,
            5 => SwapNodeSize::S128,
            _ => SwapNodeSize::S256,
        }
    }

    /// Returns twice as many slots, up to the maximum.
    pub fn doubled(self) -> SwapNodeSize {
        SwapNodeSize::from_bits(self as u8 + 1)
    }

    /// Returns half as many slots, down to the minimum.
    pub fn halved(self) -> SwapNodeSize {
        SwapNodeSize::from_bits((self as u8).saturating_sub(1))
    }

    /// Returns the layout of slots.
    fn layout(self) -> Layout {
        match Layout::array::<AtomicU64>(self.slots()).and_then(|slots| slots.align_to(64)) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("slots are far smaller than memory"),
        }
    }

    /// Returns the layout of a node with `slots` slots after the header and a prefix of
    /// `prefix_length` bytes.
    fn node_layout(slots: usize, prefix_length: usize) -> Layout {
        // The header has the first bytes of a long prefix, too: walks that only compare those read
        // one line.
        let is_apart = prefix_length > STORED;
        let whole = if is_apart { prefix_length } else { 0 };
        let bytes = SLOTS_OFFSET + size_of::<AtomicU64>() * slots + whole;
        match Layout::from_size_align(bytes, 64) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("nodes are far smaller than memory"),
        }
    }
}

/// The header; see the [module](self).
#[derive(Debug)]
#[repr(C)]
pub struct SwapNodeHeader {
    end: AtomicU64,
    /// The address of slots that are stored apart, with their size in the lowest bits.
    apart: AtomicU64,
    level: u16,
    prefix_length: u16,
    prefix: [u8; STORED],
}

const _: () = assert!(size_of::<SwapNodeHeader>() == 32);

/// The offset of the slots in a node.
const SLOTS_OFFSET: usize = size_of::<SwapNodeHeader>();

/// A node that is not freed during 'g.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapNode<'g, const APART: bool> {
    header: NonNull<SwapNodeHeader>,
    /// The number of slots, if they are not stored apart.
    size: SwapNodeSize,
    lives: PhantomData<&'g SwapNodeHeader>,
}

/// The result of a search in a node: the byte's place, or one that it could take.
#[derive(Clone, Copy, Debug)]
pub struct SwapSlotPlace<'g> {
    /// The word.
    pub at: &'g AtomicU64,
    /// The content of the word.
    pub slot: SwapSlot,
    /// The address of the word, for events.
    pub address: usize,
}

impl SwapSlotPlace<'_> {
    /// Changes the slot, unless another thread has changed or frozen it.
    pub fn swap(&self, slot: SwapSlot, probe: &mut impl RadixProbe) -> bool {
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

impl<'g, const APART: bool> SwapNode<'g, APART> {
    /// Creates a node from its address.
    ///
    /// # Safety
    /// It was made by [`new`](SwapNode::new) with this size, and is not freed during 'g.
    #[inline]
    pub unsafe fn from_address(header: NonNull<SwapNodeHeader>, size: SwapNodeSize) -> Self {
        let lives = PhantomData;
        SwapNode {
            header,
            size,
            lives,
        }
    }

    /// Creates a node whose keys share the first `level` bytes, the last of which are `prefix`. The
    /// caller owns it until it is part of a tree.
    pub fn new(size: SwapNodeSize, level: usize, prefix: &[u8]) -> Self {
        let inside = if APART { 0 } else { size.slots() };
        let layout = SwapNodeSize::node_layout(inside, prefix.len());
        // SAFETY: the layout of a node is never empty.
        let Some(header) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let header = header.cast::<SwapNodeHeader>();
        let mut stored = [0; STORED];
        let in_header = prefix.len().min(STORED);
        stored[..in_header].copy_from_slice(&prefix[..in_header]);
        let apart = if APART { new_slots(size) } else { 0 };
        // SAFETY: the layout has room for the header, the slots after it, aligned, and a prefix
        // that is longer than the header's part; no other thread can reach the memory.
        unsafe {
            header.write(SwapNodeHeader {
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
        SwapNode {
            header,
            size,
            lives,
        }
    }

    /// Frees the node at once.
    ///
    /// # Safety
    /// No thread uses the node or can still find it.
    pub unsafe fn free(self) {
        let layout = SwapNodeSize::node_layout(self.slots_inside(), self.prefix().len());
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
                // SAFETY: all guards under which the node could be found have been dropped.
                unsafe { SwapNode::<APART>::from_address(header, size).free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a node may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }

    /// Returns the number of its slots; slots that are stored apart have their own size.
    #[inline]
    pub fn size(self) -> SwapNodeSize {
        self.size
    }

    /// Returns the number of slots after the header.
    #[inline]
    fn slots_inside(self) -> usize {
        if APART { 0 } else { self.size.slots() }
    }

    /// Returns the whole prefix.
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

    /// Returns its address.
    pub fn address(self) -> NonNull<SwapNodeHeader> {
        self.header
    }

    /// Returns its address as a number, for events.
    #[inline]
    pub fn number(self) -> usize {
        self.header.as_ptr().addr()
    }

    #[inline]
    fn header(self) -> &'g SwapNodeHeader {
        // SAFETY: the node is not freed during 'g; its mutable parts are atomic.
        unsafe { self.header.as_ref() }
    }

    /// Returns the number of bytes that all keys below share.
    #[inline]
    pub fn level(self) -> usize {
        usize::from(self.header().level)
    }

    /// Returns all current slots, except that of the key that ends here.
    #[inline]
    pub fn slots(self) -> SwapNodeSlots<'g> {
        if APART {
            // The word is read once: another thread may exchange address and size together.
            return SwapNodeSlots::of_word(self.header().apart.load(Ordering::Acquire));
        }
        // SAFETY: the number of slots given by the size follows the header.
        let slots = unsafe {
            let slots = self.header.add(1).cast();
            NonNull::slice_from_raw_parts(slots, self.size.slots()).as_ref()
        };
        SwapNodeSlots { word: 0, slots }
    }

    /// Returns the word of the key that ends here.
    #[inline]
    pub fn end(self) -> &'g AtomicU64 {
        &self.header().end
    }

    /// Replaces slots that are stored apart with others, unless another thread has already done so.
    /// Retires the slots that are no longer used.
    pub fn exchange(self, old: SwapNodeSlots<'_>, new: SwapNodeSlots<'_>, guard: &Guard) -> bool {
        let apart = &self.header().apart;
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let exchanged = apart.compare_exchange(old.word, new.word, success, failure);
        let unused = match exchanged {
            Ok(_) => old.word,
            Err(_) => new.word,
        };
        // SAFETY: no header has the word now, or no header has ever had it; the epoch frees it
        // once.
        unsafe { guard.defer_unchecked(move || free_slots(unused)) };
        exchanged.is_ok()
    }

    /// Compares the prefix with a key, `depth` bytes of which led here: the whole prefix, or the
    /// part in the header. Returns the first position at which they differ, if they do, and the
    /// number of bytes compared.
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

    /// Returns the place of a symbol, or one that it could take; `None` if there is neither.
    #[inline]
    pub fn find(self, symbol: Symbol) -> Option<SwapSlotPlace<'g>> {
        let Some(byte) = symbol else {
            let at = self.end();
            return Some(SwapSlotPlace {
                at,
                slot: SwapSlot(at.load(Ordering::Acquire)),
                address: self.number(),
            });
        };
        self.slots().find(byte)
    }

    /// Adds a slot to a node that no other thread can reach; returns false if there is no place.
    pub fn put(self, symbol: Symbol, slot: SwapSlot) -> bool {
        match self.find(symbol) {
            Some(place) if place.slot.is_unused() => {
                place.at.store(slot.0, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Reports that a symbol was searched, and the number of bytes of the prefix that were
    /// compared. A header is read for its prefix, for the word of slots that are stored apart, and
    /// for the key that ends.
    #[inline]
    pub fn report(
        self,
        symbol: Symbol,
        place: Option<SwapSlotPlace<'g>>,
        has_prefix: bool,
        compared: usize,
        probe: &mut impl RadixProbe,
    ) {
        // Finding the slots would be useless.
        if !probe.listens() {
            return;
        }
        let offset = |address: usize| address.wrapping_sub(self.number()) as u32;
        let has_head = APART || has_prefix || symbol.is_none();
        let slot = place.map_or(0, |place| place.address);
        let inside = !APART && symbol.is_some() && slot != 0;
        probe.node(RadixNodeVisit {
            address: self.number(),
            kind: VisitedNodeKind::Inner {
                slots: self.slots().slots.len() as u16,
            },
            bytes: self.bytes(),
            head_bytes: if has_head {
                size_of::<SwapNodeHeader>() as u32
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
    pub fn written(self, probe: &mut impl RadixProbe) {
        probe.write(self.number(), self.bytes());
        if APART {
            self.slots().written(probe);
        }
    }

    /// Returns the size of the node in bytes, without slots that are stored apart.
    pub fn bytes(self) -> u32 {
        SwapNodeSize::node_layout(self.slots_inside(), self.prefix().len()).size() as u32
    }
}

/// The slots of a node.
#[derive(Clone, Copy, Debug)]
pub struct SwapNodeSlots<'g> {
    /// The word that refers to them, if they are stored apart.
    word: u64,
    slots: &'g [AtomicU64],
}

impl<'g> SwapNodeSlots<'g> {
    /// Creates slots that are stored apart, which the caller owns.
    pub fn new(size: SwapNodeSize) -> Self {
        Self::of_word(new_slots(size))
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        let size = SwapNodeSize::from_bits((word & 0x7) as u8);
        let address = with_exposed_provenance_mut::<AtomicU64>((word & !0x7) as usize);
        // SAFETY: a header with slots apart has had such a word since it was created; a thread that
        // removes the slots from it does not free them while this thread is pinned.
        let slots = unsafe { std::slice::from_raw_parts(address, size.slots()) };
        SwapNodeSlots { word, slots }
    }

    /// Returns the words.
    pub fn words(self) -> &'g [AtomicU64] {
        self.slots
    }

    /// Returns their number.
    pub fn size(self) -> SwapNodeSize {
        SwapNodeSize::from_bits((self.slots.len().trailing_zeros() - 2) as u8)
    }

    /// Returns the place of a byte, or one that it could take.
    #[inline]
    pub fn find(self, byte: u8) -> Option<SwapSlotPlace<'g>> {
        let slots = self.slots;
        let window = match slots.len() {
            256 => 1,
            count => WINDOW.min(count),
        };
        for i in 0..window {
            let at = &slots[(usize::from(byte) + i) & (slots.len() - 1)];
            let slot = SwapSlot(at.load(Ordering::Acquire));
            if slot.is_of(byte) || slot.is_unused() {
                return Some(SwapSlotPlace {
                    at,
                    slot,
                    address: std::ptr::from_ref(at).addr(),
                });
            }
        }
        None
    }

    /// Reports all slots as written.
    pub fn written(self, probe: &mut impl RadixProbe) {
        probe.write(self.slots.as_ptr().addr(), 8 * self.slots.len() as u32);
    }

    /// Frees slots that were never part of a node.
    ///
    /// # Safety
    /// The caller has created them, and no other thread can reach them.
    pub unsafe fn free(self) {
        // SAFETY: promised by the caller.
        unsafe { free_slots(self.word) }
    }
}

/// Allocates unused slots; returns their word.
fn new_slots(size: SwapNodeSize) -> u64 {
    let layout = size.layout();
    // SAFETY: there are at least four slots. Zeros are unused slots.
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
/// They were allocated, and no thread uses them or can still find them.
unsafe fn free_slots(word: u64) {
    let size = SwapNodeSize::from_bits((word & 0x7) as u8);
    // SAFETY: promised by the caller; the size is that of their allocation.
    unsafe {
        dealloc(
            with_exposed_provenance_mut((word & !0x7) as usize),
            size.layout(),
        )
    }
}
