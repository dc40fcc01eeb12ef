//! Reads and writes of nodes.
//!
//! If lines are atomic, the versions in a node show concurrent writes to a reader. If only words
//! are, as in shared memory, that is not enough: then a counter behind the lock word is odd during
//! a write, and a reader must find it even and unchanged before and after its read.
//!
//! If lines are atomic, versions do not show that an entry was moved to a slot that a reader had
//! already passed. In leaves without hop bitmaps a client that moves entries therefore writes the
//! whole leaf with a new node version, which all readers check. In those with hop bitmaps the
//! counter counts only changes that move entries, for scans, if
//! [`ChimeOptions::counts_moves`](super::ChimeOptions::counts_moves) is set.

use super::lock::{ChimeLockWrites, ChimeNodeLock, Write};
use super::session::ChimeSession;
use crate::canary::Check;
use crate::error::PoolError;
use crate::layout::{InternalNode, NodeSegments, PoolLeaf, PoolLeafLayout};
use nearfield_fabric::recovery::lease::{HELD_BIT, Target};
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, LINE_BYTES, WORD_BYTES};

/// The position of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeAt {
    pub address: GlobalAddress,
    lock_offset: u64,
    pub is_leaf: bool,
}

impl NodeAt {
    pub fn of_leaf(leaves: &PoolLeafLayout, address: GlobalAddress) -> NodeAt {
        NodeAt {
            address,
            lock_offset: leaves.lock_offset() as u64,
            is_leaf: true,
        }
    }

    pub fn lock(&self) -> GlobalAddress {
        self.address.plus(self.lock_offset)
    }

    pub fn counter(&self) -> GlobalAddress {
        self.lock().plus(WORD_BYTES)
    }

    /// Returns the bytes of its memory: up to the lock word and the counter, in whole lines.
    pub fn bytes(&self) -> u64 {
        (self.lock_offset + 2 * WORD_BYTES).next_multiple_of(LINE_BYTES)
    }

    /// Returns the writes of a node: these bytes for its segments.
    pub fn writes(&self, segments: &NodeSegments, buffers: Vec<Vec<u8>>) -> Vec<Write> {
        debug_assert_eq!(segments.count(), buffers.len(), "each segment has a buffer");
        let pieces = segments.iter().zip(buffers);
        let pieces = pieces.map(|(segment, bytes)| {
            debug_assert_eq!(segment.wire().len(), bytes.len());
            let at = self.address.plus(segment.wire().start as u64);
            (at, bytes)
        });
        pieces.collect()
    }
}

/// Returns true if these two reads of a counter show that no write intervened.
pub(super) fn is_still(before: &[u8], behind: &[u8]) -> bool {
    // The first byte has the lowest bits.
    let is_even = before.first().is_some_and(|byte| byte.is_multiple_of(2));
    before == behind && is_even || !Check::Counters.is_made()
}

/// The buffers for the bytes of segments.
#[derive(Debug)]
pub(super) struct Buffers {
    counter: Option<GlobalAddress>,
    pieces: Vec<(GlobalAddress, Vec<u8>)>,
    counts: [[u8; WORD_BYTES as usize]; 2],
}

impl Buffers {
    /// Creates buffers for segments of a node, with its counter or without.
    pub fn new(at: NodeAt, segments: &NodeSegments, is_counted: bool) -> Buffers {
        let piece = |segment: &crate::layout::NodeSegment| {
            let wire = segment.wire();
            (at.address.plus(wire.start as u64), vec![0; wire.len()])
        };
        Buffers {
            counter: is_counted.then(|| at.counter()),
            pieces: segments.iter().map(piece).collect(),
            counts: Default::default(),
        }
    }

