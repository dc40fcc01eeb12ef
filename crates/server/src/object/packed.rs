//! Byte strings packed one behind the other: the form of small objects, and the chunks of lists.
//!
//! ```text
//!           start                                                              end
//!   │ room  │ length │ bytes │ back │ length │ bytes │ back │ ...               │ room │
//! ```
//!
//! `length` counts the bytes of the element. `back` counts length and bytes together and is read
//! from its end, so that the elements can be walked in both directions. Room at both ends lets
//! pushes at either end move nothing.

use super::bytes::{
    lengthen, read_varint, read_varint_back, varint_bytes, write_varint, write_varint_back, zeroed,
};
use super::frozen::{Source, put_bytes, put_number};
use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// Up to this size a block that has to grow grows by half; it is also the usual size of a chunk of
/// a list, which thus gets a block of just its size.
const BLOCK_BYTES: usize = 8 << 10;

/// A block smaller than this is never exchanged for a smaller one.
const SHRINK_BYTES_MIN: usize = 256;

/// A sequence of byte strings in one block of memory, walked in both directions.
///
/// Pushing and removing at the ends takes amortized constant time, all else is linear in the bytes
/// held. The bytes must be fewer than 2^32.
pub struct Packed<A: Allocator> {
    /// Initialized to its capacity; the elements lie in `start..end`.
    block: Vec<u8, A>,
    start: u32,
    end: u32,
    len: u32,
    /// Lies in what would be padding.
    _one_value: OneValue,
}

/// A byte of one value. By the others an enum that has a [`Packed`] tells its variants apart, so
/// that it is no larger.
#[derive(Clone, Copy)]
#[repr(u8)]
enum OneValue {
    Zero = 0,
}

/// Where an element begins, or where the last one ends, in bytes behind the first element's
/// beginning. A change of the sequence invalidates the positions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u32);

impl Position {
    /// Where the first element begins.
    pub const FIRST: Position = Position(0);
}

/// The bytes that an element of `length` bytes takes in a [`Packed`].
#[inline]
pub fn packed_bytes(length: usize) -> usize {
    let head = varint_bytes(length) + length;
    head + varint_bytes(head)
}

impl<A: Allocator + Clone> Packed<A> {
    /// An empty sequence, which takes no memory yet.
    pub fn new_in(heap: A) -> Self {
        Self::with_capacity_in(0, heap)
    }

    /// An empty sequence with room for elements that take `bytes`.
    pub fn with_capacity_in(bytes: usize, heap: A) -> Self {
        Packed {
            block: zeroed(bytes, heap),
            start: 0,
            end: 0,
            len: 0,
            _one_value: OneValue::Zero,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that the elements take, room not counted.
    pub fn byte_len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// The heap that the block is from.
    pub fn heap(&self) -> &A {
        self.block.allocator()
    }

    /// The bytes taken from the heap.
    pub fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }

    /// A copy that takes its memory from `heap`, and no more of it than the elements need.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Packed<B> {
        let mut copy = Packed::with_capacity_in(self.byte_len(), heap);
        copy.block.copy_from_slice(self.elements());
        copy.end = self.end - self.start;
        copy.len = self.len;
        copy
    }

    /// Appends the elements as [`thaw`](Packed::thaw) takes them: their number, and each behind its
    /// length.
    pub fn freeze(&self, out: &mut std::vec::Vec<u8>) {
        put_number(out, self.len());
        self.iter().for_each(|element| put_bytes(out, element));
    }

    /// The elements that were frozen, in no more memory than they need.
    pub fn thaw(source: &mut Source<'_>, heap: A) -> Option<Self> {
        let count = source.count()?;
        let mut ahead = source.clone();
        let mut bytes: usize = 0;
        for _ in 0..count {
            bytes += packed_bytes(ahead.bytes()?.len());
        }
        u32::try_from(bytes).ok()?;
        let mut packed = Packed::with_capacity_in(bytes, heap);
        for _ in 0..count {
            packed.push_back(source.bytes()?);
        }
        Some(packed)
    }

    fn elements(&self) -> &[u8] {
        &self.block[self.start as usize..self.end as usize]
    }

