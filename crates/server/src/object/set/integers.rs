//! Sorted integers of two, four or eight bytes each, as the widest of them needs.

use crate::object::frozen::{FrozenReader, put_bytes};
use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// A sorted set of integers in one block. Finding is logarithmic, changing linear.
pub(super) struct Integers<A: Allocator> {
    /// The integers, little-endian.
    bytes: Vec<u8, A>,
    width: usize,
}

/// Returns the integer that is written `text`, if `text` is its canonical form: a string that would
/// be returned as another one is not an integer.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => text.len() == 1,
        // `parse` refuses those of 19 digits that are too large.
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn width_of(integer: i64) -> usize {
    if i16::try_from(integer).is_ok() {
        2
    } else if i32::try_from(integer).is_ok() {
        4
    } else {
        8
    }
}

impl<A: Allocator + Clone> Integers<A> {
    pub(super) fn new_in(heap: A) -> Self {
        Integers {
            bytes: Vec::new_in(heap),
            width: 2,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    pub(super) fn heap(&self) -> &A {
        self.bytes.allocator()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Integers<B> {
        let mut bytes = Vec::with_capacity_in(self.bytes.len(), heap);
        bytes.extend_from_slice(&self.bytes);
        let width = self.width;
        Integers { bytes, width }
    }

    /// Appends the width and the integers, as `thaw` reads them.
    pub(super) fn freeze(&self, out: &mut std::vec::Vec<u8>) {
        out.push(self.width as u8);
        put_bytes(out, &self.bytes);
    }

    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let width = usize::from(source.byte().filter(|width| [2, 4, 8].contains(width))?);
        let integers = source.bytes()?;
        let mut bytes = Vec::with_capacity_in(integers.len(), heap);
        bytes.extend_from_slice(integers);
        let integers = Integers { bytes, width };
        let is_whole = integers.bytes.len().is_multiple_of(width);
        let is_sorted = is_whole && integers.iter().is_sorted_by(|one, next| one < next);
        is_sorted.then_some(integers)
    }

    pub(super) fn get(&self, index: usize) -> i64 {
        let at = index * self.width;
        match self.bytes[at..at + self.width] {
            [a, b] => i16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("integers have two, four or eight bytes"),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the index of `integer`, or else the index at which it belongs.
    pub(super) fn find(&self, integer: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).cmp(&integer) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Adds `integer` at the index at which it belongs.
    pub(super) fn insert(&mut self, index: usize, integer: i64) {
        debug_assert!(index == 0 || self.get(index - 1) < integer);
        debug_assert!(index == self.len() || integer < self.get(index));
        self.widen(width_of(integer));
        let (at, old) = (index * self.width, self.bytes.len());
        self.bytes.resize(old + self.width, 0);
        self.bytes.copy_within(at..old, at + self.width);
        self.write(index, integer);
    }

    pub(super) fn remove(&mut self, index: usize) {
        debug_assert!(index < self.len());
        let at = index * self.width;
        self.bytes.copy_within(at + self.width.., at);
        self.bytes.truncate(self.bytes.len() - self.width);
        // At a half, a removal and an insertion in turn could move the block each time.
        if self.bytes.len() * 4 < self.bytes.capacity() {
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    fn write(&mut self, index: usize, integer: i64) {
        let at = index * self.width;
        let bytes = &integer.to_le_bytes()[..self.width];
        self.bytes[at..at + self.width].copy_from_slice(bytes);
    }

    fn widen(&mut self, width: usize) {
        if width <= self.width {
            return;
        }
        // A wider integer overwrites narrow ones that are still to be read.
        let integers: std::vec::Vec<i64> = self.iter().collect();
        self.width = width;
        self.bytes.resize(integers.len() * width, 0);
        for (index, integer) in integers.into_iter().enumerate() {
            self.write(index, integer);
        }
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.iter().is_sorted_by(|a, b| a < b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_written_so_is_an_integer() {
        for text in [
            "0",
            "7",
            "-7",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            assert_eq!(
                parse(text.as_bytes()).map(|i| i.to_string()).as_deref(),
                Some(text)
            );
        }
        let others = [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            " 1",
            "1 ",
            "1.0",
            "a",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "10000000000000000000",
            "\u{ff11}",
        ];
        for text in others {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
