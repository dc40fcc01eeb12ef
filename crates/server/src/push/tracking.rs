//! The keys that clients cache (`CLIENT TRACKING`), and the invalidations that are sent when a key
//! is written.
//!
//! By default the server remembers for each key the clients that have read it, and notifies each of
//! them once. The table is bounded: when it is full, a key is treated as written, so that clients
//! forget it. Clients that have chosen *prefixes* ("broadcasting") are notified of all keys with
//! these prefixes, and the table has no entries for them.
//!
//! A key is entered in the table in the phase in which it is read. While any client tracks keys,
//! writes take the exclusive phase, so no write is missed.

use super::prefixes::PrefixTable;
use crate::client::{ClientSession, ClientShared, ENTRY_BYTES, TrackingOptions};
use crate::connection::ClientRegistry;
use crate::keyspace::{Class, Keyspace, KeyspaceEvent, WriteObserver};
use crate::resp::{Protocol, RespReply};
use crate::steps;
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The clients that track keys, and the keys that they have read.
#[derive(Debug, Default)]
pub struct TrackingTable {
    state: Mutex<TrackingTableState>,
}

#[derive(Debug, Default)]
struct TrackingTableState {
    /// All clients that track keys.
    clients: HashMap<u64, Tracker>,
    /// The readers of each key, whatever the database.
    readers: HashMap<Vec<u8>, Readers>,
    /// Number of readers of all keys.
    items: usize,
    /// Memory of the table, in bytes.
    readers_bytes: usize,
    /// The clients that are notified of each prefix.
    prefixes: PrefixTable<BTreeSet<u64>>,
}

/// The numbers of clients that have read a key, in order.
type Readers = SmallVec<[u64; 2]>;

/// A key that was written.
#[derive(Debug)]
struct WrittenKey<'e> {
    key: &'e [u8],
    /// The client that has written it.
    origin: u64,
    /// True if the key had expired.
    is_over: bool,
}

#[derive(Debug)]
struct Tracker {
    client: Arc<ClientShared>,
    redirection: u64,
    no_loop: bool,
}

/// The sizes of the tracking tables, for `INFO`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackingCounts {
    /// Number of clients.
    pub clients: usize,
    /// Number of keys in the table.
    pub keys: usize,
    /// Number of clients in the table, counted for each key.
    pub items: usize,
    /// Number of prefixes.
    pub prefixes: usize,
}

impl TrackingTable {
    /// Begins the tracking that a client has chosen. Call it in the exclusive phase.
    pub fn join(&self, keyspace: &Keyspace, client: &mut ClientSession, choice: TrackingOptions) {
        let mut state = self.state.lock();
        let shared = &client.shared;
        let tracker = Tracker {
            client: Arc::clone(shared),
            redirection: choice.redirection,
            no_loop: choice.no_loop,
        };
        state.clients.insert(shared.id, tracker);
        if choice.broadcast {
            for prefix in choice.tracked_prefixes() {
                state.prefixes.get_or_default(prefix).insert(shared.id);
            }
        }
        let listed = &shared.listed;
        listed.tracking.store(true, Ordering::Relaxed);
        listed
            .tracking_prefixes
            .store(choice.broadcast, Ordering::Relaxed);
        listed.redirection_broken.store(false, Ordering::Relaxed);
        listed
            .redirection
            .store(choice.redirection as i64, Ordering::Relaxed);
        client.tracking = Some(Box::new(choice));
        // Under the lock, so that a client that leaves meanwhile does not undo it.
        keyspace.set_observed(WriteObserver::Tracking, true);
    }

