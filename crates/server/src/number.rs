//! Numbers in the form of the protocol.

/// Reads a signed integer of 64 bits, as strictly as Redis: no spaces, no plus sign, no leading
/// zeros, no `-0`.
#[inline]
pub fn parse_integer(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value = 0_u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits always fit into 64 bits without a sign.
        value = value * 10 + u64::from(digit);
    }
    if negative {
        (value <= i64::MAX as u64 + 1).then(|| (value as i64).wrapping_neg())
    } else {
        i64::try_from(value).ok()
    }
}

/// Reads a number with a fraction: decimal, or `inf` with a sign. NaN is invalid.
pub fn parse_double(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value = match text.parse::<f64>() {
        Ok(value) => value,
        Err(_) => return parse_hexadecimal(text),
    };
    // A number that is too large must not become infinite.
    let infinite_by_name = || text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    if value.is_nan() || (value.is_infinite() && !infinite_by_name()) {
        return None;
    }
    Some(value)
}

/// Reads an integer in base 16 as C's `strtod` does, because some clients' tests send them.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0X"))?;
    if digits.starts_with('+') {
        return None;
    }
    Some(sign * u64::from_str_radix(digits, 16).ok()? as f64)
}

/// Appends the head of a value of the protocol: its kind, a number, and the end of the line. Nearly
/// all such numbers have one to three digits.
#[inline]
pub fn write_head(out: &mut Vec<u8>, kind: u8, number: i64) {
    match number {
        0..=9 => out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
        10..=99 => {
            let (tens, ones) = (number as u8 / 10, number as u8 % 10);
            out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        100..=999 => {
            let digit = |place: i64| b'0' + (number / place % 10) as u8;
            out.extend_from_slice(&[kind, digit(100), digit(10), digit(1), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            write_integer(out, number);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends an integer.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Formats a number with a fraction in the fewest digits that read back as the same number, in the
/// form of Redis 7.2: integers below 2^52 without a point, very large and very small numbers with
/// an exponent.
pub fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    if value == value.trunc() && value.abs() < (1_u64 << 52) as f64 {
        return itoa::Buffer::new().format(value as i64).to_owned();
    }
    let mut buffer = zmij::Buffer::new();
    shape(buffer.format_finite(value))
}

/// Converts the shortest digits to that form.
fn shape(shortest: &str) -> String {
    let (sign, rest) = match shortest.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", shortest),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let digits = significant.trim_end_matches('0');
    debug_assert!(!digits.is_empty(), "zero has a form of its own");
    let count = digits.len() as i32;
    // The value is DIGITS times ten to the power of `scale`.
    let scale = exponent - fraction.len() as i32 + (significant.len() - digits.len()) as i32;
    let magnitude = (scale + count - 1).abs();
    // The bounds of the forms are those of `fpconv`, by which Redis writes numbers.
    let body = if scale >= 0 && magnitude < count + 7 {
        format!("{digits}{}", "0".repeat(scale as usize))
    } else if scale < 0 && (scale > -7 || magnitude < 4) {
        let point = count + scale;
        if point <= 0 {
            format!("0.{}{digits}", "0".repeat(-point as usize))
        } else {
            let (before, after) = digits.split_at(point as usize);
            format!("{before}.{after}")
        }
    } else {
        let (first, others) = digits.split_at(1);
        let dot = if others.is_empty() { "" } else { "." };
        let sign = if scale + count - 1 < 0 { '-' } else { '+' };
        format!("{first}{dot}{others}e{sign}{magnitude}")
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551616", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_read() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+inf", Some(f64::INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("1e3", Some(1000.0)),
            ("0x10", Some(16.0)),
            ("nan", None),
            ("1e999", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_double(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_short() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (3.1, "3.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000"),
            (1e17, "1e+17"),
            (123456789012345680000.0, "123456789012345680000"),
            (1.5e300, "1.5e+300"),
            (0.00001, "0.00001"),
            (0.000000123, "1.23e-7"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }
}
