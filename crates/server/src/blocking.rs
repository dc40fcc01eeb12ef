//! Clients that wait for a write of a key (`BLPOP` and others).
//!
//! A command that finds nothing asks to wait for its keys. A thread that writes one of these keys
//! executes the commands of the waiting clients, still in the same exclusive phase, in the order in
//! which they arrived. No other client can take the elements in between.
//!
//! A key has a [line](WaitLine) for each kind of thing that clients wait for there. A line is
//! ordered in such a way that if one client must continue to wait, all clients after it must, too.
//! The work of a write thus grows with the clients that it serves, not with all that wait.

use crate::client::{ClientSession, ClientShared, Login, TrackingOptions};
use crate::object::StreamId;
use crate::resp::{Protocol, Words};
use crate::steps;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kinds of things that clients wait for at a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitLine {
    /// An element of a list.
    List,
    /// A member of a sorted set.
    SortedSet,
    /// An entry of a stream. The clients that have read least are first.
    Entries,
    /// An entry for a group of consumers, or its end.
    Group(Vec<u8>),
}

/// A place in a line: the last entry that the client has read, and its time of arrival.
type LinePlace = (StreamId, u64);

/// A key, and the place of a client in the line there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedKey {
    /// The key.
    pub key: Vec<u8>,
    /// The last entry that the client has read, if it reads a stream.
    pub behind: StreamId,
}

/// The wait that a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The keys; a write of one of them ends the wait.
    pub keys: Vec<AwaitedKey>,
    /// The line in which it waits at each key.
    pub line: WaitLine,
    /// The deadline, by [`steady_ms`](crate::clock::steady_ms); `None`: there is no timeout.
    pub until_ms: Option<u64>,
    /// The reply to the client if the wait times out.
    pub in_vain: Vec<u8>,
    /// The command that is executed then, if it is not the one that was sent.
    pub words: Option<Words>,
}

/// A client that waits, and the state that its command needs to be executed later as if it had just
/// arrived.
#[derive(Clone, Debug)]
pub struct BlockedClient {
    /// The client.
    pub client: Arc<ClientShared>,
    /// The number of its database.
    pub database: usize,
    /// User of the client.
    login: Login,
    authenticated: bool,
    /// Tracking of the client, if it is on.
    tracking: Option<Box<TrackingOptions>>,
    /// The version of the protocol for its reply.
    pub protocol: Protocol,
    /// The command that it waits in.
    pub words: Words,
    /// The wait.
    pub wait: Wait,
}

impl BlockedClient {
    /// Creates a client that waits in the command of these words.
    pub fn new(
        client: &ClientSession,
        protocol: Protocol,
        words: Words,
        wait: Wait,
    ) -> BlockedClient {
        BlockedClient {
            client: Arc::clone(&client.shared),
            database: client.database,
            login: client.login.clone(),
            authenticated: client.authenticated,
            tracking: client.tracking.clone(),
            protocol,
            words,
            wait,
        }
    }

    /// Creates the client for which its command is executed.
    pub fn resumed(&self) -> ClientSession {
        let mut client = ClientSession::new(Arc::clone(&self.client), self.authenticated);
        client.database = self.database;
        client.login = self.login.clone();
        client.tracking = self.tracking.clone();
        client
    }
}

/// All clients that wait.
#[derive(Debug, Default)]
pub struct BlockedClients {
    state: Mutex<BlockedClientTable>,
}

/// Clients that wait at one key, by line and place.
type KeyLines = BTreeMap<WaitLine, BTreeMap<LinePlace, u64>>;

#[derive(Debug, Default)]
struct BlockedClientTable {
    /// The clients by their numbers, each with its order of arrival.
    waiters: HashMap<u64, (u64, BlockedClient)>,
    /// The keys, by the numbers of databases.
    keys: HashMap<usize, HashMap<Vec<u8>, KeyLines>>,
    /// Number of clients that have arrived so far.
    came: u64,
}

