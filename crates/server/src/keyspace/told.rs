//! Changes of keys that commands report.

use super::{Class, Event, Keys};

impl Keys<'_> {
    /// Says that a key has been changed, and how: counts a change, and tells those who watch.
    pub fn changed(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.effects().changes += 1;
        self.happened(key, class, name);
    }

    /// Notes for observers what has happened to a key.
    pub(super) fn happened(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = self.event(key, class, name);
            self.effects().events.push(event);
        }
    }

    /// Has the log say `words` before the command.
    pub(super) fn log_before(&mut self, words: Vec<Vec<u8>>) {
        let database = self.database_number();
        self.effects().before.push((database, words));
    }

    /// As [`changed`](Keys::changed), but those who watch or cache the key are not told, as what it
    /// holds is the same for them.
    pub fn changed_aside(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.effects().changes += 1;
        self.happened_aside(key, class, name);
    }

    /// Has those look at a key again who wait for it. To them alone anything has happened.
    pub fn look_again(&mut self, key: &[u8]) {
        self.happened_aside(key, Class::Unnamed, "");
    }

    fn happened_aside(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = Event {
                is_change: false,
                ..self.event(key, class, name)
            };
            self.effects().events.push(event);
        }
    }

    pub(super) fn event(&mut self, key: &[u8], class: Class, name: &'static str) -> Event {
        Event {
            class,
            name,
            database: self.database_number(),
            key: key.to_vec(),
            origin: self.effects().origin,
            is_change: true,
        }
    }
}
