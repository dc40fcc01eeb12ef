//! Sums of numbers in the precision of C's `long double`, 64 bits of mantissa, in which Redis
//! computes `INCRBYFLOAT` and `HINCRBYFLOAT`: there 1 less 1.1 is -0.1, with 53 bits it is
//! -0.10000000000000009.
//!
//! A number is read, added and printed with one correct rounding each, as the processor and the C
//! library do it.

use std::cmp::Ordering;

/// A number: `mantissa * 2^exponent`. The highest bit of the mantissa is set, or the number is
/// zero. One of the greatest exponent is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// Numbers longer than this are none, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Powers of ten beyond this are infinite, or zero.
const POWER_MAX: i64 = 6_000;
/// Numbers of more bits count as infinite, as a `long double` cannot hold them.
const BITS_MAX: i32 = 16_384;
/// The least number has its one bit here, counted as in [`BITS_MAX`].
const BITS_MIN: i32 = -16_445;
/// Digits behind the point when a number is printed.
const FRACTION_DIGITS: usize = 17;

impl LongDouble {
    const INFINITE: i32 = i32::MAX;

    const ZERO: LongDouble = LongDouble {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// Reads a decimal number such as `-12.5e3`, or `inf`. Numbers far beyond what a `long
    /// double` can hold, or too near to zero for one, are none, as for Redis.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        let infinite = LongDouble {
            negative,
            mantissa: 1 << 63,
            exponent: Self::INFINITE,
        };
        if [&b"inf"[..], b"infinity"]
            .iter()
            .any(|name| rest.eq_ignore_ascii_case(name))
        {
            return Some(infinite);
        }
        let (digits, power) = parse_decimal(rest)?;
        let mut number = Natural::default();
        for digit in digits {
            number.multiply_add(10, u32::from(digit));
        }
        if number.is_zero() {
            return Some(LongDouble {
                negative,
                ..Self::ZERO
            });
        }
        if !(-POWER_MAX..=POWER_MAX).contains(&power) {
            return None;
        }
        let mut exponent = 0;
        let mut inexact = false;
        if power >= 0 {
            (0..power).for_each(|_| number.multiply_add(10, 0));
        } else {
            // So many bits that what is left has more than a mantissa: ten is less than 2^4.
            let shift = 4 * power.unsigned_abs() as usize + 72;
            number.shift_left(shift);
            exponent = -(shift as i32);
            (0..-power).for_each(|_| inexact |= number.divide(10) != 0);
        }
        let bits = number.bits();
        let excess = bits.saturating_sub(128);
        inexact |= number.shift_right(excess);
        let wide = number.low_u128();
        let number = Self::round(negative, wide, exponent + excess as i32, inexact);
        // Less than half of the least number is zero, which it is not.
        number.filter(|number| number.exponent + 64 >= BITS_MIN)
    }

    /// The number nearest to `wide * 2^exponent`, of two that are as near the even one; `inexact`
    /// says that a little is to be added to `wide`, which has more than 65 bits then. `None` if it
    /// is too large.
    fn round(negative: bool, wide: u128, exponent: i32, inexact: bool) -> Option<LongDouble> {
        if wide == 0 {
            return Some(LongDouble {
                negative,
                ..Self::ZERO
            });
        }
        let zeros = wide.leading_zeros();
        let wide = wide << zeros;
        let mut exponent = exponent + 64 - zeros as i32;
        let (mut mantissa, rest) = ((wide >> 64) as u64, wide as u64);
        let up = match rest.cmp(&(1 << 63)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => inexact || mantissa & 1 == 1,
        };
        if up {
            mantissa = match mantissa.checked_add(1) {
                Some(mantissa) => mantissa,
                None => {
                    exponent += 1;
                    1 << 63
                }
            };
        }
        (exponent + 64 <= BITS_MAX).then_some(LongDouble {
            negative,
            mantissa,
            exponent,
        })
    }

    /// True for `inf`, and what is as large.
    pub fn is_infinite(self) -> bool {
        self.exponent == Self::INFINITE
    }

    /// The sum, or `None` if it is infinite, or no number.
    pub fn plus(self, other: LongDouble) -> Option<LongDouble> {
        if self.is_infinite() || other.is_infinite() {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            let sum = if self.mantissa == 0 { other } else { self };
            let negative = match sum.mantissa {
                0 => self.negative && other.negative,
                _ => sum.negative,
            };
            return Some(LongDouble { negative, ..sum });
        }
        let is_less = (self.exponent, self.mantissa) < (other.exponent, other.mantissa);
        let (large, small) = if is_less {
            (other, self)
        } else {
            (self, other)
        };
        // One bit is left above for the carry, and 63 below, of which the last stands for all
        // that lie further below.
        let difference = (large.exponent - small.exponent) as u32;
        let one = u128::from(large.mantissa) << 63;
        let aligned = u128::from(small.mantissa) << 63;
        let mut two = aligned.checked_shr(difference).unwrap_or(0);
        if difference > 63 && two.checked_shl(difference).unwrap_or(0) != aligned {
            two |= 1;
        }
        let wide = if large.negative == small.negative {
            one + two
        } else {
            one - two
        };
        let negative = large.negative && wide != 0;
        Self::round(negative, wide, large.exponent - 63, false)
    }

    /// A finite number with up to 17 digits behind the point, without zeros at the end and without
    /// an exponent.
    pub fn format(self) -> String {
        let mut digits = if self.exponent >= 0 {
            let mut number = Natural::from(self.mantissa);
            number.shift_left(self.exponent as usize);
            let mut digits = number.into_decimal();
            digits.push_str(&"0".repeat(FRACTION_DIGITS));
            digits
        } else {
            const SCALE: u128 = 10_u128.pow(FRACTION_DIGITS as u32);
            let scaled = u128::from(self.mantissa) * SCALE;
            let shift = self.exponent.unsigned_abs();
            let whole = scaled.checked_shr(shift).unwrap_or(0);
            let rest = scaled - whole.checked_shl(shift).unwrap_or(0);
            let up = match 1_u128.checked_shl(shift - 1) {
                Some(half) => rest > half || (rest == half && whole & 1 == 1),
                None => false,
            };
            (whole + u128::from(up)).to_string()
        };
        if digits.len() <= FRACTION_DIGITS {
            digits.insert_str(0, &"0".repeat(FRACTION_DIGITS + 1 - digits.len()));
        }
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        let is_zero = whole == "0" && fraction.is_empty();
        let sign = if self.negative && !is_zero { "-" } else { "" };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// The digits of a decimal number without a sign, and the power of ten of the last one.
fn parse_decimal(text: &[u8]) -> Option<(Vec<u8>, i64)> {
    let end = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, power) = match end {
        Some(end) => {
            let (mantissa, power) = text.split_at(end);
            let power = std::str::from_utf8(power.get(1..)?).ok()?;
            let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let limit = if power.starts_with('-') {
                -i64::from(i32::MAX)
            } else {
                i64::from(i32::MAX)
            };
            (
                mantissa,
                power
                    .parse()
                    .unwrap_or(limit)
                    .clamp(-i64::from(i32::MAX), i64::from(i32::MAX)),
            )
        }
        None => (text, 0),
    };
    let mut digits = Vec::new();
    let mut fraction = None;
    for &byte in mantissa {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte - b'0');
                fraction = fraction.map(|count| count + 1);
            }
            b'.' if fraction.is_none() => fraction = Some(0),
            _ => return None,
        }
    }
    if digits.is_empty() {
        return None;
    }
    Some((digits, power - fraction.unwrap_or(0)))
}

