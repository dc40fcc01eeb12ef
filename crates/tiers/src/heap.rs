//! A heap in this machine's memory that counts the bytes allocated from it.

use allocator_api2::alloc::{AllocError, Allocator, Global};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A heap that accounts for every byte allocated from it. Clones are the same heap.
///
/// Any number of threads may allocate and free memory at once.
///
/// ```
/// use allocator_api2::vec::Vec;
/// use nearfield_tiers::AccountedHeap;
///
/// let heap = AccountedHeap::new();
/// let mut numbers = Vec::with_capacity_in(100, heap.clone());
/// numbers.push(1_u64);
/// assert_eq!(heap.used_bytes(), 800);
/// drop(numbers);
/// assert_eq!(heap.used_bytes(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccountedHeap {
    used: Arc<AtomicUsize>,
}

impl AccountedHeap {
    /// Creates a heap from which nothing is allocated yet.
    pub fn new() -> AccountedHeap {
        AccountedHeap::default()
    }

    /// Returns the bytes that are allocated from the heap now, as they were requested.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

// SAFETY: all memory comes from `Global` and returns to it with the layout that it was allocated
// with, so `Global`'s guarantees for its blocks hold for these. Clones share one counter and
// allocate from the one `Global`, so any of them may free a block; moving an `AccountedHeap` moves
// only the reference to its counter.
unsafe impl Allocator for AccountedHeap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Global.allocate(layout)?;
        // Counted afterwards, because a refused allocation uses nothing.
        self.used.fetch_add(layout.size(), Ordering::Relaxed);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let used = self.used.fetch_sub(layout.size(), Ordering::Relaxed);
        debug_assert!(used >= layout.size(), "a block is freed to its own heap");
        // SAFETY: the caller guarantees that `block` was allocated here with `layout`, thus from
        // `Global`.
        unsafe { Global.deallocate(block, layout) }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as for `deallocate`; the caller guarantees that `new` is not smaller.
        let grown = unsafe { Global.grow(block, old, new) }?;
        self.used
            .fetch_add(new.size() - old.size(), Ordering::Relaxed);
        Ok(grown)
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as for `deallocate`; the caller guarantees that `new` is not larger.
        let shrunk = unsafe { Global.shrink(block, old, new) }?;
        self.used
            .fetch_sub(old.size() - new.size(), Ordering::Relaxed);
        Ok(shrunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::vec::Vec;

    #[test]
    fn growing_and_shrinking_are_counted() {
        let heap = AccountedHeap::new();
        let mut bytes = Vec::new_in(heap.clone());
        for byte in 0..1000_u32 {
            bytes.push(byte as u8);
            assert_eq!(heap.used_bytes(), bytes.capacity());
        }
        bytes.truncate(10);
        bytes.shrink_to_fit();
        assert_eq!(heap.used_bytes(), 10);
        let other = bytes.clone();
        assert_eq!(heap.used_bytes(), 20);
        drop((bytes, other));
        assert_eq!(heap.used_bytes(), 0);
    }
}
