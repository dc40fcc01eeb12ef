//! A client's way to the memory nodes.

use crate::address::{GlobalAddress, NodeId};
use crate::error::FabricError;
use crate::verb::Verb;
use std::future::Future;
use std::time::Duration;

/// A client's way to the memory nodes.
///
/// A client may have many posts under way at once, each awaited by a task of its own; they take
/// effect in the order in which they were first polled.
pub trait Endpoint {
    /// The memory nodes, in the order of their numbers.
    fn nodes(&self) -> Vec<NodeId>;

    /// What is read or written as one, in bytes, if it lies between two multiples of this: 64, a
    /// line, or 8, a word. An index whose layout relies on lines has to ask, and to refuse or to
    /// arm itself where it is told 8.
    fn atomic_bytes(&self) -> u64;

    /// Does verbs with one notification of each node (a *doorbell*): in order on each node, and
    /// independently on different ones. Ends when all are done, after one round trip if they go to
    /// one node.
    ///
    /// # Errors
    /// `NoSuchNode`, `OutOfRange`, `Misaligned` before anything is done. `NodeLost`: each verb may
    /// have been done or not, also in part.
    fn post(&self, verbs: &mut [Verb<'_>]) -> impl Future<Output = Result<(), FabricError>>;

    /// Writes bytes and waits for nothing: that they are there is known when a later verb to the
    /// same node is done.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post), as far as is known at once.
    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError>;

    /// As [`post`](Endpoint::post) if it begins before the clock says `deadline`; else nothing is
    /// done, and the answer is false. For what may be changed only until then.
    ///
    /// A process may be interrupted between its look at the clock and what follows, for any time.
    /// Where it does the verbs itself, as in shared memory, others have it end by
    /// [`settle`](Endpoint::settle).
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [Verb<'_>],
    ) -> impl Future<Output = Result<bool, FabricError>> {
        async move {
            if self.now() >= deadline {
                return Ok(false);
            }
            self.post(verbs).await.map(|()| true)
        }
    }

    /// As [`write_unsignalled`](Endpoint::write_unsignalled) until a deadline, like
    /// [`post_by`](Endpoint::post_by).
    ///
    /// # Errors
    /// As [`post`](Endpoint::post), as far as is known at once.
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

    /// Waits until all that others have begun by [`post_by`](Endpoint::post_by) before now has
    /// taken effect, or its process has died. To be called by who changes what was theirs, once
    /// their deadlines are over by a margin.
    ///
    /// Where adapters do the verbs nothing is waited for: it is assumed that what is posted takes
    /// effect within the margin, and that no process is interrupted for so long between its look at
    /// the clock and the post.
    ///
    /// # Errors
    /// `NodeLost`.
    fn settle(&self) -> impl Future<Output = Result<(), FabricError>> {
        async { Ok(()) }
    }

    /// Has a node allocate memory for this client, aligned to
    /// [`LINE_BYTES`](crate::LINE_BYTES). What it holds is not specified. A call to the node's
    /// processor, which is slow: allocate chunks and divide them.
    ///
    /// # Errors
    /// `OutOfMemory`, `NoSuchNode`, `NodeLost`.
    fn allocate(
        &self,
        node: NodeId,
        bytes: u64,
    ) -> impl Future<Output = Result<GlobalAddress, FabricError>>;

    /// Gives memory back, by whichever client it was allocated: all that was allocated at once, or
    /// a part of it that begins at a line; a line is given back as a whole.
    ///
    /// # Errors
    /// `NotAllocated`, `NoSuchNode`, `NodeLost`.
    fn free(
        &self,
        address: GlobalAddress,
        bytes: u64,
    ) -> impl Future<Output = Result<(), FabricError>>;

    /// A clock that never goes back, the same for all endpoints of a process.
    fn now(&self) -> Duration;

    /// Waits.
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
        async move { self.post(&mut [Verb::Read { from, into }]).await }
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
        async move { self.post(&mut [Verb::Write { to, bytes }]).await }
    }

    /// Swaps a word if it is as expected, and answers what it was.
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
            let mut verbs = [Verb::compare_swap(at, expected, desired)];
            self.post(&mut verbs).await?;
            Ok(verbs[0].found().unwrap_or_default())
        }
    }

    /// Adds to a word, and answers what it was.
    ///
    /// # Errors
    /// As [`post`](Endpoint::post).
    fn add(
        &self,
        at: GlobalAddress,
        summand: u64,
    ) -> impl Future<Output = Result<u64, FabricError>> {
        async move {
            let mut verbs = [Verb::Add {
                at,
                summand,
                found: 0,
            }];
            self.post(&mut verbs).await?;
            Ok(verbs[0].found().unwrap_or_default())
        }
    }
}
