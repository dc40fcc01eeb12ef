//! Blocks of bytes that are initialized to their capacity, and variable-length integers in them.
//!
//! A vector with an allocator parameter appends byte by byte. A block whose length is its capacity
//! is filled with `copy_from_slice` instead, which copies many bytes at once; its owner keeps the
//! number of bytes in use.

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// Creates a block of `length` zeros.
pub(super) fn zeroed<A: Allocator>(length: usize, heap: A) -> Vec<u8, A> {
    let mut block = Vec::new_in(heap);
    lengthen(&mut block, length);
    block
}

/// Makes `block` longer by zeros, so that its length and its capacity are `length`.
pub(super) fn lengthen<A: Allocator>(block: &mut Vec<u8, A>, length: usize) {
    block.reserve_exact(length - block.len());
    block.resize(length, 0);
}

/// Returns the bytes that `value` takes as a variable-length integer: seven bits a byte.
#[inline]
pub(super) fn varint_bytes(value: usize) -> usize {
    if value < 0x80 {
        return 1;
    }
    (usize::BITS - value.leading_zeros()).div_ceil(7) as usize
}

/// Writes `value` at the beginning of `target`, low bits first, and returns the bytes it took.
#[inline]
pub(super) fn write_varint(mut value: usize, target: &mut [u8]) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        target[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    target[at] = value as u8;
    at + 1
}

/// Reads what [`write_varint`] wrote at `at`: the value, and the position after it.
#[inline]
pub(super) fn read_varint(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    // Nearly all lengths take one byte.
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let (mut value, mut shift, mut at) = (usize::from(first & 0x7f), 7, at + 1);
    loop {
        let byte = bytes[at];
        at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (value, at);
        }
    }
}

/// Writes `value` so that it ends where `target` ends and can be read backwards from there.
#[inline]
pub(super) fn write_varint_back(mut value: usize, target: &mut [u8]) {
    // The low bits are last, because a reader begins there.
    let mut at = target.len() - 1;
    while value >= 0x80 {
        target[at] = value as u8 | 0x80;
        value >>= 7;
        at -= 1;
    }
    target[at] = value as u8;
}

/// Reads what [`write_varint_back`] wrote to end at `end`.
#[inline]
pub(super) fn read_varint_back(bytes: &[u8], end: usize) -> usize {
    let (mut value, mut shift, mut at) = (0, 0, end);
    loop {
        at -= 1;
        let byte = bytes[at];
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_written_from_both_ends() {
        for value in (0..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            let count = varint_bytes(value);
            let mut bytes = [0xff; 12];
            assert_eq!(write_varint(value, &mut bytes[1..]), count);
            assert_eq!(read_varint(&bytes, 1), (value, 1 + count));
            bytes.fill(0xff);
            write_varint_back(value, &mut bytes[..count]);
            assert_eq!(read_varint_back(&bytes, count), value);
        }
    }
}
