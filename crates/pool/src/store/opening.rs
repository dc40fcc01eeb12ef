//! Creating or finding the tree of a store: the first client creates it.
//!
//! Each node stores the pool's identity, a random number, its position in the pool, and the number
//! of nodes at the time when the node became a member. A node that has lost its memory has no
//! identity, and one of another pool has another: no client follows an address into it.

use super::added::AddedNodes;
use super::blocks::BlockMemory;
use super::excluded::ExcludedNodes;
use crate::chime::{ChimeComputeNode, ChimeTree};
use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_fabric::{Endpoint, GlobalAddress, LINE_BYTES, NodeId, mirror};
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

/// Offset of the line of the tree's header, behind the line whose address 0 is null.
const HEADER_AT: u64 = LINE_BYTES;
/// Offset of the word on the first node that shows if there is a tree: 0, a random number of its
/// creator, or `READY`.
const STATE_AT: u64 = 2 * LINE_BYTES;
const READY: u64 = 1 << 63;
/// Offset of the word behind it, with the address of the epochs of blocks, in stores of byte
/// strings.
const BLOCKS_AT: u64 = STATE_AT + 8;
/// Offset of the words of each node behind that: the identity of the pool, and the node's position
/// in it.
const IDENTITY_AT: u64 = STATE_AT + 16;
const IDENTITY_BYTES: usize = 16;
/// Offset of the last word of the line, with the form of keys on the first node: stores of
/// different forms may have slots of one length.
const KEY_FORM_AT: u64 = STATE_AT + LINE_BYTES - 8;
/// Time after which a creator counts as dead.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which a client checks for the tree.
const WAIT: Duration = Duration::from_millis(1);

/// Returns the header of a store on these nodes.
fn header(first: NodeId) -> GlobalAddress {
    GlobalAddress::new(first, HEADER_AT)
}

/// Returns the word of a store's epochs of blocks.
pub(super) fn blocks(first: NodeId) -> GlobalAddress {
    GlobalAddress::new(first, BLOCKS_AT)
}

/// The membership of a node in a pool, as the node stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PoolMembershipRecord {
    /// The pool's identity; 0: none.
    identity: u64,
    position: u32,
    count: u32,
}

impl PoolMembershipRecord {
    fn address(node: NodeId) -> GlobalAddress {
        GlobalAddress::new(node, IDENTITY_AT)
    }

    fn of(identity: u64, position: usize, count: usize) -> PoolMembershipRecord {
        PoolMembershipRecord {
            identity,
            position: u32::try_from(position).unwrap_or(u32::MAX),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        }
    }

    async fn read(
        endpoint: &impl Endpoint,
        node: NodeId,
    ) -> Result<PoolMembershipRecord, PoolError> {
        let mut bytes = [0; IDENTITY_BYTES];
        endpoint
            .read(PoolMembershipRecord::address(node), &mut bytes)
            .await?;
        let (identity, place) = bytes.split_at(8);
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, &it| word << 8 | u64::from(it))
        };
        let place = word(place);
        Ok(PoolMembershipRecord {
            identity: word(identity),
            position: place as u32,
            count: (place >> 32) as u32,
        })
    }

    async fn write(self, endpoint: &impl Endpoint, node: NodeId) -> Result<(), PoolError> {
        let place = u64::from(self.count) << 32 | u64::from(self.position);
        let bytes = [self.identity, place].map(u64::to_le_bytes).concat();
        Ok(endpoint
            .write(PoolMembershipRecord::address(node), &bytes)
            .await?)
    }
}

/// Returns the identity of the pool that a node belongs to.
pub(super) async fn identity(endpoint: &impl Endpoint, node: NodeId) -> Result<u64, PoolError> {
    let record = PoolMembershipRecord::read(endpoint, node).await?;
    Ok(record.identity)
}

/// The place of a memory node in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMember {
    /// The pool's identity, a random number.
    pub identity: u64,
    /// The node's position among the nodes of the pool, from 0.
    pub position: u32,
    /// The number of nodes of the pool.
    pub count: u32,
}

/// Returns the place of a node in its pool; `None` if it belongs to none.
///
/// # Errors
/// The errors of the node.
pub fn pool_member(
    endpoint: &impl Endpoint,
    node: NodeId,
) -> Result<Option<PoolMember>, PoolError> {
    let PoolMembershipRecord {
        identity,
        position,
        count,
    } = block_on(PoolMembershipRecord::read(endpoint, node))?;
    Ok((identity != 0).then_some(PoolMember {
        identity,
        position,
        count,
    }))
}

/// Returns true if the other node of the pair to which a node belongs is lost. The endpoint is one
/// of single nodes.
///
/// # Errors
/// The errors of the node.
pub fn serves_alone(endpoint: &impl Endpoint, node: NodeId) -> Result<bool, PoolError> {
    Ok(block_on(mirror::is_alone(endpoint, node))?)
}

