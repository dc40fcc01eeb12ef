//! The entries that the scans of a batch have found, one behind the other.

use super::{Bytes, Form, Words};
use crate::Error;
use crate::packed::{Packed, PackedLengths};
use std::fmt::Debug;

/// A list of entries, in the form that costs a scan least.
pub trait EntryList<F: Form>: Default + Debug + Clone + Send + Sync + 'static {
    /// Reads entries of the list.
    type Iter<'a>: ExactSizeIterator<Item = (F::Key<'a>, F::Value<'a>)>;

    /// Where the next entry will stand.
    fn end(&self) -> usize;
    /// Adds an entry.
    fn push(&mut self, key: F::Key<'_>, value: F::Value<'_>);
    /// Removes the entries from a position on, and keeps the memory.
    fn truncate(&mut self, end: usize);
    /// Reads `count` entries that stand from a place on.
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

/// [Packed] entries of byte strings.
#[derive(Clone, Debug, Default)]
pub struct PackedEntries(Vec<u8>);

impl EntryList<Bytes> for PackedEntries {
    type Iter<'a> = Packed<'a>;

    #[inline]
    fn end(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let lengths = PackedLengths::new(key.len(), value.len());
        self.0.extend_from_slice(lengths.as_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value);
    }
    fn truncate(&mut self, end: usize) {
        self.0.truncate(end);
    }
    #[inline]
    fn read(&self, start: usize, count: usize) -> Packed<'_> {
        Packed {
            bytes: &self.0[start..],
            count,
        }
    }
}

impl PackedEntries {
    /// Adds entries that are packed already.
    #[inline]
    pub(crate) fn extend(&mut self, packed: &[u8]) {
        self.0.extend_from_slice(packed);
    }
}

/// Why a list cannot be continued at a place.
pub(crate) fn too_long(end: usize) -> Error {
    Error::BatchTooLarge {
        size: end,
        unit: "bytes or entries met by scans",
        limit: u32::MAX as usize,
    }
}
