//! Byte strings packed one after the other: the form of small objects, and the chunks of lists.
//!
//! ```text
//!           start                                                              end
//!   │ room  │ length │ bytes │ back │ length │ bytes │ back │ ...               │ room │
//! ```
//!
//! `length` counts the bytes of the element. `back` counts length and bytes together and is read
//! from its end, so that the elements can be walked in both directions. With room at both ends,
//! pushes at either end need not move the elements.

use super::bytes::{
    lengthen, read_varint, read_varint_back, varint_bytes, write_varint, write_varint_back, zeroed,
};
use super::frozen::{FrozenReader, put_bytes, put_number};
use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// The size up to which a block that must grow grows by half. It is also the usual size of a chunk
/// of a list, which thus gets a block of exactly its size.
const BLOCK_BYTES: usize = 8 << 10;

/// The size below which a block is never exchanged for a smaller one.
const SHRINK_BYTES_MIN: usize = 256;

/// A sequence of byte strings in one block of memory, walked in both directions.
///
/// Pushing and removing at the ends takes amortized constant time, all other operations are linear
/// in the bytes held. The bytes must be fewer than 2^32.
pub struct PackedStrings<A: Allocator> {
    /// The bytes, initialized to the capacity; the elements are in `start..end`.
    block: Vec<u8, A>,
    start: u32,
    end: u32,
    len: u32,
    /// A byte in what would otherwise be padding.
    _one_value: OneValue,
}

/// A byte with one valid value. An enum that has a [`PackedStrings`] uses the other values to tell
/// its variants apart, so that it is no larger.
#[derive(Clone, Copy)]
#[repr(u8)]
enum OneValue {
    Zero = 0,
}

/// The position at which an element begins, or at which the last one ends, in bytes from the
/// beginning of the first element. A change of the sequence invalidates the positions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackedPosition(u32);

impl PackedPosition {
    /// The position of the first element.
    pub const FIRST: PackedPosition = PackedPosition(0);
}

/// Returns the bytes that an element of `length` bytes takes in a [`PackedStrings`].
#[inline]
pub fn packed_bytes(length: usize) -> usize {
    let head = varint_bytes(length) + length;
    head + varint_bytes(head)
}

impl<A: Allocator + Clone> PackedStrings<A> {
    /// Creates an empty sequence, which takes no memory yet.
    pub fn new_in(heap: A) -> Self {
        Self::with_capacity_in(0, heap)
    }

    /// Creates an empty sequence with room for elements that take `bytes`.
    pub fn with_capacity_in(bytes: usize, heap: A) -> Self {
        PackedStrings {
            block: zeroed(bytes, heap),
            start: 0,
            end: 0,
            len: 0,
            _one_value: OneValue::Zero,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes that the elements take, without the room.
    pub fn byte_len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the heap that the block is from.
    pub fn heap(&self) -> &A {
        self.block.allocator()
    }

    /// Returns the bytes taken from the heap.
    pub fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }

    /// Creates a copy that takes its memory from `heap`, only as much as the elements need.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> PackedStrings<B> {
        let mut copy = PackedStrings::with_capacity_in(self.byte_len(), heap);
        copy.block.copy_from_slice(self.elements());
        copy.end = self.end - self.start;
        copy.len = self.len;
        copy
    }

    /// Appends the elements as [`thaw`](PackedStrings::thaw) reads them: their number, and each
    /// after its length.
    pub fn freeze(&self, out: &mut std::vec::Vec<u8>) {
        put_number(out, self.len());
        self.iter().for_each(|element| put_bytes(out, element));
    }

