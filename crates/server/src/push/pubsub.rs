//! Publishing and subscribing: the listeners of channels and patterns.
//!
//! A message is written once for each version of the protocol and left in the mailbox of the thread
//! of each subscriber, while the registry is locked. A thread that has removed a subscription
//! therefore finds in its own mailbox all messages that were published before, and none arrives
//! later.

use super::prefixes::PrefixTable;
use crate::client::{ClientSession, ClientShared, Topic};
use crate::connection::ClientRegistry;
use crate::glob;
use crate::resp::{Protocol, RespReply};
use crate::steps;
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The listeners of each name, by their numbers.
type Listeners = HashMap<Vec<u8>, BTreeMap<u64, Arc<ClientShared>>>;

/// The listeners of all channels and patterns.
#[derive(Debug, Default)]
pub struct PubSub {
    state: RwLock<PubSubState>,
}

#[derive(Debug, Default)]
struct PubSubState {
    channels: Listeners,
    patterns: Listeners,
    shard_channels: Listeners,
    /// The patterns, by the prefix that all their channels have.
    by_prefix: PrefixTable<BTreeSet<Vec<u8>>>,
}

impl PubSubState {
    fn of(&self, topic: Topic) -> &Listeners {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shard_channels,
        }
    }

    fn of_mut(&mut self, topic: Topic) -> &mut Listeners {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shard_channels,
        }
    }
}

impl PubSub {
    /// Adds a subscription of a client.
    pub fn add(&self, topic: Topic, name: &[u8], client: &Arc<ClientShared>) {
        let mut state = self.state.write();
        let listeners = state.of_mut(topic).entry_ref(name).or_default();
        listeners.insert(client.id, Arc::clone(client));
        if topic == Topic::Pattern {
            let patterns = state.by_prefix.get_or_default(&glob::prefix(name));
            patterns.insert(name.to_vec());
        }
    }

    /// Removes a subscription of a client.
    pub fn remove(&self, topic: Topic, name: &[u8], client: &ClientShared) {
        let mut state = self.state.write();
        let all = state.of_mut(topic);
        if let Some(listeners) = all.get_mut(name) {
            steps::count(1);
            listeners.remove(&client.id);
            if listeners.is_empty() {
                all.remove(name);
                if topic == Topic::Pattern {
                    state.by_prefix.change(&glob::prefix(name), |patterns| {
                        let removed = patterns.remove(name);
                        debug_assert!(removed, "all patterns are in both tables");
                        patterns.is_empty()
                    });
                }
            }
        }
    }

    /// Ends all subscriptions of a client.
    pub fn leave(&self, client: &mut ClientSession) {
        if !client.subscriptions.any() {
            return;
        }
        let subscriptions = std::mem::take(&mut client.subscriptions);
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            for name in subscriptions.of(topic) {
                self.remove(topic, name, &client.shared);
            }
        }
        client.subscriptions.show(&client.shared);
    }

    /// Returns the number of listeners that have subscribed to a channel by its name.
    pub fn listeners(&self, topic: Topic, name: &[u8]) -> usize {
        let state = self.state.read();
        let listeners = state.of(topic).get(name).into_iter().flatten();
        listeners.filter(|(_, client)| !is_killed(client)).count()
    }

    /// Returns the names with subscribers that match `pattern`, in order.
    pub fn names(&self, topic: Topic, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let state = self.state.read();
        let is =
            |name: &&Vec<u8>| pattern.is_none_or(|pattern| glob::matches_bounded(pattern, name));
        let mut names: Vec<_> = state.of(topic).keys().filter(is).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the number of names of a kind that have subscribers.
    pub fn count(&self, topic: Topic) -> usize {
        self.state.read().of(topic).len()
    }

    /// Returns the clients of a user with subscriptions that `may` does not allow. A client may be
    /// in the list several times.
    pub fn listeners_denied(
        &self,
        user: &[u8],
        may: impl Fn(Topic, &[u8]) -> bool,
    ) -> Vec<Arc<ClientShared>> {
        let state = self.state.read();
        let mut denied = Vec::new();
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            for (name, listeners) in state.of(topic) {
                let is_of_user = |client: &&Arc<ClientShared>| *client.user.lock() == user;
                // Rights take long to check, so only names with listeners of the user are checked.
                let mut of_user = listeners.values().filter(is_of_user).peekable();
                if of_user.peek().is_some() && !may(topic, name) {
                    denied.extend(of_user.cloned());
                }
            }
        }
        denied
    }

    /// Sends a message to all listeners of a channel, and returns their number.
    pub fn publish(
        &self,
        clients: &ClientRegistry,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let state = self.state.read();
        let mut receivers = 0;
        if let Some(listeners) = state.of(topic).get(channel) {
            let kind: &[u8] = match topic {
                Topic::Shard => b"smessage",
                Topic::Channel | Topic::Pattern => b"message",
            };
            receivers += deliver(clients, listeners, &[kind, channel, message]);
        }
        // Patterns match no shard channels.
        if topic == Topic::Channel {
            let with_prefix = state.by_prefix.of(channel);
            let is_met = |pattern: &&Vec<u8>| {
                steps::count(1);
                glob::matches_bounded(pattern, channel)
            };
            let met = || -> Vec<&Vec<u8>> {
                let patterns = with_prefix.flat_map(|(_, patterns)| patterns);
                patterns.filter(is_met).collect()
            };
            for pattern in glob::apart(met) {
                let listeners = state.patterns.get(pattern);
                debug_assert!(listeners.is_some(), "all patterns are in both tables");
                let Some(listeners) = listeners else {
                    continue;
                };
                let words: [&[u8]; 4] = [b"pmessage", pattern, channel, message];
                receivers += deliver(clients, listeners, &words);
            }
        }
        receivers
    }
}

/// Returns true if a client must get no more messages.
fn is_killed(client: &ClientShared) -> bool {
    client.killed.load(Ordering::Acquire)
}

/// Leaves a message for each of `listeners`. Returns the number of those that get it.
fn deliver(
    clients: &ClientRegistry,
    listeners: &BTreeMap<u64, Arc<ClientShared>>,
    words: &[&[u8]],
) -> usize {
    let mut in_resp2: Option<Arc<[u8]>> = None;
    let mut in_resp3 = None;
    let mut receivers = 0;
    for client in listeners.values().filter(|client| !is_killed(client)) {
        steps::count(1);
        receivers += 1;
        let (written, protocol) = if client.listed.resp3.load(Ordering::Relaxed) {
            (&mut in_resp3, Protocol::Resp3)
        } else {
            (&mut in_resp2, Protocol::Resp2)
        };
        let bytes = written.get_or_insert_with(|| {
            let mut reply = RespReply::new(protocol);
            reply.push(words.len());
            for word in words {
                reply.bulk(word);
            }
            reply.take().into()
        });
        clients.deliver(client, Arc::clone(bytes));
    }
    receivers
}
