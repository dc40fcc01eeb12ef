//! The allocated parts of a node's memory. The node keeps this list outside the memory that clients
//! write.

use crate::address::{LINE_BYTES, OFFSETS, RESERVED_BYTES};
use std::collections::BTreeMap;

/// The allocated and the free parts of a memory, in lines. Adjacent free parts are merged, so that
/// divided memory can be allocated as a whole again. First fit; linear in the number of free parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The lengths of free parts by offset.
    free: BTreeMap<u64, u64>,
    allocated: BTreeMap<u64, u64>,
    /// The sum of the lengths of allocated parts.
    allocated_bytes: u64,
}

impl Chunks {
    /// Creates a memory of `size` bytes of which the first `reserved` are never allocated.
    ///
    /// ```
    /// let mut chunks = nearfield_fabric::Chunks::new(1 << 20, 64);
    /// let chunk = chunks.allocate(1000).unwrap();
    /// assert_eq!(chunk, 64);
    /// assert!(chunks.free(chunk, 1000));
    /// assert_eq!(chunks.allocated_bytes(), 0);
    /// ```
    pub fn new(size: u64, reserved: u64) -> Chunks {
        let start = reserved.next_multiple_of(LINE_BYTES);
        let end = size / LINE_BYTES * LINE_BYTES;
        Chunks {
            free: (start < end)
                .then(|| (start, end - start))
                .into_iter()
                .collect(),
            allocated: BTreeMap::new(),
            allocated_bytes: 0,
        }
    }

