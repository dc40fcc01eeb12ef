//! Clients that see all commands (`MONITOR`).

use crate::client::{ClientSession, ClientShared};
use crate::connection::ClientRegistry;
use crate::resp::request::quote;
use crate::singly::{SequentialReason, Singly};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clients that see all commands.
#[derive(Debug, Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<ClientShared>>>,
}

impl Monitors {
    /// Adds a client, which sees all commands from the next on.
    pub fn join(&self, singly: &Singly, client: &ClientSession) {
        let mut clients = self.clients.lock();
        if clients.iter().all(|other| other.id != client.shared.id) {
            clients.push(Arc::clone(&client.shared));
            let listed = &client.shared.listed;
            listed.monitoring.store(true, Ordering::Relaxed);
            // Under the lock, so that a client that leaves meanwhile does not undo it.
            singly.set(SequentialReason::Monitor, true);
        }
    }

    /// Removes a client, which then sees no more commands.
    pub fn leave(&self, singly: &Singly, client: &ClientSession) {
        let listed = &client.shared.listed;
        if !listed.monitoring.swap(false, Ordering::Relaxed) {
            // Most clients are not in the list, and need not lock it.
            return;
        }
        let mut clients = self.clients.lock();
        let before = clients.len();
        clients.retain(|other| other.id != client.shared.id);
        debug_assert_eq!(clients.len() + 1, before, "a client with the flag is here");
        if clients.is_empty() {
            singly.set(SequentialReason::Monitor, false);
        }
    }

    /// Returns the number of these clients.
    pub fn count(&self) -> usize {
        self.clients.lock().len()
    }

    /// Sends a command to all of them.
    pub fn show(&self, all: &ClientRegistry, client: &ClientSession, args: &[&[u8]]) {
        let clients = self.clients.lock();
        if clients.is_empty() {
            return;
        }
        let bytes: Arc<[u8]> = line(client, args).into();
        for monitor in clients.iter() {
            all.deliver(monitor, Arc::clone(&bytes));
        }
    }
}

/// Returns a command as monitors see it: the time, the database, the client, and its words in
/// quotes.
fn line(client: &ClientSession, args: &[&[u8]]) -> Vec<u8> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    // As in Redis, the commands of scripts have no address.
    let source = if client.script.runs || client.shared.id == 0 {
        "lua"
    } else {
        &client.shared.peer
    };
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let mut text = format!("+{seconds}.{micros:06} [{} {source}]", client.database);
    for word in args {
        text.push_str(" \"");
        quote(&mut text, word);
        text.push('"');
    }
    text.push_str("\r\n");
    text.into_bytes()
}
