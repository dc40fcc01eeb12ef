//! Keyspace events (`notify-keyspace-events`): messages about changes of keys, published on the
//! channels `__keyspace@DB__:KEY` and `__keyevent@DB__:EVENT`.

use super::PubSub;
use crate::client::Topic;
use crate::config::events::{KEYEVENT, KEYSPACE, is_on};
use crate::connection::ClientRegistry;
use crate::keyspace::{Class, KeyspaceEvent};

fn bit(class: Class) -> u32 {
    // These are the bits of Redis.
    match class {
        Class::Generic => 1 << 2,
        Class::String => 1 << 3,
        Class::List => 1 << 4,
        Class::Set => 1 << 5,
        Class::Hash => 1 << 6,
        Class::SortedSet => 1 << 7,
        Class::Expired => 1 << 8,
        Class::Evicted => 1 << 9,
        Class::Stream => 1 << 10,
        Class::New => 1 << 14,
        Class::Unnamed => 0,
    }
}

/// Publishes those of `events` that have their bits set in `on`.
pub fn publish(pubsub: &PubSub, clients: &ClientRegistry, on: u32, events: &[KeyspaceEvent]) {
    if !is_on(on) {
        return;
    }
    for event in events.iter().filter(|event| on & bit(event.class) != 0) {
        let send = |kind: &str, about: &[u8], message: &[u8]| {
            let mut channel = format!("__{kind}@{}__:", event.database).into_bytes();
            channel.extend_from_slice(about);
            pubsub.publish(clients, Topic::Channel, &channel, message);
        };
        // Redis sends the two messages in this order.
        if on & KEYSPACE != 0 {
            send("keyspace", &event.key, event.name.as_bytes());
        }
        if on & KEYEVENT != 0 {
            send("keyevent", event.name.as_bytes(), &event.key);
        }
    }
}
