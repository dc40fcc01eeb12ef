//! Remote memory as swap space: traversals run at the caller, over pages in its cache. Writes go to
//! the memory node at once, and to pages in the cache.

use super::super::calls::{NodeCall, NodeCallClients};
use super::super::deployment::{Deployment, DeploymentError, ObjectAccess, done};
use super::programs::copy;
use super::remote_heap::{self, Reserve};
use lru::LruCache;
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{
    AccessError, InMemory, QueryRunner, TraversalMemory, TraversalOutcome, TraversalQuery,
};
use std::cell::RefCell;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: u64 = 4096;
const ITERATIONS: u64 = 1 << 20;

/// The cached pages that the callers of a machine share, by number.
#[derive(Debug)]
pub(in super::super) struct PageCache(Mutex<LruCache<u64, Box<[u8]>>>);

impl PageCache {
    /// Creates a cache of this many bytes, at least a page.
    pub(in super::super) fn new(bytes: u64) -> PageCache {
        let pages = NonZero::new((bytes / PAGE_BYTES) as usize);
        PageCache(Mutex::new(LruCache::new(
            pages.unwrap_or(NonZero::<usize>::MIN),
        )))
    }

    fn pages(&self) -> MutexGuard<'_, LruCache<u64, Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory behind the cache.
struct PagedNodeMemory {
    servers: RefCell<NodeCallClients>,
    cache: Arc<PageCache>,
    failure: RefCell<Option<DeploymentError>>,
}

/// Splits `address..address + bytes` into its part on each page: the page, the offset in it, and
/// the range in the bytes.
fn parts(address: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = address + from as u64;
        let (page, offset) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
        let count = (bytes - from).min(PAGE_BYTES as usize - offset);
        let part = (page, offset, from..from + count);
        from += count;
        (count > 0).then_some(part)
    })
}

impl PagedNodeMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DeploymentError> {
        for (page, place, part) in parts(address, into.len()) {
            let into = into.get_mut(part).unwrap_or_default();
            if let Some(bytes) = self.cache.pages().get(&page) {
                copy(
                    bytes.get(place..place + into.len()).unwrap_or_default(),
                    into,
                )?;
                continue;
            }
            // The cache is not locked during the call: others may read the same page meanwhile.
            let mut servers = self.servers.borrow_mut();
            let reply = servers.call(&NodeCall::Read {
                address: page * PAGE_BYTES,
                bytes: PAGE_BYTES as u32,
            })?;
            copy(
                reply.get(place..place + into.len()).unwrap_or_default(),
                into,
            )?;
            self.cache.pages().put(page, reply.into());
        }
        Ok(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeploymentError> {
        let call = NodeCall::Write { address, bytes };
        self.servers.borrow_mut().call(&call)?;
        let mut pages = self.cache.pages();
        for (page, place, part) in parts(address, bytes.len()) {
            let bytes = bytes.get(part).unwrap_or_default();
            if let Some(cached) = pages.get_mut(&page) {
                let cached = cached.get_mut(place..place + bytes.len());
                copy(bytes, cached.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn record_failure(&self, done: Result<(), DeploymentError>) -> Result<(), AccessError> {
        done.map_err(|failure| {
            self.failure.replace(Some(failure));
            AccessError::Absent
        })
    }
}

impl TraversalMemory for PagedNodeMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.record_failure(self.read(address, into))
    }

    fn check_store(&self, _: u64, _: usize) -> Result<(), AccessError> {
        Ok(())
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.record_failure(self.write(address, bytes))
    }
}

pub(in super::super) struct PagingDeployment {
    runner: InMemory<PagedNodeMemory>,
    reserve: Arc<Reserve>,
}

impl PagingDeployment {
    pub(in super::super) fn new(
        servers: NodeCallClients,
        cache: Arc<PageCache>,
        reserve: Arc<Reserve>,
    ) -> PagingDeployment {
        let pages = PagedNodeMemory {
            servers: servers.into(),
            cache,
            failure: RefCell::default(),
        };
        PagingDeployment {
            runner: InMemory::new(pages),
            reserve,
        }
    }
}

impl Deployment for PagingDeployment {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        let Ok(outcome) = self.runner.run(query, ITERATIONS);
        match self.runner.memory.failure.take() {
            Some(failure) => Err(failure),
            None => done(outcome),
        }
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        match then {
            ObjectAccess::Read(into) => self.runner.memory.read(address, into),
            ObjectAccess::Write(bytes) => self.runner.memory.write(address, bytes),
        }
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        let reserve = Arc::clone(&self.reserve);
        remote_heap::insert(self, &reserve, tree, (key, value))
    }

    fn round_trips(&self) -> u64 {
        self.runner.memory.servers.borrow().calls()
    }
}
