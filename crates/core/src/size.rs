//! Sizes as users write them.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

/// The error of a text that is not a size. It names the spellings of both kinds of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSizeError;

impl Display for ByteSizeError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "write a number of bytes, or one with kb, mb, gb or tb (powers of 1024) or with k, m, \
             g or t (powers of 1000)",
        )
    }
}

impl Error for ByteSizeError {}

/// Parses a number of bytes with an optional unit. Units have the meaning that they have in a
/// `redis.conf`, in any case: `4gb` is 4 GiB, and `4g` is 4,000,000,000 bytes. `4GiB` is `4gb`.
///
/// ```
/// use nearfield_core::byte_size;
///
/// assert_eq!(byte_size("4gb"), Ok(4 << 30));
/// assert_eq!(byte_size("4G"), Ok(4_000_000_000));
/// assert!(byte_size("4x").is_err());
/// ```
///
/// # Errors
/// The text is not a number with a known unit, or the number of bytes exceeds 64 bits.
pub fn byte_size(text: &str) -> Result<u64, ByteSizeError> {
    // Digits are counted here, because `parse` would also accept a plus sign.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1000 * 1000,
        "mb" | "mib" => 1 << 20,
        "g" => 1000 * 1000 * 1000,
        "gb" | "gib" => 1 << 30,
        "t" => 1000 * 1000 * 1000 * 1000,
        "tb" | "tib" => 1 << 40,
        _ => return Err(ByteSizeError),
    };
    let number: u64 = number.parse().map_err(|_| ByteSizeError)?;
    number.checked_mul(factor).ok_or(ByteSizeError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_redis() {
        for (text, bytes) in [
            ("0", 0),
            ("100b", 100),
            ("1k", 1000),
            ("1kb", 1024),
            ("5m", 5_000_000),
            ("5MB", 5 << 20),
            ("4G", 4_000_000_000),
            ("4Gb", 4 << 30),
            ("4GiB", 4 << 30),
            ("2t", 2_000_000_000_000),
            ("2tb", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(byte_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in [
            "",
            "gb",
            "-1gb",
            "+1",
            "1.5gb",
            "4x",
            "4 gb",
            "4gbb",
            "4bb",
            "4gi",
            "4é",
            "18446744073709551616",
            "17179869184gb",
            "99999999999tb",
        ] {
            assert_eq!(byte_size(text), Err(ByteSizeError), "{text}");
        }
        let message = ByteSizeError.to_string();
        assert!(message.contains("gb") && message.contains("g or t (powers of 1000)"));
    }
}
