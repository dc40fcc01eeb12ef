//! The memory of one tree: a region and an allocator for each kind of node, and one for leaves.

mod allocator;
mod items;
mod pieces;
mod region;
pub mod rounds;
mod span;
mod stripes;

use crate::counters::RadixNodeVisit;
use crate::lock::VersionLock;
use crate::node::{
    Dense, KINDS, NodeRefKind, RadixInnerNode, RadixNode4, RadixNode16, RadixNode48, RadixNode256,
    RadixSmallNode, Ref, Symbol,
};
use allocator::Allocator;
use nearfield_core::OperationError;
use pieces::PieceAllocator;
use region::ReservedRegion;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The maximum address space that a region reserves. It costs nothing until it is used.
const REGION_BYTES_MAX: u64 = 64 << 30;

/// The maximum address space of the region of leaves.
const LEAF_REGION_BYTES_MAX: u64 = 256 << 30;

/// The size above which a region consists of huge pages; a small map stays small.
const SMALL_BYTES: usize = 2 << 20;

/// The size above which a region of small nodes consists of huge pages. Small nodes are few in
/// large trees: half a huge page for each kind would be noticeable.
const SMALL_NODE_BYTES: usize = 2 << 20;

/// All memory of a tree.
#[derive(Debug)]
pub struct RadixMemory {
    leaves: Allocator,
    node4: Allocator,
    node16: Allocator,
    node48: Allocator,
    node256: Allocator,
    dense: Allocator,
    /// Number of bytes of entries outside the leaf region.
    outside_bytes: AtomicUsize,
    /// The address that the item of the reference 0 would have, and the distance between items, by
    /// tag, for [`line`](RadixMemory::line).
    places: [(usize, usize); KINDS],
    /// Number of bytes taken from the system, and its limit.
    taken_bytes: AtomicUsize,
    limit_bytes: usize,
    /// True if memory was ever refused.
    was_short: AtomicBool,
}

/// Number of bytes by kind: those in use by nodes and leaves of a tree, and those taken from the
/// system for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of node4s in use.
    pub node4_bytes: usize,
    /// Bytes of node16s in use.
    pub node16_bytes: usize,
    /// Bytes of node48s in use.
    pub node48_bytes: usize,
    /// Bytes of node256s in use.
    pub node256_bytes: usize,
    /// Bytes of dense nodes in use: payloads of 8-byte keys that differ in their last byte only.
    pub dense_bytes: usize,
    /// Bytes of leaves in use, including keys and values.
    pub leaf_bytes: usize,
    /// Bytes of the shortcut table.
    pub shortcut_bytes: usize,
    /// Bytes of the table by which walks of byte strings jump to the nodes after a prefix.
    pub jump_bytes: usize,
    /// All bytes taken from the system: in use, free for reuse, or not used yet.
    pub taken_bytes: usize,
}

impl MemoryUse {
    /// Returns the number of bytes in use.
    pub fn total_bytes(&self) -> usize {
        self.node4_bytes
            + self.node16_bytes
            + self.node48_bytes
            + self.node256_bytes
            + self.dense_bytes
            + self.leaf_bytes
            + self.shortcut_bytes
            + self.jump_bytes
    }
}

