//! Listpacks: the form in which Redis stores the nodes of streams, which is used here, too.
//!
//! ```text
//! bytes: u32   elements: u16   element ...   0xff
//! element:  form, integer or bytes   its length, for walking backward
//! ```
//!
//! Nodes in this form take as much memory as those of Redis, and are written to snapshots
//! unchanged. The nodes of snapshots are checked when they are read (`StreamNode::parse`).

use crate::number::parse_integer;
use allocator_api2::vec::Vec;
use nearfield_tiers::AccountedHeap;

/// Number of bytes before the first element.
pub(super) const HEAD_BYTES: usize = 6;
const END: u8 = 0xff;
/// The maximum length of the text of an integer.
const INTEGER_BYTES_MAX: usize = 20;

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListpackElement<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
}

impl<'a> ListpackElement<'a> {
    /// Returns the element as the text that was appended.
    pub fn text<'t>(&self, digits: &'t mut itoa::Buffer) -> &'t [u8]
    where
        'a: 't,
    {
        match *self {
            ListpackElement::Integer(integer) => digits.format(integer).as_bytes(),
            ListpackElement::Bytes(bytes) => bytes,
        }
    }

    /// Returns the element, if it is an integer.
    pub fn integer(&self) -> Option<i64> {
        match *self {
            ListpackElement::Integer(integer) => Some(integer),
            ListpackElement::Bytes(_) => None,
        }
    }
}

/// Reads the element at `at`. Returns it and the position of the next one; `None` at the end.
pub(super) fn read(bytes: &[u8], at: usize) -> Option<(ListpackElement<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let (&form, rest) = rest.split_first()?;
    let integer = |value: i64, size: usize| Some((ListpackElement::Integer(value), size));
    let string = |head: usize, length: usize| {
        let body = rest.get(head..head + length)?;
        Some((ListpackElement::Bytes(body), head + length))
    };
    let next = rest.first().copied();
    let (element, size) = match form {
        0..0x80 => integer(form.into(), 0),
        0x80..0xc0 => string(0, usize::from(form & 0x3f)),
        0xc0..0xe0 => {
            // The 13 bits are moved up so that their sign is the integer's.
            let bits = u16::from_be_bytes([form & 0x1f, next?]);
            integer(((bits << 3).cast_signed() >> 3).into(), 1)
        }
        0xe0..0xf0 => string(1, usize::from(form & 0x0f) << 8 | usize::from(next?)),
        0xf0 => string(4, u32::from_le_bytes(*rest.first_chunk()?) as usize),
        0xf1 => integer(i16::from_le_bytes(*rest.first_chunk()?).into(), 2),
        0xf2 => {
            let [low, middle, high] = *rest.first_chunk()?;
            integer((i32::from_le_bytes([0, low, middle, high]) >> 8).into(), 3)
        }
        0xf3 => integer(i32::from_le_bytes(*rest.first_chunk()?).into(), 4),
        0xf4 => integer(i64::from_le_bytes(*rest.first_chunk()?), 8),
        _ => None,
    }?;
    let length = 1 + size;
    Some((element, at + length + groups(length)))
}

/// Reads the element at `at`, if it is an integer of the shortest form. Returns it and the position
/// of the next one.
#[inline]
pub(super) fn small(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    match bytes.get(at) {
        // One byte for the integer, and one for its length.
        Some(&form @ 0..0x80) => Some((form.into(), at + 2)),
        _ => None,
    }
}

/// Returns the position of the element after that at `at`; `None` at the end.
#[inline]
pub(super) fn end(bytes: &[u8], at: usize) -> Option<usize> {
    // The first byte tells the length of these forms, which are nearly all elements.
    match bytes.get(at) {
        Some(0..0x80) => Some(at + 2),
        Some(form @ 0x80..0xc0) => Some(at + 2 + usize::from(form & 0x3f)),
        Some(0xc0..0xe0) => Some(at + 3),
        _ => Some(read(bytes, at)?.1),
    }
}

/// Reads the element at `at`, if the length after it is right.
pub(super) fn read_checked(bytes: &[u8], at: usize) -> Option<(ListpackElement<'_>, usize)> {
    let (element, next) = read(bytes, at)?;
    let mut length = next - at;
    // `next` is after the stored length, whose own size depends on the rest.
    length -= (1..=5).find(|&count| count < length && groups(length - count) == count)?;
    let mut expected = [0; 5];
    let count = write_length(length, &mut expected);
    let stored = bytes.get(at + length..next)?;
    (stored == expected.get(..count)?).then_some((element, next))
}

