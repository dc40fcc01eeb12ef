//! A look at each memory node of a pool.

use super::{KnownPoolNodes, PoolNodeEntry, PoolPlacement};
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::{NodeId, NodeMemoryUse};
use nearfield_pool::store::{PoolMember, StoreOpenError};

/// A memory node of a pool, as a look at it has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolNodeStatus {
    /// The node's address; `None` if it is not registered in etcd.
    pub address: Option<NodeAddress>,
    /// The node's number; if it cannot be reached, its number or position in the list.
    pub number: NodeId,
    /// The use of its memory, if it can be reached.
    pub memory: Option<NodeMemoryUse>,
    /// The content of its memory.
    pub content: PoolNodeContent,
    /// True if the pool has two replicas, and the other node of its pair is lost.
    pub serves_alone: bool,
}

/// The content of a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolNodeContent {
    /// A part of a pool.
    Part(PoolMember),
    /// Nothing: the node has been served since its start without a pool.
    Nothing,
    /// Nothing that is used: a repair or a drain has excluded the node, whether it is served or
    /// not.
    Excluded,
    /// Unknown, because the node cannot be reached, for this reason.
    Unknown(String),
}

impl PoolPlacement {
    /// Looks at each memory node, whether the others can be reached or not. Changes nothing.
    ///
    /// # Errors
    /// `Connect` if the nodes are registered in etcd, and their list cannot be read.
    ///
    /// ```
    /// use nearfield::{PoolNodeContent, PoolPlacement};
    ///
    /// let nodes = PoolPlacement::shm(["nobody"]).statuses()?;
    /// assert!(matches!(nodes[0].content, PoolNodeContent::Unknown(_)));
    /// # Ok::<_, nearfield::StoreOpenError>(())
    /// ```
    pub fn statuses(&self) -> Result<Vec<PoolNodeStatus>, StoreOpenError> {
        let KnownPoolNodes { entries, missing } = self.nodes.find()?;
        let unknown = |number| PoolNodeStatus {
            address: None,
            number,
            memory: None,
            content: PoolNodeContent::Unknown("it is not registered in etcd".to_owned()),
            serves_alone: false,
        };
        let (mut excluded, mut added) = (Vec::new(), Vec::new());
        let mut statuses = Vec::new();
        for entry in entries {
            statuses.push(look(entry, &mut excluded, &mut added));
        }
        // The first node of a pool has those that were added to it.
        for entry in std::mem::take(&mut added) {
            let is_listed = |status: &PoolNodeStatus| status.number == entry.number;
            if !statuses.iter().any(is_listed) {
                statuses.push(look(entry, &mut excluded, &mut added));
            }
        }
        let is_missing = |number: &NodeId| {
            let mut found = statuses.iter();
            !found.any(|status: &PoolNodeStatus| status.number == *number)
        };
        let missing: Vec<NodeId> = missing.into_iter().filter(is_missing).collect();
        statuses.extend(missing.into_iter().map(unknown));
        for status in &mut statuses {
            if excluded.contains(&status.number) {
                status.content = PoolNodeContent::Excluded;
            }
        }
        statuses.sort_by_key(|status| status.number);
        Ok(statuses)
    }
}

/// Looks at a node, and notes the nodes that are excluded according to it, and those that were
/// added to its pool.
fn look(
    entry: PoolNodeEntry,
    excluded: &mut Vec<NodeId>,
    added: &mut Vec<PoolNodeEntry>,
) -> PoolNodeStatus {
    let found = find(&entry);
    let address = Some(entry.address);
    match found {
        Ok(found) => {
            excluded.extend(found.excluded);
            added.extend(found.added);
            PoolNodeStatus {
                address,
                number: found.number,
                memory: found.memory,
                content: match found.member {
                    Some(member) => PoolNodeContent::Part(member),
                    None => PoolNodeContent::Nothing,
                },
                serves_alone: found.serves_alone,
            }
        }
        Err(reason) => PoolNodeStatus {
            address,
            number: entry.number,
            memory: None,
            content: PoolNodeContent::Unknown(reason),
            serves_alone: false,
        },
    }
}

/// A node that can be reached.
#[derive(Debug)]
pub struct FoundPoolNode {
    pub number: NodeId,
    pub memory: Option<NodeMemoryUse>,
    pub member: Option<PoolMember>,
    /// The nodes that repairs have excluded, if this is the first node of a pool.
    pub excluded: Vec<NodeId>,
    /// The nodes that were added to the pool, if this is its first node.
    pub added: Vec<PoolNodeEntry>,
    pub serves_alone: bool,
}

#[cfg(target_os = "linux")]
fn find(entry: &PoolNodeEntry) -> Result<FoundPoolNode, String> {
    super::transport::look(entry)
}

#[cfg(not(target_os = "linux"))]
fn find(entry: &PoolNodeEntry) -> Result<FoundPoolNode, String> {
    Err(format!("no transport reaches {}", entry.address))
}
