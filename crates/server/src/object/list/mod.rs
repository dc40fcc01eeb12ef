//! Lists: sequences of byte strings that grow and shrink at both ends.
//!
//! The elements are packed in chunks, so that most of them need no pointer of their own, and a
//! change in the middle moves no more than one chunk. Chunks may be in cold tiers (`nodes.rs`).

mod chunk;
mod nodes;
pub(super) mod ring;
#[cfg(test)]
mod tests;

use super::frozen::{FrozenReader, put_number};
use super::packed::{Elements, PackedStrings, packed_bytes};
use super::{ChunkLimit, ObjectLimits};
use allocator_api2::alloc::Allocator;
use chunk::ListChunk;
use nearfield_tiers::AccountedHeap;
use ring::SlotRing;

/// A sequence of byte strings.
///
/// Pushing and popping take amortized constant time. Finding an index takes a walk over the chunks
/// from the nearer end, and over the elements of one chunk.
pub struct ListObject<A: Allocator = AccountedHeap> {
    /// The chunks, none of which is empty.
    chunks: SlotRing<ListChunk<A>, A>,
    len: usize,
}

/// Returns true if an element may be added to a chunk. An element that is larger than a chunk gets
/// its own.
fn has_room<A: Allocator + Clone>(chunk: &ListChunk<A>, limit: ChunkLimit, element: &[u8]) -> bool {
    chunk.len() < limit.entries_max
        && chunk.byte_len() + packed_bytes(element.len()) <= limit.bytes_max
}

impl<A: Allocator + Clone> ListObject<A> {
    /// Creates an empty list, which takes no memory yet.
    pub fn new_in(heap: A) -> Self {
        ListObject {
            chunks: SlotRing::new_in(heap),
            len: 0,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the name of the form: `listpack` for a single chunk within the limits, else
    /// `quicklist`.
    pub fn encoding(&self, limits: &ObjectLimits) -> &'static str {
        let limit = limits.list_chunk;
        let fits = |chunk: &ListChunk<A>| {
            chunk.byte_len() <= limit.bytes_max && chunk.len() <= limit.entries_max
        };
        if self.chunks.len() <= 1 && self.chunks.iter().all(fits) {
            "listpack"
        } else {
            "quicklist"
        }
    }

    /// Returns the bytes taken from the heap. Linear in the chunks.
    pub fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(ListChunk::memory_bytes).sum();
        self.chunks.memory_bytes() + chunks
    }