/// Returns the number of bytes that encode the length of an element, for walking backward. Redis's
/// limits leave the greatest number of each size to the next size.
fn groups(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Writes the length of an element in groups of 7 bits, the highest first. All except the first
/// have the top bit set.
fn write_length(length: usize, out: &mut [u8; 5]) -> usize {
    let count = groups(length);
    for (position, byte) in out.iter_mut().take(count).enumerate() {
        let bits = (length >> (7 * (count - 1 - position))) as u8 & 0x7f;
        *byte = if position > 0 { bits | 0x80 } else { bits };
    }
    count
}

/// An encoded integer.
struct ListpackInteger {
    bytes: [u8; 10],
    length: usize,
}

impl ListpackInteger {
    fn new(integer: i64) -> ListpackInteger {
        let mut bytes = [0; 10];
        let mut put = |form: u8, rest: &[u8]| {
            bytes[0] = form;
            bytes[1..=rest.len()].copy_from_slice(rest);
            1 + rest.len()
        };
        let little = integer.to_le_bytes();
        let length = match integer {
            0..=127 => put(integer as u8, &[]),
            -4096..=4095 => {
                let bits = (integer as u16) & 0x1fff;
                put(0xc0 | (bits >> 8) as u8, &[bits as u8])
            }
            -0x8000..=0x7fff => put(0xf1, &little[..2]),
            -0x80_0000..=0x7f_ffff => put(0xf2, &little[..3]),
            -0x8000_0000..=0x7fff_ffff => put(0xf3, &little[..4]),
            _ => put(0xf4, &little),
        };
        // No integer is long enough for a length of two bytes.
        bytes[length] = length as u8;
        ListpackInteger {
            bytes,
            length: length + 1,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A listpack that grows.
pub(super) struct Listpack {
    block: Vec<u8, AccountedHeap>,
}

impl Listpack {
    /// Creates a listpack without elements.
    pub fn new_in(heap: AccountedHeap) -> Listpack {
        let mut block = Vec::new_in(heap);
        block.extend_from_slice(&[HEAD_BYTES as u8 + 1, 0, 0, 0, 0, 0, END]);
        Listpack { block }
    }

    /// Copies bytes, which must be a listpack.
    pub fn copy_in(bytes: &[u8], heap: AccountedHeap) -> Listpack {
        let mut block = Vec::with_capacity_in(bytes.len(), heap);
        block.extend_from_slice(bytes);
        Listpack { block }
    }

    /// Returns the heap that it takes its memory from.
    pub fn heap(&self) -> AccountedHeap {
        self.block.allocator().clone()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.block
    }

    pub fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }

    /// Gives back unused memory.
    pub fn shrink(&mut self) {
        self.block.shrink_to_fit();
    }

    /// Begins to append elements. The block grows to `usual_bytes` at most, if the elements fit
    /// into that.
    pub fn append(&mut self, usual_bytes: usize) -> ListpackAppender<'_> {
        // `finish` puts the end mark back.
        debug_assert_eq!(self.block.last(), Some(&END));
        self.block.pop();
        ListpackAppender {
            listpack: self,
            usual_bytes,
            count: 0,
        }
    }

    fn write_head(&mut self, added: usize) {
        let total = self.block.len() as u32;
        self.block[..4].copy_from_slice(&total.to_le_bytes());
        let count = usize::from(u16::from_le_bytes([self.block[4], self.block[5]]));
        // The count saturates: all ones mean that the elements must be counted.
        let count = (count + added).min(u16::MAX.into()) as u16;
        self.block[4..6].copy_from_slice(&count.to_le_bytes());
    }

    /// Replaces the integer at `at`.
    pub fn replace(&mut self, at: usize, integer: i64) {
        let Some((_, next)) = read(&self.block, at) else {
            return;
        };
        let coded = ListpackInteger::new(integer);
        let (old, new) = (next - at, coded.length);
        let end = self.block.len();
        if new > old {
            self.block.resize(end + new - old, 0);
        }
        self.block.copy_within(next..end, at + new);
        self.block.truncate(end + new - old);
        self.block[at..at + new].copy_from_slice(coded.bytes());
        // The number of bytes may have changed, but not that of elements.
        self.write_head(0);
    }
}

/// The elements that are being appended to a listpack.
pub(super) struct ListpackAppender<'l> {
    listpack: &'l mut Listpack,
    usual_bytes: usize,
    count: usize,
}

impl ListpackAppender<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let block = &mut self.listpack.block;
        // One byte more, for the end mark after the last element.
        let (capacity, needed) = (block.capacity(), block.len() + bytes.len() + 1);
        if needed > capacity {
            let grown = (2 * capacity).min(self.usual_bytes).max(needed);
            block.reserve_exact(grown - block.len());
        }
        block.extend_from_slice(bytes);
    }

    pub fn integer(&mut self, integer: i64) {
        self.put(ListpackInteger::new(integer).bytes());
        self.count += 1;
    }

    /// Appends a string, as an integer if it is the text of one.
    pub fn string(&mut self, bytes: &[u8]) {
        // As in Redis, an integer takes fewer bytes than its text.
        let is_short = bytes.len() <= INTEGER_BYTES_MAX;
        if let Some(integer) = is_short.then(|| parse_integer(bytes)).flatten() {
            return self.integer(integer);
        }
        let length = bytes.len();
        let head = match length {
            0..0x40 => {
                self.put(&[0x80 | length as u8]);
                1
            }
            0x40..0x1000 => {
                self.put(&[0xe0 | (length >> 8) as u8, length as u8]);
                2
            }
            _ => {
                self.put(&[0xf0]);
                self.put(&(length as u32).to_le_bytes());
                5
            }
        };
        self.put(bytes);
        let mut behind = [0; 5];
        let count = write_length(head + length, &mut behind);
        self.put(&behind[..count]);
        self.count += 1;
    }

    /// Ends the listpack.
    pub fn finish(self) {
        self.listpack.block.push(END);
        self.listpack.write_head(self.count);
    }
}

/// Returns true at the end of a listpack.
pub(super) fn is_end(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..) == Some(&[END])
}
