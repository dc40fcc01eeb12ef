//! Trees of sorted blocks in the bank of a module.
//!
//! A skip list copies a tower of 24 bytes for each key that it compares. A tree copies the up to 32
//! keys of a block at once, and compares five of them. Two or three copies of 264 bytes lead to a
//! key among tens of thousands. This structure is not in RADAR's paper, whose lists are towers.
//!
//! ```text
//! leaf  | count 32, leaf 1 | keys 32 x 8 | values 32 x 8   |
//! inner | count 32         | keys 32 x 8 | children 32 x 4 |
//! ```
//!
//! The key of a child is a bound: keys at or above it are in this child or later ones, keys below
//! it in earlier ones. The bound of the first child is not read. The address of the root does not
//! change. Only the root may be empty, and only if it is a leaf.

mod change;
mod node;
#[cfg(test)]
mod tests;

use crate::device::{Module, ProgramFault, WorkMeter};
use crate::structures::list::{Entry, OrderedKeyList};
use node::{BlockTreeNode, KEYS, ROOT_WORDS};

/// A tree, by the address of its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PimBlockTree {
    root: u32,
}

/// A node of a path from the root, with the number of the child that comes next; in a leaf, the
/// number of the entry.
type Step = (BlockTreeNode, usize);

impl PimBlockTree {
    /// Returns the leaf that a key belongs to.
    fn leaf<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> BlockTreeNode {
        let mut node = BlockTreeNode::visit(module, self.root);
        while !node.is_leaf(module) {
            let child = node.rank(module, key);
            node = node.below(module, child);
        }
        node
    }

    /// Removes the entry at a place of a leaf; `key` is its key.
    fn remove_at<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        leaf: BlockTreeNode,
        place: usize,
        key: u64,
    ) {
        leaf.remove(module, place);
        // The root may have any number of entries, since it has no neighbour to merge with.
        if leaf.at() != self.root && leaf.is_sparse(module) {
            self.merge_at(module, key);
        }
    }

    /// Returns the path from the root to a key, or to the first entry after it.
    fn path<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Vec<Step> {
        let mut path = Vec::with_capacity(4);
        let mut node = BlockTreeNode::visit(module, self.root);
        while !node.is_leaf(module) {
            let child = node.rank(module, key);
            path.push((node, child));
            node = node.below(module, child);
        }
        let (Ok(place) | Err(place)) = node.find(module, key);
        path.push((node, place));
        path
    }

    /// Advances a path to the first entry of the next leaf. Returns false if there is none.
    fn next<M: WorkMeter>(module: &mut Module<'_, M>, path: &mut Vec<Step>) -> bool {
        path.pop();
        while let Some((node, child)) = path.pop() {
            if child + 1 < node.count(module) {
                // The path below is the leftmost, because all of its keys come after those passed.
                path.push((node, child + 1));
                let mut below = node.below(module, child + 1);
                while !below.is_leaf(module) {
                    path.push((below, 0));
                    below = below.below(module, 0);
                }
                path.push((below, 0));
                return true;
            }
        }
        false
    }

    /// Returns the greatest entry before the leaf of a path.
    fn before<M: WorkMeter>(module: &mut Module<'_, M>, mut path: Vec<Step>) -> Option<Entry> {
        path.pop();
        while let Some((node, child)) = path.pop() {
            // Only a block that is not the first child of its parent has a left neighbour there.
            let Some(before) = child.checked_sub(1) else {
                continue;
            };
            let mut below = node.below(module, before);
            while !below.is_leaf(module) {
                let last = below.count(module).saturating_sub(1);
                below = below.below(module, last);
            }
            let last = below.count(module).checked_sub(1)?;
            return Some(below.entry(module, last));
        }
        None
    }

    /// Frees the blocks below a node, and the node itself unless it is the root.
    fn free_below<M: WorkMeter>(self, module: &mut Module<'_, M>, node: BlockTreeNode) {
        if !node.is_leaf(module) {
            for child in 0..node.count(module) {
                let below = node.below(module, child);
                self.free_below(module, below);
            }
        }
        node.free(module, node.at() == self.root);
    }
}

