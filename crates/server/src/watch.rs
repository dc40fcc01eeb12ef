//! The keys that clients watch. A transaction is refused if one of them was changed. Keys in a pool
//! are not in here: `EXEC` compares them ([`crate::keyspace::draft::Draft::expect`]).

use crate::client::{ClientShared, WatchedKey};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A key with the number of its database.
type DatabaseKey = (usize, Vec<u8>);

/// Who watches which keys.
#[derive(Debug, Default)]
pub struct Watches {
    watchers: Mutex<HashMap<DatabaseKey, Vec<Arc<ClientShared>>>>,
}

impl Watches {
    /// Has `client` watch a key. To be called in the exclusive phase.
    pub fn add(&self, database: usize, key: &[u8], client: &Arc<ClientShared>) {
        let mut watchers = self.watchers.lock();
        let clients = watchers.entry((database, key.to_vec())).or_default();
        clients.push(Arc::clone(client));
    }

    /// Has a client watch these keys no more.
    pub fn remove(&self, keys: &[WatchedKey], client: &ClientShared) {
        let mut watchers = self.watchers.lock();
        for watched in keys {
            let key = (watched.database, watched.key.clone());
            if let Some(clients) = watchers.get_mut(&key) {
                clients.retain(|other| other.id != client.id);
                if clients.is_empty() {
                    watchers.remove(&key);
                }
            }
        }
    }

    /// Says that a key was changed.
    pub fn touch(&self, database: usize, key: &[u8]) {
        let watchers = self.watchers.lock();
        if watchers.is_empty() {
            return;
        }
        for client in watchers
            .get(&(database, key.to_vec()))
            .into_iter()
            .flatten()
        {
            client.watch_broken.store(true, Ordering::Relaxed);
        }
    }

    /// The keys of a database that are watched.
    pub fn keys_of(&self, database: usize) -> Vec<Vec<u8>> {
        let watchers = self.watchers.lock();
        let of = |key: &&DatabaseKey| key.0 == database;
        watchers
            .keys()
            .filter(of)
            .map(|key| key.1.clone())
            .collect()
    }

    /// True if no key is watched.
    pub fn is_empty(&self) -> bool {
        self.watchers.lock().is_empty()
    }
}
