//! Bytes that one thread copies while another may write them.
//!
//! Each byte of a copy is one that was there at some time. The version of a block shows if all were
//! there at the same time. The accesses are atomic for each byte. A processor copies more of them
//! at once, for which the language has no function; hence the instructions.

/// Number of bytes that an instruction copies at once.
const CHUNK: usize = 16;

/// Number of bytes that [`load_chunks`] copies.
pub const CHUNKS_BYTES: usize = 3 * CHUNK;

/// Copies `count` bytes that another thread may be writing.
///
/// # Safety
/// `from` is valid for reads of `count` bytes, which other threads change only by [`store`]; `to`
/// is valid for writes of as many bytes, and no other thread uses them.
#[inline]
pub unsafe fn load(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: all places are within the bytes that the caller promises.
    unsafe {
        if count < CHUNK {
            let [low, high] = load_short(from, count);
            let bytes = u128::from(low) | u128::from(high) << 64;
            return to.copy_from_nonoverlapping(bytes.to_le_bytes().as_ptr(), count);
        }
        let mut at = 0;
        while at + CHUNKS_BYTES < count {
            load_chunks(from.add(at), to.add(at));
            at += CHUNKS_BYTES;
        }
        while at + CHUNK < count {
            load_chunk(from.add(at), to.add(at));
            at += CHUNK;
        }
        // The last chunk overlaps the one before, so that no byte needs a copy of its own.
        load_chunk(from.add(count - CHUNK), to.add(count - CHUNK));
    }
}

/// Copies [`CHUNKS_BYTES`] that another thread may be writing.
///
/// # Safety
/// As for [`load`].
#[inline]
pub unsafe fn load_chunks(from: *const u8, to: *mut u8) {
    for at in (0..CHUNKS_BYTES).step_by(CHUNK) {
        // SAFETY: all places are within the bytes that the caller promises.
        unsafe { load_chunk(from.add(at), to.add(at)) };
    }
}

/// Copies 0 to 16 bytes that another thread may be writing, in memory order, padded with zeros.
///
/// # Safety
/// `from` is valid for reads of `count` bytes, which other threads change only by [`store`].
#[inline]
pub unsafe fn load_short(from: *const u8, count: usize) -> [u64; 2] {
    debug_assert!(count <= CHUNK);
    // SAFETY: all places are within the bytes that the caller promises.
    unsafe {
        if count == 8 {
            return [load_8(from), 0];
        }
        let [mut low, mut high] = [0; 2];
        if count > 8 {
            low = u64::from_le(load_8(from));
            // The second load ends with the last byte, and overlaps the first: it must not read
            // past the value.
            high = u64::from_le(load_8(from.add(count - 8))) >> (8 * (16 - count));
        } else {
            for i in 0..count {
                low |= u64::from(load_1(from.add(i))) << (8 * i);
            }
        }
        [low.to_le(), high.to_le()]
    }
}

/// Writes bytes that other threads may be copying by [`load`].
///
/// # Safety
/// `to` is valid for writes of the bytes, which no other thread writes, and which other threads
/// read only by [`load`], [`load_chunks`] and [`load_short`].
#[inline]
pub unsafe fn store(to: *mut u8, bytes: &[u8]) {
    let count = bytes.len();
    // SAFETY: all places are within the bytes that the caller promises.
    unsafe {
        if let Some(last) = bytes.last_chunk::<CHUNK>() {
            let (chunks, _) = bytes.as_chunks::<CHUNK>();
            for (i, chunk) in chunks.iter().enumerate() {
                store_chunk(to.add(CHUNK * i), chunk);
            }
            // As in `load`, the last chunk overlaps the one before.
            store_chunk(to.add(count - CHUNK), last);
        } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk::<8>()) {
            store_8(to, *first);
            store_8(to.add(count - 8), *last);
        } else {
            (0..count).for_each(|i| store_1(to.add(i), bytes[i]));
        }
    }
}

/// Loads a byte.
#[inline]
unsafe fn load_1(from: *const u8) -> u8 {
    use std::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: the callers promise that the byte is there. Bytes are always aligned.
    unsafe { (*from.cast::<AtomicU8>()).load(Ordering::Relaxed) }
}

/// Stores a byte.
#[inline]
unsafe fn store_1(to: *mut u8, byte: u8) {
    use std::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: the callers promise that the byte is there. Bytes are always aligned.
    unsafe { (*to.cast::<AtomicU8>()).store(byte, Ordering::Relaxed) };
}

