//! WiredTiger's table: a B+ tree of keys that were inserted in random order.
//!
//! Random insertion leaves leaves about 70 % full: 6.26 keys and 7.4 children on average, which
//! give the paper's 92.4 million nodes at 500 million keys, and its ten levels. Nodes next to each
//! other were created at unrelated times, so the order of their creation is random.

use super::slabs::{Allocation, SlabAddresses};
use super::tree::{GeneratedTree, KEYS_MAX, TreeNodePosition, image};
use super::{Image, NodeImageSource, hash};
use crate::workload::Permutation;

/// Mean number of a leaf's entries. The next constant is that of an inner node's children.
const LEAF: f64 = 6.26;
const INNER: f64 = 7.4;
/// Distance of neighbouring keys.
const STRIDE: u64 = 1 << 32;

#[derive(Debug)]
pub(in super::super) struct PulseOrderedTable {
    keys: u64,
    /// Number of nodes of each level, leaves first. The next field has the number of nodes below
    /// each level.
    counts: Vec<u64>,
    before: Vec<u64>,
    /// The order of creation; `None` if it is the order of the numbers.
    created: Option<Permutation>,
    slabs: SlabAddresses,
    partitions: u64,
}

impl PulseOrderedTable {
    pub(in super::super) fn new(
        keys: u64,
        memory_nodes: usize,
        allocation: Allocation,
        seed: u64,
    ) -> PulseOrderedTable {
        let mut counts = vec![(keys as f64 / LEAF).ceil() as u64];
        while let Some(&count) = counts.last()
            && count > 1
        {
            // The root may have as many children as fit.
            let above = match count <= KEYS_MAX + 1 {
                true => 1,
                false => (count as f64 / INNER).ceil() as u64,
            };
            counts.push(above);
        }
        let mut before = Vec::new();
        let mut nodes = 0;
        for count in &counts {
            before.push(nodes);
            nodes += count;
        }
        let partitions = memory_nodes as u64;
        let (created, places) = match allocation {
            Allocation::Slabs(_) => (Some(Permutation::new(nodes, seed)), nodes),
            // Each memory node has addresses for all nodes, but stores only some of them.
            Allocation::Partitioned => (None, nodes * partitions),
        };
        PulseOrderedTable {
            keys,
            counts,
            before,
            created,
            slabs: SlabAddresses::new(places, memory_nodes, allocation, seed + 1),
            partitions,
        }
    }

    pub(in super::super) fn keys(&self) -> u64 {
        self.keys
    }

    fn nodes(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(in super::super) fn root(&self) -> u64 {
        let level = self.counts.len() as u32 - 1;
        self.address(TreeNodePosition { level, index: 0 })
    }

    /// Returns the key and the value of an entry.
    pub(in super::super) fn entry_at(&self, number: u64) -> (u64, u64) {
        (number * STRIDE + (hash(number) >> 40), hash(!number))
    }

    fn number(&self, place: TreeNodePosition) -> u64 {
        debug_assert!(place.index < self.count(place.level));
        let before = self.before.get(place.level as usize).copied();
        before.unwrap_or_default() + place.index
    }
}

impl GeneratedTree for PulseOrderedTable {
    fn count(&self, level: u32) -> u64 {
        self.counts.get(level as usize).copied().unwrap_or(1)
    }

    fn below(&self, place: TreeNodePosition) -> std::ops::Range<u64> {
        let below = match place.level.checked_sub(1) {
            Some(level) => self.count(level),
            None => self.keys,
        };
        let count = self.count(place.level);
        // The parts are equal: their sizes differ by one at most.
        let start = |index: u64| (u128::from(index) * u128::from(below)).div_ceil(count.into());
        start(place.index) as u64..start(place.index + 1) as u64
    }

    fn entry(&self, number: u64) -> (u64, u64) {
        self.entry_at(number)
    }

    fn address(&self, place: TreeNodePosition) -> u64 {
        let number = self.number(place);
        match self.created {
            Some(created) => self.slabs.address(created.at(number)),
            None => {
                let ranges = self.slabs.ranges();
                let part = place.index * self.partitions / self.count(place.level);
                let range = ranges.get(part as usize);
                range.map_or(0, |range| range.start + 256 * number)
            }
        }
    }
}

impl NodeImageSource for PulseOrderedTable {
    fn image(&self, address: u64) -> Option<Image> {
        let number = match self.created {
            Some(created) => {
                let number = self.slabs.number(address)?;
                (number < self.nodes()).then(|| created.position_of(number))?
            }
            None => {
                let ranges = self.slabs.ranges();
                let range = ranges.iter().find(|range| range.contains(&address))?;
                (address - range.start) / 256
            }
        };
        // The leaves begin at 0, so at least their level begins at or below the number.
        debug_assert_eq!(self.before.first(), Some(&0));
        let level = self.before.partition_point(|&before| before <= number) - 1;
        let index = number - self.before.get(level)?;
        let level = level as u32;
        (index < self.count(level)).then(|| image(self, TreeNodePosition { level, index }))
    }

    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        self.slabs.ranges()
    }
}
