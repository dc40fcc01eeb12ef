//! The drain that a pool is making: a word of its first node.
//!
//! A node is excluded only while no client allocates there, and a cancelled drain lets clients
//! allocate again. So both are decided by one swap of this word: a drain that was cancelled
//! excludes nothing, and one that excludes its node cannot be cancelled.
//!
//! ```text
//! number of the node (16 bits) | phase (2 bits) | unused (14) | count of drains and cancellations
//! ```
//! The count makes each word unlike all former ones. Several clients may drain one node at a time.

use super::excluded::{ExcludedNodes, exclude};
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress, LINE_BYTES, NodeId, WORD_BYTES};

/// Offset of the word, in the line of the excluded nodes.
const CLAIM_AT: u64 = 3 * LINE_BYTES + 5 * WORD_BYTES;
const NODE_BITS: u32 = 16;
const COUNT_SHIFT: u32 = 32;

/// The phase of the last drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainPhase {
    /// The end, also of one that was cancelled.
    Ended,
    /// The parts of its node are moved.
    Moving,
    /// Its node is about to be excluded.
    Excluding,
    /// A node is about to be opened. Its drain was cancelled, or there was none.
    Opening,
}

/// The word, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DrainClaimWord {
    node: NodeId,
    phase: DrainPhase,
    count: u64,
}

impl DrainClaimWord {
    fn from_bits(word: u64) -> DrainClaimWord {
        DrainClaimWord {
            node: NodeId(word as u16),
            phase: match (word >> NODE_BITS) & 3 {
                0 => DrainPhase::Ended,
                1 => DrainPhase::Moving,
                2 => DrainPhase::Excluding,
                _ => DrainPhase::Opening,
            },
            count: word >> COUNT_SHIFT,
        }
    }

    fn to_bits(self) -> u64 {
        let phase = match self.phase {
            DrainPhase::Ended => 0,
            DrainPhase::Moving => 1,
            DrainPhase::Excluding => 2,
            DrainPhase::Opening => 3,
        };
        self.count << COUNT_SHIFT | phase << NODE_BITS | u64::from(self.node.0)
    }

    fn with(self, phase: DrainPhase) -> DrainClaimWord {
        DrainClaimWord { phase, ..self }
    }

    fn next(self, node: NodeId, phase: DrainPhase) -> DrainClaimWord {
        let count = self.count + 1;
        DrainClaimWord { node, phase, count }
    }
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainClaimOutcome {
    Claimed(DrainClaim),
    /// The drain of this node has not ended.
    Busy(NodeId),
    /// The node is excluded, or about to be.
    Excluded,
}

/// A client's claim to drain a node, or to open it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrainClaim {
    at: GlobalAddress,
    word: DrainClaimWord,
}

impl DrainClaim {
    /// Begins the drain of a node, or takes part in one that has not ended.
    pub async fn drain(
        endpoint: &impl Endpoint,
        first: NodeId,
        node: NodeId,
    ) -> Result<DrainClaimOutcome, PoolError> {
        let at = GlobalAddress::new(first, CLAIM_AT);
        let mut found = read(endpoint, at).await?;
        loop {
            match found.phase {
                DrainPhase::Ended => {}
                DrainPhase::Moving | DrainPhase::Excluding if found.node == node => {
                    let word = found.with(DrainPhase::Moving);
                    return Ok(DrainClaimOutcome::Claimed(DrainClaim { at, word }));
                }
                _ => return Ok(DrainClaimOutcome::Busy(found.node)),
            }
            let word = found.next(node, DrainPhase::Moving);
            let before = swap(endpoint, at, found, word).await?;
            if before == found {
                return Ok(DrainClaimOutcome::Claimed(DrainClaim { at, word }));
            }
            found = before;
        }
    }

    /// Excludes the drained node. Returns false if the drain was cancelled.
    pub async fn exclude(self, endpoint: &impl Endpoint) -> Result<bool, PoolError> {
        let (first, node) = (self.at.node(), self.word.node);
        let excluding = self.word.with(DrainPhase::Excluding);
        let before = swap(endpoint, self.at, self.word, excluding).await?;
        if before != self.word && before != excluding {
            // Another client may have drained the node to the end.
            return Ok(ExcludedNodes::read(endpoint, first).await?.contains(node));
        }
        exclude(endpoint, first, node).await?;
        let ended = excluding.with(DrainPhase::Ended);
        swap(endpoint, self.at, excluding, ended).await?;
        Ok(true)
    }

    /// Cancels the drain of a node, if there is one. The node may be opened then.
    pub async fn cancel(
        endpoint: &impl Endpoint,
        first: NodeId,
        node: NodeId,
    ) -> Result<DrainClaimOutcome, PoolError> {
        DrainClaim::begin_opening(endpoint, first, node, true).await
    }

    /// Allows to open a node, unless it is drained.
    pub async fn open(
        endpoint: &impl Endpoint,
        first: NodeId,
        node: NodeId,
    ) -> Result<DrainClaimOutcome, PoolError> {
        DrainClaim::begin_opening(endpoint, first, node, false).await
    }

