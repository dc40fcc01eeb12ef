//! AVL trees. The balance of a node is its height; that of null is zero.

use super::links::{ChildSide, Links};
use crate::structures::heap::{HeapError, NodeHeap};

/// Updates heights and rotates, from a node up to the root.
pub fn changed<H: NodeHeap>(links: &mut Links<'_, H>, mut node: u64) -> Result<(), HeapError> {
    while node != 0 {
        let left = height(links, node, ChildSide::Left)?;
        let right = height(links, node, ChildSide::Right)?;
        if left.abs_diff(right) > 1 {
            let high = match left > right {
                true => ChildSide::Left,
                false => ChildSide::Right,
            };
            let child = links.child(node, high)?;
            // If the higher grandchild is on the inner side, one rotation would only move it
            // across.
            if height(links, child, high)? < height(links, child, high.other())? {
                links.rotate(child, high)?;
                measure(links, child)?;
            }
            links.rotate(node, high.other())?;
            // The old top is below the new one, so its height is computed first.
            measure(links, node)?;
            node = links.parent(node)?;
        }
        measure(links, node)?;
        node = links.parent(node)?;
    }
    Ok(())
}

fn height<H: NodeHeap>(links: &Links<'_, H>, node: u64, side: ChildSide) -> Result<u64, HeapError> {
    links.balance(links.child(node, side)?)
}

fn measure<H: NodeHeap>(links: &mut Links<'_, H>, node: u64) -> Result<(), HeapError> {
    let left = height(links, node, ChildSide::Left)?;
    let right = height(links, node, ChildSide::Right)?;
    links.set_balance(node, left.max(right) + 1)
}
