//! The share of memory that clients may take, and what they hold of it.
//!
//! Clients hold what they have sent and the server has not executed, what waits to be sent to them,
//! and what the server remembers for them: queued commands, names that they listen to, keys that
//! they watch. The thread of a client counts what it holds between commands. Where all of them hold
//! more than they may, those that hold most are closed, before they cost others their keys.

use super::{ClientShared, Listed};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Approximate overhead of a stored name, key or word, in bytes.
pub const ENTRY_BYTES: usize = 64;

/// Memory that all clients hold, and its limit.
#[derive(Debug)]
pub struct ClientShare {
    /// The most that they may hold.
    most: AtomicUsize,
    /// The most that may wait for one of them in the mailbox of its thread.
    most_delivered: AtomicUsize,
    held: AtomicUsize,
    /// Memory of clients that are about to be closed.
    doomed: AtomicUsize,
    /// Memory of all clients when there was none to close.
    in_vain: AtomicUsize,
    /// Clients that were closed for what they held, since the start.
    evicted: AtomicU64,
    /// Clients that were closed as too much waited for them in a mailbox.
    overfilled: AtomicU64,
}

impl Default for ClientShare {
    fn default() -> ClientShare {
        ClientShare {
            most: AtomicUsize::new(usize::MAX),
            most_delivered: AtomicUsize::new(usize::MAX),
            held: AtomicUsize::new(0),
            doomed: AtomicUsize::new(0),
            in_vain: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            overfilled: AtomicU64::new(0),
        }
    }
}

impl ClientShare {
    /// Changes how much all clients may hold, and how much may wait for one in a mailbox.
    pub fn configure(&self, most: usize, most_delivered: usize) {
        self.most.store(most, Relaxed);
        self.most_delivered.store(most_delivered.min(most), Relaxed);
        self.in_vain.store(0, Relaxed);
    }

    /// The most that all clients may hold, and therefore one.
    #[inline]
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Returns the memory that all clients hold, in bytes.
    #[inline]
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Returns the memory of clients that are not about to be closed.
    fn held_to_stay(&self) -> usize {
        self.held().saturating_sub(self.doomed.load(Relaxed))
    }

