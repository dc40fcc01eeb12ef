//! The ordered table, in place of WiredTiger: a B+ tree under YCSB's mix E, scans of 1 to 100 keys
//! and insertions. Keys arrived in random order, as they do in YCSB.

use super::super::structures::{key, value};
use super::application::RemoteApplication;
use super::deployment::{Deployment, DeploymentError};
use super::native::{self, NativeCode};
use super::sealer::Sealer;
use super::web_service::ApplicationBuildError;
use crate::workload::{Mix, Op, OpStream, StreamSpec, Streams};
use nearfield_offload::structures::{BPlusTree, NodeHeap, StructureEntry, scanned};
use nearfield_offload::traversal::TraversalQuery;
use std::sync::{PoisonError, RwLock};

/// Number of requests of a stream. A stream that ends begins again: its insertions then replace
/// existing entries.
const REQUESTS: usize = 20_000;

pub(super) struct OrderedTableApplication {
    /// The root, with the callers' lock.
    tree: RwLock<BPlusTree>,
    streams: Streams,
    /// A key from which on scans may reach the end of the table.
    near_end: u64,
}

/// A request. Keys are given by their numbers.
#[derive(Clone, Debug)]
pub(super) enum OrderedTableRequest {
    Scan { number: u64, count: usize },
    Insert { number: u64 },
}

#[derive(Debug)]
pub(super) enum OrderedTableReply {
    Entries(Vec<StructureEntry>),
    Inserted,
}

/// Returns the bytes of a tree of this number of keys, with some reserve.
pub(super) fn bytes(keys: u64) -> u64 {
    // Half-full nodes of 256 bytes in the worst case.
    keys * 72 + (1 << 20)
}

impl OrderedTableApplication {
    /// Creates a table for this number of keys, including those that streams of requests insert.
    pub(super) fn new(
        heap: &mut impl NodeHeap,
        keys: u64,
        streams: usize,
    ) -> Result<OrderedTableApplication, ApplicationBuildError> {
        let spec = StreamSpec {
            mix: Mix::YcsbE,
            distribution: None,
            keys: keys as usize,
            threads: streams,
            // At most half of the keys may be held out, and one request of 20 inserts one.
            operations: REQUESTS.min(4 * keys as usize / streams) * streams,
            seed: 22,
            hot_seed: 22,
        };
        let streams = spec.generate()?;
        let mut tree = BPlusTree::new(heap)?;
        let mut last: Vec<u64> = Vec::new();
        for number in 0..streams.loaded() as u64 {
            tree.insert(heap, key(number), value(key(number)))?;
            last.push(key(number));
        }
        last.sort_unstable_by(|a, b| b.cmp(a));
        Ok(OrderedTableApplication {
            tree: RwLock::new(tree),
            // A scan reads at most 100 entries, so only the last 100 keys can have fewer behind
            // them.
            near_end: last.get(100).copied().unwrap_or(0),
            streams,
        })
    }

    /// Returns the number of keys in the table before any request.
    #[cfg(test)]
    pub(super) fn loaded(&self) -> u64 {
        self.streams.loaded() as u64
    }
}

impl RemoteApplication for OrderedTableApplication {
    type Request = OrderedTableRequest;
    type Reply = OrderedTableReply;

    fn name(&self) -> String {
        String::from("ordered table E")
    }

    fn requests(&self, stream: usize) -> impl Iterator<Item = OrderedTableRequest> + Send {
        let streams = self.streams.threads();
        let stream = streams.get(stream % streams.len().max(1));
        let count = stream.map_or(0, OpStream::len);
        let operations = (0..count).cycle();
        let operations = operations.filter_map(move |number| Some(stream?.get(number)));
        operations.map(|operation| match operation {
            Op::Scan(position, count) => OrderedTableRequest::Scan {
                number: position as u64,
                count,
            },
            Op::Insert(position)
            | Op::Read(position)
            | Op::Update(position)
            | Op::ReadModifyWrite(position) => OrderedTableRequest::Insert {
                number: position as u64,
            },
        })
    }

    fn query(&self, request: &OrderedTableRequest) -> Option<TraversalQuery> {
        match *request {
            OrderedTableRequest::Scan { number, count } => {
                let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
                Some(tree.scan(key(number), count))
            }
            OrderedTableRequest::Insert { .. } => None,
        }
    }

    fn serve(
        &self,
        request: &OrderedTableRequest,
        deployment: &mut dyn Deployment,
        _: &mut Sealer,
    ) -> Result<OrderedTableReply, DeploymentError> {
        match *request {
            OrderedTableRequest::Scan { number, count } => {
                let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
                let outcome = deployment.run(&tree.scan(key(number), count))?;
                Ok(OrderedTableReply::Entries(scanned(&outcome).collect()))
            }
            OrderedTableRequest::Insert { number } => {
                let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
                deployment.insert(&mut tree, key(number), value(key(number)))?;
                Ok(OrderedTableReply::Inserted)
            }
        }
    }

    fn is_right(&self, request: &OrderedTableRequest, reply: &OrderedTableReply) -> bool {
        match (request, reply) {
            (&OrderedTableRequest::Scan { number, count }, OrderedTableReply::Entries(entries)) => {
                let is_full = entries.len() == count || key(number) >= self.near_end;
                is_full
                    && entries
                        .first()
                        .is_some_and(|entry| entry.key == key(number))
                    && entries.is_sorted_by(|a, b| a.key < b.key)
                    && entries.iter().all(|entry| entry.value == value(entry.key))
            }
            (OrderedTableRequest::Insert { .. }, OrderedTableReply::Inserted) => true,
            _ => false,
        }
    }

    fn with_native<'m>(&self, native: NativeCode<'m>) -> NativeCode<'m> {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        native.with(&tree.scan(0, 0).program, native::scan)
    }
}
