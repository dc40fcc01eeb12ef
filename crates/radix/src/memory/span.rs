//! A span: adjacent units of memory, from which pieces are taken and freed.
//!
//! A bit for each unit tells whether it is taken, so that adjacent freed pieces are one hole
//! without further work, and serve longer pieces.
//!
//! Only the span's *owner* takes pieces from it; any thread frees them at any time. The owner
//! leaves a span without room to *rest* until enough of it has been freed. Then it is *ripe*, and
//! may be owned again:
//!
//! ```text
//!           release                    the free that fills the count
//!   owned ───────────▶ resting, count < RIPE ───────────▶ ripe, count ≥ RIPE
//!     ▲                       │ (when memory is short)             │
//!     └───────────────────────┴────────────────────────────────────┘ acquire
//! ```
//!
//! Frees count from the time at which the owner has looked for holes, and from a *base*, which
//! `release` chooses: the fewer units are in use, the fewer have to be freed. Exactly one free, or
//! the release itself, makes a span ripe, and its thread announces the span.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Words of bits of a span.
const WORDS: usize = if cfg!(loom) { 2 } else { 64 };

/// The units of a span.
pub const SPAN_UNITS: usize = WORDS * 64;

/// The longest piece, which lies in two words at most.
pub const PIECE_UNITS_MAX: usize = 64;

/// The count from which on a span is ripe.
const RIPE: u32 = SPAN_UNITS as u32 / 8;

/// The mark of an owner beside the count.
const OWNED: u32 = 1 << 31;

/// See the [module](self). Zeros are a span of free units that is at rest.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Span {
    /// Units freed since the span was acquired, with the base when it is at rest; and a mark.
    count: AtomicU32,
    /// Units in use, and the count. Written by the owner.
    used: AtomicU32,
    /// A number that the owner keeps here: the class of the pieces that it takes.
    class: AtomicU32,
    /// The taken units. The owner sets a bit, and any thread that frees the unit clears it.
    bits: Bits,
}

#[derive(Debug)]
struct Bits([AtomicU64; WORDS]);

impl Default for Bits {
    fn default() -> Self {
        Bits(std::array::from_fn(|_| AtomicU64::default()))
    }
}

/// The bits of units of a piece in one word.
fn mask(first: usize, count: usize) -> u64 {
    debug_assert!(count > 0 && first + count <= 64);
    u64::MAX >> (64 - count) << first
}

/// Calls `each` for the words that a piece lies in, with its bits there, from the last one on.
#[inline]
fn for_parts_from_last(at: usize, units: usize, mut each: impl FnMut(usize, u64)) {
    debug_assert!(units <= PIECE_UNITS_MAX && at + units <= SPAN_UNITS);
    let (word, first) = (at / 64, at % 64);
    let here = units.min(64 - first);
    if here < units {
        each(word + 1, mask(0, units - here));
    }
    each(word, mask(first, here));
}

impl Span {
    /// Makes the caller the owner of a ripe span that no other thread has been told of, or of one
    /// without an owner so far, for pieces of a class.
    pub fn acquire(&self, class: usize) {
        // Acquires the last owner's writes, and the frees.
        let count = self.count.swap(OWNED, Ordering::AcqRel);
        debug_assert!(count & OWNED == 0);
        self.used
            .store(self.used.load(Ordering::Relaxed) - count, Ordering::Relaxed);
        self.set_class(class);
    }

    /// Chooses another class. Only by the owner.
    pub fn set_class(&self, class: usize) {
        self.class.store(class as u32, Ordering::Relaxed);
    }

    /// The class that the last owner has chosen, for a thread that makes the span ripe.
    pub fn class(&self) -> usize {
        self.class.load(Ordering::Relaxed) as usize
    }

