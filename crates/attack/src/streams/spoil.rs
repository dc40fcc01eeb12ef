//! Damage to the words of commands, to their encoding, and to bytes.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Numbers at limits, and words with a meaning in many commands.
const EXTREMES: &[&str] = &[
    "0",
    "-1",
    "1",
    "-0",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "536870911",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999999",
    "1e308",
    "4.9e-324",
    "nan",
    "inf",
    "-inf",
    "",
    "+",
    "-",
    "(",
    "[",
    "$",
    ">",
    "*",
    "18446744073709551615-18446744073709551615",
    "COUNT",
    "LIMIT",
    "WITHSCORES",
    "STORE",
    "BLOCK",
    "STREAMS",
    "k1",
    "k2",
];

/// Returns one of the [`EXTREMES`].
pub(super) fn extreme(random: &mut SmallRng) -> &'static [u8] {
    EXTREMES[random.random_range(0..EXTREMES.len())].as_bytes()
}

/// Returns `count` random bytes.
pub(super) fn noise(random: &mut SmallRng, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.random()).collect()
}

/// Changes one or more words of a command.
pub(super) fn words(words: &mut Vec<Vec<u8>>, random: &mut SmallRng) {
    for _ in 0..random.random_range(1..=3) {
        if words.is_empty() {
            return;
        }
        let at = random.random_range(0..words.len());
        match random.random_range(0..9) {
            0..=2 => words[at] = extreme(random).to_vec(),
            3 => words.insert(at, extreme(random).to_vec()),
            4 => {
                words.remove(at);
            }
            5 => {
                let word = words[at].clone();
                let times = [1, 2, 50, 2000][random.random_range(0..4)];
                words.extend(std::iter::repeat_n(word, times));
            }
            6 => {
                let length = [100, 5000, 70_000][random.random_range(0..3)];
                words[at] = match random.random() {
                    true => noise(random, length),
                    false => words[at].iter().copied().cycle().take(length).collect(),
                };
            }
            7 => bytes(&mut words[at], random),
            _ => {
                let other = random.random_range(0..words.len());
                words.swap(at, other);
            }
        }
    }
}

/// Encodes a command with a length or a count that may be wrong.
pub(super) fn write_lying(out: &mut Vec<u8>, words: &[Vec<u8>], random: &mut SmallRng) {
    let liar = random.random_range(0..=words.len());
    let lie = |number: usize, random: &mut SmallRng| match random.random_range(0..4) {
        0 => (number + 1).to_string().into_bytes(),
        1 => number.saturating_sub(1).to_string().into_bytes(),
        2 => format!("{}{number}", "0".repeat(30)).into_bytes(),
        _ => extreme(random).to_vec(),
    };
    let write = |mark: u8, number: usize, lies: bool, random: &mut SmallRng| {
        let digits = match lies {
            true => lie(number, random),
            false => number.to_string().into_bytes(),
        };
        let mut line = vec![mark];
        line.extend(digits);
        line.extend_from_slice(b"\r\n");
        line
    };
    out.extend(write(b'*', words.len(), liar == words.len(), random));
    for (at, word) in words.iter().enumerate() {
        out.extend(write(b'$', word.len(), liar == at, random));
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Damages bytes in one or more places.
pub(super) fn bytes(bytes: &mut Vec<u8>, random: &mut SmallRng) {
    /// Bytes that some parser reads as a length, an end or another form.
    const MARKS: &[u8] = &[
        0, 1, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xc3, 0xe0, 0xf0, 0xfe, 0xff, b'\r', b'\n',
        b'*', b'$', b'"', b' ',
    ];
    for _ in 0..random.random_range(1..=4) {
        let length = bytes.len();
        if length == 0 {
            bytes.extend(noise(random, 3));
            continue;
        }
        let at = random.random_range(0..length);
        let end = length.min(at + 1 + random.random_range(0..64));
        match random.random_range(0..10) {
            0 | 1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 | 3 => bytes[at] = MARKS[random.random_range(0..MARKS.len())],
            4 => bytes[at] = bytes[at].wrapping_add(if random.random() { 1 } else { 255 }),
            5 => bytes.truncate(at),
            6 => {
                bytes.drain(at..end);
            }
            7 => {
                let piece = bytes[at..end].to_vec();
                let to = random.random_range(0..length);
                bytes.splice(to..to, piece);
            }
            8 => {
                let count = random.random_range(1..8);
                let piece = noise(random, count);
                bytes.splice(at..at, piece);
            }
            _ => number(bytes, at, random),
        }
    }
}

/// Replaces the first decimal number at or after a place.
fn number(bytes: &mut Vec<u8>, at: usize, random: &mut SmallRng) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let Some(begin) = bytes[at..].iter().position(digit).map(|first| at + first) else {
        return;
    };
    let length = bytes[begin..].iter().take_while(|byte| digit(byte)).count();
    bytes.splice(begin..begin + length, extreme(random).iter().copied());
}