    /// Behind the last element.
    pub fn end(&self) -> Position {
        Position(self.end - self.start)
    }

    /// The element at `position`, which must not be the end.
    #[inline]
    pub fn at(&self, position: Position) -> &[u8] {
        read_element(self.elements(), position.0 as usize).0
    }

    /// The position behind that of an element.
    #[inline]
    pub fn next(&self, position: Position) -> Position {
        Position(read_element(self.elements(), position.0 as usize).1 as u32)
    }

    /// The position of element `index`, which may be the count of elements: the end. Walks from
    /// the nearer end.
    pub fn position(&self, index: usize) -> Position {
        debug_assert!(index <= self.len());
        if index <= self.len() / 2 {
            return (0..index).fold(Position::FIRST, |position, _| self.next(position));
        }
        let mut at = self.byte_len();
        for _ in index..self.len() {
            at = before(self.elements(), at);
        }
        Position(at as u32)
    }

    /// Element `index`, or `None` when there are not as many.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        (index < self.len()).then(|| self.at(self.position(index)))
    }

    /// The first element.
    pub fn first(&self) -> Option<&[u8]> {
        (!self.is_empty()).then(|| self.at(Position::FIRST))
    }

    /// The last element.
    pub fn last(&self) -> Option<&[u8]> {
        self.iter().next_back()
    }

    /// All elements, from either end.
    pub fn iter(&self) -> Elements<'_> {
        Elements {
            bytes: self.elements(),
            front: 0,
            back: self.byte_len(),
        }
    }

    /// The elements from `position` on; backwards they come from the last one down to it.
    pub fn iter_from(&self, position: Position) -> Elements<'_> {
        Elements {
            front: position.0 as usize,
            ..self.iter()
        }
    }

    /// The elements before `position`, from either end.
    pub fn iter_until(&self, position: Position) -> Elements<'_> {
        Elements {
            back: position.0 as usize,
            ..self.iter()
        }
    }

    /// Elements two by two, with the position of each first one. There must be an even number.
    pub fn pairs(&self) -> Pairs<'_> {
        Pairs(self.iter())
    }

    /// The pairs `start..end`, from either end.
    pub fn pairs_between(&self, start: usize, end: usize) -> Pairs<'_> {
        Pairs(Elements {
            front: self.position(2 * start).0 as usize,
            back: self.position(2 * end).0 as usize,
            ..self.iter()
        })
    }

    /// The pair that begins with `first`: its position and its second element.
    pub fn find_pair(&self, first: &[u8]) -> Option<(Position, &[u8])> {
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

    /// Puts an element before the one at `position`, whose place it takes.
    pub fn insert(&mut self, position: Position, element: &[u8]) {
        let size = packed_bytes(element.len());
        let at = self.open(position.0 as usize, size);
        self.write(at, element, size);
    }

    /// Exchanges the element at `position` for another.
    pub fn replace(&mut self, position: Position, element: &[u8]) {
        let at = position.0 as usize;
        let old = read_element(self.elements(), at).1 - at;
        let size = packed_bytes(element.len());
        if size > old {
            self.open(at, size - old);
        } else {
            self.close(at, old - size);
        }
        self.len -= 1;
        self.write(self.start as usize + at, element, size);
        self.shrink();
    }

    /// Removes `count` elements, the first of which is at `position`.
    pub fn remove(&mut self, position: Position, count: usize) {
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
        self.remove_between(Position::FIRST, position, count);
    }

    /// Removes all elements for which `keep`, which sees them in order, says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let end = self.end as usize;
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

    /// Takes the elements from `index` on away, into a sequence of their own.
    pub fn split_off(&mut self, index: usize) -> Self {
        let at = self.position(index).0 as usize;
        let mut tail = Packed::with_capacity_in(self.byte_len() - at, self.heap().clone());
        tail.block.copy_from_slice(&self.elements()[at..]);
        tail.end = (self.byte_len() - at) as u32;
        tail.len = self.len - index as u32;
        self.truncate(index);
        tail
    }

    /// Appends all elements of `other`.
    pub fn append(&mut self, other: &Self) {
        let elements = other.elements();
        self.reserve_back(elements.len());
        let end = self.end as usize;
        self.block[end..end + elements.len()].copy_from_slice(elements);
        self.end += elements.len() as u32;
        self.len += other.len;
    }

    fn remove_between(&mut self, position: Position, end: Position, count: usize) {
        self.close(position.0 as usize, (end.0 - position.0) as usize);
        self.len -= count as u32;
        self.shrink();
    }

    /// Writes an element of packed size `size` at `at` of the block, and counts it.
    #[inline]
    fn write(&mut self, at: usize, element: &[u8], size: usize) {
        let target = &mut self.block[at..at + size];
        let head = write_varint(element.len(), target);
        let body = head + element.len();
        target[head..body].copy_from_slice(element);
        write_varint_back(body, &mut target[body..]);
        self.len += 1;
    }

    /// Makes a gap of `size` bytes `at` bytes behind the first element and answers where in the
    /// block it is. Moves the shorter side if it has the room.
    fn open(&mut self, at: usize, size: usize) -> usize {
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

    /// Takes `size` bytes out, `at` bytes behind the first element, by moving the shorter side.
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

    /// Gets room for `size` bytes at one end. Where the other end has plenty, half of what is left
    /// of it is moved over: each such move is paid for by the pushes that fill the half, also when
    /// they alternate between the ends. Else the block grows, for the most part at the
    /// end that asks.
    #[cold]
    fn make_room(&mut self, size: usize, front: bool) {
        let (live, old) = (self.byte_len(), self.block.len());
        let grown = grown(old, live + size);
        let start = if grown <= old || old - live >= size + live / 2 {
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
        if self.block.len() < SHRINK_BYTES_MIN || live * 4 >= self.block.len() {
            return;
        }
        let start = self.start as usize;
        self.block.copy_within(start..start + live, 0);
        self.block.truncate(2 * live);
        self.block.shrink_to_fit();
        (self.start, self.end) = (0, live as u32);
    }

    /// Panics unless the elements are as the layout says. For tests.
    pub fn check_invariants(&self) {
        assert_eq!(self.block.len(), self.block.capacity());
        assert!(self.start <= self.end && self.end as usize <= self.block.len());
        assert_eq!(self.iter().count(), self.len());
        assert_eq!(self.iter().rev().count(), self.len());
        let bytes: usize = self.iter().map(|element| packed_bytes(element.len())).sum();
        assert_eq!(bytes, self.byte_len());
    }
}

/// The size of a block of `old` bytes that has to hold `need`.
fn grown(old: usize, need: usize) -> usize {
    if old == 0 {
        need
    } else if need <= BLOCK_BYTES {
        (need + need / 2).clamp(32, BLOCK_BYTES)
    } else {
        need + need / 8
    }
}

/// The element that begins at `at`, and where the next one begins.
#[inline]
fn read_element(bytes: &[u8], at: usize) -> (&[u8], usize) {
    let (length, body) = read_varint(bytes, at);
    let end = body + length;
    (&bytes[body..end], end + varint_bytes(end - at))
}

/// Where the element begins that ends at `end`.
#[inline]
fn before(bytes: &[u8], end: usize) -> usize {
    let head = read_varint_back(bytes, end);
    end - varint_bytes(head) - head
}

/// Elements of a [`Packed`], from either end.
#[derive(Clone, Default)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
}

impl Elements<'_> {
    /// The position of the element that `next` would give.
    pub fn position(&self) -> Position {
        Position(self.front as u32)
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

/// Elements of a [`Packed`] two by two, with the position of the first of both.
#[derive(Clone)]
pub struct Pairs<'a>(Elements<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (Position, &'a [u8], &'a [u8]);

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
        Some((Position(self.0.back as u32), first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::testing::{bytes, for_each_seed};
    use nearfield_tiers::Heap;
    use rand::RngExt;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_deque() {
        for_each_seed(60, |random| {
            let heap = Heap::new();
            let mut packed = Packed::new_in(heap.clone());
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
        let mut packed = Packed::new_in(Heap::new());
        for _ in 0..50_000 {
            packed.push_front(b"front");
            packed.push_back(b"back");
        }
        assert_eq!(packed.len(), 100_000);
        assert!(packed.memory_bytes() < 2 * packed.byte_len());
    }
}
