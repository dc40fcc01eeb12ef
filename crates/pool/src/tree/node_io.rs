//! Reading nodes, and what is written of them.
//!
//! Where lines are read and written as one, the versions in a node tell a reader that somebody has
//! written meanwhile. Where only words are, as in shared memory, that is not enough: there, a counter
//! behind the lock word is odd while somebody writes, and a reader has to find it even and the same
//! before and behind what it reads.

use super::Tree;
use super::lock::{Lock, Write};
use crate::error::PoolError;
use crate::layout::{InternalNode, Leaf, Segments};
use nearfield_fabric::lease::Target;
use nearfield_fabric::{Endpoint, GlobalAddress, Verb, WORD_BYTES};

/// Where a node is.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeAt {
    pub address: GlobalAddress,
    lock_offset: u64,
    has_counter: bool,
}

impl NodeAt {
    pub fn lock(&self) -> GlobalAddress {
        self.address.plus(self.lock_offset)
    }

    fn counter(&self) -> Option<GlobalAddress> {
        let counter = self.lock().plus(WORD_BYTES);
        self.has_counter.then_some(counter)
    }

    /// What to write for segments of a node whose counter was found to be `count`.
    pub fn writes(&self, segments: &Segments, buffers: Vec<Vec<u8>>, count: u64) -> Vec<Write> {
        let counter = |count: u64| {
            let counter = self.counter();
            counter.map(|at| (at, count.to_le_bytes().to_vec()))
        };
        let pieces = segments.iter().zip(buffers);
        let pieces = pieces.map(|(segment, bytes)| {
            let at = self.address.plus(segment.wire().start as u64);
            (at, bytes)
        });
        let first = counter(count.wrapping_add(1)).into_iter();
        let last = counter(count.wrapping_add(2));
        first.chain(pieces).chain(last).collect()
    }
}

/// Where the bytes of segments go that are read.
#[derive(Debug)]
pub(super) struct Buffers {
    at: NodeAt,
    pieces: Vec<(GlobalAddress, Vec<u8>)>,
    counters: [[u8; WORD_BYTES as usize]; 2],
}

impl Buffers {
    pub fn new(at: NodeAt, segments: &Segments) -> Buffers {
        let piece = |segment: &crate::layout::Segment| {
            let wire = segment.wire();
            (at.address.plus(wire.start as u64), vec![0; wire.len()])
        };
        Buffers {
            at,
            pieces: segments.iter().map(piece).collect(),
            counters: Default::default(),
        }
    }

    /// What is to be read, in this order.
    pub fn targets(&mut self) -> Vec<Target<'_>> {
        let [before, behind] = &mut self.counters;
        let counter = self.at.counter();
        let pieces = self.pieces.iter_mut();
        let pieces = pieces.map(|(from, into)| (*from, &mut **into));
        let first = counter.map(|at| (at, &mut before[..]));
        let last = counter.map(|at| (at, &mut behind[..]));
        first.into_iter().chain(pieces).chain(last).collect()
    }

    /// The bytes of each segment.
    pub fn wire(&self) -> Vec<&[u8]> {
        self.pieces.iter().map(|(_, bytes)| &bytes[..]).collect()
    }

    /// The node's counter, if nobody has written while it was read. 0 of one without a counter, whose
    /// versions tell.
    pub fn count(&self) -> Option<u64> {
        let [before, behind] = self.counters.map(u64::from_le_bytes);
        (before == behind && before.is_multiple_of(2)).then_some(before)
    }
}

/// A leaf of which a part was read.
#[derive(Clone, Debug)]
pub(super) struct ReadLeaf {
    pub leaf: Leaf,
    pub count: u64,
}

impl<E: Endpoint> Tree<E> {
    pub(super) fn leaf_at(&self, address: GlobalAddress) -> NodeAt {
        NodeAt {
            address,
            lock_offset: self.leaves.lock_offset() as u64,
            has_counter: self.has_counters,
        }
    }

    pub(super) fn internal_at(&self, address: GlobalAddress) -> NodeAt {
        NodeAt {
            address,
            lock_offset: self.internals.lock_offset() as u64,
            has_counter: self.has_counters,
        }
    }

    /// Reads segments of a leaf, again and again until nobody has written meanwhile.
    pub(super) async fn read_leaf(
        &self,
        address: GlobalAddress,
        segments: &Segments,
    ) -> Result<ReadLeaf, PoolError> {
        let mut read = ReadLeaf {
            leaf: Leaf::new(self.leaves),
            count: 0,
        };
        self.read_more(address, segments, &mut read).await?;
        Ok(read)
    }

