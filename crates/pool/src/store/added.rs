//! The nodes that were added to a pool after its creation: a table in the reserved bytes of the
//! first node, which all clients read when they connect.
//!
//! ```text
//! number of the node (16 bits) | phase (2 bits) | unused (14) | length of the address in bytes
//! the text of the address
//! ```
//! A line is claimed by a swap of its word, then gets the address, and then another word, by which
//! clients find it. A node that was added stays in the table.

use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_fabric::{Endpoint, GlobalAddress, LINE_BYTES, NodeId, WORD_BYTES};

/// Offset of the table, behind the lines of the header, of the state and of the excluded nodes.
const TABLE_AT: u64 = 8 * LINE_BYTES;
const ENTRY_BYTES: u64 = 2 * LINE_BYTES;
/// Number of nodes that can be added to a pool.
const ENTRIES: usize = 24;
/// Number of bytes of the longest address.
pub(super) const ADDRESS_MAX: usize = (ENTRY_BYTES - WORD_BYTES) as usize;
const NODE_BITS: u32 = 16;
const LENGTH_SHIFT: u32 = 32;

/// The phase of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddedNodePhase {
    /// Its address is about to be written.
    Claimed,
    /// Clients connect to it, and put nothing there.
    Joining,
    /// All clients know it.
    Joined,
}

/// A node that was added to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedPoolNode {
    /// The node's number.
    pub node: NodeId,
    /// The text of its address, as the client that has added it gave it.
    pub address: String,
}

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AddedNodeEntry {
    word: u64,
    text: Vec<u8>,
}

/// The table, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddedNodes(Vec<AddedNodeEntry>);

fn word_of(node: NodeId, phase: AddedNodePhase, length: usize) -> u64 {
    let phase = match phase {
        AddedNodePhase::Claimed => 1,
        AddedNodePhase::Joining => 2,
        AddedNodePhase::Joined => 3,
    };
    (length as u64) << LENGTH_SHIFT | phase << NODE_BITS | u64::from(node.0)
}

impl AddedNodeEntry {
    fn phase(&self) -> Option<AddedNodePhase> {
        match (self.word >> NODE_BITS) & 3 {
            1 => Some(AddedNodePhase::Claimed),
            2 => Some(AddedNodePhase::Joining),
            3 => Some(AddedNodePhase::Joined),
            _ => None,
        }
    }

    fn node(&self) -> NodeId {
        NodeId(self.word as u16)
    }

