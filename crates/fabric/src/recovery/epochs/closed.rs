//! Nodes on which no participant allocates, and notices to all participants.
//!
//! The line of the global epoch has a bit for each node, and a count of notices. Participants read
//! it when they renew their slots, without a further message.

use super::table::EpochTable;
use super::{EpochError, Epochs};
use crate::address::{GlobalAddress, NodeId, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of words with a bit for each node.
pub(super) const CLOSED_WORDS: usize = 4;
const WORD_BITS: u16 = 64;
/// The greatest number of a node that can be closed.
const CLOSED_MAX: u16 = CLOSED_WORDS as u16 * WORD_BITS - 1;

/// A set of nodes on which nothing is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedNodes([u64; CLOSED_WORDS]);

impl ClosedNodes {
    pub(super) fn of_words(words: [u64; CLOSED_WORDS]) -> ClosedNodes {
        ClosedNodes(words)
    }

    /// Returns true if nothing is allocated on a node.
    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.0.get(usize::from(node.0 / WORD_BITS));
        word.is_some_and(|word| word & bit(node) != 0)
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; CLOSED_WORDS]
    }
}

fn bit(node: NodeId) -> u64 {
    1 << (node.0 % WORD_BITS)
}

/// The closed nodes, as a participant knows them.
#[derive(Debug, Default)]
pub(super) struct KnownClosedNodes {
    words: [AtomicU64; CLOSED_WORDS],
    /// The number of changes that the participant has made itself.
    changes: Mutex<u64>,
}

impl KnownClosedNodes {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of changes that the participant has made itself.
    pub fn changes(&self) -> u64 {
        *self.lock()
    }

    /// Notes the nodes that were read after this number of changes, unless there are more by now.
    pub fn note(&self, nodes: ClosedNodes, changes: u64) {
        let made = self.lock();
        if *made == changes {
            self.set(nodes);
        }
    }

    /// Notes a change that the participant has made.
    fn change(&self, node: NodeId, is_closed: bool) {
        let mut made = self.lock();
        *made += 1;
        let mut words = self.get().0;
        let number = usize::from(node.0 / WORD_BITS);
        words[number] = match is_closed {
            true => words[number] | bit(node),
            false => words[number] & !bit(node),
        };
        self.set(ClosedNodes(words));
    }

    fn set(&self, nodes: ClosedNodes) {
        for (known, word) in self.words.iter().zip(nodes.0) {
            known.store(word, Ordering::Relaxed);
        }
    }

    pub fn get(&self) -> ClosedNodes {
        let words = self.words.each_ref();
        ClosedNodes(words.map(|word| word.load(Ordering::Relaxed)))
    }
}

impl Epochs {
    /// Returns the nodes on which the caller should not allocate, as of the last renewal of the
    /// participant's slot. No round trip.
    pub fn closed_nodes(&self) -> ClosedNodes {
        self.closed.get()
    }

    /// Closes a node, so that participants do not allocate there, or opens it again. Each of them
    /// learns of it when it renews its slot. One that does not for a lease is expelled, and learns
    /// of it when it takes a slot again.
    ///
    /// # Errors
    /// The errors of the table's node, and `NoSuchNode` for a number above 255.
    pub async fn close_node(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        is_closed: bool,
    ) -> Result<(), EpochError> {
        if node.0 > CLOSED_MAX {
            return Err(FabricError::NoSuchNode { node }.into());
        }
        let at = closed_word(self.table, node);
        // Another client may close another node meanwhile.
        let mut before = 0;
        loop {
            let after = match is_closed {
                true => before | bit(node),
                false => before & !bit(node),
            };
            let found = endpoint.compare_swap(at, before, after).await?;
            if found == before {
                break;
            }
            before = found;
        }
        // The caller must not allocate there either. Another task may have read the former word.
        self.closed.change(node, is_closed);
        Ok(())
    }

    /// Returns the number of notices that the participant has learned of, as of the last renewal
    /// of its slot. No round trip.
    pub fn notices(&self) -> u64 {
        self.notices.load(Ordering::SeqCst)
    }

    /// Gives all participants notice of a change that the caller has made elsewhere. They learn of
    /// it as of [closed nodes](Epochs::close_node).
    ///
    /// # Errors
    /// The errors of the table's node.
    pub async fn notify(&self, endpoint: &impl Endpoint) -> Result<(), EpochError> {
        let before = endpoint.add(notices_word(self.table), 1).await?;
        self.notices
            .fetch_max(before.wrapping_add(1), Ordering::SeqCst);
        Ok(())
    }
}