    /// Makes the caller the owner of a span that is at rest and in use, and not ripe.
    pub fn acquire_resting(&self, class: usize) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            // A span that has never been owned is about to be, by the thread that has taken it.
            if count >= RIPE || self.used.load(Ordering::Relaxed) == 0 {
                return false;
            }
            match self.count.compare_exchange_weak(
                count,
                OWNED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(changed) => count = changed,
            }
        }
        self.used
            .store(self.used.load(Ordering::Relaxed) - count, Ordering::Relaxed);
        self.set_class(class);
        true
    }

    /// Leaves a span that the caller owns at rest. True if it is ripe at once, which the caller is
    /// to tell others.
    #[must_use]
    pub fn release(&self) -> bool {
        let allocated = self.used.load(Ordering::Relaxed);
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            debug_assert!(count & OWNED != 0);
            // Units freed after the owner has looked for holes count for the next one.
            let freed = count & !OWNED;
            let used = allocated - freed;
            let base = RIPE - used.div_ceil(2).min(RIPE);
            // Before the count: a thread that acquires the span has both.
            self.used.store(allocated + base, Ordering::Relaxed);
            match self.count.compare_exchange_weak(
                count,
                freed + base,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return freed + base >= RIPE,
                Err(changed) => count = changed,
            }
        }
    }

    /// Where in a span the bit of a unit lies, in bytes.
    #[cfg(not(loom))]
    pub fn offset_of(at: usize) -> usize {
        std::mem::offset_of!(Span, bits) + at / 64 * 8
    }

    /// True if it has an owner, who may change at any time.
    pub fn is_owned(&self) -> bool {
        self.count.load(Ordering::Relaxed) & OWNED != 0
    }

    /// The units in use; exact while no thread takes or frees any.
    pub fn used(&self) -> usize {
        let count = self.count.load(Ordering::Relaxed) & !OWNED;
        self.used.load(Ordering::Relaxed).saturating_sub(count) as usize
    }

    /// Takes units that the owner has found free. Only by the owner.
    #[inline]
    pub fn take(&self, at: usize, units: usize) {
        for_parts_from_last(at, units, |word, mask| {
            let before = self.bits.0[word].fetch_or(mask, Ordering::Relaxed);
            debug_assert!(before & mask == 0, "a unit was taken twice");
        });
        let used = self.used.load(Ordering::Relaxed);
        self.used.store(used + units as u32, Ordering::Relaxed);
    }

    /// The holes of at least this many units: the start and length of each. A hole that the owner
    /// finds stays free until it is taken.
    #[inline]
    pub fn holes(&self, units_min: usize, mut hole: impl FnMut(usize, usize)) {
        // The free units that end where the word begins.
        let mut free = 0;
        for word in 0..WORDS {
            let mut taken = self.word(word);
            let mut at = word * 64;
            let end = at + 64;
            while taken != 0 {
                let skipped = taken.trailing_zeros() as usize;
                free += skipped;
                at += skipped;
                if free >= units_min {
                    hole(at - free, free);
                }
                free = 0;
                let run = (taken >> skipped).trailing_ones() as usize;
                at += run;
                taken = taken.checked_shr((skipped + run) as u32).unwrap_or(0);
            }
            free += end - at;
        }
        if free >= units_min {
            hole(SPAN_UNITS - free, free);
        }
    }

    /// True if there is a hole of at least this many units.
    pub fn has_hole(&self, units: usize) -> bool {
        let mut has = false;
        self.holes(units, |_, _| has = true);
        has
    }

    /// A thread that takes free units must have seen the effects of their last users.
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self.bits.0[word].load(Ordering::Acquire)
    }

    /// Where the next piece begins, from the end of another piece on, or from 0. Only by the owner,
    /// which takes none meanwhile. Others may free pieces: their last units are freed first, so
    /// that a piece of which a part is left is still found by its beginning.
    pub fn next_piece(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while at < SPAN_UNITS {
            let taken = self.word(at / 64) >> (at % 64);
            if taken != 0 {
                return Some(at + taken.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Frees a piece. True if that has made the span ripe, which the caller is to tell others.
    #[must_use]
    pub fn free(&self, at: usize, units: usize) -> bool {
        for_parts_from_last(at, units, |word, mask| {
            let before = self.bits.0[word].fetch_and(!mask, Ordering::Release);
            debug_assert!(before & mask == mask, "a unit was freed twice");
        });
        // After the bits: a thread that finds the span ripe finds the units free.
        let before = self.count.fetch_add(units as u32, Ordering::AcqRel);
        before < RIPE && before + units as u32 >= RIPE
    }
}