    /// Reads segments of a leaf into one of which a part may be known.
    pub(super) async fn read_more(
        &self,
        address: GlobalAddress,
        segments: &Segments,
        into: &mut ReadLeaf,
    ) -> Result<(), PoolError> {
        let mut buffers = Buffers::new(self.leaf_at(address), segments);
        let mut patience = self.patience();
        loop {
            self.read(&mut buffers).await?;
            if take_in(&buffers, segments, into) {
                return Ok(());
            }
            if patience.is_over(&self.endpoint) {
                self.repair_leaf(address).await?;
                patience = self.patience();
            }
        }
    }

    /// Reads a node, again and again until nobody has written meanwhile; answers its counter, too.
    pub(super) async fn read_internal(
        &self,
        address: GlobalAddress,
    ) -> Result<(InternalNode, u64), PoolError> {
        let mut buffers = self.internal_buffers(address);
        let mut patience = self.patience();
        loop {
            self.read(&mut buffers).await?;
            if let Some(node) = self.decode_internal(&buffers) {
                return Ok(node);
            }
            if patience.is_over(&self.endpoint) {
                self.repair_internal(address).await?;
                patience = self.patience();
            }
        }
    }

    pub(super) fn internal_buffers(&self, address: GlobalAddress) -> Buffers {
        Buffers::new(self.internal_at(address), &self.internals.whole())
    }

    /// The node that was read, and its counter; `None` if somebody has written meanwhile.
    pub(super) fn decode_internal(&self, buffers: &Buffers) -> Option<(InternalNode, u64)> {
        let count = buffers.count()?;
        let wire = buffers.wire();
        let node = InternalNode::decode(self.internals, wire.first()?).ok()?;
        Some((node, count))
    }

    /// Takes the lock of an internal node and reads it, in one round trip or two.
    pub(super) async fn lock_internal(
        &self,
        address: GlobalAddress,
    ) -> Result<(Lock<'_>, InternalNode, u64), PoolError> {
        let node = self.internal_at(address);
        if self.node.options.lock_and_read {
            let mut buffers = self.internal_buffers(address);
            let lock = self.lock(node, &mut buffers.targets()).await?;
            if lock.before.is_some()
                && let Some((node, count)) = self.decode_internal(&buffers)
            {
                return Ok((lock, node, count));
            }
            let (node, count) = self.read_internal(address).await?;
            return Ok((lock, node, count));
        }
        let lock = self.lock(node, &mut []).await?;
        let (node, count) = self.read_internal(address).await?;
        Ok((lock, node, count))
    }

    /// What to write for a whole internal node.
    pub(super) fn internal_writes(
        &self,
        address: GlobalAddress,
        node: &InternalNode,
        count: u64,
    ) -> Vec<Write> {
        let whole = self.internals.whole();
        self.internal_at(address)
            .writes(&whole, vec![node.encode()], count)
    }

    /// What to write for segments of a leaf.
    pub(super) fn leaf_writes(
        &self,
        address: GlobalAddress,
        read: &ReadLeaf,
        segments: &Segments,
    ) -> Vec<Write> {
        self.leaf_at(address)
            .writes(segments, read.leaf.encode(segments), read.count)
    }

    /// Writes a node that nobody knows of yet, with a free lock in which this word lies.
    pub(super) async fn write_new(
        &self,
        node: NodeAt,
        writes: Vec<Write>,
        word: u64,
    ) -> Result<(), PoolError> {
        let word = word.to_le_bytes();
        let writes = writes.iter().map(|(to, bytes)| (*to, &bytes[..]));
        let writes = writes.chain([(node.lock(), &word[..])]);
        let mut verbs: Vec<Verb<'_>> = writes
            .map(|(to, bytes)| Verb::Write { to, bytes })
            .collect();
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    /// Memory for a node.
    pub(super) async fn allocate(&self, node: NodeAt) -> Result<GlobalAddress, PoolError> {
        // The lock word, and room for a counter.
        let bytes = node.lock_offset + 2 * WORD_BYTES;
        Ok(self.arena.allocate(&self.endpoint, bytes).await?)
    }

    pub(super) async fn read(&self, buffers: &mut Buffers) -> Result<(), PoolError> {
        let reads = buffers.targets().into_iter();
        let mut verbs: Vec<Verb<'_>> = reads
            .map(|(from, into)| Verb::Read { from, into })
            .collect();
        Ok(self.endpoint.post(&mut verbs).await?)
    }
}

/// Takes in what was read; false if somebody has written meanwhile.
pub(super) fn take_in(buffers: &Buffers, segments: &Segments, into: &mut ReadLeaf) -> bool {
    let Some(count) = buffers.count() else {
        return false;
    };
    let is_whole = into.leaf.decode(segments, &buffers.wire()).is_ok();
    if is_whole {
        into.count = count;
    }
    is_whole
}