    async fn begin_opening(
        endpoint: &impl Endpoint,
        first: NodeId,
        node: NodeId,
        cancels: bool,
    ) -> Result<DrainClaimOutcome, PoolError> {
        let at = GlobalAddress::new(first, CLAIM_AT);
        let mut found = read(endpoint, at).await?;
        loop {
            match found.phase {
                DrainPhase::Ended => {}
                _ if found.node != node => return Ok(DrainClaimOutcome::Busy(found.node)),
                DrainPhase::Moving if cancels => {}
                DrainPhase::Moving => return Ok(DrainClaimOutcome::Busy(node)),
                DrainPhase::Excluding => return Ok(DrainClaimOutcome::Excluded),
                DrainPhase::Opening => {
                    let word = found;
                    return Ok(DrainClaimOutcome::Claimed(DrainClaim { at, word }));
                }
            }
            // The last drain may have excluded this node since the caller has looked.
            let excluded = ExcludedNodes::read(endpoint, first).await?;
            if excluded.contains(node) {
                return Ok(DrainClaimOutcome::Excluded);
            }
            let word = found.next(node, DrainPhase::Opening);
            let before = swap(endpoint, at, found, word).await?;
            if before == found {
                return Ok(DrainClaimOutcome::Claimed(DrainClaim { at, word }));
            }
            found = before;
        }
    }

    /// Ends a claim to open a node, after that was done.
    pub async fn end(self, endpoint: &impl Endpoint) -> Result<(), PoolError> {
        let ended = self.word.with(DrainPhase::Ended);
        swap(endpoint, self.at, self.word, ended).await?;
        Ok(())
    }
}

async fn read(endpoint: &impl Endpoint, at: GlobalAddress) -> Result<DrainClaimWord, PoolError> {
    let mut word = [0; 8];
    endpoint.read(at, &mut word).await?;
    Ok(DrainClaimWord::from_bits(u64::from_le_bytes(word)))
}

/// Swaps the word, and returns the former one.
async fn swap(
    endpoint: &impl Endpoint,
    at: GlobalAddress,
    expected: DrainClaimWord,
    desired: DrainClaimWord,
) -> Result<DrainClaimWord, PoolError> {
    let (before, after) = (expected.to_bits(), desired.to_bits());
    let found = endpoint.compare_swap(at, before, after).await?;
    Ok(DrainClaimWord::from_bits(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};

    fn run<F: Future<Output = ()> + 'static>(act: impl FnOnce(SimEndpoint) -> F) {
        let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 20; 1]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, act(endpoint));
        assert_eq!(simulation.run(), 0);
    }

    const FIRST: NodeId = NodeId(0);
    const NODE: NodeId = NodeId(3);

    async fn claimed(endpoint: &SimEndpoint, node: NodeId) -> DrainClaim {
        match DrainClaim::drain(endpoint, FIRST, node).await {
            Ok(DrainClaimOutcome::Claimed(claim)) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_node_is_drained_at_a_time() {
        run(|endpoint| async move {
            let one = claimed(&endpoint, NODE).await;
            let other = claimed(&endpoint, NODE).await;
            assert_eq!(one, other);
            let busy = Ok(DrainClaimOutcome::Busy(NODE));
            let node = NodeId(7);
            assert_eq!(DrainClaim::drain(&endpoint, FIRST, node).await, busy);
            assert_eq!(DrainClaim::cancel(&endpoint, FIRST, node).await, busy);
            assert_eq!(DrainClaim::open(&endpoint, FIRST, NODE).await, busy);
            assert_eq!(one.exclude(&endpoint).await, Ok(true));
            assert_eq!(other.exclude(&endpoint).await, Ok(true));
            let done = Ok(DrainClaimOutcome::Excluded);
            assert_eq!(DrainClaim::cancel(&endpoint, FIRST, NODE).await, done);
            let next = claimed(&endpoint, node).await;
            assert_eq!(next.exclude(&endpoint).await, Ok(true));
            let excluded = ExcludedNodes::read(&endpoint, FIRST).await.expect("a node");
            assert!(excluded.contains(NODE) && excluded.contains(node));
        });
    }

    /// A regression: a drain excluded its node after clients had been allowed to use it again.
    #[test]
    fn a_drain_that_was_cancelled_excludes_nothing() {
        run(|endpoint| async move {
            let claim = claimed(&endpoint, NODE).await;
            let Ok(DrainClaimOutcome::Claimed(opening)) =
                DrainClaim::cancel(&endpoint, FIRST, NODE).await
            else {
                panic!("the drain has not ended")
            };
            let busy = Ok(DrainClaimOutcome::Busy(NODE));
            assert_eq!(DrainClaim::drain(&endpoint, FIRST, NODE).await, busy);
            assert_eq!(claim.exclude(&endpoint).await, Ok(false));
            assert_eq!(opening.end(&endpoint).await, Ok(()));
            assert_eq!(claim.exclude(&endpoint).await, Ok(false));
            let excluded = ExcludedNodes::read(&endpoint, FIRST).await.expect("a node");
            assert!(excluded.is_empty());
            // A later drain is another one.
            let next = claimed(&endpoint, NODE).await;
            assert_eq!(claim.exclude(&endpoint).await, Ok(false));
            assert_eq!(next.exclude(&endpoint).await, Ok(true));
        });
    }

    #[test]
    fn words_are_decoded_as_they_were_encoded() {
        let phases = [
            DrainPhase::Ended,
            DrainPhase::Moving,
            DrainPhase::Excluding,
            DrainPhase::Opening,
        ];
        for phase in phases {
            let (node, count) = (NodeId(513), 77);
            let word = DrainClaimWord { node, phase, count };
            assert_eq!(DrainClaimWord::from_bits(word.to_bits()), word);
        }
        let new = DrainClaimWord::from_bits(0);
        assert_eq!((new.phase, new.count), (DrainPhase::Ended, 0));
    }
}
