//! The entries of a store in a tree, in which all keys have one length and all values have one
//! length.
//!
//! ```text
//! key of a slot   | key | zeros | length of key and one: 1, or 2 from 255 bytes on, big-endian |
//!                 | beginning of a long key | greatest length | hash of the rest: 0 to 4        |
//! value of a slot | length 1 | value | zeros |                   as long as values are kept inline
//!                 | 255 | length 4 | address 8 | zeros |         of a block of its own
//! ```
//!
//! A key and the same key followed by zeros differ only in their length, which orders them. No key
//! of a slot is all zeros, which marks empty slots of a tree. Words have values of eight bytes, and
//! no other fields.
//!
//! A store may keep only the beginning of a long key in its slot. The length there is one more than
//! that of all keys which fit, so that long keys follow their beginning. The hash distinguishes
//! long keys of one beginning, and the block of the slot holds their rests and values
//! ([`long_keys`](super::long_keys)). Slots of keys that fit have zeros in place of the hash.

use super::{KEY_BYTES_MAX, StoreOptions, long_keys};
use crate::error::PoolError;
use nearfield_core::{ByteStrings, EntryForm, MAX_VALUE_BYTES, Words};
use nearfield_fabric::{GlobalAddress, LINE_BYTES};
use xxhash_rust::xxh3::xxh3_64;

/// The length of a word in bytes.
const WORD: usize = 8;
/// Marker in place of a length: the value is in a block.
const IN_BLOCK: u8 = u8::MAX;
/// Number of bytes that describe a block.
const BLOCK_BYTES: usize = 12;
/// Maximum number of bytes of the hash in the slot of a long key.
const HASH_BYTES_MAX: usize = 4;
/// Maximum length of a block in bytes: of a value, or of a long key with its value.
pub(super) const BLOCK_LENGTH_MAX: usize = MAX_VALUE_BYTES + KEY_BYTES_MAX + long_keys::FIELD_BYTES;

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
            && bytes as usize <= BLOCK_LENGTH_MAX;
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
    /// The longest key that its slot holds as a whole, in bytes. Longer ones have blocks.
    kept_bytes: usize,
    /// The number of bytes of the hash in the slots of long keys.
    hash_bytes: usize,
    /// The longest value that is kept inline; `None` if all values are words.
    inline_bytes_max: Option<usize>,
}

impl Codec {
    pub fn new<F: PoolEntryForm>(options: &StoreOptions) -> Codec {
        if F::IS_WORDS {
            return Codec {
                key_bytes_max: WORD,
                kept_bytes: WORD,
                hash_bytes: 0,
                inline_bytes_max: None,
            };
        }
        let inline = options.inline_bytes_max;
        let key_bytes_max = options.key_bytes_max;
        let kept = options.key_slot_bytes.unwrap_or(key_bytes_max);
        let has_long_keys = kept < key_bytes_max;
        Codec {
            key_bytes_max,
            kept_bytes: kept.min(key_bytes_max),
            hash_bytes: match has_long_keys {
                true => options.key_hash_bytes.min(HASH_BYTES_MAX),
                false => 0,
            },
            inline_bytes_max: Some(inline.clamp(BLOCK_BYTES, usize::from(IN_BLOCK) - 1)),
        }
    }

    /// Returns the last byte of all slots' keys, if keys and values are words.
    pub fn word_suffix(&self) -> Option<u8> {
        self.inline_bytes_max.is_none().then_some(WORD as u8 + 1)
    }

    /// Returns the length of a slot's key.
    pub fn slot_key_bytes(&self) -> usize {
        self.kept_bytes + self.suffix_bytes() + self.hash_bytes
    }

    /// Returns true if keys may be longer than those that slots hold.
    pub fn has_long_keys(&self) -> bool {
        self.kept_bytes < self.key_bytes_max
    }

    /// Returns the form of keys as a number, which all users of a store share: 0 if slots hold all
    /// keys.
    pub fn key_form(&self) -> u64 {
        match self.has_long_keys() {
            true => 1 + self.kept_bytes as u64 + ((self.hash_bytes as u64) << 16),
            false => 0,
        }
    }

