//! Red-black trees, after Cormen, Leiserson, Rivest and Stein. Null is black.

use super::links::{ChildSide, Links, NodeRemoval};
use crate::structures::heap::{HeapError, NodeHeap};

const BLACK: u64 = 0;
const RED: u64 = 1;

pub fn inserted<H: NodeHeap>(links: &mut Links<'_, H>, mut node: u64) -> Result<(), HeapError> {
    links.set_balance(node, RED)?;
    loop {
        let parent = links.parent(node)?;
        if links.balance(parent)? != RED {
            break;
        }
        // A red node is not the root, so it has a parent.
        let above = links.parent(parent)?;
        let side = links.side(parent, above)?;
        let uncle = links.child(above, side.other())?;
        if links.balance(uncle)? == RED {
            links.set_balance(parent, BLACK)?;
            links.set_balance(uncle, BLACK)?;
            links.set_balance(above, RED)?;
            node = above;
            continue;
        }
        let mut upper = parent;
        if links.side(node, parent)? != side {
            links.rotate(parent, side)?;
            upper = node;
        }
        links.set_balance(upper, BLACK)?;
        links.set_balance(above, RED)?;
        links.rotate(above, side.other())?;
        break;
    }
    let root = *links.root;
    links.set_balance(root, BLACK)
}

pub fn removed<H: NodeHeap>(links: &mut Links<'_, H>, gap: NodeRemoval) -> Result<(), HeapError> {
    if gap.balance == RED {
        return Ok(());
    }
    // All paths through `node` have one black node too few.
    let (mut node, mut parent) = (gap.child, gap.parent);
    while parent != 0 && links.balance(node)? == BLACK {
        // `node` may be null, so its own parent cannot be read.
        let side = match links.child(parent, ChildSide::Left)? == node {
            true => ChildSide::Left,
            false => ChildSide::Right,
        };
        let mut sibling = links.child(parent, side.other())?;
        if links.balance(sibling)? == RED {
            links.set_balance(sibling, BLACK)?;
            links.set_balance(parent, RED)?;
            links.rotate(parent, side)?;
            sibling = links.child(parent, side.other())?;
        }
        let near = links.child(sibling, side)?;
        let mut far = links.child(sibling, side.other())?;
        if links.balance(near)? == BLACK && links.balance(far)? == BLACK {
            links.set_balance(sibling, RED)?;
            (node, parent) = (parent, links.parent(parent)?);
            continue;
        }
        if links.balance(far)? == BLACK {
            links.set_balance(near, BLACK)?;
            links.set_balance(sibling, RED)?;
            links.rotate(sibling, side.other())?;
            (far, sibling) = (sibling, near);
        }
        let colour = links.balance(parent)?;
        links.set_balance(sibling, colour)?;
        links.set_balance(parent, BLACK)?;
        links.set_balance(far, BLACK)?;
        links.rotate(parent, side)?;
        return Ok(());
    }
    match node {
        0 => Ok(()),
        _ => links.set_balance(node, BLACK),
    }
}
