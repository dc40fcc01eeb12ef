//! Entries in the memory of a block.

use super::Entry;

/// Reads a [packed](nearfield_core::packed) entry and its length.
///
/// # Safety
/// An entry stands there, and nothing writes it during 'g.
#[inline]
pub(super) unsafe fn unpack_at<'g>(start: *const u8) -> (Entry<'g>, usize) {
    // SAFETY: promised by the caller. An entry has as many bytes as its lengths say.
    unsafe {
        let [key, value] = start.cast::<[u8; 2]>().read();
        if key == u8::MAX || value == u8::MAX {
            return unpack_long_at(start);
        }
        let (key, value) = (usize::from(key), usize::from(value));
        (parts(start, 2, key, value), 2 + key + value)
    }
}

/// As [`unpack_at`], of an entry with a length in four bytes.
#[cold]
unsafe fn unpack_long_at<'g>(start: *const u8) -> (Entry<'g>, usize) {
    // SAFETY: as in `unpack_at`.
    unsafe {
        let mut at = 2;
        let lengths = start.cast::<[u8; 2]>().read().map(|short| match short {
            u8::MAX => {
                let long = start.add(at).cast::<[u8; 4]>().read();
                at += 4;
                u32::from_le_bytes(long) as usize
            }
            short => usize::from(short),
        });
        let [key, value] = lengths;
        (parts(start, at, key, value), at + key + value)
    }
}

/// A key and a value that lie `at` bytes behind `start`.
///
/// # Safety
/// As for [`unpack_at`].
#[inline]
unsafe fn parts<'g>(start: *const u8, at: usize, key: usize, value: usize) -> Entry<'g> {
    // SAFETY: promised by the caller.
    unsafe {
        (
            std::slice::from_raw_parts(start.add(at), key),
            std::slice::from_raw_parts(start.add(at + key), value),
        )
    }
}
