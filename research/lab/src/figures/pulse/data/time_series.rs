//! BTrDB's series: a B+ tree of keys that were inserted in ascending order. A key is the time of a
//! measurement of a phasor that is measured 120 times a second.
//!
//! A full node splits into a left half, which never changes again, and a right one, which grows. So
//! all leaves except the last have four keys and all inner nodes except those on the right edge
//! have five children, and the order of creation follows from the position: the inner node of level
//! l and number i is created when 5^l (i + 1) leaves exist. Source: the artifact's splits, 4 of 9
//! keys to the left.

use super::slabs::{Allocation, SlabAddresses};
use super::tree::{GeneratedTree, TreeNodePosition, image};
use super::{Image, NodeImageSource};
use crate::workload::measurement;

const LEAF: u64 = 4;
const INNER: u64 = 5;

#[derive(Debug)]
pub(in super::super) struct PulseTimeSeries {
    leaves: u64,
    levels: u32,
    slabs: SlabAddresses,
}

impl PulseTimeSeries {
    pub(in super::super) fn new(
        keys: u64,
        memory_nodes: usize,
        allocation: Allocation,
        seed: u64,
    ) -> PulseTimeSeries {
        let leaves = keys.div_ceil(LEAF);
        // The root of level l is created when the one below splits.
        let mut levels = 1;
        while 2 * INNER.pow(levels - 1) <= leaves {
            levels += 1;
        }
        let mut series = PulseTimeSeries {
            leaves,
            levels,
            slabs: SlabAddresses::new(1, 1, allocation, seed),
        };
        let nodes = series.created_before(leaves);
        // Nodes that are created together have neighbouring times, so half of the nodes is half of
        // the time.
        series.slabs = SlabAddresses::new(nodes, memory_nodes, allocation, seed);
        series
    }

    pub(in super::super) fn keys(&self) -> u64 {
        self.leaves * LEAF
    }

    fn nodes(&self) -> u64 {
        self.created_before(self.leaves)
    }

    pub(in super::super) fn root(&self) -> u64 {
        let level = self.levels - 1;
        self.address(TreeNodePosition { level, index: 0 })
    }

    /// Returns the time of a measurement, and its magnitude.
    pub(in super::super) fn entry_at(&self, number: u64) -> (u64, u64) {
        measurement(number)
    }

    /// Returns the number of nodes that are created before the leaf of this number.
    fn created_before(&self, leaf: u64) -> u64 {
        let inner = |level: u32| {
            let of_splits = (leaf / INNER.pow(level)).saturating_sub(1);
            of_splits + u64::from(leaf >= 2 * INNER.pow(level - 1))
        };
        leaf + (1..self.levels).map(inner).sum::<u64>()
    }

    /// Returns a node's number in the order of creation.
    fn number(&self, place: TreeNodePosition) -> u64 {
        let TreeNodePosition { level, index } = place;
        if level == 0 {
            return self.created_before(index);
        }
        let leaves = match index {
            0 => 2 * INNER.pow(level - 1),
            _ => INNER.pow(level) * (index + 1),
        };
        // Inner nodes follow the last leaf that they need, the upper ones first.
        self.created_before(leaves) - u64::from(level)
    }

    fn place(&self, number: u64) -> Option<TreeNodePosition> {
        if number >= self.nodes() {
            return None;
        }
        // Finds the last leaf that is not created after the node.
        let (mut low, mut high) = (0, self.leaves);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.created_before(middle) <= number {
                true => low = middle,
                false => high = middle,
            }
        }
        if self.created_before(low) == number {
            return Some(TreeNodePosition {
                level: 0,
                index: low,
            });
        }
        let leaves = low + 1;
        let level = (self.created_before(leaves) - number) as u32;
        let index = match leaves == 2 * INNER.pow(level - 1) {
            true => 0,
            false => leaves / INNER.pow(level) - 1,
        };
        let place = TreeNodePosition { level, index };
        debug_assert_eq!(self.number(place), number);
        Some(place)
    }
}

impl GeneratedTree for PulseTimeSeries {
    fn count(&self, level: u32) -> u64 {
        (self.leaves / INNER.pow(level)).max(1)
    }

    fn below(&self, place: TreeNodePosition) -> std::ops::Range<u64> {
        let TreeNodePosition { level, index } = place;
        let Some(below) = level.checked_sub(1) else {
            return index * LEAF..(index + 1) * LEAF;
        };
        let is_last = index + 1 == self.count(level);
        let end = match is_last {
            true => self.count(below),
            false => (index + 1) * INNER,
        };
        index * INNER..end
    }

    fn entry(&self, number: u64) -> (u64, u64) {
        self.entry_at(number)
    }

    fn address(&self, place: TreeNodePosition) -> u64 {
        self.slabs.address(self.number(place))
    }
}

impl NodeImageSource for PulseTimeSeries {
    fn image(&self, address: u64) -> Option<Image> {
        let place = self.place(self.slabs.number(address)?)?;
        Some(image(self, place))
    }

    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        self.slabs.ranges()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_creation_numbers_every_node_once() {
        for keys in [4, 40, 1000, 12_344] {
            let series = PulseTimeSeries::new(keys, 2, Allocation::Slabs(4096), 1);
            let mut seen = vec![false; series.nodes() as usize];
            for level in 0..series.levels {
                for index in 0..series.count(level) {
                    let place = TreeNodePosition { level, index };
                    let number = series.number(place);
                    assert!(!seen[number as usize], "{keys} keys: {place:?}");
                    seen[number as usize] = true;
                    assert_eq!(series.place(number), Some(place));
                }
            }
            assert!(seen.into_iter().all(|seen| seen));
            assert_eq!(series.place(series.nodes()), None);
            assert_eq!(series.count(series.levels - 1), 1);
        }
    }

    #[test]
    fn inner_nodes_have_five_to_ten_children() {
        let series = PulseTimeSeries::new(1_000_000, 1, Allocation::Slabs(4096), 1);
        for level in 1..series.levels {
            for index in [0, series.count(level) / 2, series.count(level) - 1] {
                let below = series.below(TreeNodePosition { level, index });
                let children = below.end - below.start;
                let least = if level + 1 == series.levels { 2 } else { 5 };
                assert!(
                    (least..=10).contains(&children),
                    "{level} {index}: {children}"
                );
            }
        }
    }

    #[test]
    fn a_quarter_of_a_billion_keys_take_the_artifact_s_bytes() {
        let series = PulseTimeSeries::new(250_000_000, 1, Allocation::Slabs(1 << 30), 1);
        // 77.9 million nodes.
        let millions = series.nodes() as f64 / 1e6;
        assert!((77.5..78.5).contains(&millions), "{millions}");
    }
}
