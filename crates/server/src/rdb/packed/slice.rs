//! The bytes of a packed value, read from the front.

use crate::rdb::error::{RdbError, RdbResult};

pub(super) struct RdbPackedReader<'a> {
    what: &'static str,
    rest: &'a [u8],
    offset: u64,
}

impl<'a> RdbPackedReader<'a> {
    /// Creates a slice of `bytes` at `offset` of the file; `what` names them in errors.
    pub fn new(what: &'static str, bytes: &'a [u8], offset: u64) -> Self {
        Self {
            what,
            rest: bytes,
            offset,
        }
    }

    /// Returns the number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Creates an error for a `length` that does not fit.
    pub fn bad_length(&self, length: u64) -> RdbError {
        RdbError::BadLength {
            what: self.what,
            length,
            offset: self.offset,
        }
    }

    /// Creates an error for an unknown form `found`.
    pub fn bad_encoding(&self, found: u8) -> RdbError {
        RdbError::BadEncoding {
            what: self.what,
            found: found.into(),
            offset: self.offset,
        }
    }

    pub fn take(&mut self, count: usize) -> RdbResult<&'a [u8]> {
        let taken = self.rest.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| self.bad_length(count as u64))?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> RdbResult<[u8; N]> {
        let taken = self.rest.split_first_chunk();
        let (taken, rest) = taken.ok_or_else(|| self.bad_length(N as u64))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> RdbResult<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> RdbResult<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a number of bytes, which is a `u32`.
    pub fn size(&mut self) -> RdbResult<usize> {
        let size = self.u32()?;
        usize::try_from(size).map_err(|_| self.bad_length(size.into()))
    }

    pub fn i16(&mut self) -> RdbResult<i16> {
        Ok(i16::from_le_bytes(self.array()?))
    }

    /// Reads an integer of three bytes.
    pub fn i24(&mut self) -> RdbResult<i32> {
        let [low, middle, high] = self.array()?;
        // Moved into the upper bytes and back down, which extends the sign.
        Ok(i32::from_le_bytes([0, low, middle, high]) >> 8)
    }

    pub fn i32(&mut self) -> RdbResult<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> RdbResult<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads the total number of bytes, which must be right.
    pub fn total(&mut self) -> RdbResult<()> {
        let length = self.remaining();
        let total = self.size()?;
        if total == length {
            Ok(())
        } else {
            Err(self.bad_length(total as u64))
        }
    }

    /// Refuses bytes after the end, and a wrong number of elements.
    pub fn finish(&self, announced: u16, found: usize) -> RdbResult<()> {
        if self.remaining() > 0 {
            return Err(self.bad_length(self.remaining() as u64));
        }
        // A number that did not fit into its 16 bits is stored as all ones.
        if announced != u16::MAX && usize::from(announced) != found {
            return Err(self.bad_length(announced.into()));
        }
        Ok(())
    }
}
