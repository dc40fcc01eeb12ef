//! Pieces of several lengths from one region, in [spans](super::span).
//!
//! Blocks of byte strings grow by an entry at a time, and all at about the same time. If freed
//! pieces were kept by length, each length would keep the memory that it once needed. Here, any
//! adjacent free units can serve a piece of any length, and a piece may take a part of them.
//!
//! Pieces of about the same length, a *class*, come from the same spans, so that the space that one
//! leaves fits the next without a remainder that is too short for any. When blocks have grown, the
//! spans of their old class empty, and serve other classes when three eighths of them are free. If
//! they did so earlier, more spans would keep a few blocks, and fewer would become free.
//!
//! A thread takes pieces of a class from one span, which its [stripe](super::stripes) owns and
//! whose holes it has listed. If none has room, it continues with a ripe span of the class, with a
//! partly used one of another class, or with a new one. A span that it has left becomes available
//! again when an eighth of it has been freed.
//!
//! A free piece is reused for any purpose: a thread that frees one guarantees that no thread refers
//! to it.

mod emptying;

use super::region::ReservedRegion;
use super::span::{PIECE_UNITS_MAX, PieceSpan, SPAN_UNITS};
use super::stripes::StripedState;
use crate::prefetch::prefetch;
use nearfield_core::OperationError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of holes by which a hole is prefetched.
const AHEAD: usize = 4;

/// The size of a cache line.
const LINE: usize = 64;

/// The maximum number of holes that are listed.
const HOLES_MAX: usize = 128;

/// Number of ripe spans that are tried before a new one is taken.
const RIPE_TRIED: usize = 4;

/// Number of lengths in a class.
const CLASS_UNITS: usize = 8;

const CLASSES: usize = PIECE_UNITS_MAX / CLASS_UNITS;

/// The maximum number of units in use for which a span serves pieces of any class.
const PARTLY_USED: usize = SPAN_UNITS / 8 * 5;

/// The number of spans below which all pieces are of one class: a small map stays small.
const CLASSES_FROM: usize = 64;

/// Number of spans that are searched at once if memory is short: each takes some 100 ns.
const SEARCHED_MAX: usize = 256;

/// The minimum number of bytes of free spans that are given back.
const GIVEN_BACK_FROM: usize = 1 << 20;

/// The minimum part (1 in this number) of all bytes that they must be.
const GIVEN_BACK_PART: usize = 32;

/// The pieces of a region; see the [module](self).
#[derive(Debug)]
pub struct PieceAllocator {
    /// A [`PieceSpan`] for each [`SPAN_UNITS`] units of the region that these pieces belong to.
    spans: ReservedRegion,
    stripes: StripedState<Own>,
    shared: Mutex<Box<SharedSpans>>,
    /// True if a span was ever ripe.
    has_ripe: AtomicBool,
    /// True if there are enough spans for each class to have its own.
    has_classes: AtomicBool,
    /// Number of spans whose memory has been given back.
    given_back: AtomicUsize,
    /// Number of times that a span has become free since memory was last given back. It may be in
    /// use again.
    emptied: AtomicUsize,
    /// The span at which the last search among resting spans has ended.
    searched: AtomicUsize,
}

/// The spans that a stripe owns, by class.
type Own = [StripeSpan; CLASSES];

/// A span that a stripe owns, if any.
#[derive(Debug, Default)]
struct StripeSpan {
    span: Option<u32>,
    /// The span's holes when it was opened, in the order of their addresses. Pieces have been taken
    /// from the beginning of some.
    holes: Vec<Hole>,
    /// The index of the first hole that is worth trying.
    first: usize,
    /// The minimum number of units for which the rest of a hole is kept.
    units_min: usize,
}

/// Adjacent free units of a span.
#[derive(Clone, Copy, Debug)]
struct Hole {
    at: u16,
    units: u16,
}

/// The spans that all stripes share.
#[derive(Debug, Default)]
struct SharedSpans {
    /// The ripe spans by the class that they have served, in the order in which they became ripe.
    ripe: [VecDeque<u32>; CLASSES],
    /// The spans without memory, all of whose units are free. They are ripe.
    given_back: Vec<u32>,
}

