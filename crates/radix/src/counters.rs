//! Optional counts of the engine. Counting is a type parameter: with [`Off`] the calls vanish at
//! compile time.

/// Receives the events of traversals and writes.
pub trait Probe {
    /// One step of deciding the child (or its absence) at one inner node, for one operation or
    /// one combined run; `lines` is the number of cache lines that the step reads.
    #[inline]
    fn partial_key_match(&mut self, _lines: u64) {}
    /// One leaf compared with a key.
    #[inline]
    fn leaf(&mut self) {}
    /// One lock acquired, after `waits` unsuccessful attempts. The latch of a block counts where it
    /// is the only lock, not where it is taken under that of a node.
    #[inline]
    fn lock(&mut self, _waits: u32) {}
    /// A walk has restarted because another thread has changed the tree.
    #[inline]
    fn restart(&mut self) {}
    /// `operations` operations that were served by the visit of another operation on their key.
    #[inline]
    fn duplicates(&mut self, _operations: u64) {}
    /// One look into the shortcut table.
    #[inline]
    fn shortcut(&mut self, _hit: bool) {}
}

/// Counts nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Probe for Off {}

/// Counts everything. Definitions follow the DCART paper, Fig. 7 and 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Decisions for a child at an inner node; a shortcut that hits needs none.
    pub partial_key_matches: u64,
    /// Cache lines of inner nodes and leaves read, whether or not they were in a cache.
    pub cache_lines: u64,
    /// Leaves compared with a key.
    pub leaves: u64,
    /// Locks acquired.
    pub lock_acquisitions: u64,
    /// Unsuccessful attempts to acquire a lock.
    pub lock_waits: u64,
    /// Restarted walks.
    pub restarts: u64,
    /// Operations served by the visit of another operation on the same key.
    pub duplicates_merged: u64,
    /// Shortcuts found and valid.
    pub shortcut_hits: u64,
    /// Shortcuts not found, or no longer valid.
    pub shortcut_misses: u64,
}

impl Probe for Counters {
    fn partial_key_match(&mut self, lines: u64) {
        self.partial_key_matches += 1;
        self.cache_lines += lines;
    }
    fn leaf(&mut self) {
        self.leaves += 1;
        self.cache_lines += 1;
    }
    fn lock(&mut self, waits: u32) {
        self.lock_acquisitions += 1;
        self.lock_waits += u64::from(waits);
    }
    fn restart(&mut self) {
        self.restarts += 1;
    }
    fn duplicates(&mut self, operations: u64) {
        self.duplicates_merged += operations;
    }
    fn shortcut(&mut self, hit: bool) {
        if hit {
            self.shortcut_hits += 1;
        } else {
            self.shortcut_misses += 1;
        }
    }
}
