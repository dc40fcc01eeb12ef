//! Booleans: one byte, `false` first. `Option` begins with the same byte.

use super::{CodecError, CodecReader, Decode, DecodeReason, Encode};

impl Encode for bool {
    fn encode_into(&self, code: &mut Vec<u8>) {
        code.push(u8::from(*self));
    }
}

impl Decode for bool {
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            // Accepted, it would be a second code of `true`.
            byte => Err(reader.error_at_last(DecodeReason::InvalidTag { byte })),
        }
    }
}
