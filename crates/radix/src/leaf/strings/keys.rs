//! Comparisons of keys.
//!
//! Most keys are short. A call of the library's comparison takes longer than the comparison, and
//! its branches on the length are often mispredicted.

/// Returns true if two keys are equal.
#[inline(always)]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        16..=32 => ends::<16>(a) == ends::<16>(b),
        8..=15 => ends::<8>(a) == ends::<8>(b),
        4..=7 => ends::<4>(a) == ends::<4>(b),
        _ => a == b,
    }
}

/// Returns the first and the last bytes of a key, which has at least as many.
#[inline(always)]
fn ends<const N: usize>(key: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    key.first_chunk().zip(key.last_chunk())
}

/// Returns eight bytes of a key at a position, big-endian, with zeros after the key's end.
#[inline]
pub fn slice(key: &[u8], at: usize) -> u64 {
    let Some(rest) = key.get(at..) else {
        return 0;
    };
    if let Some(first) = rest.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    if let Some(last) = key.last_chunk() {
        let slice = u64::from_be_bytes(*last);
        return slice.checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0);
    }
    rest.iter().enumerate().fold(0, |slice, (i, &byte)| {
        slice | u64::from(byte) << (56 - 8 * i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of all short lengths that differ in each byte, or in none.
    #[test]
    fn keys_are_compared_as_slices_are() {
        for length in 0..70 {
            let key: Vec<u8> = (0..length).map(|i| i as u8 * 3).collect();
            assert!(equal(&key, &key.clone()));
            for at in 0..length {
                let mut other = key.clone();
                other[at] ^= 0x40;
                assert!(!equal(&key, &other), "{length} {at}");
                assert!(!equal(&key, &key[..at]));
                let mut padded = key[at..].to_vec();
                padded.resize(8.max(padded.len()), 0);
                let first = padded.first_chunk().expect("eight bytes");
                assert_eq!(slice(&key, at), u64::from_be_bytes(*first));
            }
            assert_eq!((slice(&key, length), slice(&key, length + 1)), (0, 0));
        }
    }
}