    /// Returns the reads, in this order.
    pub fn targets(&mut self) -> Vec<Target<'_>> {
        // A node executes the verbs of one post in order, so the two reads of the counter enclose
        // those of the segments.
        let [before, behind] = &mut self.counts;
        let pieces = self.pieces.iter_mut();
        let pieces = pieces.map(|(from, into)| (*from, &mut **into));
        let first = self.counter.map(|at| (at, &mut before[..]));
        let last = self.counter.map(|at| (at, &mut behind[..]));
        first.into_iter().chain(pieces).chain(last).collect()
    }

    /// Returns the bytes of each segment; `None` if the counter shows a concurrent write.
    pub fn wire(&self) -> Option<Vec<&[u8]>> {
        let [before, behind] = &self.counts;
        is_still(before, behind).then(|| self.pieces.iter().map(|(_, bytes)| &bytes[..]).collect())
    }

    /// Copies the bytes into a leaf; returns false if there was a concurrent write.
    pub fn take_in(&self, segments: &NodeSegments, into: &mut PoolLeaf) -> bool {
        self.wire()
            .is_some_and(|wire| into.decode(segments, &wire).is_ok())
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    pub(super) fn leaf_at(&self, address: GlobalAddress) -> NodeAt {
        NodeAt::of_leaf(&self.tree.leaves, address)
    }

    pub(super) fn internal_at(&self, address: GlobalAddress) -> NodeAt {
        NodeAt {
            address,
            lock_offset: self.tree.internals.lock_offset() as u64,
            is_leaf: false,
        }
    }

    /// Reads segments of a leaf, repeatedly until no write intervenes.
    pub(super) async fn read_leaf(
        &self,
        address: GlobalAddress,
        segments: &NodeSegments,
    ) -> Result<PoolLeaf, PoolError> {
        let mut leaf = PoolLeaf::new(self.tree.leaves);
        let buffers = Buffers::new(self.leaf_at(address), segments, self.tree.has_counters);
        self.read_more(address, segments, buffers, &mut leaf)
            .await?;
        Ok(leaf)
    }

    /// Returns true if a leaf's counter shows that entries were moved.
    pub(super) fn are_moves_counted(&self) -> bool {
        self.tree.has_counters
            || self.tree.node.options.counts_moves && self.tree.leaves.has_bitmaps()
    }

    /// Returns true if a client that moves entries of a leaf writes all of it, so that a reader of
    /// a part that finds one node version has missed no move.
    pub(super) fn moves_are_node_writes(&self) -> bool {
        !self.tree.has_counters
            && self.tree.leaves.is_hopscotch()
            && !self.tree.leaves.has_bitmaps()
    }

    /// Reads a leaf as a whole, at a time when no entry of it was moved.
    pub(super) async fn read_whole(&self, address: GlobalAddress) -> Result<PoolLeaf, PoolError> {
        let (mut leaf, whole) = (PoolLeaf::new(self.tree.leaves), self.tree.leaves.whole());
        let buffers = Buffers::new(self.leaf_at(address), &whole, self.are_moves_counted());
        self.read_more(address, &whole, buffers, &mut leaf).await?;
        Ok(leaf)
    }

    /// Reads segments of a leaf into a leaf that may be known in part.
    pub(super) async fn read_more(
        &self,
        address: GlobalAddress,
        segments: &NodeSegments,
        mut buffers: Buffers,
        into: &mut PoolLeaf,
    ) -> Result<(), PoolError> {
        let mut patience = self.patience();
        loop {
            self.read(&mut buffers).await?;
            if buffers.take_in(segments, into) {
                return Ok(());
            }
            self.note_torn(address);
            // A writer that has died leaves a leaf torn until some client takes its lock.
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, address)?;
                self.repair_leaf(address).await?;
            }
        }
    }

    /// Reads a node, repeatedly until no write intervenes.
    pub(super) async fn read_internal(
        &self,
        address: GlobalAddress,
    ) -> Result<InternalNode, PoolError> {
        let mut buffers = self.internal_buffers(address);
        let mut patience = self.patience();
        loop {
            self.read(&mut buffers).await?;
            if let Some(node) = self.decode_internal(&buffers) {
                return Ok(node);
            }
            self.note_torn(address);
            // As for a leaf: only a taken lock repairs the node.
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, address)?;
                self.repair_internal(address).await?;
            }
        }
    }

    pub(super) fn internal_buffers(&self, address: GlobalAddress) -> Buffers {
        let whole = self.tree.internals.whole();
        Buffers::new(self.internal_at(address), &whole, self.tree.has_counters)
    }

    /// Decodes a node; returns `None` if a write intervened.
    pub(super) fn decode_internal(&self, buffers: &Buffers) -> Option<InternalNode> {
        InternalNode::decode(self.tree.internals, buffers.wire()?.first()?).ok()
    }

    /// Takes the lock of an internal node and reads it, in one round trip or two.
    pub(super) async fn lock_internal(
        &self,
        address: GlobalAddress,
    ) -> Result<(ChimeNodeLock<'_>, InternalNode), PoolError> {
        let node = self.internal_at(address);
        if self.tree.node.options.lock_and_read {
            let mut buffers = self.internal_buffers(address);
            let lock = self.lock(node, &mut buffers.targets()).await?;
            // If the former word is unknown the holder has died, and the bytes were read before its
            // change was completed.
            if lock.before.is_some() {
                if let Some(node) = self.decode_internal(&buffers) {
                    return Ok((lock, node));
                }
                self.note_torn(address);
            }
            let node = self.read_internal(address).await?;
            return Ok((lock, node));
        }
        let lock = self.lock(node, &mut []).await?;
        let node = self.read_internal(address).await?;
        Ok((lock, node))
    }

    /// Returns the writes of a whole internal node.
    pub(super) fn internal_writes(
        &self,
        address: GlobalAddress,
        node: &InternalNode,
    ) -> ChimeLockWrites {
        let (at, whole) = (self.internal_at(address), self.tree.internals.whole());
        ChimeLockWrites {
            marks: self
                .tree
                .has_counters
                .then(|| at.counter())
                .into_iter()
                .collect(),
            writes: at.writes(&whole, vec![node.encode()]),
        }
    }

    /// Returns the writes of segments of a leaf, whose entries were moved or not.
    pub(super) fn leaf_writes(
        &self,
        address: GlobalAddress,
        leaf: &PoolLeaf,
        segments: &NodeSegments,
        moved: bool,
    ) -> ChimeLockWrites {
        let at = self.leaf_at(address);
        self.marked(at, at.writes(segments, leaf.encode(segments)), moved)
    }

    /// Adds the mark that readers of a leaf need during these writes of it, which move entries or
    /// not.
    pub(super) fn marked(&self, at: NodeAt, writes: Vec<Write>, moved: bool) -> ChimeLockWrites {
        // A write of one word needs no mark, because a reader sees it whole. If lines are atomic,
        // versions show torn reads, but no moves.
        let is_marked = if self.tree.has_counters {
            !self.is_one(&writes)
        } else {
            moved && self.are_moves_counted()
        };
        ChimeLockWrites {
            marks: is_marked.then(|| at.counter()).into_iter().collect(),
            writes,
        }
    }

    /// Writes a node that no other client knows yet, with a free lock with this word, and a counter
    /// of zero.
    pub(super) async fn write_new(
        &self,
        node: NodeAt,
        writes: &[Write],
        word: u64,
    ) -> Result<(), PoolError> {
        debug_assert_eq!(word & HELD_BIT, 0, "the lock of a new node is free");
        // Reused memory may hold the odd counter of a former node, at which readers would wait
        // forever.
        let words = [word, 0].map(u64::to_le_bytes).concat();
        let word = if self.are_moves_counted() {
            &words[..]
        } else {
            &words[..WORD_BYTES as usize]
        };
        let writes = writes.iter().map(|(to, bytes)| (*to, &bytes[..]));
        let writes = writes.chain([(node.lock(), word)]);
        let mut verbs: Vec<FabricVerb<'_>> = writes
            .map(|(to, bytes)| FabricVerb::Write { to, bytes })
            .collect();
        Ok(self.tree.endpoint.post(&mut verbs).await?)
    }

    /// Allocates memory for a node. With leases, internal nodes are on the first memory node, where
    /// the root and the tables are, so that the loss of another one only concerns its leaves.
    pub(super) async fn allocate(&self, node: NodeAt) -> Result<GlobalAddress, PoolError> {
        let bytes = node.bytes();
        if node.is_leaf || self.tree.owner.is_none() {
            return self.allocate_bytes(bytes).await;
        }
        self.allocate_first(bytes).await
    }

    pub(super) async fn read(&self, buffers: &mut Buffers) -> Result<(), PoolError> {
        let reads = buffers.targets().into_iter();
        let mut verbs: Vec<FabricVerb<'_>> = reads
            .map(|(from, into)| FabricVerb::Read { from, into })
            .collect();
        Ok(self.tree.endpoint.post(&mut verbs).await?)
    }
}
