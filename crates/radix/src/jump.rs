//! Jumps: from the first bytes of a key to the first node on its path that lies behind them, past
//! the nodes before.
//!
//! ```text
//!   line   slot 0 | slot 1 | … | slot 7       64 bytes, chosen by a hash of the prefix
//!   slot   prefix: 4 bytes | node: 4 bytes    one word, read and written at once
//! ```
//!
//! For each prefix of [`PREFIX`] bytes there is one link of the tree, from a node that decides on
//! one of these bytes to a child that decides on a later byte. If the child is an inner node, a
//! slot may name it. Other keys with the prefix cannot be elsewhere, so that a walk may begin
//! there.
//!
//! The link is changed under the lock of the node above. Before that, the thread clears the slot,
//! and it sets it again before it gives the lock back. So whoever finds a node in the table has
//! begun before the node was unlinked, as if it had come from the root: it sees the state before
//! the change, or meets an obsolete node. A missing slot costs only the walk from the root.

use crate::node::Ref;
use crate::prefetch::prefetch;
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of a prefix.
pub const PREFIX: usize = 4;

const SLOTS: usize = 8;

/// The most lines of a table.
const LINES_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    slots: [AtomicU64; SLOTS],
}

#[derive(Debug)]
struct Table {
    lines: Box<[Line]>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Jumps {
    table: Atomic<Table>,
    /// Held by the thread that changes the table.
    changes: Mutex<()>,
}

impl Default for Jumps {
    fn default() -> Self {
        Jumps {
            table: Atomic::new(Table::new(1)),
            changes: Mutex::default(),
        }
    }
}

fn entry(prefix: u32, node: Ref) -> u64 {
    u64::from(prefix) << 32 | u64::from(node.bits())
}

impl Table {
    fn new(lines: usize) -> Table {
        Table {
            lines: (0..lines).map(|_| Line::default()).collect(),
        }
    }

    #[inline]
    fn line(&self, prefix: u32) -> &Line {
        let hash = u64::from(prefix).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.lines[((hash * self.lines.len() as u64) >> 32) as usize]
    }

    /// The slot of a prefix, or a free one.
    fn slot(&self, prefix: u32) -> Option<&AtomicU64> {
        let slots = &self.line(prefix).slots;
        let load = |slot: &&AtomicU64| slot.load(Ordering::Relaxed);
        let own = slots
            .iter()
            .find(|slot| load(slot) as u32 != 0 && (load(slot) >> 32) as u32 == prefix);
        own.or_else(|| slots.iter().find(|slot| load(slot) == 0))
    }
}

impl Jumps {
    /// Asks for the line of a prefix.
    #[inline]
    pub fn prefetch(&self, prefix: u32, guard: &Guard) {
        prefetch(std::ptr::from_ref(self.table(guard).line(prefix)).cast());
    }

    #[inline]
    fn table<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        let table = self.table.load(Ordering::Acquire, guard);
        // SAFETY: there is always a table, and a replaced one is freed after all guards are gone
        // under which it could be read.
        unsafe { table.deref() }
    }

