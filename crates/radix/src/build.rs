//! Functions that build nodes above sorted entries, copy nodes, and free nodes that were not
//! linked.

use crate::leaf::LeafForm;
use crate::memory::RadixMemory;
use crate::node::{
    END, NodeRefKind, RadixInnerNode, RadixNode4, RadixNode16, RadixNode48, RadixSortedNode, Ref,
    Symbol,
};
use nearfield_core::{EntryForm, OperationError};
use std::ops::Range;

/// A key and its value.
pub type Entry<'k, F> = (<F as EntryForm>::Key<'k>, <F as EntryForm>::Value<'k>);

/// Entries in ascending order.
pub type Slice<'e, 'k, F> = &'e [Entry<'k, F>];

/// Returns the kind of a node that initially has a number of ranges.
pub fn kind_for<F: LeafForm>(ranges: usize) -> NodeRefKind {
    match ranges {
        0..=4 => NodeRefKind::Node4,
        5..=16 => NodeRefKind::Node16,
        // Words have no node48, see `Words::HAS_NODE48`.
        17..=48 if F::HAS_NODE48 => NodeRefKind::Node48,
        _ => NodeRefKind::Node256,
    }
}

/// Returns the number of ranges that a node has room for.
pub fn room(node: RadixInnerNode<'_>) -> usize {
    let capacity = match node {
        RadixInnerNode::Node4(_) => RadixNode4::CAPACITY,
        RadixInnerNode::Node16(_) => RadixNode16::CAPACITY,
        RadixInnerNode::Node48(_) => RadixNode48::CAPACITY,
        RadixInnerNode::Node256(_) => return usize::MAX - 1,
    };
    capacity - node.header().count()
}

/// Returns true if an inner or dense node has too few entries for its kind, and should get a
/// smaller kind or be removed. The gap to the kind's least count at growth avoids flapping.
pub fn is_underfull<F: LeafForm>(memory: &RadixMemory, node: Ref) -> bool {
    if node.kind() == NodeRefKind::Dense {
        return F::is_dense_underfull(memory, node);
    }
    let inner = memory.inner(node);
    match inner {
        // Gaps do not count: a node with one child and gaps around it decides nothing.
        RadixInnerNode::Node4(_) => children(inner) <= 1,
        RadixInnerNode::Node16(_) => inner.header().count() <= 3,
        RadixInnerNode::Node256(_) if F::HAS_NODE48 => inner.header().count() <= 37,
        RadixInnerNode::Node48(_) | RadixInnerNode::Node256(_) => inner.header().count() <= 10,
    }
}

/// Returns the number of children, including the one at the end slot and excluding gaps.
fn children(node: RadixInnerNode<'_>) -> usize {
    let mut children = 0;
    node.for_each(|_, _| children += 1);
    children
}

/// Returns the replacement of an underfull node. Call it under the locks of the node and its
/// parent.
pub fn smaller<F: LeafForm>(memory: &RadixMemory, node: Ref) -> Result<Ref, OperationError> {
    if node.kind() == NodeRefKind::Dense {
        let entries = F::dense_entries(memory, node);
        return match entries.is_empty() {
            true => Ok(Ref::NULL),
            // The leaves get room for two entries each, so that keys that come back do not divide
            // them.
            false => build::<F>(memory, &entries, F::LEAF_ENTRIES_MAX - 2),
        };
    }
    let inner = memory.inner(node);
    debug_assert!(
        inner.header().lock.is_locked_or_obsolete(),
        "the node may change"
    );
    // This needs no memory: an empty or single-child node must go even if memory is exhausted.
    if children(inner) <= 1 {
        return Ok(inner.first());
    }
    let smaller = copy(memory, inner, kind_for::<F>(inner.header().count()))?;
    memory.inner(smaller).header().publish();
    Ok(smaller)
}

