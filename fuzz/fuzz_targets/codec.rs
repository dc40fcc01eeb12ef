//! Decoding never panics, and accepts only what encoding writes; codes sort as values do.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_core::codec::{Decode, Encode, WordCodec};
use std::cmp::{Ordering, Reverse};
use std::fmt::Debug;

type Row = (Option<String>, Reverse<Vec<u8>>, i32, bool);
type Nested = Reverse<(Vec<u8>, Reverse<Option<Vec<u8>>>, u16)>;

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let (choice, a, b) = input;
    match choice % 12 {
        0 => check(a, b, u64::cmp),
        1 => check(a, b, i128::cmp),
        2 => check(a, b, f32::total_cmp),
        3 => check(a, b, f64::total_cmp),
        4 => check(a, b, bool::cmp),
        5 => check(a, b, String::cmp),
        6 => check(a, b, Vec::<u8>::cmp),
        7 => check(a, b, Option::<i8>::cmp),
        8 => check(a, b, Row::cmp),
        9 => check(a, b, Nested::cmp),
        10 => check_encoded(&a.to_vec(), &b.to_vec()),
        _ => check_words(a),
    }
});

/// Decodes two codes and compares them and their values, if they are codes.
fn check<T: Decode + Debug>(a: &[u8], b: &[u8], order: fn(&T, &T) -> Ordering) {
    let Ok(value_a) = T::decode(a) else { return };
    assert_eq!(value_a.encode(), a, "a second code of {value_a:?}");
    let Ok(value_b) = T::decode(b) else { return };
    assert_eq!(
        a.cmp(b),
        order(&value_a, &value_b),
        "order of {value_a:?} and {value_b:?}"
    );
    assert!(a == b || !a.starts_with(b), "{b:x?} is a prefix of {a:x?}");
}

/// Encodes two byte strings, which may be far from what decoding accepts.
fn check_encoded(a: &Vec<u8>, b: &Vec<u8>) {
    check(&a.encode(), &b.encode(), Vec::<u8>::cmp);
    let reversed = |value: &Vec<u8>| Reverse(value.clone()).encode();
    check(&reversed(a), &reversed(b), Reverse::<Vec<u8>>::cmp);
    assert_eq!(Vec::<u8>::decode(&a.encode()).as_ref(), Ok(a));
}

fn check_words(bytes: &[u8]) {
    let Ok(word) = u64::decode(bytes) else { return };
    check_word::<u8>(word);
    check_word::<i16>(word);
    check_word::<i64>(word);
    check_word::<f32>(word);
    check_word::<f64>(word);
}

fn check_word<T: WordCodec>(word: u64) {
    if let Ok(value) = T::from_word(word) {
        assert_eq!(value.to_word(), word);
    }
}
