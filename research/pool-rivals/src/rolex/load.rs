//! Creation of an index: leaves are filled with sorted entries, and models are trained over their
//! keys.

use super::Rolex;
use super::leaf::RolexLeaf;
use super::model::{RolexModelTrainer, prefix};
use super::table::{HEADER_BYTES, RolexModelTable, leaves_per_extent};
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_pool::{Entry, PoolError};
use std::sync::Arc;

/// Leaves that are not written yet, in their order in memory.
struct Extents<'e, E> {
    endpoint: &'e E,
    nodes: &'e [NodeId],
    /// Number of bytes of a leaf, and of a full extent.
    stride_bytes: usize,
    extent_bytes: usize,
    bytes: Vec<u8>,
    addresses: Vec<GlobalAddress>,
}

impl<E: Endpoint> Extents<'_, E> {
    /// Returns the node of the next leaf.
    fn node(&self) -> NodeId {
        self.nodes[self.addresses.len() % self.nodes.len()]
    }

    /// Adds the bytes of a leaf; the rest of its memory becomes zeros.
    async fn push(&mut self, leaf: &[u8]) -> Result<(), PoolError> {
        debug_assert!(leaf.len() <= self.stride_bytes);
        let start = self.bytes.len();
        self.bytes.extend(leaf);
        self.bytes.resize(start + self.stride_bytes, 0);
        debug_assert!(
            self.bytes.len() <= self.extent_bytes,
            "extents have whole leaves"
        );
        if self.bytes.len() == self.extent_bytes {
            self.write().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), PoolError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = self.bytes.len() as u64;
        let address = self.endpoint.allocate(self.node(), bytes).await?;
        self.endpoint.write(address, &self.bytes).await?;
        self.addresses.push(address);
        self.bytes.clear();
        Ok(())
    }
}

impl<E: Endpoint> Rolex<E> {
    /// Fills leaves with entries in ascending order of their keys and writes the table.
    pub(super) async fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        nodes: &[NodeId],
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), PoolError> {
        let options = &self.node.options;
        let stride_bytes = options.stride_bytes();
        let mut extents = Extents {
            endpoint: &self.endpoint,
            nodes,
            stride_bytes,
            extent_bytes: leaves_per_extent(options) * stride_bytes,
            bytes: Vec::new(),
            addresses: Vec::new(),
        };
        let mut trainer = RolexModelTrainer::new(options.error);
        let mut group: Vec<Entry> = Vec::new();
        let mut last = Vec::new();
        for (position, (key, value)) in entries.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            self.check_value(value)?;
            // The first key is greater than the empty string, because no key is empty.
            if *last >= *key {
                let position = position as u64;
                return Err(PoolError::Unsorted { position });
            }
            last.clear();
            last.extend_from_slice(key);
            trainer.push(prefix(key));
            // Written only with the next key, so that the last leaf is not empty.
            if group.len() == options.keys_per_leaf() {
                let leaf = self.image(extents.node(), &group).await?;
                extents.push(&leaf).await?;
                group.clear();
            }
            group.push((key.to_vec(), value.to_vec()));
        }
        // An index without entries has a leaf, too.
        let leaf = self.image(extents.node(), &group).await?;
        extents.push(&leaf).await?;
        extents.write().await?;

        let table = RolexModelTable::new(options, trainer.finish(), extents.addresses);
        let bytes = table.encode(options);
        let address = self.endpoint.allocate(nodes[0], bytes.len() as u64).await?;
        self.endpoint.write(address, &bytes).await?;
        // The root comes last: other clients find the index once it is complete.
        let word = address.to_bits().to_le_bytes();
        Ok(self.endpoint.write(self.root, &word).await?)
    }

    /// Creates the bytes of a leaf on a node with these entries. A lock word of zeros is free.
    async fn image(&self, node: NodeId, entries: &[Entry]) -> Result<Vec<u8>, PoolError> {
        if let Some(hopscotch) = &self.hopscotch {
            return self.hopscotch_image(hopscotch, node, entries).await;
        }
        let mut leaf = RolexLeaf::new(self.leaves);
        for (slot, (key, value)) in entries.iter().enumerate() {
            leaf.put(slot, key, value);
        }
        Ok(leaf.encode())
    }

    /// Returns the table, which the first client of a compute node reads from remote memory in
    /// three round trips.
    pub(super) async fn table(&self) -> Result<Arc<RolexModelTable>, PoolError> {
        if let Some(table) = self.node.table.get() {
            return Ok(Arc::clone(table));
        }
        let (options, root) = (&self.node.options, self.root);
        let mut word = [0; 8];
        self.endpoint.read(root, &mut word).await?;
        let address = GlobalAddress::from_bits(u64::from_le_bytes(word));
        if address.is_null() {
            return Err(PoolError::NoIndex { root });
        }
        let mut header = [0; HEADER_BYTES];
        self.endpoint.read(address, &mut header).await?;
        let length =
            RolexModelTable::encoded_bytes(&header, options).ok_or(PoolError::NoIndex { root })?;
        let mut bytes = vec![0; length];
        self.endpoint.read(address, &mut bytes).await?;
        let table = RolexModelTable::decode(&bytes, options);
        let table = Arc::new(table.ok_or(PoolError::Damaged { at: address })?);
        // Another client may have been faster, with the same table.
        Ok(Arc::clone(self.node.table.get_or_init(|| table)))
    }
}