    /// Returns the node, if clients may know it.
    fn added(&self) -> Option<AddedPoolNode> {
        let phase = self
            .phase()
            .filter(|&phase| phase != AddedNodePhase::Claimed);
        let length = (self.word >> LENGTH_SHIFT) as usize;
        // The memory may hold anything.
        let text = self.text.get(..length).filter(|_| phase.is_some())?;
        Some(AddedPoolNode {
            node: self.node(),
            address: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

impl AddedNodes {
    pub async fn read(endpoint: &impl Endpoint, first: NodeId) -> Result<AddedNodes, PoolError> {
        let mut bytes = vec![0; ENTRIES * ENTRY_BYTES as usize];
        let from = GlobalAddress::new(first, TABLE_AT);
        endpoint.read(from, &mut bytes).await?;
        let entry = |bytes: &[u8]| {
            let (word, text) = bytes.split_at(WORD_BYTES as usize);
            let word = word.iter().rev();
            AddedNodeEntry {
                word: word.fold(0, |word, &byte| word << 8 | u64::from(byte)),
                text: text.to_vec(),
            }
        };
        let entries = bytes.chunks_exact(ENTRY_BYTES as usize);
        Ok(AddedNodes(entries.map(entry).collect()))
    }

    /// Returns the nodes that clients may know.
    pub fn nodes(&self) -> impl Iterator<Item = AddedPoolNode> + '_ {
        self.0.iter().filter_map(AddedNodeEntry::added)
    }

    /// Returns true if clients may know a node, which was added.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes().any(|added| added.node == node)
    }

    /// Returns the phase of a node; `None` if it is not in the table.
    pub fn phase(&self, node: NodeId) -> Option<AddedNodePhase> {
        let mut entries = self.0.iter().filter(|entry| entry.node() == node);
        entries.find_map(AddedNodeEntry::phase)
    }
}

fn place(first: NodeId, entry: usize) -> GlobalAddress {
    GlobalAddress::new(first, TABLE_AT + entry as u64 * ENTRY_BYTES)
}

/// Enters a node into the table, if it is not there, so that clients connect to it. Returns false
/// if the table has no room.
pub(super) async fn enter(
    endpoint: &impl Endpoint,
    first: NodeId,
    node: NodeId,
    address: &str,
) -> Result<bool, PoolError> {
    debug_assert!(address.len() <= ADDRESS_MAX, "the caller has checked it");
    let claimed = word_of(node, AddedNodePhase::Claimed, 0);
    let table = AddedNodes::read(endpoint, first).await?;
    for (number, entry) in table.0.iter().enumerate() {
        let at = place(first, number);
        let mut word = entry.word;
        if entry.phase().is_none() {
            let found = endpoint.compare_swap(at, word, claimed).await?;
            word = if found == word { claimed } else { found };
        }
        if word == claimed {
            // Another client that adds the same node writes the same.
            endpoint
                .write(at.plus(WORD_BYTES), address.as_bytes())
                .await?;
            let joining = word_of(node, AddedNodePhase::Joining, address.len());
            endpoint.compare_swap(at, claimed, joining).await?;
            return Ok(true);
        }
        let entry = AddedNodeEntry {
            word,
            text: Vec::new(),
        };
        if entry.phase().is_some() && entry.node() == node {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes that all clients know a node in the table.
pub(super) async fn note_joined(
    endpoint: &impl Endpoint,
    first: NodeId,
    node: NodeId,
) -> Result<(), PoolError> {
    let table = AddedNodes::read(endpoint, first).await?;
    for (number, entry) in table.0.iter().enumerate() {
        if entry.node() == node && entry.phase() == Some(AddedNodePhase::Joining) {
            let length = (entry.word >> LENGTH_SHIFT) as usize;
            let joined = word_of(node, AddedNodePhase::Joined, length);
            let at = place(first, number);
            endpoint.compare_swap(at, entry.word, joined).await?;
        }
    }
    Ok(())
}

/// Returns the nodes that were added to a pool after its creation. Returns none if the first node
/// cannot be read.
pub fn added_nodes(endpoint: &impl Endpoint) -> Vec<AddedPoolNode> {
    let first = endpoint.nodes().first().copied().unwrap_or_default();
    let table = block_on(AddedNodes::read(endpoint, first)).unwrap_or_default();
    table.nodes().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};

    #[test]
    fn added_nodes_are_found_in_their_phases() {
        let (mut simulation, nodes) =
            FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 20; 1]);
        let (endpoint, first) = (simulation.endpoint(0), nodes[0]);
        simulation.spawn(0, async move {
            let table = AddedNodes::read(&endpoint, first).await.expect("a node");
            assert_eq!(table.nodes().count(), 0);
            let (one, other) = (NodeId(2), NodeId(300));
            for _ in 0..2 {
                let entered = enter(&endpoint, first, one, "shm:third").await;
                assert_eq!(entered, Ok(true));
            }
            let entered = enter(&endpoint, first, other, &"x".repeat(ADDRESS_MAX)).await;
            assert_eq!(entered, Ok(true));
            let table = AddedNodes::read(&endpoint, first).await.expect("a node");
            assert_eq!(table.phase(one), Some(AddedNodePhase::Joining));
            assert_eq!(table.phase(NodeId(0)), None);
            assert_eq!(note_joined(&endpoint, first, one).await, Ok(()));
            let table = AddedNodes::read(&endpoint, first).await.expect("a node");
            assert_eq!(table.phase(one), Some(AddedNodePhase::Joined));
            assert_eq!(table.phase(other), Some(AddedNodePhase::Joining));
            let found: Vec<AddedPoolNode> = table.nodes().collect();
            let numbers: Vec<NodeId> = found.iter().map(|added| added.node).collect();
            assert_eq!(numbers, [one, other]);
            assert_eq!(found[0].address, "shm:third");
            assert_eq!(found[1].address.len(), ADDRESS_MAX);
            // A client that has claimed an entry may have died.
            let claimed = word_of(NodeId(5), AddedNodePhase::Claimed, 0);
            let swapped = endpoint.compare_swap(place(first, 2), 0, claimed).await;
            assert_eq!(swapped, Ok(0));
            let table = AddedNodes::read(&endpoint, first).await.expect("a node");
            assert!(!table.contains(NodeId(5)) && table.contains(one));
            assert_eq!(enter(&endpoint, first, NodeId(5), "shm:x").await, Ok(true));
            for number in 6..6 + ENTRIES as u16 - 3 {
                let entered = enter(&endpoint, first, NodeId(number), "shm:y").await;
                assert_eq!(entered, Ok(true));
            }
            assert_eq!(
                enter(&endpoint, first, NodeId(99), "shm:z").await,
                Ok(false)
            );
            assert_eq!(enter(&endpoint, first, NodeId(5), "shm:x").await, Ok(true));
        });
        assert_eq!(simulation.run(), 0);
    }
}
