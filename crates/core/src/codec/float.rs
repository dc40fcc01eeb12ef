//! Floats, in the order of [`f64::total_cmp`].
//!
//! The order is: negative NaNs, −∞, negative numbers, −0.0, +0.0, positive numbers, +∞, positive
//! NaNs. Two decisions follow from it:
//!
//! - **−0.0 and +0.0 are two keys**, neighbours with −0.0 first, although `==` calls them equal.
//! - **A NaN keeps its sign and payload**, so that NaNs with different bits are different keys.
//!
//! In exchange every bit pattern has exactly one code and is restored bit for bit. Merging the
//! zeros, or the NaNs, would lose stored bits. A caller that wants one zero adds `0.0` to the value
//! before encoding it, which turns −0.0 into +0.0 and changes nothing else.

use super::{CodecError, CodecReader, Decode, Encode};

macro_rules! float {
    ($float:ty, $bits:ty, $to_ordered:ident, $from_ordered:ident) => {
        /// Maps the bits to an unsigned integer that sorts as the float does.
        pub(super) fn $to_ordered(value: $float) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let bits = value.to_bits();
            // A positive number has its sign bit set, so that it sorts above all negative ones. A
            // negative number has all bits inverted, so that greater magnitudes sort lower.
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        }

        /// Maps an ordered integer back to the bits.
        pub(super) fn $from_ordered(ordered: $bits) -> $float {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            // A clear sign bit marks a negative number here, because the other direction inverts
            // it. No integer is refused: each is the code of one float.
            <$float>::from_bits(if ordered & SIGN == 0 {
                !ordered
            } else {
                ordered & !SIGN
            })
        }

        impl Encode for $float {
            fn encode_into(&self, code: &mut Vec<u8>) {
                $to_ordered(*self).encode_into(code);
            }
        }

        impl Decode for $float {
            fn decode_from(reader: &mut CodecReader<'_>) -> Result<Self, CodecError> {
                <$bits>::decode_from(reader).map($from_ordered)
            }
        }
    };
}

float!(f32, u32, ordered_from_f32, f32_from_ordered);
float!(f64, u64, ordered_from_f64, f64_from_ordered);
