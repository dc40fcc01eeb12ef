//! Replies to clients, in the version of the protocol that each client has chosen.

use crate::carried;
use crate::number::{format_double, write_head};

/// The version of the protocol that replies are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The version that all connections begin with.
    #[default]
    Resp2,
    /// The version with types for maps, sets, doubles, booleans, null and pushed messages.
    Resp3,
}

/// The place in a reply where a length will be written once it is known.
#[derive(Clone, Copy, Debug)]
#[must_use = "an array that is begun must be ended"]
pub struct Mark {
    position: usize,
}

/// The number of bytes of complete values that are [set apart](RespReply::set_apart): few enough
/// that little is copied while they grow.
const PART_BYTES: usize = 64 << 10;

/// The largest length of a head: its kind, a number and the line end.
const HEAD_BYTES_MAX: usize = 24;

/// The bytes that are sent to a client, written in order.
///
/// ```
/// use nearfield_server::resp::{Protocol, RespReply};
///
/// let mut reply = RespReply::new(Protocol::Resp2);
/// reply.array(2);
/// reply.bulk(b"a");
/// reply.null();
/// assert_eq!(reply.bytes(), b"*2\r\n$1\r\na\r\n$-1\r\n");
/// ```
#[derive(Debug)]
pub struct RespReply {
    out: Vec<u8>,
    /// The completed parts. They are not moved again while more is written.
    parts: Vec<Vec<u8>>,
    protocol: Protocol,
    /// The largest number of bytes that may be written. 0 once the reply is cut.
    most: usize,
    cut: bool,
}

impl Default for RespReply {
    fn default() -> RespReply {
        RespReply::new(Protocol::default())
    }
}

impl RespReply {
    /// Creates an empty reply of any length.
    pub const fn new(protocol: Protocol) -> RespReply {
        RespReply::bounded(protocol, usize::MAX)
    }

    /// Creates an empty reply that holds at most `most` bytes, give or take a few. Bytes beyond are
    /// dropped, and the reply is [cut](RespReply::is_cut) from then on.
    pub const fn bounded(protocol: Protocol, most: usize) -> RespReply {
        RespReply {
            out: Vec::new(),
            parts: Vec::new(),
            protocol,
            most,
            cut: false,
        }
    }

    /// Changes the number of bytes that may be written, unless the reply is cut.
    #[inline]
    pub fn set_bound(&mut self, most: usize) {
        // After a cut, some bytes are missing, and none may follow.
        if !self.cut {
            self.most = most;
        }
    }

    /// Returns true if the bound was exceeded. The reply is then incomplete: its writer can stop,
    /// and the client must be disconnected.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Limits the reply to `bytes` more bytes.
    pub fn leave_room_for(&mut self, bytes: usize) {
        self.most = self.most.min(self.out.len().saturating_add(bytes));
    }

    /// Marks the reply as cut. It takes no more bytes.
    #[cold]
    fn cut(&mut self) {
        self.cut = true;
        self.most = 0;
    }