/// A natural number of any size, in words of 32 bits, the lowest first and the highest not zero.
#[derive(Debug, Default)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(value: u64) -> Natural {
        let mut number = Natural(vec![value as u32, (value >> 32) as u32]);
        number.trim();
        number
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        let high = self.0.last().map_or(0, |word| word.leading_zeros());
        self.0.len() * 32 - high as usize
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for word in &mut self.0 {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides, and answers what is left over.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0_u64;
        for word in self.0.iter_mut().rev() {
            let dividend = (rest << 32) | u64::from(*word);
            *word = (dividend / u64::from(divisor)) as u32;
            rest = dividend % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        self.multiply_add(1 << (bits % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
    }

    /// Shifts, and says whether bits that were set are lost.
    fn shift_right(&mut self, bits: usize) -> bool {
        let words = (bits / 32).min(self.0.len());
        let mut lost = self.0.drain(..words).any(|word| word != 0);
        lost |= self.divide(1 << (bits % 32)) != 0;
        lost
    }

    /// The lowest 128 bits.
    fn low_u128(&self) -> u128 {
        let words = self.0.iter().take(4).enumerate();
        words.fold(0, |sum, (place, &word)| {
            sum | (u128::from(word) << (32 * place))
        })
    }

    fn into_decimal(mut self) -> String {
        let mut groups = Vec::new();
        while !self.is_zero() {
            groups.push(self.divide(1_000_000_000));
        }
        let Some(first) = groups.pop() else {
            return "0".into();
        };
        let rest = groups.iter().rev().map(|group| format!("{group:09}"));
        first.to_string() + &rest.collect::<String>()
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
