//! A buffer of cache lines in 2 MiB pages.

use std::ffi::c_void;
use std::fs;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::LabError;
use crate::memory::check_available;
use nearfield_tiers::machine::kibibytes_after;

/// Size of the requested pages, and of the smallest buffer.
pub(super) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// A cache line that points to another.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct PointerChainLine {
    /// Index of the next line of the chain.
    pub(super) next: u64,
    rest: [u64; 7],
}

const _: () = assert!(size_of::<PointerChainLine>() == 64);

/// Lines in a mapping of their own, aligned to 2 MiB and initially zero.
#[derive(Debug)]
pub(super) struct PointerChainBuffer {
    /// The mapping: one page more than the lines, so that they can be aligned.
    base: *mut c_void,
    mapped_bytes: usize,
    /// The first aligned address in the mapping.
    lines: *mut PointerChainLine,
    line_count: usize,
}

impl PointerChainBuffer {
    /// Maps `bytes` rounded down to 2 MiB. The mapping takes no memory until it is written.
    pub(super) fn new(bytes: u64) -> Result<Self, LabError> {
        if bytes < HUGE_PAGE_BYTES {
            return Err(LabError::OutOfRange {
                subject: "buffer bytes",
                given: bytes.to_string(),
                allowed: format!("at least {HUGE_PAGE_BYTES}"),
            });
        }
        check_available(|| "the buffer of random lines".to_owned(), bytes)?;
        let bytes = (bytes - bytes % HUGE_PAGE_BYTES) as usize;
        let mapped_bytes = bytes + HUGE_PAGE_BYTES as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the address, so no memory in use is replaced.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), mapped_bytes, access, MapFlags::PRIVATE) }
                .map_err(|error| LabError::System {
                    subject: "mapping the buffer of random lines",
                    source: error.into(),
                })?;
        advise_huge_pages(base, mapped_bytes);
        // The offset is at most a page less one byte, which the mapping has to spare.
        let offset = base.align_offset(HUGE_PAGE_BYTES as usize);
        debug_assert!(offset + bytes <= mapped_bytes);
        let lines = base.wrapping_byte_add(offset).cast::<PointerChainLine>();
        debug_assert!((lines as usize).is_multiple_of(HUGE_PAGE_BYTES as usize));
        Ok(PointerChainBuffer {
            base,
            mapped_bytes,
            lines,
            line_count: bytes / size_of::<PointerChainLine>(),
        })
    }

    pub(super) fn lines(&self) -> &[PointerChainLine] {
        // SAFETY: `lines` is aligned to 2 MiB and `line_count` lines from it are within the mapping
        // (`new`), which lives as long as `self`, is readable and was zero initially, a valid
        // `PointerChainLine`. Writes go through `lines_mut`, hence never during this borrow.
        unsafe { std::slice::from_raw_parts(self.lines, self.line_count) }
    }

    pub(super) fn lines_mut(&mut self) -> &mut [PointerChainLine] {
        // SAFETY: as in `lines`; the mapping is writable, private and borrowed mutably with
        // `self`.
        unsafe { std::slice::from_raw_parts_mut(self.lines, self.line_count) }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.line_count * size_of::<PointerChainLine>()) as u64
    }

    /// Returns the bytes of the buffer that the system backs with 2 MiB pages, as far as it has
    /// been written; 0 if the system does not report it.
    pub(super) fn huge_page_bytes(&self) -> u64 {
        let start = self.lines as u64;
        // The system may have joined the buffer with other mappings.
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes_of(&smaps, start..start + self.bytes()).min(self.bytes())
    }
}

impl Drop for PointerChainBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no borrow of it outlives
        // `self`. Failure would only keep the memory.
        let _ = unsafe { munmap(self.base, self.mapped_bytes) };
    }
}

/// Requests 2 MiB pages. A refusal is no error: the buffer reports the pages that it got.
fn advise_huge_pages(base: *mut c_void, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is a mapping of ours, and the advice changes no content.
    let _ = unsafe { rustix::mm::madvise(base, bytes, rustix::mm::Advice::LinuxHugepage) };
    #[cfg(not(target_os = "linux"))]
    let _ = (base, bytes);
}

/// Sums `AnonHugePages` over the mappings in the text of `/proc/self/smaps` that overlap `range`.
fn huge_bytes_of(smaps: &str, range: std::ops::Range<u64>) -> u64 {
    let mut inside = false;
    let mut kibibytes = 0;
    for line in smaps.lines() {
        if let Some(mapping) = mapping_of(line) {
            inside = mapping.start < range.end && range.start < mapping.end;
        } else if inside {
            kibibytes += kibibytes_after(line, "AnonHugePages:").unwrap_or(0);
        }
    }
    kibibytes * 1024
}

/// Parses the addresses in a mapping's first line, such as `7f00-7f80 rw-p 00000000 00:00 0`.
fn mapping_of(line: &str) -> Option<std::ops::Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_zeroed_and_writable() {
        let mut buffer = PointerChainBuffer::new(5 << 20).unwrap();
        assert_eq!(buffer.bytes(), 4 << 20);
        assert_eq!(buffer.lines().as_ptr() as u64 % HUGE_PAGE_BYTES, 0);
        assert!(
            buffer
                .lines()
                .iter()
                .all(|line| line.next == 0 && line.rest == [0; 7])
        );
        for (index, line) in buffer.lines_mut().iter_mut().enumerate() {
            line.next = index as u64;
        }
        assert_eq!(buffer.lines()[65_535].next, 65_535);
        assert!(buffer.huge_page_bytes() <= buffer.bytes());
    }

    #[test]
    fn only_overlapping_mappings_count() {
        let smaps = "\
1000-2000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
2000-5000 rw-p 00000000 00:00 0                          [anon: x]
Size:               9999 kB
AnonHugePages:      4096 kB
VmFlags: rd wr hg
5000-6000 r-xp 00000000 08:01 77   /lib/a-b.so
AnonHugePages:      6144 kB
";
        assert_eq!(huge_bytes_of(smaps, 0x2000..0x3000), 4096 << 10);
        assert_eq!(huge_bytes_of(smaps, 0x4fff..0x5001), 10240 << 10);
        assert_eq!(huge_bytes_of(smaps, 0x6000..0x7000), 0);
    }
}
