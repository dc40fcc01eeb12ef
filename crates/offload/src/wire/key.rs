//! Secrets that authenticate datagrams.

use std::fmt;

/// Length of a tag.
pub(super) const TAG_BYTES: usize = 16;
/// Number of bytes from which parts are copied into one buffer: four chunks of BLAKE3. Wide
/// instructions hash four or eight chunks of a buffer at once. A hasher that gets a short part
/// first hashes the chunks behind it in groups of one, one, two, four and so on.
const JOINED_MIN: usize = 4 << 10;

/// A secret that authenticates the messages of a tenant, or the memory nodes of a rack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthenticationKey(pub [u8; 32]);

impl fmt::Debug for AuthenticationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// The reason why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits, as `openssl rand -hex 32` prints them")]
pub struct KeyError;

impl std::str::FromStr for AuthenticationKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<AuthenticationKey, KeyError> {
        let mut key = [0; 32];
        // `from_str_radix` alone would accept a sign.
        let is_hexadecimal = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if text.len() != 2 * key.len() || !is_hexadecimal {
            return Err(KeyError);
        }
        for (byte, index) in key.iter_mut().zip((0..).step_by(2)) {
            let digits = text.get(index..index + 2).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).map_err(|_| KeyError)?;
        }
        Ok(AuthenticationKey(key))
    }
}

impl AuthenticationKey {
    /// Returns the start of the keyed hash of parts, one after the other.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let hash = if bytes < JOINED_MIN {
            let mut hasher = blake3::Hasher::new_keyed(&self.0);
            for part in parts {
                hasher.update(part);
            }
            hasher.finalize()
        } else {
            blake3::keyed_hash(&self.0, &parts.concat())
        };
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
        tag
    }
}

/// Compares all bytes of tags, so that the time reveals nothing.
pub(super) fn are_equal(tag: &[u8], expected: [u8; TAG_BYTES]) -> bool {
    let bits = tag
        .iter()
        .zip(expected)
        .fold(0, |bits, (a, b)| bits | (a ^ b));
    tag.len() == TAG_BYTES && bits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_hash_of_their_bytes() {
        let key = AuthenticationKey([7; 32]);
        for length in [
            0,
            1,
            500,
            JOINED_MIN - 89,
            JOINED_MIN - 88,
            JOINED_MIN,
            70_000,
        ] {
            let bytes: Vec<u8> = (0..length + 88).map(|at| (at % 251) as u8).collect();
            let (head, rest) = bytes.split_at(88);
            let expected = blake3::keyed_hash(&key.0, &bytes);
            let expected = &expected.as_bytes()[..TAG_BYTES];
            assert_eq!(key.hash(&[head, rest]), expected, "{length}");
            assert_eq!(key.hash(&[&bytes[..]]), expected, "{length}");
        }
    }

    #[test]
    fn keys_are_read_from_hexadecimal_digits() {
        let text: String = (0..32).map(|byte: u8| format!("{byte:02x}")).collect();
        let key: AuthenticationKey = text.parse().expect("64 digits");
        assert_eq!(key.0, std::array::from_fn(|byte| byte as u8));
        for wrong in ["", &text[1..], &text.replace('f', "g"), &"é".repeat(32)] {
            assert_eq!(wrong.parse::<AuthenticationKey>(), Err(KeyError));
        }
        assert_eq!(format!("{key:?}"), "Key(..)");
    }
}
