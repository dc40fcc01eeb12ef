//! Words keep the order of the values, and each value has one word.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_core::codec::{Encode, WordCodec};
use proptest::prelude::*;
use std::fmt::Debug;

/// Checks words against the codes of `Encode`, whose own tests show that they keep the order.
fn check_pair<T: WordCodec + Encode + Debug>(a: T, b: T) {
    assert_eq!(
        a.to_word().cmp(&b.to_word()),
        a.encode().cmp(&b.encode()),
        "order of {a:?} and {b:?}"
    );
    let back = T::from_word(a.to_word()).unwrap();
    assert_eq!(back.encode(), a.encode(), "{a:?} came back as {back:?}");
}

/// Checks that an accepted word is the word of the value that it decodes to.
fn check_word<T: WordCodec>(word: u64) {
    if let Ok(value) = T::from_word(word) {
        assert_eq!(value.to_word(), word);
    }
}

macro_rules! laws {
    ($($name:ident: $type:ty = $strategy:expr;)*) => {$(
        #[test]
        fn $name() {
            proptest!(|(a in $strategy, b in $strategy, word in any::<u64>())| {
                check_pair::<$type>(a, b);
                check_word::<$type>(word);
                check_word::<$type>(word & 0xffff);
                check_word::<$type>(i64::MIN.cast_unsigned() ^ (word & 0xffff));
            });
        }
    )*};
}

laws! {
    u8_words: u8 = any::<u8>();
    u16_words: u16 = any::<u16>();
    u32_words: u32 = any::<u32>();
    u64_words: u64 = any::<u64>();
    i8_words: i8 = any::<i8>();
    i16_words: i16 = any::<i16>();
    i32_words: i32 = any::<i32>();
    i64_words: i64 = any::<i64>();
    f32_words: f32 = any::<u32>().prop_map(f32::from_bits);
    f64_words: f64 = any::<u64>().prop_map(f64::from_bits);
}

#[test]
fn signed_types_share_their_words() {
    for value in i8::MIN..=i8::MAX {
        assert_eq!(value.to_word(), i16::from(value).to_word());
        assert_eq!(value.to_word(), i64::from(value).to_word());
    }
}

#[test]
fn words_out_of_range_are_refused() {
    assert_eq!(u8::from_word(255), Ok(255));
    assert!(u8::from_word(256).is_err());
    assert!(i8::from_word(0).is_err());
    assert!(i8::from_word(128_i64.to_word()).is_err());
    assert!(f32::from_word(1 << 32).is_err());
    assert_eq!(
        u16::from_word(1 << 16).unwrap_err().to_string(),
        "word 0x0000000000010000 is not a value of u16"
    );
}

#[test]
fn zeros_are_neighbours_and_nans_are_the_ends() {
    assert_eq!((-0.0_f64).to_word() + 1, 0.0_f64.to_word());
    assert!(f64::NAN.to_word() > f64::INFINITY.to_word());
    assert!((-f64::NAN).to_word() < f64::NEG_INFINITY.to_word());
    assert_eq!((-0.0_f64 + 0.0).to_word(), 0.0_f64.to_word());
}
