//! Bytes written in order: a buffer that counts and checksums the bytes that pass, and the format's
//! lengths and strings.

use super::checksum::{self, Running};
use super::error::{RdbError, RdbResult};
use super::format::string;
use std::io::Write;

/// The size of the buffer, which is that of the reader's, for the same reason.
const BUFFER_BYTES: usize = 64 << 10;
/// The maximum length of the text of an integer that has a short form: `-2147483648`.
const INTEGER_BYTES_MAX: usize = 11;

pub(super) struct RdbSink<W> {
    output: W,
    buffer: Vec<u8>,
    sum: Running,
    /// Number of bytes that have left the buffer.
    written: u64,
}

impl<W: Write> RdbSink<W> {
    pub fn new(output: W) -> Self {
        Self {
            output,
            buffer: Vec::new(),
            sum: checksum::running(),
            written: 0,
        }
    }

    /// Returns the number of bytes written so far.
    pub fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) -> RdbResult<()> {
        // Summed when they leave the buffer: checksums of single bytes are slow.
        self.sum.update(bytes);
        let offset = self.written;
        self.written += bytes.len() as u64;
        let result = self.output.write_all(bytes);
        result.map_err(|source| RdbError::Io { source, offset })
    }

    fn empty_buffer(&mut self) -> RdbResult<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> RdbResult<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.empty_buffer()?;
        }
        if bytes.len() > BUFFER_BYTES {
            // A copy into the buffer would save no call.
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        debug_assert!(self.buffer.len() <= BUFFER_BYTES);
        Ok(())
    }

    pub fn u8(&mut self, byte: u8) -> RdbResult<()> {
        self.bytes(&[byte])
    }

    /// Writes a number in the form of a length.
    pub fn length(&mut self, length: u64) -> RdbResult<()> {
        let [.., high, low] = length.to_be_bytes();
        if length < 1 << 6 {
            self.u8(low)
        } else if length < 1 << 14 {
            self.bytes(&[high | 0x40, low])
        } else if let Ok(length) = u32::try_from(length) {
            self.u8(0x80)?;
            self.bytes(&length.to_be_bytes())
        } else {
            self.u8(0x81)?;
            self.bytes(&length.to_be_bytes())
        }
    }

    /// Writes a string: as an integer if it is the text of one, as Redis does, otherwise as it is.
    pub fn string(&mut self, bytes: &[u8]) -> RdbResult<()> {
        let Some(integer) = integer(bytes) else {
            self.length(bytes.len() as u64)?;
            return self.bytes(bytes);
        };
        if let Ok(integer) = i8::try_from(integer) {
            self.u8(0xc0 | string::INT8)?;
            self.bytes(&integer.to_le_bytes())
        } else if let Ok(integer) = i16::try_from(integer) {
            self.u8(0xc0 | string::INT16)?;
            self.bytes(&integer.to_le_bytes())
        } else {
            self.u8(0xc0 | string::INT32)?;
            self.bytes(&integer.to_le_bytes())
        }
    }

    /// Passes everything to the output, followed by the checksum.
    pub fn finish(mut self) -> RdbResult<W> {
        self.empty_buffer()?;
        // The sum is taken before the checksum itself passes through `write`.
        let checksum = self.sum.clone().finalize();
        self.write(&checksum.to_le_bytes())?;
        let offset = self.written;
        let result = self.output.flush();
        result.map_err(|source| RdbError::Io { source, offset })?;
        Ok(self.output)
    }
}

/// Returns the integer if this is exactly its text.
fn integer(bytes: &[u8]) -> Option<i32> {
    if bytes.len() > INTEGER_BYTES_MAX {
        return None;
    }
    let integer: i32 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    // `+1`, `01` and `-0` parse, but a reader would restore another text.
    let text = itoa::Buffer::new().format(integer).as_bytes() == bytes;
    text.then_some(integer)
}
