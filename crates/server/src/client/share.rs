//! The share of memory that clients may take, and the parts of it that they hold.
//!
//! Clients hold requests that were received but not executed, replies that wait to be sent, and
//! state that the server keeps for them: queued commands, names of subscriptions, watched keys. The
//! thread of a client counts its memory between commands. Where all clients together hold more than
//! they may, those that hold most are closed, before other clients lose keys to eviction.

use super::{ClientListFields, ClientShared};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Approximate overhead of a stored name, key or word, in bytes.
pub const ENTRY_BYTES: usize = 64;

/// Memory that all clients hold, and its limit.
#[derive(Debug)]
pub struct ClientShare {
    /// Largest number of bytes that they may hold.
    most: AtomicUsize,
    /// Largest number of bytes that may wait for one client in the mailbox of its thread.
    most_delivered: AtomicUsize,
    held: AtomicUsize,
    /// Bytes of memory of clients that are about to be closed.
    doomed: AtomicUsize,
    /// Bytes of memory of all clients when none could be closed.
    in_vain: AtomicUsize,
    /// Number of clients that were closed for the memory that they held, since the start.
    evicted: AtomicU64,
    /// Number of clients that were closed because too much waited for them in a mailbox.
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
    /// Changes the bytes that all clients may hold, and those that may wait for one in a mailbox.
    pub fn configure(&self, most: usize, most_delivered: usize) {
        self.most.store(most, Relaxed);
        self.most_delivered.store(most_delivered.min(most), Relaxed);
        self.in_vain.store(0, Relaxed);
    }

    /// Returns the largest number of bytes that all clients may hold, and therefore one.
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

    /// Returns true if some client must be closed.
    #[inline]
    pub fn exceeds_limit(&self) -> bool {
        let held = self.held();
        held > self.most() && { self.held_to_stay() > self.most().max(self.in_vain.load(Relaxed)) }
    }

    /// Returns true if the server may keep `bytes` more bytes for a client.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.held_to_stay().saturating_add(bytes) <= self.most()
    }

    /// Notes that a client holds `bytes` bytes, without those in a mailbox.
    #[inline]
    pub fn note(&self, client: &ClientShared, bytes: usize) {
        let own = &client.listed.held_bytes;
        if own.load(Relaxed) != bytes {
            let before = own.swap(bytes, Relaxed);
            self.change(before, bytes);
            // The client is about to be closed, and was counted as doomed with its memory at that
            // time.
            let doomed = &client.listed.doomed_bytes;
            if doomed.load(Relaxed) > bytes {
                let before = doomed.swap(bytes, Relaxed);
                self.doomed.fetch_sub(before.saturating_sub(bytes), Relaxed);
            }
        }
    }

    fn change(&self, before: usize, after: usize) {
        // The new bytes are added first, because the sum must not wrap around below zero.
        self.held.fetch_add(after, Relaxed);
        self.held.fetch_sub(before, Relaxed);
    }

    /// Notes that a message will wait for a client in a mailbox. Returns false if too much waits
    /// there, or would: the message must then not be left.
    #[must_use]
    pub fn note_delivered(&self, client: &ClientShared, bytes: usize) -> bool {
        let waiting = client.listed.delivered_bytes.load(Relaxed) + bytes;
        let unsent = client.listed.output_bytes.load(Relaxed);
        // One message may wait in any case, so that a client is not closed for the memory of
        // others.
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

    /// Marks a client to be closed. Returns false if that was done already.
    pub fn mark_for_close(&self, client: &ClientShared) -> bool {
        let is_new = !client.killed.swap(true, AcqRel);
        if is_new {
            // From here on its memory does not count, or more clients than necessary would be
            // closed.
            let held = client.listed.held_bytes.load(Relaxed);
            client.listed.doomed_bytes.store(held, Relaxed);
            self.doomed.fetch_add(held, Relaxed);
        }
        is_new
    }

    /// Marks a client to be closed because too much waits for it in a mailbox. Returns false if
    /// that was done already.
    pub fn mark_overfilled_for_close(&self, client: &ClientShared) -> bool {
        let is_new = self.mark_for_close(client);
        self.overfilled.fetch_add(u64::from(is_new), Relaxed);
        is_new
    }

    /// Returns the numbers of clients that were closed for the memory that they held, and for the
    /// messages in their mailbox, since the counts were last reset.
    pub fn closed(&self) -> (u64, u64) {
        (self.evicted.load(Relaxed), self.overfilled.load(Relaxed))
    }

    /// Resets the numbers of closed clients to zero.
    pub fn forget_closed(&self) {
        self.evicted.store(0, Relaxed);
        self.overfilled.store(0, Relaxed);
    }

    /// Forgets a client with a closed connection and without messages.
    pub fn forget(&self, client: &ClientShared) {
        self.note(client, 0);
        let delivered = client.listed.delivered_bytes.swap(0, Relaxed);
        self.change(delivered, 0);
    }

    /// Marks those of `clients` that hold most to be closed, until the others hold no more than
    /// they may.
    pub fn mark_largest_for_close<'c>(
        &self,
        clients: impl Iterator<Item = &'c Arc<ClientShared>>,
    ) -> Vec<Arc<ClientShared>> {
        let held = |listed: &ClientListFields| {
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
            if self.mark_for_close(client) {
                doomed.push(Arc::clone(client));
            }
        }
        self.evicted.fetch_add(doomed.len() as u64, Relaxed);
        if doomed.is_empty() {
            // Clients that may not be closed hold the rest. The next search waits until they hold
            // more.
            self.in_vain.store(self.held_to_stay(), Relaxed);
        }
        doomed
    }

    /// Allows [`mark_largest_for_close`](ClientShare::mark_largest_for_close) to be tried again
    /// after it found none.
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
        assert_eq!((share.held(), share.exceeds_limit()), (1400, true));
        let ids =
            |doomed: Vec<Arc<ClientShared>>| doomed.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(share.mark_largest_for_close(clients.iter())), [3]);
        assert!(!share.exceeds_limit() && share.has_room_for(200) && !share.has_room_for(201));
        share.forget(&clients[2]);
        assert_eq!((share.held(), share.has_room_for(200)), (800, true));
        // A client that may not be closed is tried only once.
        clients.iter().for_each(|it| it.listed.set_no_evict(true));
        share.note(&clients[0], 3000);
        assert!(share.exceeds_limit());
        assert!(share.mark_largest_for_close(clients.iter()).is_empty());
        assert!(!share.exceeds_limit());
        share.try_again();
        assert!(share.exceeds_limit());
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
