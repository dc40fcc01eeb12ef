//! Counts in a short notation, such as 10M.

use crate::error::LabError;
use crate::text::shortened;

/// Reads a count such as `4096`, `300k`, `2M`, `1.5M` or `1G`; k, M and G are powers of 1000.
///
/// # Errors
/// `OutOfRange` naming `what` for anything that is not a whole number from 0 to 2^64 - 1.
pub fn parse_quantity(subject: &'static str, text: &str) -> Result<u64, LabError> {
    let refused = || LabError::OutOfRange {
        subject,
        given: shortened(text),
        allowed: "a whole number, with k, M or G for thousands, millions or billions".to_owned(),
    };
    let (digits, unit) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1_000),
        Some((end, 'm' | 'M')) => (&text[..end], 1_000_000),
        Some((end, 'g' | 'G')) => (&text[..end], 1_000_000_000),
        _ => (text, 1_u64),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits.ends_with('.') {
        return Err(refused());
    }
    let mut value = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| whole.checked_mul(unit));
    let mut scale = unit;
    for digit in fraction.bytes() {
        // A digit behind the point needs a factor of ten of the unit: `1.5M` is whole, `1.5` not.
        if scale % 10 != 0 {
            return Err(refused());
        }
        scale /= 10;
        debug_assert!(digit.is_ascii_digit());
        let part = u64::from(digit - b'0') * scale;
        value = value.and_then(|value| value.checked_add(part));
    }
    value.ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("300k", 300_000),
            ("300K", 300_000),
            ("2M", 2_000_000),
            ("1.5M", 1_500_000),
            ("0.25k", 250),
            ("1G", 1_000_000_000),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, value) in good {
            assert_eq!(parse_quantity("count", text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn a_bad_quantity_is_refused_with_its_purpose() {
        let bad = [
            "",
            "k",
            "-1",
            "+1",
            "1e6",
            "1.2345k",
            "1.",
            ".5M",
            "1 M",
            "1Mi",
            "1.5",
            "99999999G0",
            "20000000000000G",
        ];
        for text in bad {
            let error = parse_quantity("--count", text).unwrap_err().to_string();
            assert!(error.starts_with("--count is"), "{text}: {error}");
        }
    }
}
