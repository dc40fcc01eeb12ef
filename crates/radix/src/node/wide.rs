//! The two nodes with a place for each byte.
//!
//! ```text
//!              0        12   16          48      64
//!   node256    │ header │    │ bitmap    │       │ 256 slots of 4 B …                 │ 1088
//!              0        12   16     24   32      64
//!   dense      │ header │    │ base │    │ bitmap│ 256 payloads of 8 B …              │ 2112
//! ```
//!
//! The bitmap of a node256 marks the bytes at which ranges start, that of a dense node the bytes in
//! use.
//!
//! A *dense* node replaces a full node16 at the last byte of 8-byte keys. Its slots are the
//! payloads themselves, so that dense keys cost 8 B and a bit each; `base` holds the other seven
//! bytes, which a lookup must compare because paths skip bytes.

use super::bitmap::{self, Bitmap};
use super::header::RadixNodeHeader;
use super::reference::Ref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A node of up to 256 children.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RadixNode256 {
    header: RadixNodeHeader,
    bitmap: Bitmap,
    _unused: [u64; 2],
    slots: [AtomicU32; 256],
}

/// A node of up to 256 payloads whose keys agree in all bytes but the last.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Dense {
    header: RadixNodeHeader,
    base: AtomicU64,
    _unused: u64,
    bitmap: Bitmap,
    payloads: [AtomicU64; 256],
}

/// The bytes that one child covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildByteRange {
    /// The first byte.
    pub start: u8,
    /// The last byte.
    pub end: u8,
    /// The child, null if the range has no key.
    pub child: Ref,
    /// False for bytes before the first range, which the node does not store.
    pub stored: bool,
}

const _: () = assert!(size_of::<RadixNode256>() == 1088);
const _: () = assert!(size_of::<Dense>() == 2112);

impl RadixNode256 {
    /// Returns the header.
    #[inline]
    pub fn header(&self) -> &RadixNodeHeader {
        &self.header
    }

    /// Returns the bytes at which ranges start.
    #[inline]
    pub fn bitmap(&self) -> &Bitmap {
        &self.bitmap
    }

    /// Returns the child for a byte: one atomic load, which needs no validation.
    #[inline]
    pub fn find(&self, byte: u8) -> Ref {
        Ref::from_bits(self.slots[byte as usize].load(Ordering::Acquire))
    }

    /// Returns the start of the range that contains a byte.
    #[inline]
    pub fn range_start(&self, byte: u8) -> u8 {
        bitmap::last_at_most(self.bitmap.load(), byte).unwrap_or(0)
    }

    /// Returns the range that contains a byte. Only under the lock.
    pub fn range(&self, byte: u8) -> ChildByteRange {
        let starts = self.bitmap.load();
        let start = bitmap::last_at_most(starts, byte);
        let mut end = 255;
        bitmap::for_each_from(starts, u16::from(byte) + 1, |byte| {
            end = byte - 1;
            false
        });
        ChildByteRange {
            start: start.unwrap_or(0),
            end,
            child: self.find(byte),
            stored: start.is_some(),
        }
    }

    /// Replaces the ranges that start from `start` to `end` with `pieces`, which cover the same
    /// bytes. Only under the lock.
    pub fn splice(&self, start: u8, end: u8, pieces: &[(u8, Ref)]) {
        // Readers find a child by one load, so each byte of a range has it in its slot.
        for (i, &(first, child)) in pieces.iter().enumerate() {
            let last = pieces.get(i + 1).map_or(end, |next| next.0 - 1);
            for slot in &self.slots[first as usize..=last as usize] {
                slot.store(child.bits(), Ordering::Release);
            }
        }
        let mut starts = self.bitmap.load();
        for (word, bits) in starts.iter_mut().enumerate() {
            *bits &= !bitmap::between(start, end, word);
        }
        for &(byte, _) in pieces {
            starts[byte as usize / 64] |= 1 << (byte % 64);
        }
        self.bitmap.store(starts);
        let count: u32 = starts.iter().map(|word| word.count_ones()).sum();
        self.header.set_count(count as usize);
    }

    /// Replaces the child whose range includes a byte. Only under the lock.
    pub fn set_covering(&self, byte: u8, child: Ref) {
        let range = self.range(byte);
        debug_assert!(range.stored, "no range has the byte");
        for slot in &self.slots[range.start as usize..=range.end as usize] {
            slot.store(child.bits(), Ordering::Release);
        }
    }

    /// Empties a node that no other thread can reach.
    pub fn reset(&self, depth: usize) {
        self.header.reset(depth);
        self.bitmap.clear();
        for slot in &self.slots {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

impl Dense {
    /// The offset of the payloads.
    pub const PAYLOADS_AT: usize = std::mem::offset_of!(Dense, payloads);

    /// Returns the header.
    #[inline]
    pub fn header(&self) -> &RadixNodeHeader {
        &self.header
    }

    /// Returns the last bytes of the keys that are present.
    #[inline]
    pub fn bitmap(&self) -> &Bitmap {
        &self.bitmap
    }

    /// Returns the first seven bytes of the keys, as a number below 2^56.
    #[inline]
    pub fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    /// Returns the payload of a last byte. Validate it by the version, unless under the lock.
    #[inline]
    pub fn find(&self, byte: u8) -> Option<u64> {
        self.bitmap.contains(byte).then(|| self.payload(byte))
    }

    /// Returns the payload at a place, even if it is not in use.
    #[inline]
    pub fn payload(&self, byte: u8) -> u64 {
        self.payloads[byte as usize].load(Ordering::Acquire)
    }

    /// Sets a payload. Only under the lock.
    #[inline]
    pub fn set_payload(&self, byte: u8, payload: u64) {
        self.payloads[byte as usize].store(payload, Ordering::Release);
    }

    /// Marks a place as used or free. Only under the lock.
    pub fn set_used(&self, byte: u8, used: bool) {
        let count = self.header.count() - usize::from(self.bitmap.contains(byte));
        self.header.set_count(count + usize::from(used));
        self.bitmap.set(byte, used);
        debug_assert_eq!(
            self.header.count(),
            self.bitmap
                .load()
                .iter()
                .map(|word| word.count_ones() as usize)
                .sum(),
            "each place in use counts once"
        );
    }

    /// Empties a node that no other thread can reach.
    pub fn reset(&self, base: u64) {
        debug_assert!(base < 1 << 56, "seven bytes");
        self.header.reset(7);
        self.base.store(base, Ordering::Relaxed);
        self.bitmap.clear();
    }
}
