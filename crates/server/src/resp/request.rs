//! Requests: arrays of byte strings, or lines of words ("inline commands").
//!
//! A [`Parser`] reads the bytes received so far and returns where the next complete request ends.
//! It remembers the parsed part of an incomplete request, so that a request that arrives in many
//! pieces is read once. It copies nothing, except the words of inline commands with quotes.

use std::fmt::Write;
use std::ops::Range;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// The largest number of bytes of one argument.
    pub argument_bytes: usize,
    /// The largest number of arguments of one request.
    pub arguments: usize,
    /// The largest number of bytes of an inline command, or of the head of an array or argument.
    pub line_bytes: usize,
}

impl Default for RequestLimits {
    /// Returns Redis's limits: 512 MiB, 2,147,483,647 arguments, 64 KiB.
    fn default() -> Self {
        RequestLimits {
            argument_bytes: 512 << 20,
            arguments: i32::MAX as usize,
            line_bytes: 64 << 10,
        }
    }
}

impl RequestLimits {
    /// Returns the limits for a client that has not authenticated.
    pub fn unauthenticated() -> Self {
        RequestLimits {
            argument_bytes: 16 << 10,
            arguments: 10,
            line_bytes: 64 << 10,
        }
    }
}

/// A violation of the protocol. The client receives it as an error, and its connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of arguments does not parse, or is too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidArrayLength,
    /// The same, of a client that has not authenticated.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    /// The length of an argument does not parse, or is too large.
    #[error("Protocol error: invalid bulk length")]
    InvalidArgumentLength,
    /// The same, of a client that has not authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedArgumentLength,
    /// An argument does not begin with a dollar sign.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedArgument(u8),
    /// A line with a length exceeds the limit without an end.
    #[error("Protocol error: too big {0} count string")]
    LengthTooLong(&'static str),
    /// An inline command exceeds the limit without an end.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// A quote of an inline command is not closed.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
}

/// The result of parsing the beginning of the bytes received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProgress {
    /// A whole request, which ends at this offset; [`Parser::arguments`] returns its parts. It may
    /// be empty (an empty line), and must then be skipped.
    Complete(usize),
    /// Less than a whole request.
    Incomplete,
}

/// A parser that finds one request after the other. See the [module](self).
///
/// ```
/// use nearfield_server::resp::request::{Parser, RequestLimits, RequestProgress};
///
/// let mut parser = Parser::new();
/// let limits = RequestLimits::default();
/// let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
/// assert_eq!(parser.next(bytes, &limits), Ok(RequestProgress::Complete(20)));
/// assert_eq!(parser.arguments(bytes).collect::<Vec<_>>(), [&b"GET"[..], b"k"]);
/// let rest = &bytes[20..];
/// assert_eq!(parser.next(rest, &limits), Ok(RequestProgress::Complete(6)));
/// assert_eq!(parser.arguments(rest).collect::<Vec<_>>(), [b"PING"]);
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    /// The places of the arguments, as offsets from the request's first byte.
    ranges: Vec<Range<usize>>,
    /// The words of an inline command with quotes, which differ from the bytes received.
    words: Vec<Vec<u8>>,
    unquoted: bool,
    /// The number of arguments of an incomplete array still to come. `position` is where the next
    /// begins.
    remaining: usize,
    position: usize,
}

