//! A client's endpoint for nodes over UCX.

use super::error::UcxError;
use super::guess::Guesses;
use super::message::{Introduction, UcxReply, UcxRequest};
use super::node::resolve;
use super::post::Post;
use super::worker::{Transfer, UcxConnection, UcxRemoteKey, UcxWorker};
use crate::address::{GlobalAddress, LINE_BYTES, NodeId};
use crate::chunks::Chunks;
use crate::endpoint::{Endpoint, NodeMemoryUse};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Time without any reply after which a node is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time without the reply to a request after which a node is lost, even if it replies to others. A
/// node executes requests in the order of their arrival, so each waits for those before it only.
const REPLY_MAX: Duration = Duration::from_secs(60);
/// Largest time for which a task that waits blocks other tasks of its thread.
const TURN: Duration = Duration::from_micros(200);
/// Time for which a client polls for a reply before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// The shortest time after which the system wakes a thread.
const BLINK: Duration = Duration::from_micros(10);
/// Time for which a client that ends waits for its unsignalled writes.
const FAREWELL: Duration = Duration::from_secs(1);

/// The start of the clock of all endpoints of this process.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A client's access to nodes over UCX. Clones belong to the same client, and stay with its thread.
/// See the [module](super).
#[derive(Clone)]
pub struct UcxEndpoint {
    client: Rc<UcxClient>,
}

/// A client: its connections and its transfers in flight.
pub struct UcxClient {
    /// The nodes, in the order of their numbers.
    pub nodes: Vec<UcxAttachedNode>,
    /// The addresses of the nodes, as they were given, in the same order.
    addresses: Vec<String>,
    pub worker: Rc<UcxWorker>,
    /// The time of the last event.
    heard: Cell<Instant>,
    waiters: RefCell<Waiters>,
    /// The transfers that no task waits for.
    orphans: RefCell<Vec<Transfer>>,
    calls: RefCell<HashMap<u64, UcxCall>>,
    next_number: Cell<u64>,
    pub guesses: Guesses,
}

/// The waiting tasks, and the one of them that polls for events: one is enough.
#[derive(Default)]
struct Waiters {
    count: usize,
    looking: Option<u64>,
    /// Number of polls of other waiters since that one has polled for events.
    passed: usize,
}

/// A node that a client is attached to.
pub struct UcxAttachedNode {
    pub number: NodeId,
    pub size: u64,
    /// Number of allocated bytes of its memory when the client connected.
    allocated: u64,
    /// True if the node executes verbs only by messages.
    pub by_messages: bool,
    /// The start of its memory, in its own addresses.
    pub base: u64,
    pub key: Rc<UcxRemoteKey>,
    /// The connection; `None` once the node is lost.
    pub connection: RefCell<Option<UcxConnection>>,
    /// The time of its last reply.
    pub heard: Cell<Instant>,
    /// True if a change was issued since the last fence.
    pub changed: Cell<bool>,
    pub read_by: Cell<Option<u64>>,
}

/// A call to a node's processor.
struct UcxCall {
    node: usize,
    /// True if the call allocates. It decides how to handle a reply that no task waits for.
    allocates: bool,
    awaited: bool,
    answer: Option<UcxReply>,
}

/// A guard of a call that a task waits for.
pub struct UcxPendingCall<'c> {
    client: &'c UcxClient,
    number: u64,
}

impl UcxPendingCall<'_> {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes the reply, if it has arrived.
    pub fn answer(&self) -> Option<UcxReply> {
        let calls = &mut *self.client.calls.borrow_mut();
        // A call stays registered until its reply is taken.
        calls.get(&self.number)?.answer.as_ref()?;
        calls.remove(&self.number)?.answer
    }
}

impl Drop for UcxPendingCall<'_> {
    fn drop(&mut self) {
        let calls = &mut *self.client.calls.borrow_mut();
        match calls.get_mut(&self.number) {
            // The node may still allocate memory for this call, so its reply must find the call.
            Some(call) if call.answer.is_none() => call.awaited = false,
            _ => drop(calls.remove(&self.number)),
        }
    }
}

/// A guard of a waiting task.
pub struct UcxTaskWaiter<'c> {
    client: &'c UcxClient,
    number: u64,
}

impl UcxClient {
    pub fn node(&self, node: NodeId) -> Result<usize, FabricError> {
        let found = self.nodes.binary_search_by_key(&node, |at| at.number);
        found.map_err(|_| FabricError::NoSuchNode { node })
    }

    pub fn next_number(&self) -> u64 {
        self.next_number.replace(self.next_number.get() + 1)
    }

