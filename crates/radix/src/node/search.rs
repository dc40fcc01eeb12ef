//! Finding a byte among the sorted key bytes of a small node, or among fingerprints.
//!
//! Key bytes come as words because a writer may change them during the search: each word is one
//! relaxed atomic load, and the reader validates the node's version afterwards. The vector is
//! built from the loaded words. Elsewhere than on x86-64 the same comparison is made byte by byte;
//! everywhere, the tests compare with a scalar search.

/// Returns how many of the first `count` of four ascending key bytes are at most `byte`.
#[inline]
pub fn at_most_in_4(keys: u32, count: usize, byte: u8) -> usize {
    leading(u64::from(at_most_16(u64::from(keys), 0, byte)), count)
}

/// Returns how many of the first `count` of 16 ascending key bytes are at most `byte`.
#[inline]
pub fn at_most_in_16(words: [u64; 2], count: usize, byte: u8) -> usize {
    leading(u64::from(at_most_16(words[0], words[1], byte)), count)
}

/// Returns how many of the first `count` of 48 ascending key bytes are at most `byte`.
#[inline]
pub fn at_most_in_48(words: [u64; 6], count: usize, byte: u8) -> usize {
    let bits = u64::from(at_most_16(words[0], words[1], byte))
        | u64::from(at_most_16(words[2], words[3], byte)) << 16
        | u64::from(at_most_16(words[4], words[5], byte)) << 32;
    leading(bits, count)
}

/// Returns the number of set bits before the first clear one, among the lowest `count` bits (fewer
/// than 64).
#[inline]
fn leading(bits: u64, count: usize) -> usize {
    // Keys past the count are zero, and would count as at most the byte.
    (!(bits & ((1 << count) - 1))).trailing_zeros() as usize
}

/// Returns one bit for each of 16 bytes that is at most `byte`, the first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
fn at_most_16(low: u64, high: u64, byte: u8) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_max_epu8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64 processor.
    unsafe {
        // SSE2 has no comparison of unsigned bytes: the key is at most the byte if the greater of
        // both is the byte.
        let keys = _mm_set_epi64x(high as i64, low as i64);
        let byte = _mm_set1_epi8(byte as i8);
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(keys, byte), byte)) as u32
    }
}

/// Returns one bit for each of 16 bytes that is at most `byte`, the first byte lowest.
#[cfg(not(target_arch = "x86_64"))]
fn at_most_16(low: u64, high: u64, byte: u8) -> u32 {
    let bytes = low.to_le_bytes().into_iter().chain(high.to_le_bytes());
    bytes
        .enumerate()
        .fold(0, |bits, (i, key)| bits | u32::from(key <= byte) << i)
}

/// Returns one bit for each of 16 bytes that equals `byte`, the first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn equal_16(low: u64, high: u64, byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of every x86-64 processor.
    unsafe {
        let keys = _mm_set_epi64x(high as i64, low as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8))) as u32
    }
}

/// Returns one bit for each of 16 bytes that equals `byte`, the first byte lowest.
#[cfg(not(target_arch = "x86_64"))]
pub fn equal_16(low: u64, high: u64, byte: u8) -> u32 {
    let bytes = low.to_le_bytes().into_iter().chain(high.to_le_bytes());
    bytes
        .enumerate()
        .fold(0, |bits, (i, key)| bits | u32::from(key == byte) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_the_scalar_oracle() {
        let mut state = 11;
        for round in 0..2000 {
            let mut keys: Vec<u8> = (0..round % 49)
                .map(|_| pseudo_random(&mut state) as u8)
                .collect();
            keys.sort_unstable();
            let mut padded = keys.clone();
            padded.resize(48, 0);
            let words: [u64; 6] = std::array::from_fn(|i| {
                u64::from_le_bytes(std::array::from_fn(|j| padded[8 * i + j]))
            });
            for byte in 0..=255 {
                let rank = |count: usize| keys[..count].iter().filter(|&&k| k <= byte).count();
                assert_eq!(at_most_in_48(words, keys.len(), byte), rank(keys.len()));
                let count = keys.len().min(16);
                assert_eq!(
                    at_most_in_16([words[0], words[1]], count, byte),
                    rank(count)
                );
                let count = keys.len().min(4);
                assert_eq!(at_most_in_4(words[0] as u32, count, byte), rank(count));
            }
        }
    }

    fn pseudo_random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *state ^ *state >> 29
    }

    /// Each byte is compared with words of every density of equal bytes.
    #[test]
    fn equal_bytes_agree_with_the_scalar_oracle() {
        let mut state = 7;
        for round in 0..2000 {
            let mask = [u64::MAX, 0x0303_0303_0303_0303, 0x0f0f_0f0f_0f0f_0f0f][round % 3];
            let words: [u64; 2] = std::array::from_fn(|_| pseudo_random(&mut state) & mask);
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            for byte in 0..=255 {
                let oracle = bytes.clone().enumerate();
                let oracle =
                    oracle.fold(0, |bits, (i, other)| bits | u32::from(other == byte) << i);
                assert_eq!(equal_16(words[0], words[1], byte), oracle);
            }
        }
    }
}
