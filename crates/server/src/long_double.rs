//! Sums of numbers in the precision of C's `long double`, with 64 bits of mantissa, in which Redis
//! computes `INCRBYFLOAT` and `HINCRBYFLOAT`. In it, 1 less 1.1 is -0.1; with 53 bits it is
//! -0.10000000000000009.
//!
//! A number is read, added and printed with one correct rounding each, as by the processor and the
//! C library.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round, Status};

/// A number in the form of a `long double`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble(X87DoubleExtended);

/// Length from which a text is not accepted as a number, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Number of digits after the point of a printed number.
const FRACTION_DIGITS: usize = 17;
/// Largest number of digits before the point of a finite number.
const WHOLE_DIGITS_MAX: usize = 4933;
/// The mantissa is a whole number, so this is added to the exponent of its highest bit.
const EXPONENT_BIAS: i32 = 16_383 + 63;

impl LongDouble {
    /// Reads a decimal number such as `-12.5e3`, or `inf`. Returns `None` for numbers far beyond
    /// the range of a `long double`, or too near to zero for one, as Redis does.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if ["inf", "infinity"]
            .iter()
            .any(|name| rest.eq_ignore_ascii_case(name))
        {
            let infinity = X87DoubleExtended::INFINITY;
            let is_negative = text.starts_with('-');
            return Some(LongDouble(if is_negative { -infinity } else { infinity }));
        }
        // The library also reads hexadecimal numbers, NaN, and exponents without digits.
        let is_decimal = |byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        if !rest.bytes().all(is_decimal) || rest.ends_with(['e', 'E', '+', '-']) {
            return None;
        }
        let read = X87DoubleExtended::from_str_r(text, Round::NearestTiesToEven).ok()?;
        let is_lost = read.status.contains(Status::UNDERFLOW) && read.value.is_zero();
        let is_held = !read.status.contains(Status::OVERFLOW) && !is_lost;
        is_held.then_some(LongDouble(read.value))
    }

    /// Returns true for `inf`.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    /// Returns the sum, or `None` if it is infinite or not a number.
    pub fn plus(self, other: LongDouble) -> Option<LongDouble> {
        if !self.0.is_finite() || !other.0.is_finite() {
            return None;
        }
        let sum = self.0.add_r(other.0, Round::NearestTiesToEven).value;
        sum.is_finite().then_some(LongDouble(sum))
    }

    /// Formats a finite number with up to 17 digits after the point, without trailing zeros and
    /// without an exponent.
    pub fn format(self) -> String {
        let bits = self.0.to_bits();
        let mantissa = bits as u64;
        let exponent = ((bits >> 64) & 0x7fff) as i32 - EXPONENT_BIAS;
        let mut digits = if exponent >= 0 {
            let whole = self.0.abs();
            // Without the width and the precision the library shortens digits or writes an
            // exponent.
            format!(
                "{whole:WHOLE_DIGITS_MAX$.WHOLE_DIGITS_MAX$}{:0>FRACTION_DIGITS$}",
                0
            )
        } else {
            // 64 bits times 10^17 have 121 bits at most, so the product is exact. Numbers below the
            // normal range have another exponent, but are printed as zero either way.
            const SCALE: u128 = 10_u128.pow(FRACTION_DIGITS as u32);
            let scaled = u128::from(mantissa) * SCALE;
            let shift = exponent.unsigned_abs();
            let whole = scaled.checked_shr(shift).unwrap_or(0);
            let rest = scaled - whole.checked_shl(shift).unwrap_or(0);
            // Half goes to the even digit, as `printf` rounds.
            let up = match 1_u128.checked_shl(shift - 1) {
                Some(half) => rest > half || (rest == half && whole & 1 == 1),
                None => false,
            };
            (whole + u128::from(up)).to_string()
        };
        if digits.len() <= FRACTION_DIGITS {
            digits.insert_str(0, &"0".repeat(FRACTION_DIGITS + 1 - digits.len()));
        }
        debug_assert!(
            digits.len() > FRACTION_DIGITS,
            "one digit is before the point"
        );
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        // A small negative number that was rounded to zero has no sign.
        let is_zero = whole == "0" && fraction.is_empty();
        let sign = if self.0.is_negative() && !is_zero {
            "-"
        } else {
            ""
        };
        format!("{sign}{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, two: &str) -> Option<String> {
        let one = LongDouble::parse(one.as_bytes())?;
        let two = LongDouble::parse(two.as_bytes())?;
        Some(one.plus(two)?.format())
    }

    #[test]
    fn sums_are_those_of_c() {
        for (one, two, expected) in [
            ("1", "-1.1", "-0.1"),
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-0", "-0", "0"),
            ("0", "1e-17", "0.00000000000000001"),
            ("0", "4e-18", "0"),
            ("17179869184", "1.5", "17179869185.5"),
            ("9007199254740993", "0", "9007199254740993"),
            ("1e30", "0", "1000000000000000000024696061952"),
            (".5", "5.", "5.5"),
            ("1e-400", "1", "1"),
            ("1e400", "-1e400", "0"),
        ] {
            assert_eq!(sum(one, two).as_deref(), Some(expected), "{one} + {two}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "e1",
            "1e",
            "1e+",
            "1.2.3",
            " 1",
            "1 ",
            "abc",
            "nan",
            "--1",
            "in",
            // More than a long double holds.
            "1e99999999999999999999",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        for large in ["1.1e4932", "-inf", "Infinity"] {
            assert!(LongDouble::parse(large.as_bytes()).is_some());
            assert_eq!(sum(large, "1.1e4932"), None);
        }
        for none in ["1.2e4932", "1e5000", "1e-4952", "1e-5900"] {
            assert_eq!(LongDouble::parse(none.as_bytes()), None, "{none}");
        }
        assert_eq!(sum("3.7e-4951", "1").as_deref(), Some("1"));
        // The number of digits compensates for the exponent.
        let small = format!("1{}e-6400", "0".repeat(4000));
        assert_eq!(sum(&small, "1").as_deref(), Some("1"));
        let long = [b'1'; 6000];
        assert_eq!(LongDouble::parse(&long), None);
        assert_eq!(LongDouble::parse(b"1e-99999999999999999999"), None);
    }

    #[test]
    fn doubles_come_out_as_they_are() {
        let mut state = 1_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
            let value = (state >> 28) as f64 / 16.0;
            let text = format!("{value}");
            let zero = LongDouble::parse(b"0").unwrap();
            let number = LongDouble::parse(text.as_bytes()).unwrap();
            assert_eq!(number.plus(zero).unwrap().format(), text);
        }
    }
}
