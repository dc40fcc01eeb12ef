//! Texts that carry bytes which are not UTF-8.
//!
//! Errors and lists of clients are made as texts, and name what clients have sent: keys, users,
//! commands. These may be any bytes, and must be sent back unchanged. A byte that is not part of a
//! valid character becomes a character of a private-use range of Unicode, and becomes a byte again
//! where the text is sent. Characters of that range that a client has sent are split into bytes as
//! well, so that no two byte strings give the same text.

use std::borrow::Cow;

/// The character that would stand for the byte zero. Only bytes from 0x80 on need one.
const FIRST: u32 = 0x10_ff00;
/// The first byte of each such character in UTF-8. Few texts contain it.
const FIRST_BYTE: u8 = 0xf4;

/// Converts bytes to a text, from which [`bytes`] makes the same bytes again.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if byte(letter).is_some() {
                // Otherwise this character would be sent as the one byte that it stands for.
                let mut parts = [0; 4];
                let parts = letter.encode_utf8(&mut parts).bytes();
                text.extend(parts.map(letter_of));
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().map(|&byte| letter_of(byte)));
    }
    text
}

/// Returns the bytes of a text, including those that it [carries](self), as they were sent.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    // Most texts carry nothing, and are sent without a copy.
    if !text.as_bytes().contains(&FIRST_BYTE) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match byte(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Returns the character that stands for a byte from 0x80 on.
fn letter_of(byte: u8) -> char {
    debug_assert!(byte >= 0x80, "ASCII is valid UTF-8");
    char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the byte that a character stands for.
fn byte(letter: char) -> Option<u8> {
    let byte = u32::from(letter).checked_sub(FIRST)?;
    u8::try_from(byte).ok().filter(|byte| *byte >= 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn any_bytes_come_back() {
        let random = &mut SmallRng::seed_from_u64(1);
        let parts: [&[u8]; 7] = [
            b"text",
            b"\xff",
            b"\x80\xfe",
            "\u{fc}\u{fffd}".as_bytes(),
            "\u{10ff80}".as_bytes(),
            "\u{10ffff}\u{10ff7f}".as_bytes(),
            b"\xf4\x8f\xbe",
        ];
        for _ in 0..2000 {
            let count = random.random_range(0..6);
            let part = |_| parts[random.random_range(0..parts.len())];
            let whole: Vec<u8> = (0..count).flat_map(part).copied().collect();
            assert_eq!(*bytes(&text(&whole)), *whole);
        }
        for text in ["", "plain", "\u{fc}ber"] {
            assert_eq!(super::text(text.as_bytes()), text);
        }
    }
}
