//! Patterns of keys and channels as Redis reads them: `*` is any bytes, `?` is any byte, `[a-z]` is
//! a byte of a class and `[^a-z]` is one of no class, and a backslash takes the next byte as it is.

/// True if all of `text` is as `pattern` says. Takes time in proportion to the product of their
/// lengths at most.
///
/// ```
/// use nearfield_server::glob;
///
/// assert!(glob::matches(b"user:*:na?e", b"user:17:name"));
/// assert!(!glob::matches(b"[^a-c]*", b"bob"));
/// ```
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_by(pattern, text, |byte| byte)
}

/// The same, with letters in either case alike.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_by(pattern, text, |byte| byte.to_ascii_lowercase())
}

fn matches_by(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    let (mut rest, mut text) = (pattern, text);
    // Where to go on when what follows the last star does not match: each element but a star
    // matches one byte, so that no earlier star need ever take more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', after)) = rest.split_first() {
            rest = after;
            retry = Some((rest, text));
            continue;
        }
        if text.is_empty() && rest.is_empty() {
            return true;
        }
        if let Some((&byte, after_text)) = text.split_first()
            && let Some(after) = match_byte(rest, byte, fold)
        {
            (rest, text) = (after, after_text);
            continue;
        }
        let Some((after_star, from)) = retry else {
            return false;
        };
        let Some((_, from)) = from.split_first() else {
            return false;
        };
        (rest, text) = (after_star, from);
        retry = Some((rest, text));
    }
}

/// Matches one byte with the first element of a pattern, which is no star; answers the pattern
/// behind the element.
fn match_byte(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<&[u8]> {
    let (&first, after) = pattern.split_first()?;
    match (first, after) {
        (b'?', _) => Some(after),
        (b'[', _) => match_class(after, byte, fold),
        (b'\\', [escaped, after @ ..]) => (fold(*escaped) == fold(byte)).then_some(after),
        _ => (fold(first) == fold(byte)).then_some(after),
    }
}

/// Matches one byte with a class, whose bracket has been read. One that is not closed ends with
/// the pattern.
fn match_class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<&[u8]> {
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
    (found != negated).then_some(rest)
}

/// The bytes that all that matches a pattern begins with.
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

/// The least byte string that is greater than all that begin with `prefix`; `None` if there is
/// none.
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
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

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
