//! AVL trees. The balance of a node is its height; that of null is zero.

use super::links::{Links, Side};
use crate::structures::heap::{Heap, HeapError};

/// Updates heights and rotates, from a node up to the root.
pub fn changed<H: Heap>(links: &mut Links<'_, H>, mut node: u64) -> Result<(), HeapError> {
    while node != 0 {
        let left = height(links, node, Side::Left)?;
        let right = height(links, node, Side::Right)?;
        if left.abs_diff(right) > 1 {
            let high = match left > right {
                true => Side::Left,
                false => Side::Right,
            };
            let child = links.child(node, high)?;
            if height(links, child, high)? < height(links, child, high.other())? {
                links.rotate(child, high)?;
                measure(links, child)?;
            }
            links.rotate(node, high.other())?;
            measure(links, node)?;
            node = links.parent(node)?;
        }
        measure(links, node)?;
        node = links.parent(node)?;
    }
    Ok(())
}

fn height<H: Heap>(links: &Links<'_, H>, node: u64, side: Side) -> Result<u64, HeapError> {
    links.balance(links.child(node, side)?)
}

fn measure<H: Heap>(links: &mut Links<'_, H>, node: u64) -> Result<(), HeapError> {
    let left = height(links, node, Side::Left)?;
    let right = height(links, node, Side::Right)?;
    links.set_balance(node, left.max(right) + 1)
}