fn notices_word(table: EpochTable) -> GlobalAddress {
    table.epoch().plus((1 + CLOSED_WORDS as u64) * WORD_BYTES)
}

fn closed_word(table: EpochTable, node: NodeId) -> GlobalAddress {
    let number = u64::from(node.0 / WORD_BITS);
    table.epoch().plus((1 + number) * WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::{EpochOptions, TABLE_BYTES};
    use super::*;
    use crate::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
    use std::time::Duration;

    const LEASE: Duration = Duration::from_micros(800);

    async fn registered(endpoint: &SimEndpoint, table: GlobalAddress) -> Epochs {
        let options = EpochOptions {
            lease: LEASE,
            ring_entries: 16,
            ..EpochOptions::default()
        };
        Epochs::register(endpoint, table, options)
            .await
            .expect("a slot")
    }

    #[test]
    fn epochs_do_not_advance_before_enough_is_retired() {
        let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [8 << 20]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let table = endpoint.allocate(NodeId(0), TABLE_BYTES).await.unwrap();
            let empty = vec![0; TABLE_BYTES as usize];
            endpoint.write(table, &empty).await.unwrap();
            let epochs = registered(&endpoint, table).await;
            epochs.retire_together(3 << 20);
            let before = epochs.enter().epoch();
            for count in 1..=3 {
                let block = endpoint.allocate(NodeId(0), 1 << 20).await.unwrap();
                let guard = epochs.enter();
                let retired = epochs.retire(&endpoint, &guard, block, 1 << 20).await;
                assert_eq!(retired, Ok(()));
                drop(guard);
                for _ in 0..4 {
                    endpoint.sleep(LEASE / 8).await;
                    epochs.tend(&endpoint).await.unwrap();
                }
                assert_eq!(epochs.enter().may_follow(before), count < 3);
            }
        });
        assert_eq!(simulation.run(), 0);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_noted_after_it() {
        let known = KnownClosedNodes::default();
        let (before, none) = (known.changes(), known.get());
        known.change(NodeId(70), true);
        known.note(none, before);
        assert!(known.get().contains(NodeId(70)));
        known.note(none, known.changes());
        assert!(known.get().is_empty());
    }

    #[test]
    fn participants_learn_of_closed_nodes_and_of_notices() {
        let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let table = endpoint.allocate(NodeId(0), TABLE_BYTES).await.unwrap();
            let empty = vec![0; TABLE_BYTES as usize];
            endpoint.write(table, &empty).await.unwrap();
            let one = registered(&endpoint, table).await;
            let other = registered(&endpoint, table).await;
            assert!(one.closed_nodes().is_empty() && other.closed_nodes().is_empty());
            assert_eq!(one.notify(&endpoint).await, Ok(()));
            assert_eq!(other.notify(&endpoint).await, Ok(()));
            assert_eq!((one.notices(), other.notices()), (1, 2));
            for number in [1, 63, 64, 255] {
                let closed = one.close_node(&endpoint, NodeId(number), true).await;
                assert_eq!(closed, Ok(()));
            }
            assert_eq!(one.close_node(&endpoint, NodeId(64), false).await, Ok(()));
            assert!(other.closed_nodes().is_empty(), "it has not asked yet");
            endpoint.sleep(LEASE / 4).await;
            other.tend(&endpoint).await.unwrap();
            // A participant that comes later knows them from the beginning on.
            let third = registered(&endpoint, table).await;
            assert_eq!((other.notices(), third.notices()), (2, 2));
            for epochs in [&one, &other, &third] {
                let closed = epochs.closed_nodes();
                let numbers = (0..u16::MAX).filter(|&number| closed.contains(NodeId(number)));
                assert_eq!(numbers.collect::<Vec<u16>>(), [1, 63, 255]);
            }
            let before = other.enter().epoch();
            // The others are silent, and are expelled after a lease.
            assert_eq!(one.advance(&endpoint).await, Ok(()));
            other.tend(&endpoint).await.unwrap();
            assert!(!other.enter().may_follow(before));
            assert_eq!(one.notices(), 2);
            let node = NodeId(256);
            let refused = one.close_node(&endpoint, node, true).await;
            assert_eq!(refused, Err(FabricError::NoSuchNode { node }.into()));
        });
        assert_eq!(simulation.run(), 0);
    }
}
