//! The shortcut table, which maps hot keys to their leaves and the leaves' parents, so that a walk
//! skips the nodes between.
//!
//! ```text
//!   line   entry 0 | entry 1 | … | entry 4 | unused        64 bytes, chosen by the key's hash
//!   entry  fingerprint | leaf | parent                     4 bytes each
//! ```
//!
//! The three words of an entry are written one by one, and may belong to different keys when they
//! are read. That is harmless, because an entry is only a hint:
//!
//! * A block that has the key, and is neither dead nor obsolete, is the key's leaf (see
//!   [`leaf`](crate::leaf)).
//! * A parent is locked, and the key must be at or below its child for the key's symbol, or share
//!   all bytes that paths skip with a key there. Node memory keeps its kind, and a node that is not
//!   in the tree is obsolete: a freed one stays so until, used again, it has all its children.
//!
//! # Leaves that are freed
//!
//! The memory of a block of words is reused only for other such blocks, each obsolete until it has
//! its entries and is about to be linked. So an entry may outlast a block, and is found to be
//! stale.
//!
//! The memory of a block of strings is reused for blocks of other lengths, so no entry may outlast
//! it. Such a block dies first. After one grace period the entries for its keys are
//! [purged](ShortcutTables::purge), and after another its memory is freed:
//!
//! ```text
//!   dead, unlinked ──── grace ────▶ purged ──── grace ────▶ freed
//!   inserters that found it alive    readers that found it
//!   are gone                         in the table are gone
//! ```
//!
//! A thread inserts an entry only if it has found the leaf alive while it was pinned, and is still
//! pinned. So after the first period no thread inserts the leaf any more. A reader uses an entry
//! only while it is pinned, and a reader pinned after the purge does not find the entry: after the
//! second period no thread uses the leaf any more. One period is not enough, because a thread that
//! is pinned after the leaf's death does not keep it from being freed, but may still find it in the
//! table.
//!
//! A replaced table stays in the list for purging during a grace period, because threads that were
//! pinned before may use it until then.

use crate::node::Ref;
use nearfield_hotness::FrequencySketch;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

const ENTRIES_PER_LINE: usize = 5;
const LINE_BYTES: usize = size_of::<ShortcutCacheLine>();
const _: () = assert!(LINE_BYTES == 64);

/// The share (1 in this number) of the budget that goes to the sketch, which detects hot keys.
const SKETCH_SHARE: usize = 4;

/// The minimum recent frequency for which a key gets an entry.
const HOT: u8 = 2;

/// Number of lookups after which the table's use is judged.
const JUDGED_PROBES: i64 = 1 << 16;

/// The maximum number of lookups of a trial before the first judgement, even if they cannot fill
/// the table.
const TRIAL_PROBES_MAX: i64 = 1 << 22;

/// The percentage of lookups that must hit for the table to be useful. Measured with 10 million
/// sparse words: reads lose a third at 77 hits and gain a fifth at 94; writes lose a third at 57
/// and gain a fifth at 68.
const USEFUL_PERCENT: i64 = 80;

/// The time for which a table that was not useful is left unused, in lengths of a trial.
const REST: i64 = 16;

/// The table's entry of a key. Either may be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcut {
    pub leaf: Ref,
    /// The inner node above.
    pub parent: Ref,
}

/// A table of shortcuts.
#[derive(Debug)]
pub struct Shortcuts {
    lines: Box<[ShortcutCacheLine]>,
    sketch: FrequencySketch,
    usefulness: Usefulness,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct ShortcutCacheLine {
    entries: [ShortcutSlot; ENTRIES_PER_LINE],
}

#[derive(Debug, Default)]
struct ShortcutSlot {
    fingerprint: AtomicU32,
    leaf: AtomicU32,
    parent: AtomicU32,
}

impl ShortcutSlot {
    fn holds(&self, hash: u64) -> bool {
        self.fingerprint.load(Relaxed) == fingerprint(hash) && self.leaf.load(Relaxed) != 0
    }

    fn store(&self, hash: u64, shortcut: Shortcut) {
        self.fingerprint.store(fingerprint(hash), Relaxed);
        self.leaf.store(shortcut.leaf.bits(), Relaxed);
        self.parent.store(shortcut.parent.bits(), Relaxed);
    }
}

/// Returns the bits of the hash that do not choose the line.
fn fingerprint(hash: u64) -> u32 {
    hash as u32
}

impl Shortcuts {
    /// Creates a table of at most `budget` bytes, but with at least one line and one line of
    /// sketch.
    pub fn with_bytes(budget: usize) -> Self {
        let sketch = FrequencySketch::with_bytes(budget / SKETCH_SHARE);
        let count = (budget.saturating_sub(sketch.bytes()) / LINE_BYTES).max(1);
        let entries = (count * ENTRIES_PER_LINE) as i64;
        let trial = (4 * entries).clamp(JUDGED_PROBES, TRIAL_PROBES_MAX);
        Shortcuts {
            lines: (0..count).map(|_| ShortcutCacheLine::default()).collect(),
            sketch,
            usefulness: Usefulness::new(trial),
        }
    }

