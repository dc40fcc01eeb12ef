//! The three rules of every code: order, prefix-freeness, one code a value.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_core::codec::{CodecError, Decode, DecodeReason, Encode};
use proptest::prelude::*;
use std::cmp::{Ordering, Reverse};
use std::fmt::Debug;

/// A value with a total order and equality to the bit, which floats lack.
trait TotalOrder: Decode + Debug {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered_by_ord {
    ($($type:ty),* $(,)?) => {$(
        impl TotalOrder for $type {
            fn order(&self, other: &Self) -> Ordering {
                self.cmp(other)
            }
        }
    )*};
}

ordered_by_ord!(
    u8,
    u16,
    u32,
    u64,
    u128,
    i8,
    i16,
    i32,
    i64,
    i128,
    bool,
    String,
    Vec<u8>,
    Option<i16>,
    Option<Vec<u8>>,
    Option<Option<Vec<u8>>>,
    Reverse<Vec<u8>>,
    Reverse<Option<String>>,
    Reverse<(Vec<u8>, Reverse<Vec<u8>>)>,
    (String,),
    (Vec<u8>, Vec<u8>),
    (Vec<u8>, Reverse<Vec<u8>>, i8),
    (Option<String>, bool, u8, Reverse<i32>),
    (u8, Vec<u8>, u8, Option<u8>, Vec<u8>),
    (u8, u8, u8, bool, bool, i8),
    (Vec<u8>, u8, Vec<u8>, u8, Vec<u8>, u8, Vec<u8>),
    (Vec<u8>, (u8, Vec<u8>), bool, i8, i16, u8, u16, Vec<u8>),
);

impl TotalOrder for f32 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

impl TotalOrder for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

impl TotalOrder for (f64, Reverse<f64>) {
    fn order(&self, other: &Self) -> Ordering {
        let first = self.0.total_cmp(&other.0);
        first.then(other.1.0.total_cmp(&self.1.0))
    }
}

fn check_pair<T: TotalOrder>(a: &T, b: &T) {
    let (code_a, code_b) = (a.encode(), b.encode());
    assert_eq!(code_a.cmp(&code_b), a.order(b), "order of {a:?} and {b:?}");
    assert_eq!(
        code_a.starts_with(&code_b),
        a.order(b).is_eq(),
        "the code of {b:?} is a prefix of the code of {a:?}"
    );
    let back = T::decode(&code_a).unwrap();
    assert!(back.order(a).is_eq(), "{a:?} came back as {back:?}");
}

/// Checks that bytes that decode are what encoding produces, and that a cut or lengthened code is
/// refused where it ends.
fn check_bytes<T: TotalOrder>(bytes: &[u8]) {
    let Ok(value) = T::decode(bytes) else { return };
    assert_eq!(value.encode(), bytes, "a second code of {value:?}");
    for end in 0..bytes.len() {
        let error = T::decode(&bytes[..end]).unwrap_err();
        assert_eq!(error.position, end);
        assert!(matches!(error.reason, DecodeReason::Truncated { missing } if missing > 0));
    }
    let mut longer = bytes.to_vec();
    longer.extend([0, 0xff]);
    assert_eq!(
        T::decode(&longer).unwrap_err(),
        CodecError {
            position: bytes.len(),
            reason: DecodeReason::TrailingBytes { count: 2 },
        }
    );
}

/// Returns byte strings over few letters, so that prefixes, zeros and escapes are frequent.
fn byte_string() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => prop::sample::select(vec![0_u8, 1, 0xfe, 0xff]),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..6)
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof!["[\0\u{1}a]{0,4}", any::<String>()]
}

fn float_bits() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        prop::sample::select(vec![
            0.0_f64.to_bits(),
            (-0.0_f64).to_bits(),
            f64::INFINITY.to_bits(),
            f64::NEG_INFINITY.to_bits(),
            f64::NAN.to_bits(),
            (-f64::NAN).to_bits(),
            f64::NAN.to_bits() | 1,
            f64::MIN_POSITIVE.to_bits(),
            1,
        ]),
    ]
}

fn double() -> impl Strategy<Value = f64> {
    float_bits().prop_map(f64::from_bits)
}

fn single() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits),
        double().prop_map(|value| value as f32)
    ]
}

macro_rules! laws {
    ($($name:ident: $type:ty = $strategy:expr;)*) => {$(
        #[test]
        fn $name() {
            let strategy = || $strategy;
            proptest!(|(a in strategy(), b in strategy())| {
                check_pair::<$type>(&a, &b);
                check_pair::<$type>(&a, &a);
                check_bytes::<$type>(&a.encode());
            });
            proptest!(|(bytes in byte_string())| check_bytes::<$type>(&bytes));
            proptest!(|(bytes in any::<Vec<u8>>())| check_bytes::<$type>(&bytes));
        }
    )*};
}

