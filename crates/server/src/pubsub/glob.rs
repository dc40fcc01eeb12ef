//! Redis's patterns: `*`, `?`, `[abc]`, `[^a-c]`, and `\` before what is meant literally.

/// True if `pattern` describes all of `text`.
///
/// Takes time in proportion to the product of the lengths at most: of several stars only the last
/// is tried again.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    // After the last star: where the pattern goes on, and how much the star has taken.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, position));
                at += 1;
                continue;
            }
            None if position == text.len() => return true,
            None => None,
            Some(_) => text
                .get(position)
                .and_then(|&byte| one(pattern.get(at..).unwrap_or_default(), byte)),
        };
        match (step, &mut star) {
            (Some(length), _) => {
                at += length;
                position += 1;
            }
            (None, Some((after, taken))) if *taken < text.len() => {
                *taken += 1;
                at = *after;
                position = *taken;
            }
            _ => return false,
        }
    }
}

/// Whether the element that `pattern` begins with describes `byte`, and if so, its length.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => {
            let (is_in, length) = class_has(class, byte);
            is_in.then_some(1 + length)
        }
        [b'\\', literal, ..] => (literal == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// Whether a class, whose text begins behind the bracket, has `byte`, and the text's length. A
/// class that is not closed ends with the pattern.
fn class_has(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class.get(at..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                let range = (*first).min(*last)..=(*first).max(*last);
                found |= range.contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_describe_texts_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a**b*c", "axbyc", true),
            ("?", "", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[b-a]llo", "hallo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[a", "a", true),
            ("[^", "a", true),
            ("a\\", "a\\", true),
            ("*ab", "aab", true),
            ("*a*a*a*b", "aaaaaaaaaaaa", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern:?} {text:?}");
        }
    }
}
