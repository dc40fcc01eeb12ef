//! Large pages for a node's memory, which save address translations.
//!
//! `/dev/shm` has pages of 4 KiB unless it was mounted otherwise. The process of a node asks the
//! kernel (Linux 6.1 or newer, with any setting except `deny`) to put 2 MiB at a time into one
//! page. It works one page ahead of the allocations, so that hardly any process uses the page yet.
//! If the kernel refuses, the small pages remain. The memory was reserved before, so this takes no
//! memory.

use super::mapping::{HEADER_BYTES, ShmMapping};

/// The size of a large page.
pub const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// The kernel's file of the size of its large pages.
const SIZE_FILE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
/// Number of successive refusals after which no more pages are requested.
const REFUSALS_MAX: u32 = 4;

/// The state of a node's large pages.
#[derive(Debug)]
pub struct ShmLargePages {
    /// The next page to request, by its position in the object.
    next: u64,
    /// Largest number of pages; the last one of the object may be cut off.
    end: u64,
    /// The number of large pages.
    large: u64,
    /// Number of refusals since the last large page.
    refusals: u32,
}

impl ShmLargePages {
    /// Requests the first page, which every client uses.
    pub fn new(mapping: &ShmMapping, bytes: u64) -> ShmLargePages {
        let size = std::fs::read_to_string(SIZE_FILE);
        let is_size = size.is_ok_and(|size| size.trim() == LARGE_PAGE_BYTES.to_string());
        let whole = (HEADER_BYTES + bytes) / LARGE_PAGE_BYTES;
        let mut pages = ShmLargePages {
            next: 0,
            end: if is_size { whole } else { 0 },
            large: 0,
            refusals: 0,
        };
        pages.advance(mapping, 0);
        if pages.large == 0 {
            pages.end = 0;
        }
        pages
    }

    /// Returns the number of bytes in large pages.
    pub fn bytes(&self) -> u64 {
        self.large * LARGE_PAGE_BYTES
    }

    /// Requests one page, if there are small ones among the allocated memory, which ends at this
    /// offset, or in the following large page. Returns false if there is nothing to do. Takes
    /// milliseconds.
    pub fn advance(&mut self, mapping: &ShmMapping, allocated: u64) -> bool {
        let wanted = (HEADER_BYTES + allocated).div_ceil(LARGE_PAGE_BYTES) + 1;
        if self.next >= self.end.min(wanted) || self.refusals == REFUSALS_MAX {
            return false;
        }
        let start = self.next * LARGE_PAGE_BYTES;
        if mapping.collapse(start as usize, LARGE_PAGE_BYTES as usize) {
            self.large += 1;
            self.refusals = 0;
        } else {
            // A kernel may refuse for lack of a free large page, which can pass, so a few refusals
            // in a row decide.
            self.refusals += 1;
        }
        self.next += 1;
        debug_assert!(self.large <= self.next && self.next <= self.end);
        true
    }
}
