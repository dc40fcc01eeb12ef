//! Clients that wait for a write of a key (`BLPOP` and others).
//!
//! A command that finds nothing asks to wait for its keys. Whoever writes one of these executes,
//! still in the same exclusive phase, the commands of those who wait for it, in the order in which
//! they came, so that nobody can take what is theirs in between.

use crate::client::ClientShared;
use crate::resp::{Protocol, Words};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A key with the number of its database.
type DatabaseKey = (usize, Vec<u8>);

/// That a command has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For one of these keys to be written.
    pub keys: Vec<Vec<u8>>,
    /// Until then at most, in milliseconds since 1970; `None`: for as long as it takes.
    pub until_ms: Option<u64>,
    /// What the client is answered if it has waited in vain.
    pub in_vain: Vec<u8>,
    /// The command that is executed then, if it is not the one that was sent.
    pub words: Option<Words>,
}

/// A client that waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The client.
    pub client: Arc<ClientShared>,
    /// The number of its database.
    pub database: usize,
    /// The version of the protocol that it is answered in.
    pub protocol: Protocol,
    /// The command that it waits in.
    pub words: Words,
    /// What it waits for.
    pub wait: Wait,
}

/// All clients that wait.
#[derive(Debug, Default)]
pub struct Blocked {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiters: HashMap<u64, Waiter>,
    queues: HashMap<DatabaseKey, VecDeque<u64>>,
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        for key in &waiter.wait.keys {
            let key = (waiter.database, key.clone());
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.retain(|&other| other != id);
                if queue.is_empty() {
                    self.queues.remove(&key);
                }
            }
        }
        Some(waiter)
    }
}

impl Blocked {
    /// Has a client wait. To be called in the exclusive phase.
    pub fn add(&self, waiter: Waiter) {
        let mut state = self.state.lock();
        let id = waiter.client.id;
        for key in &waiter.wait.keys {
            let queue = state.queues.entry((waiter.database, key.clone()));
            let queue = queue.or_default();
            if !queue.contains(&id) {
                queue.push_back(id);
            }
        }
        state.waiters.insert(id, waiter);
    }

    /// Ends a client's waiting, and answers what it was; `None` if it waits no more. Only who gets
    /// it may answer the client.
    pub fn remove(&self, id: u64) -> Option<Waiter> {
        self.remove_if(id, |_| true)
    }

    /// The same, if its wait is as `is` says.
    pub fn remove_if(&self, id: u64, is: impl FnOnce(&Wait) -> bool) -> Option<Waiter> {
        let mut state = self.state.lock();
        if !is(&state.waiters.get(&id)?.wait) {
            return None;
        }
        state.remove(id)
    }

    /// Has `serve` answer a client that waits, and ends its waiting if it does. Nobody else can end
    /// it meanwhile, so that what it is given is not lost. `serve` must not look at who waits.
    pub fn serve(&self, id: u64, serve: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.waiters.contains_key(&id) && serve() {
            state.remove(id);
        }
    }

    /// Who waits for a key, in the order in which they came.
    pub fn waiting_for(&self, database: usize, key: &[u8]) -> Vec<Waiter> {
        let state = self.state.lock();
        let Some(queue) = state.queues.get(&(database, key.to_vec())) else {
            return Vec::new();
        };
        let waiter = |id| state.waiters.get(id).cloned();
        queue.iter().filter_map(waiter).collect()
    }

    /// The keys of a database that clients wait for.
    pub fn keys_of(&self, database: usize) -> Vec<Vec<u8>> {
        let state = self.state.lock();
        let of = |key: &&DatabaseKey| key.0 == database;
        state
            .queues
            .keys()
            .filter(of)
            .map(|key| key.1.clone())
            .collect()
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
