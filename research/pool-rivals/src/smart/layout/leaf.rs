//! Leaves: one key and its value.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | reverse pointer: the address of the slot that leads here |
//! | 8 | 1 while the key is there, 0 once it was removed |
//! | 9..17 | checksum (XXH3) of byte 8, key, value, and version |
//! | 17.. | key, then value |
//! | last | lock: bit 0 while it is held, bit 1 once the key was removed, version above |
//!
//! The lock comes last, so that one write sets the value and releases the lock. Each write
//! increments the version: a client that takes the lock with the version that it has read knows
//! that its read is still current.
//!
//! Leaves that are copied have no use for the lock. A word behind it, at a multiple of eight bytes,
//! is their *successor*: 0, then forever the address of the leaf that has replaced this one, or 1
//! if the key was removed. All other bytes stay as they were written first.

use super::slot::{ALIGNMENT, NODES};
use nearfield_fabric::{GlobalAddress, MaskedSwap};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const VALID_OFFSET: usize = 8;
const CHECKSUM: Range<usize> = 9..17;
const KEY_OFFSET: usize = 17;

/// Flag in the lock during a write.
pub const LOCKED: u8 = 1;
/// Flag in the lock, forever, after the key was removed: no client takes the lock again.
pub const DEAD: u8 = 2;
const VERSION_SHIFT: u32 = 2;

/// The successor of a leaf whose key was removed: no address, because leaves are at multiples of
/// [`ALIGNMENT`].
pub const REMOVED: u64 = 1;
/// Bytes of a successor.
const SUCCESSOR_BYTES: usize = 8;

/// The sizes of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartLeafLayout {
    key_bytes: usize,
    value_bytes: usize,
    has_successor: bool,
}

/// The two parts in which a leaf is written, the first before the second; the first may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafWrite {
    /// The bytes that share no atomic unit with the lock.
    pub first: Range<usize>,
    /// The rest, with the lock at its end.
    pub last: Range<usize>,
}

/// A leaf in its state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmartLeaf {
    pub reverse: GlobalAddress,
    pub valid: bool,
    pub key: Box<[u8]>,
    pub value: Vec<u8>,
    pub lock: u8,
    /// The leaf that has replaced this one.
    pub successor: Option<GlobalAddress>,
}

impl SmartLeaf {
    /// Returns the lock after the next write: free, with the next version.
    pub fn lock_after(&self) -> u8 {
        (self.lock & !(LOCKED | DEAD)).wrapping_add(1 << VERSION_SHIFT)
    }
}

impl SmartLeafLayout {
    /// Creates the layout of leaves with keys and values of these lengths, which are written in
    /// place.
    pub const fn new(key_bytes: usize, value_bytes: usize) -> SmartLeafLayout {
        SmartLeafLayout {
            key_bytes,
            value_bytes,
            has_successor: false,
        }
    }

    /// Creates the layout of leaves with keys and values of these lengths, which are copied.
    pub const fn copied(key_bytes: usize, value_bytes: usize) -> SmartLeafLayout {
        SmartLeafLayout {
            key_bytes,
            value_bytes,
            has_successor: true,
        }
    }

    /// Returns the bytes of a leaf.
    pub const fn bytes(&self) -> usize {
        if self.has_successor {
            self.successor_offset() + SUCCESSOR_BYTES
        } else {
            self.lock_offset() + 1
        }
    }

    /// Returns the offset of the successor, which only leaves that are copied have.
    pub const fn successor_offset(&self) -> usize {
        (self.lock_offset() + 1).next_multiple_of(SUCCESSOR_BYTES)
    }

    /// Returns the bytes of memory of a leaf.
    pub const fn allocation_bytes(&self) -> u64 {
        (self.bytes() as u64).next_multiple_of(ALIGNMENT)
    }

    /// Returns the offset of the lock: the last byte, except for a successor.
    pub const fn lock_offset(&self) -> usize {
        KEY_OFFSET + self.key_bytes + self.value_bytes
    }

    /// Returns the offset of the word that contains the lock.
    pub const fn lock_word_offset(&self) -> u64 {
        self.lock_offset() as u64 / 8 * 8
    }

    /// Returns a swap in the lock's word that takes the lock: it sets its lowest bit if the bits
    /// `compared` of the lock are equal to `expected`.
    pub fn lock_swap(&self, expected: u8, compared: u8) -> MaskedSwap {
        let shift = self.lock_offset() % 8 * 8;
        MaskedSwap {
            expected: u64::from(expected) << shift,
            compare_mask: u64::from(compared) << shift,
            desired: u64::from(LOCKED) << shift,
            swap_mask: u64::from(LOCKED) << shift,
        }
    }

    /// Returns the lock in its word.
    pub fn lock_of(&self, word: u64) -> u8 {
        (word >> (self.lock_offset() % 8 * 8)) as u8
    }

    /// Returns the parts in which a leaf is written, if `atomic_bytes` are atomic. The part with
    /// the lock comes last, so that a client that sees the lock free sees all of it.
    pub fn write(&self, atomic_bytes: u64) -> LeafWrite {
        let atomic = atomic_bytes.max(1) as usize;
        let boundary = self.lock_offset() / atomic * atomic;
        LeafWrite {
            first: 0..boundary,
            last: boundary..self.bytes(),
        }
    }

    fn checksum(&self, bytes: &[u8]) -> Option<u64> {
        let content = bytes.get(KEY_OFFSET..self.lock_offset())?;
        // The bits of the lock change without a write of the leaf, so the checksum omits them.
        let version = bytes.get(self.lock_offset())? & !(LOCKED | DEAD);
        let seed = u64::from(version) << 8 | u64::from(*bytes.get(VALID_OFFSET)?);
        Some(xxh3_64_with_seed(content, seed))
    }

