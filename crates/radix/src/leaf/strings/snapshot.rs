//! The entries of a block at one instant.

use super::{Entry, STRINGS_MAX, Strings, TAIL_MAX, below};
use arrayvec::ArrayVec;
use std::ops::{ControlFlow, Range};

/// Where an entry is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) offset: u16,
    pub(super) slot: u8,
}

/// The live entries of a block at one instant, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'g> {
    pub(super) block: Strings<'g>,
    pub(super) places: [Place; STRINGS_MAX],
    pub(super) count: usize,
    /// True if the entries still lie one behind the other in the order of their slots.
    pub(super) unmoved: bool,
}

impl<'g> Snapshot<'g> {
    /// Adds the live ones of the slots from `first` to before `behind`.
    #[inline]
    pub(super) fn push_sorted(&mut self, first: usize, behind: usize) {
        let all = below(behind) & !below(first);
        let mut live = self.block.live & all;
        if live == all {
            for slot in first..behind {
                self.places[self.count] = self.block.place(slot);
                self.count += 1;
            }
            return;
        }
        while live != 0 {
            self.places[self.count] = self.block.place(live.trailing_zeros() as usize);
            self.count += 1;
            live &= live - 1;
        }
    }

    /// Merges the tail with the sorted slots.
    pub(super) fn merge(&mut self) {
        let block = self.block;
        let (count, sorted) = (block.state.count(), block.state.sorted());
        let mut tail = ArrayVec::<(u8, Place), TAIL_MAX>::new();
        for slot in (sorted..count).filter(|slot| block.live >> slot & 1 != 0) {
            let place = block.place(slot);
            let rank = block.rank_of_tail(slot - sorted, place);
            let behind = tail.iter().position(|&(other, before)| {
                rank < other || rank == other && block.key_at(place) < block.key_at(before)
            });
            tail.insert(behind.unwrap_or(tail.len()), (rank, place));
        }
        let mut first = 0;
        for (rank, place) in tail {
            self.push_sorted(first, usize::from(rank));
            first = usize::from(rank);
            self.places[self.count] = place;
            self.count += 1;
        }
        self.push_sorted(first, sorted);
    }

    /// The number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The entry at a position below the count.
    #[inline]
    pub fn entry(&self, position: usize) -> Entry<'g> {
        let place = self.places[position];
        self.block.entry_at(usize::from(place.offset)).0
    }

    /// How many entries stand before a key that is likely to be there.
    #[inline]
    pub fn rank(&self, key: &[u8]) -> usize {
        let places = &self.places[..self.count];
        let found = self.block.find(key).and_then(|(slot, _)| {
            let mut slots = places.iter().map(|place| usize::from(place.slot));
            slots.position(|other| other == slot)
        });
        found.unwrap_or_else(|| self.partition_point(key))
    }

    /// How many entries stand before a key.
    pub(super) fn partition_point(&self, key: &[u8]) -> usize {
        let places = &self.places[..self.count];
        places.partition_point(|&place| self.block.key_at(place) < key)
    }

    /// Where the entry of a place ends.
    #[inline]
    pub(super) fn end(&self, place: Place) -> usize {
        if !self.unmoved || self.block.state.is_outside() {
            return self.block.entry_at(usize::from(place.offset)).1;
        }
        let next = usize::from(place.slot) + 1;
        match next < self.block.state.count() {
            true => self.block.offset(next),
            false => self.block.state.end(),
        }
    }

    /// The bytes of the entries of a range.
    pub(super) fn length(&self, range: Range<usize>) -> usize {
        let length = |&place| self.end(place) - usize::from(place.offset);
        self.places[range].iter().map(length).sum()
    }

    /// Calls `visit` for the bytes of the entries of a range, packed, and for their number.
    /// Neighbours in memory come together.
    #[inline]
    pub fn runs(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(&'g [u8], usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut places = self.places[range].iter().peekable();
        while let Some(&first) = places.next() {
            let start = usize::from(first.offset);
            let (mut last, mut count) = (first, 1);
            let mut end = usize::MAX;
            if self.unmoved {
                while let Some(&next) = places.next_if(|next| next.slot == last.slot + 1) {
                    (last, count) = (next, count + 1);
                }
                end = self.end(last);
            } else {
                while end == usize::MAX {
                    let behind = self.end(last);
                    match places.next_if(|next| usize::from(next.offset) == behind) {
                        Some(&next) => (last, count) = (next, count + 1),
                        None => end = behind,
                    }
                }
            }
            // SAFETY: entries stand there one behind the other, which `entry_at` may borrow.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.block.base.add(start), end - start) };
            visit(bytes, count)?;
        }
        ControlFlow::Continue(())
    }
}
