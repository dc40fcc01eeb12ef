//! The changes of keys that commands report.

use super::{Class, DatabaseKeys, KeyspaceEvent};

impl DatabaseKeys<'_> {
    /// Reports the change of a key: counts it, and notifies observers.
    pub fn changed(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.effects().changes += 1;
        self.happened(key, class, name);
    }

    /// Collects an event of a key for observers.
    pub(super) fn happened(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = self.event(key, class, name);
            self.effects().events.push(event);
        }
    }

    /// Logs `words` before the command.
    pub(super) fn log_before(&mut self, words: Vec<Vec<u8>>) {
        let database = self.database_number();
        self.effects().before.push((database, words));
    }

    /// Reports a change like [`changed`](DatabaseKeys::changed), but does not notify clients that
    /// watch or cache the key, because its value is the same for them.
    pub fn changed_aside(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.effects().changes += 1;
        self.happened_aside(key, class, name);
    }

    /// Makes clients that wait for a key check it again. No other observer is notified.
    pub fn wake_waiters(&mut self, key: &[u8]) {
        self.happened_aside(key, Class::Unnamed, "");
    }

    fn happened_aside(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = KeyspaceEvent {
                is_change: false,
                ..self.event(key, class, name)
            };
            self.effects().events.push(event);
        }
    }

    pub(super) fn event(&mut self, key: &[u8], class: Class, name: &'static str) -> KeyspaceEvent {
        KeyspaceEvent {
            class,
            name,
            database: self.database_number(),
            key: key.to_vec(),
            origin: self.effects().origin,
            is_change: true,
        }
    }
}
