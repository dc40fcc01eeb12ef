//! The memory nodes of a pool.

use nearfield_fabric::NodeId;
use nearfield_fabric::membership::{
    EtcdMembers, MemberNode, MembershipError, NodeAddress, NodeMembership,
};
use nearfield_pool::store::StoreOpenError;
use std::time::{Duration, Instant};

/// The longest wait for memory nodes to register in etcd.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks of the registered nodes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A memory node of a pool.
#[derive(Clone, Debug)]
pub struct PoolNodeEntry {
    pub address: NodeAddress,
    /// The number of the node in the list or in etcd, or its position.
    pub number: NodeId,
    /// True if the node must have that number.
    pub is_numbered: bool,
}

impl PoolNodeEntry {
    /// Checks the number that the node at the address has.
    ///
    /// # Errors
    /// `Connect` if it must have another.
    pub fn check(&self, found: NodeId) -> Result<(), StoreOpenError> {
        if !self.is_numbered || found == self.number {
            return Ok(());
        }
        Err(StoreOpenError::Connect(format!(
            "the memory node at {} is {found}, and the list of nodes has it as {}",
            self.address, self.number
        )))
    }
}

impl From<MemberNode> for PoolNodeEntry {
    fn from(node: MemberNode) -> PoolNodeEntry {
        PoolNodeEntry {
            address: node.address,
            number: node.number,
            is_numbered: true,
        }
    }
}

/// Parses a list of nodes, `[NUMBER=]ADDRESS`, separated by commas. A node without a number in the
/// list may have any.
///
/// # Errors
/// As [`NodeMembership::of_list`].
pub fn parse_entries(text: &str) -> Result<Vec<PoolNodeEntry>, MembershipError> {
    let numbered = |entry: &str| entry.trim().split_once('=')?.1.parse::<NodeAddress>().ok();
    let numbered: Vec<NodeAddress> = text.split(',').filter_map(numbered).collect();
    let mut entries: Vec<PoolNodeEntry> = NodeMembership::of_list(text)?
        .nodes()
        .into_iter()
        .map(PoolNodeEntry::from)
        .collect();
    for entry in &mut entries {
        entry.is_numbered = numbered.contains(&entry.address);
    }
    Ok(entries)
}

/// The memory nodes of a pool, as far as they are known.
#[derive(Clone, Debug)]
pub struct KnownPoolNodes {
    pub entries: Vec<PoolNodeEntry>,
    /// The numbers of the nodes that are not registered, and so have no address.
    pub missing: Vec<NodeId>,
}

impl KnownPoolNodes {
    /// Creates the list of registered nodes, in the order of their numbers, of which there should
    /// be at least `count`. Returns `None` if some are missing, unless `accepts_gaps`, and if the
    /// first one is: it stores the header of the map.
    fn registered(
        nodes: &[MemberNode],
        count: usize,
        accepts_gaps: bool,
    ) -> Option<KnownPoolNodes> {
        let is_there = |number: NodeId| nodes.iter().any(|node| node.number == number);
        let last = nodes
            .last()
            .map_or(0, |node| usize::from(node.number.0) + 1);
        let numbers = (0..=u16::MAX).map(NodeId).take(count.max(last));
        let missing: Vec<NodeId> = numbers.filter(|&number| !is_there(number)).collect();
        let is_usable = missing.is_empty() || accepts_gaps && is_there(NodeId(0));
        is_usable.then(|| KnownPoolNodes {
            entries: nodes.iter().cloned().map(PoolNodeEntry::from).collect(),
            missing,
        })
    }
}

/// The source of the addresses of a pool's memory nodes.
#[derive(Clone, Debug)]
pub enum PoolNodeSource {
    /// These nodes.
    Listed(Vec<PoolNodeEntry>),
    /// Nodes that are registered in etcd, and their least number.
    Registered(EtcdMembers, usize),
}

