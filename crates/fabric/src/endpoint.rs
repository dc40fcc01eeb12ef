//! The trait of a client's access to the memory nodes.

use crate::address::{GlobalAddress, NodeId};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::future::Future;
use std::time::Duration;

/// Work of a client's processor besides its posts, by name, so that a model can charge for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProcessorWork {
    /// The lookup of the place where a key was found before, and the note of the place where it is
    /// now.
    Speculation,
}

/// The memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeMemoryUse {
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of allocated bytes: over UCX when the client connected, and in shared memory some
    /// milliseconds ago. `None` if only the node knows it.
    pub allocated_bytes: Option<u64>,
}

/// A client's access to the memory nodes.
///
/// A client may have many posts in flight, each awaited by a task of its own. They take effect in
/// the order of their first polls.
pub trait Endpoint {
    /// Returns the memory nodes, in the order of their numbers.
    fn nodes(&self) -> Vec<NodeId>;

    /// Returns false if the node is known to be lost, so that every verb to it fails at once. No
    /// round trip.
    fn is_reachable(&self, _node: NodeId) -> bool {
        true
    }

    /// Returns the atomic unit in bytes: 64 (a line) or 8 (a word). A read or write between two
    /// multiples of it is atomic. An index whose layout relies on lines must check this, and refuse
    /// or protect itself if it is 8.
    fn atomic_bytes(&self) -> u64;

    /// Posts verbs with one notification of each node (a *doorbell*). Each node executes them in
    /// order; different nodes are independent. The future ends when all verbs are done, after one
    /// round trip if they go to one node.
    ///
    /// # Errors
    /// `NoSuchNode`, `OutOfRange`, `Misaligned` before any verb has an effect. After `NodeLost`
    /// each verb may have had its effect or not, also in part.
    fn post(&self, verbs: &mut [FabricVerb<'_>]) -> impl Future<Output = Result<(), FabricError>>;

    /// Writes bytes without waiting. The write is done when a later verb to the same node is done.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post), as far as they are known at once.
    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError>;

    /// Makes the writes that [`write_unsignalled`](Endpoint::write_unsignalled) has put off, if the
    /// endpoint does that, so that they do not wait for the client's next post.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post), except for `NodeLost`.
    fn flush(&self) -> impl Future<Output = Result<(), FabricError>> {
        async { Ok(()) }
    }

    /// Posts like [`post`](Endpoint::post) if the post begins before `deadline` by the clock.
    /// Otherwise does nothing, and returns false. It serves changes that are allowed only until a
    /// deadline.
    ///
    /// The scheduler may interrupt a process for any time after it has read the clock. On
    /// transports where the process executes verbs itself, as in shared memory, other processes
    /// wait for its posts with [`settle`](Endpoint::settle).
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> impl Future<Output = Result<bool, FabricError>> {
        async move {
            if self.now() >= deadline {
                return Ok(false);
            }
            self.post(verbs).await.map(|()| true)
        }
    }

    /// Writes like [`write_unsignalled`](Endpoint::write_unsignalled) with a deadline, like
    /// [`post_by`](Endpoint::post_by).
    ///
    /// # Errors
    /// As [`post`](Endpoint::post), as far as they are known at once.
    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        if self.now() >= deadline {
            return Ok(false);
        }
        self.write_unsignalled(to, bytes).map(|()| true)
    }

    /// Waits until all posts that other clients began by [`post_by`](Endpoint::post_by) before now
    /// have taken effect, or their processes have died. A client calls this before it takes over
    /// the data of others, some margin after their deadlines.
    ///
    /// On transports where adapters execute verbs this does not wait. It assumes that a post takes
    /// effect within the margin, and that no process is interrupted for longer than the margin
    /// between its read of the clock and the post.
    ///
    /// # Errors
    /// `NodeLost`.
    fn settle(&self) -> impl Future<Output = Result<(), FabricError>> {
        async { Ok(()) }
    }

    /// Makes the replicas of guarded data equal, if the endpoint has any: the dead holder of a lock
    /// may have changed one of them. A client that has taken a lock over calls this with the
    /// address of the lock and all ranges of bytes that it guards, on any nodes, before it changes
    /// them or releases the lock. Returns false if the lock may be another client's by now, because
    /// the deadline has passed or the lock was lost with its node.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn align_replicas(
        &self,
        _deadline: Duration,
        _lock: GlobalAddress,
        _ranges: &[(GlobalAddress, u64)],
    ) -> impl Future<Output = Result<bool, FabricError>> {
        async { Ok(true) }
    }

