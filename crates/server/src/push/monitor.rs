//! Clients that see all commands (`MONITOR`).

use crate::client::{Client, ClientShared};
use crate::connection::Clients;
use crate::resp::request::quote;
use crate::singly::{Reason, Singly};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who sees all commands.
#[derive(Debug, Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<ClientShared>>>,
}

impl Monitors {
    /// Has a client see all commands from the next on.
    pub fn join(&self, singly: &Singly, client: &Client) {
        let mut clients = self.clients.lock();
        if clients.iter().all(|other| other.id != client.shared.id) {
            clients.push(Arc::clone(&client.shared));
            let listed = &client.shared.listed;
            listed.monitoring.store(true, Ordering::Relaxed);
            singly.set(Reason::Monitor, true);
        }
    }

    /// Has a client see them no more.
    pub fn leave(&self, singly: &Singly, client: &Client) {
        let listed = &client.shared.listed;
        if !listed.monitoring.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut clients = self.clients.lock();
        clients.retain(|other| other.id != client.shared.id);
        if clients.is_empty() {
            singly.set(Reason::Monitor, false);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.clients.lock().len()
    }

    /// Shows a command to all.
    pub fn show(&self, all: &Clients, client: &Client, args: &[&[u8]]) {
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

/// A command as monitors see it: when, which database, who, and its words in quotes.
fn line(client: &Client, args: &[&[u8]]) -> Vec<u8> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let who = if client.script.runs || client.shared.id == 0 {
        "lua"
    } else {
        &client.shared.peer
    };
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let mut text = format!("+{seconds}.{micros:06} [{} {who}]", client.database);
    for word in args {
        text.push_str(" \"");
        quote(&mut text, word);
        text.push('"');
    }
    text.push_str("\r\n");
    text.into_bytes()
}