impl BlockedClientTable {
    fn remove(&mut self, id: u64) -> Option<BlockedClient> {
        let (came, waiter) = self.waiters.remove(&id)?;
        let keys = self.keys.get_mut(&waiter.database)?;
        for AwaitedKey { key, behind } in &waiter.wait.keys {
            steps::count(1);
            // A command may name a key twice, and both are one place in the line.
            let Some(lines) = keys.get_mut(key) else {
                continue;
            };
            if let Some(line) = lines.get_mut(&waiter.wait.line) {
                line.remove(&(*behind, came));
                if line.is_empty() {
                    lines.remove(&waiter.wait.line);
                }
            }
            if lines.is_empty() {
                keys.remove(key);
            }
        }
        Some(waiter)
    }

    /// Returns the first client in a line at a key.
    fn first(&self, database: usize, key: &[u8], line: &WaitLine) -> Option<u64> {
        let line = self.keys.get(&database)?.get(key)?.get(line)?;
        debug_assert!(!line.is_empty(), "a line ends with its last client");
        line.first_key_value().map(|(_, &id)| id)
    }
}

impl BlockedClients {
    /// Makes a client wait. Call it in the exclusive phase.
    pub fn add(&self, waiter: BlockedClient) {
        let mut state = self.state.lock();
        let id = waiter.client.id;
        debug_assert!(
            !state.waiters.contains_key(&id),
            "a client waits in one command at a time"
        );
        // The order of arrival also tells clients apart that have read equally far.
        state.came += 1;
        let came = state.came;
        let keys = state.keys.entry(waiter.database).or_default();
        for AwaitedKey { key, behind } in &waiter.wait.keys {
            steps::count(1);
            let lines = keys.entry_ref(&key[..]).or_default();
            let line = lines.entry(waiter.wait.line.clone()).or_default();
            line.insert((*behind, came), id);
        }
        state.waiters.insert(id, (came, waiter));
    }

    /// Ends the wait of a client and returns it; `None` if it does not wait any more. Only the
    /// caller that gets it may reply to the client.
    pub fn remove(&self, id: u64) -> Option<BlockedClient> {
        self.remove_if(id, |_| true)
    }

    /// Does the same as [`remove`](BlockedClients::remove), if `is` returns true for the wait.
    pub fn remove_if(&self, id: u64, is: impl FnOnce(&Wait) -> bool) -> Option<BlockedClient> {
        let mut state = self.state.lock();
        // One lock covers the check and the removal, so that no thread serves the client in
        // between.
        if !is(&state.waiters.get(&id)?.1.wait) {
            return None;
        }
        state.remove(id)
    }

    /// Calls `serve` for the clients that wait at a key, in their order, and ends the wait of each
    /// for which it returns true. At the first false, all later clients of that line continue to
    /// wait. No other thread can end a wait meanwhile, so that elements given to a client are not
    /// lost. `serve` must not use the waiting clients in here.
    pub fn serve(
        &self,
        database: usize,
        key: &[u8],
        mut serve: impl FnMut(&BlockedClient) -> bool,
    ) {
        let mut state = self.state.lock();
        let at_key = state.keys.get(&database).and_then(|keys| keys.get(key));
        let Some(lines) = at_key else { return };
        // Served clients leave their lines, and may take the last line of the key with them.
        let lines: Vec<WaitLine> = lines.keys().cloned().collect();
        for line in &lines {
            while let Some(id) = state.first(database, key, line) {
                steps::count(1);
                let waiter = state.waiters.get(&id);
                debug_assert!(waiter.is_some(), "only clients that wait have a place");
                // The client stays in its place, so that it is first at the next write as well.
                if !waiter.is_some_and(|(_, waiter)| serve(waiter)) {
                    break;
                }
                state.remove(id);
            }
        }
    }

    /// Returns the keys of a database that clients wait for.
    pub fn keys_of(&self, database: usize) -> BTreeSet<Vec<u8>> {
        let state = self.state.lock();
        let keys = state.keys.get(&database).into_iter();
        keys.flat_map(|keys| keys.keys().cloned()).collect()
    }

    /// Returns the number of clients that wait.
    pub fn len(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// Returns true if no client waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
