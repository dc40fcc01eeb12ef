//! Splay trees. Changes move the node to the root; lookups leave the tree as it is.

use super::links::Links;
use crate::structures::heap::{HeapError, NodeHeap};

pub fn splay<H: NodeHeap>(links: &mut Links<'_, H>, node: u64) -> Result<(), HeapError> {
    loop {
        let parent = links.parent(node)?;
        if parent == 0 {
            return Ok(());
        }
        let side = links.side(node, parent)?;
        let above = links.parent(parent)?;
        if above == 0 {
            links.rotate(parent, side.other())?;
        } else if links.side(parent, above)? == side {
            // The upper link is rotated first. From below, a long path would stay as long as it is.
            links.rotate(above, side.other())?;
            links.rotate(parent, side.other())?;
        } else {
            links.rotate(parent, side.other())?;
            links.rotate(above, side)?;
        }
    }
}
