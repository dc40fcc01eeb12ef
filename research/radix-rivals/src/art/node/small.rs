//! The search in the key bytes of node4s and node16s, which are adjacent in a word.

use super::kinds::{ArtNode4, ArtNode16};
use super::slot::ArtSlot;
use nearfield_radix::equal_16;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The key bytes and slots of a node4 or node16.
#[derive(Clone, Copy, Debug)]
pub struct ArtSmallNode<'g> {
    keys: ArtKeyBytes<'g>,
    pub slots: &'g [ArtSlot],
}

#[derive(Clone, Copy, Debug)]
enum ArtKeyBytes<'g> {
    Four(&'g AtomicU32),
    Sixteen(&'g [AtomicU64; 2]),
}

impl<'g> ArtSmallNode<'g> {
    pub fn of_4(node: &'g ArtNode4) -> Self {
        ArtSmallNode {
            keys: ArtKeyBytes::Four(&node.keys),
            slots: &node.slots,
        }
    }

    pub fn of_16(node: &'g ArtNode16) -> Self {
        ArtSmallNode {
            keys: ArtKeyBytes::Sixteen(&node.keys),
            slots: &node.slots,
        }
    }

    /// Returns the key bytes, the first lowest.
    #[inline]
    pub fn keys(self) -> u128 {
        match self.keys {
            ArtKeyBytes::Four(keys) => u128::from(keys.load(Ordering::Acquire)),
            ArtKeyBytes::Sixteen([low, high]) => {
                let low = low.load(Ordering::Acquire);
                u128::from(high.load(Ordering::Acquire)) << 64 | u128::from(low)
            }
        }
    }

    /// Writes the key bytes, under the node's lock.
    #[inline]
    fn set_keys(self, keys: u128) {
        match self.keys {
            ArtKeyBytes::Four(word) => word.store(keys as u32, Ordering::Release),
            ArtKeyBytes::Sixteen([low, high]) => {
                low.store(keys as u64, Ordering::Release);
                high.store((keys >> 64) as u64, Ordering::Release);
            }
        }
    }

    /// Returns the key byte at a position.
    #[inline]
    pub fn key(self, position: usize) -> u8 {
        (self.keys() >> (8 * position)) as u8
    }

    /// Returns one bit for each of the first `count` positions whose key byte is `byte`.
    #[inline]
    pub fn matches(self, count: usize, byte: u8) -> u32 {
        let keys = self.keys();
        equal_16(keys as u64, (keys >> 64) as u64, byte) & ((1 << count) - 1)
    }

    /// Appends a key byte after the first `count`, which do not move.
    pub fn append(self, count: usize, byte: u8) {
        let others = self.keys() & !(0xff << (8 * count));
        self.set_keys(others | u128::from(byte) << (8 * count));
    }

    /// Returns the position of a new key byte among `count` ascending ones.
    pub fn position(self, count: usize, byte: u8) -> usize {
        let keys = self.keys().to_le_bytes();
        keys[..count].partition_point(|&key| key < byte)
    }

    /// Makes room for a key byte and its slot at a position, and moves the others up. The node is
    /// locked, and its readers validate.
    pub fn insert_key(self, count: usize, position: usize, byte: u8) {
        let keys = self.keys();
        let below = keys & ((1 << (8 * position)) - 1);
        let above = keys.checked_shr(8 * position as u32).unwrap_or(0);
        let moved = above.checked_shl(8 * (position as u32 + 1)).unwrap_or(0);
        self.set_keys(below | u128::from(byte) << (8 * position) | moved);
        for slot in (position..count).rev() {
            self.slots[slot + 1].store(self.slots[slot].load());
        }
    }

    /// Removes a key byte and its slot, and moves the others down. The node is locked, and its
    /// readers validate.
    pub fn remove_key(self, count: usize, position: usize) {
        let keys = self.keys();
        let below = keys & ((1 << (8 * position)) - 1);
        let above = keys.checked_shr(8 * (position as u32 + 1)).unwrap_or(0);
        self.set_keys(below | above << (8 * position));
        for slot in position + 1..count {
            self.slots[slot - 1].store(self.slots[slot].load());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::prefix::ArtPrefix;
    use super::super::slot::ArtTaggedPointer;
    use super::*;

    /// Inserts bytes in every order of a few, and removes them again.
    #[test]
    fn key_bytes_stay_in_order() {
        let four = ArtNode4::new(0, ArtPrefix::default());
        let sixteen = ArtNode16::new(0, ArtPrefix::default());
        for small in [ArtSmallNode::of_4(&four), ArtSmallNode::of_16(&sixteen)] {
            let room = small.slots.len();
            for step in [1_usize, 3, 5, 7, 11] {
                let mut model: Vec<u8> = Vec::new();
                for i in 0..room {
                    let byte = (i * step * 37) as u8;
                    let position = small.position(model.len(), byte);
                    assert_eq!(position, model.partition_point(|&key| key < byte));
                    small.insert_key(model.len(), position, byte);
                    small.slots[position].store(ArtTaggedPointer::NONE);
                    model.insert(position, byte);
                    for byte in 0..=255 {
                        let found = small.matches(model.len(), byte);
                        let expected = model.iter().position(|&key| key == byte);
                        assert_eq!(found != 0, expected.is_some());
                        if let Some(position) = expected {
                            assert_eq!(found.trailing_zeros() as usize, position);
                        }
                    }
                }
                while !model.is_empty() {
                    let position = step % model.len();
                    small.remove_key(model.len(), position);
                    model.remove(position);
                    for (position, &byte) in model.iter().enumerate() {
                        assert_eq!(small.key(position), byte);
                    }
                }
            }
        }
    }
}
