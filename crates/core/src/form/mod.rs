//! The two forms of an entry: byte strings, and words of 8 bytes, which avoid the cost of variable
//! lengths.

mod entries;

pub(crate) use entries::too_long;
pub use entries::{EntryList, PackedEntries, WordEntries};

use crate::OperationError;
use std::fmt::Debug;

/// The longest key, in bytes: 64 KiB.
pub const MAX_KEY_BYTES: usize = 64 * 1024;

/// The longest value, in bytes: 512 MiB.
pub const MAX_VALUE_BYTES: usize = 512 * 1024 * 1024;

/// The form of an index's keys and values. The set is closed: [`ByteStrings`] and [`Words`].
///
/// A batch stores keys and values in its own form: words inline, byte strings as an [`ArenaSpan`]
/// of the batch's arena.
pub trait EntryForm: Copy + Debug + Default + Send + Sync + 'static {
    /// A key as it is given and returned.
    type Key<'a>: Copy + Ord + Debug + Send + Sync;
    /// A value as it is given and returned.
    type Value<'a>: Copy + Ord + Debug + Send + Sync;
    /// A key that owns its bytes.
    type OwnedKey: Clone + Ord + Debug + Send + Sync + 'static;
    /// A value that owns its bytes.
    type OwnedValue: Clone + Ord + Debug + Send + Sync + 'static;
    /// A key as a batch stores it.
    type StoredKey: Copy + Debug + Send + Sync + 'static;
    /// A value as a batch stores it.
    type StoredValue: Copy + Debug + Send + Sync + 'static;
    /// Storage of a batch for the bytes that do not fit inline.
    type Arena: Default + Debug + Clone + Send + Sync + 'static;
    /// Storage of a batch for the entries that its scans found.
    type Entries: EntryList<Self>;

    /// Borrows an owned key.
    fn key(owned: &Self::OwnedKey) -> Self::Key<'_>;
    /// Borrows an owned value.
    fn value(owned: &Self::OwnedValue) -> Self::Value<'_>;
    /// Returns the same key with a shorter lifetime.
    fn shorten_key<'s, 'l: 's>(key: Self::Key<'l>) -> Self::Key<'s>;
    /// Returns the same value with a shorter lifetime.
    fn shorten_value<'s, 'l: 's>(value: Self::Value<'l>) -> Self::Value<'s>;
    /// Returns the first bytes of a value, at most `bytes` of them. A word stays whole.
    fn first_bytes<'v>(value: Self::Value<'v>, bytes: usize) -> Self::Value<'v>;
    /// Copies a key.
    fn own_key(key: Self::Key<'_>) -> Self::OwnedKey;
    /// Copies a value.
    fn own_value(value: Self::Value<'_>) -> Self::OwnedValue;

    /// Checks the lengths of a key and, if given, its value.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`.
    fn check(key: Self::Key<'_>, value: Option<Self::Value<'_>>) -> Result<(), OperationError>;

    /// Stores a key in a batch's arena.
    ///
    /// # Errors
    /// `KeyTooLong`; `BatchTooLarge` when the arena is full.
    fn store_key(
        arena: &mut Self::Arena,
        key: Self::Key<'_>,
    ) -> Result<Self::StoredKey, OperationError>;
    /// Stores a value in a batch's arena; `key` is used in the error message.
    ///
    /// # Errors
    /// `ValueTooLong`; `BatchTooLarge` when the arena is full.
    fn store_value(
        arena: &mut Self::Arena,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
    ) -> Result<Self::StoredValue, OperationError>;
    /// Reads a key that `store_key` has put into `arena`.
    fn load_key(arena: &Self::Arena, stored: Self::StoredKey) -> Self::Key<'_>;
    /// Reads a value that `store_value` has put into `arena`.
    fn load_value(arena: &Self::Arena, stored: Self::StoredValue) -> Self::Value<'_>;
    /// Empties an arena and keeps its memory.
    fn clear(arena: &mut Self::Arena);
}

/// Keys and values of 8 bytes: `u64`, ordered as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words;

/// Keys and values that are byte strings; keys are ordered as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteStrings;

/// A byte string within a batch's arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaSpan {
    start: u32,
    length: u32,
}

impl ArenaSpan {
    /// Creates the span of `length` bytes from offset `start` on.
    #[inline]
    pub fn new(start: usize, length: usize) -> ArenaSpan {
        // An arena has less than 2^32 bytes.
        ArenaSpan {
            start: start as u32,
            length: length as u32,
        }
    }

    /// Returns the offset of the first byte.
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn length(self) -> usize {
        self.length as usize
    }

    /// Returns the span extended by the byte before it, which must exist.
    #[inline]
    #[must_use]
    pub fn with_byte_before(self) -> ArenaSpan {
        ArenaSpan {
            start: self.start - 1,
            length: self.length + 1,
        }
    }

