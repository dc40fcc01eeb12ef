//! Rivals free everything that they have allocated. In a separate process, with an allocator that
//! counts.
#![cfg(not(loom))]

use nearfield_core::{ByteStrings, OrderedIndex, Words};
use nearfield_radix_rivals::{Art, ArtRowex, Heart, Smart};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

struct LiveBytesAllocator;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for LiveBytesAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: LiveBytesAllocator = LiveBytesAllocator;

/// Lock of the running test: allocations of others would be counted, too.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of bytes that the epochs keep for reuse.
const KEPT_MAX: i64 = 64 << 10;

/// Returns the number of bytes in use when nothing waits for the epochs any more.
fn settled_bytes() -> i64 {
    for _ in 0..1024 {
        crossbeam_epoch::pin().flush();
    }
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Uses an index whose keys have `insert` and `remove`, and drops it while it has entries.
fn frees_everything<I>(new: impl Fn() -> I, insert: impl Fn(&I, u64), remove: impl Fn(&I, u64)) {
    const KEYS: u64 = 30_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = None;
    for _ in 0..3 {
        let index = new();
        // Nodes of all kinds, some of them with holes.
        let place = |key: u64| {
            if key.is_multiple_of(2) {
                key
            } else {
                key * key
            }
        };
        (0..KEYS).for_each(|key| insert(&index, place(key)));
        let full = LIVE_BYTES.load(Ordering::Relaxed);
        (0..KEYS)
            .step_by(3)
            .for_each(|key| remove(&index, place(key)));
        (0..KEYS)
            .step_by(7)
            .for_each(|key| insert(&index, place(key)));
        drop(index);
        let after = settled_bytes();
        // Memory kept by the epochs and in thread-local storage is included after the first round.
        let before = *before.get_or_insert(after);
        assert!(
            full - before > 1 << 19,
            "{full} bytes in use, {before} before"
        );
        assert!(
            after - before < KEPT_MAX,
            "{} bytes are left",
            after - before
        );
    }
}

/// The tests of a design.
macro_rules! tests {
    ($name:ident, $index:ident) => {
        mod $name {
            use super::*;

            #[test]
            fn words() {
                let insert = |index: &$index<Words>, key| {
                    index.insert(key, key).expect("insert");
                };
                let remove = |index: &$index<Words>, key| {
                    index.remove(key).expect("remove");
                };
                frees_everything($index::new, insert, remove);
            }

            #[test]
            fn bytes() {
                let insert = |index: &$index<ByteStrings>, key: u64| {
                    let text = key.to_string();
                    let value = "v".repeat(key as usize % 50);
                    index
                        .insert(text.as_bytes(), value.as_bytes())
                        .expect("insert");
                };
                let remove = |index: &$index<ByteStrings>, key: u64| {
                    let text = key.to_string();
                    index.remove(text.as_bytes()).expect("remove");
                };
                frees_everything($index::new, insert, remove);
            }
        }
    };
}

tests!(art, Art);
tests!(art_rowex, ArtRowex);
tests!(smart, Smart);
tests!(heart, Heart);
