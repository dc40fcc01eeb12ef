//! Keyspace events (`notify-keyspace-events`): messages that say what happens to keys, published
//! on the channels `__keyspace@DB__:KEY` and `__keyevent@DB__:EVENT`.

use crate::client::Topic;
use crate::connection::Clients;
use crate::keyspace::{Class, Event};
use crate::pubsub::PubSub;

/// Letters and bits: what may be switched on, in the order in which it is shown.
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
/// `K`: channels by key.
const KEYSPACE: u32 = 1;
/// `E`: channels by event.
const KEYEVENT: u32 = 1 << 1;
/// `A`: all classes but those of new keys and of keys that were not found.
const ALL: u32 = 0b1111_1111 << 2 | 1 << 10 | 1 << 13;

/// Reads what is to be switched on; `None` if a letter has no meaning.
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

/// Writes what is switched on.
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

/// True if anything is to be published.
pub fn is_on(events: u32) -> bool {
    events & (KEYSPACE | KEYEVENT) != 0 && events & !(KEYSPACE | KEYEVENT) != 0
}

fn bit(class: Class) -> u32 {
    match class {
        Class::Generic => 1 << 2,
        Class::String => 1 << 3,
        Class::List => 1 << 4,
        Class::Set => 1 << 5,
        Class::Hash => 1 << 6,
        Class::SortedSet => 1 << 7,
        Class::Expired => 1 << 8,
        Class::Evicted => 1 << 9,
        Class::New => 1 << 14,
    }
}

/// Publishes what has happened, as far as `on` says.
pub fn publish(pubsub: &PubSub, clients: &Clients, on: u32, events: &[Event]) {
    if !is_on(on) {
        return;
    }
    for event in events.iter().filter(|event| on & bit(event.class) != 0) {
        let send = |kind: &str, about: &[u8], message: &[u8]| {
            let mut channel = format!("__{kind}@{}__:", event.database).into_bytes();
            channel.extend_from_slice(about);
            pubsub.publish(clients, Topic::Channel, &channel, message);
        };
        if on & KEYSPACE != 0 {
            send("keyspace", &event.key, event.name.as_bytes());
        }
        if on & KEYEVENT != 0 {
            send("keyevent", event.name.as_bytes(), &event.key);
        }
    }
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
