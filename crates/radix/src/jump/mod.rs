//! Jumps: from some bytes of a key directly to the first node on its path after them, past the
//! nodes before it.
//!
//! The bytes are the key's first ones or, if keys begin alike, those after its [stem](stem). There
//! are prefixes of two lengths in either case, and a [table](table) for each. A walk begins at the
//! node of its longer prefix that has one: short prefixes lead past most nodes of a small tree,
//! where few paths are longer.
//!
//! For each prefix there is one link of the tree, from a node that decides on one of its bytes to a
//! child that decides on a later byte. If the child is an inner node, a slot may name it. Other
//! keys with the prefix cannot be elsewhere, so a walk may begin there.
//!
//! The link is changed under the lock of the node above. The thread clears the slot before the
//! change, and sets it again before it releases the lock. So a walk that finds a node in the table
//! has begun before the node was unlinked, as if it had come from the root: it sees the state
//! before the change, or encounters an obsolete node. A missing slot costs only a longer walk.
//!
//! A stem is valid as long as its first node stays, or is replaced by one of the same depth. Before
//! another node is linked there, the stem and the slots of its prefixes are cleared in the same
//! way. The stem's number is given to another stem when all threads that could have read it are
//! gone.

mod prefix;
pub mod stem;
mod table;

pub use prefix::{FIRST, JumpPrefix, TABLES};
pub use stem::Stem;

use crate::node::Ref;
use crate::prefetch::prefetch_close;
use arrayvec::ArrayVec;
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use prefix::BEHIND;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stem::{DEPTH_MAX, DEPTH_MIN, Stems};
use table::JumpPrefixTable;

/// The prefixes of a key.
pub type Prefixes = ArrayVec<JumpPrefix, TABLES>;

/// The jumps of a tree; see the [module](self).
#[derive(Debug)]
pub struct Jumps {
    /// The tables, null until they are needed.
    tables: [Atomic<JumpPrefixTable>; TABLES],
    stems: Stems,
    /// The greatest depth at the end of a prefix so far.
    reach: AtomicUsize,
    /// The state of changes, locked by the thread that changes the tables or the stems.
    changes: Mutex<JumpChangeState>,
    /// The numbers that no stem has, and that no thread may have read.
    free_numbers: Arc<Mutex<Vec<u8>>>,
}

/// The state that changes of the tables and the stems need.
#[derive(Debug, Default)]
struct JumpChangeState {
    /// Number of slots in use, by table.
    used: [usize; TABLES],
    /// The stems and their first nodes.
    stems: Vec<(Stem, Ref)>,
}