    /// Reads frozen elements into exactly as much memory as they need.
    pub fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let count = source.count()?;
        // The lengths are added up first, so that the block never grows.
        let mut ahead = source.clone();
        let mut bytes: usize = 0;
        for _ in 0..count {
            bytes += packed_bytes(ahead.bytes()?.len());
        }
        // Positions have four bytes.
        u32::try_from(bytes).ok()?;
        let mut packed = PackedStrings::with_capacity_in(bytes, heap);
        for _ in 0..count {
            packed.push_back(source.bytes()?);
        }
        Some(packed)
    }

    fn elements(&self) -> &[u8] {
        &self.block[self.start as usize..self.end as usize]
    }

    /// Returns the position after the last element.
    pub fn end(&self) -> PackedPosition {
        PackedPosition(self.end - self.start)
    }

    /// Returns the element at `position`, which must not be the end.
    #[inline]
    pub fn at(&self, position: PackedPosition) -> &[u8] {
        read_element(self.elements(), position.0 as usize).0
    }

    /// Returns the position after that of an element.
    #[inline]
    pub fn next(&self, position: PackedPosition) -> PackedPosition {
        PackedPosition(read_element(self.elements(), position.0 as usize).1 as u32)
    }

    /// Returns the position of element `index`; the number of elements gives the end. Walks from
    /// the nearer end.
    pub fn position(&self, index: usize) -> PackedPosition {
        debug_assert!(index <= self.len());
        if index <= self.len() / 2 {
            return (0..index).fold(PackedPosition::FIRST, |position, _| self.next(position));
        }
        let mut at = self.byte_len();
        for _ in index..self.len() {
            at = before(self.elements(), at);
        }
        PackedPosition(at as u32)
    }

    /// Returns element `index`, or `None` if there are fewer.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.len()).then(|| self.at(self.position(index)))
    }

    /// Returns the first element.
    pub fn first(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.at(PackedPosition::FIRST))
    }

    /// Returns the last element.
    pub fn last(&self) -> Option<&[u8]> {
        self.iter().next_back()
    }

    /// Returns all elements, from either end.
    pub fn iter(&self) -> Elements<'_> {
        Elements {
            bytes: self.elements(),
            front: 0,
            back: self.byte_len(),
        }
    }

    /// Returns the elements from `position` on; backwards they come from the last one down to it.
    pub fn iter_from(&self, position: PackedPosition) -> Elements<'_> {
        Elements {
            front: position.0 as usize,
            ..self.iter()
        }
    }

    /// Returns the elements before `position`, from either end.
    pub fn iter_until(&self, position: PackedPosition) -> Elements<'_> {
        Elements {
            back: position.0 as usize,
            ..self.iter()
        }
    }

    /// Returns the elements in pairs, with the position of each first one. Their number must be
    /// even.
    pub fn pairs(&self) -> Pairs<'_> {
        Pairs(self.iter())
    }

    /// Returns the pairs `start..end`, from either end.
    pub fn pairs_between(&self, start: usize, end: usize) -> Pairs<'_> {
        Pairs(Elements {
            front: self.position(2 * start).0 as usize,
            back: self.position(2 * end).0 as usize,
            ..self.iter()
        })
    }

    /// Finds the pair that begins with `first`, and returns its position and its second element.
    pub fn find_pair(&self, first: &[u8]) -> Option<(PackedPosition, &[u8])> {
        let mut pairs = self.pairs();
        let (position, _, second) = pairs.find(|(_, other, _)| *other == first)?;
        Some((position, second))
    }

    /// Appends an element.
    pub fn push_back(&mut self, element: &[u8]) {
        let size = packed_bytes(element.len());
        self.reserve_back(size);
        let at = self.end as usize;
        self.end += size as u32;
        self.write(at, element, size);
    }

    /// Puts an element before all others.
    pub fn push_front(&mut self, element: &[u8]) {
        let size = packed_bytes(element.len());
        self.reserve_front(size);
        self.start -= size as u32;
        self.write(self.start as usize, element, size);
    }

    /// Inserts an element at `position`, before the element that is there.
    pub fn insert(&mut self, position: PackedPosition, element: &[u8]) {
        let size = packed_bytes(element.len());
        let at = self.open(position.0 as usize, size);
        self.write(at, element, size);
    }

    /// Replaces the element at `position`.
    pub fn replace(&mut self, position: PackedPosition, element: &[u8]) {
        let at = position.0 as usize;
        let old = read_element(self.elements(), at).1 - at;
        let size = packed_bytes(element.len());
        // The difference is made where the old element begins, because all of it is overwritten.
        if size > old {
            self.open(at, size - old);
        } else {
            self.close(at, old - size);
        }
        // `write` counts a further element.
        self.len -= 1;
        self.write(self.start as usize + at, element, size);
        self.shrink();
    }

    /// Removes `count` elements, the first of which is at `position`.
    pub fn remove(&mut self, position: PackedPosition, count: usize) {
        let end = if count == self.len() {
            self.end()
        } else {
            (0..count).fold(position, |position, _| self.next(position))
        };
        self.remove_between(position, end, count);
    }

    /// Keeps the first `count` elements.
    pub fn truncate(&mut self, count: usize) {
        if count < self.len() {
            let (position, removed) = (self.position(count), self.len() - count);
            self.remove_between(position, self.end(), removed);
        }
    }

    /// Removes the first `count` elements.
    pub fn remove_front(&mut self, count: usize) {
        let position = self.position(count);
        self.remove_between(PackedPosition::FIRST, position, count);
    }

    /// Removes all elements for which `keep`, which sees them in order, returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let end = self.end as usize;
        // One pass: an element moves at most once, however many are removed before it.
        let (mut read, mut write) = (self.start as usize, self.start as usize);
        while read < end {
            let (element, next) = read_element(&self.block[..end], read);
            if keep(element) {
                if read != write {
                    self.block.copy_within(read..next, write);
                }
                write += next - read;
            } else {
                self.len -= 1;
            }
            read = next;
        }
        self.end = write as u32;
        self.shrink();
    }

    /// Moves the elements from `index` on into a sequence of their own.
    pub fn split_off(&mut self, index: usize) -> Self {
        let at = self.position(index).0 as usize;
        let mut tail = PackedStrings::with_capacity_in(self.byte_len() - at, self.heap().clone());
        tail.block.copy_from_slice(&self.elements()[at..]);
        tail.end = (self.byte_len() - at) as u32;
        tail.len = self.len - index as u32;
        self.truncate(index);
        tail
    }

    /// Appends all elements of `other`.
    pub fn append(&mut self, other: &Self) {
        // Lengths and distances are relative, so that packed elements are copied as they are.
        let elements = other.elements();
        self.reserve_back(elements.len());
        let end = self.end as usize;
        self.block[end..end + elements.len()].copy_from_slice(elements);
        self.end += elements.len() as u32;
        self.len += other.len;
    }

    fn remove_between(&mut self, position: PackedPosition, end: PackedPosition, count: usize) {
        debug_assert!(position <= end && count <= self.len());
        self.close(position.0 as usize, (end.0 - position.0) as usize);
        self.len -= count as u32;
        self.shrink();
    }

    /// Writes an element of packed size `size` at `at` of the block, and counts it.
    #[inline]
    fn write(&mut self, at: usize, element: &[u8], size: usize) {
        debug_assert_eq!(size, packed_bytes(element.len()));
        let target = &mut self.block[at..at + size];
        let head = write_varint(element.len(), target);
        let body = head + element.len();
        target[head..body].copy_from_slice(element);
        write_varint_back(body, &mut target[body..]);
        self.len += 1;
    }

    /// Makes a gap of `size` bytes `at` bytes after the start of the first element, and returns its
    /// position in the block.
    fn open(&mut self, at: usize, size: usize) -> usize {
        // The shorter side moves if it has the room. A push at the front moves nothing.
        let front = at <= self.byte_len() / 2;
        if front && (self.start as usize >= size || at == 0) {
            self.reserve_front(size);
            let start = self.start as usize;
            self.block.copy_within(start..start + at, start - size);
            self.start -= size as u32;
        } else {
            self.reserve_back(size);
            let (start, end) = (self.start as usize, self.end as usize);
            self.block.copy_within(start + at..end, start + at + size);
            self.end += size as u32;
        }
        self.start as usize + at
    }

    /// Removes `size` bytes, `at` bytes after the start of the first element, by moving the shorter
    /// side.
    fn close(&mut self, at: usize, size: usize) {
        let (start, end) = (self.start as usize, self.end as usize);
        let from = start + at;
        if at < end - from - size {
            self.block.copy_within(start..from, start + size);
            self.start += size as u32;
        } else {
            self.block.copy_within(from + size..end, from);
            self.end -= size as u32;
        }
        // Like a new sequence, an empty one has all its room at the end.
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    #[inline]
    fn reserve_back(&mut self, size: usize) {
        if self.block.len() - (self.end as usize) < size {
            self.make_room(size, false);
        }
    }

    #[inline]
    fn reserve_front(&mut self, size: usize) {
        if (self.start as usize) < size {
            self.make_room(size, true);
        }
    }

    /// Makes room for `size` bytes at one end: takes it from the other end if that has plenty.
    /// Otherwise the block grows, mostly at the end that needs room.
    #[cold]
    fn make_room(&mut self, size: usize, front: bool) {
        let (live, old) = (self.byte_len(), self.block.len());
        let grown = grown(old, live + size);
        let start = if grown <= old || old - live >= size + live / 2 {
            // Half of the rest is moved over. The move is paid for by the pushes that fill this
            // half, also when they alternate between the ends.
            let rest = old - live - size;
            if front { size + rest / 2 } else { rest / 2 }
        } else {
            lengthen(&mut self.block, grown);
            let half = (grown - live - size) / 2;
            let (before, behind) = (self.start as usize, old - self.end as usize);
            if front {
                grown - live - behind.min(half)
            } else {
                before.min(half)
            }
        };
        self.block
            .copy_within(self.start as usize..self.end as usize, start);
        self.start = start as u32;
        self.end = (start + live) as u32;
    }

    /// Exchanges a block that is mostly room for a smaller one.
    fn shrink(&mut self) {
        let live = self.byte_len();
        // A small block saves less than the allocation costs.
        if self.block.len() < SHRINK_BYTES_MIN || live * 4 >= self.block.len() {
            return;
        }
        let start = self.start as usize;
        self.block.copy_within(start..start + live, 0);
        // As much room again, so that the next push does not grow the block.
        self.block.truncate(2 * live);
        self.block.shrink_to_fit();
        (self.start, self.end) = (0, live as u32);
    }

    /// Panics unless the elements match the layout. For tests.
    pub fn check_invariants(&self) {
        assert_eq!(self.block.len(), self.block.capacity());
        assert!(self.start <= self.end && self.end as usize <= self.block.len());
        assert_eq!(self.iter().count(), self.len());
        assert_eq!(self.iter().rev().count(), self.len());
        let bytes: usize = self.iter().map(|element| packed_bytes(element.len())).sum();
        assert_eq!(bytes, self.byte_len());
    }
}