impl RadixMemory {
    /// Reserves address space for a tree that may take `limit_bytes` of memory, and whose leaves
    /// are one to `leaf_units_max` units of `leaf_unit_bytes` bytes long.
    pub fn new(
        limit_bytes: usize,
        leaf_unit_bytes: usize,
        leaf_units_max: usize,
    ) -> Result<RadixMemory, OperationError> {
        let nodes = |kind, stride: usize, small_bytes| {
            let capacity = u64::from(Ref::indices(kind)).min(REGION_BYTES_MAX / stride as u64);
            Allocator::new(stride, capacity, 1, small_bytes)
        };
        let mut memory = RadixMemory {
            leaves: Allocator::new(
                leaf_unit_bytes,
                u64::from(Ref::indices(NodeRefKind::Leaf))
                    .min(LEAF_REGION_BYTES_MAX / leaf_unit_bytes as u64),
                leaf_units_max,
                SMALL_BYTES,
            )?,
            node4: nodes(
                NodeRefKind::Node4,
                size_of::<RadixNode4>(),
                SMALL_NODE_BYTES,
            )?,
            node16: nodes(
                NodeRefKind::Node16,
                size_of::<RadixNode16>(),
                SMALL_NODE_BYTES,
            )?,
            node48: nodes(
                NodeRefKind::Node48,
                size_of::<RadixNode48>(),
                SMALL_NODE_BYTES,
            )?,
            node256: nodes(NodeRefKind::Node256, size_of::<RadixNode256>(), SMALL_BYTES)?,
            dense: nodes(NodeRefKind::Dense, size_of::<Dense>(), SMALL_BYTES)?,
            outside_bytes: AtomicUsize::new(0),
            places: [(0, 0); KINDS],
            taken_bytes: AtomicUsize::new(0),
            limit_bytes,
            was_short: AtomicBool::new(false),
        };
        for tag in 0..NodeRefKind::Nothing as usize {
            let allocator = memory.of(Ref::kind_of(tag));
            // The mark of the kind is a part of the reference. Its multiple is subtracted once here
            // instead of in each step of a walk.
            let first = Ref::new(Ref::kind_of(tag), 0).bits() as usize * allocator.stride();
            let start = allocator.address(0).expose_provenance();
            memory.places[tag] = (start.wrapping_sub(first), allocator.stride());
        }
        Ok(memory)
    }

    fn of(&self, kind: NodeRefKind) -> &Allocator {
        match kind {
            NodeRefKind::Leaf => &self.leaves,
            NodeRefKind::Node4 => &self.node4,
            NodeRefKind::Node16 => &self.node16,
            NodeRefKind::Node48 => &self.node48,
            NodeRefKind::Node256 | NodeRefKind::Skipping256 => &self.node256,
            NodeRefKind::Dense => &self.dense,
            NodeRefKind::Nothing => unreachable!("no memory belongs to the null reference"),
        }
    }

    /// Checks that more memory may be taken, and accounts for it.
    fn grow(&self, bytes: usize) -> Result<(), OperationError> {
        let taken = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken <= self.limit_bytes {
            return Ok(());
        }
        // The limit may be exceeded for an instant in the count, never in memory.
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.was_short.store(true, Ordering::Relaxed);
        Err(OperationError::OutOfMemory {
            what: format!(
                "the index would need {taken} bytes, and its limit is {}",
                self.limit_bytes
            ),
        })
    }

    /// Returns true if memory was ever refused: some nodes may then have stayed larger than
    /// necessary.
    pub fn was_short(&self) -> bool {
        self.was_short.load(Ordering::Relaxed)
    }

    /// Allocates an empty inner node of a depth.
    pub fn allocate_inner(&self, kind: NodeRefKind, depth: usize) -> Result<Ref, OperationError> {
        let index = self.of(kind).allocate(1, |bytes| self.grow(bytes))?;
        let node = Ref::new(kind, index);
        self.inner(node).reset(depth);
        Ok(node)
    }

    /// Allocates an empty dense node for keys that begin with the seven bytes of `base`.
    pub fn allocate_dense(&self, base: u64) -> Result<Ref, OperationError> {
        let index = self.dense.allocate(1, |bytes| self.grow(bytes))?;
        let node = Ref::new(NodeRefKind::Dense, index);
        self.dense(node).reset(base);
        Ok(node)
    }

    /// Frees a node that no thread can reach.
    pub fn free_node(&self, node: Ref) {
        debug_assert!(!node.is_leaf(), "the length of a leaf matters");
        self.of(node.kind()).free(node.index(), 1);
    }

    /// Frees nodes, and leaves of one unit, that no thread can reach.
    pub fn free_all(&self, nodes: &[Ref]) {
        for node in nodes.iter().filter(|node| !node.is_leaf()) {
            self.free_node(*node);
        }
        let leaves = nodes.iter().filter(|node| node.is_leaf());
        self.leaves.free_all(leaves.map(|leaf| leaf.index()));
    }

    /// Allocates two leaves of one unit.
    pub fn allocate_leaves(&self) -> Result<[Ref; 2], OperationError> {
        let indices = self.leaves.allocate_two(|bytes| self.grow(bytes))?;
        Ok(indices.map(|index| Ref::new(NodeRefKind::Leaf, index)))
    }

    /// Allocates a leaf of a number of units.
    pub fn allocate_leaf(&self, units: usize) -> Result<Ref, OperationError> {
        let index = self.leaves.allocate(units, |bytes| self.grow(bytes))?;
        Ok(Ref::new(NodeRefKind::Leaf, index))
    }

