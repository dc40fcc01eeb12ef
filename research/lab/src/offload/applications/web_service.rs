//! WebService: a request looks 32 keys up in a hash table, and gets the object of the last one,
//! compressed and encrypted; an update replaces the object. YCSB's mixes A, B and C.
//!
//! The table is partitioned by keys over memory nodes, so that no chain leaves a node. A request
//! looks up all keys of one node before those of the next.
//!
//! Source: the paper's application, after AIFM's front end, with requests of 32 lookups and an
//! object of 8 KiB. The number of objects is that of the artifact, one for 60 keys.

use super::super::structures::key;
use super::application::RemoteApplication;
use super::deployment::{Deployment, DeploymentError, ObjectAccess};
use super::native::{self, NativeCode};
use super::sealer::Sealer;
use super::slabs::RackSlabHeap;
use crate::error::LabError;
use crate::workload::{Mix, Op, StreamSpec, Streams, hash};
use nearfield_offload::program::TraversalProgram;
use nearfield_offload::structures::programs::{FIND_ALL_BYTES, FIND_ALL_PAIRS};
use nearfield_offload::structures::{HeapError, NodeHeap, OffloadHashTable, found_all};
use nearfield_offload::traversal::TraversalQuery;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Number of lookups of a request.
const KEYS: usize = 32;
/// Number of keys for each object.
const KEYS_EACH: u64 = 60;
pub(super) const OBJECT_BYTES: usize = 8192;
/// Number of requests of a stream, before it begins again.
const REQUESTS: usize = 2048;
/// Number of locks that callers share. Each is for some of the objects.
const LOCKS: usize = 256;

pub(super) struct WebService {
    mix: Mix,
    /// The part of the table at each memory node.
    tables: Vec<OffloadHashTable>,
    find_all: Arc<TraversalProgram>,
    /// The address of each object.
    objects: Vec<u64>,
    /// Number of replacements of each object.
    versions: Vec<AtomicU64>,
    locks: Vec<RwLock<()>>,
    streams: Streams,
}

/// Lookups of keys by their numbers.
#[derive(Clone, Debug)]
pub(super) struct WebServiceRequest {
    pub numbers: Vec<u64>,
    pub is_update: bool,
}

#[derive(Debug)]
pub(super) struct WebServiceReply {
    /// The value of each key, if it was found.
    pub values: Vec<Option<u64>>,
    /// The object and its version, and the expected version.
    pub object: [u64; 4],
    /// The message to the user: a number and bytes.
    pub message: Option<(u64, Vec<u8>)>,
}

/// Returns the memory node of a key.
fn part(key: u64, nodes: usize) -> usize {
    debug_assert!(nodes > 0);
    (key % nodes as u64) as usize
}

/// Returns the bytes of the table and objects for this number of keys, with some reserve.
pub(super) fn bytes(keys: u64) -> u64 {
    // An entry has 32 bytes, and two of three buckets have one of their own.
    keys * 64 + keys / KEYS_EACH * OBJECT_BYTES as u64 + (1 << 20)
}

