//! Bytes read in order: a buffer that counts and checksums the bytes taken from it, and the
//! format's lengths and strings.

use super::checksum::{self, Running};
use super::error::{RdbError, RdbResult};
use super::format::string;
use super::lzf;
use std::io::{ErrorKind, Read};

/// The size of the buffer: large enough that the cost of calls to the source does not matter, small
/// enough for the nearest caches.
const BUFFER_BYTES: usize = 64 << 10;
/// The maximum of bytes reserved for a string whose end has not been seen: this much, or as much
/// again as has been read.
const RESERVED_BYTES: usize = 1 << 20;

pub(super) struct RdbSource<R> {
    input: R,
    buffer: Box<[u8]>,
    /// The ranges of the buffer: `buffer[..summed]` is in `sum`, `buffer[..start]` is taken,
    /// `buffer[..end]` is filled. Taken bytes are checksummed only when the buffer is filled again,
    /// because checksums of single bytes are slow.
    summed: usize,
    start: usize,
    end: usize,
    sum: Running,
    /// The offset of the buffer's first byte.
    base: u64,
    /// Number of bytes that compressed strings may still expand to.
    room: u64,
}

/// The length or form before a string.
enum Length {
    Bytes(u64),
    Encoded(u8),
}

impl<R: Read> RdbSource<R> {
    pub fn new(input: R) -> Self {
        Self::with_buffer(input, BUFFER_BYTES)
    }

    /// Creates a source for less input than the usual buffer, which would cost more than the work
    /// itself.
    pub fn of_bytes(input: R, bytes: usize) -> Self {
        Self::with_buffer(input, bytes.clamp(1, BUFFER_BYTES))
    }

    fn with_buffer(input: R, bytes: usize) -> Self {
        Self {
            input,
            buffer: vec![0; bytes].into_boxed_slice(),
            summed: 0,
            start: 0,
            end: 0,
            sum: checksum::running(),
            base: 0,
            room: u64::MAX,
        }
    }

