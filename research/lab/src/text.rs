//! Numbers and names in a readable notation.

/// Formats a count of bytes in the largest binary unit that keeps it at or above one, for example
/// `1.5 GiB`.
#[must_use]
pub fn display_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let power = bytes.ilog2() / 10;
    debug_assert!((1..=UNITS.len()).contains(&(power as usize)));
    let scaled = bytes as f64 / 2f64.powi(10 * power as i32);
    format!("{scaled:.1} {}", UNITS[power as usize - 1])
}

/// Formats a rate with three significant digits.
pub(crate) fn rate(mops: f64) -> String {
    let decimals = match mops {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    format!("{mops:.decimals$}")
}

/// Formats a ratio with its sign, as in `9.1x`.
pub(crate) fn ratio(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0}x"),
        1.0.. => format!("{ratio:.1}x"),
        _ => format!("{ratio:.2}x"),
    }
}

/// Formats nanoseconds in the unit that suits them.
pub(crate) fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000 => format!("{nanoseconds} ns"),
        10_000..10_000_000 => format!("{} µs", nanoseconds / 1000),
        _ => format!("{} ms", nanoseconds / 1_000_000),
    }
}

/// Formats a count with commas between thousands.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        text.push(digit);
        if place > 0 && place % 3 == 0 {
            text.push(',');
        }
    }
    text
}

/// Shortens input for an error message to at most 60 characters.
pub(crate) fn shortened(input: &str) -> String {
    const SHOWN: usize = 60;
    match input.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &input[..end]),
        None => input.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(display_bytes(1023), "1023 bytes");
        assert_eq!(display_bytes(1024), "1.0 KiB");
        assert_eq!(display_bytes(3 << 29), "1.5 GiB");
        assert_eq!(display_bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.0123].map(rate),
            ["123", "12.3", "1.23", "0.012"]
        );
        assert_eq!([12.3, 1.26, 0.5].map(ratio), ["12x", "1.3x", "0.50x"]);
        assert_eq!(
            [1, 1000, 1_234_567].map(grouped),
            ["1", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn long_input_is_shortened_at_a_character() {
        assert_eq!(shortened("zipf"), "zipf");
        let long = "ü".repeat(100);
        assert_eq!(shortened(&long), format!("{}…", "ü".repeat(60)));
    }
}