    #[inline]
    pub(crate) fn store(arena: &mut Vec<u8>, bytes: &[u8]) -> Result<ArenaSpan, OperationError> {
        // With 32 bits for each half, a span is as short as a word.
        let end = arena.len() + bytes.len();
        if end > u32::MAX as usize {
            return Err(arena_too_large(end));
        }
        let start = arena.len() as u32;
        match bytes.first_chunk::<8>() {
            // Values often have eight bytes, which are copied without a call.
            Some(bytes) if end - start as usize == 8 => arena.extend_from_slice(bytes),
            _ => arena.extend_from_slice(bytes),
        }
        Ok(ArenaSpan {
            start,
            length: bytes.len() as u32,
        })
    }

    #[inline]
    pub(crate) fn load(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..][..self.length as usize]
    }
}

#[cold]
fn arena_too_large(size: usize) -> OperationError {
    OperationError::BatchTooLarge {
        size,
        unit: "bytes",
        limit: u32::MAX as usize,
    }
}

#[cold]
fn key_too_long(key: &[u8]) -> OperationError {
    OperationError::KeyTooLong {
        start: OperationError::shorten(key),
        length: key.len(),
        limit: MAX_KEY_BYTES,
    }
}

#[cold]
fn value_too_long(key: &[u8], value: &[u8]) -> OperationError {
    OperationError::ValueTooLong {
        key: OperationError::shorten(key),
        length: value.len(),
        limit: MAX_VALUE_BYTES,
    }
}

impl EntryForm for Words {
    type Key<'a> = u64;
    type Value<'a> = u64;
    type OwnedKey = u64;
    type OwnedValue = u64;
    type StoredKey = u64;
    type StoredValue = u64;
    type Arena = ();
    type Entries = WordEntries;

    fn key(owned: &u64) -> u64 {
        *owned
    }
    fn value(owned: &u64) -> u64 {
        *owned
    }
    #[inline]
    fn shorten_key<'s, 'l: 's>(key: Self::Key<'l>) -> Self::Key<'s> {
        key
    }
    #[inline]
    fn shorten_value<'s, 'l: 's>(value: Self::Value<'l>) -> Self::Value<'s> {
        value
    }
    #[inline]
    fn first_bytes<'v>(value: Self::Value<'v>, _bytes: usize) -> Self::Value<'v> {
        value
    }
    fn own_key(key: u64) -> u64 {
        key
    }
    fn own_value(value: u64) -> u64 {
        value
    }
    #[inline]
    fn check(_key: u64, _value: Option<u64>) -> Result<(), OperationError> {
        Ok(())
    }
    #[inline]
    fn store_key((): &mut (), key: u64) -> Result<u64, OperationError> {
        Ok(key)
    }
    #[inline]
    fn store_value((): &mut (), _key: u64, value: u64) -> Result<u64, OperationError> {
        Ok(value)
    }
    #[inline]
    fn load_key((): &(), stored: u64) -> u64 {
        stored
    }
    #[inline]
    fn load_value((): &(), stored: u64) -> u64 {
        stored
    }
    fn clear((): &mut ()) {}
}

impl EntryForm for ByteStrings {
    type Key<'a> = &'a [u8];
    type Value<'a> = &'a [u8];
    type OwnedKey = Vec<u8>;
    type OwnedValue = Vec<u8>;
    type StoredKey = ArenaSpan;
    type StoredValue = ArenaSpan;
    type Arena = Vec<u8>;
    type Entries = PackedEntries;

    fn key(owned: &Vec<u8>) -> &[u8] {
        owned
    }
    fn value(owned: &Vec<u8>) -> &[u8] {
        owned
    }
    #[inline]
    fn shorten_key<'s, 'l: 's>(key: Self::Key<'l>) -> Self::Key<'s> {
        key
    }
    #[inline]
    fn shorten_value<'s, 'l: 's>(value: Self::Value<'l>) -> Self::Value<'s> {
        value
    }
    #[inline]
    fn first_bytes<'v>(value: Self::Value<'v>, bytes: usize) -> Self::Value<'v> {
        value.get(..bytes).unwrap_or(value)
    }
    fn own_key(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
    fn own_value(value: &[u8]) -> Vec<u8> {
        value.to_vec()
    }
    #[inline]
    fn check(key: &[u8], value: Option<&[u8]>) -> Result<(), OperationError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(key_too_long(key));
        }
        match value {
            Some(value) if value.len() > MAX_VALUE_BYTES => Err(value_too_long(key, value)),
            _ => Ok(()),
        }
    }
    #[inline]
    fn store_key(arena: &mut Vec<u8>, key: &[u8]) -> Result<ArenaSpan, OperationError> {
        Self::check(key, None)?;
        ArenaSpan::store(arena, key)
    }
    #[inline]
    fn store_value(
        arena: &mut Vec<u8>,
        key: &[u8],
        value: &[u8],
    ) -> Result<ArenaSpan, OperationError> {
        Self::check(key, Some(value))?;
        ArenaSpan::store(arena, value)
    }
    #[inline]
    fn load_key(arena: &Vec<u8>, stored: ArenaSpan) -> &[u8] {
        stored.load(arena)
    }
    #[inline]
    fn load_value(arena: &Vec<u8>, stored: ArenaSpan) -> &[u8] {
        stored.load(arena)
    }
    fn clear(arena: &mut Vec<u8>) {
        arena.clear();
    }
}
