//! Free lists over the regions.
//!
//! Threads share 16 stripes, each with its own free items behind a lock of its own that is
//! hardly ever contended. A stripe that collects many free items, because its threads free what
//! others allocate, spills half of them to a list for all.
//!
//! Memory is type-stable: an item that is freed is used again for the same kind, and its lock
//! word stays a lock word.
//!
//! A tree outgrows its small nodes all at about the same time. When nearly all items of a region
//! are free, those that fill whole pieces of memory are [given back](Allocator::give_back); they
//! stay on a list of their own, to be used again after all others.

use super::region::Region;
use crate::prefetch::prefetch;
use crossbeam_utils::CachePadded;
use nearfield_core::Error;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const STRIPES: usize = 16;

/// Free items of one class that a stripe keeps before it spills.
const FREE_MAX: usize = 8192;

/// How many allocations before its turn a free item is asked for.
const AHEAD: usize = 4;

/// Free bytes of a region that are worth giving back.
const GIVEN_BACK_FROM: usize = 256 << 10;

/// Bytes that a stripe takes from a region at once.
const CHUNK_BYTES: usize = 16 << 10;

/// Allocates items of classes 1 to `classes` from one region; an item of class n is n
/// consecutive units.
#[derive(Debug)]
pub struct Allocator {
    region: Region,
    stripes: Box<[CachePadded<Mutex<Stripe>>]>,
    shared: Mutex<Shared>,
    /// The items whose memory has been given back.
    given_back: AtomicUsize,
    has_spilled: AtomicBool,
    chunk: u32,
}

/// Free items for all stripes.
#[derive(Debug)]
struct Shared {
    /// By class, in lists as they were spilled: a single long one would be moved as it grows.
    spilled: Vec<Vec<Vec<u32>>>,
    /// Items of class 1 without memory.
    given_back: Vec<Range<u32>>,
}

#[derive(Debug)]
struct Stripe {
    /// Units taken from the region and not used yet.
    fresh: (u32, u32),
    /// Free items by class.
    free: Vec<Vec<u32>>,
    /// Items in use by class; may be negative where others' items are freed here.
    live: Vec<i64>,
}

impl Stripe {
    fn free_item(&mut self, index: u32, class: usize) {
        self.live[class] -= 1;
        self.free[class].push(index);
    }
}

impl Allocator {
    /// Creates an allocator of items of up to `classes` units of `stride` bytes, whose memory
    /// consists of huge pages from `small_bytes` on.
    pub fn new(
        stride: usize,
        capacity: u64,
        classes: usize,
        small_bytes: usize,
    ) -> Result<Allocator, Error> {
        let stripe = || Stripe {
            fresh: (0, 0),
            free: vec![Vec::new(); classes + 1],
            live: vec![0; classes + 1],
        };
        Ok(Allocator {
            region: Region::reserve(stride, capacity, small_bytes)?,
            stripes: (0..STRIPES)
                .map(|_| CachePadded::new(Mutex::new(stripe())))
                .collect(),
            shared: Mutex::new(Shared {
                spilled: vec![Vec::new(); classes + 1],
                given_back: Vec::new(),
            }),
            given_back: AtomicUsize::new(0),
            has_spilled: AtomicBool::new(false),
            chunk: (CHUNK_BYTES / stride).max(classes).max(1) as u32,
        })
    }

    /// The address of an item.
    #[inline]
    pub fn address(&self, index: u32) -> *mut u8 {
        self.region.address(index)
    }

    /// Allocates an item of a class. Its content is what its last user has left, or zeros.
    /// `grow` is asked for leave to take that many bytes from the region.
    pub fn allocate(
        &self,
        class: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        self.allocate_from(&mut self.stripe(), class, grow)
    }

    /// Allocates two items, or none.
    pub fn allocate_two(
        &self,
        class: usize,
        grow: impl Fn(usize) -> Result<(), Error>,
    ) -> Result<[u32; 2], Error> {
        let mut stripe = self.stripe();
        let first = self.allocate_from(&mut stripe, class, &grow)?;
        match self.allocate_from(&mut stripe, class, &grow) {
            Ok(second) => Ok([first, second]),
            Err(error) => {
                stripe.free_item(first, class);
                Err(error)
            }
        }
    }

