//! Descending order: every byte inverted.

use super::{CodecError, CodecReader, Decode, Encode};
use std::cmp::Reverse;

impl<T: Encode> Encode for Reverse<T> {
    fn encode_into(&self, code: &mut Vec<u8>) {
        let start = code.len();
        self.0.encode_into(code);
        // This reverses the order only because codes are prefix-free: of two codes that differ at
        // some byte the inverted ones differ there in the opposite direction, whereas a proper
        // prefix would sort first in both orders.
        for byte in &mut code[start..] {
            *byte = !*byte;
        }
    }
}

impl<T: Decode> Decode for Reverse<T> {
    fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
        reader.inverted(T::decode_from).map(Reverse)
    }
}