    pub fn waiter(&self) -> UcxTaskWaiter<'_> {
        self.waiters.borrow_mut().count += 1;
        let number = self.next_number();
        UcxTaskWaiter {
            client: self,
            number,
        }
    }

    /// Keeps transfers without a waiting task until they are done.
    pub fn adopt(&self, transfers: impl IntoIterator<Item = Transfer>) {
        let mut orphans = self.orphans.borrow_mut();
        for mut transfer in transfers {
            if transfer.poll().is_none() {
                orphans.push(transfer);
            }
        }
    }

    /// Polls for events, and handles those without a waiting task.
    fn look(&self) {
        let now = Instant::now();
        if self.worker.progress() {
            self.heard.set(now);
        } else if now - self.heard.get() > SPIN {
            // No event for long: leaves the processor to others.
            self.worker.wait(TURN);
            self.worker.progress();
        }
        self.orphans
            .borrow_mut()
            .retain_mut(|orphan| orphan.poll().is_none());
        while let Some(message) = self.worker.take_message() {
            self.take_answer(&message.bytes);
        }
        for node in &self.nodes {
            let connection = node.connection.borrow();
            // The borrow ends first, because `lose` takes the connection.
            let lost = connection.as_ref().is_some_and(UcxConnection::is_lost);
            drop(connection);
            if lost {
                self.lose(node);
            }
        }
    }

    /// Marks a node as lost: no task waits for requests to it any more.
    pub fn lose(&self, node: &UcxAttachedNode) -> FabricError {
        if let Some(connection) = node.connection.take() {
            self.adopt([connection.close(true)]);
        }
        FabricError::NodeLost { node: node.number }
    }

    /// Returns true if a node has been silent for too long after a request at this time.
    pub fn is_silent(&self, node: &UcxAttachedNode, asked: Instant) -> bool {
        is_overdue(asked.elapsed(), node.heard.get().elapsed())
    }

    fn take_answer(&self, message: &[u8]) {
        // The version was checked by the introduction, so ignore a message that does not decode.
        let Ok(answer) = UcxReply::decode(message, "") else {
            return;
        };
        let calls = &mut *self.calls.borrow_mut();
        // A peer may send any number.
        let Some(call) = calls.get_mut(&answer.number) else {
            return;
        };
        let node = &self.nodes[call.node];
        node.heard.set(Instant::now());
        if call.allocates && answer.done.is_some() {
            let reply = if call.awaited {
                UcxRequest::Taken
            } else {
                UcxRequest::Declined
            };
            self.say(node, reply.encode(answer.number));
        }
        if call.awaited {
            call.answer = Some(answer);
        } else {
            calls.remove(&answer.number);
        }
    }

    /// Sends a message to a node, unless it is lost.
    pub fn say(&self, node: &UcxAttachedNode, message: Vec<u8>) {
        if let Some(connection) = &*node.connection.borrow() {
            self.adopt([connection.send(message)]);
        }
    }

    /// Registers a call to a node that will be made next.
    pub fn awaited(&self, node: usize, allocates: bool) -> UcxPendingCall<'_> {
        let number = self.next_number();
        let call = UcxCall {
            node,
            allocates,
            awaited: true,
            answer: None,
        };
        let former = self.calls.borrow_mut().insert(number, call);
        debug_assert!(former.is_none(), "the number of a call is new");
        UcxPendingCall {
            client: self,
            number,
        }
    }

    /// Calls a node's processor. Returns its reply, or `None` if the call fails.
    async fn call(&self, node: NodeId, request: UcxRequest) -> Result<Option<u64>, FabricError> {
        let index = self.node(node)?;
        let attached = &self.nodes[index];
        let waiter = self.waiter();
        let allocates = matches!(
            request,
            UcxRequest::Allocate { .. } | UcxRequest::AllocateAt { .. }
        );
        let awaited = self.awaited(index, allocates);
        self.say(attached, request.encode(awaited.number));
        let asked = Instant::now();
        poll_fn(|context| {
            waiter.look();
            if let Some(answer) = awaited.answer() {
                return Poll::Ready(Ok(answer.done));
            }
            if attached.connection.borrow().is_none() || self.is_silent(attached, asked) {
                return Poll::Ready(Err(self.lose(attached)));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// Returns true if a reply is not expected any more, by the time since the request and the time
/// since the node's last reply to any request.
fn is_overdue(since_request: Duration, since_reply: Duration) -> bool {
    // Any reply shows that the node lives, also one to an earlier request. But a node that leaves
    // one request out must not keep its client waiting for ever.
    since_request.min(since_reply) > PATIENCE || since_request > REPLY_MAX
}

impl UcxTaskWaiter<'_> {
    /// Polls for events, unless another waiter does so.
    pub fn look(&self) {
        {
            let waiters = &mut *self.client.waiters.borrow_mut();
            let other = waiters
                .looking
                .is_some_and(|looking| looking != self.number);
            // A task that has not been polled for long may never be polled again, so this one
            // replaces it.
            if other && waiters.passed < 2 * waiters.count {
                waiters.passed += 1;
                return;
            }
            waiters.looking = Some(self.number);
            waiters.passed = 0;
        }
        self.client.look();
    }
}

impl Drop for UcxTaskWaiter<'_> {
    fn drop(&mut self) {
        let waiters = &mut *self.client.waiters.borrow_mut();
        debug_assert!(waiters.count > 0);
        waiters.count -= 1;
        if waiters.looking == Some(self.number) {
            waiters.looking = None;
        }
    }
}

impl Drop for UcxClient {
    /// Waits for unsignalled writes to arrive, if the nodes accept them in time.
    fn drop(&mut self) {
        let connections = self.nodes.iter().filter_map(|node| node.connection.take());
        let mut closing: Vec<Transfer> = connections.map(|one| one.close(false)).collect();
        let orphans = self.orphans.get_mut();
        let begin = Instant::now();
        while !(closing.is_empty() && orphans.is_empty()) && begin.elapsed() < FAREWELL {
            if !self.worker.progress() && begin.elapsed() > SPIN {
                self.worker.wait(TURN);
            }
            closing.retain_mut(|transfer| transfer.poll().is_none());
            orphans.retain_mut(|transfer| transfer.poll().is_none());
        }
    }
}

impl UcxEndpoint {
    /// Connects to the nodes at these addresses, each `HOST:PORT`.
    ///
    /// # Errors
    /// `Library`, `Old`, `Address`, `Absent` after 5 s at most, `Foreign`, `Version`, `Mapped`,
    /// `SameNumber`, `Refused`. All except `SameNumber` are of the first node that cannot be
    /// connected to.
    pub fn connect<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<UcxEndpoint, UcxError> {
        let worker = UcxWorker::new()?;
        let mut nodes = Vec::new();
        for address in addresses {
            let address = address.as_ref();
            nodes.push((attach(&worker, address)?, address.to_owned()));
        }
        nodes.sort_by_key(|(node, _)| node.number);
        for pair in nodes.windows(2) {
            let [(one, address), (two, other)] = pair else {
                continue;
            };
            if one.number == two.number {
                return Err(UcxError::SameNumber {
                    address: address.clone(),
                    other: other.clone(),
                    node: one.number,
                });
            }
        }
        let now = Instant::now();
        let (nodes, addresses) = nodes.into_iter().unzip();
        let client = UcxClient {
            nodes,
            addresses,
            worker,
            heard: Cell::new(now),
            waiters: RefCell::default(),
            orphans: RefCell::default(),
            calls: RefCell::default(),
            next_number: Cell::new(1),
            guesses: Guesses::new(),
        };
        Ok(UcxEndpoint {
            client: Rc::new(client),
        })
    }

    /// Connects like [`connect`](UcxEndpoint::connect), and leaves out nodes that do not respond,
    /// unless none does. Each of them takes up to 5 s.
    ///
    /// # Errors
    /// As [`connect`](UcxEndpoint::connect).
    pub fn connect_reachable<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<UcxEndpoint, UcxError> {
        let addresses = addresses.into_iter().map(|it| it.as_ref().to_owned());
        let mut addresses: Vec<String> = addresses.collect();
        loop {
            // Each try has a worker of its own: a late reply of one node must not be taken for that
            // of another.
            match UcxEndpoint::connect(&addresses) {
                Err(UcxError::Absent { address, .. }) if addresses.len() > 1 => {
                    addresses.retain(|other| *other != address);
                }
                connected => return connected,
            }
        }
    }

    /// Returns the number of the node at this address, as it was given to
    /// [`connect`](UcxEndpoint::connect); `None` if there is none.
    pub fn number_of(&self, address: &str) -> Option<NodeId> {
        let UcxClient {
            nodes, addresses, ..
        } = &*self.client;
        let mut listed = nodes.iter().zip(addresses);
        let (node, _) = listed.find(|(_, other)| *other == address)?;
        Some(node.number)
    }

    /// Returns the use of a node's memory when the endpoint was connected; `None` if it is not
    /// connected to it.
    pub fn memory_of(&self, node: NodeId) -> Option<NodeMemoryUse> {
        let node = &self.client.nodes[self.client.node(node).ok()?];
        Some(NodeMemoryUse {
            bytes: node.size,
            allocated_bytes: Some(node.allocated),
        })
    }

    /// Checks that all verbs can be executed, as far as is known at once.
    fn check(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        let nodes = &self.client.nodes;
        for verb in verbs {
            verb.check(nodes[self.client.node(verb.node())?].size)?;
        }
        for verb in verbs {
            let node = &nodes[self.client.node(verb.node())?];
            if node.connection.borrow().is_none() {
                return Err(FabricError::NodeLost { node: node.number });
            }
        }
        Ok(())
    }
}

/// Connects to a node and requests its introduction.
fn attach(worker: &Rc<UcxWorker>, address: &str) -> Result<UcxAttachedNode, UcxError> {
    let absent = |reason: &str| UcxError::Absent {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    let foreign = || UcxError::Foreign {
        address: address.to_owned(),
    };
    let connection = UcxConnection::connect(worker, resolve(address)?)?;
    let mut hello = connection.send(UcxRequest::Hello.encode(0));
    let begin = Instant::now();
    let message = loop {
        worker.progress();
        if connection.is_lost() || matches!(hello.poll(), Some(Err(_))) {
            return Err(absent("no reply, or one that is not from UCX"));
        }
        if let Some(message) = worker.take_message() {
            break message;
        }
        if begin.elapsed() > PATIENCE {
            return Err(absent("no reply for 5 s"));
        }
        worker.wait(TURN);
    };
    let answer = UcxReply::decode(&message.bytes, address)?;
    let base = answer.done.ok_or_else(foreign)?;
    let introduction = Introduction::decode(&answer.rest, base).ok_or_else(foreign)?;
    let key = UcxRemoteKey::new(&connection, &introduction.key)?;
    if key.is_mapped(base) {
        return Err(UcxError::Mapped {
            address: address.to_owned(),
        });
    }
    worker.fence().map_err(|status| UcxError::Refused {
        action: "order its operations".to_owned(),
        reason: worker.describe(status),
    })?;
    Ok(UcxAttachedNode {
        number: NodeId(introduction.node),
        size: introduction.size,
        allocated: introduction.allocated,
        by_messages: introduction.by_messages,
        base,
        key: Rc::new(key),
        connection: RefCell::new(Some(connection)),
        heard: Cell::new(Instant::now()),
        changed: Cell::new(false),
        read_by: Cell::new(None),
    })
}

impl Endpoint for UcxEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        self.client.nodes.iter().map(|node| node.number).collect()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        let index = self.client.node(node);
        index.is_ok_and(|index| self.client.nodes[index].connection.borrow().is_some())
    }

    fn atomic_bytes(&self) -> u64 {
        LINE_BYTES
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.check(verbs)?;
        let waiter = self.client.waiter();
        let mut post = Post::new(&self.client, verbs)?;
        poll_fn(|context| {
            // Another waiter may have handled the events of this post already.
            if let Poll::Ready(result) = post.advance() {
                return Poll::Ready(result);
            }
            waiter.look();
            let result = post.advance();
            if result.is_pending() {
                context.waker().wake_by_ref();
            }
            result
        })
        .await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        let mut verbs = [FabricVerb::Write { to, bytes }];
        self.check(&verbs)?;
        let mut post = Post::new(&self.client, &mut verbs)?;
        post.begin()
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        let offset = self
            .client
            .call(node, UcxRequest::Allocate { bytes })
            .await?;
        let size = self.client.nodes[self.client.node(node)?].size;
        // No node of ours returns other offsets, but another program might.
        let offset = offset.filter(|&offset| Chunks::may_hold(size, offset, bytes));
        let offset = offset.ok_or(FabricError::OutOfMemory { node, bytes })?;
        Ok(GlobalAddress::new(node, offset))
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let (node, offset) = (address.node(), address.offset());
        let given = self
            .client
            .call(node, UcxRequest::AllocateAt { offset, bytes })
            .await?;
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
        let size = self.client.nodes[self.client.node(node)?].size;
        let request = UcxRequest::Find {
            offset,
            is_allocated,
        };
        let found = self.client.call(node, request).await?;
        // No node of ours returns other offsets, but another program might.
        let found = found.filter(|&found| found <= size);
        Ok(found.map(|found| GlobalAddress::new(node, found)))
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let offset = address.offset();
        let freed = self
            .client
            .call(address.node(), UcxRequest::Free { offset, bytes })
            .await?;
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
            if self.client.waiters.borrow().count > 0 {
                // Other waiters poll for events, and sleep if there are none.
            } else if rest < BLINK {
                thread::yield_now();
            } else {
                self.client.look();
                thread::sleep(rest.min(TURN));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl std::fmt::Debug for UcxEndpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes();
        formatter
            .debug_struct("UcxEndpoint")
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_leaves_one_request_out_is_lost_in_the_end() {
        const TICK: Duration = Duration::from_millis(1);
        assert!(!is_overdue(PATIENCE, PATIENCE));
        assert!(is_overdue(PATIENCE + TICK, PATIENCE + TICK));
        assert!(!is_overdue(PATIENCE + TICK, TICK));
        assert!(!is_overdue(TICK, PATIENCE + TICK));
        assert!(!is_overdue(REPLY_MAX, TICK));
        assert!(is_overdue(REPLY_MAX + TICK, TICK));
    }
}