impl Parser {
    /// Creates a parser that has read nothing.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Parses the request at the beginning of `bytes`. After `Incomplete`, call it again with the
    /// same bytes and more after them.
    ///
    /// # Errors
    /// The client does not speak the protocol; no more requests can be read from it.
    #[inline]
    pub fn next(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<RequestProgress, ProtocolError> {
        if self.remaining == 0 {
            self.ranges.clear();
            self.unquoted = false;
            match bytes.first() {
                None => return Ok(RequestProgress::Incomplete),
                Some(b'*') => {
                    let (count, end) = match short_length(bytes, 1) {
                        Some((count, end)) => (Some(count as i64), end),
                        None => match length(bytes, 1, limits, "mbulk")? {
                            Some(found) => found,
                            None => return Ok(RequestProgress::Incomplete),
                        },
                    };
                    let count = count.ok_or(ProtocolError::InvalidArrayLength)?;
                    if count <= 0 {
                        // As in Redis, an array without words is skipped.
                        return Ok(RequestProgress::Complete(end));
                    }
                    if count as usize > limits.arguments {
                        // Only the limits of clients that have not authenticated are this low.
                        return Err(if limits.arguments <= 10 {
                            ProtocolError::UnauthenticatedArrayLength
                        } else {
                            ProtocolError::InvalidArrayLength
                        });
                    }
                    self.remaining = count as usize;
                    self.position = end;
                }
                Some(_) => return self.inline(bytes, limits),
            }
        }
        self.array(bytes, limits)
    }

    fn array(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<RequestProgress, ProtocolError> {
        let mut position = self.position;
        debug_assert!(
            position <= bytes.len(),
            "the same bytes and more are passed"
        );
        while self.remaining > 0 {
            match bytes.get(position) {
                None => break,
                Some(b'$') => {}
                Some(&other) => {
                    self.remaining = 0;
                    return Err(ProtocolError::ExpectedArgument(other));
                }
            }
            let (start, end) = match short_length(bytes, position + 1) {
                Some((length, start)) if length <= limits.argument_bytes => (start, start + length),
                // Lengths beyond the limit come here, too, for their error.
                _ => match argument_length(bytes, position + 1, limits)? {
                    Some((length, start)) => (start, start + length),
                    None => break,
                },
            };
            if bytes.len() < end + 2 {
                // As in Redis, any two bytes are taken for the line end.
                break;
            }
            self.ranges.push(start..end);
            position = end + 2;
            self.remaining -= 1;
        }
        // The next call continues here, so that no argument is read twice.
        self.position = position;
        Ok(match self.remaining {
            0 => RequestProgress::Complete(position),
            _ => RequestProgress::Incomplete,
        })
    }

    fn inline(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<RequestProgress, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            if bytes.len() > limits.line_bytes {
                return Err(ProtocolError::InlineTooLong);
            }
            return Ok(RequestProgress::Incomplete);
        };
        debug_assert!(self.ranges.is_empty() && self.remaining == 0);
        let line = &bytes[..end];
        if line.iter().any(|&byte| byte == b'"' || byte == b'\'') {
            self.unquoted = true;
            self.words = split_words(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        } else {
            let mut start = 0;
            // The vertical tab is a space in C.
            for word in line.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) {
                if !word.is_empty() {
                    self.ranges.push(start..start + word.len());
                }
                start += word.len() + 1;
            }
        }
        Ok(RequestProgress::Complete(end + 1))
    }

    /// Returns the bytes of memory that it takes for the current request.
    pub fn capacity_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<usize>>()
    }

    /// Returns true if no part of the next request has been read.
    #[inline]
    pub fn is_between_requests(&self) -> bool {
        self.remaining == 0
    }

    /// Returns the number of arguments of the request that was found, including the command's name.
    #[inline]
    pub fn argument_count(&self) -> usize {
        if self.unquoted {
            self.words.len()
        } else {
            self.ranges.len()
        }
    }

    /// Returns the places of the arguments in the request that was found. Empty if quotes make the
    /// arguments differ from the bytes received, because the words are then stored separately.
    #[inline]
    pub fn places(&self) -> &[Range<usize>] {
        match self.unquoted {
            true => &[],
            false => &self.ranges,
        }
    }

    /// Returns an argument of the request that was found in `bytes`.
    #[inline]
    pub fn argument<'a>(&'a self, bytes: &'a [u8], position: usize) -> &'a [u8] {
        if self.unquoted {
            &self.words[position]
        } else {
            &bytes[self.ranges[position].clone()]
        }
    }

    /// Returns the arguments of the request that was found in `bytes`.
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        (0..self.argument_count()).map(move |position| self.argument(bytes, position))
    }
}

/// Reads a number of one to three digits and where the next line begins, as [`length`] does.
/// Returns `None` if the number is longer, or if fewer than four bytes have arrived. Nearly all
/// lengths are this short.
#[inline]
pub(super) fn short_length(bytes: &[u8], start: usize) -> Option<(usize, usize)> {
    let &[first, second, third, fourth] = bytes.get(start..)?.first_chunk::<4>()?;
    let digit = |byte: u8| {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        (digit < 10).then_some(digit)
    };
    let first = digit(first)?;
    if second == b'\r' {
        return Some((first, start + 3));
    }
    let two = first * 10 + digit(second)?;
    if third == b'\r' {
        return Some((two, start + 4));
    }
    let three = two * 10 + digit(third)?;
    // The line ends with two bytes, of which the last may not have arrived.
    (fourth == b'\r' && bytes.len() > start + 4).then_some((three, start + 5))
}

/// Returns the length of an argument and where the argument begins, or `None` if the line is
/// incomplete.
#[inline(never)]
fn argument_length(
    bytes: &[u8],
    start: usize,
    limits: &RequestLimits,
) -> Result<Option<(usize, usize)>, ProtocolError> {
    let Some((length, start)) = length(bytes, start, limits, "bulk")? else {
        return Ok(None);
    };
    match length {
        Some(length) if length >= 0 && length as usize <= limits.argument_bytes => {
            Ok(Some((length as usize, start)))
        }
        Some(length) if length >= 0 && limits.arguments <= 10 => {
            Err(ProtocolError::UnauthenticatedArgumentLength)
        }
        _ => Err(ProtocolError::InvalidArgumentLength),
    }
}

