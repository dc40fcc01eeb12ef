//! The accelerator on trees whose walks are known.

mod bounds;
mod timing;

use super::super::Span;
use super::{Accelerator, Operation, Parameters, Report, Tree, Visit, Walk};

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
    fn new(levels: u64, operations: &[Operation]) -> Paths {
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

fn line(number: u64) -> Span {
    Span {
        address: number * 64,
        bytes: 64,
    }
}

impl Tree for Paths {
    fn execute(&mut self, operation: usize, walk: &mut Walk) {
        assert_eq!(operation, self.executed, "operations come in their order");
        self.executed += 1;
        let key = self.keys[operation];
        for level in 0..self.levels {
            let place = match self.shared {
                true => level,
                false => (key + 1) * 64 + level,
            };
            walk.visit(Visit::inner(line(place), Span::default()));
        }
        let leaf = (key + 1) * 64 + self.levels;
        walk.visit(Visit::leaf(line(leaf)));
        walk.found();
        if self.writes[operation] {
            walk.store(line(leaf));
            walk.lock(leaf);
        }
    }
}

fn operations(keys: impl Iterator<Item = u64>) -> Vec<Operation> {
    let one = |key: u64| Operation {
        key,
        label: (key % 256) as u8,
        bytes: 16,
        writes: false,
    };
    keys.map(one).collect()
}

fn run(parameters: Parameters, operations: &[Operation], tree: &mut Paths) -> Report {
    let accelerator = Accelerator::new(parameters).unwrap();
    accelerator.run(operations, tree).unwrap()
}
