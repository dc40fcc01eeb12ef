//! The printing of numbers as in C.

/// Formats a number like `printf("%.*g")`.
pub fn format_general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let precision = precision.max(1);
    let text = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    debug_assert!(exponent.abs() <= 324, "no number of 64 bits is beyond");
    // The rule of C for the form with an exponent.
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mantissa = without_zeros(mantissa);
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::format_general;

    #[test]
    fn numbers_are_printed_as_in_c() {
        let cases = [
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e300, 14, "1e+300"),
            (1e15, 14, "1e+15"),
            (123456.0, 14, "123456"),
            (1.5e-7, 14, "1.5e-07"),
            (0.0001, 14, "0.0001"),
            (0.0, 14, "0"),
            (-2.5, 14, "-2.5"),
            (100.0, 3, "100"),
            (1000.0, 3, "1e+03"),
        ];
        for (value, precision, text) in cases {
            assert_eq!(format_general(value, precision), text);
        }
    }
}
