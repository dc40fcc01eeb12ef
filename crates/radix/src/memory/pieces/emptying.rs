//! Emptying of spans, so that their memory can be given back.
//!
//! Each span has some free units, and no piece moves by itself. So a map that has grown takes more
//! memory than it uses. A thread that owns spans from which it takes nothing can copy their pieces
//! elsewhere: [`take_sparse`](PieceAllocator::take_sparse) chooses the spans,
//! [`next_piece`](PieceAllocator::next_piece) finds their pieces, and
//! [`release_emptied`](PieceAllocator::release_emptied) ends the emptying.
//!
//! Neighbouring spans are emptied together, because the system has memory in huge pages.

use super::{PieceAllocator, ReservedRegion};
use crate::memory::span::{PieceSpan, SPAN_UNITS};
use std::sync::atomic::Ordering;

/// Number of neighbouring spans that are emptied together: two MiB of blocks of byte strings.
const GROUP: usize = 32;

/// The maximum part (1 in this number) of all spans that is emptied at once: as much memory may be
/// taken meanwhile.
const EMPTIED_PART: usize = 16;

/// The maximum mean number of units in use per span of a group that is emptied.
const SPARSE_UNITS: usize = SPAN_UNITS / 16 * 15;

/// The number of free bytes above which emptying spans pays, in addition to one in `SCATTERED_PART`
/// of those taken.
const SCATTERED_FROM: usize = 1 << 20;
const SCATTERED_PART: usize = 16;

impl PieceAllocator {
    /// Returns true if enough of the memory is free for emptying spans to pay.
    pub fn is_scattered(&self, region: &ReservedRegion) -> bool {
        let taken = self.bytes_taken(region);
        let free = taken.saturating_sub(self.live_units(region) * region.stride());
        free > SCATTERED_FROM + taken / SCATTERED_PART
    }

    /// Takes spans to empty, and those that are empty. The caller then owns them. Pieces that were
    /// taken earlier may not be visible to other threads until all threads that take pieces have
    /// been unpinned.
    pub fn take_sparse(&self, region: &ReservedRegion) -> Vec<u32> {
        let count = self.count(region);
        // The mean use of the spans of a group that have any. Spans from which a thread takes
        // pieces are not available: choosing a group in which no other span is in use would be
        // useless.
        let mean = |group: usize| {
            let spans = (group * GROUP..(group + 1) * GROUP).map(|span| self.span(span as u32));
            let free = spans.filter(|span| !span.is_owned());
            let used = free.map(PieceSpan::used).filter(|&used| used > 0);
            let (count, sum) = used.fold((0, 0), |(count, sum), used| (count + 1, sum + used));
            usize::checked_div(sum, count)
        };
        let mut groups: Vec<(usize, usize)> = (0..count / GROUP)
            .filter_map(|group| mean(group).map(|mean| (mean, group)))
            .filter(|&(mean, _)| mean <= SPARSE_UNITS)
            .collect();
        groups.sort_unstable();
        groups.truncate((count / GROUP / EMPTIED_PART).max(1));
        let mut chosen: Vec<usize> = groups.into_iter().map(|(_, group)| group).collect();
        // The order of addresses lets a binary search decide for each ripe span.
        chosen.sort_unstable();
        let is_chosen = |span: usize| chosen.binary_search(&(span / GROUP)).is_ok();
        let mut taken = Vec::with_capacity(chosen.len() * GROUP);
        let mut shared = self.shared();
        for ripe in &mut shared.ripe {
            ripe.retain(|&index| {
                let span = self.span(index);
                let takes = is_chosen(index as usize) || span.used() == 0;
                if takes {
                    span.acquire(span.class());
                    taken.push(index);
                }
                !takes
            });
        }
        drop(shared);
        for group in chosen {
            for index in (group * GROUP..(group + 1) * GROUP).map(|index| index as u32) {
                let span = self.span(index);
                if span.acquire_resting(span.class()) {
                    taken.push(index);
                }
            }
        }
        taken
    }

    /// Returns the next piece of a span that is being emptied, and its first unit. `from` is the
    /// first unit of the span, or the end of another piece.
    pub fn next_piece(&self, span: u32, from: usize) -> Option<(u32, usize)> {
        let at = self.span(span).next_piece(from)?;
        Some((span * SPAN_UNITS as u32 + at as u32, at))
    }

    /// Ends the emptying of spans. Gives the memory of those without a piece back to the system,
    /// and returns the number of bytes. The other spans return to use.
    ///
    /// # Safety
    /// The spans come from [`take_sparse`](PieceAllocator::take_sparse), and no thread may hold a
    /// reference to a freed piece.
    pub unsafe fn release_emptied(&self, region: &ReservedRegion, spans: &[u32]) -> usize {
        let mut given_back = Vec::with_capacity(spans.len());
        for &index in spans {
            let span = self.span(index);
            let is_empty = span.used() == 0;
            if !span.release() {
                continue;
            }
            let first = index * SPAN_UNITS as u32;
            // SAFETY: all pieces of the span are free, and no thread takes any, because no other
            // thread is notified that it is ripe; the caller promises that no thread refers to
            // them.
            let gives = is_empty
                && !unsafe { region.give_back(first..first + SPAN_UNITS as u32) }.is_empty();
            match gives {
                true => given_back.push(index),
                false => self.share(index),
            }
        }
        let count = given_back.len();
        self.given_back.fetch_add(count, Ordering::Relaxed);
        self.shared().given_back.append(&mut given_back);
        count * SPAN_UNITS * region.stride()
    }
}
