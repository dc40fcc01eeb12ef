//! The costs of operations, as the map counts them.

use serde::{Deserialize, Serialize};

/// The costs of some operations, counted by the map itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCostCounts {
    /// Operations that were carried out.
    pub operations: u64,
    /// Choices of a child at an inner node.
    pub partial_key_matches: u64,
    /// Cache lines of nodes and leaves read, in a cache or not.
    pub cache_lines: u64,
    /// Leaves compared with a key.
    pub leaves: u64,
    /// Locks acquired.
    pub lock_acquisitions: u64,
    /// Unsuccessful attempts to acquire a lock.
    pub lock_waits: u64,
    /// Walks restarted because another thread had changed the tree.
    pub restarts: u64,
    /// Operations served by the visit of another operation on the same key.
    pub duplicates_merged: u64,
    /// Shortcuts found and valid.
    pub shortcut_hits: u64,
    /// Shortcuts not found, or no longer valid.
    pub shortcut_misses: u64,
}

impl MapCostCounts {
    /// Returns the counts with the names that reports use, without the operations.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("partial_key_matches", self.partial_key_matches),
            ("cache_lines", self.cache_lines),
            ("leaves", self.leaves),
            ("lock_acquisitions", self.lock_acquisitions),
            ("lock_waits", self.lock_waits),
            ("restarts", self.restarts),
            ("duplicates_merged", self.duplicates_merged),
            ("shortcut_hits", self.shortcut_hits),
            ("shortcut_misses", self.shortcut_misses),
        ]
    }
}

impl std::ops::Add for MapCostCounts {
    type Output = MapCostCounts;

    fn add(self, other: MapCostCounts) -> MapCostCounts {
        MapCostCounts {
            operations: self.operations + other.operations,
            partial_key_matches: self.partial_key_matches + other.partial_key_matches,
            cache_lines: self.cache_lines + other.cache_lines,
            leaves: self.leaves + other.leaves,
            lock_acquisitions: self.lock_acquisitions + other.lock_acquisitions,
            lock_waits: self.lock_waits + other.lock_waits,
            restarts: self.restarts + other.restarts,
            duplicates_merged: self.duplicates_merged + other.duplicates_merged,
            shortcut_hits: self.shortcut_hits + other.shortcut_hits,
            shortcut_misses: self.shortcut_misses + other.shortcut_misses,
        }
    }
}
