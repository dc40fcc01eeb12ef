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
        let mut excluded = Vec::new();
        let look = |entry| look(entry, &mut excluded);
        let mut statuses: Vec<_> = entries.into_iter().map(look).collect();
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

/// Looks at a node, and adds the nodes that are excluded according to it.
fn look(entry: PoolNodeEntry, excluded: &mut Vec<NodeId>) -> PoolNodeStatus {
    let found = find(&entry);
    let address = Some(entry.address);
    match found {
        Ok(found) => {
            excluded.extend(found.excluded);
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
