//! A table from prefixes to the nodes after them.
//!
//! ```text
//!   bucket   slot 0 | slot 1 | slot 2 | slot 3    32 bytes, chosen by a hash of the prefix
//!   slot     tag: 4 bytes | node: 4 bytes         one word, read and written at once
//! ```
//!
//! The hash has as many bits as the prefix and can be reversed, so the bucket and the tag together
//! identify the prefix.

use super::prefix::{self, JumpPrefix};
use crate::node::Ref;
use std::sync::atomic::{AtomicU64, Ordering};

pub const SLOTS: usize = 4;

/// The logarithm of the maximum number of buckets of a table.
const BUCKETS_LOG_MAX: u32 = 18;

const TAG_BITS: u32 = u32::BITS;

#[derive(Debug, Default)]
#[repr(align(32))]
pub struct JumpTableBucket {
    slots: [AtomicU64; SLOTS],
}

/// The table; see the [module](self).
#[derive(Debug)]
pub struct JumpPrefixTable {
    /// The table's number.
    table: usize,
    pub buckets: Box<[JumpTableBucket]>,
    /// Number of bits of a hash after those that choose a bucket.
    rest_bits: u32,
}

/// Returns the content of a slot.
pub fn entry(prefix: JumpPrefix, node: Ref) -> u64 {
    u64::from(prefix.tag()) << 32 | u64::from(node.bits())
}

/// Returns the node in a slot's content.
pub fn node(entry: u64) -> Ref {
    Ref::from_bits(entry as u32)
}

impl JumpPrefixTable {
    /// Creates an empty table with at least 2^`buckets_log` buckets.
    pub fn new(table: usize, buckets_log: u32) -> JumpPrefixTable {
        let bits = prefix::bits(table);
        // Bucket and tag together must have all bits of the hash, or two prefixes would be
        // confused.
        let buckets_log = buckets_log.max(bits.saturating_sub(TAG_BITS));
        JumpPrefixTable {
            table,
            buckets: (0..1 << buckets_log)
                .map(|_| JumpTableBucket::default())
                .collect(),
            rest_bits: bits - buckets_log,
        }
    }

    #[inline]
    pub fn bucket(&self, prefix: JumpPrefix) -> &JumpTableBucket {
        // The number is always below the number of buckets.
        &self.buckets[(prefix.hash() >> self.rest_bits) as usize & (self.buckets.len() - 1)]
    }

    /// Returns the node of a prefix; null if it is not known.
    #[inline]
    pub fn find(&self, prefix: JumpPrefix) -> Ref {
        let mut found = 0;
        for slot in &self.bucket(prefix).slots {
            let slot = slot.load(Ordering::Acquire);
            // Without branches, because they would be mispredicted. Two slots may match: while this
            // runs, a prefix can be cleared in a slot that was read and set in one that was not.
            let node = if (slot >> 32) as u32 == prefix.tag() {
                slot as u32
            } else {
                0
            };
            found = if found == 0 { node } else { found };
        }
        Ref::from_bits(found)
    }

    /// Returns the slot of a prefix, or a free one.
    pub fn slot(&self, prefix: JumpPrefix) -> Option<&AtomicU64> {
        let slots = &self.bucket(prefix).slots;
        let load = |slot: &&AtomicU64| slot.load(Ordering::Relaxed);
        let own = slots
            .iter()
            .find(|slot| load(slot) as u32 != 0 && (load(slot) >> 32) as u32 == prefix.tag());
        own.or_else(|| slots.iter().find(|slot| load(slot) == 0))
    }

    pub fn slots(&self) -> impl Iterator<Item = &AtomicU64> {
        self.buckets.iter().flat_map(|bucket| &bucket.slots)
    }

    /// Returns the slots in use, with the numbers of their prefixes.
    pub fn numbers(&self) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let buckets = self.buckets.iter().enumerate();
        buckets.flat_map(move |(bucket, JumpTableBucket { slots })| {
            // The tag overlaps the bits that choose the bucket, so only those above it are taken
            // from there.
            let above = ((bucket as u64) << self.rest_bits) >> TAG_BITS << TAG_BITS;
            let used = slots
                .iter()
                .map(|slot| (slot, slot.load(Ordering::Relaxed)));
            used.filter(|&(_, entry)| entry != 0)
                .map(move |(slot, entry)| {
                    let hash = above | entry >> 32;
                    (slot, prefix::unhash(self.table, hash))
                })
        })
    }

    /// Returns true if a table without room must be replaced by a larger one: if it is half full.
    /// In other tables only some buckets are full, and their other nodes are not found.
    pub fn grows(&self, used: usize) -> bool {
        self.buckets.len() < 1 << BUCKETS_LOG_MAX && 2 * used >= SLOTS * self.buckets.len()
    }
}