impl WebService {
    /// Creates a service with this number of keys, and this number of different streams of
    /// requests.
    pub(super) fn new(
        heap: &mut RackSlabHeap<'_>,
        keys: u64,
        mix: Mix,
        streams: usize,
    ) -> Result<WebService, ApplicationBuildError> {
        let objects = (keys / KEYS_EACH).max(1);
        let allocate = |number| {
            let address = heap.allocate(OBJECT_BYTES as u64)?;
            for (at, bytes) in object(number, 0).chunks_exact(8).enumerate() {
                let word = bytes.try_into().map_or(0, u64::from_le_bytes);
                heap.write(address + 8 * at as u64, word)?;
            }
            Ok(address)
        };
        let objects: Vec<u64> = (0..objects)
            .map(allocate)
            .collect::<Result<_, HeapError>>()?;
        // The artifact's load is 1.49.
        let nodes = heap.count();
        let buckets = keys * 100 / 149 / nodes as u64;
        let tables = (0..nodes).map(|node| OffloadHashTable::new(heap.at(node), buckets));
        let mut tables = tables.collect::<Result<Vec<OffloadHashTable>, HeapError>>()?;
        for number in 0..keys {
            let of = objects.get((number % objects.len() as u64) as usize);
            let node = part(key(number), nodes);
            tables[node].insert(heap.at(node), key(number), of.copied().unwrap_or_default())?;
        }
        let streams = StreamSpec {
            mix,
            distribution: None,
            keys: keys as usize,
            threads: streams,
            operations: REQUESTS * KEYS * streams,
            seed: 22,
            hot_seed: 22,
        };
        Ok(WebService {
            mix,
            find_all: tables[0].find_all(&[]).program,
            tables,
            versions: objects.iter().map(|_| AtomicU64::new(0)).collect(),
            objects,
            locks: (0..LOCKS).map(|_| RwLock::new(())).collect(),
            streams: streams.generate()?,
        })
    }

    /// Returns the object of a key's number.
    pub(super) fn object_of(&self, number: u64) -> u64 {
        number % self.objects.len() as u64
    }

    /// Returns a query like [`OffloadHashTable::find_all`], over all parts of the table.
    fn find_all(&self, keys: &[u64]) -> TraversalQuery {
        let bucket = |key| self.tables[part(key, self.tables.len())].find(key).start;
        let mut words = vec![0; FIND_ALL_PAIRS];
        words[FIND_ALL_BYTES] = 16 * keys.len() as u64;
        words.extend(keys.iter().flat_map(|&key| [bucket(key), key]));
        let first = words.get(FIND_ALL_PAIRS).copied().unwrap_or_default();
        TraversalQuery::new(&self.find_all, first, &words)
    }

    fn version(&self, object: u64) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        self.versions.get(object as usize).unwrap_or(&NONE)
    }

    /// Looks up the keys that the deployment has not cached, then accesses the object.
    fn look_up(
        &self,
        numbers: &[u64],
        deployment: &mut dyn Deployment,
        then: ObjectAccess<'_>,
    ) -> Result<Vec<Option<u64>>, DeploymentError> {
        let keys: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
        let mut values: Vec<_> = keys.iter().map(|&key| deployment.recall(key)).collect();
        if let Some(Some(address)) = values.last()
            && values.iter().all(Option::is_some)
        {
            deployment.access(*address, then)?;
            return Ok(values);
        }
        // A lookup always includes the last key, because its value is the object's address.
        let last = keys.len().saturating_sub(1);
        let mut lookups: Vec<usize> = (0..keys.len())
            .filter(|&at| at == last || values.get(at).is_some_and(Option::is_none))
            .collect();
        if self.tables.len() > 1 {
            let part = |at: usize| part(keys[at], self.tables.len());
            // Keys of one node together, so that a request crosses each node once; the last node is
            // the one with the object's address.
            lookups.sort_by_key(|&at| (part(at) == part(last), part(at), at));
        }
        let missing: Vec<u64> = lookups
            .iter()
            .filter_map(|&at| keys.get(at).copied())
            .collect();
        debug_assert!(!missing.is_empty(), "the last key is never left out");
        let query = self.find_all(&missing);
        let word = FIND_ALL_PAIRS + 2 * (missing.len() - 1);
        let outcome = deployment.run_then(&query, word, then)?;
        for ((&at, &key), found) in lookups.iter().zip(&missing).zip(found_all(&outcome)) {
            if let Some(value) = found {
                deployment.remember(key, value);
            }
            if let Some(to) = values.get_mut(at) {
                *to = found;
            }
        }
        Ok(values)
    }
}

/// Reason why the data cannot be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplicationBuildError {
    /// Memory that is too small.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Streams of requests that cannot be made.
    #[error(transparent)]
    Streams(#[from] LabError),
}

impl RemoteApplication for WebService {
    type Request = WebServiceRequest;
    type Reply = WebServiceReply;

    fn name(&self) -> String {
        format!("WebService {}", self.mix.name())
    }

