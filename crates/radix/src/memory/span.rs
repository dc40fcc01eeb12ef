//! A span: adjacent units of memory, from which pieces are taken and freed.
//!
//! One bit per unit shows if it is taken, so that adjacent freed pieces are one hole without
//! further work, and can serve longer pieces.
//!
//! Only the span's *owner* takes pieces from it; any thread may free them at any time. The owner
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
//! Frees count from the time at which the owner has searched for holes, and from a *base*, which
//! `release` chooses: the fewer units are in use, the fewer must be freed. Exactly one free, or the
//! release itself, makes a span ripe, and its thread announces the span.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Number of words of bits of a span.
const WORDS: usize = if cfg!(loom) { 2 } else { 64 };

/// Number of units of a span.
pub const SPAN_UNITS: usize = WORDS * 64;

/// The maximum number of units of a piece, whose bits span at most two words.
pub const PIECE_UNITS_MAX: usize = 64;

/// The minimum count of a ripe span.
const RIPE: u32 = SPAN_UNITS as u32 / 8;

/// The mark of an owner in the word of the count.
const OWNED: u32 = 1 << 31;

/// The span; see the [module](self). Zeros are a resting span whose units are all free.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PieceSpan {
    /// Number of units freed since the span was acquired, plus the base when it rests; and a mark.
    count: AtomicU32,
    /// Number of units in use, plus the count. Written by the owner.
    used: AtomicU32,
    /// The class of the pieces that the owner takes.
    class: AtomicU32,
    /// The bits of the taken units. The owner sets a bit, and any thread that frees the unit clears
    /// it.
    bits: SpanBitmap,
}

#[derive(Debug)]
struct SpanBitmap([AtomicU64; WORDS]);

impl Default for SpanBitmap {
    fn default() -> Self {
        SpanBitmap(std::array::from_fn(|_| AtomicU64::default()))
    }
}

/// Returns the bits of the units of a piece in one word.
fn mask(first: usize, count: usize) -> u64 {
    debug_assert!(count > 0 && first + count <= 64);
    u64::MAX >> (64 - count) << first
}

/// Calls `each` for the words that contain bits of a piece, with those bits, from the last word to
/// the first.
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

impl PieceSpan {
    /// Makes the caller the owner of a ripe span that no other thread knows of, or of one that has
    /// never had an owner, for pieces of a class.
    pub fn acquire(&self, class: usize) {
        // Acquires the last owner's writes, and the frees.
        let count = self.count.swap(OWNED, Ordering::AcqRel);
        debug_assert!(count & OWNED == 0);
        self.used
            .store(self.used.load(Ordering::Relaxed) - count, Ordering::Relaxed);
        self.set_class(class);
    }

    /// Sets another class. Only by the owner.
    pub fn set_class(&self, class: usize) {
        debug_assert!(self.is_owned(), "only the owner chooses the class");
        self.class.store(class as u32, Ordering::Relaxed);
    }

    /// Returns the class that the last owner has chosen, for a thread that makes the span ripe.
    pub fn class(&self) -> usize {
        self.class.load(Ordering::Relaxed) as usize
    }

    /// Makes the caller the owner of a resting span that is in use and not ripe.
    pub fn acquire_resting(&self, class: usize) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            // A span that has never been owned will be owned by the thread that has taken it.
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

    /// Releases a span that the caller owns, which then rests. Returns true if it is ripe at once;
    /// the caller must then announce it.
    #[must_use]
    pub fn release(&self) -> bool {
        let allocated = self.used.load(Ordering::Relaxed);
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            debug_assert!(count & OWNED != 0);
            // Units freed after the owner has searched for holes count for the next owner.
            let freed = count & !OWNED;
            let used = allocated - freed;
            let base = RIPE - used.div_ceil(2).min(RIPE);
            // Before the count: a thread that acquires the span sees both.
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

    /// Returns the offset in bytes of the bit of a unit within a span.
    #[cfg(not(loom))]
    pub fn offset_of(at: usize) -> usize {
        std::mem::offset_of!(PieceSpan, bits) + at / 64 * 8
    }

    /// Returns true if it has an owner, which may change at any time.
    pub fn is_owned(&self) -> bool {
        self.count.load(Ordering::Relaxed) & OWNED != 0
    }

    /// Returns the number of units in use; exact while no thread takes or frees any.
    pub fn used(&self) -> usize {
        let count = self.count.load(Ordering::Relaxed) & !OWNED;
        self.used.load(Ordering::Relaxed).saturating_sub(count) as usize
    }

    /// Takes units that the owner has found free. Only by the owner.
    #[inline]
    pub fn take(&self, at: usize, units: usize) {
        debug_assert!(self.is_owned(), "only the owner takes units");
        for_parts_from_last(at, units, |word, mask| {
            let before = self.bits.0[word].fetch_or(mask, Ordering::Relaxed);
            debug_assert!(before & mask == 0, "a unit was taken twice");
        });
        let used = self.used.load(Ordering::Relaxed);
        self.used.store(used + units as u32, Ordering::Relaxed);
    }

    /// Calls `hole` for each hole of at least this many units, with its start and length. A hole
    /// that the owner finds stays free until it is taken.
    #[inline]
    pub fn holes(&self, units_min: usize, mut hole: impl FnMut(usize, usize)) {
        // Number of free units directly before the word.
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

    /// Returns true if there is a hole of at least this many units.
    pub fn has_hole(&self, units: usize) -> bool {
        let mut has = false;
        self.holes(units, |_, _| has = true);
        has
    }

    /// Loads a word of bits. A thread that takes free units must see the effects of their last
    /// users.
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self.bits.0[word].load(Ordering::Acquire)
    }

    /// Returns the start of the next piece, searching from the end of another piece, or from 0.
    /// Only by the owner, which must not take any meanwhile. Other threads may free pieces: their
    /// last units are freed first, so that a partly freed piece is still found by its beginning.
    pub fn next_piece(&self, from: usize) -> Option<usize> {
        debug_assert!(self.is_owned(), "its owner may take pieces");
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

    /// Frees a piece. Returns true if that has made the span ripe; the caller must then announce
    /// it.
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
