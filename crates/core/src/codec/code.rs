//! The two directions of a code.

use super::{CodecError, CodecReader, DecodeReason};

/// A value that has an order-preserving, prefix-free code.
///
/// Borrowed types ([`str`], `[u8]`, references) encode without a copy, so that a lookup does not
/// have to own its key: `("ann", 7_u64)` and `("ann".to_owned(), 7_u64)` have the same code.
pub trait Encode {
    /// Appends the code of the value.
    fn encode_into(&self, code: &mut Vec<u8>);

    /// Returns the code of the value.
    ///
    /// ```
    /// use nearfield_core::codec::Encode;
    ///
    /// assert_eq!((-1_i16).encode(), [0x7f, 0xff]);
    /// assert_eq!("a\0".encode(), [b'a', 0x00, 0xff, 0x00, 0x00]);
    /// ```
    fn encode(&self) -> Vec<u8> {
        let mut code = Vec::new();
        self.encode_into(&mut code);
        code
    }
}

/// A value that can be decoded from its code.
pub trait Decode: Encode + Sized {
    /// Reads one value and advances the reader past its code.
    ///
    /// # Errors
    /// The position and the reason, if the bytes there are no code of this type.
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError>;

    /// Reads a value from the whole of `code`.
    ///
    /// # Errors
    /// Those of [`decode_from`](Decode::decode_from), and `TrailingBytes`.
    ///
    /// ```
    /// use nearfield_core::codec::{Decode, DecodeReason};
    ///
    /// assert_eq!(i16::decode(&[0x7f, 0xff]), Ok(-1));
    ///
    /// let error = <(u8, bool)>::decode(&[9, 2]).unwrap_err();
    /// assert_eq!((error.position, error.reason), (1, DecodeReason::InvalidTag { byte: 2 }));
    /// ```
    fn decode(code: &[u8]) -> Result<Self, CodecError> {
        let mut reader = CodecReader::new(code);
        let value = Self::decode_from(&mut reader)?;
        match reader.remaining() {
            0 => Ok(value),
            count => Err(reader.error(DecodeReason::TrailingBytes { count })),
        }
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode_into(&self, code: &mut Vec<u8>) {
        (**self).encode_into(code);
    }
}
