//! Execution of a batch for a probe that records writes, as a hardware model does: one operation at
//! a time, each by a walk from the root.
//!
//! The code of changes does not report its writes, because changes must be fast. Instead, a
//! [`Picture`] is taken of the nodes on the key's path before and after each write. The difference
//! was written. No other thread has access to the tree meanwhile, so the difference belongs to this
//! operation.

use super::{EngineOptions, RadixBatchExecution, RadixWorkspace};
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::node::{END, NodeRefKind, Ref};
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use foldhash::fast::FixedState;
use nearfield_core::{Batch, OperationError};
use std::collections::HashSet;

/// The size in bytes of the lock with which nodes and leaves begin.
const LOCK_BYTES: usize = size_of::<crate::lock::VersionLock>();

/// The maximum number of unwritten bytes between two written ones for which both count as one
/// write.
const GAP_MAX: usize = 7;

/// Executes a batch, and reports the reads and writes of each operation. The caller has exclusive
/// access to the tree.
pub fn execute_recorded<F: LeafForm>(
    tree: &mut RadixTree<F>,
    batch: &mut Batch<F>,
    workspace: &mut RadixWorkspace,
    probe: &mut impl RadixProbe,
) -> Result<(), OperationError> {
    let tree = &*tree;
    let (input, mut output) = batch.begin()?;
    let guard = tree.writer();
    let options = EngineOptions::operation_centric();
    let mut engine = RadixBatchExecution {
        tree,
        options: &options,
        input,
        output: &mut output,
        guard: &guard,
        probe,
    };
    let (mut before, mut after) = (Picture::default(), Picture::default());
    for (position, operation) in input.operations().iter().enumerate() {
        engine.probe.operation(position);
        let written = operation.point_key().filter(|_| operation.is_write());
        let Some(key) = written.map(|key| F::shorten_key(input.key(key))) else {
            engine.execute_one(workspace, position);
            continue;
        };
        before.take(tree, key, &guard);
        // Children that were there before are not new, even if they move to another node.
        before.note_children(tree);
        engine.execute_one(workspace, position);
        after.take(tree, key, &guard);
        let change = PathDifference {
            tree,
            guard: &guard,
            before: &before,
            after: &after,
        };
        change.report(key, engine.probe);
    }
    Ok(())
}

/// The nodes and leaves at an instant: those on the path of a key and, if the path ends at nothing,
/// the neighbouring leaves, one of which may take the key.
#[derive(Debug, Default)]
struct Picture {
    parts: Vec<PathNodeBytes>,
    bytes: Vec<u8>,
    /// Number of parts on the path.
    path: usize,
    /// The nodes of the path and all children of them.
    known: Nodes,
}

/// Nodes by their canonical references.
type Nodes = HashSet<Ref, FixedState>;

#[derive(Clone, Copy, Debug)]
struct PathNodeBytes {
    node: Ref,
    begin: usize,
    end: usize,
}

impl Picture {
    fn take<F: LeafForm>(&mut self, tree: &RadixTree<F>, key: F::Key<'_>, guard: &Guard) {
        self.parts.clear();
        self.bytes.clear();
        let mut node = tree.root;
        let mut beside = [Ref::NULL; 2];
        while !node.is_null() {
            self.add(tree, node, guard);
            if !node.is_inner() {
                break;
            }
            let inner = tree.memory.inner(node);
            let Some(symbol) = F::symbol(key, inner.header().depth()) else {
                break;
            };
            node = F::child(inner, symbol);
            if node.is_null() && symbol != END {
                let gap = inner.range(symbol as u8);
                let neighbour = |byte| inner.range(byte).child;
                let left = gap.start.checked_sub(1).map(neighbour);
                let right = gap.end.checked_add(1).map(neighbour);
                beside = [left, right].map(|leaf| leaf.unwrap_or(Ref::NULL));
            }
        }
        self.path = self.parts.len();
        for leaf in beside.into_iter().filter(|node| node.is_leaf()) {
            self.add(tree, leaf, guard);
        }
    }

    fn add<F: LeafForm>(&mut self, tree: &RadixTree<F>, node: Ref, guard: &Guard) {
        let begin = self.bytes.len();
        let count = bytes_of(tree, node, guard);
        // SAFETY: the node has `count` bytes. `execute_recorded` has exclusive access to the tree,
        // so no other thread writes, and this one does not write before the bytes are copied.
        let bytes = unsafe { tree.memory.first_bytes(node, count) };
        self.bytes.extend_from_slice(bytes);
        self.parts.push(PathNodeBytes {
            node,
            begin,
            end: self.bytes.len(),
        });
    }

    fn note_children<F: LeafForm>(&mut self, tree: &RadixTree<F>) {
        self.known.clear();
        for part in &self.parts[..self.path] {
            self.known.insert(part.node.canonical());
            if part.node.is_inner() {
                let inner = tree.memory.inner(part.node);
                inner.for_each(|_, child| {
                    self.known.insert(child.canonical());
                });
            }
        }
    }

    /// Returns the bytes of a node, if it existed.
    fn of(&self, node: Ref) -> Option<&[u8]> {
        let part = self.parts.iter().find(|part| part.node.same(node))?;
        Some(&self.bytes[part.begin..part.end])
    }

    fn has(&self, node: Ref) -> bool {
        self.path().any(|other| other.same(node))
    }