/// Reads the number in a line that begins at `start`, and where the next line begins. Returns
/// `None` if the line is incomplete. The number itself is `None` if it does not parse.
fn length(
    bytes: &[u8],
    start: usize,
    limits: &RequestLimits,
    what: &'static str,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    let mut value = 0_i64;
    let mut position = start;
    while let Some(&byte) = bytes.get(position) {
        // Numbers of more digits are left to the strict parser below.
        if byte.is_ascii_digit() && position < start + 10 {
            value = value * 10 + i64::from(byte - b'0');
            position += 1;
        } else if byte == b'\r' && position > start {
            let after = bytes.get(position + 1);
            return Ok(after.map(|_| (Some(value), position + 2)));
        } else {
            break;
        }
    }
    let rest = &bytes[start..];
    // As in Redis, the first byte of a line end is enough to find it.
    let Some(end) = memchr::memchr(b'\r', rest) else {
        if rest.len() > limits.line_bytes {
            return Err(ProtocolError::LengthTooLong(what));
        }
        return Ok(None);
    };
    if rest.len() < end + 2 {
        return Ok(None);
    }
    let number = crate::number::parse_integer(&rest[..end]);
    Ok(Some((number, start + end + 2)))
}

/// Splits a line into words as Redis does: double quotes allow escapes, single quotes allow `\'`.
/// Returns `None` if a quote is not closed or something follows a closing quote.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let blank = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest {
            if !blank(*first) {
                break;
            }
            rest = tail;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest {
                [] => break,
                // As in Redis, a quote may begin within a word.
                [b'"', tail @ ..] => {
                    rest = double_quoted(tail, &mut word)?;
                    // As in Redis, a closing quote ends the word.
                    if rest.first().is_some_and(|&next| !blank(next)) {
                        return None;
                    }
                    break;
                }
                [b'\'', tail @ ..] => {
                    rest = single_quoted(tail, &mut word)?;
                    if rest.first().is_some_and(|&next| !blank(next)) {
                        return None;
                    }
                    break;
                }
                [byte, ..] if blank(*byte) => break,
                [byte, tail @ ..] => {
                    word.push(*byte);
                    rest = tail;
                }
            }
        }
        words.push(word);
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) * 16 + digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    // As in Redis, other bytes stand for themselves.
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Writes bytes such that people can read them, and such that they can stand between quotes.
pub fn quote(text: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                // Writing to a string never fails.
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

/// Returns true if an argument is `word`, in lower or upper case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Result<Vec<Vec<Vec<u8>>>, ProtocolError>;

    /// Feeds `bytes` in pieces of `piece` bytes, and collects the requests.
    fn feed(bytes: &[u8], piece: usize) -> Found {
        let mut parser = Parser::new();
        let limits = RequestLimits::default();
        let (mut buffer, mut found) = (Vec::new(), Vec::new());
        for part in bytes.chunks(piece) {
            buffer.extend_from_slice(part);
            while let RequestProgress::Complete(end) = parser.next(&buffer, &limits)? {
                if parser.argument_count() > 0 {
                    found.push(parser.arguments(&buffer).map(<[u8]>::to_vec).collect());
                }
                buffer.drain(..end);
            }
        }
        Ok(found)
    }

    #[test]
    fn requests_are_the_same_however_they_are_cut() {
        let bytes =
            b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n\r\n*1\r\n$4\r\nxx\r\n\r\nGET a\r\n*0\r\n*-1\r\n\
            set k \"a b\\x41\\n\" 'it\\'s'\r\n*1\r\n$04\r\nPING\r\n";
        let whole = feed(bytes, bytes.len()).unwrap();
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0][2], b"\r\n*1\r\n$4\r\nxx");
        assert_eq!(whole[2][2], b"a bA\n");
        assert_eq!(whole[2][3], b"it's");
        for piece in 1..bytes.len() {
            assert_eq!(feed(bytes, piece).unwrap(), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (bytes, error) in [
            (&b"*x\r\n"[..], ProtocolError::InvalidArrayLength),
            (b"*2147483648\r\n", ProtocolError::InvalidArrayLength),
            (
                b"*99999999999999999999\r\n",
                ProtocolError::InvalidArrayLength,
            ),
            (b"*1\r\n$-1\r\n", ProtocolError::InvalidArgumentLength),
            (
                b"*1\r\n$536870913\r\n",
                ProtocolError::InvalidArgumentLength,
            ),
            (b"*1\r\n$a\r\n", ProtocolError::InvalidArgumentLength),
            (b"*1\r\n:1\r\n", ProtocolError::ExpectedArgument(b':')),
            (b"set \"a\r\n", ProtocolError::UnbalancedQuotes),
            (b"set \"a\"b\r\n", ProtocolError::UnbalancedQuotes),
        ] {
            assert_eq!(
                feed(bytes, bytes.len()),
                Err(error),
                "{}",
                bytes.escape_ascii()
            );
        }
        let long = vec![b'a'; (64 << 10) + 2];
        assert_eq!(feed(&long, 1000), Err(ProtocolError::InlineTooLong));
        let long = [b"*".to_vec(), vec![b'1'; (64 << 10) + 2]].concat();
        assert_eq!(
            feed(&long, 1000),
            Err(ProtocolError::LengthTooLong("mbulk"))
        );
    }
}
