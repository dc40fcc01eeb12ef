//! The three small node kinds: key bytes in ascending order, and as many slots.
//!
//! ```text
//!             0        12      16            32              64           96          256
//!   node4     │ header │ keys  │ 4 slots     │
//!   node16    │ header │       │ 16 keys     │ 16 slots …                │
//!   node48    │ header │       │ 48 keys …                    │ 48 slots …            │
//! ```
//!
//! A key is the start of a child's range, see [`inner`](super::RadixInnerNode).
//!
//! A node4 is half a cache line. A node48 keeps its keys in its first line and finds one with
//! three vector comparisons, where the textbook's 256-byte index would cost three lines more.

use super::header::RadixNodeHeader;
use super::reference::Ref;
use super::search;
use super::wide::ChildByteRange;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A node of up to four children.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct RadixNode4 {
    pub(super) header: RadixNodeHeader,
    pub(super) keys: AtomicU32,
    pub(super) slots: [AtomicU32; 4],
}

/// A node of up to 16 children.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct RadixNode16 {
    pub(super) header: RadixNodeHeader,
    /// Zero, because only a node4 has its keys here.
    pub(super) unused: AtomicU32,
    pub(super) keys: [AtomicU64; 2],
    pub(super) slots: [AtomicU32; 16],
}

/// A node of up to 48 children.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RadixNode48 {
    pub(super) header: RadixNodeHeader,
    /// Zero, because only a node4 has its keys here.
    pub(super) unused: AtomicU32,
    pub(super) keys: [AtomicU64; 6],
    pub(super) slots: [AtomicU32; 48],
}

const _: () = assert!(size_of::<RadixNode4>() == 32);
const _: () = assert!(size_of::<RadixNode16>() == 96);
const _: () = assert!(size_of::<RadixNode48>() == 256);

/// The common operations of the three kinds. Only the holder of a node's lock may call the methods
/// that change it, unless the node is not linked yet.
pub trait RadixSortedNode {
    /// The greatest number of children.
    const CAPACITY: usize;
    /// Returns the header.
    fn header(&self) -> &RadixNodeHeader;
    /// Returns the slots; those past the count are null.
    fn slots(&self) -> &[AtomicU32];
    /// Returns the key byte at a position; zero past the count.
    fn key(&self, position: usize) -> u8;
    /// Sets the key byte at a position.
    fn set_key(&self, position: usize, byte: u8);
    /// Returns how many of the first `count` key bytes are at most `byte`.
    fn at_most(&self, count: usize, byte: u8) -> usize;

    /// Returns the child whose range includes a byte, in a node whose keys are the starts of
    /// ranges.
    #[inline]
    fn covering(&self, byte: u8) -> Ref {
        let count = self.header().count().min(Self::CAPACITY);
        match self.at_most(count, byte) {
            0 => Ref::NULL,
            below => self.slot(below - 1),
        }
    }

    /// Returns the start of the range that contains a byte.
    #[inline]
    fn range_start(&self, byte: u8) -> u8 {
        let count = self.header().count().min(Self::CAPACITY);
        match self.at_most(count, byte) {
            0 => 0,
            below => self.key(below - 1),
        }
    }

    /// Returns the range that contains a byte.
    fn range(&self, byte: u8) -> ChildByteRange {
        let count = self.header().count();
        let below = self.at_most(count, byte);
        ChildByteRange {
            start: self.range_start(byte),
            end: if below == count {
                255
            } else {
                self.key(below) - 1
            },
            child: self.covering(byte),
            stored: below > 0,
        }
    }