    fn path(&self) -> impl DoubleEndedIterator<Item = Ref> {
        self.parts[..self.path].iter().map(|part| part.node)
    }
}

/// Returns the size of a node or leaf in bytes.
fn bytes_of<F: LeafForm>(tree: &RadixTree<F>, node: Ref, guard: &Guard) -> usize {
    match node.is_inner() {
        true => tree.memory.inner(node).bytes(),
        false => F::bytes(&tree.memory, node, guard),
    }
}

/// The changes of one operation.
struct PathDifference<'d, F: LeafForm> {
    tree: &'d RadixTree<F>,
    guard: &'d Guard,
    before: &'d Picture,
    after: &'d Picture,
}

impl<F: LeafForm> PathDifference<'_, F> {
    fn report(&self, key: F::Key<'_>, probe: &mut impl RadixProbe) {
        let mut has_other_children = false;
        for node in self.after.path() {
            let (Some(old), Some(new)) = (self.before.of(node), self.after.of(node)) else {
                has_other_children = true;
                continue;
            };
            let address = self.address(node);
            let mut written = false;
            runs(old, new, |from, to| {
                written = true;
                probe.write(address + from, (to - from) as u32);
            });
            has_other_children |= written && node.is_inner();
        }
        // Otherwise the operation has changed only bytes of a leaf.
        if has_other_children || self.before.path != self.after.path {
            self.report_nodes(probe);
        }
        self.report_place(key, probe);
    }

    /// Reports the nodes and leaves that are new, and those that are gone.
    fn report_nodes(&self, probe: &mut impl RadixProbe) {
        let root = self.tree.root;
        let (mut there, mut open) = (Nodes::default(), vec![root]);
        there.insert(root.canonical());
        while let Some(node) = open.pop() {
            let is_new = !self.before.known.contains(&node.canonical());
            if is_new {
                self.report_new(node, probe);
            }
            // Others have the same children as before: an operation only changes nodes of its path.
            if node.is_inner() && (is_new || self.before.has(node)) {
                self.tree.memory.inner(node).for_each(|_, child| {
                    if there.insert(child.canonical()) {
                        open.push(child);
                    }
                });
            }
        }
        let end = self.after.path().next_back();
        let (place, bytes) = end.map_or((0, 0), |node| {
            (self.address(node), bytes_of(self.tree, node, self.guard))
        });
        for &node in self.before.known.difference(&there) {
            probe.replace(self.address(node), place, bytes as u32);
            // Its separate bytes are not freed as long as this thread is pinned.
            if let Some((address, _)) = self.apart(node) {
                probe.replace(address, place, bytes as u32);
            }
        }
    }

    /// Reports all bytes of a new node or leaf as written.
    fn report_new(&self, node: Ref, probe: &mut impl RadixProbe) {
        let bytes = bytes_of(self.tree, node, self.guard);
        probe.write(self.address(node), bytes as u32);
        if let Some((address, bytes)) = self.apart(node) {
            probe.write(address, bytes as u32);
        }
    }

    /// Returns the address and number of the bytes that a leaf stores apart, if any.
    fn apart(&self, node: Ref) -> Option<(usize, usize)> {
        match node.is_leaf() {
            true => F::apart(&self.tree.memory, node, self.guard),
            false => None,
        }
    }

    /// Reports the place of the key, if it has changed.
    fn report_place(&self, key: F::Key<'_>, probe: &mut impl RadixProbe) {
        let mut path = self.after.path().rev();
        let (Some(target), Some(parent)) = (path.next(), path.next()) else {
            return;
        };
        let mut old = self.before.path().rev();
        let same = old.next().is_some_and(|node| node.same(target))
            && old.next().is_some_and(|node| node.same(parent));
        let is_terminal = matches!(target.kind(), NodeRefKind::Leaf | NodeRefKind::Dense);
        let (memory, prepared) = (&self.tree.memory, F::Prepared::default());
        if is_terminal && F::lookup(memory, target, key, prepared, self.guard).is_some() && !same {
            probe.moved(self.address(target), self.address(parent));
        }
    }

    fn address(&self, node: Ref) -> usize {
        self.tree.memory.line(node).addr()
    }
}

/// Calls `run` for each run of bytes that differ, with the offsets of its first byte and of the
/// byte after its last one. The bytes of the lock are ignored.
fn runs(old: &[u8], new: &[u8], mut run: impl FnMut(usize, usize)) {
    let mut last: Option<(usize, usize)> = None;
    // The lock changes with each write, and is counted as a lock.
    let pairs = old.iter().zip(new).enumerate().skip(LOCK_BYTES);
    for (at, _) in pairs.filter(|(_, (old, new))| old != new) {
        match &mut last {
            Some((_, end)) if at <= *end + GAP_MAX => *end = at + 1,
            _ => {
                if let Some((from, to)) = last.replace((at, at + 1)) {
                    run(from, to);
                }
            }
        }
    }
    if let Some((from, to)) = last {
        run(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        runs(old, new, |from, to| found.push((from, to)));
        found
    }

    #[test]
    fn bytes_that_differ_are_runs_and_those_of_the_lock_do_not_count() {
        let old = [0; 40];
        let mut new = old;
        (new[0], new[3]) = (1, 1);
        assert_eq!(found(&old, &new), []);
        (new[4], new[5], new[12], new[30]) = (1, 1, 1, 1);
        assert_eq!(found(&old, &new), [(4, 13), (30, 31)]);
    }
}
