//! Commands as the log holds them: arrays of byte strings.

use crate::number::write_head;

/// A command: its words.
pub type Words = Vec<Vec<u8>>;

/// Appends the head of a command of `words` words.
pub fn array(out: &mut Vec<u8>, words: usize) {
    write_head(out, b'*', words as i64);
}

/// Appends a word.
pub fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 24);
    write_head(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a command.
pub fn command(out: &mut Vec<u8>, words: &Words) {
    array(out, words.len());
    for bytes in words {
        word(out, bytes);
    }
}

/// Appends a command that selects a database.
pub fn select(out: &mut Vec<u8>, database: usize) {
    out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n");
    word(out, itoa::Buffer::new().format(database).as_bytes());
}

/// Appends a command of these words.
pub fn words(out: &mut Vec<u8>, words: &[&[u8]]) {
    array(out, words.len());
    for bytes in words {
        word(out, bytes);
    }
}
