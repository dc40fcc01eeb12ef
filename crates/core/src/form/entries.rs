//! The entries that the scans of a batch have found, stored one after the other.

use super::{ByteStrings, EntryForm, Words};
use crate::OperationError;
use crate::packed::{PackedEntriesIter, PackedLengths};
use std::fmt::Debug;

/// A list of entries, in the layout that is cheapest for a scan to write.
pub trait EntryList<F: EntryForm>: Default + Debug + Clone + Send + Sync + 'static {
    /// Iterator over entries of the list.
    type Iter<'a>: ExactSizeIterator<Item = (F::Key<'a>, F::Value<'a>)>;

    /// Returns the position at which the next entry will be stored.
    fn end(&self) -> usize;
    /// Adds an entry.
    fn push(&mut self, key: F::Key<'_>, value: F::Value<'_>);
    /// Removes the entries from position `end` on, and keeps the memory.
    fn truncate(&mut self, end: usize);
    /// Reads `count` entries from position `start` on.
    fn read(&self, start: usize, count: usize) -> Self::Iter<'_>;
}

/// Pairs of words, side by side.
#[derive(Clone, Debug, Default)]
pub struct WordEntries(Vec<(u64, u64)>);

impl EntryList<Words> for WordEntries {
    type Iter<'a> = std::iter::Copied<std::slice::Iter<'a, (u64, u64)>>;

    #[inline]
    fn end(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn push(&mut self, key: u64, value: u64) {
        self.0.push((key, value));
    }
    fn truncate(&mut self, end: usize) {
        self.0.truncate(end);
    }
    #[inline]
    fn read(&self, start: usize, count: usize) -> Self::Iter<'_> {
        self.0[start..][..count].iter().copied()
    }
}

impl WordEntries {
    /// Adds entries.
    #[inline]
    pub(crate) fn extend(&mut self, entries: &[(u64, u64)]) {
        self.0.extend_from_slice(entries);
    }
}

/// [Packed](PackedEntriesIter) entries of byte strings.
#[derive(Clone, Debug, Default)]
pub struct PackedEntries {
    /// The entries, followed by bytes of no meaning.
    bytes: Vec<u8>,
    end: usize,
}

/// Most bytes by which the list grows beyond the requested size.
const GROWTH_MAX: usize = 64 << 10;

impl EntryList<ByteStrings> for PackedEntries {
    type Iter<'a> = PackedEntriesIter<'a>;

    #[inline]
    fn end(&self) -> usize {
        self.end
    }
    #[inline]
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let lengths = PackedLengths::new(key.len(), value.len());
        for part in [lengths.as_bytes(), key, value] {
            self.room(part.len()).copy_from_slice(part);
            self.end += part.len();
        }
    }
    fn truncate(&mut self, end: usize) {
        // The bytes stay, so that they need not be zeroed again.
        self.end = self.end.min(end);
    }
    #[inline]
    fn read(&self, start: usize, count: usize) -> PackedEntriesIter<'_> {
        PackedEntriesIter {
            // Up to the end of the list: only unpacking tells where the last of `count` entries
            // ends.
            bytes: &self.bytes[start..self.end],
            count,
        }
    }
}

impl PackedEntries {
    /// Returns `bytes` bytes of unspecified content behind the entries.
    #[inline]
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < bytes {
            // Out of line, because the list has room for most entries.
            self.grow(bytes);
        }
        &mut self.bytes[self.end..][..bytes]
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        // Doubled up to a limit: new bytes are zeroed, which costs more than to grow once again.
        let more = self.bytes.len().min(GROWTH_MAX);
        self.bytes.resize(self.end + bytes + more, 0);
    }

    /// Adds entries that have been packed into the first bytes of the room.
    #[inline]
    pub(crate) fn written(&mut self, bytes: usize) {
        self.end = self.bytes.len().min(self.end + bytes);
    }
}

/// Returns the error of a list that cannot grow to `end`.
pub(crate) fn too_long(end: usize) -> OperationError {
    OperationError::BatchTooLarge {
        size: end,
        unit: "bytes or entries of scans",
        limit: u32::MAX as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list is filled with pushed entries, with entries packed into the room, and with room
    /// that stays unused.
    #[test]
    fn a_list_returns_pushed_and_packed_entries() {
        let mut list = PackedEntries::default();
        for round in 0..3 {
            let mut expected = Vec::new();
            for i in 0..500_usize {
                let (key, value) = (vec![i as u8; i % 40], vec![round; i % 300]);
                if i % 3 == 0 {
                    list.push(&key, &value);
                } else {
                    let mut packed = PackedLengths::new(key.len(), value.len())
                        .as_bytes()
                        .to_vec();
                    packed.extend_from_slice(&key);
                    packed.extend_from_slice(&value);
                    list.room(packed.len() + i)[..packed.len()].copy_from_slice(&packed);
                    list.written(packed.len());
                }
                expected.push((key, value));
            }
            let read = list.read(0, expected.len());
            assert!(read.eq(expected.iter().map(|(key, value)| (&key[..], &value[..]))));
            list.truncate(0);
            assert_eq!(list.end(), 0);
        }
    }
}
