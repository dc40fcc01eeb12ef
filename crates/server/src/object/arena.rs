//! Blobs of bytes in pages; sparse pages are swept.
//!
//! A blob begins at a multiple of eight bytes in a page of 64 KiB, directly after the blob that was
//! placed before it; a large one has a page of its own. The first page begins small and grows. A
//! page counts the bytes of its live blobs. The arena does not know what refers to a blob, so it
//! only reports which page is worth sweeping; its owner then places the live blobs again.

use super::bytes::{lengthen, zeroed};
use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// The size of a page, in which blobs are placed one after the other.
const PAGE_BYTES: usize = 1 << (UNIT_BITS + PAGE_BITS);

/// The initial size of the first page.
const PAGE_BYTES_MIN: usize = 512;

/// The size above which a blob has its own page, so that at most an eighth of a page is left empty.
const SHARED_BYTES_MAX: usize = PAGE_BYTES / 8;

/// The size above which the page that is being filled may be swept early.
const SWEEP_BYTES_MIN: usize = 4 << 10;

/// The base-2 logarithm of the alignment of blobs, which is eight bytes.
const UNIT_BITS: u32 = 3;

/// The base-2 logarithm of the units in a page.
const PAGE_BITS: u32 = 13;

/// The number of bits of a location, which is enough for 256 GiB.
pub(super) const LOCATION_BITS: u32 = 35;

/// No page.
const NONE: u32 = u32::MAX;

/// The location of a blob: number of the page and units into it.
pub(super) type Location = u64;

pub(super) struct BlobArena<A: Allocator> {
    pages: Vec<BlobPage<A>, A>,
    /// The page that is being filled.
    current: u32,
    /// The first page without memory; each such page holds the number of the next.
    vacant: u32,
    /// The capacity of all blocks together.
    block_bytes: usize,
}

struct BlobPage<A: Allocator> {
    /// The bytes, initialized to the capacity.
    block: Vec<u8, A>,
    /// The end of the blobs. In a page without memory, the number of the next one without.
    used: u32,
    /// The bytes of the live blobs.
    live: u32,
}

/// Returns the bytes that a blob of `bytes` takes.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(1 << UNIT_BITS)
}

#[inline]
fn split(location: Location) -> (usize, usize) {
    let units = location & ((1 << PAGE_BITS) - 1);
    let page = location >> PAGE_BITS;
    (page as usize, (units as usize) << UNIT_BITS)
}

fn join(page: u32, offset: usize) -> Location {
    debug_assert!(offset < PAGE_BYTES && offset.is_multiple_of(1 << UNIT_BITS));
    Location::from(page) << PAGE_BITS | (offset >> UNIT_BITS) as Location
}

impl<A: Allocator> BlobArena<A> {
    /// Returns the bytes from `location` to the end of its page.
    #[inline]
    pub(super) fn blob(&self, location: Location) -> &[u8] {
        let (page, offset) = split(location);
        &self.pages[page].block[offset..]
    }
}