    /// The first node on the path of keys with a prefix that lies behind it; null if unknown.
    #[inline]
    pub fn find(&self, prefix: u32, guard: &Guard) -> Ref {
        let mut found = 0;
        for slot in &self.table(guard).line(prefix).slots {
            let slot = slot.load(Ordering::Acquire);
            // Without a branch, as none could be predicted.
            let node = if (slot >> 32) as u32 == prefix {
                slot as u32
            } else {
                0
            };
            found |= node;
        }
        Ref::from_bits(found)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a prefix.
    pub fn clear(&self, prefix: u32, guard: &Guard) {
        let _lock = self.lock();
        if let Some(slot) = self.table(guard).slot(prefix) {
            slot.store(0, Ordering::Release);
        }
    }

    /// Forgets a node whose prefix is not known. Linear in the table.
    #[cold]
    pub fn clear_node(&self, node: Ref, guard: &Guard) {
        let _lock = self.lock();
        for slot in self.table(guard).lines.iter().flat_map(|line| &line.slots) {
            if Ref::from_bits(slot.load(Ordering::Relaxed) as u32).same(node) {
                slot.store(0, Ordering::Release);
            }
        }
    }

    /// Remembers the node of a prefix.
    pub fn set(&self, prefix: u32, node: Ref, guard: &Guard) {
        let _lock = self.lock();
        loop {
            let table = self.table(guard);
            if let Some(slot) = table.slot(prefix) {
                return slot.store(entry(prefix, node), Ordering::Release);
            }
            if table.lines.len() >= LINES_MAX {
                return;
            }
            self.grow(table, guard);
        }
    }

    /// Replaces the table by one of twice the size, as far as lines have room.
    fn grow(&self, table: &Table, guard: &Guard) {
        let larger = Table::new(2 * table.lines.len());
        for line in &table.lines {
            for slot in &line.slots {
                let entry = slot.load(Ordering::Relaxed);
                if entry != 0
                    && let Some(slot) = larger.slot((entry >> 32) as u32)
                {
                    slot.store(entry, Ordering::Relaxed);
                }
            }
        }
        let old = self.table.swap(Owned::new(larger), Ordering::AcqRel, guard);
        // SAFETY: the old table is not reachable any more.
        unsafe { guard.defer_destroy(old) };
    }

    /// The memory of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.table(&crossbeam_epoch::pin()).lines)
    }

    /// All prefixes and their nodes.
    pub fn entries(&self, guard: &Guard) -> Vec<(u32, Ref)> {
        let slots = self.table(guard).lines.iter().flat_map(|line| &line.slots);
        slots
            .map(|slot| slot.load(Ordering::Relaxed))
            .filter(|&entry| entry != 0)
            .map(|entry| ((entry >> 32) as u32, Ref::from_bits(entry as u32)))
            .collect()
    }
}

impl Drop for Jumps {
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        let table = self.table.swap(Shared::null(), Ordering::Relaxed, &guard);
        // SAFETY: no other thread has the table, which is exclusively ours.
        unsafe { guard.defer_destroy(table) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Kind;
    use std::collections::HashMap;

    #[test]
    fn a_table_grows_and_keeps_what_lines_have_room_for() {
        let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
        let mut model = HashMap::new();
        for number in 0..5000u32 {
            let prefix = number.wrapping_mul(0x9e37_79b9) >> 12;
            let node = Ref::new(Kind::Node4, number);
            jumps.set(prefix, node, &guard);
            assert_eq!(jumps.find(prefix, &guard), node);
            model.insert(prefix, node);
            if number % 3 == 0 {
                jumps.clear(prefix, &guard);
                assert!(jumps.find(prefix, &guard).is_null());
                model.remove(&prefix);
            }
        }
        let kept = model
            .iter()
            .filter(|(prefix, _)| !jumps.find(**prefix, &guard).is_null())
            .inspect(|(prefix, node)| assert_eq!(jumps.find(**prefix, &guard), **node))
            .count();
        assert!(kept * 10 > model.len() * 9, "{kept} of {}", model.len());
        assert!(jumps.bytes() < 64 * 5000);
    }

    #[test]
    fn a_prefix_has_one_slot() {
        let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
        for index in 0..20 {
            jumps.set(0, Ref::new(Kind::Node16, index), &guard);
        }
        assert_eq!(jumps.entries(&guard), [(0, Ref::new(Kind::Node16, 19))]);
        assert!(jumps.find(1, &guard).is_null());
    }

    #[test]
    fn a_node_is_forgotten_without_its_prefix() {
        let (jumps, guard) = (Jumps::default(), crossbeam_epoch::pin());
        for prefix in 0..1000 {
            jumps.set(prefix, Ref::new(Kind::Node256, prefix), &guard);
        }
        jumps.clear_node(Ref::new(Kind::Skipping256, 500), &guard);
        let kept: Vec<u32> = jumps.entries(&guard).iter().map(|entry| entry.0).collect();
        assert_eq!(kept.len(), 999);
        assert!(!kept.contains(&500));
    }
}
