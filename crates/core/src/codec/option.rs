//! Optional values: a tag byte as for a `bool`, then the value.

use super::{CodecError, CodecReader, Decode, Encode};

impl<T: Encode> Encode for Option<T> {
    fn encode_into(&self, code: &mut Vec<u8>) {
        // The tag makes `None` the least, as in `Ord`, and no prefix of a code of `Some`.
        self.is_some().encode_into(code);
        if let Some(value) = self {
            value.encode_into(code);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
        bool::decode_from(reader)?
            .then(|| T::decode_from(reader))
            .transpose()
    }
}
