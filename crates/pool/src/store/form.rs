//! The entries of a store in a tree, in which all keys have one length and all values have one
//! length.
//!
//! ```text
//! key of a slot   | key | zeros | length of key and one: 1, or 2 from 255 bytes on, big-endian |
//! value of a slot | length 1 | value | zeros |                   as long as values are kept inline
//!                 | 255 | length 4 | address 8 | zeros |         of a block of its own
//! ```
//!
//! A key and the same key followed by zeros differ only in their length, which orders them. No key
//! of a slot is all zeros, which marks empty slots of a tree. Words have values of eight bytes, and
//! no other fields.

use super::StoreOptions;
use crate::error::PoolError;
use nearfield_core::{ByteStrings, EntryForm, MAX_VALUE_BYTES, Words};
use nearfield_fabric::{GlobalAddress, LINE_BYTES};

/// The length of a word in bytes.
const WORD: usize = 8;
/// Marker in place of a length: the value is in a block.
const IN_BLOCK: u8 = u8::MAX;
/// Number of bytes that describe a block.
const BLOCK_BYTES: usize = 12;

/// A form of entries that a store can keep: [`ByteStrings`] or [`Words`].
pub trait PoolEntryForm: EntryForm {
    /// The bytes of a key, in their order.
    #[doc(hidden)]
    type KeyBytes<'a>: AsRef<[u8]>;
    /// The bytes of a value.
    #[doc(hidden)]
    type ValueBytes<'a>: AsRef<[u8]>;
    /// True if all keys and values are words.
    #[doc(hidden)]
    const IS_WORDS: bool;

    #[doc(hidden)]
    fn key_bytes<'a>(key: Self::Key<'a>) -> Self::KeyBytes<'a>;
    #[doc(hidden)]
    fn value_bytes<'a>(value: Self::Value<'a>) -> Self::ValueBytes<'a>;
    #[doc(hidden)]
    fn key_of(bytes: &[u8]) -> Self::Key<'_>;
    #[doc(hidden)]
    fn value_of(bytes: &[u8]) -> Self::Value<'_>;
}

impl PoolEntryForm for ByteStrings {
    type KeyBytes<'a> = &'a [u8];
    type ValueBytes<'a> = &'a [u8];
    const IS_WORDS: bool = false;

    fn key_bytes<'a>(key: Self::Key<'a>) -> Self::KeyBytes<'a> {
        key
    }
    fn value_bytes<'a>(value: Self::Value<'a>) -> Self::ValueBytes<'a> {
        value
    }
    fn key_of(bytes: &[u8]) -> &[u8] {
        bytes
    }
    fn value_of(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

impl PoolEntryForm for Words {
    type KeyBytes<'a> = [u8; WORD];
    type ValueBytes<'a> = [u8; WORD];
    const IS_WORDS: bool = true;

    fn key_bytes<'a>(key: Self::Key<'a>) -> Self::KeyBytes<'a> {
        key.to_be_bytes()
    }
    fn value_bytes<'a>(value: Self::Value<'a>) -> Self::ValueBytes<'a> {
        value.to_le_bytes()
    }
    fn key_of(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(word(bytes))
    }
    fn value_of(bytes: &[u8]) -> u64 {
        u64::from_le_bytes(word(bytes))
    }
}

/// Returns the bytes of a word; all slots have the same number.
fn word(bytes: &[u8]) -> [u8; WORD] {
    let mut word = [0; WORD];
    word.copy_from_slice(bytes);
    word
}

/// A value outside of its slot: written once, before a slot refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreValueBlock {
    pub address: GlobalAddress,
    pub bytes: u32,
}

impl StoreValueBlock {
    /// Refuses a block that no client has written: the slot that refers to it is damaged.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn check(self) -> Result<(), PoolError> {
        let StoreValueBlock { address, bytes } = self;
        let is_one = !address.is_null()
            && address.offset().is_multiple_of(LINE_BYTES)
            && bytes as usize <= MAX_VALUE_BYTES;
        if is_one {
            Ok(())
        } else {
            Err(PoolError::Damaged { at: address })
        }
    }
}

/// The value in a slot, or the block that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreSlotValue<'s> {
    Inline(&'s [u8]),
    Outside(StoreValueBlock),
}

/// A codec of keys and values for slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codec {
    /// The longest key, in bytes.
    pub key_bytes_max: usize,
    /// The longest value that is kept inline; `None` if all values are words.
    inline_bytes_max: Option<usize>,
}

