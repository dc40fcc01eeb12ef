//! The shape of the adaptive radix tree: its nodes grow and shrink at the reference's thresholds.

use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_radix::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use nearfield_radix_rivals::Art;

/// The kinds of the inner nodes that the lookup of a key reads, by their slots.
#[derive(Default)]
struct NodeSlotsProbe(Vec<u16>);

impl RadixProbe for NodeSlotsProbe {
    fn node(&mut self, visit: RadixNodeVisit) {
        if let VisitedNodeKind::Inner { slots } = visit.kind {
            self.0.push(slots);
        }
    }
}

fn kinds(index: &Art<Words>, key: u64) -> Vec<u16> {
    let mut batch = Batch::new();
    batch.get(key);
    let mut kinds = NodeSlotsProbe::default();
    index.execute_probed(&mut batch, &mut kinds).expect("a get");
    kinds.0
}

/// Keys of one last byte each grow a node to each kind, and shrink it back, with a gap between.
#[test]
fn nodes_grow_and_shrink_at_the_thresholds_of_the_reference() {
    let index = Art::<Words>::new();
    let mut before = 256;
    for count in 1..=256_u64 {
        index.insert(count - 1, count).expect("insert");
        let expected: &[u16] = match count {
            1 => &[256],
            2..=4 => &[256, 4],
            5..=16 => &[256, 16],
            17..=48 => &[256, 48],
            _ => &[256, 256],
        };
        assert_eq!(kinds(&index, 0), expected, "{count} keys");
    }
    for count in (1..=255_u64).rev() {
        index.remove(count).expect("remove");
        let expected: &[u16] = match count {
            1 => &[256],
            2 => &[256, 4],
            3..=11 => &[256, 16],
            12..=36 => &[256, 48],
            _ => &[256, 256],
        };
        assert_eq!(kinds(&index, 0), expected, "{count} keys");
        assert!(count <= before);
        before = count;
        index.check_invariants();
    }
}
