//! Reading and writing leaves, and their locks.

use super::Tree;
use crate::error::PoolError;
use crate::layout::{Leaf, LockWord, Segments};
use nearfield_fabric::{Endpoint, GlobalAddress, Verb};

impl<E: Endpoint> Tree<E> {
    /// Reads segments of a leaf, again and again until nobody has written meanwhile.
    pub(super) async fn read_leaf(
        &self,
        address: GlobalAddress,
        segments: &Segments,
    ) -> Result<Leaf, PoolError> {
        let mut leaf = Leaf::new(self.leaves);
        self.read_more(address, segments, &mut leaf).await?;
        Ok(leaf)
    }

    /// Reads segments of a leaf into one of which a part may be known.
    pub(super) async fn read_more(
        &self,
        address: GlobalAddress,
        segments: &Segments,
        leaf: &mut Leaf,
    ) -> Result<(), PoolError> {
        let mut buffers = buffers(segments);
        loop {
            let mut verbs: Vec<Verb<'_>> = reads(address, segments, &mut buffers).collect();
            self.endpoint.post(&mut verbs).await?;
            drop(verbs);
            let wire: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
            if leaf.decode(segments, &wire).is_ok() {
                return Ok(());
            }
        }
    }

    /// Writes segments of a leaf, and then the word of its lock, which gives it back or, if nobody
    /// knows of the leaf yet, makes it.
    pub(super) async fn write_leaf(
        &self,
        address: GlobalAddress,
        leaf: &Leaf,
        segments: &Segments,
        word: LockWord,
    ) -> Result<(), PoolError> {
        let (buffers, word) = (leaf.encode(segments), word.to_bits().to_le_bytes());
        let writes = segments.iter().zip(&buffers);
        let writes = writes.map(|(segment, bytes)| Verb::Write {
            to: address.plus(segment.wire().start as u64),
            bytes,
        });
        let unlock = Verb::Write {
            to: self.lock_of_leaf(address),
            bytes: &word,
        };
        let mut verbs: Vec<Verb<'_>> = writes.chain([unlock]).collect();
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    /// Takes the lock of a leaf, and answers what lay in it.
    pub(super) async fn lock_leaf(&self, address: GlobalAddress) -> Result<LockWord, PoolError> {
        let word = self.lock(self.lock_of_leaf(address)).await?;
        Ok(LockWord::from_bits(word))
    }

    /// Gives the lock of a leaf back that was not changed.
    pub(super) fn unlock_leaf(
        &self,
        address: GlobalAddress,
        word: LockWord,
    ) -> Result<(), PoolError> {
        self.unlock(self.lock_of_leaf(address), word.to_bits())
    }

    fn lock_of_leaf(&self, address: GlobalAddress) -> GlobalAddress {
        address.plus(self.leaves.lock_offset() as u64)
    }
}

/// A buffer for each segment.
pub(super) fn buffers(segments: &Segments) -> Vec<Vec<u8>> {
    let buffer = |segment: &crate::layout::Segment| vec![0; segment.wire().len()];
    segments.iter().map(buffer).collect()
}

/// The reads of segments of the node at `address`.
pub(super) fn reads<'b>(
    address: GlobalAddress,
    segments: &Segments,
    buffers: &'b mut [Vec<u8>],
) -> impl Iterator<Item = Verb<'b>> {
    let pairs = segments.iter().zip(buffers);
    pairs.map(move |(segment, into)| Verb::Read {
        from: address.plus(segment.wire().start as u64),
        into,
    })
}
