//! A cursor over a code that is being decoded.

use super::{CodecError, DecodeReason};

/// A reader of a code from front to back. Reading past its end is a [`CodecError`].
#[derive(Clone, Debug)]
pub struct CodecReader<'a> {
    code: &'a [u8],
    position: usize,
    /// Mask XORed with every byte: `FF` within an odd number of `Reverse`, else 0.
    mask: u8,
}

impl<'a> CodecReader<'a> {
    /// Creates a reader at the first byte of `code`.
    pub fn new(code: &'a [u8]) -> Self {
        CodecReader {
            code,
            position: 0,
            mask: 0,
        }
    }

    /// Returns the number of bytes that have been read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.code.len() - self.position
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn byte(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// `Truncated`, and nothing is read.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let Some(bytes) = self.code[self.position..].first_chunk::<N>() else {
            // The error is at the end, where the missing bytes would begin.
            let missing = N - self.remaining();
            let end = self.code.len();
            return Err(CodecError {
                position: end,
                reason: DecodeReason::Truncated { missing },
            });
        };
        self.position += N;
        Ok(bytes.map(|byte| byte ^ self.mask))
    }

    /// Reads with `read` a part whose bytes are inverted.
    pub(super) fn inverted<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        // Inverted instead of set, because a `Reverse` within a `Reverse` undoes the outer one.
        self.mask = !self.mask;
        let value = read(self);
        self.mask = !self.mask;
        value
    }

    /// Returns an error at the next byte.
    pub(super) fn error(&self, reason: DecodeReason) -> CodecError {
        CodecError {
            position: self.position,
            reason,
        }
    }

    /// Returns an error at the byte read last.
    pub(super) fn error_at_last(&self, reason: DecodeReason) -> CodecError {
        CodecError {
            position: self.position - 1,
            reason,
        }
    }
}
