//! The header that every client finds: a line at the same offset of each node, outside the
//! allocated memory.
//!
//! ```text
//! 0  root word               on the first node
//! 8  format of the index     on the first node
//! 16 sizes of its nodes      on the first node
//! 24 table of owners of locks on the first node
//! 32 directory of records    on every node
//! 40 table of epochs         on the first node
//! ```

use super::owner::Owner;
use crate::error::PoolError;
use crate::layout::{
    Arrangement, Geometry, InternalLayout, LeafMetadataPosition, PoolIndexShape, PoolLeafLayout,
    Validation,
};
use nearfield_fabric::recovery::epochs::{self, Epochs, TABLE_BYTES};
use nearfield_fabric::recovery::owners::OwnerTable;
use nearfield_fabric::recovery::redo;
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, LINE_BYTES, NodeId, WORD_BYTES};
use std::time::Duration;

/// The word "NFTREE" and the number of the format, which changes whenever the bytes of nodes do.
const FORMAT: u64 = u64::from_le_bytes(*b"NFTREE\0\x03");
const FORMAT_AT: u64 = 8;
const SIZES_AT: u64 = 16;
const OWNERS_AT: u64 = 24;
const DIRECTORY_AT: u64 = 32;
const EPOCHS_AT: u64 = 40;
/// Number of clients that an index may have at once.
const OWNERS: u16 = 1024;
/// Number of bytes of a directory: a word for each owner.
const DIRECTORY_BYTES: u64 = OWNERS as u64 * WORD_BYTES;
/// Number of leases without a taken lock after which another client may claim an owner's number.
const CLAIM_LEASES: u32 = 64;
/// Number of locks of one node that a client may hold at once.
const SLOTS: usize = redo::SLOTS_MAX;
/// Number of bytes of a record besides nodes: its header, those of its writes and marks, and a
/// note.
const RECORD_HEADER_BYTES: usize = 128;

/// Number of a compute node's retired nodes that others find if it dies.
pub(super) const RING_ENTRIES: usize = 1024;

/// Number of lock leases after which a compute node counts as dead.
const LOCK_LEASES: u32 = 16;

/// The position of the header of an index.
#[derive(Clone, Debug)]
pub(super) struct ChimeHeaderAddress {
    at: GlobalAddress,
    nodes: Vec<NodeId>,
}

impl ChimeHeaderAddress {
    pub fn new(at: GlobalAddress, nodes: &[NodeId]) -> ChimeHeaderAddress {
        ChimeHeaderAddress {
            at,
            nodes: nodes.to_vec(),
        }
    }

    /// Returns true if the client has opened the index with a node.
    pub fn knows(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    fn directory_words(&self) -> impl Iterator<Item = GlobalAddress> + '_ {
        let offset = self.at.offset() + DIRECTORY_AT;
        self.nodes
            .iter()
            .map(move |&node| GlobalAddress::new(node, offset))
    }

    /// Creates the header of an index of this shape, without a root yet.
    pub async fn create(
        &self,
        endpoint: &impl Endpoint,
        shape: &PoolIndexShape,
    ) -> Result<(), PoolError> {
        // All tables exist before the format, by which other clients recognize the index.
        for word in self.directory_words() {
            let directory = new_directory(endpoint, word.node()).await?;
            let directory = directory.to_bits().to_le_bytes();
            endpoint.write(word, &directory).await?;
        }
        let table = endpoint.allocate(self.at.node(), TABLE_BYTES).await?;
        endpoint
            .write(table, &vec![0; TABLE_BYTES as usize])
            .await?;
        let table = table.to_bits().to_le_bytes();
        endpoint.write(self.at.plus(EPOCHS_AT), &table).await?;
        // Only its length is asked of a table that is nowhere yet.
        let owners = owner_table(GlobalAddress::NULL, Duration::ZERO).bytes();
        let owners = endpoint.allocate(self.at.node(), owners).await?;
        let table = owner_table(owners, Duration::ZERO);
        table.clear(endpoint).await?;
        // One line, which is written last: no client finds a format without sizes and owners. The
        // root word is zero until there is a root.
        let words = [0, FORMAT, sizes(shape), owners.to_bits()]
            .map(u64::to_le_bytes)
            .concat();
        Ok(endpoint.write(self.at, &words).await?)
    }

    /// Gives a node without content what each node of an index has. Does nothing if it has that.
    pub async fn extend(&self, endpoint: &impl Endpoint, node: NodeId) -> Result<(), PoolError> {
        let word = GlobalAddress::new(node, self.at.offset() + DIRECTORY_AT);
        let mut found = [0; 8];
        endpoint.read(word, &mut found).await?;
        if u64::from_le_bytes(found) != 0 {
            return Ok(());
        }
        let directory = new_directory(endpoint, node).await?;
        let before = endpoint.compare_swap(word, 0, directory.to_bits());
        if before.await? != 0 {
            // Another client was faster.
            endpoint.free(directory, DIRECTORY_BYTES).await?;
        }
        Ok(())
    }

