//! Pieces of several lengths from one region, in [spans](super::span).
//!
//! Blocks of byte strings grow by an entry at a time, and all at about the same time. If freed
//! pieces were kept by length, each length would keep the memory that it once needed. Here, any
//! adjacent free units serve a piece of any length, and a piece may take a part of them.
//!
//! A thread takes pieces from one span, which its [stripe](super::stripes) owns and whose holes it
//! has listed. If none has room, it continues with a ripe span, or with a new one. A span that it
//! has left comes back when an eighth of it has been freed.
//!
//! A free piece is used again for any purpose: a thread that frees one guarantees that no thread
//! refers to it.

use super::region::Region;
use super::span::{PIECE_UNITS_MAX, SPAN_UNITS, Span};
use super::stripes::Stripes;
use crate::prefetch::prefetch;
use nearfield_core::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of holes by which a hole is prefetched.
const AHEAD: usize = 4;

/// The size of a cache line.
const LINE: usize = 64;

/// The most holes that are listed.
const HOLES_MAX: usize = 128;

/// Ripe spans that are tried before a new one is taken.
const RIPE_TRIED: usize = 4;

/// Spans that are searched at once where memory is short: each takes some 100 ns.
const SEARCHED_MAX: usize = 256;

/// Bytes of free spans that are worth giving back.
const GIVEN_BACK_FROM: usize = 1 << 20;

/// They are at least this part of all bytes.
const GIVEN_BACK_PART: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub struct Pieces {
    /// A [`Span`] for each [`SPAN_UNITS`] units of the region that these pieces belong to.
    spans: Region,
    stripes: Stripes<Own>,
    shared: Mutex<Shared>,
    /// True if a span was ever ripe.
    has_ripe: AtomicBool,
    /// The spans whose memory has been given back.
    given_back: AtomicUsize,
    /// Where the last search among spans at rest has ended.
    searched: AtomicUsize,
}

/// The state of a stripe.
#[derive(Debug, Default)]
struct Own {
    span: Option<u32>,
    /// The span's holes when it was opened, in the order of their addresses. Pieces have been taken
    /// from the beginning of some.
    holes: Vec<Hole>,
    /// The first of the holes that is worth a look.
    first: usize,
    /// The rest of a hole is dropped if it has fewer units.
    units_min: usize,
}

/// Free units of a span, side by side.
#[derive(Clone, Copy, Debug)]
struct Hole {
    at: u16,
    units: u16,
}

/// Spans for all stripes.
#[derive(Debug, Default)]
struct Shared {
    ripe: Vec<u32>,
    /// Spans without memory, all of whose units are free. They are ripe.
    given_back: Vec<u32>,
}

