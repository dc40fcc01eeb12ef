//! A user's own structure, by the steps of docs/offload.md: a skip list whose links carry the key
//! of the node that they lead to, so that one load of a node is enough to choose the next one.

use nearfield_offload::isa::{BpfBuilder, BranchCondition, OperandSize, Register::*};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant};
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::structures::{HeapError, NodeArena, NodeHeap};
use nearfield_offload::traversal::{InMemory, QueryRunner, TraversalQuery};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Failure = Box<dyn std::error::Error>;

/// Number of levels. A node has its value, and for each level the next node and its key.
const LEVELS: u64 = 8;
const BYTES: u64 = 8 + 16 * LEVELS;
const fn link(level: u64) -> u64 {
    8 + 16 * level
}

/// Returns the program of the lookup. Scratchpad: the wanted key, then the key and node found.
fn lower_bound() -> Result<TraversalProgram, Failure> {
    let mut code = BpfBuilder::new();
    code.load(OperandSize::Double, R7, R2, 0);
    for level in (0..LEVELS).rev() {
        let down = code.label();
        code.load(OperandSize::Double, R0, R1, link(level) as i16);
        code.branch(BranchCondition::Equal, R0, 0, down);
        code.load(OperandSize::Double, R6, R1, link(level) as i16 + 8);
        code.branch(BranchCondition::GreaterOrEqual, R6, R7, down);
        code.exit();
        code.place(down);
    }
    // The next node of the lowest level is the result, or null.
    code.load(OperandSize::Double, R6, R1, link(0) as i16 + 8);
    code.store(OperandSize::Double, R2, 8, R6);
    code.store(OperandSize::Double, R2, 16, R0);
    code.set(R0, 0);
    code.exit();
    let declaration = Declaration::scratchpad(24);
    Ok(TraversalProgram::verify(code.build()?, declaration)?)
}

struct OffloadSkipList {
    program: Arc<TraversalProgram>,
    head: u64,
}

impl OffloadSkipList {
    fn insert(&self, heap: &mut impl NodeHeap, key: u64, value: u64) -> Result<(), HeapError> {
        let node = heap.allocate(BYTES)?;
        heap.write(node, value)?;
        let height = 1 + u64::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros()) / 2;
        let mut at = self.head;
        for level in (0..LEVELS).rev().map(link) {
            while heap.read(at + level)? != 0 && heap.read(at + level + 8)? < key {
                at = heap.read(at + level)?;
            }
            if level < link(height) {
                let behind = [heap.read(at + level)?, heap.read(at + level + 8)?];
                heap.write(node + level, behind[0])?;
                heap.write(node + level + 8, behind[1])?;
                heap.write(at + level, node)?;
                heap.write(at + level + 8, key)?;
            }
        }
        Ok(())
    }

    fn lower_bound(&self, key: u64) -> TraversalQuery {
        TraversalQuery::new(&self.program, self.head, &[key])
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<AtomicU64> = (0..1 << 18).map(|_| AtomicU64::new(0)).collect();
    let (start, bytes, tenant) = (0x10_0000, 1 << 21, Tenant(1));
    let ranges = NodeRanges::new(vec![NodeRange::whole(start, bytes, tenant)])?;
    let memory = LocalMemory::new(&words, ranges)?;
    let free = start..start + bytes;
    let mut arena = NodeArena::new(memory.of(tenant), Vec::from([free]));
    let head = arena.allocate(BYTES)?;
    let program = Arc::new(lower_bound()?);
    let list = OffloadSkipList { program, head };
    let mut model = BTreeMap::new();
    for key in (0..5000u64).map(|number| number * 7919 % 50_021) {
        list.insert(&mut arena, key, key + 1)?;
        model.insert(key, key + 1);
    }
    let mut runner = InMemory::new(memory.of(tenant));
    for key in 0..50_100 {
        let outcome = runner.run(&list.lower_bound(key), 1000)?;
        let found = (outcome.word(2) != 0).then(|| outcome.word(1));
        assert_eq!(found, model.range(key..).next().map(|(key, _)| *key));
    }
    println!("50100 look-ups are right");
    Ok(())
}
