//! The changes of keys that commands report.

use super::view::KeyLedger;
use super::{Class, DatabaseKeys, KeyspaceEvent};
use std::sync::atomic::Ordering;
use std::time::Instant;

impl DatabaseKeys<'_> {
    /// Reports the change of a key: counts it, and notifies observers.
    pub fn changed(&mut self, key: &[u8], class: Class, name: &'static str) {
        self.effects().changes += 1;
        self.happened(key, class, name);
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

    fn event(&mut self, key: &[u8], class: Class, name: &'static str) -> KeyspaceEvent {
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

impl KeyLedger for DatabaseKeys<'_> {
    #[inline]
    fn count_lookup(&mut self, is_hit: bool) {
        let keyspace = self.keyspace();
        let counter = match is_hit {
            true => &keyspace.hits,
            false => &keyspace.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn count_expired_key(&mut self, began: Instant) {
        let expired = &self.keyspace().expired_keys;
        expired.fetch_add(1, Ordering::Relaxed);
        let longest = &mut self.effects().longest_expiry;
        *longest = began.elapsed().max(*longest);
    }

    fn count_expired_fields(&mut self, fields: usize) {
        let expired = &self.keyspace().expired_fields;
        expired.fetch_add(fields as u64, Ordering::Relaxed);
    }

    fn log_before<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        let database = self.database_number();
        self.effects().before.push((database, words));
    }

    #[inline]
    fn happened(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = self.event(key, class, name);
            self.effects().events.push(event);
        }
    }

    fn happened_last(&mut self, key: &[u8], class: Class, name: &'static str) {
        if self.effects().observed {
            let event = self.event(key, class, name);
            self.effects().last_events.push(event);
        }
    }
}
