//! The keys that clients watch. A transaction is refused if one of them was changed. Keys in a pool
//! are not in here: `EXEC` compares them ([`crate::keyspace::draft::Draft::expect`]).

use crate::client::{ClientShared, WatchedKeys};
use crate::steps;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Watchers of a key, by their numbers.
type Watchers = HashMap<u64, Arc<ClientShared>>;

/// Watched keys and their clients, by the numbers of databases. A changed key is removed until it
/// is watched again, so that no write notifies a client twice.
#[derive(Debug, Default)]
pub struct KeyWatches {
    watchers: Mutex<HashMap<usize, HashMap<Vec<u8>, Watchers>>>,
}

impl KeyWatches {
    /// Adds a key that `client` watches. Call it in the exclusive phase.
    pub fn add(&self, database: usize, key: &[u8], client: &Arc<ClientShared>) {
        steps::count(1);
        let mut watchers = self.watchers.lock();
        let keys = watchers.entry(database).or_default();
        let clients = keys.entry_ref(key).or_default();
        clients.insert(client.id, Arc::clone(client));
    }

    /// Removes keys that a client watches.
    pub fn remove(&self, keys: &WatchedKeys, client: &ClientShared) {
        let mut watchers = self.watchers.lock();
        for (database, key) in keys.keys() {
            steps::count(1);
            let Some(all) = watchers.get_mut(database) else {
                // Its watched keys were changed, and thereby removed.
                continue;
            };
            if let Some(clients) = all.get_mut(key) {
                clients.remove(&client.id);
                if clients.is_empty() {
                    all.remove(key);
                }
            }
            if all.is_empty() {
                watchers.remove(database);
            }
        }
    }

    /// Notes that a key was changed.
    pub fn touch(&self, database: usize, key: &[u8]) {
        let mut watchers = self.watchers.lock();
        let Some(keys) = watchers.get_mut(&database) else {
            return;
        };
        debug_assert!(!keys.is_empty(), "a database without keys is removed");
        for client in keys.remove(key).iter().flat_map(HashMap::values) {
            steps::count(1);
            client.watch_broken.store(true, Ordering::Relaxed);
        }
        if keys.is_empty() {
            watchers.remove(&database);
        }
    }

    /// Returns the keys of a database that are watched.
    pub fn keys_of(&self, database: usize) -> Vec<Vec<u8>> {
        let watchers = self.watchers.lock();
        let keys = watchers.get(&database).into_iter();
        keys.flat_map(|keys| keys.keys().cloned()).collect()
    }

    /// Returns true if no key is watched.
    pub fn is_empty(&self) -> bool {
        self.watchers.lock().is_empty()
    }
}
