//! Patterns of keys and channels, as in Redis: `*` matches any bytes, `?` any byte, `[a-z]` a byte
//! of a class and `[^a-z]` a byte outside of it. A backslash takes the next byte literally.
//!
//! A client may choose a pattern and texts that take time in proportion to the product of their
//! lengths to compare. So the work of one command is bounded, apart from the least work for each
//! text.

use crate::steps;
use memchr::memmem;
use std::cell::Cell;

/// Returns true if all of `text` matches `pattern`. Takes time in proportion to the product of
/// their lengths at most, and to their sum if the pattern consists of stars and plain bytes.
///
/// ```
/// use nearfield_server::glob;
///
/// assert!(glob::matches(b"user:*:na?e", b"user:17:name"));
/// assert!(!glob::matches(b"[^a-c]*", b"bob"));
/// ```
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    is_match(pattern, text, false, u64::MAX, &mut 0)
}

/// Limit of the work for the patterns of one command, in bytes that are compared: some hundredths
/// of a second.
const WORK_MAX: u64 = 1 << 24;
/// The work for each byte of a text, and for each text, that is not counted: plain patterns take
/// less.
const FREE_PER_BYTE: u64 = 4;
const FREE_PER_TEXT: u64 = 256;

thread_local! {
    /// The work of the command that this thread executes.
    static WORK: Cell<u64> = const { Cell::new(0) };
}

/// Matches like [`matches()`], for a pattern and texts that clients choose. Returns false once the
/// command has taken too much work; [`end_command`] then reports that.
pub fn matches_bounded(pattern: &[u8], text: &[u8]) -> bool {
    charge(pattern, text, false)
}

/// Matches like [`matches_bounded`], but ignores the case of letters.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    charge(pattern, text, true)
}

fn charge(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
    let before = WORK.get();
    if before > WORK_MAX {
        return false;
    }
    // Otherwise a plain pattern would be refused on a long list of texts.
    let free = FREE_PER_TEXT + FREE_PER_BYTE * text.len() as u64;
    let (most, mut taken) = (free + WORK_MAX - before, 0);
    let is_match = is_match(pattern, text, ignores_case, most, &mut taken);
    steps::count(taken as usize);
    WORK.set(before + taken.saturating_sub(free));
    is_match
}

/// Ends a command. Returns true if its patterns have taken more work than allowed. Results of its
/// matches are then invalid.
#[inline]
pub fn end_command() -> bool {
    let work = WORK.get();
    if work == 0 {
        return false;
    }
    WORK.set(0);
    work > WORK_MAX
}

/// Runs a function with a separate bound on the work for patterns. Beyond it nothing matches.
pub fn apart<R>(run: impl FnOnce() -> R) -> R {
    let before = WORK.replace(0);
    let result = run();
    WORK.set(before);
    result
}

/// Compares, and adds the work to `taken`. Returns false if that exceeds `most`.
fn is_match(pattern: &[u8], text: &[u8], ignores_case: bool, most: u64, taken: &mut u64) -> bool {
    let fold = |byte: u8| match ignores_case {
        true => byte.to_ascii_lowercase(),
        false => byte,
    };
    let (mut rest, mut text) = (pattern, text);
    // The position to retry from when the part after the last star does not match. Each element
    // except a star matches one byte, so no earlier star ever needs to match more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    while *taken <= most {
        *taken += 1;
        let next = if let Some((b'*', after)) = rest.split_first() {
            Some((after, text))
        } else if text.is_empty() && rest.is_empty() {
            return true;
        } else if let Some((&byte, after_text)) = text.split_first()
            && let Some(after) = match_byte(rest, byte, fold, taken)
        {
            (rest, text) = (after, after_text);
            None
        } else {
            let Some((after_star, from)) = retry else {
                return false;
            };
            let Some((_, from)) = from.split_first() else {
                return false;
            };
            Some((after_star, from))
        };
        if let Some((behind_star, from)) = next {
            let plain = plain_bytes(behind_star);
            let from = if ignores_case || plain.is_empty() {
                from
            } else if plain.len() == behind_star.len() {
                // Only one split of the text is left: the star takes all bytes before the plain
                // ones.
                return from.ends_with(plain);
            } else {
                // A search finds plain bytes after the star faster.
                *taken += plain.len() as u64;
                match memmem::find(from, plain).and_then(|at| from.get(at..)) {
                    Some(found) => found,
                    None => return false,
                }
            };
            (rest, text) = (behind_star, from);
            retry = Some((rest, text));
        }
    }
    false
}

/// Returns the plain bytes at the beginning of a pattern.
fn plain_bytes(pattern: &[u8]) -> &[u8] {
    let end = memchr::memchr3(b'*', b'?', b'[', pattern).unwrap_or(pattern.len());
    let plain = pattern.get(..end).unwrap_or_default();
    let end = memchr::memchr(b'\\', plain).unwrap_or(end);
    plain.get(..end).unwrap_or_default()
}

/// Matches one byte with the first element of a pattern, which is not a star. Returns the pattern
/// after the element, and adds the number of bytes that it has read.
fn match_byte<'p>(
    pattern: &'p [u8],
    byte: u8,
    fold: impl Fn(u8) -> u8 + Copy,
    taken: &mut u64,
) -> Option<&'p [u8]> {
    let (&first, after) = pattern.split_first()?;
    debug_assert_ne!(first, b'*', "the caller handles stars");
    match (first, after) {
        (b'?', _) => Some(after),
        (b'[', _) => {
            let (is_in, rest) = match_class(after, byte, fold);
            debug_assert!(rest.len() <= after.len(), "a class ends within the pattern");
            *taken += (after.len() - rest.len()) as u64;
            is_in.then_some(rest)
        }
        (b'\\', [escaped, after @ ..]) => (fold(*escaped) == fold(byte)).then_some(after),
        _ => (fold(first) == fold(byte)).then_some(after),
    }
}