    /// Returns true if a node with `size` bytes of memory may have allocated `bytes` at `offset`: a
    /// line behind the reserved bytes, with all bytes in its memory.
    pub fn may_hold(size: u64, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes.max(1));
        offset >= RESERVED_BYTES
            && offset.is_multiple_of(LINE_BYTES)
            && end.is_some_and(|end| end <= size.min(OFFSETS))
    }

    /// Allocates `bytes` and returns their offset, or `None` if no free part is large enough. 0
    /// bytes take a line.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes.max(1).checked_next_multiple_of(LINE_BYTES)?;
        let (&offset, &room) = self.free.iter().find(|(_, room)| **room >= length)?;
        self.free.remove(&offset);
        if room > length {
            self.free.insert(offset + length, room - length);
        }
        let former = self.allocated.insert(offset, length);
        debug_assert!(former.is_none(), "free memory is not allocated");
        self.allocated_bytes += length;
        Some(offset)
    }

    /// Allocates `bytes` at an offset. Returns false if not all of them are free, or if they begin
    /// within a line. 0 bytes take a line.
    ///
    /// ```
    /// let mut chunks = nearfield_fabric::Chunks::new(1 << 20, 64);
    /// assert!(chunks.allocate_at(4096, 1000));
    /// assert!(!chunks.allocate_at(4096 + 64, 1));
    /// ```
    pub fn allocate_at(&mut self, offset: u64, bytes: u64) -> bool {
        let Some(length) = bytes.max(1).checked_next_multiple_of(LINE_BYTES) else {
            return false;
        };
        let free = self.free.range(..=offset).next_back();
        let (Some((&start, &room)), Some(end)) = (free, offset.checked_add(length)) else {
            return false;
        };
        let room_end = start + room;
        if !offset.is_multiple_of(LINE_BYTES) || end > room_end {
            return false;
        }
        // The parts before and behind stay free.
        self.free.remove(&start);
        if start < offset {
            self.free.insert(start, offset - start);
        }
        if end < room_end {
            self.free.insert(end, room_end - end);
        }
        let former = self.allocated.insert(offset, length);
        debug_assert!(former.is_none(), "free memory is not allocated");
        self.allocated_bytes += length;
        true
    }

    /// Frees whole lines of one allocation. Returns false if the bytes do not belong to one
    /// allocation, or begin within a line.
    pub fn free(&mut self, offset: u64, bytes: u64) -> bool {
        let Some(length) = bytes.max(1).checked_next_multiple_of(LINE_BYTES) else {
            return false;
        };
        let allocated = self.allocated.range(..=offset).next_back();
        let Some((&first, &whole)) = allocated else {
            return false;
        };
        // Clients may free parts, and may be wrong, so that only what one allocation holds is
        // freed.
        let (end, whole_end) = (offset.saturating_add(length), first + whole);
        if !offset.is_multiple_of(LINE_BYTES) || end > whole_end {
            return false;
        }
        // The parts before and behind stay allocated.
        self.allocated.remove(&first);
        if first < offset {
            self.allocated.insert(first, offset - first);
        }
        if end < whole_end {
            self.allocated.insert(end, whole_end - end);
        }
        self.allocated_bytes -= length;
        self.join(offset, length);
        true
    }

    /// Adds a free part and merges it with its neighbours.
    fn join(&mut self, mut start: u64, mut length: u64) {
        debug_assert!(length > 0 && start.is_multiple_of(LINE_BYTES));
        debug_assert!(!self.free.contains_key(&start), "memory is freed once");
        if let Some(after) = self.free.remove(&(start + length)) {
            length += after;
        }
        if let Some((&before, &room)) = self.free.range(..start).next_back()
            && before + room == start
        {
            self.free.remove(&before);
            start = before;
            length += room;
        }
        self.free.insert(start, length);
    }

    /// Returns the first line from `offset` on that is allocated, or that is not; for the latter
    /// the end of the last allocation if there is none. The reserved bytes are neither.
    ///
    /// ```
    /// let mut chunks = nearfield_fabric::Chunks::new(1 << 20, 4096);
    /// assert!(chunks.allocate_at(8192, 128));
    /// assert_eq!(chunks.find(4096, true), Some(8192));
    /// assert_eq!(chunks.find(8192, false), Some(8320));
    /// assert_eq!(chunks.find(8320, true), None);
    /// ```
    pub fn find(&self, offset: u64, is_allocated: bool) -> Option<u64> {
        let parts = match is_allocated {
            true => &self.allocated,
            false => &self.free,
        };
        let before = parts.range(..=offset).next_back();
        if before.is_some_and(|(start, length)| start + length > offset) {
            return Some(offset / LINE_BYTES * LINE_BYTES);
        }
        let behind = parts.range(offset..).next().map(|(&start, _)| start);
        behind.or_else(|| (!is_allocated).then(|| self.end()))
    }

    /// Returns the end of the last allocation.
    pub fn end(&self) -> u64 {
        let last = self.allocated.last_key_value();
        last.map_or(0, |(offset, length)| offset + length)
    }

    /// Returns the number of allocated bytes, in whole lines.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn parts_never_overlap_and_all_comes_back() {
        for seed in 0..50 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let mut chunks = Chunks::new(1 << 16, 100);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for _ in 0..500 {
                if random.random_bool(0.6) {
                    let bytes = random.random_range(0..3000);
                    let Some(offset) = chunks.allocate(bytes) else {
                        continue;
                    };
                    assert!(offset >= 128 && offset.is_multiple_of(LINE_BYTES));
                    let end = offset + bytes.max(1);
                    assert!(end <= 1 << 16);
                    let apart = |&(other, bytes): &(u64, u64)| {
                        end <= other || other + bytes.max(1) <= offset
                    };
                    assert!(held.iter().all(apart), "seed {seed}");
                    held.push((offset, bytes));
                    let sum: u64 = chunks.allocated.values().sum();
                    assert_eq!(chunks.allocated_bytes(), sum);
                } else if !held.is_empty() {
                    let (offset, bytes) = held.swap_remove(random.random_range(0..held.len()));
                    assert!(chunks.free(offset, bytes));
                    assert!(!chunks.free(offset, bytes), "seed {seed}");
                }
            }
            for (offset, bytes) in held {
                assert!(chunks.free(offset, bytes));
            }
            assert_eq!(chunks.allocated_bytes(), 0);
            let all = (1 << 16) - 128;
            assert_eq!(chunks.allocate(all), Some(128), "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_allocated_is_not_freed() {
        let mut chunks = Chunks::new(4096, 64);
        let offset = chunks.allocate(200).unwrap();
        assert!(!chunks.free(offset, 300) && !chunks.free(offset + 64, 200));
        assert!(!chunks.free(offset, u64::MAX) && !chunks.free(0, 64));
        assert!(!chunks.free(offset + 8, 8));
        assert_eq!(chunks.allocate(u64::MAX), None);
        assert_eq!(chunks.allocated_bytes(), 256);
    }

    #[test]
    fn a_copy_of_the_list_follows_the_choices_of_the_first() {
        for seed in 0..50 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let mut first = Chunks::new(1 << 16, 100);
            let mut copy = first.clone();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for _ in 0..300 {
                if random.random_bool(0.6) {
                    let bytes = random.random_range(0..3000);
                    if let Some(offset) = first.allocate(bytes) {
                        held.push((offset, bytes));
                    }
                } else if !held.is_empty() {
                    let (offset, bytes) = held.swap_remove(random.random_range(0..held.len()));
                    assert!(first.free(offset, bytes));
                }
            }
            // In any order: the copy makes no choices of its own.
            for &(offset, bytes) in held.iter().rev() {
                assert!(copy.allocate_at(offset, bytes), "seed {seed}");
                assert!(!copy.allocate_at(offset, bytes), "seed {seed}");
            }
            assert_eq!(copy, first, "seed {seed}");
        }
    }

    #[test]
    fn places_that_are_not_free_are_refused() {
        let mut chunks = Chunks::new(4096, 64);
        assert!(!chunks.allocate_at(0, 1) && !chunks.allocate_at(68, 1));
        assert!(!chunks.allocate_at(4032, 65) && !chunks.allocate_at(64, u64::MAX));
        assert!(!chunks.allocate_at(u64::MAX - 63, 64) && !chunks.allocate_at(1 << 20, 64));
        assert!(chunks.allocate_at(128, 128));
        assert!(!chunks.allocate_at(64, 128) && !chunks.allocate_at(192, 64));
        assert_eq!(chunks.allocated_bytes(), 128);
    }

    #[test]
    fn runs_of_allocated_lines_are_found() {
        for seed in 0..50 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let mut chunks = Chunks::new(1 << 14, 4096);
            let mut is_held = [false; 256];
            for _ in 0..40 {
                let line = random.random_range(64..256_usize);
                let is_free = !is_held[line];
                assert_eq!(chunks.allocate_at(line as u64 * 64, 64), is_free);
                is_held[line] = true;
            }
            let mut found = [false; 256];
            let mut at = 4096;
            while let Some(start) = chunks.find(at, true) {
                let end = chunks.find(start, false).expect("an end");
                assert!(start < end && end <= 1 << 14, "seed {seed}");
                found[start as usize / 64..end as usize / 64].fill(true);
                at = end;
            }
            assert_eq!(found, is_held, "seed {seed}");
        }
        let mut full = Chunks::new(1 << 14, 4096);
        assert_eq!(full.allocate(12288), Some(4096));
        assert_eq!(full.find(5000, true), Some(4992));
        assert_eq!(full.find(5000, false), Some(1 << 14));
    }

    #[test]
    fn offsets_that_no_node_gives_are_refused() {
        let size = 1 << 20;
        let is_held = |offset, bytes| Chunks::may_hold(size, offset, bytes);
        assert!(is_held(RESERVED_BYTES, 1) && is_held(size - 64, 64) && is_held(size - 64, 0));
        assert!(!is_held(0, 64) && !is_held(RESERVED_BYTES - 64, 64));
        assert!(!is_held(RESERVED_BYTES + 8, 64));
        assert!(!is_held(size - 64, 65) && !is_held(size, 0));
        assert!(!is_held(RESERVED_BYTES, u64::MAX));
        assert!(!Chunks::may_hold(u64::MAX, OFFSETS, 64));
    }

    #[test]
    fn parts_are_given_back_one_by_one() {
        let mut chunks = Chunks::new(1 << 12, 0);
        assert_eq!(chunks.allocate(1 << 12), Some(0));
        let mut lines: Vec<u64> = (0..64).collect();
        lines.sort_by_key(|line| line * 37 % 64);
        for (freed, line) in lines.into_iter().enumerate() {
            assert_eq!(chunks.allocated_bytes(), (64 - freed as u64) * 64);
            assert!(chunks.free(line * 64, 64));
            assert!(!chunks.free(line * 64, 64));
        }
        assert_eq!(chunks.allocate(1 << 12), Some(0));
    }
}
