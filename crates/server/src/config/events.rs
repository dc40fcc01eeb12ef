//! The letters of `notify-keyspace-events`.

/// The letters of classes and channels of events with their bits, in the order in which they are
/// shown.
const LETTERS: [(char, u32); 14] = [
    ('g', 1 << 2),
    ('$', 1 << 3),
    ('l', 1 << 4),
    ('s', 1 << 5),
    ('h', 1 << 6),
    ('z', 1 << 7),
    ('x', 1 << 8),
    ('e', 1 << 9),
    ('t', 1 << 10),
    ('d', 1 << 13),
    ('n', 1 << 14),
    ('K', KEYSPACE),
    ('E', KEYEVENT),
    ('m', 1 << 11),
];
/// `K`: channels named by key.
pub const KEYSPACE: u32 = 1;
/// `E`: channels named by event.
pub const KEYEVENT: u32 = 1 << 1;
/// `A`: all classes except those of new keys and of keys that were not found.
const ALL: u32 = 0b1111_1111 << 2 | 1 << 10 | 1 << 13;
const _: () = assert!(
    ALL & (KEYSPACE | KEYEVENT | 1 << 11 | 1 << 14) == 0,
    "`A` stands for classes only, without `m` and `n`"
);

/// Parses letters. Returns `None` if a letter has no meaning.
pub fn parse(letters: &str) -> Option<u32> {
    let mut events = 0;
    for letter in letters.chars() {
        events |= match letter {
            'A' => ALL,
            letter => LETTERS.iter().find(|it| it.0 == letter)?.1,
        };
    }
    Some(events)
}

/// Formats events as letters.
pub fn letters(events: u32) -> String {
    let mut text = String::new();
    let all = events & ALL == ALL;
    if all {
        text.push('A');
    }
    for (letter, bit) in LETTERS {
        if events & bit != 0 && !(all && ALL & bit != 0) {
            text.push(letter);
        }
    }
    text
}

/// Returns true if any event is published.
pub fn is_on(events: u32) -> bool {
    // Without a channel or without a class nothing is published, as in Redis.
    events & (KEYSPACE | KEYEVENT) != 0 && events & !(KEYSPACE | KEYEVENT) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_redis_shows_them() {
        for (given, shown) in [
            ("KEA", "AKE"),
            ("Kg", "gK"),
            ("g$lshzxetdn", "An"),
            ("AKEm", "AKEm"),
            ("KEn", "nKE"),
            ("", ""),
            ("K", "K"),
        ] {
            assert_eq!(parse(given).map(letters).as_deref(), Some(shown));
        }
        assert_eq!(parse("zzq"), None);
    }
}