/// Matches one byte with a class, after its opening bracket. Returns the pattern after the class.
/// An unclosed class ends with the pattern.
fn match_class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let byte = fold(byte);
    let mut found = false;
    loop {
        match rest {
            [b'\\', escaped, after @ ..] => {
                found |= fold(*escaped) == byte;
                rest = after;
            }
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [] => break,
            [one, b'-', other, after @ ..] => {
                // As in Redis, reversed ends are swapped, and before the case is folded.
                let (low, high) = (fold(*one.min(other)), fold(*one.max(other)));
                found |= (low..=high).contains(&byte);
                rest = after;
            }
            [one, after @ ..] => {
                found |= fold(*one) == byte;
                rest = after;
            }
        }
    }
    (found != negated, rest)
}

/// Returns the common prefix of all texts that match a pattern.
///
/// ```
/// assert_eq!(nearfield_server::glob::prefix(br"user\:1*"), b"user:1");
/// ```
pub fn prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut rest = pattern;
    loop {
        rest = match rest {
            [] | [b'*' | b'?' | b'[', ..] => return prefix,
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                prefix.push(*byte);
                after
            }
        };
    }
}

/// Returns the least byte string that is greater than all with the prefix `prefix`; `None` if there
/// is none.
///
/// ```
/// use nearfield_server::glob::end_of_prefix;
///
/// assert_eq!(end_of_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
/// assert_eq!(end_of_prefix(b"a\xff").as_deref(), Some(&b"b"[..]));
/// assert_eq!(end_of_prefix(b"\xff"), None);
/// ```
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let position = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix.get(..=position)?.to_vec();
    *end.last_mut()? += 1;
    debug_assert!(end.as_slice() > prefix);
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("**", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "a1b2b3c", true),
            ("?", "", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hallo", false),
            ("[\\]]", "]", true),
            ("[]", "", false),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[abc", "b", true),
            ("[a-", "-", true),
            ("a\\", "a\\", true),
            ("A", "a", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert!(matches_ignoring_case(b"MAX[A-Z]*", b"maxmemory"));
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = "a*".repeat(5_000) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 10_000]));
    }

    #[test]
    fn plain_patterns_take_work_in_proportion_to_the_text() {
        for pattern in [
            format!("*{}b", "a".repeat(20_000)),
            format!("*{}c*", "ab".repeat(10_000)),
            "*a".repeat(10_000) + "b",
        ] {
            let text = [b'a'; 40_000];
            let steps = steps::taken_by(|| assert!(!matches_bounded(pattern.as_bytes(), &text)));
            assert!(
                steps.unwrap_or(0) < 200_000,
                "{steps:?} for {}",
                pattern.len()
            );
            assert!(!end_command());
        }
    }

    #[test]
    fn work_ends_where_it_is_too_much() {
        let class = "[".repeat(60_000);
        let mut compared = 0;
        let steps = steps::taken_by(|| {
            for _ in 0..20_000 {
                assert!(!matches_bounded(class.as_bytes(), b"key"));
                compared += 1;
            }
        });
        assert!(steps.unwrap_or(0) < 2 * WORK_MAX, "{steps:?}");
        assert!(end_command());
        // The next command begins at zero, and a separate run takes nothing of its work.
        assert!(matches_bounded(b"k[e]y", b"key"));
        let long = "?".repeat(20_000);
        apart(|| {
            assert!(!matches_bounded(
                format!("*{long}b").as_bytes(),
                &[b'a'; 40_000]
            ))
        });
        assert!(matches_bounded(b"k*y", b"key"));
        assert!(!end_command());
    }

    #[test]
    fn patterns_match_as_a_plain_matcher_says() {
        fn plain(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern, text) {
                ([], []) => true,
                ([b'*', rest @ ..], _) => {
                    plain(rest, text) || text.split_first().is_some_and(|it| plain(pattern, it.1))
                }
                ([b'?', rest @ ..], [_, text @ ..]) => plain(rest, text),
                ([b'\\', byte, rest @ ..], [other, text @ ..]) => {
                    byte == other && plain(rest, text)
                }
                ([byte, rest @ ..], [other, text @ ..]) => byte == other && plain(rest, text),
                _ => false,
            }
        }
        let random = &mut SmallRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut some = |of: &[u8], most: usize| -> Vec<u8> {
                let length = random.random_range(0..most);
                (0..length)
                    .map(|_| of[random.random_range(0..of.len())])
                    .collect()
            };
            let (pattern, text) = (some(b"ab*?\\a", 9), some(b"ab", 12));
            if pattern.last() != Some(&b'\\') {
                let expected = plain(&pattern, &text);
                assert_eq!(matches(&pattern, &text), expected, "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn prefixes_end_where_the_pattern_begins() {
        for (pattern, expected) in [
            (r"", ""),
            (r"abc", "abc"),
            (r"a?", "a"),
            (r"a\*b*", "a*b"),
            (r"[a]b", ""),
            (r"a\", "a\\"),
        ] {
            assert_eq!(prefix(pattern.as_bytes()), expected.as_bytes());
        }
    }
}