    /// Ends the tracking of a client.
    pub fn leave(&self, keyspace: &Keyspace, client: &mut ClientSession) {
        let Some(choice) = client.tracking.take() else {
            return;
        };
        let id = client.shared.id;
        let mut state = self.state.lock();
        let tracker = state.clients.remove(&id);
        debug_assert!(tracker.is_some(), "a client with options is here");
        for prefix in choice.tracked_prefixes() {
            state.prefixes.change(prefix, |clients| {
                clients.remove(&id);
                clients.is_empty()
            });
        }
        // Entries of the client in the table are ignored.
        if state.clients.is_empty() {
            state.forget_readers();
            keyspace.set_observed(WriteObserver::Tracking, false);
        }
        let listed = &client.shared.listed;
        listed.tracking.store(false, Ordering::Relaxed);
        listed.tracking_prefixes.store(false, Ordering::Relaxed);
        listed.redirection_broken.store(false, Ordering::Relaxed);
        listed.redirection.store(-1, Ordering::Relaxed);
    }

    /// Remembers that a client has read keys, if its options say so. The table has at most
    /// `keys_max` keys; 0 is no limit.
    pub fn note_read<'k>(
        &self,
        clients: &ClientRegistry,
        client: &ClientSession,
        keys_max: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        let Some(choice) = &client.tracking else {
            return;
        };
        // With OPTIN only the command after CACHING YES counts, with OPTOUT all but the one after
        // CACHING NO.
        let skip = (choice.opt_in && choice.caching != Some(true))
            || (choice.opt_out && choice.caching == Some(false));
        if choice.broadcast || skip {
            return;
        }
        let id = client.shared.id;
        let mut state = self.state.lock();
        for key in keys {
            steps::count(1);
            let readers = state.readers.entry_ref(key).or_default();
            let mut bytes = match readers.is_empty() {
                true => key.len() + ENTRY_BYTES,
                false => 0,
            };
            if let Err(place) = readers.binary_search(&id) {
                readers.insert(place, id);
                bytes += size_of::<u64>();
                state.items += 1;
            }
            state.readers_bytes += bytes;
        }
        state.shrink(clients, keys_max);
    }

    /// Shrinks the table to at most `keys_max` keys; 0 is no limit.
    pub fn shrink(&self, clients: &ClientRegistry, keys_max: usize) {
        self.state.lock().shrink(clients, keys_max);
    }

    /// Notifies clients of written keys.
    pub fn tell(&self, clients: &ClientRegistry, events: &[KeyspaceEvent]) {
        let mut places = HashMap::new();
        let mut keys: Vec<WrittenKey<'_>> = Vec::new();
        for event in events {
            steps::count(1);
            if event.class == Class::New || !event.is_change {
                // The event of a new key comes with another one of the same change.
                continue;
            }
            // A command may cause several events of a key, and clients are notified once.
            let place = *places.entry(&event.key[..]).or_insert_with(|| {
                keys.push(WrittenKey {
                    key: &event.key,
                    origin: event.origin,
                    is_over: false,
                });
                keys.len() - 1
            });
            if let (Class::Expired, Some(written)) = (event.class, keys.get_mut(place)) {
                written.is_over = true;
            }
        }
        if keys.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for written in &keys {
            // No client has caused the expiry of a key.
            let origin = (!written.is_over).then_some(written.origin);
            state.tell_readers(clients, written.key, origin);
        }
        state.tell_prefixes(clients, &keys);
    }

    /// Notifies all clients that all keys have been written.
    pub fn notify_all(&self, clients: &ClientRegistry) {
        let mut state = self.state.lock();
        state.forget_readers();
        for tracker in state.clients.values() {
            tracker.tell(clients, None);
        }
    }

    /// Returns the memory of the table of keys, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.state.lock().readers_bytes
    }

    /// Returns the sizes of the tables.
    pub fn counts(&self) -> TrackingCounts {
        let state = self.state.lock();
        TrackingCounts {
            clients: state.clients.len(),
            keys: state.readers.len(),
            items: state.items,
            prefixes: state.prefixes.len(),
        }
    }
}

impl TrackingTableState {
    fn forget_readers(&mut self) {
        self.readers = HashMap::new();
        self.items = 0;
        self.readers_bytes = 0;
    }

