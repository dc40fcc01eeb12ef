//! The progress of a group through all entries that were ever added. Deletions make it uncertain.

use super::StreamId;

/// The counters and bounds of the entries that a stream ever had.
#[derive(Clone, Copy, Debug)]
pub struct StreamCounters {
    /// Number of entries.
    pub len: u64,
    /// The identifier of the first entry; `0-0` if there is none.
    pub first_id: StreamId,
    /// The last identifier that an entry got.
    pub last_id: StreamId,
    /// The greatest identifier that was deleted.
    pub max_deleted: StreamId,
    /// Number of entries that were ever added.
    pub entries_added: u64,
}

impl StreamCounters {
    /// Returns true if all entries exist that were ever added from `id` on. None of these was
    /// trimmed, because `id` is not before the first entry.
    pub fn is_whole_from(&self, id: StreamId) -> bool {
        id >= self.first_id && !self.has_gaps_from(id)
    }

    /// Returns true if an entry from `id` on was deleted, between the first and the last one.
    fn has_gaps_from(&self, id: StreamId) -> bool {
        let is_within = self.max_deleted >= self.first_id;
        self.len > 0 && self.max_deleted != StreamId::MIN && is_within && id <= self.max_deleted
    }

    /// Returns the number of entries that were added up to `id`, if it is known.
    pub fn read_up_to(&self, id: StreamId) -> Option<u64> {
        // The cases and their order are those of `streamEstimateDistanceFromFirstEverEntry` in
        // Redis.
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id == self.last_id {
            return Some(self.entries_added);
        }
        if id > self.last_id {
            return None;
        }
        let is_whole = self.max_deleted == StreamId::MIN || self.max_deleted < self.first_id;
        // A file may name fewer added entries than it has.
        let before = self.entries_added.wrapping_sub(self.len);
        match id.cmp(&self.first_id) {
            _ if !is_whole => None,
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }
}