    /// Returns true if there is room for `bytes` bytes. Otherwise cuts the reply.
    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        debug_assert!(!self.cut || self.most == 0);
        let fits = self.out.len().saturating_add(bytes) <= self.most;
        if !fits {
            self.cut();
        }
        fits
    }

    /// Appends the bytes of a value, or a part of it.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.out.extend_from_slice(bytes);
        }
    }

    /// Returns the version that replies are written in.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the version from the next value on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the bytes written so far, without those set apart.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Returns the number of bytes written, without those set apart.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns true if nothing was written, or all was set apart.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the bytes of memory that the reply has reserved.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Drops everything after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    /// Drops all bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Sets complete values apart if they have many bytes. Positions of bytes written from then on
    /// begin at 0 again.
    #[inline]
    pub fn set_apart(&mut self) {
        if self.out.len() >= PART_BYTES {
            self.set_all_apart();
        }
    }

    #[cold]
    fn set_all_apart(&mut self) {
        // The bound is for `out` alone, which is empty afterwards.
        self.most = self.most.saturating_sub(self.out.len());
        self.parts.push(std::mem::take(&mut self.out));
    }

    /// Returns the number of bytes that were set apart.
    pub fn apart_bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Returns the bytes of memory of the parts set apart.
    pub fn apart_capacity(&self) -> usize {
        self.parts.iter().map(Vec::capacity).sum()
    }

    /// Takes the parts set apart, in order.
    pub fn take_apart(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.parts)
    }

    /// Frees reserved memory beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        self.out.shrink_to(bytes);
    }

    /// Takes all bytes written, without those set apart.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends values that are already encoded.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    #[inline]
    fn head(&mut self, kind: u8, number: i64) {
        if self.has_room(HEAD_BYTES_MAX) {
            let before = self.out.len();
            write_head(&mut self.out, kind, number);
            debug_assert!(self.out.len() - before <= HEAD_BYTES_MAX);
        }
    }

    /// Appends a short text that is not data.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Appends a line of bytes after the letter of its kind. Line ends within it become spaces.
    pub fn line(&mut self, kind: u8, bytes: &[u8]) {
        if !self.has_room(bytes.len().saturating_add(3)) {
            return;
        }
        self.out.push(kind);
        // A line end would end the value, and the bytes after it would be read as another one.
        let within = |&byte: &u8| match byte {
            b'\r' | b'\n' => b' ',
            byte => byte,
        };
        self.out.extend(bytes.iter().map(within));
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.put(b"+OK\r\n");
    }

    /// Appends an error: its code, a space, its text. Bytes that are [carried] in the text are
    /// written as they were received. Line ends become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', &carried::bytes(text));
    }

    /// Appends an integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// Appends an integer that is a length or count.
    #[inline]
    pub fn count(&mut self, value: usize) {
        self.integer(value as i64);
    }

    /// Appends a byte string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.has_room(bytes.len().saturating_add(HEAD_BYTES_MAX + 2)) {
            return;
        }
        self.out.reserve(bytes.len() + 16);
        write_head(&mut self.out, b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends a byte string, or null.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Appends an integer as a byte string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Appends null.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.put(b"$-1\r\n"),
            Protocol::Resp3 => self.put(b"_\r\n"),
        }
    }

    /// Appends a null array.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.put(b"*-1\r\n"),
            Protocol::Resp3 => self.put(b"_\r\n"),
        }
    }

    /// Appends the head of an array; `length` values must follow.
    #[inline]
    pub fn array(&mut self, length: usize) {
        self.head(b'*', length as i64);
    }

    /// Appends the head of a map; `length` pairs must follow. It is a flat array in RESP2.
    pub fn map(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', 2 * length as i64),
            Protocol::Resp3 => self.head(b'%', length as i64),
        }
    }

    /// Appends the head of a set. It is an array in RESP2.
    pub fn set(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(length),
            Protocol::Resp3 => self.head(b'~', length as i64),
        }
    }

    /// Appends the head of a message that is not the reply to a command. It is an array in RESP2.
    pub fn push(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(length),
            Protocol::Resp3 => self.head(b'>', length as i64),
        }
    }

    /// Appends the head of an array of pairs. In RESP3 each pair is an array of two (see
    /// [`pair`](RespReply::pair)), in RESP2 the array is flat.
    pub fn pairs(&mut self, length: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(2 * length),
            Protocol::Resp3 => self.array(length),
        }
    }

    /// Begins a pair of [`pairs`](RespReply::pairs).
    pub fn pair(&mut self) {
        if self.protocol == Protocol::Resp3 {
            self.array(2);
        }
    }

    /// Appends a number with a fraction. It is a byte string in RESP2.
    pub fn double(&mut self, value: f64) {
        // Most scores are small integers, which are written without an allocation. Bits are
        // compared because -0 must keep its sign.
        let integer = value as i64;
        if integer.unsigned_abs() < 1 << 52 && (integer as f64).to_bits() == value.to_bits() {
            match self.protocol {
                Protocol::Resp2 => self.bulk_integer(integer),
                Protocol::Resp3 => self.head(b',', integer),
            }
            return;
        }
        self.number(&format_double(value));
    }

    /// Appends a number with a fraction, in digits without an exponent. It is a byte string in
    /// RESP2.
    pub fn plain_double(&mut self, value: f64) {
        let text = format!("{value:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        // As in Redis, this form of zero has no sign.
        self.number(if text == "-0" { "0" } else { text });
    }

    fn number(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.put(b",");
                self.put(text.as_bytes());
                self.put(b"\r\n");
            }
        }
    }

    /// Appends true or false. In RESP2 it is 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => {
                let text: &[u8] = if value { b"#t\r\n" } else { b"#f\r\n" };
                self.put(text);
            }
        }
    }

    /// Appends a text for people. Its format is one such as `txt`. It is a byte string in RESP2.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                // The format and its colon count.
                self.head(b'=', text.len() as i64 + format.len() as i64 + 1);
                self.put(format);
                self.put(b":");
                self.put(text);
                self.put(b"\r\n");
            }
        }
    }

    /// Begins an array of a length that is not known yet.
    pub fn begin(&self) -> Mark {
        Mark {
            position: self.out.len(),
        }
    }

    /// Ends an array that was begun at `mark`; `length` values were written since.
    pub fn end_array(&mut self, mark: Mark, length: usize) {
        self.end(mark, |reply| reply.array(length));
    }

    /// Ends a map that was begun at `mark`; `length` pairs were written since.
    pub fn end_map(&mut self, mark: Mark, length: usize) {
        self.end(mark, |reply| reply.map(length));
    }

    /// Ends a set that was begun at `mark`; `length` values were written since.
    pub fn end_set(&mut self, mark: Mark, length: usize) {
        self.end(mark, |reply| reply.set(length));
    }

    /// Ends an array of pairs that was begun at `mark`; `length` pairs were written since.
    pub fn end_pairs(&mut self, mark: Mark, length: usize) {
        self.end(mark, |reply| reply.pairs(length));
    }

    /// Ends the array of a scan that was begun at `mark`: `length` values were written since. The
    /// cursor is inserted before them.
    pub fn end_scan(&mut self, mark: Mark, cursor: u64, length: usize) {
        self.end(mark, |reply| {
            reply.array(2);
            reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
            reply.array(length);
        });
    }

    /// Ends the second of a reply's three parts, which is an array that was begun at `mark`. The
    /// first part, a text, is inserted before it.
    pub fn end_claim(&mut self, mark: Mark, first: &str, length: usize) {
        self.end(mark, |reply| {
            reply.array(3);
            reply.bulk(first.as_bytes());
            reply.array(length);
        });
    }

    fn end(&mut self, mark: Mark, head: impl FnOnce(&mut RespReply)) {
        let end = self.out.len();
        debug_assert!(mark.position <= end, "its values were dropped");
        // The length is known only after the values, so the head is moved before them.
        head(self);
        let length = self.out.len() - end;
        if let Some(part) = self.out.get_mut(mark.position..) {
            part.rotate_right(length);
        }
    }
}
