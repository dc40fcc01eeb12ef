//! Scapegoat trees. No node stores its balance; a subtree that became too deep is rebuilt.

use super::links::{ChildSide, Links};
use crate::structures::heap::{HeapError, NodeHeap};

/// The share of a subtree: it has at most 7 of 10 nodes of the subtree above.
const PART: (u64, u64) = (7, 10);

/// Rebuilds the lowest subtree that is too heavy on one side, if a new node is too deep.
pub fn inserted<H: NodeHeap>(
    links: &mut Links<'_, H>,
    node: u64,
    count: u64,
) -> Result<(), HeapError> {
    let mut depth = 0;
    let mut at = node;
    loop {
        match links.parent(at)? {
            0 => break,
            parent => at = parent,
        }
        depth += 1;
    }
    if depth <= depth_max(count) {
        return Ok(());
    }
    let (mut at, mut nodes) = (node, 1);
    loop {
        let parent = links.parent(at)?;
        if parent == 0 {
            return Ok(());
        }
        // No node stores its size, so each is counted. Such inserts are rare.
        let all = in_order(links, parent)?.len() as u64;
        if nodes * PART.1 > all * PART.0 {
            return rebuild(links, parent);
        }
        (at, nodes) = (parent, all);
    }
}

/// Rebuilds the tree if it has become small. Returns the new largest count since the last rebuild.
pub fn removed<H: NodeHeap>(
    links: &mut Links<'_, H>,
    count: u64,
    count_max: u64,
) -> Result<u64, HeapError> {
    // A tree that only shrinks has no insert that would find it too deep.
    if count * PART.1 >= count_max * PART.0 {
        return Ok(count_max);
    }
    if *links.root != 0 {
        rebuild(links, *links.root)?;
    }
    Ok(count)
}

/// Returns the logarithm of the count; its base is the inverse of a subtree's share.
fn depth_max(count: u64) -> u64 {
    let (mut depth, mut left) = (0, count);
    while left > 1 {
        left = left * PART.0 / PART.1;
        depth += 1;
    }
    depth
}

fn in_order<H: NodeHeap>(links: &Links<'_, H>, top: u64) -> Result<Vec<u64>, HeapError> {
    let (mut nodes, mut above, mut at) = (Vec::new(), Vec::new(), top);
    loop {
        while at != 0 {
            above.push(at);
            at = links.child(at, ChildSide::Left)?;
        }
        let Some(node) = above.pop() else {
            return Ok(nodes);
        };
        nodes.push(node);
        at = links.child(node, ChildSide::Right)?;
    }
}

fn rebuild<H: NodeHeap>(links: &mut Links<'_, H>, top: u64) -> Result<(), HeapError> {
    let nodes = in_order(links, top)?;
    debug_assert!(!nodes.is_empty(), "a subtree has its top");
    let middle = |start: usize, end: usize| start + (end - start) / 2;
    if let Some(&root) = nodes.get(middle(0, nodes.len())) {
        links.replace(top, root)?;
    }
    let mut parts = vec![(0, nodes.len())];
    while let Some((start, end)) = parts.pop() {
        let at = middle(start, end);
        let node = nodes[at];
        for (side, start, end) in [
            (ChildSide::Left, start, at),
            (ChildSide::Right, at + 1, end),
        ] {
            let child = match start < end {
                true => nodes[middle(start, end)],
                false => 0,
            };
            links.set_child(node, side, child)?;
            links.set_parent(child, node)?;
            if child != 0 {
                parts.push((start, end));
            }
        }
    }
    Ok(())
}
