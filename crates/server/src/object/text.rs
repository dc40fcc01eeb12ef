//! A string that is long, or was changed in place.

use allocator_api2::vec::Vec;
use nearfield_tiers::AccountedHeap;

/// A byte string in a heap.
#[derive(Clone, Debug)]
pub struct HeapBytes {
    bytes: Vec<u8, AccountedHeap>,
}

impl HeapBytes {
    /// Creates a copy of `bytes` in `heap`.
    pub fn new_in(bytes: &[u8], heap: AccountedHeap) -> HeapBytes {
        let mut copy = Vec::with_capacity_in(bytes.len(), heap);
        append(&mut copy, bytes);
        HeapBytes { bytes: copy }
    }

    /// Returns the string.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) {
        append(&mut self.bytes, bytes);
    }

    /// Extends the string with zeros to at least `length` bytes, and returns it to be written to.
    pub fn extend_to(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length {
            reserve(&mut self.bytes, length);
            self.bytes.resize(length, 0);
        }
        &mut self.bytes
    }

    /// Returns the bytes of memory that the string has taken from its heap.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The longest string that gets room to grow to twice its length.
const DOUBLED_BYTES_MAX: usize = 1 << 16;
/// Longer strings get this part of their length as room to grow.
const SPARE_PART: usize = 8;

/// Reserves memory for a string of `length` bytes.
fn reserve(to: &mut Vec<u8, AccountedHeap>, length: usize) {
    // Growth by a constant factor keeps appending linear. The factor is small, so that long strings
    // keep to the limit of memory.
    let spare = match length {
        ..=DOUBLED_BYTES_MAX => length,
        _ => length / SPARE_PART,
    };
    if to.capacity() < length {
        // A new string seldom grows.
        let spare = if to.is_empty() { 0 } else { spare };
        to.reserve_exact(length + spare - to.len());
    }
}

/// Appends `bytes`.
fn append(to: &mut Vec<u8, AccountedHeap>, bytes: &[u8]) {
    let before = to.len();
    let length = before + bytes.len();
    reserve(to, length);
    // A vector with an allocator parameter appends byte by byte, which takes ten times as long as
    // a copy into zeros.
    to.resize(length, 0);
    if let Some(place) = to.get_mut(before..) {
        place.copy_from_slice(bytes);
    }
}
