//! The words at the beginning of a block.

use super::{BLOCK_MAX, RANKS, STRINGS_MAX};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The beginning of every block.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Marks {
    /// Which slots have an entry, a bit for each, the first lowest.
    pub(super) live: AtomicU32,
    pub(super) state: AtomicU32,
}

/// What follows in a block that has its entries inside.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Slots {
    pub(super) prints: [AtomicU64; STRINGS_MAX / 8],
    /// How many sorted keys are less, for each slot of the tail.
    pub(super) ranks: [AtomicU8; RANKS],
    /// The length of the block.
    pub(super) granules: u8,
    pub(super) hole: AtomicU64,
}

/// Where a former entry was, in one word that is written at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) offset: u16,
    pub(super) length: u16,
    /// Tells when no thread reads a former entry of the block any more, be it this or another.
    pub(super) ticket: u32,
}

impl Hole {
    pub(super) fn of(word: u64) -> Hole {
        Hole {
            offset: word as u16,
            length: (word >> 16) as u16,
            ticket: (word >> 32) as u32,
        }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.length) << 16 | u64::from(self.ticket) << 32
    }
}

/// The state of a block, in one word that is written at once.
///
/// ```text
///   31     30         29 … 0
///   dead │ outside │ length of the entry outside
///   dead │ 0       │ 0 │ sorted: 6 │ count: 6 │ slots: 6 │ end: 11
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) u32);

impl State {
    pub(super) const DEAD: u32 = 1 << 31;
    pub(super) const OUTSIDE: u32 = 1 << 30;
    pub(super) const LENGTH: u32 = Self::OUTSIDE - 1;

    pub(super) fn inside(end: usize, slots: usize, count: usize, sorted: usize) -> State {
        debug_assert!(end <= BLOCK_MAX && sorted <= count && count <= slots);
        State((end | slots << 11 | count << 17 | sorted << 23) as u32)
    }

    #[inline]
    pub(super) fn is_dead(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    #[inline]
    pub(super) fn is_outside(self) -> bool {
        self.0 & Self::OUTSIDE != 0
    }

    /// The bytes of the entry outside.
    pub(super) fn length(self) -> usize {
        (self.0 & Self::LENGTH) as usize
    }

    /// Where the entries end.
    #[inline]
    pub(super) fn end(self) -> usize {
        (self.0 & 0x7ff) as usize
    }

    /// The places for slots.
    #[inline]
    pub(super) fn slots(self) -> usize {
        (self.0 >> 11 & 0x3f) as usize
    }

    /// The slots that have been given to a key.
    #[inline]
    pub(super) fn count(self) -> usize {
        match self.is_outside() {
            true => 1,
            false => (self.0 >> 17 & 0x3f) as usize,
        }
    }

    /// The slots that are sorted by key, the first ones.
    #[inline]
    pub(super) fn sorted(self) -> usize {
        match self.is_outside() {
            true => 1,
            false => (self.0 >> 23 & 0x3f) as usize,
        }
    }
}
