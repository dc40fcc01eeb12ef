//! A linked list of nodes of 256 bytes in random order. Next is at byte 0, the value at byte 248.

use super::{Image, NODE_BYTES, NodeImageSource, put};
use crate::workload::Permutation;

#[derive(Debug)]
pub(in super::super) struct PulseList {
    nodes: u64,
    slots: Permutation,
}

const FIRST: u64 = 1 << 44;

impl PulseList {
    pub(in super::super) fn new(nodes: u64, seed: u64) -> PulseList {
        PulseList {
            nodes,
            slots: Permutation::new(nodes, seed),
        }
    }

    pub(in super::super) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the node of a number; the number is its value.
    pub(in super::super) fn address(&self, number: u64) -> u64 {
        FIRST + self.slots.at(number) * NODE_BYTES
    }
}

impl NodeImageSource for PulseList {
    fn image(&self, address: u64) -> Option<Image> {
        let slot = address.checked_sub(FIRST)? / NODE_BYTES;
        (slot < self.nodes).then(|| {
            let number = self.slots.position_of(slot);
            let mut image = [0; NODE_BYTES as usize];
            if number + 1 < self.nodes {
                put(&mut image, 0, self.address(number + 1));
            }
            // At the end, so that an iteration loads a whole node.
            put(&mut image, 248, number);
            image
        })
    }

    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let range = FIRST..FIRST + self.nodes * NODE_BYTES;
        vec![range]
    }
}