/// Copies a node into one of another kind, which the caller must publish.
pub fn copy(
    memory: &RadixMemory,
    node: RadixInnerNode<'_>,
    kind: NodeRefKind,
) -> Result<Ref, OperationError> {
    let copy = memory.allocate_inner(kind, node.header().depth())?;
    let mut ranges = Vec::with_capacity(48);
    node.for_each_range(|byte, child| ranges.push((byte, child)));
    let first = ranges.first().map_or(0, |range| range.0);
    let inner = memory.inner(copy);
    inner.splice(first, 255, &ranges);
    inner.header().set_end(node.header().end());
    Ok(copy)
}

/// The entries below one byte of a node under construction.
#[derive(Clone, Copy, Debug)]
pub enum ChildEntries<'e, 'k, F: LeafForm> {
    /// A node.
    Node(Ref),
    /// The entries that fit into one leaf.
    Entries(Slice<'e, 'k, F>),
}

impl<'e, 'k, F: LeafForm> ChildEntries<'e, 'k, F> {
    /// Creates the group of entries that share a byte.
    pub fn of(memory: &RadixMemory, entries: Slice<'e, 'k, F>) -> Result<Self, OperationError> {
        match F::fits(entries) {
            true => Ok(ChildEntries::Entries(entries)),
            false => build::<F>(memory, entries, F::LEAF_ENTRIES_MAX).map(ChildEntries::Node),
        }
    }
}

/// Builds a leaf, or a node above leaves of about `fill` entries, from one or more entries in
/// ascending order.
pub fn build<F: LeafForm>(
    memory: &RadixMemory,
    entries: Slice<'_, '_, F>,
    fill: usize,
) -> Result<Ref, OperationError> {
    if F::fits(entries) {
        return F::create(memory, entries);
    }
    debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "keys out of order");
    let last = entries[entries.len() - 1].0;
    // Of sorted keys, the first and the last differ first. All others agree in the bytes before.
    let depth = F::difference(entries[0].0, last).unwrap_or_default();
    if F::fills_dense(depth, entries.len()) {
        return F::create_dense(memory, entries);
    }
    let (end, rest) = match F::symbol(entries[0].0, depth) {
        // Only the shortest key can end here, and it sorts before all others.
        Some(END) => entries.split_at(1),
        _ => entries.split_at(0),
    };
    let symbol = |key| F::symbol(key, depth).unwrap_or_default();
    let groups = rest
        .chunk_by(|a, b| symbol(a.0) == symbol(b.0))
        .map(|group| Ok((symbol(group[0].0) as u8, ChildEntries::of(memory, group)?)));
    let mut pieces = Vec::new();
    pack::<F>(memory, depth, 0..256, groups, fill, &mut pieces)
        .inspect_err(|_| discard_all::<F>(memory, &pieces))?;
    let mut children: Vec<_> = pieces
        .iter()
        .map(|&(byte, child)| (Symbol::from(byte), child))
        .collect();
    if !end.is_empty() {
        let leaf = F::create(memory, end).inspect_err(|_| discard_all::<F>(memory, &pieces))?;
        children.push((END, leaf));
    }
    let node = memory
        .allocate_inner(kind_for::<F>(pieces.len()), depth)
        .inspect_err(|_| {
            children
                .iter()
                .for_each(|child| discard::<F>(memory, child.1))
        })?;
    let inner = memory.inner(node);
    fill_node(inner, &children);
    inner.header().publish();
    Ok(node)
}

/// Sets the children of a node that no other thread can reach: ranges in order, and optionally the
/// child at the end slot.
pub fn fill_node(node: RadixInnerNode<'_>, children: &[(Symbol, Ref)]) {
    let mut pieces = Vec::with_capacity(children.len());
    for &(symbol, child) in children {
        match symbol {
            END => node.header().set_end(child),
            byte => pieces.push((byte as u8, child)),
        }
    }
    node.splice(0, 255, &pieces);
}