    /// Returns the rest of a long key, which its slot does not hold.
    pub fn rest<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(self.kept_bytes..).filter(|rest| !rest.is_empty())
    }

    /// Returns the value of a key, if there is one, from what its slot or its block holds.
    pub fn value_of_key<'v>(&self, key: &[u8], held: Option<&'v [u8]>) -> Option<&'v [u8]> {
        match self.rest(key) {
            Some(rest) => long_keys::find(held?, rest),
            None => held,
        }
    }

    /// Returns true if the slot is one of long keys.
    pub fn is_long(&self, slot: &[u8]) -> bool {
        self.has_long_keys() && self.suffix(slot) > self.kept_bytes + 1
    }

    /// Returns the bytes that all slots of long keys with the same beginning have in common. The
    /// beginning comes first.
    pub fn family<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        &slot[..self.kept_bytes + self.suffix_bytes()]
    }

    /// Returns the beginning of the long keys of a slot.
    pub fn beginning<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        &slot[..self.kept_bytes]
    }

    /// Returns the first or the last slot of a [family](Codec::family): with this byte in place of
    /// the hash.
    pub fn end_of_family(&self, family: &[u8], byte: u8) -> SlotKey {
        let mut slot = SlotKey::zero(self.slot_key_bytes());
        slot[..family.len()].copy_from_slice(family);
        slot[family.len()..].fill(byte);
        slot
    }

    /// Returns the length field of a slot.
    fn suffix(&self, slot: &[u8]) -> usize {
        let bytes = slot[self.kept_bytes..].iter().take(self.suffix_bytes());
        bytes.fold(0, |all, &byte| all << 8 | usize::from(byte))
    }

    /// Returns the length of a slot's value.
    pub fn slot_value_bytes(&self) -> usize {
        self.inline_bytes_max.map_or(WORD, |inline| 1 + inline)
    }

    /// Returns the number of bytes for the greatest length field.
    fn suffix_bytes(&self) -> usize {
        let greatest = self.kept_bytes + 1 + usize::from(self.has_long_keys());
        if greatest <= usize::from(u8::MAX) {
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
        let kept = key.len().min(self.kept_bytes);
        slot[..kept].copy_from_slice(&key[..kept]);
        // The length and one: the slot of the empty key is not all zeros, which mark an empty slot.
        let suffix = (key.len().min(self.kept_bytes + 1) as u16 + 1).to_be_bytes();
        let suffix = &suffix[2 - self.suffix_bytes()..];
        let hash_at = self.kept_bytes + suffix.len();
        slot[self.kept_bytes..hash_at].copy_from_slice(suffix);
        if let Some(rest) = self.rest(key) {
            let hash = (xxh3_64(rest) as u32).to_be_bytes();
            slot[hash_at..].copy_from_slice(&hash[HASH_BYTES_MAX - self.hash_bytes..]);
        }
        slot
    }

    /// Returns the key that a slot's key stands for: the beginning of long ones.
    pub fn decode_key<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        let key = self.beginning(slot);
        if self.word_suffix().is_some() {
            // All words have one length, whatever the suffix is.
            return key;
        }
        // Memory may be damaged, and no length in it leads beyond the key.
        &key[..self.suffix(slot).saturating_sub(1).min(key.len())]
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

    /// Slots have the order of keys as far as they hold them, and long keys follow all keys that
    /// are their beginnings.
    #[test]
    fn slots_of_long_keys_follow_those_of_their_beginnings() {
        for (kept, hash) in [(0, 4), (2, 0), (2, 1), (253, 2), (254, 4), (300, 9)] {
            let options = StoreOptions {
                key_bytes_max: 400,
                key_slot_bytes: Some(kept),
                key_hash_bytes: hash,
                ..StoreOptions::default()
            };
            let codec = Codec::new::<ByteStrings>(&options);
            assert!(codec.has_long_keys() && codec.key_form() != 0);
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for letter in [0, 1, 0xff] {
                for length in [0, 1, 2, 3, 252, 253, 254, 255, 299, 300, 301, 400] {
                    keys.push(vec![letter; length]);
                    keys.push([vec![letter; length.min(399)], vec![7]].concat());
                }
            }
            keys.sort();
            keys.dedup();
            let slots: Vec<_> = keys.iter().map(|key| codec.encode_key(key)).collect();
            for (key, slot) in keys.iter().zip(&slots) {
                assert_eq!(slot.len(), codec.slot_key_bytes());
                assert!(slot.iter().any(|&byte| byte != 0));
                assert_eq!(codec.is_long(slot), key.len() > kept);
                assert_eq!(codec.rest(key).is_some(), key.len() > kept);
                assert_eq!(codec.decode_key(slot), &key[..key.len().min(kept)]);
                let family = codec.family(slot);
                let ends = [0, 0xff].map(|byte| codec.end_of_family(family, byte));
                assert!(key.len() <= kept || ends[0][..] <= slot[..] && slot[..] <= ends[1][..]);
            }
            for (pair, keys) in slots.windows(2).zip(keys.windows(2)) {
                let is_one_family =
                    codec.is_long(&pair[0]) && codec.family(&pair[0]) == codec.family(&pair[1]);
                assert!(is_one_family || pair[0][..] < pair[1][..], "{keys:?}");
            }
        }
        let whole = StoreOptions {
            key_slot_bytes: Some(32),
            ..StoreOptions::default()
        };
        let (whole, default) = (
            Codec::new::<ByteStrings>(&whole),
            Codec::new::<ByteStrings>(&StoreOptions::default()),
        );
        assert_eq!((whole, whole.key_form()), (default, 0));
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
