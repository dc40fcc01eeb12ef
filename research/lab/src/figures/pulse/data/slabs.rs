//! The placement of nodes: on which memory node, and at which address.
//!
//! As in the paper's own study, each memory node's share is cut into slabs. A slab is drawn at
//! random and filled with nodes in the order of their creation, then a slab of another memory node.
//! If slabs hold a single node each, addresses are drawn from all.

use super::NODE_BYTES;
use crate::workload::{Permutation, random};
use rand::RngExt;

/// The allocation of addresses to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Allocation {
    /// Slabs of this many bytes, in random order.
    Slabs(u64),
    /// An equal part of the keys on each memory node.
    Partitioned,
}

/// The addresses of nodes on memory nodes.
#[derive(Clone, Debug)]
pub(in super::super) struct SlabAddresses {
    memory_nodes: u64,
    each: u64,
    /// Number of nodes of a slab.
    slab: u64,
    places: SlabPlaces,
}

/// The place of each slab. A place is the slab's number on its memory node, times the number of
/// memory nodes, plus the memory node.
#[derive(Clone, Debug)]
enum SlabPlaces {
    Scattered(Permutation),
    Drawn {
        places: Vec<u32>,
        /// The slab of each place.
        slabs: Vec<u32>,
    },
}

impl SlabPlaces {
    /// Draws a memory node for each slab: one that has room and does not hold the last slab, if
    /// possible.
    fn draw(slabs: u64, memory_nodes: u64, seed: u64) -> SlabPlaces {
        debug_assert!(slabs.is_multiple_of(memory_nodes));
        let mut random = random(seed, 0x51ab);
        let count = memory_nodes as usize;
        let mut used = vec![0; count];
        let each = (slabs / memory_nodes) as u32;
        let mut places = Vec::with_capacity(slabs as usize);
        let mut slab_at = vec![0; slabs as usize];
        let mut last = None;
        let mut candidates = Vec::with_capacity(count);
        for slab in 0..slabs as u32 {
            let has_room = |node: &usize| used.get(*node).is_some_and(|&used| used < each);
            candidates.clear();
            candidates.extend((0..count).filter(|node| has_room(node) && Some(*node) != last));
            // Towards the end, only the memory node of the last slab may have room.
            if candidates.is_empty() {
                candidates.extend((0..count).filter(has_room));
            }
            debug_assert!(!candidates.is_empty(), "there is room for each slab");
            let chosen = random.random_range(0..candidates.len().max(1));
            let node = candidates.get(chosen).copied().unwrap_or_default();
            last = Some(node);
            let Some(used) = used.get_mut(node) else {
                continue;
            };
            let place = *used * memory_nodes as u32 + node as u32;
            *used += 1;
            places.push(place);
            if let Some(to) = slab_at.get_mut(place as usize) {
                *to = slab;
            }
        }
        debug_assert_eq!(places.len(), slab_at.len());
        SlabPlaces::Drawn {
            places,
            slabs: slab_at,
        }
    }

    fn at(&self, slab: u64) -> u64 {
        match self {
            SlabPlaces::Scattered(places) => places.at(slab),
            SlabPlaces::Drawn { places, .. } => {
                places.get(slab as usize).copied().map_or(0, u64::from)
            }
        }
    }

    fn slab_at(&self, place: u64) -> u64 {
        match self {
            SlabPlaces::Scattered(places) => places.position_of(place),
            SlabPlaces::Drawn { slabs, .. } => {
                slabs.get(place as usize).copied().map_or(0, u64::from)
            }
        }
    }
}

/// The first address of a memory node. The next constant is their distance.
const FIRST: u64 = 1 << 44;
const DISTANCE: u64 = 1 << 44;

