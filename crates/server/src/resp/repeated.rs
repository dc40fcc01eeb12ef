//! Requests that begin like the one before. Clients often send the same command again, and
//! its head need not be parsed twice.

use super::encode;
use super::request::{RequestLimits, short_length};
use std::ops::Range;

/// The head of a request as it is written in the log: the bytes before the first argument, which
/// are the number of words and the first word, a short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The first eight bytes, those after them, and the last eight. They may overlap.
    parts: [u64; 3],
    length: u8,
    arguments: u8,
    name: u8,
}

/// The length of the longest head: two lines with a number of one digit, and a name of eight
/// letters.
const BYTES_MAX: usize = 4 + 4 + 8 + 2;

/// The length of the shortest head: the name has one letter.
const BYTES_MIN: usize = 4 + 4 + 1 + 2;

const _: () = assert!(
    BYTES_MIN >= 8 && BYTES_MAX <= 3 * 8,
    "the parts have all bytes"
);

impl RequestHead {
    /// Returns the head of a request that has its words at `places`, or `None` if the head is long
    /// or not written as in the log.
    pub fn of(request: &[u8], places: &[Range<usize>]) -> Option<RequestHead> {
        let name = places.first()?;
        let length = name.end + 2;
        let arguments = places.len() - 1;
        // Up to nine words have a number of one digit.
        let is_short = (1..=8).contains(&arguments) && (BYTES_MIN..=BYTES_MAX).contains(&length);
        if !is_short || !encode::is_encoded(request, places) {
            return None;
        }
        Some(RequestHead {
            parts: parts(request, length)?,
            length: length as u8,
            arguments: arguments as u8,
            name: name.start as u8,
        })
    }

    /// Checks if `bytes` begin with a request that has this head, is written as in the log and has
    /// short arguments. Calls `word` with the place of each of its words, and returns where the
    /// request ends. Returns `None` if there is no such request or it is incomplete; `word` may
    /// have been called by then.
    #[inline]
    pub fn find(
        &self,
        bytes: &[u8],
        limits: &RequestLimits,
        mut word: impl FnMut(Range<usize>),
    ) -> Option<usize> {
        let mut end = usize::from(self.length);
        // The parts overlap, so that no loop over the bytes is needed.
        if parts(bytes, end)? != self.parts {
            return None;
        }
        word(usize::from(self.name)..end - 2);
        for _ in 0..self.arguments {
            if bytes.get(end) != Some(&b'$') {
                return None;
            }
            let (length, start) = short_length(bytes, end + 1)?;
            // The log never writes a length with leading zeros.
            let has_zeros = length < 10 && start != end + 4 || length < 100 && start > end + 5;
            let line_end = start + length;
            // The second byte of the line end was not read with the length.
            if has_zeros
                || length > limits.argument_bytes
                || bytes.get(start - 1) != Some(&b'\n')
                || bytes.get(line_end..)?.first_chunk() != Some(b"\r\n")
            {
                return None;
            }
            word(start..line_end);
            end = line_end + 2;
        }
        debug_assert!(end <= bytes.len());
        Some(end)
    }
}

/// Returns the parts of a head of `length` bytes.
#[inline]
fn parts(bytes: &[u8], length: usize) -> Option<[u64; 3]> {
    let part = |at: usize| {
        let part = bytes.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*part))
    };
    // It may overlap the others, and never lies beyond the head.
    let middle = 8.min(length.checked_sub(8)?);
    Some([part(0)?, part(middle)?, part(length - 8)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Parser;
    use crate::resp::request::RequestProgress;

    /// Returns what the parser finds in a request, or `None` if it does not parse.
    fn parsed(request: &[u8]) -> Option<(usize, Vec<Range<usize>>)> {
        let mut parser = Parser::new();
        match parser.next(request, &RequestLimits::default()) {
            Ok(RequestProgress::Complete(end)) => Some((end, parser.places().to_vec())),
            _ => None,
        }
    }

    fn found(head: &RequestHead, bytes: &[u8]) -> Option<(usize, Vec<Range<usize>>)> {
        let mut places = Vec::new();
        let limits = RequestLimits::default();
        let end = head.find(bytes, &limits, |place| places.push(place))?;
        Some((end, places))
    }

    fn head(request: &[u8]) -> RequestHead {
        let (_, places) = parsed(request).expect("a request");
        RequestHead::of(request, &places).expect("a short head")
    }

    fn request(words: &[&[u8]]) -> Vec<u8> {
        let mut request = Vec::new();
        crate::resp::encode::words(&mut request, words);
        request
    }

    #[test]
    fn requests_with_the_same_head_are_found_as_the_parser_finds_them() {
        for name in [&b"g"[..], b"GET", b"setrange", b"hincrby"] {
            for lengths in [&[0_usize][..], &[1], &[9, 10], &[99, 100, 101], &[3; 8]] {
                let word = |length: &usize| vec![b'x'; *length];
                let arguments: Vec<Vec<u8>> = lengths.iter().map(word).collect();
                let mut words = vec![name];
                words.extend(arguments.iter().map(Vec::as_slice));
                let mut bytes = request(&words);
                let head = head(&bytes);
                let expected = parsed(&bytes);
                for short in 0..bytes.len() {
                    assert_eq!(found(&head, &bytes[..short]), None);
                }
                bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
                assert_eq!(found(&head, &bytes), expected);
            }
        }
    }

    /// Requests that are written in any other form are left to the parser.
    #[test]
    fn other_requests_are_not_found() {
        let head = head(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        for bytes in [
            &b"*2\r\n$3\r\nGEX\r\n$1\r\nk\r\n"[..],
            b"*3\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            b"*2\r\n$3\r\nGET\r\n:1\r\nk\r\n",
            b"*2\r\n$3\r\nGET\r\n$01\r\nk\r\n",
            b"*2\r\n$3\r\nGET\r\n$001\r\nk\r\n",
            b"*2\r\n$3\r\nGET\r\n$010\r\nkkkkkkkkkk\r\n",
            b"*2\r\n$3\r\nGET\r\n$1\rxk\r\n",
            b"*2\r\n$3\r\nGET\r\n$1\r\nkxx",
            b"*2\r\n$3\r\nGETxx$1\r\nk\r\n",
            b"*2\r\n$3\r\nGET\r\n$-1\r\n",
            b"GET k\r\n and more",
        ] {
            assert_eq!(found(&head, bytes), None, "{}", bytes.escape_ascii());
        }
        let none = RequestLimits {
            argument_bytes: 2,
            ..RequestLimits::default()
        };
        let long = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
        assert!(head.find(long, &none, |_| ()).is_none());
        assert!(found(&head, long).is_some());
    }
}