    /// Creates a copy that takes its memory from `heap`.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> ListObject<B> {
        let mut copy = ListObject::new_in(heap.clone());
        for chunk in self.chunks.iter() {
            let elements = chunk.elements().rebuild_in(heap.clone());
            copy.chunks.push_back(ListChunk::new(elements));
        }
        copy.len = self.len;
        copy
    }

    /// Appends the list as [`thaw`](ListObject::thaw) reads it: its chunks after their number.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        put_number(out, self.chunks.len());
        for chunk in self.chunks.iter() {
            chunk.elements().freeze(out);
        }
    }

    /// Reads a frozen list.
    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let mut list = ListObject::new_in(heap.clone());
        for _ in 0..source.count()? {
            let chunk = PackedStrings::thaw(source, heap.clone())?;
            if chunk.is_empty() {
                return None;
            }
            list.len += chunk.len();
            list.chunks.push_back(ListChunk::new(chunk));
        }
        Some(list)
    }

    /// Creates a chunk for one element.
    fn begin_chunk(&self, limit: ChunkLimit, element: &[u8]) -> PackedStrings<A> {
        // The first chunk grows as needed. A list that has several will probably fill the next one,
        // too.
        let is_full_soon = self.chunks.len() > 0 && limit.entries_max == usize::MAX;
        let bytes = if is_full_soon { limit.bytes_max } else { 0 };
        let bytes = bytes.max(packed_bytes(element.len()));
        PackedStrings::with_capacity_in(bytes, self.chunks.heap().clone())
    }

    /// Appends an element.
    pub fn push_back(&mut self, limits: &ObjectLimits, element: &[u8]) {
        let limit = limits.list_chunk;
        self.len += 1;
        if let Some(chunk) = self.chunks.last_mut()
            && has_room(chunk, limit, element)
        {
            chunk.change().push_back(element);
            return;
        }
        let mut chunk = self.begin_chunk(limit, element);
        chunk.push_back(element);
        self.chunks.push_back(ListChunk::new(chunk));
    }

    /// Puts an element before all others.
    pub fn push_front(&mut self, limits: &ObjectLimits, element: &[u8]) {
        let limit = limits.list_chunk;
        self.len += 1;
        if let Some(chunk) = self.chunks.get_mut(0)
            && has_room(chunk, limit, element)
        {
            chunk.change().push_front(element);
            return;
        }
        let mut chunk = self.begin_chunk(limit, element);
        chunk.push_front(element);
        self.chunks.push_front(ListChunk::new(chunk));
    }

    /// Returns the first element.
    pub fn first(&self) -> Option<&[u8]> {
        self.chunks.get(0)?.elements().first()
    }

    /// Returns the last element.
    pub fn last(&self) -> Option<&[u8]> {
        let last = self.chunks.len().checked_sub(1)?;
        self.chunks.get(last)?.elements().last()
    }

    /// Removes the first element and returns it.
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        let element = self.first()?.to_vec();
        self.remove_front(1);
        Some(element)
    }

    /// Removes the last element and returns it.
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        let element = self.last()?.to_vec();
        self.remove_back(1);
        Some(element)
    }

    /// Removes the first `count` elements, or all if there are fewer.
    pub fn remove_front(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while let Some(chunk) = self.chunks.get_mut(0)
            && left > 0
        {
            if chunk.len() > left {
                chunk.change().remove_front(left);
                return;
            }
            left -= chunk.len();
            self.chunks.pop_front();
        }
        debug_assert_eq!(left, 0, "the chunks have fewer elements than the list");
    }

    /// Removes the last `count` elements, or all if there are fewer.
    pub fn remove_back(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while let Some(chunk) = self.chunks.last_mut()
            && left > 0
        {
            if chunk.len() > left {
                let kept = chunk.len() - left;
                chunk.change().truncate(kept);
                return;
            }
            left -= chunk.len();
            self.chunks.pop_back();
        }
        debug_assert_eq!(left, 0, "the chunks have fewer elements than the list");
    }

    /// Keeps the elements `start..end`.
    pub fn trim(&mut self, start: usize, end: usize) {
        let end = end.min(self.len);
        if start >= end {
            return self.remove_front(self.len);
        }
        // The back first, because the indexes count from the front.
        self.remove_back(self.len - end);
        self.remove_front(start);
    }

    /// Returns the chunk that element `index` is in, and the index within it. Walks from the nearer
    /// end.
    fn find_chunk(&self, index: usize) -> (usize, usize) {
        debug_assert!(index < self.len);
        let lens = |number| self.chunks.get(number).map_or(0, ListChunk::len);
        if index < self.len / 2 {
            let (mut number, mut left) = (0, index);
            while left >= lens(number) {
                left -= lens(number);
                number += 1;
            }
            return (number, left);
        }
        let (mut number, mut begin) = (self.chunks.len(), self.len);
        while index < begin {
            number -= 1;
            begin -= lens(number);
        }
        (number, index - begin)
    }

    fn chunk_mut(&mut self, number: usize) -> &mut ListChunk<A> {
        match self.chunks.get_mut(number) {
            Some(chunk) => chunk,
            None => unreachable!("only found chunks are requested"),
        }
    }

    /// Returns element `index`, or `None` if there are fewer.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.len {
            return None;
        }
        let (number, index) = self.find_chunk(index);
        self.chunks.get(number)?.elements().get(index)
    }

    /// Replaces element `index`. Returns true if it exists.
    pub fn set(&mut self, limits: &ObjectLimits, index: usize, element: &[u8]) -> bool {
        if index >= self.len {
            return false;
        }
        let (number, within) = self.find_chunk(index);
        let chunk = self.chunk_mut(number).change();
        let position = chunk.position(within);
        let old = packed_bytes(chunk.at(position).len());
        let bytes = chunk.byte_len() - old + packed_bytes(element.len());
        // An element that would make the chunk too large goes where an insertion puts it. A chunk
        // of one element may have any size.
        if bytes <= limits.list_chunk.bytes_max || chunk.len() == 1 {
            chunk.replace(position, element);
        } else {
            chunk.remove(position, 1);
            self.len -= 1;
            self.insert(limits, index, element);
        }
        true
    }

    /// Inserts an element before that at `index`, or at the end if `index` is the number of
    /// elements.
    pub fn insert(&mut self, limits: &ObjectLimits, index: usize, element: &[u8]) {
        if index == 0 {
            return self.push_front(limits, element);
        }
        if index >= self.len {
            return self.push_back(limits, element);
        }
        let limit = limits.list_chunk;
        let (number, within) = self.find_chunk(index);
        self.len += 1;
        let chunk = self.chunk_mut(number);
        if has_room(chunk, limit, element) {
            let chunk = chunk.change();
            chunk.insert(chunk.position(within), element);
            return;
        }
        // The full chunk is split, so that the new element comes between two chunks.
        let mut number = number;
        if within > 0 {
            let tail = ListChunk::new(chunk.change().split_off(within));
            number += 1;
            self.chunks.insert(number, tail);
        }
        // A neighbour with room takes the element, so that fewer small chunks arise.
        let before = number.wrapping_sub(1);
        if let Some(chunk) = self.chunks.get_mut(before)
            && has_room(chunk, limit, element)
        {
            chunk.change().push_back(element);
        } else if let Some(chunk) = self.chunks.get_mut(number)
            && has_room(chunk, limit, element)
        {
            chunk.change().push_front(element);
        } else {
            let mut chunk = PackedStrings::new_in(self.chunks.heap().clone());
            chunk.push_back(element);
            self.chunks.insert(number, ListChunk::new(chunk));
        }
    }

    /// Returns the index of the first element that equals another.
    fn index_of(&self, element: &[u8]) -> Option<usize> {
        let mut before = 0;
        for chunk in self.chunks.iter() {
            // A chunk that is still cold has no such element: `ObjectPart::First` has brought the
            // one that has it into memory.
            let mut elements = chunk.here().into_iter().flat_map(PackedStrings::iter);
            if let Some(index) = elements.position(|other| other == element) {
                return Some(before + index);
            }
            before += chunk.len();
        }
        None
    }

    /// Inserts an element before the first one that equals `pivot`. Returns true if there is one.
    pub fn insert_before(&mut self, limits: &ObjectLimits, pivot: &[u8], element: &[u8]) -> bool {
        let index = self.index_of(pivot);
        index.is_some_and(|index| {
            self.insert(limits, index, element);
            true
        })
    }

    /// Inserts an element after the first one that equals `pivot`. Returns true if there is one.
    pub fn insert_after(&mut self, limits: &ObjectLimits, pivot: &[u8], element: &[u8]) -> bool {
        let index = self.index_of(pivot);
        index.is_some_and(|index| {
            self.insert(limits, index + 1, element);
            true
        })
    }

    /// Removes elements that equal `element`, and returns their number: the first `count`, the last
    /// `-count` if it is negative, or all if it is 0. Linear.
    pub fn remove(&mut self, limits: &ObjectLimits, count: i64, element: &[u8]) -> usize {
        let mut left = match count {
            0 => usize::MAX,
            // `i64::MIN` has no negative.
            _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
        };
        let mut removed = 0;
        for step in 0..self.chunks.len() {
            let from_back = count < 0;
            let number = if from_back {
                self.chunks.len() - 1 - step
            } else {
                step
            };
            let chunk = self.chunk_mut(number);
            // `ObjectPart::Each` has brought all chunks that have such elements into memory.
            let found = chunk.here().into_iter().flat_map(PackedStrings::iter);
            let found = found.filter(|other| *other == element).count();
            let here = found.min(left);
            if here == 0 {
                continue;
            }
            // Counted from the front, the first `skipped` matches stay, the next `here` are
            // removed.
            let skipped = if from_back { found - here } else { 0 };
            let mut seen = 0;
            chunk.change().retain(|other| {
                let is_match = other == element;
                seen += usize::from(is_match);
                !(is_match && seen > skipped && seen <= skipped + here)
            });
            left -= here;
            removed += here;
            if left == 0 {
                break;
            }
        }
        self.len -= removed;
        if removed > 0 {
            self.merge_chunks(limits.list_chunk);
        }
        removed
    }

    /// Drops empty chunks and merges neighbours that together fill less than a chunk, if both are
    /// in memory.
    fn merge_chunks(&mut self, limit: ChunkLimit) {
        let mut kept = 0;
        // Each chunk is taken from the front and put back at the end, so that none moves twice.
        for _ in 0..self.chunks.len() {
            let Some(chunk) = self.chunks.pop_front() else {
                return;
            };
            if chunk.len() == 0 {
                continue;
            }
            if kept > 0
                && let Some(last) = self.chunks.last_mut()
                && !last.is_cold()
                && !chunk.is_cold()
                && last.byte_len() + chunk.byte_len() <= limit.bytes_max
                && last.len() + chunk.len() <= limit.entries_max
            {
                last.change().append(chunk.elements());
                continue;
            }
            self.chunks.push_back(chunk);
            kept += 1;
        }
    }

    /// Returns all elements in order.
    pub fn iter(&self) -> Iter<'_, A> {
        self.iter_from(0)
    }

    /// Returns the elements from `index` on, in order.
    pub fn iter_from(&self, index: usize) -> Iter<'_, A> {
        self.walk(index, false)
    }

    /// Returns the elements from `index` down to the first one.
    pub fn iter_back_from(&self, index: usize) -> Iter<'_, A> {
        self.walk(index, true)
    }

    fn walk(&self, index: usize, reverse: bool) -> Iter<'_, A> {
        let mut iter = Iter {
            chunks: &self.chunks,
            // The last chunk in this direction, after which there is none.
            number: if reverse { 0 } else { self.chunks.len() },
            elements: Elements::default(),
            reverse,
        };
        if index < self.len {
            let (number, within) = self.find_chunk(index);
            iter.number = number;
            if let Some(chunk) = self.chunks.get(number).map(ListChunk::elements) {
                iter.elements = if reverse {
                    chunk.iter_until(chunk.position(within + 1))
                } else {
                    chunk.iter_from(chunk.position(within))
                };
            }
        }
        iter
    }

    /// Panics unless the chunks are consistent. For tests.
    pub fn check_invariants(&self) {
        for chunk in self.chunks.iter() {
            chunk
                .here()
                .into_iter()
                .for_each(PackedStrings::check_invariants);
            assert!(chunk.len() > 0);
        }
        let len: usize = self.chunks.iter().map(ListChunk::len).sum();
        assert_eq!(len, self.len);
    }
}

/// Elements of a [`ListObject`] in one of the two directions.
pub struct Iter<'a, A: Allocator> {
    chunks: &'a SlotRing<ListChunk<A>, A>,
    number: usize,
    elements: Elements<'a>,
    reverse: bool,
}

impl<'a, A: Allocator + Clone> Iterator for Iter<'a, A> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let element = if self.reverse {
                self.elements.next_back()
            } else {
                self.elements.next()
            };
            if element.is_some() {
                return element;
            }
            // To add the largest number is to subtract one.
            let step = if self.reverse { usize::MAX } else { 1 };
            let number = self.number.wrapping_add(step);
            self.elements = self.chunks.get(number)?.elements().iter();
            self.number = number;
        }
    }
}
