//! Integers: big-endian, the sign bit flipped so that negative numbers come first.

use super::{CodecError, CodecReader, Decode, Encode};

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fn encode_into(&self, code: &mut Vec<u8>) {
                code.extend_from_slice(&self.to_be_bytes());
            }
        }

        impl Decode for $type {
            fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
                reader.array().map(<$type>::from_be_bytes)
            }
        }
    )*};
}

macro_rules! signed {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fn encode_into(&self, code: &mut Vec<u8>) {
                // A flipped sign bit adds half the range, so that the least number becomes 0.
                (self ^ <$type>::MIN).cast_unsigned().encode_into(code);
            }
        }

        impl Decode for $type {
            fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
                reader.array().map(|bytes| <$type>::from_be_bytes(bytes) ^ <$type>::MIN)
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, u128);
signed!(i8, i16, i32, i64, i128);