#[cfg(target_arch = "x86_64")]
pub use instructions::load_8;
#[cfg(target_arch = "x86_64")]
use instructions::{load_chunk, store_8, store_chunk};
#[cfg(not(target_arch = "x86_64"))]
pub use one_by_one::load_8;
#[cfg(not(target_arch = "x86_64"))]
use one_by_one::{load_chunk, store_8, store_chunk};

#[cfg(target_arch = "x86_64")]
mod instructions {
    use super::CHUNK;
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    /// Copies a chunk.
    #[inline]
    pub unsafe fn load_chunk(from: *const u8, to: *mut u8) {
        const _: () = assert!(size_of::<__m128i>() == CHUNK);
        // SAFETY: the instruction reads exactly one chunk, which the callers promise to exist, and
        // the same for its destination.
        unsafe {
            let chunk: __m128i;
            asm!(
                "movups {chunk}, xmmword ptr [{from}]",
                from = in(reg) from,
                chunk = out(xmm_reg) chunk,
                options(nostack, preserves_flags, readonly),
            );
            to.cast::<__m128i>().write_unaligned(chunk);
        }
    }

    /// Stores a chunk.
    #[inline]
    pub unsafe fn store_chunk(to: *mut u8, bytes: &[u8; CHUNK]) {
        // SAFETY: the instruction writes exactly one chunk, which the callers promise to exist.
        unsafe {
            let chunk = bytes.as_ptr().cast::<__m128i>().read_unaligned();
            asm!(
                "movups xmmword ptr [{to}], {chunk}",
                to = in(reg) to,
                chunk = in(xmm_reg) chunk,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Loads eight bytes that another thread may be writing.
    ///
    /// # Safety
    /// As for [`load`](super::load).
    #[inline]
    pub unsafe fn load_8(from: *const u8) -> u64 {
        // SAFETY: the instruction reads exactly these bytes, which the callers promise to exist.
        unsafe {
            let word: u64;
            asm!(
                "mov {word}, qword ptr [{from}]",
                from = in(reg) from,
                word = out(reg) word,
                options(nostack, preserves_flags, readonly),
            );
            word
        }
    }

    /// Stores eight bytes.
    #[inline]
    pub unsafe fn store_8(to: *mut u8, bytes: [u8; 8]) {
        // SAFETY: the instruction writes exactly these bytes, which the callers promise to exist.
        unsafe {
            asm!(
                "mov qword ptr [{to}], {word}",
                to = in(reg) to,
                word = in(reg) u64::from_ne_bytes(bytes),
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod one_by_one {
    use super::{CHUNK, load_1, store_1};

    /// Copies a chunk.
    pub unsafe fn load_chunk(from: *const u8, to: *mut u8) {
        for i in 0..CHUNK {
            // SAFETY: the callers promise that the bytes and the place for them are there.
            unsafe { to.add(i).write(load_1(from.add(i))) };
        }
    }

    /// Stores a chunk.
    pub unsafe fn store_chunk(to: *mut u8, bytes: &[u8; CHUNK]) {
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: the callers promise that the bytes are there.
            unsafe { store_1(to.add(i), *byte) };
        }
    }

    /// Loads eight bytes that another thread may be writing.
    ///
    /// # Safety
    /// As for [`load`](super::load).
    pub unsafe fn load_8(from: *const u8) -> u64 {
        // SAFETY: the callers promise that the bytes are there.
        u64::from_ne_bytes(std::array::from_fn(|i| unsafe { load_1(from.add(i)) }))
    }

    /// Stores eight bytes.
    pub unsafe fn store_8(to: *mut u8, bytes: [u8; 8]) {
        for (i, byte) in bytes.into_iter().enumerate() {
            // SAFETY: the callers promise that the bytes are there.
            unsafe { store_1(to.add(i), byte) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_count_are_copied() {
        let from: Vec<u8> = (1..=100).collect();
        for count in 0..from.len() {
            let mut to = vec![0; count + 1];
            // SAFETY: both have this many bytes, and no other thread can reach them.
            unsafe { load(from.as_ptr(), to.as_mut_ptr(), count) };
            assert_eq!(to[..count], from[..count]);
            assert_eq!(to[count], 0);
            to.fill(0);
            // SAFETY: as above.
            unsafe { store(to.as_mut_ptr(), &from[..count]) };
            assert_eq!(to[..count], from[..count]);
            assert_eq!(to[count], 0);
        }
        let mut to = [0; CHUNKS_BYTES + 1];
        // SAFETY: both have this many bytes, and no other thread can reach them.
        unsafe { load_chunks(from.as_ptr(), to.as_mut_ptr()) };
        assert_eq!(to[..CHUNKS_BYTES], from[..CHUNKS_BYTES]);
        assert_eq!(to[CHUNKS_BYTES], 0);
    }
}
