//! Strings and byte strings: escaped, then ended by a mark that sorts below every byte.
//!
//! ```text
//!   value   61 00 62        code   61 00 FF 62 00 00
//! ```
//!
//! A zero byte becomes `00 FF` and the end is `00 00`. A byte string that is a key on its own needs
//! none of this; it is its own code.

use super::{CodecError, CodecReader, Decode, DecodeReason, Encode};

/// Byte after a zero byte that belongs to the string.
const ESCAPED_ZERO: u8 = 0xff;
/// Byte after a zero byte that ends the string.
const END: u8 = 0x00;

impl Encode for [u8] {
    fn encode_into(&self, code: &mut Vec<u8>) {
        // Without zero bytes, which are rare in strings, this is exact.
        code.reserve(self.len() + 2);
        let mut parts = self.split(|&byte| byte == 0);
        code.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            code.extend_from_slice(&[0, ESCAPED_ZERO]);
            code.extend_from_slice(part);
        }
        // Against a longer string, this is compared with `01` or more, or with `00 FF`. So the
        // shorter string sorts first.
        code.extend_from_slice(&[0, END]);
    }
}

impl Encode for Vec<u8> {
    fn encode_into(&self, code: &mut Vec<u8>) {
        self.as_slice().encode_into(code);
    }
}

impl Decode for Vec<u8> {
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
        // Not reserved ahead: the rest of the code may belong to other fields of a tuple.
        let mut value = Vec::new();
        loop {
            match reader.byte()? {
                0 => match reader.byte()? {
                    END => return Ok(value),
                    ESCAPED_ZERO => value.push(0),
                    byte => {
                        return Err(reader.error_at_last(DecodeReason::InvalidEscape { byte }));
                    }
                },
                byte => value.push(byte),
            }
        }
    }
}

impl Encode for str {
    fn encode_into(&self, code: &mut Vec<u8>) {
        self.as_bytes().encode_into(code);
    }
}

impl Encode for String {
    fn encode_into(&self, code: &mut Vec<u8>) {
        self.as_bytes().encode_into(code);
    }
}

impl Decode for String {
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
        // The position of the whole string: escapes shift the positions of its bytes in the code.
        let position = reader.position();
        String::from_utf8(Vec::decode_from(reader)?).map_err(|error| CodecError {
            position,
            reason: DecodeReason::InvalidUtf8 {
                valid_bytes: error.utf8_error().valid_up_to(),
            },
        })
    }
}
