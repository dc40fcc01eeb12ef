//! Splits, merges and construction of blocks.

use super::node::{BlockTreeNode, INNER_WORDS, KEYS, LEAF_WORDS};
use super::{PimBlockTree, Step};
use crate::device::{Module, ProgramFault, WorkMeter};
use crate::structures::list::Entry;

/// Greatest number of keys of two blocks together that are merged.
const MERGED_MAX: usize = KEYS * 3 / 4;
/// Number of keys of new blocks, which leaves some room for later keys.
const BUILT: usize = KEYS * 7 / 8;

/// Allocates blocks of these lengths, all or none.
fn allocate<M: WorkMeter>(
    module: &mut Module<'_, M>,
    lengths: &[usize],
) -> Result<Vec<u32>, ProgramFault> {
    let mut blocks = Vec::with_capacity(lengths.len());
    for &words in lengths {
        match module.allocate(words) {
            Ok(at) => blocks.push(at),
            Err(fault) => {
                // A tree with half of its new blocks would be damaged, so none is kept.
                for (&at, &words) in blocks.iter().zip(lengths) {
                    module.free(at, words);
                }
                return Err(fault);
            }
        }
    }
    Ok(blocks)
}

impl PimBlockTree {
    /// Splits the full leaf of a key, and the full blocks above it, so that the key has room.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. Nothing changes.
    pub(super) fn split_for<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<(), ProgramFault> {
        let path = self.path(module, key);
        let full = |&&(node, _): &&Step| node.count(module) == KEYS;
        let mut from = path.len() - path.iter().rev().take_while(full).count();
        debug_assert!(from < path.len(), "the leaf is full");
        // One block for each that is split, and one more for the root's content if the root is
        // among them.
        let words = |&(node, _): &Step| match node.is_leaf(module) {
            true => LEAF_WORDS,
            false => INNER_WORDS,
        };
        let mut lengths: Vec<usize> = path[from..].iter().map(words).collect();
        if from == 0 {
            lengths.insert(0, lengths[0]);
        }
        // All blocks are allocated before the first change, so that a full bank leaves the tree as
        // it is.
        let mut blocks = allocate(module, &lengths)?.into_iter();
        let mut above = match from.checked_sub(1) {
            Some(above) => path[above].0,
            None => {
                // The root becomes the parent of its old content.
                from = 1;
                let root = path[0].0;
                let content = root.content(module);
                let Some(at) = blocks.next() else {
                    return Ok(());
                };
                BlockTreeNode::fill(module, at, content.is_leaf, &content.entries);
                BlockTreeNode::fill(module, self.root, false, &[(0, at.into())]);
                self.split_child(module, root, key, blocks.next())
            }
        };
        for _ in from..path.len() {
            // Splitting downwards leaves room in the parent for the bound of each child.
            above = self.split_child(module, above, key, blocks.next());
        }
        debug_assert_eq!(blocks.len(), 0, "a block for each split");
        Ok(())
    }

