//! All clients, and the mailboxes of the threads that serve them.

use super::mailbox::{IoThreadMessage, Mailbox};
use crate::client::{ClientShare, ClientShared};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The clients by their numbers, and the mailboxes of their threads.
#[derive(Debug, Default)]
pub struct ClientRegistry {
    by_id: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    /// The number of the newest client.
    last: AtomicU64,
    mailboxes: OnceLock<Vec<Mailbox>>,
    /// Memory that clients hold, and its limit.
    pub share: Arc<ClientShare>,
}

impl ClientRegistry {
    /// Returns a number for a client, which no other has had.
    pub fn next_id(&self) -> u64 {
        // 0 is the number of no client.
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the clients by their numbers.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        self.by_id.lock()
    }

    /// Returns the client of a number.
    pub fn get(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Gives each thread its mailbox, once.
    pub fn set_mailboxes(&self, mailboxes: Vec<Mailbox>) {
        self.mailboxes.get_or_init(|| mailboxes);
    }

    /// Returns the mailboxes of all threads, by the threads' numbers.
    pub fn mailboxes(&self) -> &[Mailbox] {
        self.mailboxes.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the mailbox of the thread that serves a client.
    pub fn mailbox_of(&self, client: &ClientShared) -> Option<&Mailbox> {
        self.mailboxes().get(client.thread())
    }

    /// Sends a message to the thread of a client.
    pub fn send(&self, client: &ClientShared, message: IoThreadMessage) {
        if let Some(mailbox) = self.mailbox_of(client) {
            mailbox.send(message);
        }
    }

    /// Sends complete values of the protocol to a client. A client for which too much waits is
    /// closed instead.
    pub fn deliver(&self, client: &ClientShared, bytes: Arc<[u8]>) {
        let id = client.id;
        if client.killed.load(Ordering::Relaxed) {
            // Its connection is about to be closed, so the bytes would only take memory.
            return;
        }
        if self.share.note_delivered(client, bytes.len()) {
            self.send(client, IoThreadMessage::Deliver { client: id, bytes });
        } else if self.share.mark_overfilled_for_close(client) {
            self.send(client, IoThreadMessage::Close { client: id });
        }
    }

    /// Closes the clients that hold most of the memory if all hold more than they may. Returns the
    /// clients that are closed.
    pub fn relieve(&self) -> Vec<Arc<ClientShared>> {
        let doomed = self
            .share
            .mark_largest_for_close(self.by_id.lock().values());
        for client in &doomed {
            let id = client.id;
            self.send(client, IoThreadMessage::Close { client: id });
        }
        doomed
    }

    /// Wakes all threads.
    pub fn wake_all(&self) {
        for mailbox in self.mailboxes() {
            mailbox.wake();
        }
    }
}
