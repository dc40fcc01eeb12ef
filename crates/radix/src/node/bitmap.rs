//! A bitmap of the places in use, of 256, for steps in order.

use nearfield_core::ScanDirection;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bitmap: one bit per place.
#[derive(Debug)]
#[repr(C)]
pub struct Bitmap([AtomicU64; 4]);

impl Bitmap {
    /// Returns true if the place is in use.
    #[inline]
    pub fn contains(&self, byte: u8) -> bool {
        self.0[byte as usize / 64].load(Ordering::Acquire) >> (byte % 64) & 1 != 0
    }

    /// Marks a place. Only under the node's lock.
    #[inline]
    pub fn set(&self, byte: u8, used: bool) {
        let word = &self.0[byte as usize / 64];
        let bit = 1 << (byte % 64);
        // The lock excludes other writers, so that the change needs no atomic operation of its own.
        let old = word.load(Ordering::Relaxed);
        word.store(if used { old | bit } else { old & !bit }, Ordering::Release);
    }

    /// Frees all places of a node that no other thread can reach.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Sets all places at once. Only under the node's lock.
    pub fn store(&self, bits: [u64; 4]) {
        for (word, bits) in self.0.iter().zip(bits) {
            word.store(bits, Ordering::Release);
        }
    }

    /// Returns the places in use, as they are now.
    #[inline]
    pub fn load(&self) -> [u64; 4] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Acquire))
    }
}

/// Returns the bits from `first` to `last` that are in one of the four words.
#[inline]
pub fn between(first: u8, last: u8, word: usize) -> u64 {
    let start = word * 64;
    let from = (first as usize).max(start);
    let to = (last as usize).min(start + 63);
    match from <= to {
        true => u64::MAX << (from - start) & u64::MAX >> (start + 63 - to),
        false => 0,
    }
}

/// Returns the last bit that is set, up to `bit`.
#[inline]
pub fn last_at_most(bits: [u64; 4], bit: u8) -> Option<u8> {
    let mut i = bit as usize / 64;
    // A shift by 63 minus the bit keeps that bit itself.
    let mut word = bits[i] & u64::MAX >> (63 - bit % 64);
    while word == 0 {
        i = i.checked_sub(1)?;
        word = bits[i];
    }
    Some((i * 64) as u8 + (63 - word.leading_zeros() as u8))
}

/// Calls `visit` for each bit that is set, ascending from `first`, until it returns false.
#[inline]
pub fn for_each_from(bits: [u64; 4], first: u16, mut visit: impl FnMut(u8) -> bool) {
    let first_word = usize::from(first / 64);
    for (i, mut word) in bits.into_iter().enumerate().skip(first_word) {
        if i == first_word {
            word &= u64::MAX << (first % 64);
        }
        while word != 0 {
            if !visit((i * 64) as u8 + word.trailing_zeros() as u8) {
                return;
            }
            word &= word - 1;
        }
    }
}

/// Calls `visit` for each set bit below `behind`, descending, until it returns false; returns true
/// if it never did.
#[inline]
pub fn for_each_below(bits: [u64; 4], behind: u16, mut visit: impl FnMut(u8) -> bool) -> bool {
    for i in (0..4).rev() {
        let mut word = bits[i];
        let start = (i * 64) as u16;
        if behind < start + 64 {
            word &= (1u64 << behind.saturating_sub(start)) - 1;
        }
        while word != 0 {
            let bit = 63 - word.leading_zeros();
            if !visit((i * 64) as u8 + bit as u8) {
                return false;
            }
            word &= !(1 << bit);
        }
    }
    true
}

/// Clears all bits before `bit` in `direction`.
pub fn keep(bits: &mut [u64; 4], bit: u8, direction: ScanDirection) {
    let (word, bit) = (bit as usize / 64, bit % 64);
    match direction {
        ScanDirection::Ascending => {
            bits[..word].fill(0);
            bits[word] &= u64::MAX << bit;
        }
        ScanDirection::Descending => {
            bits[word + 1..].fill(0);
            bits[word] &= u64::MAX >> (63 - bit);
        }
    }
}

/// Iterator over the bits that are set, in one direction.
#[derive(Debug)]
pub struct NodeBitmapIter {
    bits: [u64; 4],
    direction: ScanDirection,
}

impl NodeBitmapIter {
    /// Creates an iterator that begins with the first bit of `direction`.
    pub fn new(bits: [u64; 4], direction: ScanDirection) -> Self {
        NodeBitmapIter { bits, direction }
    }
}

impl Iterator for NodeBitmapIter {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let is_used = |word: &u64| *word != 0;
        let word = match self.direction {
            ScanDirection::Ascending => self.bits.iter().position(is_used)?,
            ScanDirection::Descending => self.bits.iter().rposition(is_used)?,
        };
        let bit = match self.direction {
            ScanDirection::Ascending => self.bits[word].trailing_zeros(),
            ScanDirection::Descending => 63 - self.bits[word].leading_zeros(),
        };
        self.bits[word] &= !(1 << bit);
        Some((word * 64) as u8 + bit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_agree_with_a_filter() {
        let bits = [0x8000_0000_0000_0001, 0, u64::MAX, 0x00f0_0000_0000_0000];
        let all: Vec<u8> = (0..=255)
            .filter(|&b| bits[b as usize / 64] >> (b % 64) & 1 != 0)
            .collect();
        for bound in 0..=256u16 {
            let mut up = Vec::new();
            for_each_from(bits, bound, |byte| {
                up.push(byte);
                true
            });
            let expected: Vec<u8> = all
                .iter()
                .copied()
                .filter(|&b| u16::from(b) >= bound)
                .collect();
            assert_eq!(up, expected);
            let mut down = Vec::new();
            assert!(for_each_below(bits, bound, |byte| {
                down.push(byte);
                true
            }));
            let mut expected: Vec<u8> = all
                .iter()
                .copied()
                .filter(|&b| u16::from(b) < bound)
                .collect();
            expected.reverse();
            assert_eq!(down, expected);
            let Ok(bit) = u8::try_from(bound) else {
                continue;
            };
            for first in [0, 1, 63, 64, 100, bit] {
                let expected: Vec<u8> = (0..=255).filter(|&b| first <= b && b <= bit).collect();
                let bits = std::array::from_fn(|word| between(first, bit, word));
                assert!(NodeBitmapIter::new(bits, ScanDirection::Ascending).eq(expected));
            }
            let last = all.iter().copied().filter(|&b| b <= bit).max();
            assert_eq!(last_at_most(bits, bit), last);
            let mut kept = bits;
            keep(&mut kept, bit, ScanDirection::Ascending);
            assert_eq!(
                NodeBitmapIter::new(kept, ScanDirection::Ascending).collect::<Vec<_>>(),
                up
            );
            let mut kept = bits;
            keep(&mut kept, bit, ScanDirection::Descending);
            let expected: Vec<u8> = all.iter().copied().rev().filter(|&b| b <= bit).collect();
            assert_eq!(
                NodeBitmapIter::new(kept, ScanDirection::Descending).collect::<Vec<_>>(),
                expected
            );
        }
    }
}