    /// Decodes a leaf; returns `None` if its bytes are of different moments.
    pub fn decode(&self, bytes: &[u8]) -> Option<SmartLeaf> {
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        if word(bytes.get(CHECKSUM)?)? != self.checksum(bytes)? {
            return None;
        }
        let (key, value) = bytes
            .get(KEY_OFFSET..self.lock_offset())?
            .split_at_checked(self.key_bytes)?;
        let word_of_successor = match self.has_successor {
            true => word(bytes.get(self.successor_offset()..)?)?,
            false => 0,
        };
        let successor = match word_of_successor {
            0 | REMOVED => None,
            bits => {
                let address = GlobalAddress::from_bits(bits);
                // No slot could lead there, so the word is damaged.
                if address.node().0 >= NODES || !address.offset().is_multiple_of(ALIGNMENT) {
                    return None;
                }
                Some(address)
            }
        };
        Some(SmartLeaf {
            reverse: GlobalAddress::from_bits(word(bytes.get(..VALID_OFFSET)?)?),
            valid: *bytes.get(VALID_OFFSET)? != 0 && word_of_successor != REMOVED,
            key: key.into(),
            value: value.to_vec(),
            lock: *bytes.get(self.lock_offset())?,
            successor,
        })
    }

    /// Encodes a leaf. Its key and value have the layout's lengths.
    pub fn encode(&self, leaf: &SmartLeaf) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend(leaf.reverse.to_bits().to_le_bytes());
        bytes.push(u8::from(leaf.valid));
        // Filled in at the end, because the checksum covers the version, which comes last.
        bytes.extend([0; 8]);
        bytes.extend(&leaf.key);
        bytes.extend(&leaf.value);
        bytes.push(leaf.lock);
        if self.has_successor {
            bytes.resize(self.successor_offset(), 0);
            let successor = leaf.successor.map_or(0, |successor| successor.to_bits());
            bytes.extend(successor.to_le_bytes());
        }
        let checksum = self.checksum(&bytes).unwrap_or_default();
        if let Some(place) = bytes.get_mut(CHECKSUM) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        debug_assert_eq!(bytes.len(), self.bytes(), "readers fetch this length");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    fn leaf(key_bytes: usize, value_bytes: usize) -> SmartLeaf {
        SmartLeaf {
            reverse: GlobalAddress::new(NodeId(3), 4096),
            valid: true,
            key: vec![7; key_bytes].into(),
            value: vec![9; value_bytes],
            lock: 5 << VERSION_SHIFT | LOCKED,
            successor: None,
        }
    }

    #[test]
    fn successors_come_back_and_removal_is_one() {
        let layout = SmartLeafLayout::copied(8, 8);
        assert_eq!((layout.successor_offset(), layout.bytes()), (40, 48));
        let mut replaced = leaf(8, 8);
        let mut bytes = layout.encode(&replaced);
        assert_eq!(layout.decode(&bytes), Some(replaced.clone()));
        replaced.successor = Some(GlobalAddress::new(NodeId(2), 512));
        assert_eq!(layout.decode(&layout.encode(&replaced)), Some(replaced));
        bytes[layout.successor_offset()] = REMOVED as u8;
        let removed = layout.decode(&bytes).expect("a leaf");
        assert_eq!((removed.valid, removed.successor), (false, None));
        // No leaf is there.
        bytes[layout.successor_offset()] = 2;
        assert_eq!(layout.decode(&bytes), None);
    }

    #[test]
    fn leaves_come_back_and_mixed_ones_do_not() {
        for (key_bytes, value_bytes) in [(8, 8), (1, 0), (100, 300)] {
            let layout = SmartLeafLayout::new(key_bytes, value_bytes);
            let leaf = leaf(key_bytes, value_bytes);
            let bytes = layout.encode(&leaf);
            assert_eq!(bytes.len(), 18 + key_bytes + value_bytes);
            assert_eq!(layout.decode(&bytes), Some(leaf));
            // The checksum covers all except the reverse pointer and the bits of the lock.
            for at in VALID_OFFSET..layout.lock_offset() {
                let mut mixed = bytes.clone();
                mixed[at] ^= 2;
                assert_eq!(layout.decode(&mixed), None, "byte {at}");
            }
            let mut unlocked = bytes.clone();
            unlocked[layout.lock_offset()] ^= LOCKED;
            assert!(layout.decode(&unlocked).is_some());
            let mut newer = bytes;
            newer[layout.lock_offset()] ^= 1 << VERSION_SHIFT;
            assert_eq!(layout.decode(&newer), None);
        }
    }

    #[test]
    fn locks_are_taken_by_version_and_freed_with_the_next() {
        let layout = SmartLeafLayout::new(8, 8);
        let at = |lock: u8| u64::from(lock) << 8 | 0xaa00_00bb;
        let version = 5 << VERSION_SHIFT;
        let swap = layout.lock_swap(version, !0);
        assert_eq!(swap.apply(at(version)), Some(at(version | LOCKED)));
        assert_eq!(swap.apply(at(version | LOCKED)), None);
        assert_eq!(swap.apply(at(version + (1 << VERSION_SHIFT))), None);
        let any = layout.lock_swap(0, LOCKED | DEAD);
        assert_eq!(any.apply(at(version)), Some(at(version | LOCKED)));
        assert_eq!(any.apply(at(version | DEAD)), None);
        assert_eq!(layout.lock_of(at(version)), version);
        let mut last = leaf(8, 8);
        last.lock = 63 << VERSION_SHIFT | LOCKED;
        assert_eq!(last.lock_after(), 0);
    }
}
