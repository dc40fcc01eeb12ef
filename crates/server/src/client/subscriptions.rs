//! The subscriptions of one client.

use super::{ClientShared, ENTRY_BYTES};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// The kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of one shard of a cluster, which is separate from the others.
    Shard,
}

/// The names that a client has subscribed to, each kind in order.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shard_channels: BTreeSet<Vec<u8>>,
    /// Bytes of all names.
    names_bytes: usize,
}

impl Subscriptions {
    /// Returns all names of a kind.
    pub fn of(&self, topic: Topic) -> &BTreeSet<Vec<u8>> {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shard_channels,
        }
    }

    /// Adds a name. Returns true if it is new. Call [`show`](Self::show) afterwards.
    pub fn insert(&mut self, topic: Topic, name: &[u8]) -> bool {
        let is_new = self.of_mut(topic).insert(name.to_vec());
        if is_new {
            self.names_bytes += name.len();
        }
        is_new
    }

    /// Removes a name. Returns true if it was there. Call [`show`](Self::show) afterwards.
    pub fn remove(&mut self, topic: Topic, name: &[u8]) -> bool {
        let was_there = self.of_mut(topic).remove(name);
        if was_there {
            self.names_bytes -= name.len();
        }
        debug_assert!(
            self.any() || self.names_bytes == 0,
            "the bytes are those of the names"
        );
        was_there
    }

    /// Returns the memory of the subscriptions, in bytes: each name counts twice.
    #[inline]
    pub fn bytes(&self) -> usize {
        let names = self.channels.len() + self.patterns.len() + self.shard_channels.len();
        // The server's table of listeners has each name as well.
        2 * (self.names_bytes + names * ENTRY_BYTES)
    }

    fn of_mut(&mut self, topic: Topic) -> &mut BTreeSet<Vec<u8>> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shard_channels,
        }
    }

    /// Returns the count that a client receives after it has changed a subscription: shard channels
    /// are counted separately from all others.
    pub fn count_for(&self, topic: Topic) -> usize {
        match topic {
            Topic::Shard => self.shard_channels.len(),
            Topic::Channel | Topic::Pattern => self.channels.len() + self.patterns.len(),
        }
    }

    /// Returns true if there are subscriptions.
    pub fn any(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty())
    }

    /// Publishes the numbers of subscriptions.
    pub fn show(&self, client: &ClientShared) {
        let listed = &client.listed;
        // Other threads list the client, but only its own has the names.
        let counters = [&listed.channels, &listed.patterns, &listed.shard_channels];
        for (counter, topic) in
            counters
                .into_iter()
                .zip([Topic::Channel, Topic::Pattern, Topic::Shard])
        {
            counter.store(self.of(topic).len(), Ordering::Relaxed);
        }
    }
}