/// Returns the new size of a block of `old` bytes that must hold `need`.
fn grown(old: usize, need: usize) -> usize {
    // A new block often keeps its first size.
    if old == 0 {
        need
    } else if need <= BLOCK_BYTES {
        (need + need / 2).clamp(32, BLOCK_BYTES)
    } else {
        need + need / 8
    }
}

/// Returns the element that begins at `at`, and the position of the next one.
#[inline]
fn read_element(bytes: &[u8], at: usize) -> (&[u8], usize) {
    let (length, body) = read_varint(bytes, at);
    let end = body + length;
    (&bytes[body..end], end + varint_bytes(end - at))
}

/// Returns the beginning of the element that ends at `end`.
#[inline]
fn before(bytes: &[u8], end: usize) -> usize {
    let head = read_varint_back(bytes, end);
    end - varint_bytes(head) - head
}

/// Elements of a [`PackedStrings`], from either end.
#[derive(Clone, Default)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
}

impl Elements<'_> {
    /// Returns the position of the element that `next` would return.
    pub fn position(&self) -> PackedPosition {
        PackedPosition(self.front as u32)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.front >= self.back {
            return None;
        }
        let (element, next) = read_element(self.bytes, self.front);
        self.front = next;
        Some(element)
    }
}

impl DoubleEndedIterator for Elements<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        self.back = before(self.bytes, self.back);
        Some(read_element(self.bytes, self.back).0)
    }
}