laws! {
    u8_laws: u8 = any::<u8>();
    u16_laws: u16 = any::<u16>();
    u32_laws: u32 = any::<u32>();
    u64_laws: u64 = any::<u64>();
    u128_laws: u128 = any::<u128>();
    i8_laws: i8 = any::<i8>();
    i16_laws: i16 = any::<i16>();
    i32_laws: i32 = any::<i32>();
    i64_laws: i64 = any::<i64>();
    i128_laws: i128 = any::<i128>();
    f32_laws: f32 = single();
    f64_laws: f64 = double();
    bool_laws: bool = any::<bool>();
    string_laws: String = string();
    byte_string_laws: Vec<u8> = byte_string();
    option_laws: Option<i16> = any::<Option<i16>>();
    nested_option_laws: Option<Option<Vec<u8>>> =
        prop::option::of(prop::option::of(byte_string()));
    reverse_laws: Reverse<Vec<u8>> = byte_string().prop_map(Reverse);
    reverse_option_laws: Reverse<Option<String>> = prop::option::of(string()).prop_map(Reverse);
    nested_reverse_laws: Reverse<(Vec<u8>, Reverse<Vec<u8>>)> =
        (byte_string(), byte_string()).prop_map(|(a, b)| Reverse((a, Reverse(b))));
    float_pair_laws: (f64, Reverse<f64>) = (double(), double().prop_map(Reverse));
    tuple_1_laws: (String,) = (string(),);
    tuple_2_laws: (Vec<u8>, Vec<u8>) = (byte_string(), byte_string());
    tuple_3_laws: (Vec<u8>, Reverse<Vec<u8>>, i8) =
        (byte_string(), byte_string().prop_map(Reverse), any::<i8>());
    tuple_4_laws: (Option<String>, bool, u8, Reverse<i32>) = (
        prop::option::of(string()),
        any::<bool>(),
        0_u8..2,
        any::<i32>().prop_map(Reverse),
    );
    tuple_5_laws: (u8, Vec<u8>, u8, Option<u8>, Vec<u8>) =
        (0_u8..2, byte_string(), 0_u8..2, any::<Option<u8>>(), byte_string());
    tuple_6_laws: (u8, u8, u8, bool, bool, i8) =
        (0_u8..2, 0_u8..2, 0_u8..2, any::<bool>(), any::<bool>(), any::<i8>());
    tuple_7_laws: (Vec<u8>, u8, Vec<u8>, u8, Vec<u8>, u8, Vec<u8>) = (
        byte_string(),
        0_u8..2,
        byte_string(),
        0_u8..2,
        byte_string(),
        0_u8..2,
        byte_string(),
    );
    tuple_8_laws: (Vec<u8>, (u8, Vec<u8>), bool, i8, i16, u8, u16, Vec<u8>) = (
        byte_string(),
        (0_u8..2, byte_string()),
        any::<bool>(),
        any::<i8>(),
        any::<i16>(),
        any::<u8>(),
        any::<u16>(),
        byte_string(),
    );
}

/// All pairs of byte strings of up to 4 bytes are tried, over the letters that form the escapes.
#[test]
fn short_byte_strings_exhaustively() {
    let mut strings = vec![Vec::new()];
    for length in 0..4 {
        for start in 0..strings.len() {
            for byte in [0, 1, 0xff] {
                if strings[start].len() == length {
                    let mut longer: Vec<u8> = strings[start].clone();
                    longer.push(byte);
                    strings.push(longer);
                }
            }
        }
    }
    assert_eq!(strings.len(), 1 + 3 + 9 + 27 + 81);
    for a in &strings {
        for b in &strings {
            check_pair(a, b);
            check_pair(&Reverse(a.clone()), &Reverse(b.clone()));
            check_pair(&(a.clone(), b.clone()), &(b.clone(), a.clone()));
        }
        check_bytes::<Vec<u8>>(a);
        check_bytes::<Reverse<Vec<u8>>>(a);
        check_bytes::<Option<Vec<u8>>>(a);
    }
}

/// The codes are stored, so they must not change from one release to the next.
#[test]
fn codes_are_fixed() {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = hex.split(' ').filter(|digits| !digits.is_empty());
        digits
            .map(|digits| u8::from_str_radix(digits, 16).unwrap())
            .collect()
    };
    assert_eq!(0x0102_u16.encode(), bytes("01 02"));
    assert_eq!((-1_i32).encode(), bytes("7f ff ff ff"));
    assert_eq!(0_i32.encode(), bytes("80 00 00 00"));
    assert_eq!(1.0_f32.encode(), bytes("bf 80 00 00"));
    assert_eq!((-1.0_f32).encode(), bytes("40 7f ff ff"));
    assert_eq!((-0.0_f64).encode(), bytes("7f ff ff ff ff ff ff ff"));
    assert_eq!(0.0_f64.encode(), bytes("80 00 00 00 00 00 00 00"));
    assert_eq!("".encode(), bytes("00 00"));
    assert_eq!("a\0b".encode(), bytes("61 00 ff 62 00 00"));
    assert_eq!(Reverse("a").encode(), bytes("9e ff ff"));
    assert_eq!(None::<u8>.encode(), bytes("00"));
    assert_eq!((Some(5_u8), true).encode(), bytes("01 05 01"));
}

#[test]
fn errors_name_position_and_reason() {
    fn error<T: Decode + Debug>(code: &[u8]) -> (usize, DecodeReason) {
        let error = T::decode(code).unwrap_err();
        (error.position, error.reason)
    }
    use DecodeReason::*;
    assert_eq!(error::<u32>(&[1]), (1, Truncated { missing: 3 }));
    assert_eq!(error::<String>(b"ab\0"), (3, Truncated { missing: 1 }));
    assert_eq!(error::<String>(b"a\0b"), (2, InvalidEscape { byte: b'b' }));
    assert_eq!(error::<bool>(&[2]), (0, InvalidTag { byte: 2 }));
    assert_eq!(error::<Reverse<bool>>(&[2]), (0, InvalidTag { byte: 0xfd }));
    assert_eq!(
        error::<(u8, String)>(b"\x01ab\xff\0\0"),
        (1, InvalidUtf8 { valid_bytes: 2 })
    );
    assert_eq!(error::<u8>(&[1, 2]), (1, TrailingBytes { count: 1 }));
    assert_eq!(
        u32::decode(&[1]).unwrap_err().to_string(),
        "not a code at byte 1: 3 more bytes expected"
    );
}