    /// Reads bytes of the replica to which other reads do not go. A dead client may have changed
    /// that replica alone. A search for what it has left reads both, and this one first, because
    /// it may take over from the other one in between. Returns false if the endpoint has no such
    /// replica.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn read_backup(
        &self,
        _from: GlobalAddress,
        _into: &mut [u8],
    ) -> impl Future<Output = Result<bool, FabricError>> {
        async { Ok(false) }
    }

    /// Allocates memory on a node for this client, aligned to [`LINE_BYTES`](crate::LINE_BYTES).
    /// Its content is unspecified. This is a slow call to the node's processor, so allocate chunks
    /// and divide them.
    ///
    /// # Errors
    /// `OutOfMemory`, `NoSuchNode`, `NodeLost`.
    fn allocate(
        &self,
        node: NodeId,
        bytes: u64,
    ) -> impl Future<Output = Result<GlobalAddress, FabricError>>;

    /// Allocates these bytes of a node for this client, aligned to
    /// [`LINE_BYTES`](crate::LINE_BYTES), where another node has chosen the offset. Their content
    /// is unspecified. An endpoint without this call refuses, as if the bytes were not free.
    ///
    /// # Errors
    /// `OutOfMemory` if not all of the bytes are free, `NoSuchNode`, `NodeLost`.
    fn allocate_at(
        &self,
        address: GlobalAddress,
        bytes: u64,
    ) -> impl Future<Output = Result<(), FabricError>> {
        async move {
            let node = address.node();
            Err(FabricError::OutOfMemory { node, bytes })
        }
    }

    /// Returns the first line of a node from an address on that is allocated, or that is not; for
    /// the latter the end of the last allocation if there is none. It finds the memory that must be
    /// copied. The result is old once the node has allocated or freed other memory. An endpoint
    /// without this call refuses.
    ///
    /// # Errors
    /// `NotAllocated` without this call, `NoSuchNode`, `NodeLost`.
    fn find_memory(
        &self,
        from: GlobalAddress,
        _is_allocated: bool,
    ) -> impl Future<Output = Result<Option<GlobalAddress>, FabricError>> {
        async move {
            let (address, bytes) = (from, 0);
            Err(FabricError::NotAllocated { address, bytes })
        }
    }

    /// Frees memory, no matter which client allocated it: all of one allocation, or a part of it
    /// that begins at a line. Lines are freed as a whole.
    ///
    /// # Errors
    /// `NotAllocated`, `NoSuchNode`, `NodeLost`.
    fn free(
        &self,
        address: GlobalAddress,
        bytes: u64,
    ) -> impl Future<Output = Result<(), FabricError>>;

    /// Waits while the client's processor does some work, if a model counts its time. A real
    /// processor takes the time itself, so this does nothing.
    fn charge(&self, _work: ClientProcessorWork) -> impl Future<Output = ()> {
        async {}
    }

    /// Returns the time of a monotonic clock, the same for all endpoints of a process.
    fn now(&self) -> Duration;

    /// Waits for `time`.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()>;

    /// Reads bytes.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn read(
        &self,
        from: GlobalAddress,
        into: &mut [u8],
    ) -> impl Future<Output = Result<(), FabricError>> {
        async move { self.post(&mut [FabricVerb::Read { from, into }]).await }
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn write(
        &self,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), FabricError>> {
        async move { self.post(&mut [FabricVerb::Write { to, bytes }]).await }
    }

    /// Swaps a word if it equals `expected`, and returns the old word.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn compare_swap(
        &self,
        at: GlobalAddress,
        expected: u64,
        desired: u64,
    ) -> impl Future<Output = Result<u64, FabricError>> {
        async move {
            let mut verbs = [FabricVerb::compare_swap(at, expected, desired)];
            self.post(&mut verbs).await?;
            Ok(verbs[0].found().unwrap_or_default())
        }
    }

    /// Adds to a word, and returns the old word.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn add(
        &self,
        at: GlobalAddress,
        summand: u64,
    ) -> impl Future<Output = Result<u64, FabricError>> {
        async move {
            let mut verbs = [FabricVerb::Add {
                at,
                summand,
                found: 0,
            }];
            self.post(&mut verbs).await?;
            Ok(verbs[0].found().unwrap_or_default())
        }
    }
}
