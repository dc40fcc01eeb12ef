//! A client's endpoint for nodes in shared memory.

use super::call::{ShmCall, ShmRequest};
use super::error::ShmError;
use super::object::ShmObject;
use super::place::{PostSlotGuard, UnderWay};
use crate::address::{GlobalAddress, NodeId, WORD_BYTES};
use crate::chunks::Chunks;
use crate::endpoint::{Endpoint, NodeMemoryUse};
use crate::error::FabricError;
use crate::transport::copy;
use crate::verb::{FabricVerb, MaskedSwap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Interval of checks if the process of a node lives.
const CHECK: Duration = Duration::from_millis(100);
/// Largest time to wait for a call to a living node.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest time for which a task that waits blocks other tasks of its thread.
const TURN: Duration = Duration::from_micros(200);
/// The shortest time after which the system wakes a thread.
const BLINK: Duration = Duration::from_micros(10);

/// The start of the clock of all endpoints of this process.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A client's access to nodes in shared memory. Clones belong to the same client. See the
/// [module](super).
#[derive(Clone, Debug)]
pub struct ShmEndpoint {
    /// The nodes, in the order of their numbers.
    nodes: Arc<[ShmAttachedNode]>,
    prefetches: bool,
}

#[derive(Debug)]
struct ShmAttachedNode {
    object: ShmObject,
    /// The last time when its process was seen alive: nanoseconds by the endpoint's clock.
    seen: AtomicU64,
}

impl ShmAttachedNode {
    /// Returns true if the node is served, as far as the client knows.
    fn is_up(&self, now: Duration) -> bool {
        if self.object.is_ended() {
            return false;
        }
        let now = now.as_nanos() as u64;
        let seen = self.seen.load(Ordering::Relaxed);
        if now.saturating_sub(seen) < CHECK.as_nanos() as u64 {
            return true;
        }
        // Stored before the look, so that other threads do not look at the same time.
        self.seen.store(now, Ordering::Relaxed);
        !self.object.is_forsaken()
    }

    fn word(&self, at: GlobalAddress) -> &AtomicU64 {
        debug_assert!(at.offset().is_multiple_of(WORD_BYTES));
        &self.object.mapping.words()[(at.offset() / WORD_BYTES) as usize]
    }
}

impl ShmEndpoint {
    /// Attaches to the nodes of these names.
    ///
    /// # Errors
    /// `Name`, `Absent`, `Foreign`, `Version`, `OtherSize`, `NotReady`, `Lost`, `SameNumber`,
    /// `System`. All except `SameNumber` are of the first node that cannot be attached to.
    pub fn attach<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<ShmEndpoint, ShmError> {
        let mut nodes = Vec::new();
        for name in names {
            let object = ShmObject::open(name.as_ref())?;
            let seen = AtomicU64::new(0);
            nodes.push(ShmAttachedNode { object, seen });
        }
        nodes.sort_by_key(|node| node.object.number);
        for pair in nodes.windows(2) {
            let [one, other] = [&pair[0].object, &pair[1].object];
            if one.number == other.number {
                return Err(ShmError::SameNumber {
                    name: one.name.clone(),
                    other: other.name.clone(),
                    node: one.number,
                });
            }
        }
        Ok(ShmEndpoint {
            nodes: nodes.into(),
            prefetches: false,
        })
    }

    /// Attaches like [`attach`](ShmEndpoint::attach), and leaves out nodes that are not served,
    /// unless none is.
    ///
    /// # Errors
    /// As [`attach`](ShmEndpoint::attach).
    pub fn attach_reachable<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<ShmEndpoint, ShmError> {
        let names = names.into_iter().map(|name| name.as_ref().to_owned());
        let mut names: Vec<String> = names.collect();
        loop {
            match ShmEndpoint::attach(&names) {
                Err(
                    ShmError::Absent { name }
                    | ShmError::NotReady { name }
                    | ShmError::Lost { name },
                ) if names.len() > 1 => names.retain(|other| *other != name),
                attached => return attached,
            }
        }
    }

    /// Changes the endpoint for a client with many posts in flight: the first poll of a post
    /// prefetches its memory, and the second executes it, so that the waits of many posts overlap.
    /// Posts of different tasks take effect in the order of their second polls.
    pub fn prefetching(self) -> ShmEndpoint {
        ShmEndpoint {
            prefetches: true,
            ..self
        }
    }

    /// Returns the number of the node of this name; `None` if the endpoint is not attached to it.
    pub fn number_of(&self, name: &str) -> Option<NodeId> {
        let mut objects = self.nodes.iter().map(|node| &node.object);
        let named = objects.find(|object| object.name == name)?;
        Some(named.number)
    }

    /// Returns the use of a node's memory; `None` if the endpoint is not attached to it.
    pub fn memory_of(&self, node: NodeId) -> Option<NodeMemoryUse> {
        let object = &self.node(node).ok()?.object;
        Some(NodeMemoryUse {
            bytes: object.bytes,
            allocated_bytes: Some(object.allocated_bytes()),
        })
    }

    /// Prefetches the memory that verbs will access, and lets other tasks run meanwhile.
    async fn prefetch(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        for (number, verb) in verbs.iter().enumerate() {
            let before = number.checked_sub(2).map(|number| verbs[number].address());
            if before == Some(verb.address()) {
                // The post reads this word before and after another read, so it is prefetched
                // already.
                continue;
            }
            let node = self.node(verb.node())?;
            let offset = verb.address().offset() as usize;
            node.object.mapping.prefetch(offset, verb.bytes() as usize);
        }
        let mut polled = false;
        poll_fn(|context| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Ok(())
    }

    #[inline]
    fn node(&self, node: NodeId) -> Result<&ShmAttachedNode, FabricError> {
        // Most pools of one machine have one node, which needs no search.
        if let [only] = &*self.nodes
            && only.object.number == node
        {
            return Ok(only);
        }
        let found = self
            .nodes
            .binary_search_by_key(&node, |at| at.object.number);
        let index = found.map_err(|_| FabricError::NoSuchNode { node })?;
        Ok(&self.nodes[index])
    }

    fn check_all(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        // Checks all verbs before the first one takes effect, so that a post fails as a whole.
        for verb in verbs {
            verb.check(self.node(verb.node())?.object.bytes)?;
        }
        let now = self.now();
        // Most verbs of a post are of one node, which needs one look.
        let mut last = None;
        for verb in verbs {
            let node = verb.node();
            if last.replace(node) != Some(node) && !self.node(node)?.is_up(now) {
                return Err(FabricError::NodeLost { node });
            }
        }
        Ok(())
    }

    /// Executes checked verbs. The module explains the fences.
    fn perform(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        let mut changed = false;
        for verb in verbs {
            let node = self.node(verb.node())?;
            match verb {
                FabricVerb::Read { from, into } => {
                    if std::mem::take(&mut changed) {
                        fence(Ordering::SeqCst);
                    }
                    copy::load(node.object.mapping.words(), from.offset() as usize, into);
                    fence(Ordering::Acquire);
                    continue;
                }
                FabricVerb::Write { to, bytes } => {
                    fence(Ordering::Release);
                    copy::store(node.object.mapping.words(), to.offset() as usize, bytes);
                }
                FabricVerb::Swap { at, swap, found } => *found = swap_word(node.word(*at), swap),
                FabricVerb::Add { at, summand, found } => {
                    *found = node.word(*at).fetch_add(*summand, Ordering::AcqRel);
                }
            }
            changed = true;
        }
        // A later post, also one of another task, must not read before these changes are visible.
        if changed {
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    /// Executes verbs, which were checked, unless the deadline has passed.
    fn perform_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        let mut first = None;
        let mut others = Vec::new();
        for (number, verb) in verbs.iter().enumerate() {
            let node = verb.node();
            // A place in each node suffices for all verbs of the post there.
            if verbs[..number].iter().any(|other| other.node() == node) {
                continue;
            }
            let taken = PostSlotGuard::take(self.node(node)?.object.mapping.header());
            match first {
                None => first = Some(taken),
                Some(_) => others.push(taken),
            }
        }
        // The clock is read after the places are taken: `settle` waits for a taken place, however
        // long the scheduler interrupts this thread.
        if self.now() >= deadline {
            return Ok(false);
        }
        self.perform(verbs)?;
        Ok(true)
    }

    /// Calls a node's processor. Returns the offset of the allocation, or `None` if the call fails.
    async fn call(&self, node: NodeId, request: ShmRequest) -> Result<Option<u64>, FabricError> {
        let attached = self.node(node)?;
        let header = attached.object.mapping.header();
        let until = self.now() + PATIENCE;
        let mut call = None;
        let answered = poll_fn(|context| {
            // All slots may be in use, so each turn tries it again.
            if call.is_none() && attached.is_up(self.now()) {
                call = ShmCall::make(header, request);
            }
            match &mut call {
                Some(call) => {
                    if let Some(answer) = call.wait(TURN) {
                        return Poll::Ready(Ok(answer));
                    }
                }
                None => thread::sleep(TURN),
            }
            let now = self.now();
            if now > until || !attached.is_up(now) {
                return Poll::Ready(Err(FabricError::NodeLost { node }));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        answered.await
    }
}

fn swap_word(word: &AtomicU64, swap: &MaskedSwap) -> u64 {
    let mut found = word.load(Ordering::Acquire);
    while let Some(desired) = swap.apply(found) {
        match word.compare_exchange_weak(found, desired, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(other) => found = other,
        }
    }
    found
}

impl Endpoint for ShmEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        let numbers = self.nodes.iter().map(|node| node.object.number);
        numbers.collect()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        // A verb marks a node whose process has died, for all clients.
        self.node(node).is_ok_and(|node| !node.object.is_ended())
    }

    fn atomic_bytes(&self) -> u64 {
        WORD_BYTES
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.check_all(verbs)?;
        if self.prefetches {
            self.prefetch(verbs).await?;
        }
        self.perform(verbs)
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        let verbs = &mut [FabricVerb::Write { to, bytes }];
        self.check_all(verbs)?;
        self.perform(verbs)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.check_all(verbs)?;
        self.perform_by(deadline, verbs)
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        let verbs = &mut [FabricVerb::Write { to, bytes }];
        self.check_all(verbs)?;
        self.perform_by(deadline, verbs)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        for node in &*self.nodes {
            let mut under_way = UnderWay::of(node.object.mapping.header());
            // No client takes over what was on a lost node. A post to it and to another one has a
            // place in the other one, too.
            while !under_way.are_done() && node.is_up(self.now()) {
                self.sleep(TURN).await;
            }
        }
        Ok(())
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        let offset = self.call(node, ShmRequest::Allocate { bytes }).await?;
        let size = self.node(node)?.object.bytes;
        // No node of ours returns other offsets, but another program might.
        let offset = offset.filter(|&offset| Chunks::may_hold(size, offset, bytes));
        let offset = offset.ok_or(FabricError::OutOfMemory { node, bytes })?;
        Ok(GlobalAddress::new(node, offset))
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let (node, offset) = (address.node(), address.offset());
        let given = self.call(node, ShmRequest::AllocateAt { offset, bytes });
        let given = given.await?;
        given
            .map(drop)
            .ok_or(FabricError::OutOfMemory { node, bytes })
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        let (node, offset) = (from.node(), from.offset());
        let request = ShmRequest::Find {
            offset,
            is_allocated,
        };
        let size = self.node(node)?.object.bytes;
        let found = self.call(node, request).await?;
        // No node of ours returns other offsets, but another program might.
        let found = found.filter(|&found| found <= size);
        Ok(found.map(|found| GlobalAddress::new(node, found)))
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let offset = address.offset();
        let freed = self.call(address.node(), ShmRequest::Free { offset, bytes });
        let freed = freed.await?;
        freed
            .map(drop)
            .ok_or(FabricError::NotAllocated { address, bytes })
    }

    fn now(&self) -> Duration {
        START.elapsed()
    }

    /// Sleeps. Other tasks of the same thread run meanwhile, if their executor has several.
    async fn sleep(&self, time: Duration) {
        let until = self.now() + time;
        poll_fn(|context| {
            let rest = until.saturating_sub(self.now());
            if rest.is_zero() {
                return Poll::Ready(());
            }
            if rest < BLINK {
                thread::yield_now();
            } else {
                thread::sleep(rest.min(TURN));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
