//! How far a group has come among all entries that were ever added. Deletions make that uncertain.

use super::StreamId;

/// What a stream knows about the entries that it has had.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The number of entries.
    pub len: u64,
    /// The identifier of the first entry; `0-0` if there is none.
    pub first_id: StreamId,
    /// The last identifier that an entry got.
    pub last_id: StreamId,
    /// The greatest identifier that was deleted.
    pub max_deleted: StreamId,
    /// How many entries were ever added.
    pub entries_added: u64,
}

impl Progress {
    /// Returns true if all entries exist that were ever added from `id` on. None were trimmed
    /// behind it, as it is not before the first one.
    pub fn is_whole_from(&self, id: StreamId) -> bool {
        id >= self.first_id && !self.has_gaps_from(id)
    }

    /// Whether an entry from `id` on was deleted, between the first and the last one.
    fn has_gaps_from(&self, id: StreamId) -> bool {
        let is_within = self.max_deleted >= self.first_id;
        self.len > 0 && self.max_deleted != StreamId::MIN && is_within && id <= self.max_deleted
    }

    /// The number of entries that were added up to `id`, if it can be told.
    pub fn read_up_to(&self, id: StreamId) -> Option<u64> {
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
        let before = self.entries_added.wrapping_sub(self.len);
        match id.cmp(&self.first_id) {
            _ if !is_whole => None,
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }
}