    /// Splits the full child to which a key belongs, below a block that has room. Returns the part
    /// to which the key then belongs.
    fn split_child<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        above: BlockTreeNode,
        key: u64,
        fresh: Option<u32>,
    ) -> BlockTreeNode {
        let place = above.rank(module, key);
        let child = above.below(module, place);
        let Some(fresh) = fresh else {
            return child;
        };
        let content = child.content(module);
        let (low, high) = content.entries.split_at(content.entries.len() / 2);
        let bound = high.first().map_or(key, |&(key, _)| key);
        BlockTreeNode::fill(module, fresh, content.is_leaf, high);
        // The lower half keeps its address, so the parent needs only one new entry.
        BlockTreeNode::fill(module, child.at(), content.is_leaf, low);
        let mut entries = above.content(module).entries;
        entries.insert(place + 1, (bound, fresh.into()));
        BlockTreeNode::fill(module, above.at(), false, &entries);
        BlockTreeNode::visit(module, if key < bound { child.at() } else { fresh })
    }

    /// Merges blocks with few keys with a neighbour where both fit, from the leaf of a key upwards.
    pub(super) fn merge_at<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) {
        let mut path = self.path(module, key);
        // The path is found again, because a removal knows only the leaf. The key may be absent: it
        // only names the range.
        while let (Some((node, _)), Some(&(above, place))) = (path.pop(), path.last()) {
            let count = node.count(module);
            if !node.is_sparse(module) || !self.merge(module, node, count, above, place) {
                return;
            }
        }
        // Finally the root: if it has one child, it takes over the child's content.
        loop {
            let root = BlockTreeNode::visit(module, self.root);
            if root.is_leaf(module) || root.count(module) > 1 {
                return;
            }
            let child = root.below(module, 0);
            let content = child.content(module);
            // The content moves up instead of the address, because lists are known by the address
            // of their root.
            child.free(module, false);
            BlockTreeNode::fill(module, self.root, content.is_leaf, &content.entries);
        }
    }

    /// Merges a block with a neighbour. Returns false if none has room.
    fn merge<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        node: BlockTreeNode,
        count: usize,
        above: BlockTreeNode,
        place: usize,
    ) -> bool {
        let mut around = above.content(module).entries;
        if count == 0 {
            around.remove(place);
            node.free(module, false);
            // If the parent is empty now, it is merged next.
            let is_leaf = around.is_empty() && above.at() == self.root;
            BlockTreeNode::fill(module, above.at(), is_leaf, &around);
            return true;
        }
        for left in [place.checked_sub(1), Some(place)].into_iter().flatten() {
            let (Some(&(_, one)), Some(&(bound, other))) = (around.get(left), around.get(left + 1))
            else {
                continue;
            };
            let one = BlockTreeNode::visit(module, one as u32);
            let other = BlockTreeNode::visit(module, other as u32);
            // A merged block with room does not split again at the next inserts.
            if one.count(module) + other.count(module) > MERGED_MAX {
                continue;
            }
            let mut content = one.content(module);
            let mut behind = other.content(module).entries;
            if let (false, Some(first)) = (content.is_leaf, behind.first_mut()) {
                // The bound of a first child is never read, so its value is arbitrary.
                first.0 = bound;
            }
            content.entries.append(&mut behind);
            other.free(module, false);
            BlockTreeNode::fill(module, one.at(), content.is_leaf, &content.entries);
            around.remove(left + 1);
            BlockTreeNode::fill(module, above.at(), false, &around);
            return true;
        }
        false
    }

    /// Builds an empty tree of entries in ascending order.
    pub(super) fn append<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), ProgramFault> {
        let entries: Vec<Entry> = entries.into_iter().collect();
        debug_assert_eq!(module.peek(self.root, 1)[0] as u32, 0, "the tree is empty");
        if entries.len() <= KEYS {
            BlockTreeNode::fill(module, self.root, true, &entries);
            return Ok(());
        }
        let mut level: Vec<Entry> = Vec::new();
        let mut is_leaf = true;
        let mut below = entries;
        while below.len() > KEYS || is_leaf {
            let words = if is_leaf { LEAF_WORDS } else { INNER_WORDS };
            // Parts of the same length, so that none is nearly empty.
            let parts = below.len().div_ceil(BUILT);
            let blocks = allocate(module, &vec![words; parts]);
            let blocks = blocks.inspect_err(|_| {
                // The blocks of complete levels hang on nothing yet. Those of this level are freed
                // by `allocate`.
                if !is_leaf {
                    for &(_, child) in &below {
                        let child = BlockTreeNode::visit(module, child as u32);
                        self.free_below(module, child);
                    }
                }
            })?;
            let mut rest = &below[..];
            for (part, at) in blocks.into_iter().enumerate() {
                let (own, others) = rest.split_at(rest.len() / (parts - part));
                rest = others;
                BlockTreeNode::fill(module, at, is_leaf, own);
                level.push((own.first().map_or(0, |&(key, _)| key), at.into()));
            }
            debug_assert!(rest.is_empty(), "each entry is in a part");
            below = std::mem::take(&mut level);
            is_leaf = false;
        }
        BlockTreeNode::fill(module, self.root, false, &below);
        Ok(())
    }
}
