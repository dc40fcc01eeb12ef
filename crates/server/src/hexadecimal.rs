//! Bytes in hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Formats bytes as two lowercase hexadecimal digits each.
///
/// Each `EVAL` formats the digest of its script, and `std::fmt` would take a tenth of its time.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let digits = |&byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(bytes.iter().flat_map(digits));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_bytes_are_formatted_as_the_standard_library_does() {
        for byte in 0..=u8::MAX {
            assert_eq!(
                super::hex(&[byte, !byte]),
                format!("{byte:02x}{:02x}", !byte)
            );
        }
        assert_eq!(super::hex(&[]), "");
    }
}
