//! Free lists of items of one unit.
//!
//! Each [stripe](super::stripes) has its own free items. A stripe that collects many, because its
//! threads free items that other threads allocate, spills half of them to a shared list.
//!
//! Memory is type-stable: a freed item is reused for the same kind, and its lock word stays a lock
//! word.
//!
//! A tree outgrows its small nodes all at about the same time. When nearly all items of a region
//! are free, those that fill whole pieces of memory are [given back](Items::give_back). They stay
//! on their own list, and are reused after all others.

use super::region::ReservedRegion;
use super::stripes::StripedState;
use crate::prefetch::prefetch;
use nearfield_core::OperationError;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of free items that a stripe keeps before it spills.
const FREE_MAX: usize = 8192;

/// Number of allocations by which a free item is prefetched.
const AHEAD: usize = 4;

/// The minimum number of free bytes of a region that are given back.
const GIVEN_BACK_FROM: usize = 256 << 10;

/// Number of bytes that a stripe takes from a region at once.
const CHUNK_BYTES: usize = 16 << 10;

/// The free items of a region; see the [module](self).
#[derive(Debug)]
pub struct Items {
    stripes: StripedState<Stripe>,
    shared: Mutex<SharedFreeItems>,
    /// Number of items whose memory has been given back.
    given_back: AtomicUsize,
    has_spilled: AtomicBool,
    chunk: u32,
}

/// Free items for all stripes.
#[derive(Debug, Default)]
struct SharedFreeItems {
    /// The spilled items, one list per spill: a single long list would be moved as it grows.
    spilled: Vec<Vec<u32>>,
    /// Items without memory.
    given_back: Vec<Range<u32>>,
}

#[derive(Debug, Default)]
struct Stripe {
    /// The items taken from the region but not used yet.
    fresh: Range<u32>,
    free: Vec<u32>,
    /// Number of items in use; may be negative if this stripe frees items of others.
    live: i64,
}

impl Stripe {
    fn free_item(&mut self, index: u32) {
        self.live -= 1;
        self.free.push(index);
    }
}

impl Items {
    /// Creates free lists of items of `stride` bytes.
    pub fn new(stride: usize) -> Items {
        Items {
            stripes: StripedState::new(Stripe::default),
            shared: Mutex::default(),
            given_back: AtomicUsize::new(0),
            has_spilled: AtomicBool::new(false),
            chunk: (CHUNK_BYTES / stride).max(1) as u32,
        }
    }

    /// Allocates an item of a region. Its content is that of its last user, or zeros. `grow`
    /// decides if the given number of bytes may be taken from the region.
    pub fn allocate(
        &self,
        region: &ReservedRegion,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        self.allocate_from(region, &mut self.stripes.lock(), grow)
    }

    /// Allocates two items, or none.
    pub fn allocate_two(
        &self,
        region: &ReservedRegion,
        grow: impl Fn(usize) -> Result<(), OperationError>,
    ) -> Result<[u32; 2], OperationError> {
        let mut stripe = self.stripes.lock();
        let first = self.allocate_from(region, &mut stripe, &grow)?;
        match self.allocate_from(region, &mut stripe, &grow) {
            Ok(second) => Ok([first, second]),
            Err(error) => {
                stripe.free_item(first);
                Err(error)
            }
        }
    }

    fn allocate_from(
        &self,
        region: &ReservedRegion,
        stripe: &mut Stripe,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        let index = match stripe.free.pop() {
            Some(index) => index,
            None => self.allocate_fresh(region, stripe, grow)?,
        };
        // Items that were freed are out of the cache by now, and the caller will write to the item
        // that it gets. Prefetch the one after the next few.
        let free = &stripe.free;
        if let Some(&coming) = free.len().checked_sub(AHEAD).and_then(|i| free.get(i)) {
            let line = region.address(coming).cast_const();
            prefetch(line);
            prefetch(line.wrapping_add(64));
        }
        stripe.live += 1;
        Ok(index)
    }

    fn allocate_fresh(
        &self,
        region: &ReservedRegion,
        stripe: &mut Stripe,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        if self.has_spilled.load(Ordering::Relaxed) {
            let mut shared = self.shared();
            if let Some(mut list) = shared.spilled.pop()
                && let Some(index) = list.pop()
            {
                stripe.free = list;
                return Ok(index);
            }
            if let Some(items) = shared.given_back.last_mut() {
                grow(region.stride())?;
                let index = items.start;
                items.start += 1;
                if Range::is_empty(items) {
                    shared.given_back.pop();
                }
                self.given_back.fetch_sub(1, Ordering::Relaxed);
                return Ok(index);
            }
        }
        if stripe.fresh.is_empty() {
            match self.take_chunk(region, grow) {
                Ok((first, count)) => stripe.fresh = first..first + count,
                // Memory is short, but other stripes may have free items.
                Err(error) => return self.take_from_others().ok_or(error),
            }
        }
        let first = stripe.fresh.start;
        stripe.fresh.start += 1;
        Ok(first)
    }

    fn take_chunk(
        &self,
        region: &ReservedRegion,
        grow: impl FnOnce(usize) -> Result<(), OperationError>,
    ) -> Result<(u32, u32), OperationError> {
        grow(self.chunk as usize * region.stride())?;
        region.take(self.chunk).ok_or_else(|| region.full())
    }

    /// Returns a free item of another stripe. Stripes whose lock is held are skipped, because the
    /// caller holds its own.
    fn take_from_others(&self) -> Option<u32> {
        self.stripes
            .others()
            .find_map(|mut stripe| stripe.free.pop())
    }

