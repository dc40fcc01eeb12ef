//! Address space for all items of one size, reserved once, so that an index finds its item by
//! one multiplication and items never move.

#[cfg(target_os = "linux")]
use memmap2::{Advice, UncheckedAdvice};
use memmap2::{MmapOptions, MmapRaw};
use nearfield_core::OperationError;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unit in which memory is given back, a multiple of every system's page size.
const PIECE_BYTES: usize = 64 << 10;

/// The minimum useful address space.
const RESERVED_BYTES_MIN: usize = 1 << 20;

/// Zeroed memory for `capacity` items of `stride` bytes each. Only pages that have been touched
/// take memory.
#[derive(Debug)]
pub struct ReservedRegion {
    map: MmapRaw,
    stride: usize,
    capacity: u64,
    next: AtomicU64,
}

impl ReservedRegion {
    /// Reserves address space for `capacity` items, or for fewer if the system grants less. It is
    /// backed by huge pages above `small_bytes`.
    pub fn reserve(
        stride: usize,
        capacity: u64,
        small_bytes: usize,
    ) -> Result<ReservedRegion, OperationError> {
        let mut bytes = stride * capacity as usize;
        loop {
            match MmapOptions::new().len(bytes).no_reserve_swap().map_anon() {
                Ok(map) => {
                    #[cfg(target_os = "linux")]
                    {
                        // Refused if the system has no huge pages; the map works without them.
                        let _ = map.advise_range(
                            Advice::HugePage,
                            small_bytes,
                            bytes.saturating_sub(small_bytes),
                        );
                    }
                    return Ok(ReservedRegion {
                        map: MmapRaw::from(map),
                        stride,
                        capacity: (bytes / stride) as u64,
                        next: AtomicU64::new(0),
                    });
                }
                // The system may limit the address space of a process. A smaller map still works.
                Err(_) if bytes / 2 >= RESERVED_BYTES_MIN => bytes /= 2,
                Err(error) => {
                    return Err(OperationError::OutOfMemory {
                        what: format!("{bytes} bytes of address space for an index: {error}"),
                    });
                }
            }
        }
    }

    /// Takes `count` unused items, or fewer at the end of the region; returns the first and their
    /// number.
    pub fn take(&self, count: u32) -> Option<(u32, u32)> {
        let first = self.next.fetch_add(u64::from(count), Ordering::Relaxed);
        if first >= self.capacity {
            // Keeps the counter from running away; items lost by a race are past the end.
            self.next.store(self.capacity, Ordering::Relaxed);
            return None;
        }
        let count = u64::from(count).min(self.capacity - first);
        Some((first as u32, count as u32))
    }

    /// Gives the memory of neighbouring items back to the system, as far as it contains whole
    /// pieces. Returns the items in it: their content is zeros when they are next touched.
    ///
    /// # Safety
    /// No thread may rely on the content of the items.
    pub unsafe fn give_back(&self, items: std::ops::Range<u32>) -> std::ops::Range<u32> {
        debug_assert!(
            items.end as usize * self.stride <= self.bytes_taken(),
            "items that nobody has taken"
        );
        let none = items.start..items.start;
        // Items at the edges share their pages with others, so only whole pieces are given back.
        let start = (items.start as usize * self.stride).next_multiple_of(PIECE_BYTES);
        let end = items.end as usize * self.stride / PIECE_BYTES * PIECE_BYTES;
        if start >= end {
            return none;
        }
        #[cfg(target_os = "linux")]
        {
            let advice = UncheckedAdvice::DontNeed;
            // SAFETY: the range is within the items, whose content no thread relies on, as the
            // caller promises. It contains no other memory.
            let given = unsafe { self.map.unchecked_advise_range(advice, start, end - start) };
            match given {
                Ok(()) => start.div_ceil(self.stride) as u32..(end / self.stride) as u32,
                Err(_) => none,
            }
        }
        #[cfg(not(target_os = "linux"))]
        none
    }

    /// Returns the maximum number of items.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Creates the error that no item can be taken any more.
    pub fn full(&self) -> OperationError {
        OperationError::OutOfMemory {
            what: format!(
                "all {} bytes of a region of the index are in use",
                self.bytes_taken()
            ),
        }
    }

    /// Returns the size of an item in bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of bytes of all items that have been taken.
    pub fn bytes_taken(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.capacity) as usize * self.stride
    }

    /// Returns the address of an item. It is within the region if the item has been taken.
    #[inline]
    pub fn address(&self, index: u32) -> *mut u8 {
        debug_assert!(u64::from(index) < self.capacity, "past the region");
        self.map
            .as_mut_ptr()
            .wrapping_add(index as usize * self.stride)
    }
}
