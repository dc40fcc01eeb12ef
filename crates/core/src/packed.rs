//! Entries of byte strings packed one after the other, as leaves store them and scans return them.
//!
//! ```text
//!   │ key length: 1 │ value length: 1 │ (4 for a long key) │ (4 for a long value) │ key │ value │
//! ```
//!
//! A length of 255 or more is written as 255 and again in four bytes, little-endian.

/// The least length that does not fit in one byte.
const LONG: usize = u8::MAX as usize;

/// The header of an entry: the lengths of its key and value.
#[derive(Clone, Copy, Debug)]
pub struct PackedLengths {
    bytes: [u8; 10],
    count: usize,
}

impl PackedLengths {
    /// Creates the header of an entry. Both lengths must be below 2^32, as those of all keys and
    /// values are.
    #[inline]
    pub fn new(key: usize, value: usize) -> Self {
        debug_assert!(u32::try_from(key).is_ok() && u32::try_from(value).is_ok());
        // Two short lengths, followed by at most two long ones.
        let mut bytes = [0; 10];
        let mut count = 2;
        for (i, length) in [key, value].into_iter().enumerate() {
            bytes[i] = length.min(LONG) as u8;
            // 255 itself takes the long form, because the byte 255 announces it.
            if length >= LONG {
                bytes[count..count + 4].copy_from_slice(&(length as u32).to_le_bytes());
                count += 4;
            }
        }
        PackedLengths { bytes, count }
    }

    /// Returns the bytes to write before key and value.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

/// Returns the number of bytes that an entry takes.
#[inline]
pub fn packed_length(key: usize, value: usize) -> usize {
    let long = usize::from(key >= LONG) + usize::from(value >= LONG);
    2 + 4 * long + key + value
}

/// Reads the entry at the beginning of `bytes`: key, value and the rest.
///
/// # Panics
/// If there is no entry.
#[inline]
pub fn unpack(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (key, value) = (bytes[0] as usize, bytes[1] as usize);
    if key == LONG || value == LONG {
        // A call of its own, because most entries are short and scans unpack millions of them.
        return unpack_long(bytes);
    }
    let (entry, behind) = bytes[2..].split_at(key + value);
    let (key, value) = entry.split_at(key);
    (key, value, behind)
}

#[cold]
fn unpack_long(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let mut rest = &bytes[2..];
    let mut length = |short: u8| match short {
        u8::MAX => {
            let long = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
            rest = &rest[4..];
            long as usize
        }
        short => usize::from(short),
    };
    let (key, value) = (length(bytes[0]), length(bytes[1]));
    let (key, rest) = rest.split_at(key);
    let (value, rest) = rest.split_at(value);
    (key, value, rest)
}

/// Some packed entries, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct PackedEntriesIter<'a> {
    /// The entries, possibly followed by others.
    pub bytes: &'a [u8],
    /// The number of entries.
    pub count: usize,
}

impl<'a> Iterator for PackedEntriesIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let (key, value, behind) = unpack(self.bytes);
        self.bytes = behind;
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for PackedEntriesIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_all_lengths_are_read_as_they_were_written() {
        let lengths = [0, 1, 7, 254, 255, 256, 70_000];
        let mut bytes = Vec::new();
        let mut written = Vec::new();
        for (i, key) in lengths.into_iter().enumerate() {
            for value in lengths {
                let entry = (vec![i as u8; key], vec![!(i as u8); value]);
                let before = bytes.len();
                bytes.extend_from_slice(PackedLengths::new(key, value).as_bytes());
                bytes.extend_from_slice(&entry.0);
                bytes.extend_from_slice(&entry.1);
                assert_eq!(bytes.len() - before, packed_length(key, value));
                written.push(entry);
            }
        }
        let packed = PackedEntriesIter {
            bytes: &bytes,
            count: written.len(),
        };
        assert_eq!(packed.len(), written.len());
        assert!(packed.eq(written.iter().map(|(k, v)| (&k[..], &v[..]))));
    }
}