impl OrderedKeyList for PimBlockTree {
    fn new<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<PimBlockTree, ProgramFault> {
        let root = module.allocate(ROOT_WORDS)?;
        BlockTreeNode::new_leaf(module, root);
        Ok(PimBlockTree { root })
    }

    fn at(head: u32) -> PimBlockTree {
        PimBlockTree { root: head }
    }

    fn head(self) -> u32 {
        self.root
    }

    fn fetch<M: WorkMeter>(module: &Module<'_, M>, wanted: &mut Vec<(u32, u64)>) {
        while !wanted.is_empty() {
            // These reads are independent, so the processor waits for all of them together.
            for &(at, _) in wanted.iter() {
                node::fetch_keys(module, at);
            }
            wanted.retain_mut(|(at, key)| match node::fetch_child(module, *at, *key) {
                Some(child) => {
                    *at = child;
                    true
                }
                None => false,
            });
        }
    }

    fn get<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        let leaf = self.leaf(module, key);
        let place = leaf.find(module, key).ok()?;
        Some(leaf.value(module, place))
    }

    fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, ProgramFault> {
        let leaf = self.leaf(module, key);
        match leaf.find(module, key) {
            Ok(place) => {
                let before = leaf.value(module, place);
                leaf.set_value(module, place, value);
                Ok(Some(before))
            }
            Err(place) if leaf.count(module) < KEYS => {
                leaf.insert(module, place, key, value);
                Ok(None)
            }
            Err(_) => {
                self.split_for(module, key)?;
                // The split may have moved the key's range to another leaf.
                let leaf = self.leaf(module, key);
                debug_assert!(leaf.count(module) < KEYS, "the split has made room");
                if let Err(place) = leaf.find(module, key) {
                    leaf.insert(module, place, key, value);
                }
                Ok(None)
            }
        }
    }

    fn update<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        previous: Option<u64>,
        value: Option<u64>,
    ) -> Result<Option<u64>, ProgramFault> {
        let leaf = self.leaf(module, key);
        let Ok(place) = leaf.find(module, key) else {
            // The key is absent. Only an update that expects this applies.
            if let (None, Some(value)) = (previous, value) {
                self.insert(module, key, value)?;
            }
            return Ok(None);
        };
        let before = leaf.value(module, place);
        if previous == Some(before) {
            match value {
                Some(value) => leaf.set_value(module, place, value),
                None => self.remove_at(module, leaf, place, key),
            }
        }
        Ok(Some(before))
    }

    fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        let leaf = self.leaf(module, key);
        let place = leaf.find(module, key).ok()?;
        let value = leaf.value(module, place);
        self.remove_at(module, leaf, place, key);
        Some(value)
    }

    fn floor<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<Entry> {
        let leaf = self.leaf(module, key);
        let place = match leaf.find(module, key) {
            Ok(place) => Some(place),
            Err(place) => place.checked_sub(1),
        };
        match place {
            Some(place) => Some(leaf.entry(module, place)),
            // A single leaf has no neighbour before it.
            None if leaf.at() == self.root => None,
            None => {
                // The leaf has only greater keys. This is rare, so the path is found only in this
                // case.
                let path = self.path(module, key);
                PimBlockTree::before(module, path)
            }
        }
    }

    fn walk<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        from: u64,
        mut each: impl FnMut(u64, u64) -> bool,
    ) {
        let mut path = self.path(module, from);
        while let Some(&(leaf, place)) = path.last() {
            // The values of a leaf are copied at once, as a copy of many words costs little more
            // than that of one.
            leaf.read_values(module, place);
            for place in place..leaf.count(module) {
                let (key, value) = leaf.peek(module, place);
                if !each(key, value) {
                    return;
                }
            }
            if !PimBlockTree::next(module, &mut path) {
                return;
            }
        }
    }

    fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), ProgramFault> {
        self.append(module, entries)
    }

    fn free<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        let root = BlockTreeNode::visit(module, self.root);
        self.free_below(module, root);
    }
}