impl Default for Jumps {
    fn default() -> Jumps {
        Jumps {
            tables: Default::default(),
            stems: Stems::default(),
            reach: AtomicUsize::new(FIRST[FIRST.len() - 1]),
            changes: Mutex::default(),
            free_numbers: Arc::new(Mutex::new((1..=u8::MAX).collect())),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the prefix of a key for the table `place` among those for the first bytes.
#[inline(always)]
fn first_prefix(place: usize, window: impl Fn(usize, usize) -> Option<u64>) -> Option<JumpPrefix> {
    let end = FIRST[place];
    window(0, end).map(|number| JumpPrefix {
        table: place,
        number,
        end,
    })
}

/// Returns the prefix of a key for the table `place` among those for bytes after stems.
#[inline(always)]
fn stem_prefix(
    place: usize,
    stem: Stem,
    window: impl Fn(usize, usize) -> Option<u64>,
) -> Option<JumpPrefix> {
    let bytes = BEHIND[place];
    window(stem.depth, bytes).map(|number| JumpPrefix {
        table: FIRST.len() + place,
        number: u64::from(stem.number) << (8 * bytes) | number,
        end: stem.depth + bytes,
    })
}

impl Jumps {
    /// Calls `visit` for each prefix by which a walk for a key may jump, the shorter one first.
    /// `window` takes a depth and a count, and returns that many bytes of the key at that depth,
    /// unless the key ends before.
    // Inlined: each of several calls knows its table.
    #[inline(always)]
    pub fn for_each_prefix(
        &self,
        window: impl Fn(usize, usize) -> Option<u64> + Copy,
        mut visit: impl FnMut(JumpPrefix),
    ) {
        let Some(shortest) = first_prefix(0, window) else {
            return;
        };
        match self.stems.find(shortest.number) {
            None => {
                visit(shortest);
                if let Some(prefix) = first_prefix(1, window) {
                    visit(prefix);
                }
            }
            Some(stem) => {
                if let Some(prefix) = stem_prefix(0, stem, window) {
                    visit(prefix);
                }
                if let Some(prefix) = stem_prefix(1, stem, window) {
                    visit(prefix);
                }
            }
        }
    }

    /// Returns all prefixes of a key.
    pub fn prefixes(&self, window: impl Fn(usize, usize) -> Option<u64> + Copy) -> Prefixes {
        let first = (0..FIRST.len()).filter_map(|place| first_prefix(place, window));
        let mut prefixes: Prefixes = first.collect();
        if let Some(stem) = self.stem(window) {
            prefixes.extend(Self::prefixes_behind(stem, window));
        }
        prefixes
    }

    /// Returns the prefixes after the stem of a key.
    pub fn prefixes_behind(
        stem: Stem,
        window: impl Fn(usize, usize) -> Option<u64> + Copy,
    ) -> impl Iterator<Item = JumpPrefix> {
        (0..BEHIND.len()).filter_map(move |place| stem_prefix(place, stem, window))
    }

    /// Returns the stem of a key.
    pub fn stem(&self, window: impl Fn(usize, usize) -> Option<u64>) -> Option<Stem> {
        self.stems.find(window(0, FIRST[0])?)
    }

    /// Returns the minimum depth at which no link belongs to a prefix.
    pub fn reach(&self) -> usize {
        self.reach.load(Ordering::Relaxed)
    }

    /// Returns true if a link between nodes of these two depths belongs to a prefix after a stem,
    /// provided that its keys have that stem.
    pub fn may_end_behind_stem(&self, depths: [usize; 2]) -> bool {
        let [above, below] = depths;
        self.stems.iter().any(|stem| {
            let mut ends = BEHIND.iter().map(|bytes| stem.depth + bytes);
            stem.depth <= above && ends.any(|end| above < end && end <= below)
        })
    }

    /// Prefetches the line of a prefix.
    #[inline]
    pub fn prefetch(&self, prefix: JumpPrefix, guard: &Guard) {
        if let Some(table) = self.table(prefix.table, guard) {
            prefetch_close(std::ptr::from_ref(table.bucket(prefix)).cast());
        }
    }

    #[inline]
    fn table<'g>(&'g self, number: usize, guard: &'g Guard) -> Option<&'g JumpPrefixTable> {
        let table = self.tables[number].load(Ordering::Acquire, guard);
        // SAFETY: a replaced table is freed after all guards under which it could be read are gone.
        unsafe { table.as_ref() }
    }

    /// Returns the first node on the path of keys with a prefix, after that prefix; null if
    /// unknown.
    #[inline]
    pub fn find(&self, prefix: JumpPrefix, guard: &Guard) -> Ref {
        self.table(prefix.table, guard)
            .map_or(Ref::NULL, |table| table.find(prefix))
    }

    /// Clears the slot of a prefix.
    pub fn clear(&self, prefix: JumpPrefix, guard: &Guard) {
        let mut changes = lock(&self.changes);
        let table = self.table(prefix.table, guard);
        if let Some(slot) = table.and_then(|table| table.slot(prefix))
            // `slot` also returns a free slot.
            && slot.load(Ordering::Relaxed) != 0
        {
            slot.store(0, Ordering::Release);
            changes.used[prefix.table] -= 1;
        }
    }

    /// Clears the slot of a node whose prefix in a table is not known. Linear in the table.
    #[cold]
    pub fn clear_node(&self, number: usize, node: Ref, guard: &Guard) {
        let mut changes = lock(&self.changes);
        let table = self.table(number, guard);
        for slot in table.iter().flat_map(|table| table.slots()) {
            if table::node(slot.load(Ordering::Relaxed)).same(node) {
                slot.store(0, Ordering::Release);
                changes.used[number] -= 1;
            }
        }
    }

    /// Sets the node of a prefix, unless its stem is gone.
    pub fn set(&self, prefix: JumpPrefix, node: Ref, guard: &Guard) {
        debug_assert!(node.is_inner(), "walks begin at inner nodes");
        let (mut changes, number) = (lock(&self.changes), prefix.table);
        if prefix.is_behind_stem() {
            let bytes = BEHIND[number - FIRST.len()];
            let stem = (prefix.number >> (8 * bytes)) as u8;
            if changes.stems.iter().all(|(other, _)| other.number != stem) {
                return;
            }
        }
        let mut table = self.table(number, guard);
        let mut slot = table.and_then(|table| table.slot(prefix));
        if slot.is_none() && table.is_none_or(|table| table.grows(changes.used[number])) {
            changes.used[number] = self.grow(table, number, guard);
            table = self.table(number, guard);
            slot = table.and_then(|table| table.slot(prefix));
        }
        if let Some(slot) = slot {
            changes.used[number] += usize::from(slot.load(Ordering::Relaxed) == 0);
            slot.store(table::entry(prefix, node), Ordering::Release);
        }
    }

    /// Replaces a table with one of twice the size, or creates it. Returns the number of slots in
    /// use.
    fn grow(&self, table: Option<&JumpPrefixTable>, number: usize, guard: &Guard) -> usize {
        let buckets_log = table.map_or(0, |table| table.buckets.len().ilog2() + 1);
        let larger = JumpPrefixTable::new(number, buckets_log);
        let mut used = 0;
        for (slot, number_of_prefix) in table.iter().flat_map(|table| table.numbers()) {
            let prefix = JumpPrefix {
                table: number,
                number: number_of_prefix,
                end: 0,
            };
            if let Some(free) = larger.slot(prefix) {
                free.store(slot.load(Ordering::Relaxed), Ordering::Relaxed);
                used += 1;
            }
        }
        let old = self.tables[number].swap(Owned::new(larger), Ordering::AcqRel, guard);
        if !old.is_null() {
            // SAFETY: the old table can no longer be reached.
            unsafe { guard.defer_destroy(old) };
        }
        used
    }

    /// Creates a stem of the keys that begin with the bytes of the shortest prefix, and whose first
    /// node after it has a depth. Returns `None` if that depth is too small, or if there is no
    /// room.
    pub fn add_stem(&self, shortest: JumpPrefix, node: Ref, depth: usize) -> Option<Stem> {
        let mut changes = lock(&self.changes);
        let first = shortest.number;
        if !(DEPTH_MIN..=DEPTH_MAX).contains(&depth) || !self.stems.has_room(first) {
            return None;
        }
        let stem = Stem {
            first,
            depth,
            number: lock(&self.free_numbers).pop()?,
        };
        debug_assert!(
            changes
                .stems
                .iter()
                .all(|(other, _)| other.number != stem.number),
            "two stems have one number"
        );
        changes.stems.push((stem, node));
        let end = depth + BEHIND[BEHIND.len() - 1];
        self.reach.fetch_max(end, Ordering::Relaxed);
        self.stems.set(stem);
        Some(stem)
    }

    /// Replaces a stem's first node with another one of the same depth.
    pub fn keep_stem(&self, stem: Stem, node: Ref) {
        let mut changes = lock(&self.changes);
        if let Some(entry) = changes.stems.iter_mut().find(|(other, _)| *other == stem) {
            entry.1 = node;
        }
    }

    /// Removes the stems for which `is_gone` returns true, given the stem and its first node, and
    /// their prefixes. Linear in the tables if there is such a stem.
    pub fn drop_stems(&self, guard: &Guard, is_gone: impl Fn(Stem, Ref) -> bool) {
        let mut changes = lock(&self.changes);
        let place = |changes: &JumpChangeState| {
            let mut stems = changes.stems.iter();
            stems.position(|&(stem, node)| is_gone(stem, node))
        };
        while let Some(place) = place(&changes) {
            let (stem, _) = changes.stems.swap_remove(place);
            self.stems.clear(stem);
            for (place, bytes) in BEHIND.into_iter().enumerate() {
                let number = FIRST.len() + place;
                let table = self.table(number, guard);
                for (slot, prefix) in table.iter().flat_map(|table| table.numbers()) {
                    if prefix >> (8 * bytes) == u64::from(stem.number) {
                        slot.store(0, Ordering::Release);
                        changes.used[number] -= 1;
                    }
                }
            }
            let free = Arc::clone(&self.free_numbers);
            guard.defer(move || lock(&free).push(stem.number));
        }
    }

    /// Returns the memory of the tables.
    pub fn bytes(&self) -> usize {
        let guard = crossbeam_epoch::pin();
        let tables = (0..TABLES).filter_map(|number| self.table(number, &guard));
        tables.map(|table| size_of_val(&*table.buckets)).sum()
    }

    /// Returns all prefixes, each as the number of its table and its own number, and their nodes.
    pub fn entries(&self, guard: &Guard) -> Vec<((usize, u64), Ref)> {
        let entries = (0..TABLES).flat_map(|number| {
            let table = self.table(number, guard);
            let numbers = table.into_iter().flat_map(|table| table.numbers());
            numbers.map(move |(slot, prefix)| {
                let node = table::node(slot.load(Ordering::Relaxed));
                ((number, prefix), node)
            })
        });
        entries.collect()
    }

    /// Returns all stems and their first nodes.
    pub fn stems(&self) -> Vec<(Stem, Ref)> {
        lock(&self.changes).stems.clone()
    }
}

impl Drop for Jumps {
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        for table in &self.tables {
            let table = table.swap(Shared::null(), Ordering::Relaxed, &guard);
            if !table.is_null() {
                // SAFETY: no other thread can reach the table, which this value owns exclusively.
                unsafe { guard.defer_destroy(table) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