    /// Checks that the memory holds an index of this shape.
    ///
    /// # Errors
    /// `Format`, `NoIndex`, and the nodes' errors.
    pub async fn check(
        &self,
        endpoint: &impl Endpoint,
        shape: &PoolIndexShape,
    ) -> Result<(), PoolError> {
        let mut words = [0; 16];
        endpoint.read(self.at.plus(FORMAT_AT), &mut words).await?;
        let (found, sizes_found) = words.split_at((SIZES_AT - FORMAT_AT) as usize);
        if found != FORMAT.to_le_bytes() {
            let found = found.to_vec();
            let at = self.at;
            return Err(PoolError::Format { at, found });
        }
        // Clients of other sizes would read nodes at wrong offsets.
        if sizes_found != sizes(shape).to_le_bytes() {
            return Err(PoolError::NoIndex { root: self.at });
        }
        Ok(())
    }

    /// Makes a compute node take part in reclaiming memory.
    pub async fn take_part(
        &self,
        endpoint: &impl Endpoint,
        lease: Duration,
        retired_bytes: u64,
    ) -> Result<Epochs, PoolError> {
        let table = address(endpoint, self.at.plus(EPOCHS_AT)).await?;
        let options = epochs::EpochOptions {
            // An operation may have to wait for several locks of dead clients, each for a lease.
            lease: self.session_lease(lease),
            retired_bytes,
            ring_entries: RING_ENTRIES,
            ..epochs::EpochOptions::default()
        };
        Ok(Epochs::register(endpoint, table, options).await?)
    }

    /// Makes the caller an owner of locks with this lease.
    ///
    /// # Errors
    /// `Owners` if there are too many, and the nodes' errors.
    pub async fn join(
        &self,
        endpoint: &impl Endpoint,
        lease: Duration,
        geometry: Geometry,
    ) -> Result<Owner, PoolError> {
        let table = address(endpoint, self.at.plus(OWNERS_AT)).await?;
        let table = owner_table(table, self.claim_lease(lease));
        let mut directories = Vec::new();
        for word in self.directory_words() {
            // No lock of a lost node can be taken.
            if !endpoint.is_reachable(word.node()) {
                continue;
            }
            match address(endpoint, word).await {
                // Nobody may have noticed the end of a node that was drained.
                Err(PoolError::Fabric(FabricError::NodeLost { .. })) => {}
                directory => directories.push(directory?),
            }
        }
        let claim = table.claim(endpoint).await?;
        debug_assert_eq!(
            claim.numbers().len(),
            1,
            "a slot of the table stands for one number"
        );
        let (number, options) = (claim.numbers().start, options(geometry));
        let redo = redo::Redo::open(endpoint, &directories, number, lease, &options).await?;
        Ok(Owner::new(redo, claim))
    }

    /// Returns the time after which a silent compute node counts as dead, and its sessions are not
    /// valid any more, if locks have this lease.
    pub fn session_lease(&self, lease: Duration) -> Duration {
        lease * LOCK_LEASES
    }

    /// Returns the lease of a claim to a number, if locks have this lease.
    pub fn claim_lease(&self, lease: Duration) -> Duration {
        lease * CLAIM_LEASES
    }
}

/// Allocates an empty directory of records on a node.
async fn new_directory(endpoint: &impl Endpoint, node: NodeId) -> Result<GlobalAddress, PoolError> {
    let directory = endpoint.allocate(node, DIRECTORY_BYTES).await?;
    let empty = vec![0; DIRECTORY_BYTES as usize];
    endpoint.write(directory, &empty).await?;
    Ok(directory)
}

/// Reads the address of a table, which is stored at another one.
///
/// # Errors
/// `Damaged` if it is no address of a table, and the nodes' errors.
async fn address(endpoint: &impl Endpoint, at: GlobalAddress) -> Result<GlobalAddress, PoolError> {
    let mut word = [0; 8];
    endpoint.read(at, &mut word).await?;
    let table = GlobalAddress::from_bits(u64::from_le_bytes(word));
    // Tables are allocated, and so begin at a line.
    if table.is_null() || !table.offset().is_multiple_of(LINE_BYTES) {
        return Err(PoolError::Damaged { at });
    }
    Ok(table)
}

fn owner_table(at: GlobalAddress, lease: Duration) -> OwnerTable {
    OwnerTable::new(at, OWNERS, OWNERS, lease)
}

/// Returns the slots for records of the largest change: two merged nodes, and their parent.
fn options(geometry: Geometry) -> redo::RedoOptions {
    let leaf = PoolLeafLayout::new(geometry).lock_offset();
    let internal = InternalLayout::new(geometry).wire_bytes();
    let key_bytes = geometry.shape().key_bytes;
    redo::RedoOptions {
        owners: OWNERS,
        slots: SLOTS,
        // A merge writes both children and their parent in one record; a division has the separator
        // in its note.
        slot_bytes: 2 * internal.max(leaf) + internal + RECORD_HEADER_BYTES + key_bytes,
    }
}

/// Returns a number that differs for shapes with different nodes.
fn sizes(shape: &PoolIndexShape) -> u64 {
    let PoolIndexShape {
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
        metadata == LeafMetadataPosition::Single,
        validation == Validation::Fences,
        arrangement == Arrangement::Unordered,
        arrangement == Arrangement::Neighborhood,
    ];
    let sizes = [
        key_bytes,
        value_bytes,
        leaf_span,
        internal_span,
        neighborhood,
    ];
    // Every field is hashed, also those that do not change the size of nodes but their meaning.
    let numbers = sizes.map(|size| size as u64);
    let numbers = numbers.into_iter().chain(flags.map(u64::from));
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
