//! Prefetching memory before it is needed.

use crate::address::LINE_BYTES;

/// Prefetches the lines of a value, without waiting. Does nothing on processors without a stable
/// instruction for it.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // A value that begins within a line reaches into one more line than its size shows.
    let within = start.addr() % LINE_BYTES as usize;
    let first = start.wrapping_sub(within);
    for offset in (0..within + size_of_val(value)).step_by(LINE_BYTES as usize) {
        prefetch_line(first.wrapping_add(offset));
    }
}

/// Prefetches the line of an address, as [`prefetch`] does. Any address is valid, because nothing
/// is loaded.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch accesses no memory, so any address is valid.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Does nothing, because there is no stable instruction for it.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn prefetch_line(_address: *const u8) {}