/// Covers some bytes of a node at a depth. Neighbouring groups of entries become leaves of up to
/// `fill` entries if the groups allow it. On an error the caller frees the content of `pieces`: new
/// leaves and the nodes of groups.
pub fn pack<'e, 'k: 'e, F: LeafForm>(
    memory: &RadixMemory,
    depth: usize,
    bytes: Range<u16>,
    groups: impl Iterator<Item = Result<(u8, ChildEntries<'e, 'k, F>), OperationError>>,
    fill: usize,
    pieces: &mut Vec<(u8, Ref)>,
) -> Result<(), OperationError> {
    let mut entries: Vec<(F::Key<'k>, F::Value<'k>)> = Vec::with_capacity(F::LEAF_ENTRIES_MAX);
    // The start of the next range; there is none past the last byte.
    let mut start = bytes.start;
    let flush = |pieces: &mut Vec<_>, start: u16, end: u16, entries: &mut Vec<_>| {
        if !entries.is_empty() {
            pieces.push((start as u8, F::create(memory, entries)?));
            entries.clear();
        } else if start < end {
            pieces.push((start as u8, Ref::NULL));
        }
        Ok::<_, OperationError>(())
    };
    for group in groups {
        let (byte, group) = group?;
        let byte = u16::from(byte);
        debug_assert!((start..bytes.end).contains(&byte), "groups out of order");
        match group {
            ChildEntries::Node(node) => {
                // The node joins the pieces even if the leaf before it fails: the caller frees all
                // pieces, and the node would be lost.
                let flushed = flush(pieces, start, byte, &mut entries);
                pieces.push((byte as u8, memory.edge(depth, node)));
                flushed?;
                start = byte + 1;
            }
            ChildEntries::Entries(group) => {
                let before = entries.len();
                entries.extend_from_slice(group);
                // A leaf cannot be divided within a byte, so a group that is too much begins the
                // next leaf.
                if before > 0 && (entries.len() > fill || !F::fits(&entries)) {
                    entries.truncate(before);
                    flush(pieces, start, byte, &mut entries)?;
                    start = byte;
                    entries.extend_from_slice(group);
                }
            }
        }
    }
    flush(pieces, start, bytes.end, &mut entries)
}

/// Frees nodes and leaves that have been built but not linked.
pub fn discard_all<F: LeafForm>(memory: &RadixMemory, pieces: &[(u8, Ref)]) {
    for &(_, child) in pieces {
        discard::<F>(memory, child);
    }
}

/// Frees a subtree that has been built but not linked.
pub fn discard<F: LeafForm>(memory: &RadixMemory, node: Ref) {
    match node.kind() {
        NodeRefKind::Nothing => {}
        NodeRefKind::Leaf => F::discard_leaf(memory, node),
        kind => {
            let lock = match kind {
                NodeRefKind::Dense => &memory.dense(node).header().lock,
                _ => {
                    memory
                        .inner(node)
                        .for_each(|_, child| discard::<F>(memory, child));
                    &memory.inner(node).header().lock
                }
            };
            // Stale shortcuts must find the node obsolete until it is used again.
            lock.retire_alone();
            memory.free_node(node);
        }
    }
}

/// Frees the memory that leaves below some nodes keep outside the leaf region.
///
/// # Safety
/// No thread may reach the nodes, then or later, and no leaf is below two of them.
pub unsafe fn free_outside<F: LeafForm>(memory: &RadixMemory, mut nodes: Vec<Ref>) {
    if !memory.has_outside() {
        return;
    }
    while let Some(node) = nodes.pop() {
        match node.kind() {
            // SAFETY: promised by the caller.
            NodeRefKind::Leaf => unsafe { F::free_outside(memory, node) },
            NodeRefKind::Dense | NodeRefKind::Nothing => {}
            _ => memory.inner(node).for_each(|_, child| nodes.push(child)),
        }
    }
}
