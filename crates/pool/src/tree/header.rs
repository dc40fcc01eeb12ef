//! What every client has to find: a line at the same place of each node, outside what nodes give out.
//!
//! ```text
//! 0  root word               on the first node
//! 8  format of the index     on the first node
//! 16 sizes of its nodes      on the first node
//! 24 owners of locks so far  on the first node
//! 32 directory of records    on every node
//! ```

use super::Options;
use crate::error::PoolError;
use crate::layout::{Arrangement, Metadata, Shape, Validation};
use nearfield_fabric::redo;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use std::time::Duration;

/// "NFTREE" and the number of the format, which changes whenever the bytes of nodes do.
const FORMAT: u64 = u64::from_le_bytes(*b"NFTREE\0\x01");
const FORMAT_AT: u64 = 8;
const SIZES_AT: u64 = 16;
const OWNERS_AT: u64 = 24;
const DIRECTORY_AT: u64 = 32;
/// Clients that an index may have had.
const OWNERS: u16 = 4096;
/// Locks of one node that a client holds at once.
const SLOTS: usize = redo::SLOTS_MAX;
/// What a record has beside a node: its header, those of its writes, a counter and a note.
const RECORD_HEADER_BYTES: usize = 128;

/// Where the header of an index is.
#[derive(Clone, Debug)]
pub(super) struct Header {
    at: GlobalAddress,
    nodes: Vec<NodeId>,
}

impl Header {
    pub fn new(at: GlobalAddress, nodes: &[NodeId]) -> Header {
        Header {
            at,
            nodes: nodes.to_vec(),
        }
    }

    fn directory_words(&self) -> impl Iterator<Item = GlobalAddress> + '_ {
        let offset = self.at.offset() + DIRECTORY_AT;
        self.nodes
            .iter()
            .map(move |&node| GlobalAddress::new(node, offset))
    }

    /// Makes the header of an index of this shape, without a root yet.
    pub async fn create(&self, endpoint: &impl Endpoint, shape: &Shape) -> Result<(), PoolError> {
        let bytes = options(shape).directory_bytes();
        for word in self.directory_words() {
            let directory = endpoint.allocate(word.node(), bytes).await?;
            endpoint.write(directory, &vec![0; bytes as usize]).await?;
            let directory = directory.to_bits().to_le_bytes();
            endpoint.write(word, &directory).await?;
        }
        let words = [0, FORMAT, sizes(shape), 0].map(u64::to_le_bytes).concat();
        Ok(endpoint.write(self.at, &words).await?)
    }

    /// Checks that an index of this shape is there.
    ///
    /// # Errors
    /// `Format`, `NoIndex`, and what nodes answer.
    pub async fn check(&self, endpoint: &impl Endpoint, shape: &Shape) -> Result<(), PoolError> {
        let mut words = [0; 16];
        endpoint.read(self.at.plus(FORMAT_AT), &mut words).await?;
        let (found, sizes_found) = words.split_at((SIZES_AT - FORMAT_AT) as usize);
        if found != FORMAT.to_le_bytes() {
            let found = found.to_vec();
            let at = self.at;
            return Err(PoolError::Format { at, found });
        }
        if sizes_found != sizes(shape).to_le_bytes() {
            return Err(PoolError::NoIndex { root: self.at });
        }
        Ok(())
    }

    /// Makes the caller an owner of locks with this lease.
    pub async fn join(
        &self,
        endpoint: &impl Endpoint,
        lease: Duration,
        tree: &Options,
    ) -> Result<redo::Redo, PoolError> {
        let owner = endpoint.add(self.at.plus(OWNERS_AT), 1).await?;
        let owner = u16::try_from(owner).unwrap_or(u16::MAX);
        let mut directories = Vec::new();
        for word in self.directory_words() {
            let mut directory = [0; 8];
            endpoint.read(word, &mut directory).await?;
            directories.push(GlobalAddress::from_bits(u64::from_le_bytes(directory)));
        }
        let options = options(&tree.shape);
        let redo = redo::Redo::open(endpoint, &directories, owner, lease, &options);
        Ok(redo.await?)
    }
}

/// The places of records that hold any one node.
fn options(shape: &Shape) -> redo::Options {
    // An entry has less than this beside its key and value, with its part of versions and metadata.
    let leaf = shape.leaf_span * (shape.key_bytes + shape.value_bytes + 16) * 65 / 63;
    let internal = shape.internal_span * (shape.key_bytes + 12) * 65 / 63;
    let metadata = 8 * (shape.key_bytes + 8) * (shape.leaf_span / shape.neighborhood.max(1) + 2);
    redo::Options {
        owners: OWNERS,
        slots: SLOTS,
        slot_bytes: leaf.max(internal) + metadata + RECORD_HEADER_BYTES + shape.key_bytes,
    }
}

/// A number that differs for shapes whose nodes differ.
fn sizes(shape: &Shape) -> u64 {
    let Shape {
        key_bytes,
        value_bytes,
        leaf_span,
        internal_span,
        neighborhood,
        metadata,
        validation,
        arrangement,
    } = *shape;
    let flags = [
        metadata == Metadata::Single,
        validation == Validation::Fences,
        arrangement == Arrangement::Unordered,
    ];
    let sizes = [
        key_bytes,
        value_bytes,
        leaf_span,
        internal_span,
        neighborhood,
    ];
    let numbers = sizes.map(|size| size as u64);
    let numbers = numbers.into_iter().chain(flags.map(u64::from));
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