    fn shrink(&mut self, clients: &ClientRegistry, keys_max: usize) {
        // Long keys take more memory than their number suggests.
        let bytes_max = clients.share.most() / 4;
        while keys_max > 0 && self.readers.len() > keys_max || self.readers_bytes > bytes_max {
            // Any key will do, because its readers only have to read it again.
            let Some(key) = self.readers.keys().next().cloned() else {
                break;
            };
            self.tell_readers(clients, &key, None);
        }
    }

    fn tell_readers(&mut self, clients: &ClientRegistry, key: &[u8], origin: Option<u64>) {
        let Some(readers) = self.readers.remove(key) else {
            return;
        };
        self.items -= readers.len();
        self.readers_bytes -= key.len() + ENTRY_BYTES + size_of_val(&*readers);
        debug_assert!(!self.readers.is_empty() || (self.items, self.readers_bytes) == (0, 0));
        for id in readers {
            steps::count(1);
            if let Some(tracker) = self.clients.get(&id)
                && !(tracker.no_loop && origin == Some(id))
            {
                tracker.tell(clients, Some(&[key]));
            }
        }
    }

    fn tell_prefixes(&self, clients: &ClientRegistry, keys: &[WrittenKey<'_>]) {
        if self.prefixes.is_empty() {
            return;
        }
        // A client gets one message for all written keys of a prefix.
        let mut by_prefix = BTreeMap::<&[u8], (&BTreeSet<u64>, Vec<&WrittenKey<'_>>)>::new();
        for written in keys {
            for (prefix, told) in self.prefixes.of(written.key) {
                let (_, keys) = by_prefix.entry(prefix).or_insert((told, Vec::new()));
                keys.push(written);
            }
        }
        for (told, keys) in by_prefix.into_values() {
            let all: Vec<&[u8]> = keys.iter().map(|written| written.key).collect();
            for id in told {
                steps::count(1);
                let Some(tracker) = self.clients.get(id) else {
                    continue;
                };
                if !tracker.no_loop {
                    tracker.tell(clients, Some(&all));
                    continue;
                }
                // With NOLOOP, a client gets nothing about its own writes.
                let of_others = keys.iter().filter(|written| written.origin != *id);
                let of_others: Vec<&[u8]> = of_others.map(|written| written.key).collect();
                if !of_others.is_empty() {
                    tracker.tell(clients, Some(&of_others));
                }
            }
        }
    }
}

impl Tracker {
    /// Notifies the client, or the one to which it redirects, that `keys` have changed; `None`: all
    /// keys have.
    fn tell(&self, clients: &ClientRegistry, keys: Option<&[&[u8]]>) {
        let redirected = self.redirection != 0;
        let target = if redirected {
            let target = clients.get(self.redirection);
            match target {
                Some(target) => target,
                None => return self.say_broken(clients),
            }
        } else {
            Arc::clone(&self.client)
        };
        let resp3 = target.listed.resp3.load(Ordering::Relaxed);
        let mut reply = RespReply::new(if resp3 {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        });
        if resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else if redirected && target.listed.is_subscriber() {
            // In RESP2, a subscriber gets invalidations as messages of a channel.
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(b"__redis__:invalidate");
        } else {
            // The client cannot receive invalidations.
            return;
        }
        match keys {
            Some(keys) => {
                reply.array(keys.len());
                for key in keys {
                    reply.bulk(key);
                }
            }
            None => reply.null_array(),
        }
        clients.deliver(&target, reply.take().into());
    }

    /// Notifies the client itself that the client to which it redirects is gone.
    fn say_broken(&self, clients: &ClientRegistry) {
        let listed = &self.client.listed;
        listed.redirection_broken.store(true, Ordering::Relaxed);
        if listed.resp3.load(Ordering::Relaxed) {
            let mut reply = RespReply::new(Protocol::Resp3);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(self.redirection as i64);
            clients.deliver(&self.client, reply.take().into());
        }
    }
}