impl PoolNodeSource {
    /// Returns the nodes. Waits until enough of them are registered. If some of them are not for
    /// long, a pool that exists can be used without them.
    ///
    /// # Errors
    /// `Connect` if etcd cannot be read, or the first node is not registered.
    pub fn find(&self) -> Result<KnownPoolNodes, StoreOpenError> {
        let (members, count) = match self {
            PoolNodeSource::Listed(nodes) => {
                return Ok(KnownPoolNodes {
                    entries: nodes.clone(),
                    missing: Vec::new(),
                });
            }
            PoolNodeSource::Registered(members, count) => (members, *count),
        };
        let failed = |error: MembershipError| StoreOpenError::Connect(error.to_string());
        let membership = NodeMembership::follow(members).map_err(failed)?;
        let began = Instant::now();
        loop {
            let nodes = membership.nodes();
            let is_late = began.elapsed() > PATIENCE;
            if let Some(known) = KnownPoolNodes::registered(&nodes, count, is_late) {
                return Ok(known);
            }
            if is_late {
                let numbers: Vec<_> = nodes.iter().map(|node| node.number.0).collect();
                return Err(StoreOpenError::Connect(format!(
                    "etcd lists memory nodes {numbers:?}, but the first {count} are needed"
                )));
            }
            // Nodes that start together register one after the other.
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_numbers_that_the_list_gives() {
        let seen = |text: &str| -> Vec<(String, u16, bool)> {
            let entries = parse_entries(text).expect("a list of nodes").into_iter();
            let seen = entries.map(|it| (it.address.to_string(), it.number.0, it.is_numbered));
            seen.collect()
        };
        let listed = |address: &str, number, is_numbered| (address.to_owned(), number, is_numbered);
        assert_eq!(
            seen(" 7=shm:left, shm:right ,ucx:a:7000"),
            [
                listed("shm:right", 1, false),
                listed("ucx:a:7000", 2, false),
                listed("shm:left", 7, true),
            ]
        );
        let refused = |text: &str| parse_entries(text).expect_err("no list").to_string();
        assert_eq!(
            refused("x=shm:a"),
            "\"x=shm:a\" is not an entry of a list of nodes: a number is from 0 to 65535"
        );
        assert!(refused("left").starts_with("\"left\" is not an address of a memory node"));
    }

    #[test]
    fn registered_nodes_may_be_missing_after_a_while_except_the_first() {
        let found = |numbers: &[u16], count: usize, accepts_gaps: bool| {
            let node = |&number: &u16| MemberNode {
                number: NodeId(number),
                name: format!("n{number}"),
                address: format!("shm:n{number}").parse().expect("an address"),
                bytes: Some(1 << 20),
                incarnation: 1,
            };
            let nodes: Vec<MemberNode> = numbers.iter().map(node).collect();
            let known = KnownPoolNodes::registered(&nodes, count, accepts_gaps)?;
            let missing = known.missing.iter().map(|node| node.0).collect::<Vec<_>>();
            Some((known.entries.len(), missing))
        };
        assert_eq!(found(&[0, 1], 2, false), Some((2, vec![])));
        assert_eq!(found(&[0, 1, 2], 2, false), Some((3, vec![])));
        assert_eq!(found(&[0], 2, false), None);
        assert_eq!(found(&[0], 2, true), Some((1, vec![1])));
        assert_eq!(found(&[0, 2], 2, false), None);
        assert_eq!(found(&[0, 2], 2, true), Some((2, vec![1])));
        assert_eq!(found(&[1], 2, true), None);
        assert_eq!(found(&[], 1, true), None);
    }

    #[test]
    fn a_node_of_another_number_is_refused() {
        let [entry, any] = ["7=shm:left", "shm:left"].map(|text| {
            let mut entries = parse_entries(text).expect("a list of nodes");
            entries.remove(0)
        });
        assert!(entry.check(NodeId(7)).is_ok() && any.check(NodeId(3)).is_ok());
        assert_eq!(
            entry.check(NodeId(0)).unwrap_err().to_string(),
            "the memory node at shm:left is node 0, and the list of nodes has it as node 7"
        );
    }
}