    /// Frees a leaf that no thread can reach.
    pub fn free_leaf(&self, leaf: Ref, units: usize) {
        self.leaves.free(leaf.index(), units);
    }

    /// Prefetches the lines that freeing a leaf will change.
    #[inline]
    pub fn prefetch_to_free(&self, leaf: Ref) {
        self.leaves.prefetch_to_free(leaf.index());
    }

    /// Accounts for an entry outside the leaf region.
    pub fn take_outside(&self, bytes: usize) -> Result<(), OperationError> {
        self.grow(bytes)?;
        self.outside_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Accounts for an entry outside the leaf region that has been freed.
    pub fn free_outside(&self, bytes: usize) {
        let before = self.outside_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more was freed than taken");
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns true if there are entries outside the leaf region.
    pub fn has_outside(&self) -> bool {
        self.outside_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns the address of a leaf.
    #[inline]
    pub fn leaf_address(&self, leaf: Ref) -> *mut u8 {
        debug_assert_eq!(leaf.kind(), NodeRefKind::Leaf);
        self.leaves.address(leaf.index())
    }

    /// Returns the first cache line of a node or leaf, for prefetching, without a branch.
    #[inline]
    pub fn line(&self, node: Ref) -> *const u8 {
        let (start, stride) = self.places[node.tag()];
        std::ptr::with_exposed_provenance(start.wrapping_add(node.bits() as usize * stride))
    }

    /// Returns the reads that a walk makes of an inner node to find the child for a symbol.
    pub fn visit(&self, node: Ref, symbol: Symbol) -> RadixNodeVisit {
        let address = self.line(node).addr();
        self.inner(node).visit(address, node.is_next_256(), symbol)
    }

    /// Returns the first bytes of a node or leaf.
    ///
    /// # Safety
    /// It has `count` bytes, and no thread changes them while the result lives.
    pub unsafe fn first_bytes(&self, node: Ref, count: usize) -> &[u8] {
        // SAFETY: the bytes are in a region that stays mapped as long as `self`, and was filled
        // with zeros when it was mapped. The caller promises that no thread writes to them.
        unsafe { std::slice::from_raw_parts(self.line(node), count) }
    }

    /// Returns the lock of an inner node of any kind.
    #[inline]
    pub fn lock(&self, node: Ref) -> &VersionLock {
        debug_assert!(node.is_inner());
        // SAFETY: see below; all kinds of inner nodes begin with their header, which begins with
        // the lock.
        unsafe { &*self.line(node).cast() }
    }

    /// Borrows an inner node.
    #[inline]
    pub fn inner(&self, node: Ref) -> RadixInnerNode<'_> {
        match node.kind() {
            NodeRefKind::Node4 => RadixInnerNode::Node4(self.node4(node)),
            NodeRefKind::Node16 => RadixInnerNode::Node16(self.node16(node)),
            NodeRefKind::Node48 => RadixInnerNode::Node48(self.node48(node)),
            NodeRefKind::Node256 | NodeRefKind::Skipping256 => {
                RadixInnerNode::Node256(self.node256(node))
            }
            kind => unreachable!("{kind:?} is not an inner node"),
        }
    }

    // Only `allocate_inner` makes references, so the index of one is within the region of its kind,
    // which stays mapped as long as `self`. Items are aligned because the region begins on a page
    // and the stride is a multiple of the alignment. The nodes consist of atomics and padding, for
    // which any content is valid, including zeros; they are only accessed through shared
    // references.

    /// Borrows a node4.
    #[inline]
    pub fn node4(&self, node: Ref) -> &RadixNode4 {
        debug_assert_eq!(node.kind(), NodeRefKind::Node4);
        // SAFETY: see above.
        unsafe { &*self.node4.address(node.index()).cast() }
    }

    /// Borrows a node16.
    #[inline]
    pub fn node16(&self, node: Ref) -> &RadixNode16 {
        debug_assert_eq!(node.kind(), NodeRefKind::Node16);
        // SAFETY: see above.
        unsafe { &*self.node16.address(node.index()).cast() }
    }

    /// Borrows a node48.
    #[inline]
    pub fn node48(&self, node: Ref) -> &RadixNode48 {
        debug_assert_eq!(node.kind(), NodeRefKind::Node48);
        // SAFETY: see above.
        unsafe { &*self.node48.address(node.index()).cast() }
    }

    /// Borrows a node256.
    #[inline]
    pub fn node256(&self, node: Ref) -> &RadixNode256 {
        // SAFETY: see above.
        unsafe { &*self.node256.address(node.index_of_256()).cast() }
    }

    /// Borrows a node4, node16 or node48.
    #[inline]
    pub fn small(&self, node: Ref) -> RadixSmallNode<'_> {
        debug_assert!(node.is_small());
        // SAFETY: see above.
        unsafe { RadixSmallNode::at(node, self.line(node)) }
    }

    /// Borrows a dense node.
    #[inline]
    pub fn dense(&self, node: Ref) -> &Dense {
        debug_assert_eq!(node.kind(), NodeRefKind::Dense);
        // SAFETY: see above.
        unsafe { &*self.dense.address(node.index()).cast() }
    }

    /// Returns the reference that a slot of a node of `parent_depth` must hold.
    pub fn edge(&self, parent_depth: usize, child: Ref) -> Ref {
        match child.kind() {
            NodeRefKind::Node256 | NodeRefKind::Skipping256 => {
                let depth = self.node256(child).header().depth();
                debug_assert!(depth > parent_depth, "depths ascend on a path");
                let near = depth == parent_depth + 1;
                let kind = if near {
                    NodeRefKind::Node256
                } else {
                    NodeRefKind::Skipping256
                };
                Ref::new(kind, child.index())
            }
            _ => child,
        }
    }

    /// Returns true if enough byte strings are gone for their memory to be worth giving back.
    #[inline]
    pub fn may_give_back(&self) -> bool {
        self.leaves.may_give_back()
    }

    /// Gives memory back to the system: of small nodes that the tree has outgrown, if most of a
    /// kind are free, and of byte strings, if many are gone.
    ///
    /// # Safety
    /// No thread may refer to a node or leaf that has been freed, by a shortcut for instance.
    pub unsafe fn give_back(&self) {
        // The memory of blocks of words keeps its kind, see `Words::free_unlinked`.
        let strings = Some(&self.leaves).filter(|leaves| leaves.pieces().is_some());
        let nodes = [&self.node4, &self.node16, &self.node48];
        for kind in nodes.into_iter().chain(strings) {
            // SAFETY: promised by the caller.
            let bytes = unsafe { kind.give_back() };
            self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the blocks of byte strings; `None` if the leaves are words'.
    pub fn leaf_pieces(&self) -> Option<(&PieceAllocator, &ReservedRegion)> {
        self.leaves.pieces()
    }

    /// Ends the [emptying](pieces::emptying) of spans of leaves. Returns the bytes that were given
    /// back.
    ///
    /// # Safety
    /// As for [`PieceAllocator::release_emptied`].
    pub unsafe fn release_emptied(&self, spans: &[u32]) -> usize {
        let Some((pieces, region)) = self.leaf_pieces() else {
            return 0;
        };
        // SAFETY: promised by the caller.
        let bytes = unsafe { pieces.release_emptied(region, spans) };
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Returns the number of bytes that have been taken for inner and dense nodes.
    pub fn node_bytes_taken(&self) -> usize {
        let regions = [
            &self.node4,
            &self.node16,
            &self.node48,
            &self.node256,
            &self.dense,
        ];
        regions.iter().map(|region| region.bytes_taken()).sum()
    }

    /// Returns the number of bytes in use and taken, by kind.
    pub fn bytes(&self) -> MemoryUse {
        let outside = self.outside_bytes.load(Ordering::Relaxed);
        let regions = [
            &self.leaves,
            &self.node4,
            &self.node16,
            &self.node48,
            &self.node256,
            &self.dense,
        ];
        MemoryUse {
            node4_bytes: self.node4.live_bytes(),
            node16_bytes: self.node16.live_bytes(),
            node48_bytes: self.node48.live_bytes(),
            node256_bytes: self.node256.live_bytes(),
            dense_bytes: self.dense.live_bytes(),
            leaf_bytes: self.leaves.live_bytes() + outside,
            shortcut_bytes: 0,
            jump_bytes: 0,
            taken_bytes: regions
                .iter()
                .map(|region| region.bytes_taken())
                .sum::<usize>()
                + outside,
        }
    }
}
