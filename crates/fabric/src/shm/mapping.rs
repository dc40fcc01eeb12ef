//! The memory of an object as atomic words. This is the only file of `shm` with unsafe code.
//!
//! ```text
//!   0         64                     4160                       20544     24576
//!   ┌─────────┬─────────┬───  ───┬─────────┬─────────┬───  ───┬───────────┬─────────┬──────────────  ───┐
//!   │ summary │ slot 0  │   …    │ slot 63 │ place 0 │   …    │ place 255 │ nothing │ the node's memory │
//!   └─────────┴─────────┴───  ───┴─────────┴─────────┴───  ───┴───────────┴─────────┴──────────────  ───┘
//! ```
//!
//! The summary and each slot are a [`Line`], and each place is a [`Place`].

use crate::prefetch::prefetch;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

// Atomics take a word as the processor does, writes take its bytes as they lie.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "memory nodes lie low end first"
);

/// So many bytes of an object are its header.
pub const HEADER_BYTES: u64 = 24576;
/// So many calls can be under way at once.
pub const SLOTS: usize = 64;

/// So many posts by a deadline can be under way at once.
pub const PLACES: usize = 256;

/// A state that processes wait on, and words that it protects.
#[repr(C)]
#[derive(Debug)]
pub struct Line {
    pub state: AtomicU32,
    /// Counts what others are to notice.
    pub bell: AtomicU32,
    pub words: [AtomicU64; 7],
}

/// Of one that posts by a deadline: who, or zero.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Place(pub AtomicU64);

/// The lines of the header in use.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    pub summary: Line,
    pub slots: [Line; SLOTS],
    pub places: [Place; PLACES],
}

const _: () = assert!(size_of::<Line>() == 64 && size_of::<Place>() == 64);
const _: () = assert!(size_of::<Header>() as u64 <= HEADER_BYTES);

/// An object in this process's memory.
#[derive(Debug)]
pub struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// Maps so many bytes of an object: a header and whole words.
    ///
    /// # Errors
    /// The object is shorter, or so much does not fit into the address space.
    pub fn new(object: &File, bytes: u64) -> io::Result<Mapping> {
        let fits = bytes > HEADER_BYTES && bytes <= object.metadata()?.len();
        let bytes = usize::try_from(bytes).ok().filter(|_| fits);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let map = MmapOptions::new().len(bytes).map_raw(object)?;
        Ok(Mapping { map })
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is at least HEADER_BYTES long, begins at a page and lives as long as
        // `self`. A Header is made of atomics, for which all bytes are values and which may change
        // under shared references. Every access to these bytes, here and in the other processes,
        // goes through a Header, so no two accesses that overlap are of different sizes. A page is
        // a multiple of its alignment.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// The node's memory.
    pub fn words(&self) -> &[AtomicU64] {
        let start = HEADER_BYTES as usize;
        let count = (self.map.len() - start) / size_of::<AtomicU64>();
        // SAFETY: `count` words behind the header are in the mapping, which begins at a page and
        // lives as long as `self`; HEADER_BYTES is a multiple of 8. All bytes are values of an
        // AtomicU64, which may change under shared references. Every access to these bytes, here
        // and in the other processes, goes through such a slice, whole words at a time.
        unsafe { slice::from_raw_parts(self.map.as_ptr().add(start).cast(), count) }
    }

    /// Has the processor fetch the first 2 KiB of so many bytes of the node's memory, from an offset on, into its cache,
    /// and does not wait for them.
    pub fn prefetch(&self, offset: usize, bytes: usize) {
        let memory = &self.words()[offset / size_of::<AtomicU64>()..];
        let bytes = bytes.min(PREFETCHED_MAX);
        let count = (offset % size_of::<AtomicU64>() + bytes).div_ceil(size_of::<AtomicU64>());
        let memory = &memory[..count.min(memory.len())];
        prefetch(memory);
    }
}

/// More does not fit into what a processor can wait for at a time.
const PREFETCHED_MAX: usize = 2048;