impl Codec {
    pub fn new<F: PoolEntryForm>(options: &StoreOptions) -> Codec {
        if F::IS_WORDS {
            return Codec {
                key_bytes_max: WORD,
                inline_bytes_max: None,
            };
        }
        let inline = options.inline_bytes_max;
        Codec {
            key_bytes_max: options.key_bytes_max,
            inline_bytes_max: Some(inline.clamp(BLOCK_BYTES, usize::from(IN_BLOCK) - 1)),
        }
    }

    /// Returns the last byte of all slots' keys, if keys and values are words.
    pub fn word_suffix(&self) -> Option<u8> {
        self.inline_bytes_max.is_none().then_some(WORD as u8 + 1)
    }

    /// Returns the length of a slot's key.
    pub fn slot_key_bytes(&self) -> usize {
        self.key_bytes_max + self.suffix_bytes()
    }

    /// Returns the length of a slot's value.
    pub fn slot_value_bytes(&self) -> usize {
        self.inline_bytes_max.map_or(WORD, |inline| 1 + inline)
    }

    /// Returns the number of bytes for the length of the longest key and one.
    fn suffix_bytes(&self) -> usize {
        if self.key_bytes_max < usize::from(u8::MAX) {
            1
        } else {
            2
        }
    }

    /// Returns the key of a slot, for a key that is not too long.
    #[inline]
    pub fn encode_key(&self, key: &[u8]) -> SlotKey {
        debug_assert!(
            key.len() <= self.key_bytes_max,
            "the length has a place of its own"
        );
        let mut slot = SlotKey::zero(self.slot_key_bytes());
        slot[..key.len()].copy_from_slice(key);
        // The length and one: the slot of the empty key is not all zeros, which mark an empty slot.
        let suffix = (key.len() as u16 + 1).to_be_bytes();
        slot[self.key_bytes_max..].copy_from_slice(&suffix[2 - self.suffix_bytes()..]);
        slot
    }

    /// Returns the key that a slot's key stands for.
    pub fn decode_key<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        let (key, suffix) = slot.split_at(self.key_bytes_max);
        if self.word_suffix().is_some() {
            // All words have one length, whatever the suffix is.
            return key;
        }
        let suffix = suffix
            .iter()
            .fold(0, |all, &byte| all << 8 | usize::from(byte));
        // Memory may be damaged, and no length in it leads beyond the key.
        &key[..suffix.saturating_sub(1).min(key.len())]
    }

    /// Decodes the value of a slot.
    pub fn decode_value<'s>(&self, slot: &'s [u8]) -> StoreSlotValue<'s> {
        if self.inline_bytes_max.is_none() {
            return StoreSlotValue::Inline(slot);
        }
        let (length, rest) = (slot[0], &slot[1..]);
        if length != IN_BLOCK {
            return StoreSlotValue::Inline(&rest[..usize::from(length).min(rest.len())]);
        }
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&rest[..4]);
        StoreSlotValue::Outside(StoreValueBlock {
            address: GlobalAddress::from_bits(u64::from_le_bytes(word(&rest[4..BLOCK_BYTES]))),
            bytes: u32::from_le_bytes(bytes),
        })
    }

    /// Returns true if a value does not fit in a slot.
    pub fn is_outside(&self, value: &[u8]) -> bool {
        self.inline_bytes_max
            .is_some_and(|inline| value.len() > inline)
    }

    /// Returns the value of a slot that has room for it.
    pub fn encode_inline(&self, value: &[u8]) -> Vec<u8> {
        debug_assert!(!self.is_outside(value));
        let mut slot = vec![0; self.slot_value_bytes()];
        if self.inline_bytes_max.is_none() {
            slot.copy_from_slice(value);
        } else {
            slot[0] = value.len() as u8;
            slot[1..=value.len()].copy_from_slice(value);
        }
        slot
    }

    /// Returns the value of a slot that refers to a block.
    pub fn encode_block(&self, block: StoreValueBlock) -> Vec<u8> {
        debug_assert!(self.inline_bytes_max.is_some(), "words have no blocks");
        let mut slot = vec![0; self.slot_value_bytes()];
        slot[0] = IN_BLOCK;
        slot[1..5].copy_from_slice(&block.bytes.to_le_bytes());
        slot[5..=BLOCK_BYTES].copy_from_slice(&block.address.to_bits().to_le_bytes());
        slot
    }
}

/// Number of bytes up to which a slot's key is stored without an allocation.
const SHORT: usize = 24;

/// The key of a slot.
#[derive(Clone, Debug)]
pub(super) enum SlotKey {
    Short { bytes: [u8; SHORT], length: u8 },
    Long(Box<[u8]>),
}