    /// Replaces the ranges that start from `start` to `end`. There must be room.
    fn splice(&self, start: u8, end: u8, pieces: &[(u8, Ref)]) {
        let count = self.header().count();
        let first = (0..count).take_while(|&i| self.key(i) < start).count();
        let behind = (0..count).take_while(|&i| self.key(i) <= end).count();
        // The ranges behind are copied first: pieces may be more than the ranges that they replace,
        // and would overwrite them.
        let mut rest = [(0, Ref::NULL); 48];
        let moved = count - behind;
        debug_assert!(first + pieces.len() + moved <= Self::CAPACITY, "no room");
        for (i, range) in rest[..moved].iter_mut().enumerate() {
            *range = (self.key(behind + i), self.slot(behind + i));
        }
        let ranges = pieces.iter().chain(&rest[..moved]);
        let mut position = first;
        for &(byte, child) in ranges {
            self.set_key(position, byte);
            self.set_slot(position, child);
            position += 1;
        }
        for unused in position..count {
            self.set_key(unused, 0);
            self.set_slot(unused, Ref::NULL);
        }
        self.header().set_count(position);
    }

    /// Replaces the child whose range includes a byte.
    fn set_covering(&self, byte: u8, child: Ref) {
        let below = self.at_most(self.header().count(), byte);
        debug_assert!(below > 0, "no range has the byte");
        self.set_slot(below - 1, child);
    }

    /// Returns the child at a position.
    #[inline]
    fn slot(&self, position: usize) -> Ref {
        Ref::from_bits(self.slots()[position].load(Ordering::Acquire))
    }

    /// Sets the child at a position.
    #[inline]
    fn set_slot(&self, position: usize, child: Ref) {
        self.slots()[position].store(child.bits(), Ordering::Release);
    }

    /// Empties a node that no other thread can reach.
    fn reset(&self, depth: usize) {
        self.header().reset(depth);
        for position in 0..Self::CAPACITY {
            self.set_key(position, 0);
            self.set_slot(position, Ref::NULL);
        }
    }

    /// Calls `visit` for each child in ascending order.
    #[inline]
    fn for_each(&self, mut visit: impl FnMut(u8, Ref)) {
        let count = self.header().count().min(Self::CAPACITY);
        for position in 0..count {
            visit(self.key(position), self.slot(position));
        }
    }
}

impl RadixSortedNode for RadixNode4 {
    const CAPACITY: usize = 4;
    #[inline]
    fn header(&self) -> &RadixNodeHeader {
        &self.header
    }
    #[inline]
    fn slots(&self) -> &[AtomicU32] {
        &self.slots
    }
    #[inline]
    fn key(&self, position: usize) -> u8 {
        (self.keys.load(Ordering::Relaxed) >> (8 * position)) as u8
    }
    fn set_key(&self, position: usize, byte: u8) {
        let others = self.keys.load(Ordering::Relaxed) & !(0xff << (8 * position));
        self.keys.store(
            others | u32::from(byte) << (8 * position),
            Ordering::Relaxed,
        );
    }
    #[inline]
    fn at_most(&self, count: usize, byte: u8) -> usize {
        search::at_most_in_4(self.keys.load(Ordering::Relaxed), count, byte)
    }
}

/// Implements [`RadixSortedNode`] for a node whose keys are words of eight.
macro_rules! sorted_by_words {
    ($node:ty, $capacity:literal, $rank:path) => {
        impl RadixSortedNode for $node {
            const CAPACITY: usize = $capacity;
            #[inline]
            fn header(&self) -> &RadixNodeHeader {
                &self.header
            }
            #[inline]
            fn slots(&self) -> &[AtomicU32] {
                &self.slots
            }
            #[inline]
            fn key(&self, position: usize) -> u8 {
                (self.keys[position / 8].load(Ordering::Relaxed) >> (8 * (position % 8))) as u8
            }
            fn set_key(&self, position: usize, byte: u8) {
                let (word, shift) = (&self.keys[position / 8], 8 * (position % 8));
                let others = word.load(Ordering::Relaxed) & !(0xff << shift);
                word.store(others | u64::from(byte) << shift, Ordering::Relaxed);
            }
            #[inline]
            fn at_most(&self, count: usize, byte: u8) -> usize {
                let words = std::array::from_fn(|i| self.keys[i].load(Ordering::Relaxed));
                $rank(words, count, byte)
            }
        }
    };
}

sorted_by_words!(RadixNode16, 16, search::at_most_in_16);
sorted_by_words!(RadixNode48, 48, search::at_most_in_48);