/// Takes a memory node that has come back empty into its pair
/// ([`take_in`](mirror::MirroredEndpoint::take_in)). Returns the number of bytes that were copied.
///
/// # Errors
/// As [`take_in`](mirror::MirroredEndpoint::take_in).
pub fn take_in_node<E: Endpoint>(
    endpoint: &mirror::MirroredEndpoint<E>,
    node: NodeId,
) -> Result<u64, mirror::PairJoinError> {
    block_on(endpoint.take_in(node))
}

/// Returns the nodes of a pool of which some are listed: also those that were added to it, and none
/// of those behind them that are about to be added. If there is no pool yet, it will have those
/// that are listed.
pub(super) async fn pool_nodes(
    endpoint: &impl Endpoint,
    listed: &[NodeId],
) -> Result<Vec<NodeId>, PoolError> {
    let first = listed.first().copied().unwrap_or_default();
    let mut word = [0; 8];
    endpoint
        .read(GlobalAddress::new(first, STATE_AT), &mut word)
        .await?;
    if u64::from_le_bytes(word) != READY {
        return Ok(listed.to_vec());
    }
    let added = AddedNodes::read(endpoint, first).await?;
    let founder = PoolMembershipRecord::read(endpoint, first).await?;
    let is_founder = |node: &NodeId| !added.contains(*node);
    let mut nodes: Vec<NodeId> = listed.iter().copied().filter(is_founder).collect();
    // The memory may hold anything, but there is a first node.
    while nodes.len() > founder.count.max(1) as usize
        && let Some(&last) = nodes.last()
    {
        if endpoint.is_reachable(last) {
            let found = PoolMembershipRecord::read(endpoint, last).await?;
            let is_joining = found.identity == founder.identity && found.position >= founder.count;
            if found.identity != 0 && !is_joining {
                // The check of the nodes refuses it.
                break;
            }
        }
        nodes.pop();
    }
    nodes.extend(added.nodes().map(|added| added.node));
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

/// Makes a node without content a member of the pool of the first node, at a position.
///
/// # Errors
/// `Stranger` if it belongs to another pool, and the nodes' errors.
pub(super) async fn join_pool(
    endpoint: &impl Endpoint,
    first: NodeId,
    node: NodeId,
    position: usize,
) -> Result<(), PoolError> {
    let identity = identity(endpoint, first).await?;
    let found = PoolMembershipRecord::read(endpoint, node).await?.identity;
    if found != 0 && found != identity {
        let found = "it belongs to another pool".to_owned();
        return Err(PoolError::Stranger { node, found });
    }
    let membership = PoolMembershipRecord::of(identity, position, position + 1);
    membership.write(endpoint, node).await
}

/// Checks that all nodes that can be reached belong to one pool, in this order: to the pool of this
/// identity, if one is given. None of them may have been excluded. The first one must be reachable.
async fn check_membership(
    endpoint: &impl Endpoint,
    nodes: &[NodeId],
    mut identity: Option<u64>,
) -> Result<(), PoolError> {
    let first = nodes.first().copied().unwrap_or_default();
    let excluded = ExcludedNodes::read(endpoint, first).await?;
    let added = AddedNodes::read(endpoint, first).await?;
    let founders = nodes.iter().filter(|&&node| !added.contains(node)).count();
    for (position, &node) in nodes.iter().enumerate() {
        // The keys of a lost node fail, and no others.
        if position > 0 && !endpoint.is_reachable(node) {
            continue;
        }
        if excluded.contains(node) {
            let found = "a repair has excluded it".to_owned();
            return Err(PoolError::Stranger { node, found });
        }
        let found = PoolMembershipRecord::read(endpoint, node).await?;
        // Otherwise the first node decides to which pool the others must belong.
        let identity = *identity.get_or_insert(found.identity);
        let expected = match added.contains(node) {
            // The founders do not depend on its position.
            true => PoolMembershipRecord { identity, ..found },
            false => PoolMembershipRecord::of(identity, position, founders),
        };
        if found == expected && identity != 0 {
            continue;
        }
        let found = match found.identity {
            0 => "it is new and empty".to_owned(),
            other if other != identity => "it belongs to another pool".to_owned(),
            _ => format!(
                "it is number {} of {} nodes, and was named as number {} of {}",
                found.position, found.count, expected.position, expected.count
            ),
        };
        return Err(PoolError::Stranger { node, found });
    }
    Ok(())
}

/// Returns the nodes of a pool that were excluded, if all others can be reached and have kept their
/// memory.
pub(super) async fn reaches_others(
    endpoint: &impl Endpoint,
    nodes: &[NodeId],
    identity: u64,
) -> Option<ExcludedNodes> {
    let first = nodes.first().copied().unwrap_or_default();
    let excluded = ExcludedNodes::read(endpoint, first).await.ok()?;
    let is_there = |&node: &NodeId| endpoint.is_reachable(node) || excluded.contains(node);
    if !nodes.iter().all(is_there) {
        return None;
    }
    let checked = check_membership(endpoint, nodes, Some(identity)).await;
    checked.is_ok().then_some(excluded)
}

/// Returns the nodes that belong to no pool, although the pool of the first node exists: nodes that
/// have lost their memory. Returns none if that cannot be read.
pub fn empty_nodes(endpoint: &impl Endpoint) -> Vec<NodeId> {
    let nodes = endpoint.nodes();
    block_on(find_empty_nodes(endpoint, &nodes)).unwrap_or_default()
}

async fn find_empty_nodes(
    endpoint: &impl Endpoint,
    nodes: &[NodeId],
) -> Result<Vec<NodeId>, PoolError> {
    let first = nodes.first().copied().unwrap_or_default();
    let mut word = [0; 8];
    // Before the pool is ready its nodes become members one by one.
    endpoint
        .read(GlobalAddress::new(first, STATE_AT), &mut word)
        .await?;
    let mut empty = Vec::new();
    if u64::from_le_bytes(word) == READY {
        for &node in nodes.iter().filter(|&&node| endpoint.is_reachable(node)) {
            if PoolMembershipRecord::read(endpoint, node).await?.identity == 0 {
                empty.push(node);
            }
        }
    }
    Ok(empty)
}

/// Makes all nodes members of one pool. `before` is the identity that a dead creator has left.
async fn found_pool(
    endpoint: &impl Endpoint,
    nodes: &[NodeId],
    before: u64,
    identity: u64,
) -> Result<(), PoolError> {
    for &node in nodes {
        // All nodes are checked before one is written, so that a refusal leaves them as they were.
        let found = PoolMembershipRecord::read(endpoint, node).await?.identity;
        if found != 0 && found != before {
            let found = "it belongs to another pool, whose first node is not named".to_owned();
            return Err(PoolError::Stranger { node, found });
        }
    }
    for (position, &node) in nodes.iter().enumerate() {
        let membership = PoolMembershipRecord::of(identity, position, nodes.len());
        membership.write(endpoint, node).await?;
    }
    Ok(())
}

/// Opens the tree, which must exist, in the pool of this identity, if one is given.
pub(super) async fn open<E: Endpoint>(
    endpoint: E,
    nodes: &[NodeId],
    node: Arc<ChimeComputeNode>,
    identity: Option<u64>,
) -> Result<ChimeTree<E>, PoolError> {
    check_membership(&endpoint, nodes, identity).await?;
    let first = nodes.first().copied().unwrap_or_default();
    ChimeTree::open(endpoint, nodes, header(first), node).await
}

/// Opens the tree, or creates it if no client has. Refuses a store whose keys have another form.
pub(super) async fn create_or_open<E: Endpoint>(
    endpoint: E,
    nodes: &[NodeId],
    node: Arc<ChimeComputeNode>,
    key_form: u64,
) -> Result<ChimeTree<E>, PoolError> {
    let first = nodes.first().copied().unwrap_or_default();
    let state = GlobalAddress::new(first, STATE_AT);
    let form_at = GlobalAddress::new(first, KEY_FORM_AT);
    // A number of this creator's own, by which others see that a creator is still the same.
    let mine = rand::rng().random_range(1..READY);
    let mut expected = 0;
    let mut since = endpoint.now();
    loop {
        let found = endpoint.compare_swap(state, expected, mine).await?;
        if found == READY {
            let tree = open(endpoint, nodes, node, None).await?;
            let mut word = [0; 8];
            tree.endpoint().read(form_at, &mut word).await?;
            return match u64::from_le_bytes(word) == key_form {
                true => Ok(tree),
                false => Err(PoolError::NoIndex {
                    root: header(first),
                }),
            };
        }
        if found == expected {
            break;
        }
        // Another client is creating it; if that takes too long, this client does.
        let seen = found;
        while endpoint.now() - since < PATIENCE {
            endpoint.sleep(WAIT).await;
            let mut word = [0; 8];
            endpoint.read(state, &mut word).await?;
            if u64::from_le_bytes(word) != seen {
                break;
            }
        }
        expected = if endpoint.now() - since < PATIENCE {
            0
        } else {
            seen
        };
        // Each creator has the whole time.
        since = endpoint.now();
    }
    if let Err(error) = found_pool(&endpoint, nodes, expected, mine).await {
        // This makes a later client fail at once, too.
        endpoint.compare_swap(state, mine, expected).await?;
        return Err(error);
    }
    let made = ChimeTree::create(endpoint, nodes, header(first), node).await;
    match made {
        Ok(tree) => {
            // The state becomes ready last, when tree and blocks are there.
            BlockMemory::create(tree.endpoint(), blocks(first)).await?;
            let word = key_form.to_le_bytes();
            tree.endpoint().write(form_at, &word).await?;
            tree.endpoint().compare_swap(state, mine, READY).await?;
            Ok(tree)
        }
        Err(error) => Err(error),
    }
}