    /// Returns the memory that table and sketch take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines) + self.sketch.bytes()
    }

    #[inline]
    fn line(&self, hash: u64) -> &ShortcutCacheLine {
        // The upper bits choose the line, and the lower ones are the fingerprint. A product needs
        // no power of two.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        &self.lines[index as usize]
    }

    /// Returns the address of the line that a key's entry would be in, for prefetching.
    #[inline]
    pub fn address(&self, hash: u64) -> *const u8 {
        std::ptr::from_ref(self.line(hash)).cast()
    }

    /// Returns the table's entry of a key.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<Shortcut> {
        let entry = self
            .line(hash)
            .entries
            .iter()
            .find(|entry| entry.holds(hash))?;
        let leaf = Ref::from_bits(entry.leaf.load(Relaxed));
        // It may have been purged in between.
        (!leaf.is_null()).then(|| Shortcut {
            leaf,
            parent: Ref::from_bits(entry.parent.load(Relaxed)),
        })
    }

    /// Counts a visit of a key that is not in the table. Returns true if the key has become hot.
    #[inline]
    pub fn grows_hot(&self, hash: u64) -> bool {
        self.sketch.record(hash) >= HOT
    }

    /// Inserts the place of a key. It replaces the key's old entry, takes a free slot, or replaces
    /// another key's entry, in this order of preference. The caller has found the leaf alive since
    /// it was pinned, and is still pinned.
    pub fn insert(&self, hash: u64, shortcut: Shortcut) {
        let entries = &self.line(hash).entries;
        let free = |entry: &&ShortcutSlot| entry.leaf.load(Relaxed) == 0;
        entries
            .iter()
            .find(|entry| entry.holds(hash))
            .or_else(|| entries.iter().find(free))
            .unwrap_or(&entries[(hash >> 32) as usize % ENTRIES_PER_LINE])
            .store(hash, shortcut);
    }

    /// Removes the entry of a leaf that no thread inserts any more.
    fn purge(&self, hash: u64, leaf: Ref) {
        for entry in &self.line(hash).entries {
            // Another leaf may take the slot just now, and must stay.
            let _ = entry
                .leaf
                .compare_exchange(leaf.bits(), 0, Relaxed, Relaxed);
        }
    }

    /// Returns true if looking up keys currently pays.
    pub fn is_useful(&self) -> bool {
        self.usefulness.resting.load(Relaxed) <= 0
    }

    /// Counts lookups and hits.
    pub fn judge(&self, probes: usize, hits: usize) {
        self.usefulness.judge(probes as i64, hits as i64);
    }

    /// Counts visits that were made without the table.
    pub fn rest(&self, visits: usize) {
        self.usefulness.resting.fetch_sub(visits as i64, Relaxed);
    }
}

/// The judgement of the table's use. All threads count together, so races may make counts slightly
/// wrong.
#[derive(Debug)]
struct Usefulness {
    /// Number of lookups that fill the table before it is judged for the first time.
    trial: i64,
    /// Number of lookups of this trial that are not judged yet.
    warming: AtomicI64,
    probes: AtomicI64,
    hits: AtomicI64,
    /// Number of visits before the next trial.
    resting: AtomicI64,
}

impl Usefulness {
    fn new(trial: i64) -> Self {
        Usefulness {
            trial,
            warming: AtomicI64::new(trial),
            probes: AtomicI64::new(0),
            hits: AtomicI64::new(0),
            resting: AtomicI64::new(0),
        }
    }

    fn judge(&self, probes: i64, hits: i64) {
        // A table that is not full yet misses without being useless.
        if self.warming.load(Relaxed) > 0 {
            self.warming.fetch_sub(probes, Relaxed);
            return;
        }
        let probes = self.probes.fetch_add(probes, Relaxed) + probes;
        let hits = self.hits.fetch_add(hits, Relaxed) + hits;
        if probes < JUDGED_PROBES {
            return;
        }
        self.probes.store(0, Relaxed);
        self.hits.store(0, Relaxed);
        if hits * 100 < probes * USEFUL_PERCENT {
            self.warming.store(self.trial, Relaxed);
            self.resting.store(self.trial * REST, Relaxed);
        }
    }
}

/// The shortcut tables of a tree: the one in use, and before it the replaced ones that threads may
/// still use that were pinned at that time.
#[derive(Debug, Default)]
pub struct ShortcutTables {
    tables: RwLock<Vec<Option<Arc<Shortcuts>>>>,
    /// Number of tables, so that a tree without any pays nothing.
    count: AtomicUsize,
}

