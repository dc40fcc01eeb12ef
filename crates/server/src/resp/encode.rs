//! Commands as the log holds them: arrays of byte strings.

use crate::number::write_head;
use std::ops::Range;

/// A command as its words.
pub type Words = Vec<Vec<u8>>;

/// The bytes that end heads and words.
pub const LINE_END: &[u8] = b"\r\n";

/// Returns the length in bytes of a head with this number.
#[inline]
pub fn head_bytes(number: usize) -> usize {
    // Nearly all numbers have one or two digits.
    let digits = match number {
        0..=9 => 1,
        10..=99 => 2,
        _ => number.ilog10() as usize + 1,
    };
    1 + digits + LINE_END.len()
}

/// Returns true if `bytes` are a command exactly as this module writes it, with its words at
/// `places`. The numbers in the heads are not read again: they are the words' lengths, because the
/// places were found by reading them.
#[inline]
pub fn is_encoded(bytes: &[u8], places: &[Range<usize>]) -> bool {
    let is_line_end = |end: usize| bytes.get(end - LINE_END.len()..end) == Some(LINE_END);
    if bytes.first() != Some(&b'*') {
        return false;
    }
    // A number with leading zeros makes its head longer.
    let mut end = head_bytes(places.len());
    let mut is_encoded = is_line_end(end);
    for place in places {
        debug_assert!(place.start >= LINE_END.len(), "a head is before each word");
        is_encoded &= place.start == end + head_bytes(place.len()) && is_line_end(place.start);
        end = place.end + LINE_END.len();
        is_encoded &= is_line_end(end);
    }
    is_encoded && end == bytes.len()
}

/// Appends the head of a command of `words` words.
pub fn array(out: &mut Vec<u8>, words: usize) {
    write_head(out, b'*', words as i64);
}

/// Appends a word.
pub fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    // Once for the head, the bytes and the line end.
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

/// Appends a command of these words, which may be literals of different lengths.
pub fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    self::words(out, words);
}

/// Appends a command of these words.
pub fn words<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    array(out, words.len());
    for bytes in words {
        word(out, bytes.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Parser;
    use crate::resp::request::{RequestLimits, RequestProgress};

    /// Returns true if a request that the parser takes is written as this module would, and its
    /// words.
    fn parse(request: &[u8]) -> (bool, Vec<Vec<u8>>) {
        let mut parser = Parser::new();
        let step = parser.next(request, &RequestLimits::default());
        assert_eq!(step, Ok(RequestProgress::Complete(request.len())));
        let words = parser.arguments(request).map(<[u8]>::to_vec).collect();
        (is_encoded(request, parser.places()), words)
    }

    #[test]
    fn commands_are_recognized_that_are_written_here() {
        for lengths in [&[3][..], &[0, 9, 10], &[99, 100, 1000], &[1; 120]] {
            let command: Vec<_> = lengths.iter().map(|&length| vec![b'a'; length]).collect();
            let mut request = Vec::new();
            super::command(&mut request, &command);
            assert_eq!(parse(&request), (true, command));
        }
    }

    #[test]
    fn other_forms_of_a_command_are_recognized() {
        let request = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let words = vec![b"GET".to_vec(), b"k".to_vec()];
        assert_eq!(parse(request), (true, words.clone()));
        for request in [
            &b"GET k\r\n"[..],
            b"GET 'k'\r\n",
            b"*02\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            b"*2\r\n$03\r\nGET\r\n$1\r\nk\r\n",
            // The parser does not check these line ends.
            b"*2\r\n$3\r\nGET\r\n$1\r\nkxx",
            b"*2\r\n$3\rxGET\r\n$1\r\nk\r\n",
            b"*2\rx$3\r\nGET\r\n$1\r\nk\r\n",
        ] {
            assert_eq!(parse(request), (false, words.clone()), "{request:?}");
        }
    }
}