impl<A: Allocator + Clone> BlobArena<A> {
    pub(super) fn new_in(heap: A) -> Self {
        BlobArena {
            pages: Vec::new_in(heap),
            current: NONE,
            vacant: NONE,
            block_bytes: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.block_bytes + self.pages.capacity() * size_of::<BlobPage<A>>()
    }

    #[inline]
    pub(super) fn blob_mut(&mut self, location: Location) -> &mut [u8] {
        let (page, offset) = split(location);
        &mut self.pages[page].block[offset..]
    }

    /// Returns true if a blob of `old` bytes may be overwritten in place by one of `new` bytes.
    pub(super) fn is_same_size(old: usize, new: usize) -> bool {
        padded(old) == padded(new)
    }

    /// Returns the page, if any, that should be swept before a blob of `bytes` is placed: the one
    /// being filled, if there is no room in it and at least half of it is dead.
    pub(super) fn sweep_before(&self, bytes: usize) -> Option<u32> {
        let (page, size) = (self.pages.get(self.current as usize)?, padded(bytes));
        let full = page.used as usize + size > page.block.len();
        let sparse = page.live as usize + size <= page.used as usize / 2;
        (full && sparse && size <= SHARED_BYTES_MAX).then_some(self.current)
    }

    /// Allocates room for a blob of `bytes`.
    pub(super) fn place(&mut self, bytes: usize) -> Location {
        let size = padded(bytes);
        if size > SHARED_BYTES_MAX {
            let page = self.add_page(size);
            return self.place_in(page, size);
        }
        let Some(page) = self.pages.get_mut(self.current as usize) else {
            self.begin_page(size.max(PAGE_BYTES_MIN));
            return self.place_in(self.current, size);
        };
        let (need, old) = (page.used as usize + size, page.block.len());
        if need > PAGE_BYTES {
            self.begin_page(PAGE_BYTES);
        } else if need > old {
            // Only a page that began small grows.
            let grown = need.max(2 * old).min(PAGE_BYTES);
            lengthen(&mut page.block, grown);
            self.block_bytes += grown - old;
        }
        self.place_in(self.current, size)
    }

    fn place_in(&mut self, number: u32, size: usize) -> Location {
        let page = &mut self.pages[number as usize];
        let location = join(number, page.used as usize);
        page.used += size as u32;
        page.live += size as u32;
        location
    }

    fn begin_page(&mut self, bytes: usize) {
        self.current = self.add_page(bytes);
    }

    fn add_page(&mut self, bytes: usize) -> u32 {
        let page = BlobPage {
            block: zeroed(bytes, self.pages.allocator().clone()),
            used: 0,
            live: 0,
        };
        self.block_bytes += bytes;
        let number = self.vacant;
        if let Some(vacant) = self.pages.get_mut(number as usize) {
            self.vacant = vacant.used;
            *vacant = page;
            return number;
        }
        let number = self.pages.len() as u32;
        assert!(
            u64::from(number) < 1 << (LOCATION_BITS - PAGE_BITS),
            "one object is beyond 256 GiB"
        );
        self.pages.push(page);
        number
    }

    /// Counts a blob of `bytes` as dead. Returns the page, if any, that should be swept now.
    pub(super) fn release(&mut self, location: Location, bytes: usize) -> Option<u32> {
        let (number, _) = split(location);
        let number = number as u32;
        let page = &mut self.pages[number as usize];
        page.live -= padded(bytes) as u32;
        let (live, used) = (page.live as usize, page.used as usize);
        if number != self.current {
            // No blob has to move.
            if live == 0 {
                self.take_page(number);
                self.vacate(number);
                return None;
            }
            return (live * 2 < used).then_some(number);
        }
        if live == 0 && used <= SWEEP_BYTES_MIN {
            page.used = 0;
        }
        // Later than other pages, because more blobs may still come to this one.
        (used > SWEEP_BYTES_MIN && live * 4 < used).then_some(number)
    }

    /// Returns the page of a blob.
    pub(super) fn page_of(&self, location: Location) -> u32 {
        split(location).0 as u32
    }

    /// Returns true if a page is worth sweeping to get its memory soon: a quarter of it is dead,
    /// and it is not the one being filled.
    pub(super) fn is_thin(&self, number: u32) -> bool {
        let page = &self.pages[number as usize];
        let (live, used) = (page.live as usize, page.used as usize);
        number != self.current && !page.block.is_empty() && live * 4 <= used * 3
    }

    /// Takes the bytes of a page away to be swept. Its number stays taken until it is vacated.
    pub(super) fn take_page(&mut self, number: u32) -> Vec<u8, A> {
        let empty = Vec::new_in(self.pages.allocator().clone());
        let page = &mut self.pages[number as usize];
        let (used, live) = (page.used as usize, page.live as usize);
        // The number is not vacant yet: a blob that got the location of a swept one could be taken
        // for it.
        let mut block = std::mem::replace(&mut page.block, empty);
        self.block_bytes -= block.len();
        block.truncate(used);
        if number == self.current {
            // The live blobs go there next.
            let room = (2 * live).next_power_of_two();
            self.begin_page(room.clamp(PAGE_BYTES_MIN, PAGE_BYTES));
        }
        block
    }

    /// Returns the location of the blob `offset` bytes into a page.
    pub(super) fn location(number: u32, offset: usize) -> Location {
        join(number, offset)
    }

    /// Returns the distance from a blob of `bytes` to the next one.
    pub(super) fn stride(bytes: usize) -> usize {
        padded(bytes)
    }

    /// Allows the number of a page without memory to be reused.
    pub(super) fn vacate(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        debug_assert_eq!(page.block.len(), 0);
        page.live = 0;
        page.used = self.vacant;
        self.vacant = number;
    }

    /// Returns the bytes of all live blobs, as the pages count them. For tests.
    pub(super) fn check_invariants(&self) -> usize {
        let blocks: usize = self.pages.iter().map(|page| page.block.capacity()).sum();
        assert_eq!(blocks, self.block_bytes);
        for page in self.pages.iter().filter(|page| !page.block.is_empty()) {
            assert_eq!(page.block.len(), page.block.capacity());
            assert!(page.live <= page.used && page.used as usize <= page.block.len());
        }
        self.pages.iter().map(|page| page.live as usize).sum()
    }
}
