//! The applications' data, at the paper's sizes.
//!
//! Nodes are not stored: the bytes of each are computed from its address, so that a table of
//! billions of entries takes no memory. Every node is at the address where a real structure would
//! have it, and has the bytes that it would have. Programs walk them as they would walk real ones,
//! and their results are checked.

mod hash_table;
mod list;
mod ordered_table;
mod slabs;
mod time_series;
mod tree;

pub(super) use hash_table::{OBJECT_BYTES, PulseHashTable};
pub(super) use list::PulseList;
pub(super) use ordered_table::PulseOrderedTable;
pub(super) use slabs::Allocation;
pub(super) use time_series::PulseTimeSeries;
pub(super) use tree::KEYS_MAX;

use crate::workload::hash;
use nearfield_hardware::accelerator::{
    TableError, TranslationPermission, TranslationRange, TranslationTable,
};
use nearfield_offload::traversal::{AccessError, TraversalMemory};
use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes of a node.
pub(super) const NODE_BYTES: u64 = 256;

/// The content of a node.
pub(super) type Image = [u8; NODE_BYTES as usize];

/// Data with bytes that are computed from their addresses.
pub(super) trait NodeImageSource {
    /// Returns the bytes of the node at an address, if there is one.
    fn image(&self, address: u64) -> Option<Image>;

    /// Returns the addresses of each memory node.
    fn ranges(&self) -> Vec<std::ops::Range<u64>>;
}

/// Data, and the words that were stored since their creation.
#[derive(Debug)]
pub(super) struct GeneratedMemory<D> {
    pub data: D,
    words: RefCell<HashMap<u64, u64>>,
}

impl<D: NodeImageSource> GeneratedMemory<D> {
    pub(super) fn new(data: D) -> GeneratedMemory<D> {
        GeneratedMemory {
            data,
            words: RefCell::default(),
        }
    }

    fn is_within(&self, address: u64, bytes: u64) -> Result<(), AccessError> {
        let ranges = self.data.ranges();
        let range = ranges.iter().find(|range| range.contains(&address));
        let range = range.ok_or(AccessError::Absent)?;
        match address.checked_add(bytes) {
            Some(end) if end <= range.end => Ok(()),
            _ => Err(AccessError::Split),
        }
    }
}

impl<D: NodeImageSource> TraversalMemory for GeneratedMemory<D> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.is_within(address, into.len() as u64)?;
        let node = address & !(NODE_BYTES - 1);
        let image = self.data.image(node).ok_or(AccessError::Absent)?;
        let begin = (address - node) as usize;
        let bytes = image
            .get(begin..begin + into.len())
            .ok_or(AccessError::Split)?;
        into.copy_from_slice(bytes);
        let words = self.words.borrow();
        if !words.is_empty() {
            for (number, to) in into.chunks_exact_mut(8).enumerate() {
                if let Some(word) = words.get(&(address + 8 * number as u64)) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError> {
        self.is_within(address, bytes as u64)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.is_within(address, bytes.len() as u64)?;
        // Programs store only whole words here.
        debug_assert!(address.is_multiple_of(8) && bytes.len().is_multiple_of(8));
        for (number, bytes) in bytes.chunks_exact(8).enumerate() {
            let word = bytes.try_into().map(u64::from_le_bytes);
            let at = address + 8 * number as u64;
            self.words.borrow_mut().insert(at, word.unwrap_or_default());
        }
        Ok(())
    }
}

/// Creates the translation table of one memory node.
pub(super) fn table(range: &std::ops::Range<u64>) -> Result<TranslationTable, TableError> {
    let permission = TranslationPermission::ReadWrite;
    let (start, end) = (range.start, range.end);
    TranslationTable::new(vec![TranslationRange {
        start,
        end,
        permission,
    }])
}

/// Writes a word of an image.
pub(super) fn put(image: &mut Image, at: u64, word: u64) {
    let at = at as usize;
    debug_assert!(at + 8 <= image.len(), "a word at {at} is outside the node");
    if let Some(bytes) = image.get_mut(at..at + 8) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
