//! A tier of compressed memory.
//!
//! Small values are stored together in *blocks*, each compressed as a whole with a
//! [dictionary](dictionary) that was trained on earlier values. A value is found by the number of
//! its block and its number within it. When values of a block are released, their bytes stay until
//! less than three quarters of the block are in use. Then the tier
//! [asks](CompressedTier::wants_rewrite) the store to put the rest into other blocks. With a bound
//! of a half, values that are overwritten at random leave a quarter of the tier to released bytes.
//! While threads wait for room the bound is a half nevertheless, as long as the tier has room:
//! three bytes are compressed for each that the higher bound gives back, and one for the lower.
//!
//! Uncompressed blocks of 4 KiB are a compromise, measured with zstd's level 6 and dictionaries of
//! 512 KiB: JSON records of 256 bytes are 2.95 times smaller in blocks of 2 KiB, 3.04 times in
//! those of 3 KiB and 3.09 times in those of 4 KiB, and a read takes proportionally longer. Text of
//! 200 to 2,000 bytes takes 7 to 8 microseconds in blocks of 4 KiB.
//!
//! While threads wait for room, values are put [in haste](CompressedTier::put_in_haste), at a
//! faster level. The store puts them again later.

mod block;
mod dictionary;
mod estimate;

use crate::place::ColdPlace;
use crate::usage::{ReadError, TierRefusal, TierUsage};
use block::{CompressedBlock, LivePart};
use dictionary::Dictionaries;
pub use estimate::Compression;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Target for the total bytes of a block's values.
const BLOCK_BYTES: usize = 4096;

/// Returns true if values of `bytes` bytes in total, the last of which has `last_bytes`, fill a
/// block: with another one like the last, they would miss [`BLOCK_BYTES`] by more.
pub(crate) fn is_block(bytes: usize, last_bytes: usize) -> bool {
    bytes + last_bytes / 2 >= BLOCK_BYTES
}

/// Maximum number of values of a block.
const BLOCK_VALUES_MAX: usize = 256;

/// Maximum number of bytes of a value.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// Number of bytes that a block uses besides its own: its entry in the table, and the header of the
/// system's heap.
const BLOCK_OVERHEAD_BYTES: u64 = (size_of::<Option<CompressedBlock>>() + 8) as u64;

/// The part of a block that must be in use.
const LIVE_PART: LivePart = LivePart { parts: 3, of: 4 };
/// The same while threads wait for room, and the tier has some.
const LIVE_PART_IN_HASTE: LivePart = LivePart { parts: 1, of: 2 };
/// The tier has room if less than this part of its capacity is used. *Assumed.*
const ROOMY_PART: f64 = 0.9;

/// Number of bits of a place for the value's index in its block.
const INDEX_BITS: u32 = 16;

const _: () = assert!(
    BLOCK_VALUES_MAX <= 1 << INDEX_BITS,
    "an index fits into a place"
);
const _: () = assert!(
    VALUE_BYTES_MAX <= u32::MAX as usize,
    "a block counts its bytes in 32 bits"
);

/// A tier of compressed memory. All threads may use it at once.
#[derive(Debug)]
pub struct CompressedTier {
    /// The number of the tier, which its places contain.
    tier: usize,
    capacity_bytes: u64,
    table: RwLock<CompressedBlockTable>,
    dictionaries: Dictionaries,
    used_bytes: AtomicU64,
    values: AtomicU64,
    value_bytes: AtomicU64,
}

/// The blocks by number.
#[derive(Debug, Default)]
struct CompressedBlockTable {
    blocks: Vec<Option<CompressedBlock>>,
    free: Vec<u32>,
}