    /// Frees items.
    pub fn free_all(&self, indices: impl IntoIterator<Item = u32>) {
        let mut stripe = self.stripes.lock();
        for index in indices {
            stripe.free_item(index);
        }
        if stripe.free.len() > FREE_MAX {
            let half = stripe.free.split_off(FREE_MAX / 2);
            drop(stripe);
            self.shared().spilled.push(half);
            self.has_spilled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of items in use.
    pub fn live(&self) -> usize {
        let items: i64 = self.stripes.all().map(|stripe| stripe.live).sum();
        items.max(0) as usize
    }

    /// Returns the number of bytes taken from the system, in use or free, and not given back.
    pub fn bytes_taken(&self, region: &ReservedRegion) -> usize {
        let given_back = self.given_back.load(Ordering::Relaxed) * region.stride();
        region.bytes_taken().saturating_sub(given_back)
    }

    fn shared(&self) -> MutexGuard<'_, SharedFreeItems> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives memory of free items back to the system, if nearly all items are free and there are
    /// enough to be worth it. Returns the number of bytes.
    ///
    /// # Safety
    /// No thread may hold a reference to a freed item.
    pub unsafe fn give_back(&self, region: &ReservedRegion) -> usize {
        let own: usize = self.stripes.all().map(|stripe| stripe.free.len()).sum();
        let spilled: usize = self.shared().spilled.iter().map(Vec::len).sum();
        let bytes = (own + spilled) * region.stride();
        // Free items lie among others as long as many are in use, and then fill no whole pieces.
        if bytes < GIVEN_BACK_FROM || bytes < self.bytes_taken(region) / 8 * 7 {
            return 0;
        }
        let mut free = vec![false; region.bytes_taken() / region.stride()];
        let mut mark = |list: Vec<u32>| {
            for item in list {
                debug_assert!(!free[item as usize], "an item was freed twice");
                free[item as usize] = true;
            }
        };
        for mut stripe in self.stripes.all() {
            mark(std::mem::take(&mut stripe.free));
        }
        let mut shared = self.shared();
        shared.spilled.drain(..).for_each(mark);
        let mut count = 0;
        let mut first = 0;
        for run in free.chunk_by(|a, b| a == b) {
            let items = first..first + run.len() as u32;
            first = items.end;
            if run[0] {
                // SAFETY: all items of the run are free, and no longer on a list; the caller
                // promises that no thread refers to them.
                let given = unsafe { region.give_back(items.clone()) };
                count += given.len();
                for kept in [
                    items.start..given.start,
                    given.end.max(given.start)..items.end,
                ] {
                    if !kept.is_empty() {
                        shared.spilled.push(kept.collect());
                    }
                }
                if !given.is_empty() {
                    shared.given_back.push(given);
                }
            }
        }
        self.given_back.fetch_add(count, Ordering::Relaxed);
        self.has_spilled.store(true, Ordering::Relaxed);
        count * region.stride()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(_: usize) -> Result<(), OperationError> {
        Err(OperationError::OutOfMemory {
            what: "no more".to_owned(),
        })
    }

    #[test]
    fn memory_of_free_items_is_given_back_and_used_again() {
        let region = ReservedRegion::reserve(96, 1 << 20, 0).expect("address space");
        let items = Items::new(96);
        let allocate = || items.allocate(&region, |_| Ok(())).expect("an item");
        let all: Vec<u32> = (0..20_000).map(|_| allocate()).collect();
        let taken = items.bytes_taken(&region);
        let write = |item: u32, byte: u8| {
            // SAFETY: the item belongs to this test, and 96 bytes long.
            unsafe { region.address(item).write_bytes(byte, 96) };
        };
        all.iter().for_each(|&item| write(item, 7));
        let (kept, freed) = all.split_at(100);
        // SAFETY: no item is referred to.
        assert_eq!(unsafe { items.give_back(&region) }, 0, "all are in use");
        items.free_all(freed.iter().copied());
        // SAFETY: no thread refers to the freed items.
        let bytes = unsafe { items.give_back(&region) };
        if cfg!(target_os = "linux") {
            assert!(bytes > taken / 10 * 9);
        }
        assert_eq!(items.bytes_taken(&region), taken - bytes);
        let again: Vec<u32> = (0..freed.len()).map(|_| allocate()).collect();
        let mut used: Vec<u32> = kept.iter().chain(&again).copied().collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), all.len(), "an item was allocated twice");
        assert_eq!(items.bytes_taken(&region), taken);
        again.iter().for_each(|&item| write(item, 9));
        for &item in kept {
            // SAFETY: as above.
            let byte = unsafe { region.address(item).read() };
            assert_eq!(byte, 7, "memory in use was freed");
        }
    }

    /// Memory that another thread has freed must not be lost to a thread that has none left.
    #[test]
    fn what_another_thread_has_freed_is_found() {
        let region = ReservedRegion::reserve(64, 1 << 20, 0).expect("address space");
        let items = Items::new(64);
        let item = items.allocate(&region, |_| Ok(())).expect("a first item");
        while items.allocate(&region, full).is_ok() {}
        std::thread::scope(|scope| {
            scope.spawn(|| items.free_all([item]));
        });
        assert_eq!(items.allocate(&region, full).ok(), Some(item));
        assert!(items.allocate(&region, full).is_err());
    }
}