impl SlabAddresses {
    pub(in super::super) fn new(
        nodes: u64,
        memory_nodes: usize,
        allocation: Allocation,
        seed: u64,
    ) -> SlabAddresses {
        let memory_nodes = memory_nodes as u64;
        let slab = match allocation {
            Allocation::Slabs(bytes) => {
                // A slab is at most a fifth of a memory node's part, as one of 1 GiB is of the
                // paper's 20 GB on four.
                let largest = nodes.div_ceil(memory_nodes * 5).max(1);
                (bytes / NODE_BYTES).clamp(1, largest)
            }
            Allocation::Partitioned => nodes.div_ceil(memory_nodes),
        };
        let slabs = nodes.div_ceil(slab).next_multiple_of(memory_nodes);
        debug_assert!(slabs / memory_nodes * slab <= DISTANCE / NODE_BYTES);
        SlabAddresses {
            memory_nodes,
            each: slabs / memory_nodes * slab,
            slab,
            places: match allocation {
                Allocation::Slabs(_) if slab > 1 => SlabPlaces::draw(slabs, memory_nodes, seed),
                _ => SlabPlaces::Scattered(Permutation::new(slabs, seed)),
            },
        }
    }

    /// Returns the addresses of each memory node.
    pub(in super::super) fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let range = |node: u64| {
            let start = FIRST + node * DISTANCE;
            start..start + self.each * NODE_BYTES
        };
        (0..self.memory_nodes).map(range).collect()
    }

    /// Returns the address of the n-th created node.
    pub(in super::super) fn address(&self, number: u64) -> u64 {
        let place = self.places.at(number / self.slab);
        let (memory_node, slab) = (place % self.memory_nodes, place / self.memory_nodes);
        let slot = slab * self.slab + number % self.slab;
        debug_assert!(slot < self.each, "node {number} has no place");
        FIRST + memory_node * DISTANCE + slot * NODE_BYTES
    }

    /// Returns the number of the node at an address; it may exceed that of the last node.
    pub(in super::super) fn number(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(FIRST)?;
        let (memory_node, slot) = (offset / DISTANCE, offset % DISTANCE / NODE_BYTES);
        if memory_node >= self.memory_nodes
            || slot >= self.each
            || !address.is_multiple_of(NODE_BYTES)
        {
            return None;
        }
        let place = slot / self.slab * self.memory_nodes + memory_node;
        Some(self.places.slab_at(place) * self.slab + slot % self.slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_an_address_of_its_own_and_is_found_by_it() {
        for allocation in [Allocation::Slabs(4096), Allocation::Slabs(1 << 30)] {
            let slabs = SlabAddresses::new(1000, 3, allocation, 7);
            let mut seen = std::collections::HashSet::new();
            let mut on = [0; 3];
            for number in 0..1000 {
                let address = slabs.address(number);
                assert!(seen.insert(address));
                assert_eq!(slabs.number(address), Some(number));
                let ranges = slabs.ranges();
                let node = ranges
                    .iter()
                    .position(|range| range.contains(&address))
                    .unwrap();
                on[node] += 1;
            }
            // Equal except for a slab.
            assert!(on.iter().all(|&count| count > 220), "{on:?}");
        }
        let slabs = SlabAddresses::new(1000, 2, Allocation::Slabs(4096), 7);
        assert_eq!(slabs.number(FIRST + 1), None);
        assert_eq!(slabs.number(FIRST + 2 * DISTANCE), None);
    }

    #[test]
    fn the_next_slab_is_on_another_memory_node() {
        let slabs = SlabAddresses::new(64_000, 4, Allocation::Slabs(4096), 3);
        let node = |slab: u64| (slabs.address(16 * slab) - FIRST) / DISTANCE;
        let same = (1..4000)
            .filter(|&slab| node(slab) == node(slab - 1))
            .count();
        // Except at the end, if only one memory node has room.
        assert!(same < 40, "{same}");
    }

    #[test]
    fn nodes_created_together_share_a_slab() {
        let slabs = SlabAddresses::new(100_000, 4, Allocation::Slabs(4096), 1);
        let pairs = (0..10_000).filter(|&number| {
            slabs.address(number + 1).abs_diff(slabs.address(number)) == NODE_BYTES
        });
        // Fifteen of sixteen.
        let share = pairs.count() as f64 / 10_000.0;
        assert!((0.93..0.95).contains(&share), "{share}");
    }
}
