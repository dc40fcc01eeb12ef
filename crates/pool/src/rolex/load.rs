//! Making an index: leaves are filled with sorted entries, and models are trained over their keys.

use super::Rolex;
use super::leaf::{Leaf, LeafLayout};
use super::model::{Trainer, prefix};
use super::table::{HEADER_BYTES, Table, leaves_per_extent};
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use std::sync::Arc;

/// Full leaves that are not written yet, as they will lie side by side.
struct Extents<'e, E> {
    endpoint: &'e E,
    nodes: &'e [NodeId],
    layout: LeafLayout,
    bytes: Vec<u8>,
    addresses: Vec<GlobalAddress>,
}

impl<E: Endpoint> Extents<'_, E> {
    /// Adds a leaf, with a lock that is free.
    async fn push(&mut self, leaf: &Leaf) -> Result<(), PoolError> {
        let stride = self.layout.stride_bytes();
        let start = self.bytes.len();
        self.bytes.extend(leaf.encode());
        self.bytes.resize(start + stride, 0);
        if self.bytes.len() == leaves_per_extent(&self.layout) * stride {
            self.write().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), PoolError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let node = self.nodes[self.addresses.len() % self.nodes.len()];
        let bytes = self.bytes.len() as u64;
        let address = self.endpoint.allocate(node, bytes).await?;
        self.endpoint.write(address, &self.bytes).await?;
        self.addresses.push(address);
        self.bytes.clear();
        Ok(())
    }
}

impl<E: Endpoint> Rolex<E> {
    /// Fills leaves with entries in ascending order of their keys, all slots of each, and writes
    /// the table.
    pub(super) async fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        nodes: &[NodeId],
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), PoolError> {
        let options = &self.node.options;
        let mut extents = Extents {
            endpoint: &self.endpoint,
            nodes,
            layout: self.leaves,
            bytes: Vec::new(),
            addresses: Vec::new(),
        };
        let mut trainer = Trainer::new(options.error);
        let mut leaf = Leaf::new(self.leaves);
        let (mut slot, mut last) = (0, Vec::new());
        for (position, (key, value)) in entries.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            self.check_value(value)?;
            if *last >= *key {
                let position = position as u64;
                return Err(PoolError::Unsorted { position });
            }
            last.clear();
            last.extend_from_slice(key);
            trainer.push(prefix(key));
            if slot == self.leaves.span() {
                extents.push(&leaf).await?;
                (leaf, slot) = (Leaf::new(self.leaves), 0);
            }
            leaf.put(slot, key, value);
            slot += 1;
        }
        extents.push(&leaf).await?;
        extents.write().await?;

        let table = Table::new(&self.leaves, trainer.finish(), extents.addresses);
        let bytes = table.encode(options);
        let address = self.endpoint.allocate(nodes[0], bytes.len() as u64).await?;
        self.endpoint.write(address, &bytes).await?;
        let word = address.to_bits().to_le_bytes();
        Ok(self.endpoint.write(self.root, &word).await?)
    }

    /// The table, which the first client of a compute node reads from remote memory in three round
    /// trips.
    pub(super) async fn table(&self) -> Result<Arc<Table>, PoolError> {
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
        let length = Table::encoded_bytes(&header, options).ok_or(PoolError::NoIndex { root })?;
        let mut bytes = vec![0; length];
        self.endpoint.read(address, &mut bytes).await?;
        let table = Arc::new(Table::decode(&bytes, options));
        // Another client may have been quicker, with the same table.
        Ok(Arc::clone(self.node.table.get_or_init(|| table)))
    }
}
