//! Creating or finding the tree of a store: the first client creates it.

use super::blocks::BlockMemory;
use crate::chime::{ComputeNode, Tree};
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress, LINE_BYTES, NodeId};
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

/// The line of the tree's header, behind the one where address 0 is none.
const HEADER_AT: u64 = LINE_BYTES;
/// The word on the first node that tells whether there is a tree. 0, a random number of its
/// creator, or `READY`.
const STATE_AT: u64 = 2 * LINE_BYTES;
const READY: u64 = 1 << 63;
/// The word behind it, which tells where the epochs of blocks are, in stores of byte strings.
const BLOCKS_AT: u64 = STATE_AT + 8;
/// A creator that takes longer counts as dead.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which a client checks for the tree.
const WAIT: Duration = Duration::from_millis(1);

/// The header of a store on these nodes.
fn header(first: NodeId) -> GlobalAddress {
    GlobalAddress::new(first, HEADER_AT)
}

/// The word of a store's epochs of blocks.
pub(super) fn blocks(first: NodeId) -> GlobalAddress {
    GlobalAddress::new(first, BLOCKS_AT)
}

/// Opens the tree, which must exist.
pub(super) async fn open<E: Endpoint>(
    endpoint: E,
    nodes: &[NodeId],
    node: Arc<ComputeNode>,
) -> Result<Tree<E>, PoolError> {
    let first = nodes.first().copied().unwrap_or_default();
    Tree::open(endpoint, nodes, header(first), node).await
}

/// Opens the tree, or creates it if no client has.
pub(super) async fn create_or_open<E: Endpoint>(
    endpoint: E,
    nodes: &[NodeId],
    node: Arc<ComputeNode>,
) -> Result<Tree<E>, PoolError> {
    let first = nodes.first().copied().unwrap_or_default();
    let state = GlobalAddress::new(first, STATE_AT);
    let mine = rand::rng().random_range(1..READY);
    let mut expected = 0;
    let mut since = endpoint.now();
    loop {
        let found = endpoint.compare_swap(state, expected, mine).await?;
        if found == READY {
            return open(endpoint, nodes, node).await;
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
        since = endpoint.now();
    }
    let made = Tree::create(endpoint, nodes, header(first), node).await;
    match made {
        Ok(tree) => {
            BlockMemory::create(tree.endpoint(), blocks(first)).await?;
            tree.endpoint().compare_swap(state, mine, READY).await?;
            Ok(tree)
        }
        Err(error) => Err(error),
    }
}