    /// Returns the memory that all clients may still take.
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.held_to_stay())
    }

    /// True if some client is to be closed.
    #[inline]
    pub fn is_over(&self) -> bool {
        let held = self.held();
        held > self.most() && { self.held_to_stay() > self.most().max(self.in_vain.load(Relaxed)) }
    }

    /// True if the server may remember so many bytes more for a client.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.held_to_stay().saturating_add(bytes) <= self.most()
    }

    /// Notes that a client holds so many bytes, apart from what lies in a mailbox.
    #[inline]
    pub fn note(&self, client: &ClientShared, bytes: usize) {
        let own = &client.listed.held_bytes;
        if own.load(Relaxed) != bytes {
            let before = own.swap(bytes, Relaxed);
            self.change(before, bytes);
            // It is known to be closed by what it held then.
            let doomed = &client.listed.doomed_bytes;
            if doomed.load(Relaxed) > bytes {
                let before = doomed.swap(bytes, Relaxed);
                self.doomed.fetch_sub(before.saturating_sub(bytes), Relaxed);
            }
        }
    }

    fn change(&self, before: usize, after: usize) {
        self.held.fetch_add(after, Relaxed);
        self.held.fetch_sub(before, Relaxed);
    }

    /// Notes that a message is to wait for a client in a mailbox. False if too much waits there, or
    /// would: the message is not to be left.
    #[must_use]
    pub fn note_delivered(&self, client: &ClientShared, bytes: usize) -> bool {
        let waiting = client.listed.delivered_bytes.load(Relaxed) + bytes;
        let unsent = client.listed.output_bytes.load(Relaxed);
        if waiting.saturating_add(unsent) > self.most_delivered.load(Relaxed)
            || waiting > bytes && !self.has_room_for(bytes)
        {
            return false;
        }
        client.listed.delivered_bytes.fetch_add(bytes, Relaxed);
        self.change(0, bytes);
        true
    }

    /// Notes that a message was taken out of the mailbox.
    pub fn note_received(&self, client: &ClientShared, bytes: usize) {
        client.listed.delivered_bytes.fetch_sub(bytes, Relaxed);
        self.change(bytes, 0);
    }

    /// Has a client be closed. False if it is about to be.
    pub fn doom(&self, client: &ClientShared) -> bool {
        let is_new = !client.killed.swap(true, AcqRel);
        if is_new {
            let held = client.listed.held_bytes.load(Relaxed);
            client.listed.doomed_bytes.store(held, Relaxed);
            self.doomed.fetch_add(held, Relaxed);
        }
        is_new
    }

    /// Has a client be closed for which too much waits in a mailbox. False if it is about to be.
    pub fn doom_overfilled(&self, client: &ClientShared) -> bool {
        let is_new = self.doom(client);
        self.overfilled.fetch_add(u64::from(is_new), Relaxed);
        is_new
    }

    /// Returns the numbers of clients that were closed for the memory that they held, and for the
    /// messages in their mailbox, since the counts were last reset.
    pub fn closed(&self) -> (u64, u64) {
        (self.evicted.load(Relaxed), self.overfilled.load(Relaxed))
    }

    /// Begins to count clients that are closed from zero.
    pub fn forget_closed(&self) {
        self.evicted.store(0, Relaxed);
        self.overfilled.store(0, Relaxed);
    }

    /// Forgets a client whose connection is closed and for which nothing is left any more.
    pub fn forget(&self, client: &ClientShared) {
        self.note(client, 0);
        let delivered = client.listed.delivered_bytes.swap(0, Relaxed);
        self.change(delivered, 0);
    }

    /// Dooms those of `clients` that hold most, until the others hold no more than they may.
    pub fn doom_largest<'c>(
        &self,
        clients: impl Iterator<Item = &'c Arc<ClientShared>>,
    ) -> Vec<Arc<ClientShared>> {
        let held = |listed: &Listed| {
            listed.held_bytes.load(Relaxed) + listed.delivered_bytes.load(Relaxed)
        };
        let may_go = |client: &&Arc<ClientShared>| {
            !client.killed.load(Relaxed) && !client.listed.no_evict.load(Relaxed)
        };
        let mut all: Vec<_> = clients
            .filter(may_go)
            .map(|client| (held(&client.listed), client))
            .collect();
        all.sort_unstable_by_key(|(held, client)| (*held, client.id));
        let mut doomed = Vec::new();
        while self.held_to_stay() > self.most()
            && let Some((_, client)) = all.pop()
        {
            if self.doom(client) {
                doomed.push(Arc::clone(client));
            }
        }
        self.evicted.fetch_add(doomed.len() as u64, Relaxed);
        if doomed.is_empty() {
            self.in_vain.store(self.held_to_stay(), Relaxed);
        }
        doomed
    }

    /// Has [`doom_largest`](ClientShare::doom_largest) be tried again if it was in vain.
    pub fn try_again(&self) {
        self.in_vain.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: u64) -> Arc<ClientShared> {
        Arc::new(ClientShared::new(id, 0, String::new(), String::new(), 0))
    }

    #[test]
    fn the_clients_that_hold_most_are_closed_first() {
        let share = ClientShare::default();
        share.configure(1000, 500);
        let clients: Vec<_> = (1..=4).map(client).collect();
        for (client, bytes) in clients.iter().zip([300, 100, 600, 400]) {
            share.note(client, bytes);
        }
        assert_eq!((share.held(), share.is_over()), (1400, true));
        let ids =
            |doomed: Vec<Arc<ClientShared>>| doomed.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(share.doom_largest(clients.iter())), [3]);
        assert!(!share.is_over() && share.has_room_for(200) && !share.has_room_for(201));
        share.forget(&clients[2]);
        assert_eq!((share.held(), share.has_room_for(200)), (800, true));
        // A client that need not be closed is asked once.
        clients.iter().for_each(|it| it.listed.set_no_evict(true));
        share.note(&clients[0], 3000);
        assert!(share.is_over());
        assert!(share.doom_largest(clients.iter()).is_empty());
        assert!(!share.is_over());
        share.try_again();
        assert!(share.is_over());
        clients.iter().for_each(|it| share.forget(it));
        assert_eq!((share.held(), share.held_to_stay()), (0, 0));
    }

    #[test]
    fn what_waits_in_a_mailbox_is_bounded() {
        let share = ClientShare::default();
        share.configure(1000, 500);
        let (one, other) = (client(1), client(2));
        assert!(share.note_delivered(&one, 300) && !share.note_delivered(&one, 201));
        assert!(share.note_delivered(&other, 500) && share.held() == 800);
        share.note_received(&one, 300);
        share.forget(&other);
        assert_eq!(share.held(), 0);
    }
}
