//! RPC with a cache at the caller, of the values of keys and of objects. An update removes its
//! object, as in the paper's artifact.

use super::super::deployment::{Deployment, DeploymentError, ObjectAccess};
use super::rpc::Rpc;
use lru::LruCache;
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery};
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The cache that the callers of a machine share, by key and by address.
#[derive(Debug)]
pub(in super::super) struct ObjectCache(Mutex<ObjectCacheLists>);

#[derive(Debug)]
struct ObjectCacheLists {
    values: LruCache<u64, u64>,
    objects: LruCache<u64, Box<[u8]>>,
}

/// Bytes of a key with its value in the list.
const ENTRY_BYTES: u64 = 64;

impl ObjectCache {
    /// Creates a cache of this many bytes. A sixteenth is for keys, the rest for objects of one
    /// length.
    pub(in super::super) fn new(bytes: u64, object_bytes: usize) -> ObjectCache {
        let list = |count: u64| NonZero::new(count as usize).unwrap_or(NonZero::<usize>::MIN);
        ObjectCache(Mutex::new(ObjectCacheLists {
            values: LruCache::new(list(bytes / 16 / ENTRY_BYTES)),
            objects: LruCache::new(list(bytes / 16 * 15 / object_bytes as u64)),
        }))
    }

    fn lists(&self) -> MutexGuard<'_, ObjectCacheLists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(in super::super) struct CachedRpcDeployment {
    pub rpc: Rpc,
    pub cache: Arc<ObjectCache>,
}

impl Deployment for CachedRpcDeployment {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        self.rpc.run(query)
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        match then {
            ObjectAccess::Read(into) => {
                if let Some(object) = self.cache.lists().objects.get(&address)
                    && object.len() == into.len()
                {
                    into.copy_from_slice(object);
                    return Ok(());
                }
                self.rpc.access(address, ObjectAccess::Read(into))?;
                self.cache.lists().objects.put(address, (&*into).into());
            }
            ObjectAccess::Write(bytes) => {
                self.cache.lists().objects.pop(&address);
                self.rpc.access(address, ObjectAccess::Write(bytes))?;
            }
        }
        Ok(())
    }

    fn run_then(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        then: ObjectAccess<'_>,
    ) -> Result<TraversalOutcome, DeploymentError> {
        match then {
            ObjectAccess::Read(into) => {
                let outcome = self.rpc.run_then(query, word, ObjectAccess::Read(into))?;
                let address = outcome.word(word);
                self.cache.lists().objects.put(address, (&*into).into());
                Ok(outcome)
            }
            ObjectAccess::Write(bytes) => {
                let outcome = self.rpc.run_then(query, word, ObjectAccess::Write(bytes))?;
                // Removed after the write, because only the result has the address.
                self.cache.lists().objects.pop(&outcome.word(word));
                Ok(outcome)
            }
        }
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        self.rpc.insert(tree, key, value)
    }

    fn recall(&mut self, key: u64) -> Option<u64> {
        self.cache.lists().values.get(&key).copied()
    }

    fn remember(&mut self, key: u64, value: u64) {
        self.cache.lists().values.put(key, value);
    }

    fn round_trips(&self) -> u64 {
        self.rpc.round_trips()
    }
}