    /// Limits the bytes that compressed strings expand to. A few bytes may say that they are many.
    pub fn limit_expanded(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// Returns the number of bytes that have been taken.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Returns the checksum of all bytes that have been taken.
    pub fn checksum(&mut self) -> u64 {
        self.add_to_sum();
        self.sum.clone().finalize()
    }

    fn add_to_sum(&mut self) {
        let taken = self.buffer.get(self.summed..self.start);
        self.sum.update(taken.unwrap_or_default());
        self.summed = self.start;
    }

    /// Takes bytes that are available without another read, at most `wanted` and at least one.
    fn take_some(&mut self, wanted: usize) -> RdbResult<&[u8]> {
        debug_assert!(wanted > 0);
        if self.start == self.end {
            self.fill()?;
        }
        debug_assert!(self.summed <= self.start && self.start < self.end);
        debug_assert!(self.end <= self.buffer.len());
        let start = self.start;
        self.start += wanted.min(self.end - start);
        Ok(self.buffer.get(start..self.start).unwrap_or_default())
    }

    fn fill(&mut self) -> RdbResult<()> {
        // The offset counts the whole buffer as taken.
        debug_assert_eq!(self.start, self.end);
        self.add_to_sum();
        self.base += self.end as u64;
        (self.summed, self.start, self.end) = (0, 0, 0);
        let offset = self.base;
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Err(RdbError::Truncated { offset }),
                // Safe code may implement `Read` wrongly, and return more than the buffer has.
                Ok(count) => {
                    self.end = count.min(self.buffer.len());
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(RdbError::Truncated { offset });
                }
                Err(source) => return Err(RdbError::Io { source, offset }),
            }
        }
    }

    pub fn u8(&mut self) -> RdbResult<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn array<const N: usize>(&mut self) -> RdbResult<[u8; N]> {
        let mut array = [0; N];
        let mut rest = array.as_mut_slice();
        while !rest.is_empty() {
            let taken = self.take_some(rest.len())?;
            let (filled, after) = rest.split_at_mut(taken.len());
            filled.copy_from_slice(taken);
            rest = after;
        }
        Ok(array)
    }

    /// Takes `count` bytes. Memory grows as they arrive, not as `count` announces them.
    pub fn bytes(&mut self, count: u64) -> RdbResult<Vec<u8>> {
        let Ok(count) = usize::try_from(count) else {
            let offset = self.offset();
            return Err(RdbError::BadLength {
                what: "string",
                length: count,
                offset,
            });
        };
        let mut bytes = Vec::new();
        // The capacity at most doubles with each reservation, so that a wrong count costs no more
        // than the bytes that have arrived.
        while bytes.len() < count {
            let remaining = count - bytes.len();
            if bytes.capacity() == bytes.len() {
                bytes.reserve_exact(remaining.min(bytes.len().max(RESERVED_BYTES)));
            }
            let wanted = remaining.min(bytes.capacity() - bytes.len());
            bytes.extend_from_slice(self.take_some(wanted)?);
        }
        Ok(bytes)
    }

    /// Skips `count` bytes.
    pub fn skip(&mut self, count: u64) -> RdbResult<()> {
        let mut remaining = count;
        while remaining > 0 {
            let wanted = usize::try_from(remaining).unwrap_or(usize::MAX);
            remaining -= self.take_some(wanted)?.len() as u64;
        }
        Ok(())
    }

    fn length_of_string(&mut self) -> RdbResult<Length> {
        let offset = self.offset();
        let first = self.u8()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Bytes(low.into()),
            (1, _) => Length::Bytes(u64::from(low) << 8 | u64::from(self.u8()?)),
            (_, 0x80) => Length::Bytes(u32::from_be_bytes(self.array()?).into()),
            (_, 0x81) => Length::Bytes(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Encoded(low),
            _ => {
                return Err(RdbError::BadEncoding {
                    what: "form of a length",
                    found: first.into(),
                    offset,
                });
            }
        })
    }

    /// Reads a number in the form of a length.
    pub fn length(&mut self) -> RdbResult<u64> {
        let offset = self.offset();
        match self.length_of_string()? {
            Length::Bytes(length) => Ok(length),
            Length::Encoded(form) => Err(RdbError::BadEncoding {
                what: "form of a length",
                found: u64::from(form) | 0xc0,
                offset,
            }),
        }
    }

    /// Reads a string in any of its forms.
    pub fn string(&mut self) -> RdbResult<Vec<u8>> {
        let offset = self.offset();
        match self.length_of_string()? {
            Length::Bytes(length) => self.bytes(length),
            Length::Encoded(string::INT8) => Ok(decimal(i8::from_le_bytes(self.array()?))),
            Length::Encoded(string::INT16) => Ok(decimal(i16::from_le_bytes(self.array()?))),
            Length::Encoded(string::INT32) => Ok(decimal(i32::from_le_bytes(self.array()?))),
            Length::Encoded(string::LZF) => {
                let compressed_length = self.length()?;
                let length = self.length()?;
                // Before anything is restored, because the length alone may be larger than memory.
                self.room = self
                    .room
                    .checked_sub(length)
                    .ok_or(RdbError::NoRoom { length, offset })?;
                let compressed = self.bytes(compressed_length)?;
                usize::try_from(length)
                    .ok()
                    .and_then(|length| lzf::decompress(&compressed, length))
                    .ok_or(RdbError::BadCompression { length, offset })
            }
            Length::Encoded(form) => Err(bad_form_of_string(form, offset)),
        }
    }

    /// Skips a string without restoring it.
    pub fn skip_string(&mut self) -> RdbResult<()> {
        let offset = self.offset();
        let bytes = match self.length_of_string()? {
            Length::Bytes(length) => length,
            Length::Encoded(string::INT8) => 1,
            Length::Encoded(string::INT16) => 2,
            Length::Encoded(string::INT32) => 4,
            Length::Encoded(string::LZF) => {
                let compressed_length = self.length()?;
                self.length()?;
                compressed_length
            }
            Length::Encoded(form) => return Err(bad_form_of_string(form, offset)),
        };
        self.skip(bytes)
    }
}

fn bad_form_of_string(form: u8, offset: u64) -> RdbError {
    RdbError::BadEncoding {
        what: "form of a string",
        found: form.into(),
        offset,
    }
}

/// Returns the text of an integer.
pub(super) fn decimal(integer: impl itoa::Integer) -> Vec<u8> {
    itoa::Buffer::new().format(integer).as_bytes().to_vec()
}
