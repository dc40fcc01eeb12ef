//! Clients that wait for a write of a key (`BLPOP` and others).
//!
//! A command that finds nothing asks to wait for its keys. Whoever writes one of these executes,
//! still in the same exclusive phase, the commands of those who wait for it, in the order in which
//! they came, so that nobody can take what is theirs in between.
//!
//! A key has a [line](WaitLine) for each thing that clients wait for there. A line is in such an
//! order that behind one who has to go on waiting all others do, too. So a write costs work for
//! those whom it serves, and not for all who wait.

use crate::client::{Choice, Client, ClientShared, Login};
use crate::object::StreamId;
use crate::resp::{Protocol, Words};
use crate::steps;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Something that clients wait for at a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitLine {
    /// An element of a list.
    List,
    /// A member of a sorted set.
    SortedSet,
    /// An entry of a stream. Those who have read least are first.
    Entries,
    /// An entry for a group of consumers, or its end.
    Group(Vec<u8>),
}

/// A place in a line: behind which entry the client has read, and when it came.
type LinePlace = (StreamId, u64);

/// A key, and the place of a client in the line there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedKey {
    /// The key.
    pub key: Vec<u8>,
    /// The last entry that the client has read, if it reads a stream.
    pub behind: StreamId,
}

/// That a command has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For one of these keys to be written.
    pub keys: Vec<AwaitedKey>,
    /// Line in which it waits at each key.
    pub line: WaitLine,
    /// Until then at most, by [`steady_ms`](crate::clock::steady_ms); `None`: for as long as it
    /// takes.
    pub until_ms: Option<u64>,
    /// What the client is answered if it has waited in vain.
    pub in_vain: Vec<u8>,
    /// The command that is executed then, if it is not the one that was sent.
    pub words: Option<Words>,
}

/// A client that waits, and what its command needs to be executed later as if it had just come.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The client.
    pub client: Arc<ClientShared>,
    /// The number of its database.
    pub database: usize,
    /// User of the client.
    login: Login,
    authenticated: bool,
    /// Tracking of the client, if it is on.
    tracking: Option<Box<Choice>>,
    /// The version of the protocol that it is answered in.
    pub protocol: Protocol,
    /// The command that it waits in.
    pub words: Words,
    /// What it waits for.
    pub wait: Wait,
}

impl Waiter {
    /// A client that waits in the command of these words.
    pub fn new(client: &Client, protocol: Protocol, words: Words, wait: Wait) -> Waiter {
        Waiter {
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

    /// The client as its command is to find it.
    pub fn resumed(&self) -> Client {
        let mut client = Client::new(Arc::clone(&self.client), self.authenticated);
        client.database = self.database;
        client.login = self.login.clone();
        client.tracking = self.tracking.clone();
        client
    }
}

/// All clients that wait.
#[derive(Debug, Default)]
pub struct Blocked {
    state: Mutex<State>,
}

/// Clients that wait at one key, by line and place.
type KeyLines = BTreeMap<WaitLine, BTreeMap<LinePlace, u64>>;

#[derive(Debug, Default)]
struct State {
    /// The clients by their numbers, each with when it came.
    waiters: HashMap<u64, (u64, Waiter)>,
    /// By the numbers of databases.
    keys: HashMap<usize, HashMap<Vec<u8>, KeyLines>>,
    /// Number of clients that have come so far.
    came: u64,
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Waiter> {
        let (came, waiter) = self.waiters.remove(&id)?;
        let keys = self.keys.get_mut(&waiter.database)?;
        for AwaitedKey { key, behind } in &waiter.wait.keys {
            steps::count(1);
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

    /// The first one in a line at a key.
    fn first(&self, database: usize, key: &[u8], line: &WaitLine) -> Option<u64> {
        let line = self.keys.get(&database)?.get(key)?.get(line)?;
        line.first_key_value().map(|(_, &id)| id)
    }
}

impl Blocked {
    /// Has a client wait. To be called in the exclusive phase.
    pub fn add(&self, waiter: Waiter) {
        let mut state = self.state.lock();
        let id = waiter.client.id;
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

    /// Ends a client's waiting, and answers what it was; `None` if it waits no more. Only who gets
    /// it may answer the client.
    pub fn remove(&self, id: u64) -> Option<Waiter> {
        self.remove_if(id, |_| true)
    }

    /// The same, if its wait is as `is` says.
    pub fn remove_if(&self, id: u64, is: impl FnOnce(&Wait) -> bool) -> Option<Waiter> {
        let mut state = self.state.lock();
        if !is(&state.waiters.get(&id)?.1.wait) {
            return None;
        }
        state.remove(id)
    }

    /// Has `serve` answer those who wait at a key, and ends the waiting of each whom it does; where
    /// it does not, all behind that one go on waiting. Nobody else can end it meanwhile, so that
    /// what they are given is not lost. `serve` must not look at who waits.
    pub fn serve(&self, database: usize, key: &[u8], mut serve: impl FnMut(&Waiter) -> bool) {
        let mut state = self.state.lock();
        let at_key = state.keys.get(&database).and_then(|keys| keys.get(key));
        let Some(lines) = at_key else { return };
        let lines: Vec<WaitLine> = lines.keys().cloned().collect();
        for line in &lines {
            while let Some(id) = state.first(database, key, line) {
                steps::count(1);
                let waiter = state.waiters.get(&id);
                if !waiter.is_some_and(|(_, waiter)| serve(waiter)) {
                    break;
                }
                state.remove(id);
            }
        }
    }

    /// The keys of a database that clients wait for.
    pub fn keys_of(&self, database: usize) -> BTreeSet<Vec<u8>> {
        let state = self.state.lock();
        let keys = state.keys.get(&database).into_iter();
        keys.flat_map(|keys| keys.keys().cloned()).collect()
    }

    /// How many clients wait.
    pub fn len(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// True if no client waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