impl ShortcutTables {
    /// Returns the table in use. Call this, and use its result, while pinned.
    pub fn current(&self) -> Option<Arc<Shortcuts>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.last().cloned().flatten()
    }

    /// Installs another table, or none. Returns the former one, which the caller must
    /// [drop](ShortcutTables::drop_replaced) after a grace period.
    pub fn replace(&self, table: Option<Shortcuts>) -> Option<Arc<Shortcuts>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = tables.last().cloned().flatten();
        // A former absence of a table needs no entry: nobody uses it.
        tables.retain(Option::is_some);
        tables.push(table.map(Arc::new));
        self.count.store(tables.iter().flatten().count(), Relaxed);
        replaced
    }

    /// Drops a replaced table that no thread uses any more.
    pub fn drop_replaced(&self, replaced: &Arc<Shortcuts>) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| {
            !table
                .as_ref()
                .is_some_and(|table| Arc::ptr_eq(table, replaced))
        });
        self.count.store(tables.iter().flatten().count(), Relaxed);
    }

    /// Removes the entries of a leaf, whose keys have the hashes `hashes`, from all tables. Returns
    /// false if there are no tables. A grace period after the leaf's death, no thread inserts it
    /// any more; see the [module](self).
    pub fn purge<H: IntoIterator<Item = u64>>(
        &self,
        leaf: Ref,
        hashes: impl FnOnce() -> H,
    ) -> bool {
        // A thread that may have inserted the leaf has seen a table, and was pinned until before
        // the grace period ended: the count is at least as recent.
        if self.is_empty() {
            return false;
        }
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        for hash in hashes() {
            for table in tables.iter().flatten() {
                table.purge(hash, leaf);
            }
        }
        true
    }

    /// Returns true if there is no table, not even a replaced one.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Returns the memory of all tables.
    pub fn bytes(&self) -> usize {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().flatten().map(|table| table.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeRefKind;

    fn shortcut(index: u32) -> Shortcut {
        Shortcut {
            leaf: Ref::new(NodeRefKind::Leaf, index),
            parent: Ref::new(NodeRefKind::Node4, index),
        }
    }

    #[test]
    fn finds_what_was_inserted_last() {
        let table = Shortcuts::with_bytes(1 << 12);
        assert_eq!(table.find(7), None);
        table.insert(7, shortcut(1));
        table.insert(7, shortcut(2));
        assert_eq!(table.find(7), Some(shortcut(2)));
        assert_eq!(table.find(8), None);
    }

    #[test]
    fn a_full_line_replaces_one_entry() {
        let table = Shortcuts::with_bytes(0);
        for hash in 1..=6 {
            table.insert(hash, shortcut(hash as u32));
        }
        let kept = (1..=6).filter(|&hash| table.find(hash) == Some(shortcut(hash as u32)));
        assert_eq!(kept.count(), ENTRIES_PER_LINE);
        assert_eq!(table.find(6), Some(shortcut(6)));
    }

    #[test]
    fn purging_forgets_only_that_leaf() {
        let tables = ShortcutTables::default();
        assert!(!tables.purge(shortcut(1).leaf, || [7]));
        tables.replace(Some(Shortcuts::with_bytes(0)));
        let table = tables.current().unwrap();
        table.insert(7, shortcut(1));
        table.insert(8, shortcut(2));
        assert!(tables.purge(shortcut(1).leaf, || [7]));
        assert_eq!((table.find(7), table.find(8)), (None, Some(shortcut(2))));
    }

    #[test]
    fn a_replaced_table_is_purged_until_it_is_dropped() {
        let tables = ShortcutTables::default();
        tables.replace(Some(Shortcuts::with_bytes(0)));
        let old = tables.current().unwrap();
        old.insert(7, shortcut(1));
        let replaced = tables.replace(None).unwrap();
        assert!(tables.current().is_none());
        assert!(tables.purge(shortcut(1).leaf, || [7]));
        assert_eq!(old.find(7), None);
        tables.drop_replaced(&replaced);
        assert!(!tables.purge(shortcut(1).leaf, || [7]));
        assert_eq!(tables.bytes(), 0);
    }

    #[test]
    fn a_table_that_never_hits_rests_and_is_tried_again() {
        let table = Shortcuts::with_bytes(0);
        table.judge(JUDGED_PROBES as usize, 0);
        assert!(table.is_useful(), "the first lookups fill the table");
        table.judge(JUDGED_PROBES as usize, 0);
        assert!(!table.is_useful());
        table.rest((REST * JUDGED_PROBES) as usize);
        assert!(table.is_useful());
    }
}