impl CompressedTier {
    /// Creates an empty tier.
    pub fn new(tier: usize, capacity_bytes: u64) -> CompressedTier {
        CompressedTier {
            tier,
            capacity_bytes,
            table: RwLock::default(),
            dictionaries: Dictionaries::new(capacity_bytes),
            used_bytes: AtomicU64::new(0),
            values: AtomicU64::new(0),
            value_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the usage of the tier.
    pub fn usage(&self) -> TierUsage {
        let dictionary_bytes = self.dictionaries.bytes();
        TierUsage {
            capacity_bytes: self.capacity_bytes,
            used_bytes: self.used_bytes.load(Ordering::Relaxed) + dictionary_bytes,
            dictionary_bytes,
            values: self.values.load(Ordering::Relaxed),
            value_bytes: self.value_bytes.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of values in the tier.
    pub(crate) fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    /// Puts values into one block and returns their places, in the same order. Linear in their
    /// bytes.
    ///
    /// # Errors
    /// The tier refuses them, and is unchanged.
    pub fn put(&self, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        self.put_block(values, false)
    }

    /// Puts values like [`put`](CompressedTier::put), in less time and into a larger block, which
    /// [asks](CompressedTier::wants_rewrite) to be put again.
    ///
    /// # Errors
    /// As for `put`.
    pub fn put_in_haste(&self, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        self.put_block(values, true)
    }

    fn put_block(&self, values: &[&[u8]], is_hasty: bool) -> Result<Vec<ColdPlace>, TierRefusal> {
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        if bytes > VALUE_BYTES_MAX || values.len() > BLOCK_VALUES_MAX {
            let limit = VALUE_BYTES_MAX;
            return Err(TierRefusal::TooLarge { bytes, limit });
        }
        self.dictionaries.learn(values);
        let block = CompressedBlock::compress(values, &self.dictionaries, is_hasty)?;
        // Taken before the block is in the table, so that the tier never exceeds its capacity.
        if let Err(full) = self.take(block.bytes() as u64 + BLOCK_OVERHEAD_BYTES) {
            self.dictionaries.leave(block.dictionary());
            return Err(full);
        }
        let mut table = self.table.write();
        // Freed numbers first, so that the table grows only with the blocks in use.
        let number = match table.free.pop() {
            Some(number) => number,
            None => {
                table.blocks.push(None);
                (table.blocks.len() - 1) as u32
            }
        };
        if let Some(entry) = table.blocks.get_mut(number as usize) {
            debug_assert!(entry.is_none(), "a free number has no block");
            *entry = Some(block);
        }
        drop(table);
        self.values
            .fetch_add(values.len() as u64, Ordering::Relaxed);
        self.value_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let place = |index| ColdPlace::new(self.tier, (u64::from(number) << INDEX_BITS) | index);
        Ok((0..values.len() as u64).map(place).collect())
    }

    /// Takes bytes of the capacity, or none if fewer are left.
    fn take(&self, bytes: u64) -> Result<(), TierRefusal> {
        // Values are put while a dictionary is trained, so the limit can fall below the bytes in
        // use.
        let limit = self
            .capacity_bytes
            .saturating_sub(self.dictionaries.bytes());
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        let taken = self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map(drop).map_err(|_| TierRefusal::Full)
    }

    /// Trains a dictionary, if its sample is complete. Takes up to a few seconds then.
    pub fn tend(&self) {
        self.dictionaries.tend(|bytes| {
            let used = self.used_bytes.load(Ordering::Relaxed) + self.dictionaries.bytes();
            used + bytes <= self.capacity_bytes
        });
    }

    /// Calls `use_block` with the block of a place.
    fn with_block<R>(
        &self,
        place: ColdPlace,
        use_block: impl FnOnce(&CompressedBlock) -> R,
    ) -> Option<R> {
        let number = (place.inner() >> INDEX_BITS) as usize;
        // Locked meanwhile, so that the block stays; readers do not wait for each other.
        let table = self.table.read();
        table.blocks.get(number)?.as_ref().map(use_block)
    }

    /// Appends the value at a place to `out`. Linear in the bytes of its block.
    ///
    /// # Errors
    /// No value is at the place.
    pub fn read(&self, place: ColdPlace, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let read = |block: &CompressedBlock| block.read(index(place), &self.dictionaries, out);
        self.with_block(place, read)
            .unwrap_or(Err(ReadError::Absent))
    }

    /// Releases the value at a place. Call it once for each place, when no thread reads it any
    /// more.
    pub fn release(&self, place: ColdPlace) {
        let released = self.with_block(place, |block| block.release(index(place)));
        let Some((bytes, live)) = released.flatten() else {
            return;
        };
        let values = self.values.fetch_sub(1, Ordering::Relaxed);
        let value_bytes = self.value_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        debug_assert!(
            values > 0 && value_bytes >= bytes as u64,
            "a value is released once"
        );
        if live > 0 {
            return;
        }
        let number = (place.inner() >> INDEX_BITS) as u32;
        let mut table = self.table.write();
        let entry = table.blocks.get_mut(number as usize);
        if let Some(block) = entry.and_then(Option::take) {
            table.free.push(number);
            // Readers of other blocks need not wait while this one is freed.
            drop(table);
            let bytes = block.bytes() as u64 + BLOCK_OVERHEAD_BYTES;
            let used = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(used >= bytes, "each block has taken its bytes");
            self.dictionaries.leave(block.dictionary());
        }
    }

    /// Returns true if the block of a place has many unused bytes for a thread that waits for room:
    /// a half, or a quarter if the tier is nearly full.
    pub(crate) fn is_sparse(&self, place: ColdPlace) -> bool {
        let used = self.used_bytes.load(Ordering::Relaxed) + self.dictionaries.bytes();
        let part = match (used as f64) < self.capacity_bytes as f64 * ROOMY_PART {
            true => LIVE_PART_IN_HASTE,
            false => LIVE_PART,
        };
        self.with_block(place, |block| block.uses_less_than(part))
            .unwrap_or(false)
    }

    /// Returns true if the tier would use less memory once the value at a place is put again: its
    /// block has many unused bytes, or was compressed in haste or without the newest dictionary.
    pub fn wants_rewrite(&self, place: ColdPlace) -> bool {
        let newest = self.dictionaries.newest();
        let wants = |block: &CompressedBlock| {
            block.uses_less_than(LIVE_PART) || block.is_hasty() || block.dictionary() != newest
        };
        self.with_block(place, wants).unwrap_or(false)
    }
}

fn index(place: ColdPlace) -> usize {
    (place.inner() & ((1 << INDEX_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests;