    fn allocate_from(
        &self,
        stripe: &mut Stripe,
        class: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        let index = match stripe.free[class].pop() {
            Some(index) => index,
            None => self.allocate_fresh(stripe, class, grow)?,
        };
        // Items that were freed are out of the cache by now; the caller is going to write to the
        // one it gets. Ask for the one that comes after the next few.
        let free = &stripe.free[class];
        if let Some(&coming) = free.len().checked_sub(AHEAD).and_then(|i| free.get(i)) {
            let line = self.address(coming).cast_const();
            prefetch(line);
            prefetch(line.wrapping_add(64));
        }
        stripe.live[class] += 1;
        Ok(index)
    }

    fn allocate_fresh(
        &self,
        stripe: &mut Stripe,
        class: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        if self.has_spilled.load(Ordering::Relaxed) {
            let mut shared = self.shared();
            if let Some(mut list) = shared.spilled[class].pop()
                && let Some(index) = list.pop()
            {
                stripe.free[class] = list;
                return Ok(index);
            }
            if class == 1
                && let Some(items) = shared.given_back.last_mut()
            {
                grow(self.stride())?;
                let index = items.start;
                items.start += 1;
                if Range::is_empty(items) {
                    shared.given_back.pop();
                }
                self.given_back.fetch_sub(1, Ordering::Relaxed);
                return Ok(index);
            }
        }
        if (stripe.fresh.1 as usize) < class {
            let (rest, units) = stripe.fresh;
            if units > 0 {
                stripe.free[units as usize].push(rest);
                stripe.fresh = (0, 0);
            }
            match self.take_chunk(class, grow) {
                Ok(fresh) => stripe.fresh = fresh,
                Err(error) => return self.take_from_others(class).ok_or(error),
            }
        }
        let (first, units) = stripe.fresh;
        stripe.fresh = (first + class as u32, units - class as u32);
        Ok(first)
    }