impl PieceAllocator {
    /// Creates the pieces of a region.
    pub fn new(
        region: &ReservedRegion,
        small_bytes: usize,
    ) -> Result<PieceAllocator, OperationError> {
        let count = region.capacity() / SPAN_UNITS as u64;
        Ok(PieceAllocator {
            spans: ReservedRegion::reserve(size_of::<PieceSpan>(), count.max(1), small_bytes)?,
            stripes: StripedState::new(Own::default),
            shared: Mutex::default(),
            has_ripe: AtomicBool::new(false),
            has_classes: AtomicBool::new(false),
            given_back: AtomicUsize::new(0),
            emptied: AtomicUsize::new(0),
            searched: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn span(&self, index: u32) -> &PieceSpan {
        // SAFETY: indices come from `new_span`, are below `count`, or are those of spans that hold
        // a piece: all below the capacity of `spans`, which is mapped as long as `self` and begins
        // on a page, so that spans, whose size is a multiple of their alignment, are aligned. They
        // consist of atomics, for which zeros are valid, and are never accessed other than through
        // shared references.
        unsafe { &*self.spans.address(index).cast() }
    }

    /// Allocates a piece. Its content is that of its last users, or zeros. `grow` decides if the
    /// given number of bytes may be taken from the system.
    pub fn allocate(
        &self,
        region: &ReservedRegion,
        units: usize,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        debug_assert!((1..=PIECE_UNITS_MAX).contains(&units));
        let mut own = self.stripes.lock();
        let class = self.class(units);
        match self.take(region, &mut own[class], units) {
            Some(piece) => Ok(piece),
            None => self.allocate_elsewhere(region, &mut own, class, units, grow),
        }
    }

    /// Returns the class of pieces of a length.
    #[inline]
    fn class(&self, units: usize) -> usize {
        match self.has_classes.load(Ordering::Relaxed) {
            true => (units - 1) / CLASS_UNITS,
            false => 0,
        }
    }

    /// Takes a piece from a span that a stripe owns.
    #[inline]
    fn take(&self, region: &ReservedRegion, own: &mut StripeSpan, units: usize) -> Option<u32> {
        let span = own.span?;
        // Holes are tried in the order of their addresses: pieces that are made together lie
        // together.
        let fits = |hole: &Hole| usize::from(hole.units) >= units;
        let position = own.first + own.holes[own.first..].iter().position(fits)?;
        let hole = &mut own.holes[position];
        let at = usize::from(hole.at);
        hole.at += units as u16;
        hole.units -= units as u16;
        // The rest is too short for pieces of the class.
        if position == own.first && usize::from(hole.units) < own.units_min {
            own.first += 1;
        }
        self.span(span).take(at, units);
        if let Some(coming) = own.holes.get(position + AHEAD) {
            self.prefetch(region, span, coming, units);
        }
        Some(span * SPAN_UNITS as u32 + at as u32)
    }

    /// Prefetches the lines of a piece that may be taken from a hole soon. Freed memory is out of
    /// the cache by now, and will be written.
    #[inline]
    fn prefetch(&self, region: &ReservedRegion, span: u32, hole: &Hole, units: usize) {
        let first = region.address(span * SPAN_UNITS as u32 + u32::from(hole.at));
        for line in 0..(units * region.stride()).div_ceil(LINE) {
            prefetch(first.cast_const().wrapping_add(line * LINE));
        }
    }

    /// Assigns an acquired span to a stripe that has none, for pieces of about `units` units. Lists
    /// a hole with room, if there is one.
    fn open(&self, region: &ReservedRegion, own: &mut StripeSpan, span: u32, units: usize) {
        debug_assert!(
            self.span(span).is_owned(),
            "another stripe may take the span"
        );
        own.span = Some(span);
        own.first = 0;
        own.units_min = match self.has_classes.load(Ordering::Relaxed) {
            true => (units - 1) / CLASS_UNITS * CLASS_UNITS + 1,
            false => (units * 3 / 4).max(1),
        };
        own.holes.clear();
        self.span(span).holes(own.units_min, |at, free| {
            let has_room = free >= units;
            if own.holes.len() < HOLES_MAX - usize::from(!has_room) {
                own.holes.push(Hole {
                    at: at as u16,
                    units: free as u16,
                });
            }
        });
        for hole in own.holes.iter().take(AHEAD) {
            self.prefetch(region, span, hole, units);
        }
    }

    /// Releases the span of a stripe, which then rests.
    fn leave(&self, own: &mut StripeSpan) {
        own.holes.clear();
        own.first = 0;
        if let Some(span) = own.span.take()
            && self.span(span).release()
        {
            self.share(span);
        }
    }

    /// Allocates a piece from a span other than the stripe's, which then becomes the stripe's.
    #[cold]
    fn allocate_elsewhere(
        &self,
        region: &ReservedRegion,
        own: &mut Own,
        class: usize,
        units: usize,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        self.leave(&mut own[class]);
        // A ripe span may have free units, but no hole that is long enough.
        for _ in 0..RIPE_TRIED {
            let Some(span) = self.ripe_span(class) else {
                break;
            };
            self.span(span).acquire(class);
            if let Some(piece) = self.take_from(region, span, &mut own[class], units) {
                return Ok(piece);
            }
        }
        if let Some(span) = self.partly_used(own) {
            self.span(span).set_class(class);
            if let Some(piece) = self.take_from(region, span, &mut own[class], units) {
                return Ok(piece);
            }
        }
        match self.new_span(region, grow) {
            Ok(span) => {
                self.span(span).acquire(class);
                let piece = self.take_from(region, span, &mut own[class], units);
                Ok(piece.expect("an empty span has room for every piece"))
            }
            Err(error) => self.search(region, own, class, units).ok_or(error),
        }
    }

    /// Takes a piece from a span that has been acquired for a stripe, which has none of the class.
    fn take_from(
        &self,
        region: &ReservedRegion,
        span: u32,
        own: &mut StripeSpan,
        units: usize,
    ) -> Option<u32> {
        debug_assert!(own.span.is_none(), "a span would be lost");
        self.open(region, own, span, units);
        let piece = self.take(region, own, units);
        if piece.is_none() {
            self.leave(own);
        }
        piece
    }

    /// Returns the youngest ripe span of a class, which is the fullest.
    fn ripe_span(&self, class: usize) -> Option<u32> {
        if !self.has_ripe.load(Ordering::Relaxed) {
            return None;
        }
        let mut shared = self.shared();
        let span = shared.ripe[class].pop_back();
        // The holes of the one after this will be listed.
        if let Some(&coming) = shared.ripe[class].back() {
            let first = self.spans.address(coming).cast_const();
            for line in 0..size_of::<PieceSpan>() / LINE {
                prefetch(first.wrapping_add(line * LINE));
            }
        }
        span
    }

    /// Returns a partly free span of any class, which the caller then owns.
    fn partly_used(&self, own: &mut Own) -> Option<u32> {
        let has_room = |span: &u32| self.span(*span).used() <= PARTLY_USED;
        let mut of_stripe = own
            .iter_mut()
            .filter(|own| own.span.is_some_and(|span| has_room(&span)));
        if let Some(own) = of_stripe.next() {
            own.holes.clear();
            own.first = 0;
            return own.span.take();
        }
        if !self.has_ripe.load(Ordering::Relaxed) {
            return None;
        }
        let mut shared = self.shared();
        // Older spans tend to be emptier. Choosing the fullest one leaves empty ones empty.
        let candidates = shared.ripe.iter().enumerate().filter_map(|(class, ripe)| {
            let place = ripe.partition_point(has_room).checked_sub(1)?;
            Some((self.span(ripe[place]).used(), class, place))
        });
        let (_, class, place) = candidates.max()?;
        let span = shared.ripe[class].remove(place)?;
        drop(shared);
        self.span(span).acquire(0);
        Some(span)
    }

    /// Announces a ripe span to all stripes.
    fn share(&self, span: u32) {
        debug_assert!(
            !self.span(span).is_owned(),
            "a span with an owner is not ripe"
        );
        let class = self.span(span).class();
        self.shared().ripe[class].push_back(span);
        self.has_ripe.store(true, Ordering::Relaxed);
    }

    /// Returns a new span that no stripe uses, with memory.
    fn new_span(
        &self,
        region: &ReservedRegion,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        let bytes = SPAN_UNITS * region.stride();
        let mut shared = self.shared();
        if let Some(&span) = shared.given_back.last() {
            grow(bytes)?;
            shared.given_back.pop();
            self.given_back.fetch_sub(1, Ordering::Relaxed);
            return Ok(span);
        }
        drop(shared);
        grow(bytes + size_of::<PieceSpan>())?;
        match region.take(SPAN_UNITS as u32) {
            // Only spans are taken from the region, so that each begins at a multiple.
            Some((first, units)) if units as usize == SPAN_UNITS => {
                let span = first / SPAN_UNITS as u32;
                // Counted by number, so that exactly one thread sets it.
                if span as usize + 1 == CLASSES_FROM {
                    self.has_classes.store(true, Ordering::Relaxed);
                }
                match u64::from(span) < self.spans.capacity() {
                    true => Ok(span),
                    false => Err(region.full()),
                }
            }
            _ => Err(region.full()),
        }
    }

    /// Returns the number of spans that have been taken from the region.
    fn count(&self, region: &ReservedRegion) -> usize {
        let units = region.bytes_taken() / region.stride();
        (units / SPAN_UNITS).min(self.spans.capacity() as usize)
    }

    /// Allocates a piece when memory is short: from a ripe span, from some of those at rest, or
    /// from those of this or another stripe. Stripes whose lock is held are skipped, because the
    /// caller holds its own.
    #[cold]
    fn search(
        &self,
        region: &ReservedRegion,
        own: &mut Own,
        class: usize,
        units: usize,
    ) -> Option<u32> {
        for _ in 0..SEARCHED_MAX {
            let any = (class..CLASSES).chain(0..class);
            let Some(span) = any.into_iter().find_map(|class| self.ripe_span(class)) else {
                break;
            };
            self.span(span).acquire(class);
            if let Some(piece) = self.take_from(region, span, &mut own[class], units) {
                return Some(piece);
            }
        }
        let count = self.count(region);
        for _ in 0..count.min(SEARCHED_MAX) {
            let index = self.searched.fetch_add(1, Ordering::Relaxed) % count;
            let span = self.span(index as u32);
            if span.used() + units <= SPAN_UNITS
                && span.has_hole(units)
                && span.acquire_resting(class)
                && let Some(piece) = self.take_from(region, index as u32, &mut own[class], units)
            {
                return Some(piece);
            }
        }
        let take = |open: &mut StripeSpan| {
            let span = open.span?;
            self.take(region, open, units).or_else(|| {
                // Pieces may have been freed since it was opened.
                self.open(region, open, span, units);
                self.take(region, open, units)
            })
        };
        own.iter_mut().find_map(take).or_else(|| {
            let mut others = self.stripes.others();
            others.find_map(|mut other| other.iter_mut().find_map(take))
        })
    }

    /// Frees a piece.
    pub fn free(&self, first: u32, units: usize) {
        let (span, at) = (first / SPAN_UNITS as u32, first as usize % SPAN_UNITS);
        if self.span(span).free(at, units) {
            self.share(span);
        }
        // This is a hint: the span may be in use again when memory is given back, and is looked at
        // then.
        if self.span(span).used() == 0 {
            self.emptied.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Prefetches the line with the bits of a piece that will be freed.
    #[inline]
    pub fn prefetch_to_free(&self, first: u32) {
        let (span, at) = (first / SPAN_UNITS as u32, first as usize % SPAN_UNITS);
        let span = self.spans.address(span).cast_const();
        prefetch(span);
        prefetch(span.wrapping_add(PieceSpan::offset_of(at)));
    }

    /// Returns the number of units in use.
    pub fn live_units(&self, region: &ReservedRegion) -> usize {
        let count = self.count(region);
        (0..count as u32).map(|span| self.span(span).used()).sum()
    }

    /// Returns the number of bytes taken from the system for spans and their descriptions, and not
    /// given back.
    pub fn bytes_taken(&self, region: &ReservedRegion) -> usize {
        let (all, given_back) = (self.count(region), self.given_back.load(Ordering::Relaxed));
        let bytes = SPAN_UNITS * region.stride();
        all.saturating_sub(given_back) * bytes + all * size_of::<PieceSpan>()
    }

    /// Returns true if it is worth searching for free spans to give back.
    pub fn may_give_back(&self, region: &ReservedRegion) -> bool {
        let emptied = self.emptied.load(Ordering::Relaxed) * SPAN_UNITS * region.stride();
        emptied >= GIVEN_BACK_FROM && emptied >= self.bytes_taken(region) / GIVEN_BACK_PART
    }

    /// Gives memory of free spans back to the system, if there are enough to be worth it. Returns
    /// the number of bytes.
    ///
    /// # Safety
    /// No thread may hold a reference to a freed piece.
    pub unsafe fn give_back(&self, region: &ReservedRegion) -> usize {
        let bytes = SPAN_UNITS * region.stride();
        self.emptied.store(0, Ordering::Relaxed);
        let mut shared = self.shared();
        let is_free = |span: &u32| self.span(*span).used() == 0;
        let free = shared
            .ripe
            .iter()
            .flatten()
            .filter(|span| is_free(span))
            .count()
            * bytes;
        if free < GIVEN_BACK_FROM || free < self.bytes_taken(region) / GIVEN_BACK_PART {
            return 0;
        }
        let SharedSpans { ripe, given_back } = &mut **shared;
        let before = given_back.len();
        for ripe in ripe {
            ripe.retain(|&span| {
                let first = span * SPAN_UNITS as u32;
                // SAFETY: all pieces of the span are free, and no thread takes any, because no
                // other thread can see it while `shared` is locked; the caller promises that no
                // thread refers to them.
                let gives = is_free(&span)
                    && !unsafe { region.give_back(first..first + SPAN_UNITS as u32) }.is_empty();
                if gives {
                    given_back.push(span);
                }
                !gives
            });
        }
        let count = given_back.len() - before;
        self.given_back.fetch_add(count, Ordering::Relaxed);
        count * bytes
    }

    fn shared(&self) -> MutexGuard<'_, Box<SharedSpans>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