impl Pieces {
    /// Pieces of a region.
    pub fn new(region: &Region, small_bytes: usize) -> Result<Pieces, Error> {
        let count = region.capacity() / SPAN_UNITS as u64;
        Ok(Pieces {
            spans: Region::reserve(size_of::<Span>(), count.max(1), small_bytes)?,
            stripes: Stripes::new(Own::default),
            shared: Mutex::default(),
            has_ripe: AtomicBool::new(false),
            given_back: AtomicUsize::new(0),
            searched: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn span(&self, index: u32) -> &Span {
        // SAFETY: indices come from `new_span`, are below `count`, or are those of spans that hold
        // a piece: all below the capacity of `spans`, which is mapped as long as `self` and begins
        // on a page, so that spans, whose size is a multiple of their alignment, are aligned. They
        // consist of atomics, for which zeros are valid, and are never accessed other than through
        // shared references.
        unsafe { &*self.spans.address(index).cast() }
    }

    /// Allocates a piece. Its content is that of its last users, or zeros. `grow` decides whether
    /// that many bytes may be taken from the system.
    pub fn allocate(
        &self,
        region: &Region,
        units: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        debug_assert!((1..=PIECE_UNITS_MAX).contains(&units));
        let mut own = self.stripes.lock();
        match self.take(region, &mut own, units) {
            Some(piece) => Ok(piece),
            None => self.allocate_elsewhere(region, &mut own, units, grow),
        }
    }

    /// Takes a piece from the span that a stripe owns.
    #[inline]
    fn take(&self, region: &Region, own: &mut Own, units: usize) -> Option<u32> {
        let span = own.span?;
        let fits = |hole: &Hole| usize::from(hole.units) >= units;
        let position = own.first + own.holes[own.first..].iter().position(fits)?;
        let hole = &mut own.holes[position];
        let at = usize::from(hole.at);
        hole.at += units as u16;
        hole.units -= units as u16;
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
    /// the cache by now, and is going to be written.
    #[inline]
    fn prefetch(&self, region: &Region, span: u32, hole: &Hole, units: usize) {
        let first = region.address(span * SPAN_UNITS as u32 + u32::from(hole.at));
        for line in 0..(units * region.stride()).div_ceil(LINE) {
            prefetch(first.cast_const().wrapping_add(line * LINE));
        }
    }

    /// Gives an acquired span to a stripe that has none, for pieces of about `units` units. Lists a
    /// hole with room, if there is one.
    fn open(&self, region: &Region, own: &mut Own, span: u32, units: usize) {
        own.span = Some(span);
        own.first = 0;
        own.units_min = (units * 3 / 4).max(1);
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

    /// Leaves the span of a stripe at rest.
    fn leave(&self, own: &mut Own) {
        own.holes.clear();
        own.first = 0;
        if let Some(span) = own.span.take()
            && self.span(span).release()
        {
            self.share(span);
        }
    }

    /// Allocates a piece from another span than the stripe's, which becomes the stripe's.
    #[cold]
    fn allocate_elsewhere(
        &self,
        region: &Region,
        own: &mut Own,
        units: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        self.leave(own);
        for _ in 0..RIPE_TRIED {
            let Some(span) = self.ripe_span() else { break };
            self.span(span).acquire();
            if let Some(piece) = self.take_from(region, span, own, units) {
                return Ok(piece);
            }
        }
        match self.new_span(region, grow) {
            Ok(span) => {
                self.span(span).acquire();
                let piece = self.take_from(region, span, own, units);
                Ok(piece.expect("an empty span has room for every piece"))
            }
            Err(error) => self.search(region, own, units).ok_or(error),
        }
    }

    /// Takes a piece from a span that has been acquired for a stripe, which has none.
    fn take_from(&self, region: &Region, span: u32, own: &mut Own, units: usize) -> Option<u32> {
        self.open(region, own, span, units);
        let piece = self.take(region, own, units);
        if piece.is_none() {
            self.leave(own);
        }
        piece
    }

    fn ripe_span(&self) -> Option<u32> {
        if !self.has_ripe.load(Ordering::Relaxed) {
            return None;
        }
        let mut shared = self.shared();
        let span = shared.ripe.pop();
        // The holes of the one that comes after this are going to be listed.
        if let Some(&coming) = shared.ripe.last() {
            let first = self.spans.address(coming).cast_const();
            for line in 0..size_of::<Span>() / LINE {
                prefetch(first.wrapping_add(line * LINE));
            }
        }
        span
    }

    /// Tells all stripes of a span that is ripe.
    fn share(&self, span: u32) {
        self.shared().ripe.push(span);
        self.has_ripe.store(true, Ordering::Relaxed);
    }

    /// A new span that no stripe uses, with memory.
    fn new_span(
        &self,
        region: &Region,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        let bytes = SPAN_UNITS * region.stride();
        let mut shared = self.shared();
        if let Some(&span) = shared.given_back.last() {
            grow(bytes)?;
            shared.given_back.pop();
            self.given_back.fetch_sub(1, Ordering::Relaxed);
            return Ok(span);
        }
        drop(shared);
        grow(bytes + size_of::<Span>())?;
        match region.take(SPAN_UNITS as u32) {
            // Spans are all that is taken from the region, so that each begins at a multiple.
            Some((first, units)) if units as usize == SPAN_UNITS => {
                let span = first / SPAN_UNITS as u32;
                match u64::from(span) < self.spans.capacity() {
                    true => Ok(span),
                    false => Err(region.full()),
                }
            }
            _ => Err(region.full()),
        }
    }

    /// The spans that have been taken from the region.
    fn count(&self, region: &Region) -> usize {
        let units = region.bytes_taken() / region.stride();
        (units / SPAN_UNITS).min(self.spans.capacity() as usize)
    }

    /// Allocates a piece where memory is short: from a ripe span, from some of those at rest, or
    /// from that of another stripe. Stripes whose lock is held are skipped, because the caller
    /// holds its own.
    #[cold]
    fn search(&self, region: &Region, own: &mut Own, units: usize) -> Option<u32> {
        for _ in 0..SEARCHED_MAX {
            let Some(span) = self.ripe_span() else { break };
            self.span(span).acquire();
            if let Some(piece) = self.take_from(region, span, own, units) {
                return Some(piece);
            }
        }
        let count = self.count(region);
        for _ in 0..count.min(SEARCHED_MAX) {
            let index = self.searched.fetch_add(1, Ordering::Relaxed) % count;
            let span = self.span(index as u32);
            if span.used() + units <= SPAN_UNITS
                && span.has_hole(units)
                && span.acquire_resting()
                && let Some(piece) = self.take_from(region, index as u32, own, units)
            {
                return Some(piece);
            }
        }
        self.stripes.others().find_map(|mut other| {
            let span = other.span?;
            self.take(region, &mut other, units).or_else(|| {
                // Pieces may have been freed since it was opened.
                self.open(region, &mut other, span, units);
                self.take(region, &mut other, units)
            })
        })
    }

    /// Frees a piece.
    pub fn free(&self, first: u32, units: usize) {
        let (span, at) = (first / SPAN_UNITS as u32, first as usize % SPAN_UNITS);
        if self.span(span).free(at, units) {
            self.share(span);
        }
    }

    /// Asks for the line that tells where a piece is free, which is going to be freed.
    #[inline]
    pub fn prefetch_to_free(&self, first: u32) {
        let (span, at) = (first / SPAN_UNITS as u32, first as usize % SPAN_UNITS);
        let span = self.spans.address(span).cast_const();
        prefetch(span);
        prefetch(span.wrapping_add(Span::offset_of(at)));
    }

    /// The units in use.
    pub fn live_units(&self, region: &Region) -> usize {
        let count = self.count(region);
        (0..count as u32).map(|span| self.span(span).used()).sum()
    }

    /// The bytes taken from the system for spans and their descriptions, and not given back.
    pub fn bytes_taken(&self, region: &Region) -> usize {
        let (all, given_back) = (self.count(region), self.given_back.load(Ordering::Relaxed));
        let bytes = SPAN_UNITS * region.stride();
        all.saturating_sub(given_back) * bytes + all * size_of::<Span>()
    }

    /// Gives memory of free spans back to the system, if there are enough to be worth it. Returns
    /// the number of bytes.
    ///
    /// # Safety
    /// No thread may hold a reference to a freed piece.
    pub unsafe fn give_back(&self, region: &Region) -> usize {
        let bytes = SPAN_UNITS * region.stride();
        let mut shared = self.shared();
        let is_free = |span: &u32| self.span(*span).used() == 0;
        let free = shared.ripe.iter().copied().filter(is_free).count() * bytes;
        if free < GIVEN_BACK_FROM || free < self.bytes_taken(region) / GIVEN_BACK_PART {
            return 0;
        }
        let Shared { ripe, given_back } = &mut *shared;
        let before = given_back.len();
        ripe.retain(|&span| {
            let first = span * SPAN_UNITS as u32;
            // SAFETY: all pieces of the span are free, and no thread takes any, because no other
            // thread learns of it while `shared` is locked; the caller promises that no thread
            // refers to them.
            let gives = is_free(&span)
                && !unsafe { region.give_back(first..first + SPAN_UNITS as u32) }.is_empty();
            if gives {
                given_back.push(span);
            }
            !gives
        });
        let count = given_back.len() - before;
        self.given_back.fetch_add(count, Ordering::Relaxed);
        count * bytes
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
