//! The memory of an object as atomic words. This is the only file of `shm` with unsafe code.
//!
//! ```text
//! 0         64                     4160                       20544     24576
//! ┌─────────┬─────────┬───  ───┬─────────┬─────────┬───  ───┬───────────┬─────────┬──────── ───┐
//! │ summary │ slot 0  │   …    │ slot 63 │ place 0 │   …    │ place 255 │ nothing │ memory     │
//! └─────────┴─────────┴───  ───┴─────────┴─────────┴───  ───┴───────────┴─────────┴──────── ───┘
//! ```
//!
//! The summary and each slot are a [`ShmHeaderLine`], and each place is a [`ShmPostSlot`].

use super::pages::LARGE_PAGE_BYTES;
use crate::prefetch::prefetch;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

// Atomics use the byte order of the processor, writes copy bytes as they are.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "memory nodes are little-endian"
);

/// Length of an object's header.
pub const HEADER_BYTES: u64 = 24576;
/// Largest number of calls in flight.
pub const SLOTS: usize = 64;

/// Largest number of posts by a deadline in flight.
pub const PLACES: usize = 256;

/// A state that processes wait on, and words that it protects.
#[repr(C)]
#[derive(Debug)]
pub struct ShmHeaderLine {
    pub state: AtomicU32,
    /// Number of the events that wake waiters.
    pub bell: AtomicU32,
    pub words: [AtomicU64; 7],
}

/// The client of a post by a deadline, or zero.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ShmPostSlot(pub AtomicU64);

/// The lines of the header in use.
#[repr(C)]
#[derive(Debug)]
pub struct ShmHeader {
    pub summary: ShmHeaderLine,
    pub slots: [ShmHeaderLine; SLOTS],
    pub places: [ShmPostSlot; PLACES],
}

const _: () = assert!(size_of::<ShmHeaderLine>() == 64 && size_of::<ShmPostSlot>() == 64);
const _: () = assert!(size_of::<ShmHeader>() as u64 <= HEADER_BYTES);

/// An object in this process's memory, mapped at a multiple of [`LARGE_PAGE_BYTES`], because
/// otherwise no large page of it could be mapped as one.
#[derive(Debug)]
pub struct ShmMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process. All access to its bytes is atomic.
unsafe impl Send for ShmMapping {}
// SAFETY: as above.
unsafe impl Sync for ShmMapping {}

impl ShmMapping {
    /// Maps `bytes` of an object: a header and whole words.
    ///
    /// # Errors
    /// The object is shorter, or the address space has too little room.
    pub fn new(object: &File, bytes: u64) -> io::Result<ShmMapping> {
        let fits = bytes > HEADER_BYTES && bytes <= object.metadata()?.len();
        let bytes = usize::try_from(bytes).ok().filter(|_| fits);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let large = LARGE_PAGE_BYTES as usize;
        // Reserves one large page more than needed, because the system aligns to small pages.
        let reserved = bytes
            .checked_add(large)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping anywhere touches no memory that is in use.
        let reservation = unsafe { libc::mmap(ptr::null_mut(), reserved, none, flags, -1, 0) };
        if reservation == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = reservation.addr().next_multiple_of(large) - reservation.addr();
        let start = reservation.wrapping_byte_add(before);
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        debug_assert!(start.addr().is_multiple_of(large) && before + bytes <= reserved);
        // SAFETY: `bytes` from `start` on are in the reservation, which no other code knows.
        let mapped = unsafe { libc::mmap(start, bytes, access, flags, object.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: no code uses the reservation.
            unsafe { libc::munmap(reservation, reserved) };
            return Err(error);
        }
        // The rest of the reservation is around whole pages of the mapping.
        let page = rustix::param::page_size();
        let behind = start.wrapping_byte_add(bytes.next_multiple_of(page));
        let rest = reserved - before - bytes.next_multiple_of(page);
        for (left, length) in [(reservation, before), (behind, rest)] {
            if length > 0 {
                // SAFETY: no code uses these bytes of the reservation. A failure loses only
                // addresses.
                unsafe { libc::munmap(left, length) };
            }
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(ShmMapping { start, bytes })
    }

    /// Asks the kernel to put `bytes` of the object, from an offset on, into one page. Returns
    /// false if it refuses.
    pub fn collapse(&self, offset: usize, bytes: usize) -> bool {
        /// The constant of Linux 6.1; not all C libraries have it.
        const MADV_COLLAPSE: libc::c_int = 25;
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return false;
        }
        let start = self.start.as_ptr().wrapping_add(offset);
        // SAFETY: the bytes are in the mapping, and keep their content, even if they move.
        unsafe { libc::madvise(start.cast(), bytes, MADV_COLLAPSE) == 0 }
    }

    pub fn header(&self) -> &ShmHeader {
        debug_assert!(self.start.cast::<ShmHeader>().is_aligned());
        // SAFETY: the mapping is at least HEADER_BYTES long, begins at a page and lives as long as
        // `self`. A Header is made of atomics, for which all bytes are values and which may change
        // under shared references. Every access to these bytes, here and in the other processes,
        // goes through a Header, so no two accesses that overlap are of different sizes. A page is
        // a multiple of its alignment.
        unsafe { self.start.cast::<ShmHeader>().as_ref() }
    }

    /// Returns the node's memory.
    pub fn words(&self) -> &[AtomicU64] {
        let start = HEADER_BYTES as usize;
        debug_assert!(start < self.bytes && start.is_multiple_of(size_of::<AtomicU64>()));
        let count = (self.bytes - start) / size_of::<AtomicU64>();
        // SAFETY: `count` words after the header are in the mapping, which begins at a page and
        // lives as long as `self`; HEADER_BYTES is a multiple of 8. All bytes are values of an
        // AtomicU64, which may change under shared references. Every access to these bytes, here
        // and in the other processes, goes through such a slice, whole words at a time.
        unsafe { slice::from_raw_parts(self.start.add(start).cast().as_ptr(), count) }
    }

    /// Prefetches up to 2 KiB of `bytes` of the node's memory, from an offset on, without waiting.
    pub fn prefetch(&self, offset: usize, bytes: usize) {
        let memory = &self.words()[offset / size_of::<AtomicU64>()..];
        let bytes = bytes.min(PREFETCHED_MAX);
        let count = (offset % size_of::<AtomicU64>() + bytes).div_ceil(size_of::<AtomicU64>());
        let memory = &memory[..count.min(memory.len())];
        prefetch(memory);
    }
}

impl Drop for ShmMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapped range, and references to it do not outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Limit of a prefetch: a processor cannot have more fetches in flight.
const PREFETCHED_MAX: usize = 2048;
