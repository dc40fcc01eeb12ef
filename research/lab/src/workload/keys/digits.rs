//! Numbers as strings of decimal digits: ascending strings, such as time stamps and counters.

use std::io::Write;

use super::super::ByteStringList;
use super::Progress;
use super::integers::REPORT_INTERVAL;

/// The length of each key, in bytes.
const KEY_BYTES: usize = 16;
/// The most keys: larger numbers have more digits than a key.
pub(super) const COUNT_MAX: u64 = 10_u64.pow(KEY_BYTES as u32);
/// Bytes of the digits of a key, and of the offset of its end.
pub(super) const BYTES_PER_KEY: u64 = KEY_BYTES as u64 + 8;

/// Creates the numbers below `count`, ascending, with leading zeros.
pub(super) fn generate(count: usize, progress: Progress<'_>) -> ByteStringList {
    let mut strings = ByteStringList::with_capacity(count, count * KEY_BYTES);
    let mut key = Vec::with_capacity(KEY_BYTES);
    for number in 0..count {
        key.clear();
        write!(key, "{number:0KEY_BYTES$}").expect("a vector takes all bytes");
        debug_assert_eq!(key.len(), KEY_BYTES);
        strings.push(&key);
        if strings.len().is_multiple_of(REPORT_INTERVAL) {
            progress(strings.len() as u64, count as u64);
        }
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sixteen_digits() {
        let strings = generate(12, &mut |_, _| {});
        assert_eq!(strings.get(0), b"0000000000000000");
        assert_eq!(strings.get(11), b"0000000000000011");
        assert_eq!(strings.text_bytes(), 12 * KEY_BYTES);
    }
}
