//! Prefetches of cache lines before they are needed.

/// Prefetches the line at an address into the second-level cache and those after it: fewer line
/// fill buffers limit this than the first level (see `docs/local.md`). Any address is allowed: a
/// prefetch never faults.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect that a program could observe, at any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch(address.cast(), _MM_HINT_T1);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches like [`prefetch`], but into the first-level cache: for a line that the next pass of a
/// walk reads, if more time goes into instructions than into waiting, as with byte strings.
#[inline]
pub fn prefetch_close(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(address.cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches like [`prefetch`], for a line that will be used once: it does not displace other
/// lines from the outer caches.
#[cfg(not(loom))]
#[inline]
pub fn prefetch_once(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
        _mm_prefetch(address.cast(), _MM_HINT_NTA);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
