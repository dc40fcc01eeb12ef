//! The nodes of a pool that repairs and drains have excluded.
//!
//! A line of the first node has a bit for each number of a node, and the number of repairs. The bit
//! is set before a repair replaces the leaves of the node, or when a drain has moved its parts, and
//! for ever: if the node came back with its memory, its former leaves would look valid, and in new
//! memory of the same number the addresses that processes know would lead anywhere.

use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_fabric::{Endpoint, GlobalAddress, LINE_BYTES, NodeId, WORD_BYTES};

/// Offset of the words of the first node with a bit for each number, behind the lines of the header
/// and of the state.
const NUMBERS_AT: u64 = 3 * LINE_BYTES;
/// Number of these words, with a bit for each number of a node.
const NUMBER_WORDS: usize = 4;
/// Offset of the word behind them: the number of repairs of leaves and of values that have ended.
const REPAIRS_AT: u64 = NUMBERS_AT + NUMBER_WORDS as u64 * WORD_BYTES;
const WORD_BITS: u16 = 64;

/// The nodes that repairs and drains have excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExcludedNodes {
    numbers: [u64; NUMBER_WORDS],
    repairs: u64,
}

impl ExcludedNodes {
    /// Reads them from the first node of a pool.
    pub async fn read(endpoint: &impl Endpoint, first: NodeId) -> Result<ExcludedNodes, PoolError> {
        let mut bytes = [0; (NUMBER_WORDS + 1) * WORD_BYTES as usize];
        let from = GlobalAddress::new(first, NUMBERS_AT);
        endpoint.read(from, &mut bytes).await?;
        let mut words = [0; NUMBER_WORDS + 1];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let bytes = bytes.iter().rev();
            *word = bytes.fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        let [numbers @ .., repairs] = words;
        Ok(ExcludedNodes { numbers, repairs })
    }

    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.numbers.get(usize::from(node.0 / WORD_BITS));
        word.is_some_and(|word| word & bit(node) != 0)
    }

    pub fn is_empty(&self) -> bool {
        self.numbers == [0; NUMBER_WORDS]
    }

    /// Returns the number of repairs.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }
}

fn bit(node: NodeId) -> u64 {
    1 << (node.0 % WORD_BITS)
}

/// Excludes a node.
pub(super) async fn exclude(
    endpoint: &impl Endpoint,
    first: NodeId,
    node: NodeId,
) -> Result<(), PoolError> {
    let offset = u64::from(node.0 / WORD_BITS) * WORD_BYTES;
    let at = GlobalAddress::new(first, NUMBERS_AT + offset);
    // Another repair may exclude another node meanwhile.
    let mut before = 0;
    loop {
        let after = before | bit(node);
        let found = endpoint.compare_swap(at, before, after).await?;
        if found == before || found & bit(node) != 0 {
            return Ok(());
        }
        before = found;
    }
}

/// Counts a repair, so that clients learn of it.
pub(super) async fn count_repair(endpoint: &impl Endpoint, first: NodeId) -> Result<(), PoolError> {
    endpoint
        .add(GlobalAddress::new(first, REPAIRS_AT), 1)
        .await?;
    Ok(())
}

/// Returns the nodes that repairs and drains of a pool have excluded, which no client may use
/// again. Returns none if the first node cannot be read.
pub fn excluded_nodes(endpoint: &impl Endpoint) -> Vec<NodeId> {
    let first = endpoint.nodes().first().copied().unwrap_or_default();
    nodes_excluded_by(endpoint, first)
}

/// Returns the same as [`excluded_nodes`], where the first node of the pool is this one, or the
/// other one of its pair.
pub fn nodes_excluded_by(endpoint: &impl Endpoint, first: NodeId) -> Vec<NodeId> {
    let excluded = block_on(ExcludedNodes::read(endpoint, first)).unwrap_or_default();
    let numbers = (0..NUMBER_WORDS as u16 * WORD_BITS).map(NodeId);
    numbers.filter(|&node| excluded.contains(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};

    #[test]
    fn nodes_stay_excluded() {
        let (mut simulation, nodes) =
            FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 20; 1]);
        let (endpoint, first) = (simulation.endpoint(0), nodes[0]);
        simulation.spawn(0, async move {
            let read = async || {
                ExcludedNodes::read(&endpoint, first)
                    .await
                    .expect("it lives")
            };
            assert!(read().await.is_empty());
            for number in [1, 63, 64, 255, 1] {
                let done = exclude(&endpoint, first, NodeId(number)).await;
                assert_eq!(done, Ok(()));
            }
            assert_eq!(count_repair(&endpoint, first).await, Ok(()));
            let excluded = read().await;
            let numbers = (0..u16::MAX).filter(|&number| excluded.contains(NodeId(number)));
            assert_eq!(numbers.collect::<Vec<u16>>(), [1, 63, 64, 255]);
            assert_eq!((excluded.is_empty(), excluded.repairs()), (false, 1));
        });
        assert_eq!(simulation.run(), 0);
    }
}