impl SlotKey {
    #[inline]
    pub fn zero(length: usize) -> SlotKey {
        if length <= SHORT {
            SlotKey::Short {
                bytes: [0; SHORT],
                length: length as u8,
            }
        } else {
            SlotKey::Long(vec![0; length].into())
        }
    }

    /// Returns the key behind it; `None` if it is the last.
    pub fn next(mut self) -> Option<SlotKey> {
        for byte in self.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return Some(self);
            }
        }
        None
    }

    /// Returns the key before it; `None` if it is the first.
    pub fn previous(mut self) -> Option<SlotKey> {
        for byte in self.iter_mut().rev() {
            *byte = byte.wrapping_sub(1);
            if *byte != u8::MAX {
                return Some(self);
            }
        }
        None
    }
}

impl std::ops::Deref for SlotKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SlotKey::Short { bytes, length } => &bytes[..usize::from(*length)],
            SlotKey::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for SlotKey {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::ops::DerefMut for SlotKey {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            SlotKey::Short { bytes, length } => &mut bytes[..usize::from(*length)],
            SlotKey::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    fn codec(key_bytes_max: usize, inline_bytes_max: usize) -> Codec {
        Codec::new::<ByteStrings>(&StoreOptions {
            key_bytes_max,
            inline_bytes_max,
            ..StoreOptions::default()
        })
    }

    /// All keys of up to four bytes of few letters keep their order, and so do long ones near the
    /// lengths at which the suffix grows.
    #[test]
    fn keys_of_slots_are_ordered_as_keys_and_never_all_zeros() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for from in 0..=3 {
            let longest: Vec<_> = keys
                .iter()
                .filter(|key| key.len() == from)
                .cloned()
                .collect();
            for key in longest {
                for letter in [0, 1, 0xff] {
                    keys.push([&key[..], &[letter]].concat());
                }
            }
        }
        for max in [4, 254, 255, 256, 300] {
            let codec = codec(max, 12);
            let mut keys = keys.clone();
            keys.extend([max - 1, max].map(|length| vec![0; length]));
            keys.extend([max - 1, max].map(|length| vec![0xff; length]));
            keys.sort();
            keys.dedup();
            let slots: Vec<_> = keys.iter().map(|key| codec.encode_key(key)).collect();
            for (key, slot) in keys.iter().zip(&slots) {
                assert_eq!(codec.decode_key(slot), key);
                assert_eq!(slot.len(), codec.slot_key_bytes());
                assert!(slot.iter().any(|&byte| byte != 0));
            }
            assert!(slots.windows(2).all(|pair| pair[0][..] < pair[1][..]));
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        for inline in [0, 12, 20, 254, 1000] {
            let codec = codec(8, inline);
            let room = codec.slot_value_bytes() - 1;
            for length in [0, 1, 12, room] {
                let value = vec![7; length];
                assert!(!codec.is_outside(&value));
                let slot = codec.encode_inline(&value);
                assert_eq!(codec.decode_value(&slot), StoreSlotValue::Inline(&value));
            }
            assert!(codec.is_outside(&vec![7; room + 1]));
            let block = StoreValueBlock {
                address: GlobalAddress::new(NodeId(3), 0x1234_5678_9a40),
                bytes: 0xfedc_ba98,
            };
            let slot = codec.encode_block(block);
            assert_eq!(codec.decode_value(&slot), StoreSlotValue::Outside(block));
            assert_eq!(slot.len(), codec.slot_value_bytes());
        }
        let words = Codec::new::<Words>(&StoreOptions::default());
        for suffix in [0, 1, 9, 255] {
            let slot = [&7_u64.to_be_bytes()[..], &[suffix]].concat();
            assert_eq!(Words::key_of(words.decode_key(&slot)), 7);
        }
        let slot = words.encode_inline(&Words::value_bytes(u64::MAX));
        assert_eq!(
            words.decode_value(&slot),
            StoreSlotValue::Inline(&[0xff; 8])
        );
    }

    #[test]
    fn slots_have_neighbours_but_for_the_ends() {
        for length in [2, 30] {
            let mut key = SlotKey::zero(length);
            assert!(key.clone().previous().is_none());
            key[length - 1] = 0xff;
            let next = key.clone().next().expect("not the last");
            assert_eq!(next[length - 2..], [1, 0]);
            assert_eq!(next.previous().expect("not the first")[..], key[..]);
            key.fill(0xff);
            assert!(key.next().is_none());
        }
    }
}
