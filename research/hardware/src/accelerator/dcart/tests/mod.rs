//! The accelerator on trees whose walks are known.

mod bounds;
mod timing;

use super::super::MemorySpan;
use super::{
    DcartAccelerator, DcartOperation, DcartParameters, DcartReport, DcartTree, DcartVisit,
    DcartWalk,
};

/// A tree with a number of levels, in which key `k` has its own path below the root: its nodes are
/// at consecutive places of 64 bytes.
#[derive(Clone, Debug)]
struct Paths {
    levels: u64,
    keys: Vec<u64>,
    /// True for operations that write.
    writes: Vec<bool>,
    /// True if all nodes except the leaf are the same for all keys.
    shared: bool,
    executed: usize,
}

impl Paths {
    fn new(levels: u64, operations: &[DcartOperation]) -> Paths {
        Paths {
            levels,
            keys: operations.iter().map(|operation| operation.key).collect(),
            writes: operations
                .iter()
                .map(|operation| operation.writes)
                .collect(),
            shared: false,
            executed: 0,
        }
    }
}

fn line(number: u64) -> MemorySpan {
    MemorySpan {
        address: number * 64,
        bytes: 64,
    }
}

impl DcartTree for Paths {
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
        assert_eq!(operation, self.executed, "operations come in their order");
        self.executed += 1;
        let key = self.keys[operation];
        for level in 0..self.levels {
            let place = match self.shared {
                true => level,
                false => (key + 1) * 64 + level,
            };
            walk.visit(DcartVisit::inner(line(place), MemorySpan::default()));
        }
        let leaf = (key + 1) * 64 + self.levels;
        walk.visit(DcartVisit::leaf(line(leaf)));
        walk.found();
        if self.writes[operation] {
            walk.store(line(leaf));
            walk.lock(leaf);
        }
    }
}

fn operations(keys: impl Iterator<Item = u64>) -> Vec<DcartOperation> {
    let one = |key: u64| DcartOperation {
        key,
        label: (key % 256) as u8,
        bytes: 16,
        writes: false,
    };
    keys.map(one).collect()
}

/// Returns the published parameters with a change.
fn changed(change: impl FnOnce(&mut DcartParameters)) -> DcartParameters {
    let mut parameters = DcartParameters::published();
    change(&mut parameters);
    parameters
}

fn run(
    parameters: DcartParameters,
    operations: &[DcartOperation],
    tree: &mut Paths,
) -> DcartReport {
    let accelerator = DcartAccelerator::new(parameters).unwrap();
    accelerator.run(operations, tree).unwrap()
}