/// Elements of a [`PackedStrings`] in pairs, with the position of the first of each.
#[derive(Clone)]
pub struct Pairs<'a>(Elements<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (PackedPosition, &'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let position = self.0.position();
        Some((position, self.0.next()?, self.0.next()?))
    }
}

impl DoubleEndedIterator for Pairs<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let second = self.0.next_back()?;
        let first = self.0.next_back()?;
        Some((PackedPosition(self.0.back as u32), first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::testing::{bytes, for_each_seed};
    use nearfield_tiers::AccountedHeap;
    use rand::RngExt;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_deque() {
        for_each_seed(60, |random| {
            let heap = AccountedHeap::new();
            let mut packed = PackedStrings::new_in(heap.clone());
            let mut model = VecDeque::new();
            let length_max = [3, 40, 300, 20_000][random.random_range(0..4)];
            let pushes = random.random_range(1..10);
            for _ in 0..400 {
                let element = bytes(random, length_max);
                let index = random.random_range(0..=model.len());
                match random.random_range(0..pushes + 5) {
                    0 if index < model.len() => {
                        let count = random.random_range(1..=model.len() - index);
                        packed.remove(packed.position(index), count);
                        model.drain(index..index + count);
                    }
                    1 if index < model.len() => {
                        packed.replace(packed.position(index), &element);
                        model[index] = element;
                    }
                    2 => {
                        packed.insert(packed.position(index), &element);
                        model.insert(index, element);
                    }
                    3 if !model.is_empty() => {
                        packed.truncate(model.len() - 1);
                        model.pop_back();
                    }
                    4 if !model.is_empty() => {
                        packed.remove_front(1);
                        model.pop_front();
                    }
                    5 => {
                        packed.retain(|element| element.len() % 8 != 3);
                        model.retain(|element| element.len() % 8 != 3);
                    }
                    6 => {
                        let tail = packed.split_off(index);
                        assert!(tail.iter().eq(model.iter().skip(index)));
                        packed.append(&tail);
                    }
                    even if even % 2 == 0 => {
                        packed.push_front(&element);
                        model.push_front(element);
                    }
                    _ => {
                        packed.push_back(&element);
                        model.push_back(element);
                    }
                }
                packed.check_invariants();
                assert!(packed.iter().eq(model.iter()));
                assert!(packed.iter().rev().eq(model.iter().rev()));
                let index = random.random_range(0..=model.len());
                assert_eq!(packed.get(index), model.get(index).map(|v| &v[..]));
                assert_eq!(packed.memory_bytes(), heap.used_bytes());
            }
            let copy = packed.rebuild_in(heap.clone());
            copy.check_invariants();
            assert!(copy.iter().eq(model.iter()));
            drop((packed, copy));
            assert_eq!(heap.used_bytes(), 0);
        });
    }

    #[test]
    fn pushes_at_alternating_ends_move_little() {
        let mut packed = PackedStrings::new_in(AccountedHeap::new());
        for _ in 0..50_000 {
            packed.push_front(b"front");
            packed.push_back(b"back");
        }
        assert_eq!(packed.len(), 100_000);
        assert!(packed.memory_bytes() < 2 * packed.byte_len());
    }
}