    fn take_chunk(
        &self,
        class: usize,
        grow: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<(u32, u32), Error> {
        grow(self.chunk as usize * self.stride())?;
        match self.region.take(self.chunk) {
            Some(fresh) if fresh.1 as usize >= class => Ok(fresh),
            _ => Err(Error::OutOfMemory {
                what: format!(
                    "all {} bytes of a region of the index are in use",
                    self.region.bytes_taken()
                ),
            }),
        }
    }

    /// A free item of another stripe. Those whose lock is held are left out, as the caller has
    /// its own.
    fn take_from_others(&self, class: usize) -> Option<u32> {
        self.stripes
            .iter()
            .filter_map(|stripe| stripe.try_lock().ok())
            .find_map(|mut stripe| stripe.free[class].pop())
    }

    /// Frees an item.
    pub fn free(&self, index: u32, class: usize) {
        self.free_all([index], class);
    }

    /// Frees items of one class.
    pub fn free_all(&self, indices: impl IntoIterator<Item = u32>, class: usize) {
        let mut stripe = self.stripe();
        for index in indices {
            stripe.free_item(index, class);
        }
        if stripe.free[class].len() > FREE_MAX {
            let half = stripe.free[class].split_off(FREE_MAX / 2);
            drop(stripe);
            self.shared().spilled[class].push(half);
            self.has_spilled.store(true, Ordering::Relaxed);
        }
    }

    /// The units in use.
    pub fn live_units(&self) -> usize {
        let mut units = 0;
        for stripe in &self.stripes {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            units += stripe
                .live
                .iter()
                .zip(0i64..)
                .map(|(count, class)| count * class)
                .sum::<i64>();
        }
        units.max(0) as usize
    }

    /// The bytes of a unit.
    pub fn stride(&self) -> usize {
        self.region.stride()
    }

    /// The bytes taken from the system, in use or free, and not given back.
    pub fn bytes_taken(&self) -> usize {
        let given_back = self.given_back.load(Ordering::Relaxed) * self.stride();
        self.region.bytes_taken().saturating_sub(given_back)
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives memory of free items of class 1 back to the system, if nearly all items are free, and
    /// so many that it is worth while. Answers how many bytes.
    ///
    /// # Safety
    /// Nobody may hold a reference to an item that has been freed.
    pub unsafe fn give_back(&self) -> usize {
        let lists = || self.stripes.iter().map(|stripe| stripe.lock());
        let own: usize = lists()
            .map(|stripe| stripe.unwrap_or_else(PoisonError::into_inner).free[1].len())
            .sum();
        let spilled: usize = self.shared().spilled[1].iter().map(Vec::len).sum();
        let bytes = (own + spilled) * self.stride();
        if bytes < GIVEN_BACK_FROM || bytes < self.bytes_taken() / 8 * 7 {
            return 0;
        }
        let mut free = vec![false; self.region.bytes_taken() / self.stride()];
        let mut mark = |list: Vec<u32>| list.iter().for_each(|&item| free[item as usize] = true);
        for stripe in lists() {
            let mut stripe = stripe.unwrap_or_else(PoisonError::into_inner);
            mark(std::mem::take(&mut stripe.free[1]));
        }
        let mut shared = self.shared();
        shared.spilled[1].drain(..).for_each(mark);
        let mut count = 0;
        let mut first = 0;
        for run in free.chunk_by(|a, b| a == b) {
            let items = first..first + run.len() as u32;
            first = items.end;
            if run[0] {
                // SAFETY: all items of the run are free, and on no list any more; the caller
                // promises that nobody refers to them.
                let given = unsafe { self.region.give_back(items.clone()) };
                count += given.len();
                for kept in [
                    items.start..given.start,
                    given.end.max(given.start)..items.end,
                ] {
                    if !kept.is_empty() {
                        shared.spilled[1].push(kept.collect());
                    }
                }
                if !given.is_empty() {
                    shared.given_back.push(given);
                }
            }
        }
        self.given_back.fetch_add(count, Ordering::Relaxed);
        self.has_spilled.store(true, Ordering::Relaxed);
        count * self.stride()
    }

    fn stripe(&self) -> std::sync::MutexGuard<'_, Stripe> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        let stripe = STRIPE.with(|stripe| {
            if stripe.get() == usize::MAX {
                stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
            }
            stripe.get()
        });
        // A panic while the lock is held can only come from a failed allocation of a Vec, which
        // leaves the lists valid.
        self.stripes[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_free_items_is_given_back_and_used_again() {
        let allocator = Allocator::new(96, 1 << 20, 1, 0).expect("address space");
        let items: Vec<u32> = (0..20_000)
            .map(|_| allocator.allocate(1, |_| Ok(())).expect("an item"))
            .collect();
        let taken = allocator.bytes_taken();
        let write = |item: u32, byte: u8| {
            // SAFETY: the item is this test's, and 96 bytes long.
            unsafe { allocator.address(item).write_bytes(byte, 96) };
        };
        items.iter().for_each(|&item| write(item, 7));
        let (kept, freed) = items.split_at(100);
        // SAFETY: no item is referred to.
        assert_eq!(unsafe { allocator.give_back() }, 0, "all are in use");
        allocator.free_all(freed.iter().copied(), 1);
        // SAFETY: those that have been freed are not referred to.
        let bytes = unsafe { allocator.give_back() };
        if cfg!(target_os = "linux") {
            assert!(bytes > taken / 10 * 9);
        }
        assert_eq!(allocator.bytes_taken(), taken - bytes);
        let again: Vec<u32> = (0..freed.len())
            .map(|_| allocator.allocate(1, |_| Ok(())).expect("an item"))
            .collect();
        let mut all: Vec<u32> = kept.iter().chain(&again).copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), items.len(), "an item was given out twice");
        assert_eq!(allocator.bytes_taken(), taken);
        again.iter().for_each(|&item| write(item, 9));
        for &item in kept {
            // SAFETY: as above.
            let byte = unsafe { allocator.address(item).read() };
            assert_eq!(byte, 7, "memory in use was given back");
        }
    }

    /// Memory that is freed by another thread must not be lost to one that has none left.
    #[test]
    fn what_another_thread_has_freed_is_found() {
        let allocator = Allocator::new(64, 1 << 20, 2, 0).expect("address space");
        let full = |_| {
            Err(Error::OutOfMemory {
                what: "no more".to_owned(),
            })
        };
        let item = allocator.allocate(2, |_| Ok(())).expect("a first item");
        while allocator.allocate(2, full).is_ok() {}
        std::thread::scope(|scope| {
            scope.spawn(|| allocator.free(item, 2));
        });
        assert_eq!(allocator.allocate(2, full).ok(), Some(item));
        assert!(allocator.allocate(2, full).is_err());
    }
}
