//! Tuples: the codes of the fields side by side.

use super::{CodecError, CodecReader, Decode, Encode};

macro_rules! tuple {
    ($($field:ident),+) => {
        impl<$($field: Encode),+> Encode for ($($field,)+) {
            #[expect(non_snake_case, reason = "a field is bound to the name of its type")]
            fn encode_into(&self, code: &mut Vec<u8>) {
                let ($($field,)+) = self;
                // No separator: codes are prefix-free, so the first difference of two tuples lies
                // in the same field of both, and a decoder sees where each field ends.
                $($field.encode_into(code);)+
            }
        }

        impl<$($field: Decode),+> Decode for ($($field,)+) {
            fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
                Ok(($($field::decode_from(reader)?,)+))
            }
        }
    };
}

tuple!(A);
tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);
tuple!(A, B, C, D, E, F, G);
tuple!(A, B, C, D, E, F, G, H);