    fn requests(&self, stream: usize) -> impl Iterator<Item = WebServiceRequest> + Send {
        let streams = self.streams.threads();
        let stream = streams.get(stream % streams.len().max(1));
        let count = stream.map_or(0, |stream| stream.len() / KEYS);
        let request = move |number: usize| {
            let operations = stream?.range(KEYS * number..KEYS * (number + 1));
            let mut is_update = false;
            let numbers = operations.map(|operation| match operation {
                Op::Update(position) => {
                    is_update = true;
                    position as u64
                }
                Op::Read(position)
                | Op::Insert(position)
                | Op::Scan(position, _)
                | Op::ReadModifyWrite(position) => {
                    is_update = false;
                    position as u64
                }
            });
            let numbers = numbers.collect();
            // The last operation decides whether the request is an update.
            Some(WebServiceRequest { numbers, is_update })
        };
        (0..count).cycle().map_while(request)
    }

    fn query(&self, request: &WebServiceRequest) -> Option<TraversalQuery> {
        let keys: Vec<u64> = request.numbers.iter().map(|&number| key(number)).collect();
        Some(self.find_all(&keys))
    }

    fn serve(
        &self,
        request: &WebServiceRequest,
        deployment: &mut dyn Deployment,
        sealer: &mut Sealer,
    ) -> Result<WebServiceReply, DeploymentError> {
        let number = self.object_of(request.numbers.last().copied().unwrap_or_default());
        let lock = self.locks.get(number as usize % LOCKS);
        if request.is_update {
            let _held = lock.map(|lock| lock.write().unwrap_or_else(PoisonError::into_inner));
            // Under the lock, so that versions are written in their order.
            let version = self.version(number).fetch_add(1, Ordering::Relaxed) + 1;
            let bytes = object(number, version);
            let values = self.look_up(&request.numbers, deployment, ObjectAccess::Write(&bytes))?;
            return Ok(WebServiceReply {
                values,
                object: [number, version, version, version],
                message: None,
            });
        }
        let mut bytes = vec![0; OBJECT_BYTES];
        let held = lock.map(|lock| lock.read().unwrap_or_else(PoisonError::into_inner));
        let values = self.look_up(&request.numbers, deployment, ObjectAccess::Read(&mut bytes))?;
        let version = self.version(number).load(Ordering::Relaxed);
        // The object is copied and its version read; sealing needs no lock.
        drop(held);
        let word = |at: usize| {
            let bytes = bytes
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        Ok(WebServiceReply {
            values,
            object: [word(0), word(8), word(OBJECT_BYTES - 8), version],
            message: Some(sealer.seal(&bytes)?),
        })
    }

    fn is_right(&self, request: &WebServiceRequest, reply: &WebServiceReply) -> bool {
        let last = request.numbers.last().copied().unwrap_or_default();
        let [number, first, second, version] = reply.object;
        let addresses = request.numbers.iter().map(|&number| {
            let object = self.object_of(number);
            self.objects.get(object as usize).copied()
        });
        number == self.object_of(last)
            && (first, second) == (version, version)
            && reply.values.iter().copied().eq(addresses)
            && reply.message.is_none() == request.is_update
    }

    fn with_native<'m>(&self, native: NativeCode<'m>) -> NativeCode<'m> {
        native.with(&self.find_all, native::find_all)
    }
}

/// Creates the bytes of an object: its number and version at both ends, and records that compress
/// to about a third.
pub(super) fn object(number: u64, version: u64) -> Vec<u8> {
    let words = OBJECT_BYTES / 8;
    let mut bytes = Vec::with_capacity(OBJECT_BYTES);
    for at in 0..words {
        let word = match at {
            0 => number,
            1 => version,
            _ if at == words - 1 => version,
            _ if at % 4 == 0 => hash(number << 32 ^ version << 10 ^ at as u64),
            _ => u64::from_le_bytes(*b"nearfld "),
        };
        bytes.extend(word.to_le_bytes());
    }
    bytes
}
